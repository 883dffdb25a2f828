"""Bulk translation with Apache Beam writes the same files with every runner (make test-beam)."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import tensorflow as tf
from servers import ROOT
from tiny import contents

import nmt_keras
from nmt_keras.export import export
from nmt_keras.io.files import sole_writer

pytestmark = pytest.mark.beam


@pytest.fixture(scope="module")
def exported(translator, tmp_path_factory):
    """Version 1 of an export with random weights and beam search."""
    beam = translator.with_search(replace(translator.search, beam_size=3))
    return export(beam, tmp_path_factory.mktemp("saved_models") / "tiny")


@pytest.fixture(scope="module")
def sentences(pairs):
    return [pair.source for pair in pairs[:50]]


TOO_LONG = "palabra " * 100


def translate(files, output, model, *options):
    """Runs the command ``python -m nmt_keras.pipelines``."""
    arguments = ["--input", files, "--output", output, "--model", model, "--batch-size", 7, *options]
    command = [sys.executable, "-m", "nmt_keras.pipelines", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def files(sentences, tmp_path_factory):
    """Five files of ten sentences. The second has empty lines. The last is packed and has a long line."""
    folder = tmp_path_factory.mktemp("texts")
    texts = ["\n".join(sentences[begin : begin + 10]) for begin in range(0, 50, 10)]
    texts[1] += "\n\n   \n"
    for number, text in enumerate(texts[:4]):
        (folder / f"{number}.txt").write_text(text, "utf-8-sig")
    (folder / "4.txt").write_bytes(gzip.compress(f"{texts[4]}\n{TOO_LONG}\n".encode()))
    return folder / "*.txt*"


@pytest.fixture(scope="module")
def ran(exported, files, tmp_path_factory):
    """The result of the command and its output folder, which contained leftovers of an earlier run."""
    folder = tmp_path_factory.mktemp("bulk") / "out"
    folder.mkdir()
    for name in ("part-00000-00001.jsonl", "part-00000-00000.jsonl.0a1b.partial"):
        (folder / name).write_text("{}")
    run = translate(files, folder / "part", exported, "--runner=DirectRunner")
    assert run.returncode == 0, run.stderr
    return run, folder


@pytest.fixture(scope="module")
def records(ran):
    found = sorted(ran[1].glob("part-*.jsonl"))
    return [json.loads(line) for file in found for line in file.read_text("utf-8").splitlines()]


def test_every_line_is_translated_as_the_server_translates_it(records, exported, sentences):
    served = nmt_keras.load(exported)
    expected = served.translate(sentences)
    default = served.loaded.signatures["serving_default"](text=tf.constant(sentences))["translation"].numpy()
    assert [one.text for one in expected] == [text.decode() for text in default]
    for record, translation in zip(records, expected, strict=False):
        assert record["translation"] == translation.text
        assert record["score"] == pytest.approx(translation.score, abs=1e-5)
        assert record["log_prob"] == pytest.approx(translation.log_prob, abs=1e-4)


def test_a_worker_may_be_asked_for_greedy_translations(exported, sentences):
    from nmt_keras.pipelines.translation import translated_lines

    served = nmt_keras.load(exported)
    one_hypothesis = served.with_search(replace(served.search, beam_size=1))
    found = translated_lines(served, sentences[:5], 7, greedy=True)
    assert [one["translation"] for one in found] == [one.text for one in one_hypothesis.translate(sentences[:5])]


def test_every_line_that_is_not_empty_is_written_in_its_order_and_a_cut_one_is_marked_and_counted(
    ran, records, sentences
):
    assert [record["text"] for record in records] == [*sentences, TOO_LONG.strip()]
    assert [record["text"].startswith("palabra") for record in records if record["truncated"]] == [True]
    assert re.findall(r"\d+", ran[0].stdout) == [str(len(sentences) + 1), "1"]
    assert json.loads((ran[1] / "part.json").read_text()) == {"files": 5, "lines": 51, "truncated": 1}
    assert sorted(contents(ran[1])) == [*(f"part-0000{number}-00000.jsonl" for number in range(5)), "part.json"]


@pytest.mark.parametrize(
    "kill_after",
    ["nmt_keras.pipelines.translation:translated_lines,1", "os:rename,1"],
    ids=["while a block is translated", "when a block is written"],
)
def test_a_worker_that_is_killed_changes_no_byte_and_no_count(ran, files, exported, dask, tmp_path, kill_after):
    with dask(kill_after) as options:
        run = translate(files, tmp_path / "out" / "part", exported, *options)
    assert run.returncode == 0, run.stderr
    assert run.stdout == ran[0].stdout
    assert contents(tmp_path / "out") == contents(ran[1])


def test_a_finished_translation_is_not_written_over(ran, files, exported):
    before = contents(ran[1])
    run = translate(files, ran[1] / "part", exported)
    assert run.returncode == 1
    assert "part.json" in run.stderr
    assert contents(ran[1]) == before


def test_a_prefix_that_another_pipeline_writes_is_refused_and_its_files_stay(files, exported, tmp_path):
    (tmp_path / "part-00000-00000.jsonl").write_text("{}")
    with sole_writer(tmp_path, "part.lock"):
        run = translate(files, tmp_path / "part", exported)
    assert run.returncode == 1
    assert "another process" in run.stderr
    assert contents(tmp_path) == {"part-00000-00000.jsonl": b"{}"}


def test_a_prefix_that_beam_takes_for_a_pattern_is_refused(tmp_path):
    refused = translate(tmp_path / "a.txt", tmp_path / "out[1]" / "part", tmp_path)
    assert "output: expected a path without *, ? and [, received" in refused.stderr


def test_a_model_that_is_not_there_is_named(tmp_path):
    (tmp_path / "a.txt").write_text("uno\n")
    command = [sys.executable, "-m", "nmt_keras.pipelines", "--input", "a.txt", "--output", "out", "--model", "nowhere"]
    run = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 1
    assert "nowhere" in run.stderr
