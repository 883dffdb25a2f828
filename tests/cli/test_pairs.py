"""The pairs that ``nmt align`` and ``nmt score`` read from files."""

import pytest

from nmt_keras.cli.translate import Pairs

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
