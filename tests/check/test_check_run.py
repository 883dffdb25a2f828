"""Causes in the log of a run, and in its model."""

import shlex
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from nmt_keras import cli
from nmt_keras.check.run import check_log, check_model
from nmt_keras.config import Recipe, SearchConfig, TrainConfig
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.translation.records import TranslationScore

PAIRS = sample_pairs()[:240]
GREEDY = SearchConfig()
RECIPE = Recipe("any", train=TrainConfig())


def log(train, valid, bleu, **row):
    rows = [{"step": 50 * at, "cross_entropy": loss, "epoch": 1, **row} for at, loss in enumerate(train, 1)]
    steps = np.linspace(50, 50 * len(train), len(valid)).astype(int)
    return rows + [
        {"step": step, "valid_loss": loss, "valid_bleu": bleu} for step, loss in zip(steps, valid, strict=True)
    ]


def falling(to, count=20):
    return [to + 6 * 0.8**at for at in range(count)]


@pytest.mark.parametrize(
    ("names", "rate", "rows"),
    [
        ([], 2e-3, log(falling(1.2), [2.0, 1.5], 35.0)),
        (["rate-too-high"], 2e-3, log([*falling(2.0), 4.5, 5.0, 6.0, 6.5, 6.5], [3.0, 6.0], 2.0)),
        (["rate-too-high"], 0.5, log([6.0] * 20, [6.0, 6.0], 0.0)),
        (["rate-too-high"], 2e-3, log(falling(3.0), [4.0, 3.0], 20.0, skipped=5)),
        (["rate-too-low"], 1e-5, log(falling(5.0), [6.0, 5.5], 0.1)),
        (["stopped-early"], 2e-3, log(falling(4.0, 5), [4.5, 4.2], 1.0)),
        (["overfitting"], 2e-3, log(falling(0.1, 40), [2.0, 2.5, 3.5], 12.0)),
        ([], 2e-3, []),
    ],
)
def test_the_log_tells_a_wrong_rate_an_early_stop_and_overfitting(names, rate, rows):
    found = check_log(rows, replace(RECIPE, train=replace(RECIPE.train, learning_rate=rate)))
    assert [each.name for each in found][:1] == names


def test_a_model_that_overfits_gets_more_dropout_than_it_has():
    recipe = replace(RECIPE, model=replace(RECIPE.model, dropout=0.4))
    (found,) = check_log(log(falling(0.1, 40), [2.0, 2.5, 3.5], 12.0), recipe)
    assert "--model.dropout 0.5 --width 0.5" in found.remedy


@pytest.mark.parametrize(("bleu", "names"), [([9.0, 11.0, 10.0], []), ([9.0, 11.0, 5.0], ["overfitting"])])
def test_a_run_that_is_selected_by_bleu_overfits_if_its_bleu_falls(bleu, names):
    rows = log(falling(0.1, 40), [2.0, 2.5, 3.5], 0.0)
    for row, score in zip(rows[-3:], bleu, strict=True):
        row["valid_bleu"] = score
    found = check_log(rows, replace(RECIPE, train=replace(RECIPE.train, select_by="bleu")))
    assert [each.name for each in found] == names


class Stub:
    """A translator with given losses that translates every sentence correctly, or by ``texts``."""

    def __init__(self, right=1.0, wrong=5.0, own=0.5, texts=None, search=GREEDY):
        self.known = {pair.source: pair.target for pair in PAIRS}
        self.right, self.wrong, self.own, self.texts, self.search = right, wrong, own, texts, search

    def translate(self, sources):
        wanted = [self.known[source] for source in sources]
        return [SimpleNamespace(text=text) for text in (wanted if self.texts is None else map(self.texts, wanted))]

    def score(self, sources, targets):
        def loss(source, target):
            is_output = self.texts is not None and target != self.known[source]
            return self.own if is_output else self.right if target == self.known[source] else self.wrong

        return [
            TranslationScore(-loss(source, target) * len(target.split()), target.split(), [], False)
            for source, target in zip(sources, targets, strict=True)
        ]

    def with_search(self, search):
        return Stub(search=search)


def names(stub, tmp_path):
    return [each.name for each in check_model(stub, PAIRS, tmp_path, "ja", "char")]


def test_a_sound_model_has_no_findings(tmp_path):
    assert names(Stub(), tmp_path) == []


def test_the_remedy_of_search_options_is_a_command(tmp_path):
    search = SearchConfig(beam_size=3, n_best=2, unk_allowed=False)
    stub = Stub(texts=lambda text: text[:9], search=search)
    (remedy,) = (
        each.remedy for each in check_model(stub, PAIRS, tmp_path / "a run", "en") if each.name == "search-options"
    )
    parsed = cli.parse(shlex.split(remedy)[1:])
    assert (parsed.paths, parsed.search.unk_allowed, parsed.search.n_best) == ((tmp_path / "a run",), True, None)


def test_searches_are_compared_within_the_length_of_the_run(tmp_path):
    class Short(Stub):
        def with_search(self, search):
            assert search.max_tokens == 60
            return super().with_search(search)

    assert names(Short(search=SearchConfig(max_tokens=60)), tmp_path) == []


@pytest.mark.parametrize(
    ("name", "stub"),
    [
        ("source-ignored", Stub(right=2.0, wrong=2.02)),
        ("not-better-than-unigram", Stub(right=6.0, wrong=9.0)),
        ("search-errors", Stub(right=0.5, own=3.0, texts=lambda text: text + " no")),
        (
            "search-options",
            Stub(texts=lambda text: " ".join(text.split()[:3]), search=SearchConfig(repetition_penalty=4.0)),
        ),
        ("few-outputs", Stub(texts=lambda _: "I do not know.")),
    ],
)
def test_the_model_s_loss_and_search_are_tested(name, stub, tmp_path):
    assert name in names(stub, tmp_path)
