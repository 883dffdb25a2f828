"""Preparing a corpus with Apache Beam gives the files that one machine writes (make test-beam)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from conftest import TINY_TEXT

from nmt_keras.config import FilterConfig
from nmt_keras.corpus.preparing import prepare

pytestmark = pytest.mark.beam

FILTERS = FilterConfig(max_tokens=9, max_ratio=2.0)
COLUMNS = {"source_column": 0, "target_column": 1}


@pytest.fixture(scope="module")
def files(pairs, tmp_path_factory):
    """A hundred and twenty pairs, some of them twice, one untranslated and one line without a tab."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = [f"{pair.source}\t{pair.target}\n" for pair in [*pairs, *pairs[:7]]] + ["Tom\tTom\n", "no tab\n"]
    (folder / "a.tsv").write_text("".join(lines[:60]), "utf-8")
    with gzip.open(folder / "b.tsv.gz", "wt", encoding="utf-8") as file:
        file.writelines(lines[60:])
    return folder


@pytest.fixture(scope="module")
def both(files, tmp_path_factory):
    """The corpus as one machine prepares it, and the folder that the pipeline makes with the same vocabularies."""
    from nmt_keras.pipelines.preparing import prepare_files

    folder = tmp_path_factory.mktemp("prepared")
    sources = [files / "a.tsv", files / "b.tsv.gz"]
    one = prepare(sources, folder / "one", TINY_TEXT, TINY_TEXT, FILTERS, shards=5, **COLUMNS)
    record = prepare_files(
        str(files / "*.tsv*"),
        str(folder / "many"),
        str(folder / "one"),
        FILTERS,
        shards=5,
        options=["--runner=DirectRunner"],
        **COLUMNS,
    )
    return one, folder / "many", record


def test_the_shards_are_the_same_to_the_byte(both):
    one, many, _ = both
    for file in one.files:
        assert (many / Path(file).name).read_bytes() == Path(file).read_bytes()


def test_what_is_recorded_is_the_same(both):
    one, many, record = both
    assert record == one.record
    assert record["left_out"]["duplicate pairs"] == 5  # the other two are too long
    assert record["left_out"]["malformed lines"] == 1
    assert record == json.loads((many / "prepared.json").read_text())


def test_files_without_pairs_are_refused(both, tmp_path):
    from nmt_keras.pipelines.preparing import prepare_files

    (tmp_path / "a.tsv").write_text("no tab\n")
    with pytest.raises(ValueError, match=r"source: expected sentence pairs in .*a\.tsv, received .*malformed lines"):
        prepare_files(
            str(tmp_path / "a.tsv"),
            str(tmp_path / "out"),
            str(both[0].folder),
            FILTERS,
            shards=2,
            options=[],
            **COLUMNS,
        )
