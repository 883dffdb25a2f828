"""Causes of a bad model in a run: its log, and its model on held-out pairs.

``check_log`` needs no TensorFlow.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt_keras.check.corpus import FEWEST
from nmt_keras.check.findings import Finding, finding, worst_first
from nmt_keras.check.outputs import check_outputs
from nmt_keras.config import Recipe, SearchConfig
from nmt_keras.corpus import Pair
from nmt_keras.evaluation.metrics import bleu
from nmt_keras.recipes import options_of

if TYPE_CHECKING:
    from nmt_keras.translation.model_translator import ModelTranslator

SENTENCES = 300  # number of held-out pairs that the model is tested on

USUAL_RATES: Mapping[str, tuple[float, float]] = {"adam": (2e-4, 0.01), "adadelta": (0.05, 8.0), "sgd": (0.03, 8.0)}
"""Lowest and highest usual learning rate of each optimizer."""

KEPT = ("max_tokens", "replaces_unknown", "precision")  # options of the search that are not compared

LEARNT = 15.0  # BLEU of a model that has learnt to translate

SERIOUS = 0.1  # severity of findings about training pairs that cause bad models
SYMPTOMS = 0.3  # factor of the severity of findings about translations. Their cause is elsewhere in the run


def as_cause(found: Finding) -> Finding:
    """Returns a finding about the training pairs as one about a run. A serious one ranks below wrong rates only."""
    return replace(found, severity=round(0.9 + 0.08 * found.severity, 4)) if found.severity > SERIOUS else found


def check_log(
    rows: Sequence[Mapping[str, Any]], recipe: Recipe, command: str = "nmt train RECIPE --run NEW"
) -> list[Finding]:
    """Checks the log of a training.

    Args:
        rows: Rows of the log, in order.
        recipe: Recipe of the run.
        command: The command that trains such a run, for remedies.
    """
    trained = [row for row in rows if row.get("cross_entropy") is not None]
    valid = [row for row in rows if row.get("valid_loss") is not None]
    if not trained or not valid:
        return []
    return worst_first([*_rate(trained, valid, recipe, command), *_fit(trained, valid, recipe, command)])


def _rate(
    trained: Sequence[Mapping[str, Any]], valid: Sequence[Mapping[str, Any]], recipe: Recipe, command: str
) -> list[Finding]:
    low, high = USUAL_RATES[recipe.train.optimizer]
    rate, best = recipe.train.learning_rate, max(row.get("valid_bleu") or 0.0 for row in valid)
    losses = np.array([row["cross_entropy"] for row in trained])
    tail = max(1, len(losses) // 5)
    means = np.convolve(losses, np.ones(tail) / tail, "valid")
    # sampling makes the task harder
    rise = float(means[-1] - means.min()) * (recipe.train.sampling_to <= recipe.train.sampling_from)
    fall = float(losses[-2 * tail : -tail].mean() - losses[-tail:].mean()) if len(losses) > 1 else 1.0
    skipped = sum(row.get("skipped") or 0 for row in trained) / max(1, trained[-1]["step"])
    bad = best < LEARNT
    evidence = [
        f"learning rate {rate:g}; usual for {recipe.train.optimizer}: {low:g} to {high:g}",
        f"training loss (nats per token): first {losses[0]:.2f}, lowest {losses.min():.2f}, last {losses[-1]:.2f}",
        f"best BLEU of the validation sample: {best:.1f}; skipped updates: {skipped:.1%}",
    ]
    curve = {f"{row['step']}": float(row["cross_entropy"]) for row in trained[:: max(1, len(trained) // 12)]}
    epochs = max(1, trained[-1].get("epoch", 1))
    is_lowest = valid[-1]["valid_loss"] <= min(row["valid_loss"] for row in valid)
    for name, value, what, option in (
        (
            "rate-too-high",
            max(rise, skipped * 10, float(bad and rate > high)),
            "The learning rate is too high: the loss rises again or does not fall.",
            f"--train.learning-rate {min(rate / 5, high / 3):g}",
        ),
        (
            "rate-too-low",
            float(bad and rate < low),
            "The learning rate is too low: the loss falls slowly.",
            f"--train.learning-rate {max(rate * 10, low * 5):g}",
        ),
        (
            "stopped-early",
            float(bad and is_lowest and fall > 0.05),
            f"Training stopped early: after {trained[-1]['step']:,} updates in {epochs} epochs the loss still fell.",
            f"--epochs {10 * epochs}",
        ),
    ):
        if found := finding(
            name, value, what, evidence, f"{command} {option}", curve, "training loss (nats per token), by step"
        ):
            return found
    return []


def _fit(
    trained: Sequence[Mapping[str, Any]], valid: Sequence[Mapping[str, Any]], recipe: Recipe, command: str
) -> Iterator[Finding]:
    losses = [float(row["valid_loss"]) for row in valid]
    last = float(np.mean([row["cross_entropy"] for row in trained[-3:]]))
    rise, gap = losses[-1] - min(losses), losses[-1] - last
    scores = [row.get("valid_bleu") or 0.0 for row in valid]
    by_bleu = recipe.train.select_by == "bleu"  # which may rise while the loss rises, as with few pairs
    yield from finding(
        "overfitting",
        1.0 - scores[-1] / max(*scores, 0.1) if by_bleu else max(rise, gap - 0.8),
        "The model overfits: it knows its training pairs by heart.",
        [
            f"validation loss: lowest {min(losses):.2f}, last {losses[-1]:.2f} nats per token",
            f"training loss: {last:.2f} nats per token, {gap:.2f} lower",
            f"BLEU of the validation sample: highest {max(scores):.1f}, last {scores[-1]:.1f}",
        ],
        "Train on more pairs, or a smaller model: "
        f"{command} --model.dropout {max(0.3, recipe.model.dropout + 0.1):g} --width 0.5",
        {f"{row['step']}": float(row["valid_loss"]) for row in valid},
        "validation loss (nats per token), by step",
    )


def check_model(
    translator: ModelTranslator,
    held_out: Sequence[Pair],
    path: Path,
    language: str | None = None,
    tokenizer: str | None = None,
) -> list[Finding]:
    """Checks a model on held-out pairs.

    Args:
        translator: The model with the search of its run.
        held_out: Held-out pairs, of which ``SENTENCES`` are used.
        path: Run directory, for remedies.
        language: Code of the target language, for BLEU.
        tokenizer: Name of another BLEU tokenizer than that of the language.
    """
    pairs, run = held_out[:: max(1, len(held_out) // SENTENCES)][:SENTENCES], shlex.quote(str(path))
    source, reference = [pair.source for pair in pairs], [pair.target for pair in pairs]
    output = [each.text for each in translator.translate(source)]
    symptoms = check_outputs(source, reference, output, language, f"nmt translate {run}", tokenizer)
    return [
        *_reading(translator, source, reference, output, run),
        *_search(translator, source, reference, output, run, language, tokenizer),
        *(replace(each, severity=round(SYMPTOMS * each.severity, 4)) for each in symptoms),
    ]


def _reading(
    translator: ModelTranslator, source: Sequence[str], reference: Sequence[str], output: Sequence[str], run: str
) -> Iterator[Finding]:
    """Yields the findings about log-likelihoods: of references, with other sources, and of the translations."""
    other = [*source[len(source) // 2 :], *source[: len(source) // 2]]
    scored, shuffled, own = (
        translator.score(sources, targets)
        for sources, targets in ((source, reference), (other, reference), (source, output))
    )
    tokens = Counter(token for each in scored for token in each.tokens)
    total = tokens.total()
    loss, without = (-sum(each.log_prob for each in one) / max(1, total) for one in (scored, shuffled))
    shares = np.array([*tokens.values()]) / max(1, total)
    unigram = float(-(shares * np.log(shares)).sum())
    values = {"with its source": loss, "with another source": without, "unigram model": unigram}
    evidence = [f"{name}: {value:.2f} nats per token" for name, value in values.items()]
    for name, share, what in (
        (
            "source-ignored",
            max(0.0, 1 - (without - loss) / 0.6),
            "The model does not read its source: with the source of another sentence, its loss is almost the same.",
        ),
        (
            "not-better-than-unigram",
            (loss - unigram + 0.3) / 0.6,
            "The model predicts words no better than their frequencies.",
        ),
    ):
        remedy = "If there is no finding about the training pairs, train longer"
        yield from finding(name, share, what, evidence, remedy, values, "loss of the references (nats per token)")
    better = [mine.log_prob < theirs.log_prob for mine, theirs in zip(own, scored, strict=True)]
    yield from finding(
        "search-errors",
        float(np.mean(better)),
        "The search does not find what the model prefers: many references are more probable than the translations.",
        [f"{np.mean(better):.0%} of the references are more probable", *evidence],
        f"nmt evaluate {run} --search.beam-size 5",
    )


def _search(
    translator: ModelTranslator,
    source: Sequence[str],
    reference: Sequence[str],
    output: Sequence[str],
    run: str,
    language: str | None,
    tokenizer: str | None,
) -> Iterator[Finding]:
    own = translator.search
    if len(source) < FEWEST:
        return
    others = {"": output}
    kept: dict[str, Any] = {name: getattr(own, name) for name in KEPT}
    for options, beam_size in (("--search.beam-size 1", 1), ("--search.beam-size 5", 5)):
        if (search := SearchConfig(**kept, beam_size=beam_size)) != own:
            others[options] = [each.text for each in translator.with_search(search).translate(source)]
    scores = {name: bleu(texts, reference, language, tokenizer).value for name, texts in others.items()}
    best = max(scores, key=lambda name: scores[name])
    defaults = options_of(SearchConfig(**kept, beam_size=own.beam_size), own, "search.")
    yield from finding(
        "search-options",
        (scores[best] - scores[""]) / max(1.0, scores[best]) if scores[best] > scores[""] + 1 else 0.0,
        f"The search options cost {scores[best] - scores['']:.1f} BLEU.",
        [f"BLEU {score:.1f}: {name or str(own)}" for name, score in scores.items()],
        " ".join(filter(None, ["nmt evaluate", run, best, *defaults])),
        {name or "run": score for name, score in scores.items()},
        "BLEU",
    )
