"""Preparing a corpus with Apache Beam writes the same files as ``nmt prepare`` on one machine (make test-beam)."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest
from tiny import TINY_TEXT, contents, zipped

from nmt_keras.config import FilterConfig
from nmt_keras.corpus import columns
from nmt_keras.corpus.preparing import prepare
from nmt_keras.io.files import sole_writer

pytestmark = pytest.mark.beam

FILTERS = FilterConfig(max_tokens=9, max_ratio=2.0)
COLUMNS = {"source_column": 0, "target_column": 1}


def prepare_by_beam(files, folder, texts, **fields):
    """Runs the pipeline on the files that a pattern matches."""
    from nmt_keras.pipelines.preparing import prepare_files

    fields = {"shards": 2, "options": ["--runner=DirectRunner"], **fields}
    prepare_files(str(files), str(folder), str(texts), FILTERS, **fields)


@pytest.fixture(scope="module")
def files(pairs, tmp_path_factory):
    """Files with 120 pairs, some of them twice, one untranslated pair, and irregular lines.

    The irregularities are byte order marks at the beginning and elsewhere, DOS line ends, blank lines inside and at the
    end, a line without a tab, and a last line without a line end.
    """
    folder = tmp_path_factory.mktemp("corpus")
    lines = [f"{pair.source}\t{pair.target}\n" for pair in [*pairs, *pairs[:7]]] + ["Tom\tTom\n", "no tab\n"]
    mark = "\ufeff"
    middle = ["\n", f"{mark}Sí.\tYes.\n", "\r\n"]
    plain = [mark, *lines[:30], *middle, *lines[30:60], "Ya.\tNow.\r\n", "Eh.\tHey.\r"]
    (folder / "a.tsv").write_bytes("".join(plain).encode())
    (folder / "b.tsv.gz").write_bytes(gzip.compress("".join([mark, *lines[60:], "\n", "\n"]).encode()))
    (folder / "c.tsv").write_bytes(gzip.compress(b"Ay.\tOh.\n"))  # compressed, although the name has no .gz
    (folder / "d.tsv.zip").write_bytes(zipped({"d.tsv": b"Oh.\tAh.\n\n"}))
    return folder


@pytest.fixture(scope="module")
def both(files, tmp_path_factory):
    """A corpus prepared on one machine, and the folder that the pipeline writes with the same vocabularies.

    The folder contains leftovers of an earlier pipeline for nine shards.
    """
    folder = tmp_path_factory.mktemp("prepared")
    one, many = folder / "one", folder / "many"
    corpus = prepare(
        sorted(files.iterdir()), one, TINY_TEXT, TINY_TEXT, FILTERS, shards=5, max_malformed=0.03, **COLUMNS
    )
    leftovers = {
        "prepared.json.reports.partial": "{}",
        "prepared.json.reports.partial.0a1b.partial": "",
        "source/text.json": "{}",
        "train-00000-of-00009.tfrecord": "",
        "train-00001-of-00009.tfrecord.0a1b.partial": "",
    }
    for name, content in leftovers.items():
        (many / name).parent.mkdir(parents=True, exist_ok=True)
        (many / name).write_text(content)
    prepare_by_beam(files / "*.tsv*", many, one, shards=5, max_malformed=0.03)
    return corpus, many


def test_shards_and_record_are_the_same_and_leftovers_are_removed(both):
    one, many = both
    for file in one.files:
        assert (many / Path(file).name).read_bytes() == Path(file).read_bytes()
    assert sorted(path.name for path in many.iterdir()) == sorted(path.name for path in one.folder.iterdir())
    record = json.loads((many / "prepared.json").read_text())
    assert record == one.record
    assert record["left_out"]["duplicate pairs"] == 5  # the other two duplicates are too long
    assert record["left_out"]["malformed lines"] == 3  # one line without a tab, and two blank lines inside a file
    assert record["lines"] == 127 + 2 + 2 + 3 + 2


def test_a_prepared_corpus_is_not_written_over(files, both):
    one, many = both
    with pytest.raises(FileExistsError, match="many"):
        prepare_by_beam(files / "a.tsv", many, one.folder)
    assert json.loads((many / "prepared.json").read_text()) == one.record


def test_a_folder_that_another_pipeline_or_command_writes_is_refused(files, both, tmp_path):
    with sole_writer(tmp_path / "corpus"):
        (tmp_path / "corpus" / "prepared.json.reports.partial").touch()
        with pytest.raises(ValueError, match="another process"):
            prepare_by_beam(files / "a.tsv", tmp_path / "corpus", both[0].folder)
        assert (tmp_path / "corpus" / "prepared.json.reports.partial").exists()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("no tab\n", r"a\.tsv.*1 of 1 .*missing column"),
        ("\n\n", r"a\.tsv.*0 of 0 lines"),
        ("Ay.\tOh.\n\n" + "Ay.\tOh.\n" * 49, r"a\.tsv.*1\.96%"),
        ("Tom\tTom\n", r"a\.tsv.*1 identical sides"),
    ],
)
def test_both_refuse_the_same_files_with_the_same_words(both, tmp_path, content, expected):
    file = tmp_path / "a.tsv"
    file.write_text(content)
    with pytest.raises(ValueError, match=expected):
        prepare([file], tmp_path / "one", TINY_TEXT, TINY_TEXT, FILTERS, **COLUMNS)
    with pytest.raises(ValueError, match=expected):
        prepare_by_beam(file, tmp_path / "many", both[0].folder)
    assert not (tmp_path / "many" / "prepared.json").exists()


@pytest.mark.parametrize(
    ("fields", "error", "expected"),
    [
        ({"source_column": -1}, ValueError, "source_column.*-1"),
        ({"shards": 0}, ValueError, "shards.*0"),
        ({}, FileNotFoundError, r"source.*\*\.none"),
    ],
)
def test_bad_arguments_are_refused_before_the_pipeline_runs(files, both, tmp_path, fields, error, expected):
    with pytest.raises(error, match=expected):
        prepare_by_beam(files / "*.none", tmp_path / "out", both[0].folder, **fields)


def test_missing_vocabularies_are_named(files, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere/source"):
        prepare_by_beam(files / "*.tsv", tmp_path / "out", tmp_path / "nowhere")


@pytest.mark.parametrize(
    "kill_after",
    ["nmt_keras.pipelines.preparing:encoded,2", "nmt_keras.corpus.shards:write_shard,2"],
    ids=["while pairs are encoded", "when a shard is written"],
)
def test_a_worker_that_is_killed_changes_no_byte_and_no_count(files, both, dask, tmp_path, kill_after):
    one, _ = both
    with dask(kill_after) as options:
        prepare_by_beam(files / "*.tsv*", tmp_path / "many", one.folder, shards=5, max_malformed=0.03, options=options)
    assert contents(tmp_path / "many") == contents(one.folder)


@pytest.mark.parametrize("order", [{}, {"reverse": True}, {"source_column": 0, "target_column": 1}], ids=str)
def test_both_take_the_same_columns_of_the_spanish_english_file(pairs, tmp_path, monkeypatch, order):
    text = "".join(f"{pair.target}\t{pair.source}\n" for pair in pairs)
    monkeypatch.setattr(columns, "SPANISH_ENGLISH_SHA256", hashlib.sha256(text.encode()).hexdigest())
    (tmp_path / "mine.zip").write_bytes(zipped({"mine.txt": text.encode()}))
    one = prepare([tmp_path / "mine.zip"], tmp_path / "one", TINY_TEXT, TINY_TEXT, FILTERS, shards=2, **order)
    prepare_by_beam(tmp_path / "mine.zip", tmp_path / "many", one.folder, **order)
    assert contents(tmp_path / "many") == contents(one.folder)
