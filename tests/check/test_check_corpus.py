"""Each fault that is seeded into a corpus is named first, and repaired pairs are those from before."""

import itertools
import random
import tracemalloc
from collections import Counter

import pytest

from benchmarks.check import corpus_findings, faulty_corpora, shifted
from nmt_keras.check.association import OFFSETS, align_lines, word_matrix
from nmt_keras.check.corpus import check_corpus
from nmt_keras.corpus import Pair
from nmt_keras.corpus.reading import Corpus, Fault, FaultyLine, ReadReport
from nmt_keras.corpus.sample import sample_pairs

CLEAN = sample_pairs()[:900]
GERMAN = [
    Pair(f"{who} {what} nicht mit {whom} auf {where}.", "")
    for who, what, whom, where in itertools.product(
        ("Der Mann", "Die Frau", "Das Kind", "Ich glaube, er", "Eine Katze"),
        ("spielt", "wohnt", "arbeitet", "tanzt"),
        ("der Tochter", "dem Nachbarn", "einer Tante", "den Kindern", "mir"),
        ("der Brücke", "dem Dach", "einem Schiff", "der Insel"),
    )
]
FAULTY = faulty_corpora(CLEAN, GERMAN)


def read(pairs):
    return Corpus([*pairs], ReadReport(lines=len(pairs)))


def check(pairs, held_out=(), languages=(None, None), **options):
    held = {option: read(each) for option, each in dict(held_out).items()}
    return check_corpus(read(pairs), held, languages, "nmt check pairs.tsv", **options)


def test_a_clean_corpus_has_no_findings_and_its_repaired_pairs_are_its_pairs():
    found = check(CLEAN, {"--valid": sample_pairs()[1500:1700]}, ("es", "en"))
    assert found.pairs == CLEAN
    assert [each for each in found.findings if each.name != "overlap"] == []  # a grammar repeats its sentences


@pytest.mark.parametrize(("fault", "strength"), [key for key in FAULTY if key[0] != "too-few" and key[1] == 0])
def test_a_seeded_fault_is_named_first_with_its_lines_and_what_to_do(fault, strength):
    first, *_ = corpus_findings(FAULTY[fault, strength])
    assert first.name == fault
    assert first.remedy
    assert any("line" in line.lower() for line in first.evidence)


def test_pairs_without_repeated_words_are_too_few():
    words = iter(range(10**6))
    pairs = [Pair(*(" ".join(f"w{next(words)}x" for _ in range(5)) for _ in "st")) for _ in range(60)]
    assert check(pairs).findings[0].name == "too-few"


@pytest.mark.parametrize("fault", ["swapped", "entities", "subword-marks"])
def test_repaired_pairs_are_those_from_before(fault):
    repaired = [[side.strip('"') for side in pair] for pair in check(FAULTY[fault, 0]).pairs]
    assert len(repaired) == len(CLEAN)
    assert sum(map(list.__eq__, repaired, map(list, CLEAN))) > 0.97 * len(CLEAN)


def test_line_ends_among_entities_become_spaces_in_repaired_pairs():
    assert check([Pair(f"&#10;{pair.source}&NewLine;", pair.target) for pair in CLEAN]).pairs == CLEAN


@pytest.mark.parametrize(("begin", "offset"), [(0.0, 1), (0.4, 3), (0.8, 5)])
def test_shifted_lines_get_their_partners_back(begin, offset):
    found = check(shifted(CLEAN, begin, offset))
    first = int(begin * len(CLEAN))
    assert found.findings[0].name == "shifted"
    assert f"by {-offset:+}" in found.findings[0].evidence[0]
    assert len({*found.pairs} - {*CLEAN}) <= 5  # at the edge
    assert len(found.pairs) >= len(CLEAN) - offset - 10
    assert abs(int(found.findings[0].evidence[0].split()[1].replace(",", "")) - first) <= 12


def test_lines_in_scripts_without_spaces_are_aligned():
    words = dict.fromkeys(word for pair in CLEAN for word in pair.source.split())
    letters = {word: chr(0x4E00 + 7 * at) for at, word in enumerate(words)}
    pairs = [Pair("".join(map(letters.get, pair.source.split())), pair.target) for pair in CLEAN]
    found = align_lines(*(word_matrix([pair[at] for pair in shifted(pairs, 0.5, 2)]) for at in (0, 1)))
    assert set(found.offset[20:420]) == {0}
    assert set(found.offset[480:800]) == {-2}
    assert found.unrelated_share < 0.07


def test_the_best_offset_of_random_lines_is_none():
    targets = [pair.target for pair in CLEAN]
    random.Random(1).shuffle(targets)
    found = align_lines(word_matrix([pair.source for pair in CLEAN]), word_matrix(targets))
    assert found.alone.mean() > 0.95
    assert max(found.gains.values()) < 0
    assert [*found.gains] == OFFSETS.tolist()


def test_the_memory_of_links_between_words_is_limited(monkeypatch):
    monkeypatch.setattr("nmt_keras.check.association.LINKS", 20_000)
    words = word_matrix([" ".join(f"w{n}" for n in random.Random(n).sample(range(100), 25)) for n in range(1000)])
    tracemalloc.start()
    align_lines(words, words)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000 * 1000  # bytes; the links of all lines take 25,000 per line


def test_sides_that_are_swapped_as_a_whole_contradict_their_declared_languages():
    turned = [Pair(pair.target, pair.source) for pair in CLEAN]
    assert [each.name for each in check(turned, languages=("es", "en")).findings] == ["swapped"]
    assert check(turned, languages=("en", "es")).findings == []


def test_held_out_pairs_are_compared_with_the_training_pairs():
    found = check(CLEAN, {"--test": CLEAN[:300]}).findings
    assert (found[0].name, "300 of 300" in found[0].what) == ("overlap", True)
    lower = [Pair(pair.source.lower().rstrip("."), pair.target) for pair in sample_pairs()[1500:1900]]
    assert "other-form" in [each.name for each in check(CLEAN, {"--valid": lower}).findings]


def test_malformed_lines_and_files_of_different_lengths_are_findings():
    first = FaultyLine("pairs.tsv", 7, Fault.EMPTY_SIDE)
    report = ReadReport(1000, Counter({first.fault: 100}), [first])
    found = check_corpus(Corpus(CLEAN, report), {}, (None, None), "nmt check pairs.tsv", ["b.en:7 is missing"]).findings
    assert {each.name for each in found} == {"malformed", "uneven-files"}
    assert any("pairs.tsv:7" in line for each in found for line in each.evidence)


def test_long_pairs_are_counted_if_training_would_skip_them():
    assert check(CLEAN, max_tokens=5).findings[0].name == "too-long"
