"""Preparing a corpus with Apache Beam gives the files that one machine writes (make test-beam)."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest
from tiny import TINY_TEXT

from nmt_keras.config import FilterConfig
from nmt_keras.corpus.preparing import prepare

pytestmark = pytest.mark.beam

FILTERS = FilterConfig(max_tokens=9, max_ratio=2.0)
COLUMNS = {"source_column": 0, "target_column": 1}


@pytest.fixture(scope="module")
def files(pairs, tmp_path_factory):
    """A hundred and twenty pairs, some of them twice, one untranslated, and what files have beside pairs.

    That is: byte order marks at the beginning and elsewhere, ends of DOS, blank lines inside and at the end, a last
    line that is not ended, one without a tab.
    """
    folder = tmp_path_factory.mktemp("corpus")
    lines = [f"{pair.source}\t{pair.target}\n" for pair in [*pairs, *pairs[:7]]] + ["Tom\tTom\n", "no tab\n"]
    mark = "\ufeff"
    plain = [
        mark + lines[0],
        *lines[1:30],
        "\n",
        f"{mark}Sí.\tYes.\n",
        "\r\n",
        *lines[30:60],
        "Ya.\tNow.\r\n",
        "Eh.\tHey.\r",
    ]
    (folder / "a.tsv").write_bytes("".join(plain).encode())
    with gzip.open(folder / "b.tsv.gz", "wb") as file:
        file.write("".join([mark + lines[60], *lines[61:], "\n", "\n"]).encode())
    (folder / "c.tsv").write_bytes(gzip.compress(b"Ay.\tOh.\n"))  # its name does not say so
    with zipfile.ZipFile(folder / "d.tsv.zip", "w") as archive:
        archive.writestr("d.tsv", "Oh.\tAh.\n\n")
    return folder


@pytest.fixture(scope="module")
def both(files, tmp_path_factory):
    """The corpus as one machine prepares it, and the folder that the pipeline makes with the same vocabularies.

    The pipeline finds there what an earlier one left that was to write nine shards.
    """
    from nmt_keras.pipelines.preparing import prepare_files

    folder = tmp_path_factory.mktemp("prepared")
    sources = sorted(files.iterdir())
    one = prepare(sources, folder / "one", TINY_TEXT, TINY_TEXT, FILTERS, shards=5, max_malformed=0.03, **COLUMNS)
    (folder / "many" / "reports-of-shards").mkdir(parents=True)
    (folder / "many" / "reports-of-shards" / "shard-00003-of-00009").write_text(
        '{"file": "train-00000-of-00009.tfrecord", "pairs": 3, "duplicates": 0, "lengths": [[4, 4, 3]]}\n'
    )
    (folder / "many" / "source").mkdir()
    (folder / "many" / "source" / "text.json").write_text("{}")  # which is there before any shard
    for name in ("train-00000-of-00009.tfrecord", "train-00001-of-00009.tfrecord.0a1b.partial"):
        (folder / "many" / name).write_bytes(b"")
    record = prepare_files(
        str(files / "*.tsv*"),
        str(folder / "many"),
        str(folder / "one"),
        FILTERS,
        shards=5,
        max_malformed=0.03,
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
    assert record["left_out"]["malformed lines"] == 3  # the one without a tab, and two blank ones inside a file
    assert record["lines"] == 127 + 2 + 2 + 3 + 2
    assert record == json.loads((many / "prepared.json").read_text())


def test_what_an_earlier_preparation_left_is_removed(both):
    one, many, _ = both
    assert sorted(path.name for path in many.iterdir()) == sorted(path.name for path in one.folder.iterdir())


def prepared(files, folder, texts):
    """Runs the pipeline over what a pattern finds."""
    from nmt_keras.pipelines.preparing import prepare_files

    return prepare_files(str(files), str(folder), str(texts.folder), FILTERS, shards=2, options=[], **COLUMNS)


def test_a_prepared_corpus_is_not_written_over(files, both):
    one, many, record = both
    with pytest.raises(FileExistsError, match="many"):
        prepared(files / "a.tsv", many, one)
    assert json.loads((many / "prepared.json").read_text()) == record


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("no tab\n", r"a\.tsv.*1 of 1 .*missing column"),
        ("\n\n", r"a\.tsv.*empty"),
        ("Ay.\tOh.\n\n" + "Ay.\tOh.\n" * 49, r"a\.tsv.*1\.96%"),
        ("Tom\tTom\n", r"a\.tsv.*1 identical sides"),
    ],
)
def test_what_one_machine_refuses_is_refused_in_its_words(both, tmp_path, content, expected):
    file = tmp_path / "a.tsv"
    file.write_text(content)
    with pytest.raises(ValueError, match=expected):
        prepare([file], tmp_path / "one", TINY_TEXT, TINY_TEXT, FILTERS, **COLUMNS)
    with pytest.raises(ValueError, match=expected):
        prepared(file, tmp_path / "many", both[0])
    assert not (tmp_path / "many" / "prepared.json").exists()


def test_a_pattern_that_finds_nothing_is_named(both, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"source.*\*\.tsv"):
        prepared(tmp_path / "*.tsv", tmp_path / "out", both[0])


def test_a_column_below_the_first_is_refused(files, both, tmp_path):
    from nmt_keras.pipelines.preparing import prepare_files

    with pytest.raises(ValueError, match=r"source_column.*-1"):
        prepare_files(
            str(files / "a.tsv"),
            str(tmp_path),
            str(both[0].folder),
            FILTERS,
            source_column=-1,
            target_column=0,
            shards=1,
            options=[],
        )
