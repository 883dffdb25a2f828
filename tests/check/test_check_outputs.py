"""Each fault of translations is named first."""

import random

import pytest

from benchmarks.check import changed, faulty_outputs, output_findings, translated
from nmt_keras.check.outputs import check_outputs
from nmt_keras.corpus.sample import sample_pairs

PAIRS = sample_pairs()[:700]
OUTPUTS = translated(PAIRS)
FAULTY = faulty_outputs(OUTPUTS)
SOURCES, REFERENCES = ([pair[at] for pair in PAIRS] for at in (0, 1))
TEXTS = [pair.target for pair in OUTPUTS]


def first(*files):
    return check_outputs(*files)[0]


def test_sound_translations_have_no_findings():
    assert output_findings(PAIRS, OUTPUTS) == []


@pytest.mark.parametrize(("fault", "strength"), FAULTY)
def test_a_seeded_fault_is_named_first(fault, strength):
    assert output_findings(PAIRS, FAULTY[fault, strength])[0].name == fault


def test_the_references_of_other_lines_and_references_that_are_sources_are_told_from_wrong_outputs():
    other = random.Random(1).sample(REFERENCES, len(REFERENCES))
    found = first(SOURCES, other, TEXTS)
    assert (found.name, "references are probably wrong" in found.what) == ("unrelated-outputs", True)
    found = first(SOURCES, REFERENCES, random.Random(1).sample(TEXTS, len(TEXTS)))
    assert (found.name, "outputs are probably wrong" in found.what) == ("unrelated-outputs", True)
    assert first(SOURCES, SOURCES, TEXTS).name == "references-are-sources"


def test_files_of_different_lengths_are_a_finding():
    assert [each.name for each in check_outputs(SOURCES, REFERENCES, TEXTS[:-70])] == ["uneven-files"]
    with pytest.raises(ValueError, match="received 'empty files'"):
        check_outputs([], [], [])


@pytest.mark.parametrize("tokenizer", [None, "char"])
def test_a_low_score_is_explained_by_the_score_of_the_other_form(tokenizer):
    lower = [text.lower() for text in TEXTS]
    found = first(SOURCES, REFERENCES, lower, tokenizer and "ja", "nmt translate", tokenizer)
    assert found.name == "lower-case"
    assert found.values["lower-case"] > found.values["as it is"] + 5


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("unknown-words", lambda draw, pair, all_: (pair.source, "<unk> " + pair.target)),
        ("length-ratio", lambda draw, pair, all_: (pair.source, f"{pair.target} {draw.choice(all_).target}")),
        ("cut-off", lambda draw, pair, all_: (pair.source, " ".join(pair.target.split()[:2]))),
    ],
)
def test_unknown_words_and_lengths_are_findings(name, change):
    assert name in {each.name for each in output_findings(PAIRS, changed(OUTPUTS, 0.8, change))}
