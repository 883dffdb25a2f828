"""Systems with several runs: means, deviations, intervals, and differences from their baselines."""

import math

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from nmt_keras.corpus.alignments import to_pharaoh
from nmt_keras.evaluation.gold import read_gold
from nmt_keras.evaluation.metrics import bleu, compare_runs
from nmt_keras.evaluation.seeds import RunResult, run_figures, summarise, to_markdown
from nmt_keras.translation.word_alignment import align_words, links

REFERENCES = [f"the cat number {n} sees a small dog in house {n + 1} today" for n in range(60)]


def worse(share, seed=0):
    """Returns the references with a share of the sentences truncated."""
    cut = np.random.default_rng(seed).random(len(REFERENCES)) < share
    return [text[:25] if short else text for text, short in zip(REFERENCES, cut, strict=True)]


def test_a_system_s_score_is_the_mean_of_its_runs_with_their_standard_deviation():
    runs = [worse(0.2, 1), worse(0.3, 2), worse(0.4, 3)]
    found = compare_runs({"a": runs}, REFERENCES).bleu["a"]
    values = [bleu(run, REFERENCES).value for run in runs]
    assert found.mean == pytest.approx(np.mean(values))
    assert found.deviation == pytest.approx(np.std(values, ddof=1))
    half = 4.302653 * found.deviation / math.sqrt(3)  # Student's t with 2 degrees of freedom, 97.5 %
    assert (found.low, found.high) == pytest.approx((found.mean - half, found.mean + half))
    assert found.p is None


def test_with_three_runs_p_is_that_of_welch_s_test_over_the_runs():
    one, other = (
        [worse(share, seed) for seed, share in enumerate(shares)] for shares in ((0.2, 0.3, 0.5), (0.5, 0.5, 0.6))
    )
    found = compare_runs({"one": one, "other": other}, REFERENCES).bleu["other"]
    first, second = ([bleu(run, REFERENCES).value for run in runs] for runs in (one, other))
    squares = [np.var(values, ddof=1) / 3 for values in (first, second)]
    degrees = sum(squares) ** 2 / sum(square**2 / 2 for square in squares)
    statistic = abs(np.mean(first) - np.mean(second)) / math.sqrt(sum(squares))
    draws = np.abs(np.random.default_rng(1).standard_t(degrees, 400_000))
    assert found.p == pytest.approx((draws >= statistic).mean(), abs=0.003)
    same = compare_runs({"one": [REFERENCES] * 3, "other": [REFERENCES] * 3}, REFERENCES).bleu["other"]
    assert (same.low, same.high, same.p) == (same.mean, same.mean, 1.0)


def test_one_run_per_system_is_sacrebleu_s_paired_bootstrap_on_both_sides():
    systems = {"a": worse(0.45, 1), "b": worse(0.22, 2)}
    here = compare_runs({name: [run] for name, run in systems.items()}, REFERENCES)
    _, there = PairedTest(list(systems.items()), {"BLEU": BLEU(), "chrF": CHRF()}, [REFERENCES], "bs", 1000)()
    for metric, name in (("bleu", "BLEU"), ("chrf", "chrF2")):
        one, other = getattr(here, metric)["b"], there[name][1]
        assert one.deviation is None
        assert one.mean == pytest.approx(other.score)
        assert [one.low, one.high] == pytest.approx([other.mean - other.ci, other.mean + other.ci], abs=1.0)
        assert one.p == pytest.approx(2 * other.p_value, abs=0.03)


def test_a_difference_within_the_variation_of_the_seeds_is_not_significant():
    """With one run per system, only the variation of the sentences counts, and p is small."""
    one, other = [worse(0.1, 1), worse(0.5, 2)], [worse(0.15, 3), worse(0.6, 4)]
    assert compare_runs({"a": one, "b": other}, REFERENCES).bleu["b"].p > 0.1
    assert compare_runs({"a": one[:1], "b": other[1:]}, REFERENCES).bleu["b"].p < 0.01


