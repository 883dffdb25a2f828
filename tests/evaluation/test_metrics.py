"""What a score must be, on sentences whose n-grams can be counted by hand."""

import math
import sys

import pytest

from nmt_keras.evaluation.metrics import (
    AlignmentError,
    LengthBin,
    alignment_error,
    bleu,
    bootstrap,
    chrf,
    exact_match,
    length_bins,
    require_tokenizer,
    sentence_chrf,
    sentence_length,
)


def test_bleu_is_the_geometric_mean_of_four_precisions():
    # "a b c d e" against "a b c d f": 4 of 5 unigrams, 3 of 4 bigrams, 2 of 3 trigrams, 1 of 2 4-grams; equal lengths.
    expected = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4)
    assert bleu(["a b c d e"], ["a b c d f"]).value == pytest.approx(expected)


def test_bleu_punishes_short_translations_by_the_brevity_penalty():
    # All n-grams of 4 tokens match; the reference has 5: exp(1 - 5/4).
    assert bleu(["a b c d"], ["a b c d e"]).value == pytest.approx(100 * math.exp(-1 / 4))


def test_bleu_counts_over_the_corpus_and_is_no_mean_of_sentences():
    # The second pair has no 4-gram to match, so alone it would have 0: n-grams 8/8, 6/6, 4/4, 2/2 in sum.
    assert bleu(["a b c d e", "x y z"], ["a b c d e", "x y z"]).value == pytest.approx(100)


def test_bleu_takes_raw_text_and_parts_punctuation_itself():
    assert bleu(["Go on, Tom, now."], ["Go on , Tom , now ."]).value == pytest.approx(100)


def test_bleu_is_cased():
    assert bleu(["tom goes home now"], ["Tom goes home now"]).value < 100


def test_signatures_name_case_tokens_references_and_version():
    score = bleu(["a"], ["b"])
    assert score.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert chrf(["a"], ["b"]).signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


def test_chrf_weighs_recall_twice():
    # One-character sentences have unigrams only: "ab" has precision 1/2 and recall 1 on unigrams for "a".
    precision, recall = 1 / 2, 1
    expected = 100 * 5 * precision * recall / (4 * precision + recall)
    assert chrf(["ab"], ["a"]).value == pytest.approx(expected)


def test_exact_match_is_a_percentage_of_identical_sentences():
    assert exact_match(["Go.", "go.", "Stop", "Wait."], ["Go.", "Go.", "Stop.", "Wait."]) == 50.0


def test_an_empty_translation_is_scored_not_refused():
    assert bleu(["", "a b c d"], ["a b", "a b c d"]).value < 100
    assert exact_match([""], ["a"]) == 0.0


@pytest.mark.parametrize("score", [bleu, chrf, exact_match])
@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (["a"], ["a", "b"], "1.*2"),
        (["a", "b"], ["a"], "2.*1"),
        ([], [], "0.*0"),
        ("a", ["a"], "string"),
        (["a"], "a", "string"),
    ],
)
def test_lists_that_do_not_correspond_are_refused(score, hypotheses, references, message):
    with pytest.raises(ValueError, match=message):
        score(hypotheses, references)


def test_chinese_is_cut_into_characters_where_other_languages_are_cut_at_spaces():
    hypotheses, references = ["我喜欢红苹果"], ["我喜欢青苹果"]
    # one token is wrong out of one; of six characters one is: 5/6 unigrams, 3/5 bigrams, 1/4 trigrams, 0/3 4-grams
    assert bleu(hypotheses, references).value == pytest.approx(0, abs=1e-9)
    # sacreBLEU smooths the first empty precision by half a match: 1 / (2 * 3)
    expected = 100 * (5 / 6 * 3 / 5 * 1 / 4 * 1 / 6) ** (1 / 4)
    for language in ("zh", "zh-TW", "ZH"):
        found = bleu(hypotheses, references, language)
        assert found.value == pytest.approx(expected)
        assert "tok:zh" in found.signature
    assert "tok:13a" in bleu(hypotheses, references, "es").signature


def test_a_language_whose_tokenizer_is_missing_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    with pytest.raises(ValueError, match=r"language.*'ja'.*sacrebleu\[ja\]"):
        bleu(["私"], ["私"], "ja")
    with pytest.raises(ValueError, match=r"sacrebleu\[ja\]"):
        require_tokenizer("ja")
    require_tokenizer("zh")
    require_tokenizer(None)


