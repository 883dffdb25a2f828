"""What a score must be, on sentences whose n-grams can be counted by hand."""

import math

import pytest

from nmt_keras.metrics import bleu, chrf, exact_match


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


def test_bleu_scores_the_first_list_against_the_second():
    assert bleu(["a b c d"], ["a b c d e"]) != bleu(["a b c d e"], ["a b c d"])


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
        (["a"], ["a", "b"], "1 hypotheses and 2 references"),
        (["a", "b"], ["a"], "2 hypotheses and 1 references"),
        ([], [], "0 hypotheses and 0 references"),
        ("a", ["a"], "received a string"),
        (["a"], "a", "received a string"),
    ],
)
def test_lists_that_do_not_correspond_are_refused(score, hypotheses, references, message):
    with pytest.raises(ValueError, match=message):
        score(hypotheses, references)
