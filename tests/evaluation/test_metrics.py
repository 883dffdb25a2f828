"""Metrics on sentences whose n-grams can be counted by hand."""

import unicodedata
from dataclasses import astuple

import pytest

from nmt_keras.corpus.alignments import GoldLinks
from nmt_keras.evaluation.metrics import (
    alignment_error,
    bleu,
    chrf,
    compare_runs,
    exact_match,
    length_bins,
    sentence_chrf,
    sentence_length,
    ter,
)


def test_bleu_tokenises_raw_text_and_is_cased():
    assert bleu(["Go on, Tom, now."], ["Go on , Tom , now ."]).value == pytest.approx(100)
    assert bleu(["tom goes home now"], ["Tom goes home now"]).value < 100


def test_texts_without_4_grams_are_scored_by_the_n_grams_that_occur():
    short, mixed = ["No.", "Sí."], ["No.", "a b c d"]
    perfect = bleu(short, short)
    assert perfect.value == 100.0
    assert "eff:yes" in perfect.signature
    assert "eff:no" in bleu(mixed, mixed).signature
    # unigrams: 3 of 4, bigrams: 1 of 2
    assert bleu(["No.", "Si."], short).value == pytest.approx(100 * (3 / 4 * 1 / 2) ** (1 / 2))
    found = compare_runs({"right": [short], "long": [mixed]}, short, samples=100)
    assert (found.bleu["right"].mean, "eff:yes" in found.bleu_signature) == (pytest.approx(100.0), True)
    assert found.bleu["long"].mean == pytest.approx(bleu(mixed, short).value)


def test_exact_match_is_a_percentage_of_identical_sentences():
    assert exact_match(["Go.", "go.", "Stop", ""], ["Go. ", "Go.", "Stop.", ""]) == 50.0


def test_canonically_equivalent_texts_are_equal():
    composed = ["El café está en Málaga, señor.", "Tôi không biết tiếng Việt được không?"]
    decomposed = [unicodedata.normalize("NFD", text) for text in composed]
    assert exact_match(composed, decomposed) == exact_match(decomposed, composed) == 100.0
    assert bleu(composed, decomposed).value == pytest.approx(100.0)
    assert chrf(composed, decomposed).value == pytest.approx(100.0)
    assert sentence_chrf(composed[0], decomposed[0]) == pytest.approx(100.0)
    found = compare_runs({"a": [composed, decomposed]}, decomposed, samples=100)
    assert found.bleu["a"].mean == pytest.approx(100.0)


@pytest.mark.parametrize("score", [bleu, chrf, exact_match])
@pytest.mark.parametrize(
    ("hypotheses", "references", "received"),
    [
        (["a"], ["a", "b"], "1.*2"),
        (["a", "b"], ["a"], "2.*1"),
        ([], [], "0.*0"),
        ("a", ["a"], "string"),
        (["a"], "a", "string"),
    ],
)
def test_lists_that_do_not_correspond_are_refused(score, hypotheses, references, received):
    with pytest.raises(ValueError, match=f"hypotheses, references.*{received}"):
        score(hypotheses, references)


def test_chinese_is_tokenised_into_characters():
    hypotheses, references = ["我喜欢红苹果"], ["我喜欢青苹果"]
    # the only token is wrong; one of six characters is: 5/6 unigrams, 3/5 bigrams, 1/4 trigrams, 0/3 4-grams
    assert bleu(hypotheses, references).value == pytest.approx(0, abs=1e-9)
    # sacreBLEU smooths the first empty precision by half a match: 1 / (2 * 3)
    expected = 100 * (5 / 6 * 3 / 5 * 1 / 4 * 1 / 6) ** (1 / 4)
    for language in ("zh", "zh-TW", "ZH", "cmn", "zho"):
        found = bleu(hypotheses, references, language)
        assert found.value == pytest.approx(expected)
        assert "tok:zh" in found.signature
    assert "tok:13a" in bleu(hypotheses, references, "es").signature


REFERENCES = ["the cat sat on the mat", "a dog ran in the park", "she reads a good book"] * 20
PERFECT = list(REFERENCES)
POOR = ["the cat sat on a hat", "the dog ran in a car", "she reads the good look"] * 20


def test_equal_systems_have_a_p_of_1_and_different_ones_the_smallest():
    systems = {"poor": [POOR], "perfect": [PERFECT], "alike": [list(POOR)]}
    found = compare_runs(systems, REFERENCES, samples=200, baselines={"alike": "poor"})
    assert list(found.bleu) == ["poor", "perfect", "alike"]
    assert found.bleu["poor"].p is None
    # no difference of 200 draws is as large as that of the systems: (1 + 0) / (1 + 200)
    assert found.bleu["perfect"].p == pytest.approx(1 / 201)
    assert found.chrf["perfect"].p == pytest.approx(1 / 201)
    assert found.bleu["alike"].p == found.chrf["alike"].p == 1.0
    assert found.bleu["perfect"].low == pytest.approx(found.bleu["perfect"].high) == pytest.approx(100)
    signatures = bleu(POOR, REFERENCES).signature, chrf(POOR, REFERENCES).signature
    assert (found.bleu_signature, found.chrf_signature) == signatures


@pytest.mark.parametrize("systems", [{}, {"a": []}])
def test_systems_without_runs_are_refused(systems):
    with pytest.raises(ValueError, match="systems: expected at least one"):
        compare_runs(systems, REFERENCES)


def test_sentences_are_sorted_into_bins_by_length_and_empty_bins_are_omitted():
    found = length_bins([3, 11, 0, 6, 99, 10], edges=(5, 10, 20, 40))
    assert found == {"1-5": [0, 2], "6-10": [3, 5], "11-20": [1], "over 40": [4]}


def test_length_is_counted_in_words_or_in_characters_if_words_are_not_separated():
    assert sentence_length("¿Dónde vives tú?", "es") == 3
    assert sentence_length("我喜欢 红苹果", "zho") == 6
    assert sentence_length("我喜欢 iPhone.") == sentence_length("ก็ 我喜 a.") == 4


def test_the_alignment_error_rate_is_och_and_neys_counted_over_the_corpus():
    # A = {0-0, 1-1, 2-1}, S = {0-0, 1-2}, P = S + {1-1}; S has one link of A, P has two: 1 - (1 + 2) / (3 + 2)
    first = GoldLinks({(0, 0), (1, 2)}, {(0, 0), (1, 2), (1, 1)})
    found = alignment_error([{(0, 0), (1, 1), (2, 1)}], [first])
    assert astuple(found) == pytest.approx((2 / 5, 2 / 3, 1 / 2))
    # sentence 1: A = S = {0-0}; sentence 2: A = {}, S = {0-0, 1-1, 2-2}: 1 - (1 + 1) / (1 + 4)
    gold = [GoldLinks(one, one) for one in ({(0, 0)}, {(0, 0), (1, 1), (2, 2)})]
    assert astuple(alignment_error([{(0, 0)}, set()], gold)) == pytest.approx((3 / 5, 1.0, 1 / 4))


def test_ter_is_the_share_of_edits_and_sees_case():
    assert ter(["Tom goes home now"], ["Tom goes home now"]).value == 0
    assert ter(["tom goes now"], ["Tom goes home now"]).value == pytest.approx(50)  # one substitution, one insertion
    assert "case:mixed" in ter(["a"], ["b"]).signature
    assert ter(["私は帰る"], ["私が帰る"], "ja").value == pytest.approx(25)