def test_chrf_of_one_sentence_is_that_of_a_corpus_of_one():
    assert sentence_chrf("ab", "a") == pytest.approx(chrf(["ab"], ["a"]).value)


REFERENCES = ["the cat sat on the mat", "a dog ran in the park", "she reads a good book"] * 20
PERFECT = list(REFERENCES)
POOR = ["the cat sat on a hat", "the dog ran in a car", "she reads the good look"] * 20


def test_a_perfect_system_has_an_interval_without_width():
    found = bootstrap({"perfect": PERFECT}, REFERENCES)
    assert found.bleu["perfect"].value == pytest.approx(100)
    assert found.bleu["perfect"].low == pytest.approx(found.bleu["perfect"].high)
    assert found.bleu["perfect"].p is None


def test_the_interval_encloses_the_score_and_the_signature_names_the_draws():
    mixed = PERFECT[:30] + POOR[30:]
    found = bootstrap({"mixed": mixed}, REFERENCES)
    estimate = found.bleu["mixed"]
    assert estimate.value == pytest.approx(bleu(mixed, REFERENCES).value)
    assert estimate.low < estimate.value < estimate.high
    assert found.chrf["mixed"].value == pytest.approx(chrf(mixed, REFERENCES).value)
    assert "bs:1000|seed:12345" in found.bleu_signature
    assert "nc:6" in found.chrf_signature


def test_systems_are_compared_with_the_first():
    found = bootstrap({"poor": POOR, "perfect": PERFECT, "alike": list(POOR)}, REFERENCES, samples=200)
    assert list(found.bleu) == ["poor", "perfect", "alike"]
    assert found.bleu["poor"].p is None
    # none of 200 draws differs by as much as the systems do, so sacreBLEU's p is (0 + 1) / (200 + 1)
    assert found.bleu["perfect"].p == pytest.approx(1 / 201)
    assert found.chrf["perfect"].p == pytest.approx(1 / 201)
    assert found.bleu["alike"].p == found.chrf["alike"].p == 1.0


def test_nobody_to_compare_is_refused():
    with pytest.raises(ValueError, match=r"systems.*none"):
        bootstrap({}, REFERENCES)


def test_sentences_are_sorted_into_bins_by_length_and_empty_bins_are_left_out():
    found = length_bins([3, 11, 0, 6, 99], edges=(5, 10, 20, 40))
    assert found == [
        LengthBin(1, 5, [0, 2]),
        LengthBin(6, 10, [3]),
        LengthBin(11, 20, [1]),
        LengthBin(41, None, [4]),
    ]
    assert [str(each) for each in found] == ["1-5", "6-10", "11-20", "over 40"]


def test_length_is_counted_in_words_and_in_characters_where_no_spaces_are_written():
    assert sentence_length("¿Dónde vives tú?", "es") == 3
    assert sentence_length("我喜欢 红苹果", "zh") == 6
    assert sentence_length("我喜欢 红苹果") == 2


def test_the_alignment_error_rate_is_och_and_neys():
    # A = {0-0, 1-1, 2-1}, S = {0-0, 1-2}, P = S + {1-1}: one of A in S, two in P: 1 - (1 + 2) / (3 + 2)
    found = alignment_error([{(0, 0), (1, 1), (2, 1)}], [{(0, 0), (1, 2)}], [{(0, 0), (1, 2), (1, 1)}])
    assert found == pytest.approx(AlignmentError(error_rate=2 / 5, precision=2 / 3, recall=1 / 2))


def test_alignment_errors_are_counted_over_the_corpus_and_not_averaged():
    # sentence 1: A = S = {0-0}; sentence 2: A = {}, S = {0-0, 1-1, 2-2}: 1 - (1 + 1) / (1 + 4)
    found = alignment_error([{(0, 0)}, set()], [{(0, 0)}, {(0, 0), (1, 1), (2, 2)}], [set(), set()])
    assert found == pytest.approx(AlignmentError(error_rate=3 / 5, precision=1.0, recall=1 / 4))


def test_links_that_do_not_correspond_are_refused():
    with pytest.raises(ValueError, match=r"\(1, 2, 2\)"):
        alignment_error([set()], [set(), set()], [set(), set()])
    with pytest.raises(ValueError, match=r"found.*none"):
        alignment_error([set()], [set()], [{(0, 0)}])
