"""The Beam pipelines, on the runner that needs no cluster, in an environment that has apache-beam (make test-beam)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tensorflow as tf

import nmt_keras
from nmt_keras.export import export

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.beam


@pytest.fixture(scope="module")
def exported(translator, tmp_path_factory):
    """Version 1 of a tiny translator with random weights, which searches with a beam."""
    beam = translator.with_search(replace(translator.search, beam_size=3))
    return export(beam, tmp_path_factory.mktemp("saved_models") / "tiny")


@pytest.fixture(scope="module")
def sentences(pairs):
    return [pair.source for pair in pairs[:50]]


@pytest.fixture(scope="module")
def ran(exported, sentences, tmp_path_factory):
    """The command, run over two files, and the folder it wrote into."""
    folder = tmp_path_factory.mktemp("bulk")
    too_long = "palabra " * 100
    (folder / "a.txt").write_text("\n".join(sentences[:30]) + "\n\n   \n", "utf-8")
    (folder / "b.txt").write_text("\n".join([*sentences[30:], too_long]), "utf-8")
    arguments = ["--input", folder / "*.txt", "--output", folder / "out" / "part", "--model", exported]
    command = [sys.executable, "-m", "nmt_keras.pipelines", *arguments, "--batch-size", "7", "--runner=DirectRunner"]
    run = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return run, folder / "out"


@pytest.fixture(scope="module")
def records(ran):
    return [json.loads(line) for file in ran[1].glob("part-*.jsonl") for line in file.read_text("utf-8").splitlines()]


def test_every_line_is_translated_as_the_server_translates_it(records, exported, sentences):
    served = nmt_keras.load(exported)
    expected = [found[0] for found in served.translate_nbest(sentences)]
    default = served.loaded.signatures["serving_default"](text=tf.constant(sentences))["translation"].numpy()
    assert [one.text for one in expected] == [text.decode() for text in default]
    found = {record["text"]: record for record in records}
    for sentence, translation in zip(sentences, expected, strict=True):
        record = found[sentence]
        assert record["translation"] == translation.text
        assert record["score"] == pytest.approx(translation.score, abs=1e-5)
        assert record["log_prob"] == pytest.approx(translation.log_prob, abs=1e-4)


def test_a_worker_may_be_asked_for_greedy_translations(exported, sentences):
    from nmt_keras.pipelines.translation import TranslatorHandler

    handler = TranslatorHandler(str(exported), 7, greedy=True)
    found = handler.run_inference(sentences[:5], handler.load_model())
    assert [one.translation for one in found] == [one.text for one in nmt_keras.load(exported).translate(sentences[:5])]


def test_every_line_that_is_not_empty_is_written_and_a_cut_one_is_marked_and_counted(ran, records, sentences):
    texts = [record["text"] for record in records]
    assert sorted(texts) == sorted([*sentences, ("palabra " * 100).strip()])
    assert [record["text"].startswith("palabra") for record in records if record["truncated"]] == [True]
    assert re.findall(r"\d+", ran[0].stdout) == [str(len(sentences) + 1), "1"]


def test_a_model_that_is_not_there_is_named(tmp_path):
    (tmp_path / "a.txt").write_text("uno\n")
    command = [sys.executable, "-m", "nmt_keras.pipelines", "--input", "a.txt", "--output", "out", "--model", "nowhere"]
    run = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 1
    assert "nowhere" in run.stderr
