"""The pairs that ``nmt align`` and ``nmt score`` read from files, and the tables that ``nmt translate`` reads."""

import gzip
import json
from pathlib import Path

import pytest

import nmt_keras
from nmt_keras.cli.console import Console
from nmt_keras.cli.translate import CellTable, Pairs, Score
from nmt_keras.translation.records import TranslationScore

PAIR = ("Hola, tío.", "Hello.")


@pytest.mark.parametrize(
    ("name", "content", "columns", "told"),
    [
        ("a.tsv", "Hola, tío.\tHello.\n", {}, []),
        ("a.tsv", "Hola, tío.\tHello.\n", {"source_column": 0, "target_column": 1}, []),
        ("a.tsv", "Spanish\tEnglish\nHola, tío.\tHello.\n", {}, ["columns: source 0 'Spanish', target 1 'English'"]),
        ("a.tsv", "17\tHola, tío.\tHello.\n", {}, ["columns: source 1, target 2, not 0 ('17')"]),
        ("a.tsv", "x\tHello.\tHola, tío.\n", {"source_column": 2, "target_column": 1}, []),
        (
            "a.tsv",
            "My corpus\nSpanish\tEnglish\nHola, tío.\tHello.\n",
            {},
            ["columns: source 0 'Spanish', target 1 'English', 1 line before the header skipped"],
        ),
        ("a.csv", 'es,en\n"Hola, tío.",Hello.\n', {}, ["columns: source 0 'es', target 1 'en'"]),
    ],
)
def test_the_columns_of_a_table_are_found_as_in_training_and_said(tmp_path, name, content, columns, told):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    said = []
    assert list(Pairs(file=str(path), **columns).blocks(said.append)) == [[PAIR]]
    assert said == [f"{path}: {each}" for each in told]


@pytest.mark.parametrize("content", ["Hola.\n", "a b\tc d\te f\n", "es\ten\nHola.\tHello.\nx\n"])
def test_a_line_that_is_no_pair_is_located(tmp_path, content):
    path = tmp_path / "a.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"a\.tsv:{content.count(chr(10))}: expected source<TAB>target"):
        list(Pairs(file=str(path)).blocks(lambda _: None))


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.csv", b"es,en\nuno,\nd\xe9s,b\n,\n", {}),
        ("a.tsv", b"es\ten\nuno\t\nd\xe9s\tb\n\t\n", {}),
        ("a.tsv", b"es\ten\nuno\t\nd\xe9s\tb\n\t\n", {"source_column": "es"}),
        ("a.jsonl", b'{"es": "uno", "en": ""}\n{"es": "d\xe9s", "en": "b"}\n{"es": ""}\n', {}),
    ],
)
def test_rows_that_training_skips_are_pairs_unless_a_column_is_missing(tmp_path, name, content, columns):
    path, said = tmp_path / name, []
    path.write_bytes(content)
    assert list(Pairs(file=str(path), **columns).blocks(said.append)) == [[("uno", ""), ("d\ufffds", "b"), ("", "")]]
    assert "U+FFFD replaces invalid UTF-8 or NUL in 1 line" in said[-1]