def result(texts, seed, perplexity, error=None):
    figures = {
        "seed": seed,
        "recipe": {"train": {"learning_rate": 0.003}},
        "parameters": 1_500_000,
        "perplexity": perplexity,
        "validations": [{"valid_loss": 2.0}, {"valid_loss": perplexity / 2}],
        "alignment": error and {"error_rate": error, "precision": 0.5, "recall": 0.5},
    }
    return RunResult(figures, texts)


def test_the_table_has_a_row_per_system_and_a_dash_without_attention():
    plain = [result(worse(0.5, 1), 1, 6.0), result(worse(0.5, 2), 2, 8.0)]
    attentive = [result(worse(0.1, 3), 1, 3.0, 0.25)]
    rows = summarise({"plain": plain, "attentive": attentive}, REFERENCES).systems
    assert [row.seeds for row in rows] == [[1, 2], [1]]
    assert (rows[0].perplexity.mean, rows[0].perplexity.deviation) == (7.0, pytest.approx(math.sqrt(2), abs=1e-4))
    assert rows[0].valid_loss.mean == 2.0
    assert rows[0].error_rate is None
    assert (rows[1].error_rate.mean, rows[1].error_rate.deviation) == (0.25, None)
    head, _, first, second = to_markdown(rows).splitlines()[:4]
    assert head.count("|") == first.count("|") == second.count("|")
    assert "7.00 ± 1.41" in first
    assert "| - |" in first
    assert "0.250" in second
    assert f"| {rows[1].bleu.mean:.2f} {rows[1].bleu.interval} |" in second
    assert "AER" not in to_markdown(summarise({"plain": plain}, REFERENCES).systems)


def test_systems_with_a_single_run_and_systems_near_0_have_no_p_value():
    one, two, three = ([result(worse(share, seed), seed, 3.0) for seed in (1, 2)] for share in (0.2, 0.5, 0.9))
    rows = summarise({"one": one, "two": two, "three": three[:1]}, REFERENCES).systems
    assert [row.bleu.p is None for row in rows] == [row.chrf.p is None for row in rows] == [True, False, True]
    low = [["x y z a"] * 100, ["x y z b"] * 100]
    none = compare_runs({"low": low, "lower": low[:1]}, ["one two three four five"] * 100)
    assert none.bleu["lower"].p is none.chrf["lower"].p is None


@pytest.mark.long
def test_the_metrics_of_a_run_are_those_of_its_translations(translator, pairs):
    found, texts = run_figures(translator, pairs[:9])
    references = [pair.target for pair in pairs[:9]]
    assert texts == [each.text for each in translator.translate([pair.source for pair in pairs[:9]])]
    assert found["bleu"] == round(bleu(texts, references).value, 2)
    scored = translator.score([pair.source for pair in pairs[:9]], references)
    nats = -sum(each.log_prob for each in scored) / sum(len(each.tokens) for each in scored)
    assert found["perplexity"] == pytest.approx(math.exp(nats), rel=1e-3)
    assert (found["test_pairs"], found["alignment"]) == (9, None)


@pytest.mark.long
def test_gold_alignments_are_read_from_three_columns(translator, tmp_path):
    source, target = "Ana lee .", "Ana reads ."
    ((*tokens, weights),) = translator.align([source], [target])
    own = to_pharaoh(links(align_words(*tokens, weights)))
    path = tmp_path / "gold.tsv"
    path.write_text(f"{source}\t{target}\t{own}\n", "utf-8")
    found, _ = run_figures(translator, read_gold(path), gold=read_gold(path))
    assert found["alignment"] == {"error_rate": 0.0, "precision": 1.0, "recall": 1.0}
    signs = "\x85\u2028\v\f"
    path.write_text("".join(f"la{sign} casa\tthe{sign} house\t0-0 1p1\r\n" for sign in signs), "utf-8")
    assert [(pair.source, pair.target) for pair in read_gold(path)] == [(f"la{s} casa", f"the{s} house") for s in signs]
    path.write_text("la casa\tthe house\t1-1 2-2\n", "utf-8")
    with pytest.raises(ValueError, match=r"gold\.tsv:1: .*counted from 0, received 2-2\."):
        read_gold(path)
    path.write_text(f"{source}\t{target}\n", "utf-8")
    with pytest.raises(ValueError, match=r"gold\.tsv:1.*2 columns"):
        read_gold(path)
