"""Comparisons of systems: scores computed by hand, files that are read back, and valid Markdown tables."""

import re

import pytest

from nmt_keras.corpus import Pair
from nmt_keras.evaluation.comparison import compare, to_markdown, write_report
from nmt_keras.evaluation.metrics import AlignmentError
from nmt_keras.evaluation.report import Report
from nmt_keras.translation.records import Translation

PAIRS = [
    Pair("El gato negro duerme aquí.", "The black cat sleeps here."),
    Pair("¿Dónde vives tú ahora?", "Where do you live now?"),
    Pair("Tom compró tres manzanas rojas y dos peras.", "Tom bought three red apples and two pears."),
    Pair("Nunca la he visto antes.", "I have never seen her before."),
]


def report(texts: list[str], seconds: float = 2.0) -> Report:
    translations = [Translation(text, [*text.split(), ""], -0.5, -2.0, None, [], False) for text in texts]
    return Report(0.0, 0.0, 25.0, "", "", len(texts), seconds, translations)


RIGHT = [pair.target for pair in PAIRS]
WRONG = [RIGHT[0], "Where ⁇ you live | now?", RIGHT[2], "zzz"]


@pytest.fixture(scope="module")
def comparison():
    return compare(
        "four sentences",
        PAIRS,
        {"right": report(RIGHT), "wrong": report(WRONG, seconds=4.0)},
        {"right": "greedy", "wrong": "beam 5"},
        errors={"wrong": AlignmentError(0.25, 0.8, 0.7)},
        worst=2,
    )


def test_every_system_has_its_scores_and_the_first_is_the_baseline(comparison):
    right, wrong = comparison.systems
    assert right.bleu.mean == pytest.approx(100)
    assert wrong.bleu.mean < 100
    assert right.bleu.p is right.chrf.p is None
    assert 0 < wrong.bleu.p <= 1
    assert (right.search, wrong.search) == ("greedy", "beam 5")
    assert (right.unknown, wrong.unknown) == (0.0, pytest.approx(100 * 1 / (5 + 6 + 8 + 1)))


def test_sentences_are_scored_by_the_length_of_their_source(comparison):
    short, long = comparison.by_length
    assert [(each.label, each.sentences) for each in comparison.by_length] == [("1-5", 3), ("6-10", 1)]
    assert short.bleu["wrong"].mean < long.bleu["wrong"].mean == pytest.approx(100)
    assert comparison.length_unit == "words"


def test_the_worst_sentences_come_first_with_all_translations(comparison):
    assert [sentence.number for sentence in comparison.worst] == [4, 2]
    worst = comparison.worst[0]
    assert worst.translations == {"right": RIGHT[3], "wrong": "zzz"}
    assert worst.chrf == {"right": pytest.approx(100), "wrong": pytest.approx(0)}


def test_markdown_has_a_row_for_every_system_and_no_sentence_breaks_a_table(comparison):
    text = to_markdown(comparison)
    assert "| right | greedy | 100.00 (100.00 to 100.00) |" in text
    assert "| 0.250 | 0.800 | 0.700 |" in text
    assert r"| wrong | Where ⁇ you live \| now? |" in text
    for table in (block for block in text.split("\n\n") if block.startswith("|")):
        assert len({line.replace(r"\|", "").count("|") for line in table.splitlines()}) == 1, table


def test_a_report_is_a_folder_of_text_and_pictures(comparison, tmp_path):
    reports = {"wrong": report(WRONG), "runs/right": report(RIGHT), "runs_right": report(WRONG)}
    written = write_report(comparison, reports, tmp_path / "new" / "report")
    names = ["bleu-by-length", "scores"]
    expected = {"report.md", *(f"{name}.{suffix}" for name in names for suffix in ("svg", "pdf", "png"))}
    lines = {
        "translations-wrong.txt": WRONG,
        "translations-runs_right.txt": RIGHT,
        "translations-runs_right_.txt": WRONG,
    }
    expected |= set(lines)
    for name, texts in lines.items():
        assert (written.parent / name).read_text("utf-8").splitlines() == texts
    assert {file.name for file in written.parent.iterdir()} == expected
    assert set(re.findall(r"^!\[[^]]+ [^]]+\]\((.+)\.svg\)$", written.read_text("utf-8"), re.MULTILINE)) == set(names)