@pytest.mark.parametrize(
    ("name", "content", "column", "written"),
    [
        ("a.tsv", '1\t"Hola\n2\tAdios\n', "1", '1\t"HOLA\n2\tADIOS\n'),
        ("a.tsv", 'n\ttext\n7\t"Ja," sagte.\tx "y"\n\n8\n', "text", 'n\ttext\n7\t"JA," SAGTE.\tx "y"\n\n8\n'),
        ("a.tsv", '"x"\t"Di ""no""."\t"a ""b"""\n', "1", '"x"\t"DI ""NO""."\t"a ""b"""\n'),
        ("a.tsv", "a\tHola, tío\rmío, tú\n", "1", "a\tHOLA, TÍO MÍO, TÚ\n"),
        ("a.csv", 'sep=;\n"id";text\n7;"Sí, a;\nb"\n\n8\n', "text", 'sep=;\n"id";text\n7;"SÍ, A;\nB"\n\n8\n'),
        ("a.csv", "a,Ho\rla\n", "1", 'a,"HO\rLA"\n'),
        ("a.csv", "text\n", "text", "text\n"),
        ("a.csv", 'text\n"Sí, a."\nTom; yo.\n', "text", 'text\n"SÍ, A."\nTOM; YO.\n'),
        ("a.csv", '\n"# TEXTO";b\nx, y;z\n', "texto ", '\n"# TEXTO";b\nX, Y;z\n'),
        ("a.tsv", "\nn\tText\n1\ta\n", "text", "\nn\tText\n1\tA\n"),
    ],
)
def test_a_table_is_written_as_it_was_read_apart_from_its_column(tmp_path, name, content, column, written):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8", newline="")
    table = CellTable.read(str(path), name, column, pytest.fail)
    table.write([cell.upper() for cell in table.cells], str(path))
    assert path.read_bytes().decode() == written


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('id,text\n1,"Hola\n2,Adios\n3,"Si\n', ":2 invalid CSV: expected a table. Close each quote"),
        ("id,text\n1,a\n2,Hola, tío\n", ":3 more columns than other lines: expected a table. Put quotes"),
        ('1,"Hola\n2,Adios\n', ":1 invalid CSV: "),
        ("text\nHola.\nSí, claro.\n", ":3 more columns than other lines: expected a table. Put quotes"),
    ],
)
def test_a_malformed_row_of_a_table_is_located(tmp_path, content, message):
    path = tmp_path / "a.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=f"^the table{message}"):
        CellTable.read(str(path), "the table", "0", pytest.fail)


def test_json_lines_are_no_table_of_cells(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "Hola."}\n'))
    with pytest.raises(ValueError, match=r"--column: expected CSV, or a table with tabs, received .*jq -r"):
        CellTable.read(str(path), "a.jsonl.gz", "0", pytest.fail)


class Scorer:
    """Gives each character of a target, and its end, the log-probability -1; each z has -5."""

    def score(self, sources, targets):
        tokens = [[*target, ""] for target in targets]
        priced = [[-5.0 if token == "z" else -1.0 for token in each] for each in tokens]
        return [TranslationScore(sum(one), each, one, False) for one, each in zip(priced, tokens, strict=True)]


def scored(tmp_path, monkeypatch, capsys, **options):
    monkeypatch.setattr(nmt_keras, "load", lambda *_: Scorer())
    path = tmp_path / "a.tsv"
    path.write_text("uno\tabcd\ndos\tzz\ntres\tz\n\u200b\ta\n", encoding="utf-8")
    Score(path=Path("run"), pairs=Pairs(file=str(path)), **options)(Console())
    out, told = capsys.readouterr()
    assert "empty side in 1 pair of the input; the first is pair 4" in told
    return out.splitlines()


def test_a_score_is_printed_in_all_and_per_token(tmp_path, monkeypatch, capsys):
    assert scored(tmp_path, monkeypatch, capsys) == [
        "-5.0000\t-1.0000",
        "-11.0000\t-3.6667",
        "-6.0000\t-3.0000",
        "-2.0000\t-1.0000",
    ]


def test_the_worst_pairs_are_those_that_training_skips_and_those_with_the_lowest_scores_per_token(
    tmp_path, monkeypatch, capsys
):
    assert scored(tmp_path, monkeypatch, capsys, worst=3) == [
        "4\tempty side\t\u200b\ta",
        "2\t-3.6667\tdos\tzz",
        "3\t-3.0000\ttres\tz",
    ]
    rows = map(json.loads, scored(tmp_path, monkeypatch, capsys, worst=2, json=True))
    assert [(row["number"], row["fault"]) for row in rows] == [(4, "empty side"), (2, None)]
