#!/usr/bin/env python3
"""Tests whether predictive local attention (local-p) learns, and whether its predicted position saturates.

    python -m benchmarks.local_p --corpus spa-eng.zip

The first four experiments use Spanish-English pairs of at most 9 tokens. Their model is the small one of the results
page, without dropout and label smoothing:

agreement    loss and gradients, eager and under XLA, on batches narrower and wider than the window
overfit      training loss on 500 pairs
training     validation loss and the predicted positions p_t over training
sgd          the same with the paper's SGD and initial weights instead of Adam, and more updates
translation  validation loss, BLEU and p_t of the systems of notebook 3, which are trained and scored as there
ladder       p_t of finished runs of the results page, on 1,000 test pairs; needs --runs

The systems are local-p, its variants, and two systems for comparison:

    general            global attention with the general score
    local-m            p_t = t
    local-m, Gaussian  p_t = t, weights fall with the distance from t as in local-p
    local-p            equations 9 and 10 of Luong, Pham, Manning 2015; the logit of p_t is the mean over the units
    local-p, sum       the logit of p_t is the sum over the units, as in the paper

Each run is added to the JSON file when it ends. Runs that are in the file are skipped.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast
from unittest.mock import patch

import numpy as np
import tyro

from benchmarks.machine import machine
from benchmarks.results import in_small
from nmt_keras.cli.memory import keep_memory
from nmt_keras.config import Recipe
from nmt_keras.recipes import find_recipe

if TYPE_CHECKING:
    from nmt_keras.corpus import Pair, SplitCorpus
    from nmt_keras.corpus.batches import Batch
    from nmt_keras.models.seq2seq import Seq2Seq
    from nmt_keras.translation.model_translator import ModelTranslator

TOKENS = 9
"""Maximum number of tokens of each side, including END."""
SATURATED = 0.01
"""Threshold of the derivative of a position's sigmoid, below which the position is saturated."""
VARIANTS = ("general", "local-m", "local-m, Gaussian", "local-p", "local-p, sum")
SGD = (
    "optimizer",
    "learning_rate",
    "warmup_steps",
    "decay",
    "halve_from",
    "halve_every",
    "clip_norm",
    "denominator",
)
"""Fields of the paper's training."""
SGD_UPDATES = 8000
"""Number of updates of each run of the experiment "sgd"."""
TRANSLATING = ("local-m", "local-p", "local-p, sum")
"""Systems of the experiment "translation"."""


@dataclass(frozen=True)
class Settings:
    """Options of the experiments."""

    corpus: str
    """Zip file of English-Spanish pairs."""
    results: Path = Path(__file__).parents[1] / "docs" / "results" / "diagnostics" / "local-p.json"
    """JSON file of the runs."""
    experiments: tuple[Literal["agreement", "overfit", "training", "sgd", "translation", "ladder"], ...] = (
        "agreement",
        "overfit",
        "training",
        "sgd",
        "translation",
        "ladder",
    )
    runs: tuple[Path, ...] = ()
    """Run directories of luong-local-p, for the experiment "ladder"."""
    pairs: int = 20_000
    """Number of training pairs of the experiment "training"."""
    updates: int = 1000
    """Number of updates of each run of the experiment "training"."""
    seeds: tuple[int, ...] = (1, 2)
    """Seeds of each system of the experiments "training" and "translation"."""
    variants: tuple[str, ...] = VARIANTS
    """Variants of the experiment "training"."""
    systems: tuple[str, ...] = TRANSLATING
    """Systems of the experiment "translation"."""
    width: float = 0.128
    """Share of the paper's 1000 units."""
    rate: float = 6e-3
    """Peak learning rate of Adam."""


class Corpus(NamedTuple):
    """Sentence pairs as padded token ids [N, TOKENS] int32, and the sizes of the vocabularies."""

    source: np.ndarray
    target: np.ndarray
    sizes: tuple[int, int]

    def take(self, rows: Any) -> Corpus:
        """Returns the pairs ``rows``."""
        return self._replace(source=self.source[rows], target=self.target[rows])

    def batch(self, random: np.random.Generator, size: int) -> Batch:
        """Returns a batch of ``size`` pairs drawn at random."""
        from nmt_keras.corpus.batches import Batch

        rows = random.integers(len(self.source), size=size)
        return Batch(self.source[rows], self.target[rows], size)


class Results:
    """Finished runs, kept in a JSON file.

    Args:
        path: Path of the file, which is created if missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> list[dict[str, Any]]:
        """Returns the rows of the file."""
        return json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else []

    def has(self, **names: Any) -> bool:
        """Returns True if a row with all these fields exists."""
        return any(names.items() <= row.items() for row in self.rows())

    def add(self, **row: Any) -> None:
        """Adds a row with the machine and the command, and writes the file."""
        arguments = [Path(word).name if os.sep in word else word for word in sys.argv[1:]]
        command = shlex.join(["python", "-m", "benchmarks.local_p", *arguments])
        rows = [*self.rows(), {**row, **machine(), "command": command}]  # read again: another process may have added
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def main(settings: Settings) -> None:
    """Runs the experiments that have no row yet."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    corpus, results = read_corpus(settings.corpus), Results(settings.results)
    experiments = {
        "agreement": agreement,
        "overfit": overfit,
        "training": training,
        "sgd": sgd,
        "translation": translation,
        "ladder": ladder,
    }
    for name in settings.experiments:
        experiments[name](settings, corpus, results)


def read_corpus(path: str) -> Corpus:
    """Reads the pairs of at most TOKENS tokens, in random order, with vocabularies of 2,000 words."""
    import tensorflow as tf

    from nmt_keras.config import TokenizerConfig
    from nmt_keras.corpus import read_pairs
    from nmt_keras.text.word import WordTokenizer

    pairs = read_pairs(path, source_column=1, target_column=0).pairs
    chosen = [pairs[row] for row in np.random.default_rng(1).permutation(len(pairs))[:40_000]]
    sides = []
    for side in ("source", "target"):
        lines = [getattr(pair, side) for pair in chosen]
        tokenizer = WordTokenizer.fit(lines, TokenizerConfig("word", vocabulary_size=2000))
        sides.append((tokenizer.encode(tf.constant(lines)), tokenizer.vocabulary_size))
    short = np.all([tokens.lengths.numpy() <= TOKENS for tokens, _ in sides], axis=0)
    source, target = (tokens.ids.numpy()[short, :TOKENS] for tokens, _ in sides)
    return Corpus(source, target, (sides[0][1], sides[1][1]))


def recipe_of(settings: Settings, variant: str, window: int = 3) -> Recipe:
    """Returns the small recipe of a variant, without dropout and smoothing."""
    name = {"general": "luong-general", "local-m": "luong-local-m"}.get(variant, "luong-local-p")
    recipe = in_small(find_recipe(name), settings.width, settings.rate)
    attention = replace(recipe.model.attention, window=window, position_logit=logit_of(variant))
    return replace(
        recipe,
        model=replace(recipe.model, attention=attention, dropout=0.0),
        train=replace(recipe.train, minutes=None, steps=1, label_smoothing=0.0),
    )


def logit_of(variant: str) -> Literal["mean", "sum"]:
    """Returns how a variant computes the logit of p_t."""
    return "sum" if variant == "local-p, sum" else "mean"


def with_sgd(recipe: Recipe) -> Recipe:
    """Returns a recipe with the initial weights, SGD and halving of Luong, Pham, Manning 2015."""
    paper = find_recipe("luong-local-p")
    kept = {name: getattr(paper.train, name) for name in SGD}
    return replace(
        recipe,
        model=replace(recipe.model, initializer=paper.model.initializer),
        train=replace(recipe.train, **kept),
    )


def agreement(settings: Settings, corpus: Corpus, results: Results) -> None:
    """Measures relative differences of loss and gradients between eager and XLA, and between narrow and wide batches.

    The difference of gradients is the largest over all variables. The wide batch is the narrow batch with more padding,
    so that the window is gathered.
    """
    import keras
    import tensorflow as tf

    from nmt_keras.corpus.batches import Batch
    from nmt_keras.models.seq2seq import build_model
    from nmt_keras.training import Updater

    if results.has(experiment="agreement"):
        return
    rows = []
    for window in (3, 10):
        for narrow in (5, 9):
            recipe = recipe_of(settings, "local-p", window)
            keras.utils.set_random_seed(1)
            model = build_model(recipe.model, *corpus.sizes)
            updater = Updater(model, recipe.train)
            short = np.flatnonzero((corpus.source[:, narrow:] == 0).all(axis=1))[:32]
            batch = Batch(corpus.source[short, :narrow], corpus.target[short], len(short))
            found = {}
            for width in (narrow, 24):
                padding = ((0, 0), (0, width - narrow))
                arrays = updater.replicas.split(batch._replace(source=np.pad(batch.source, padding)))
                arguments = (arrays, tf.constant(0), None, 1.0)
                found[width, "XLA"] = updater.gradients(*arguments)
                tf.config.run_functions_eagerly(True)
                found[width, "eager"] = updater.gradients(*arguments)
                tf.config.run_functions_eagerly(False)
            wanted, wanted_loss = found[narrow, "eager"]
            for (width, engine), (gradients, loss) in found.items():
                differences = [float(tf.norm(g - w) / tf.norm(w)) for g, w in zip(gradients, wanted, strict=True)]
                rows.append(
                    {
                        "window": window,
                        "source_width": width,
                        "gathered": width > 2 * window + 1,
                        "engine": engine,
                        "loss_relative_difference": abs(float(loss.total / wanted_loss.total) - 1.0),
                        "gradient_relative_difference": max(differences),
                    }
                )
    results.add(experiment="agreement", rows=rows)


def overfit(settings: Settings, corpus: Corpus, results: Results, updates: int = 8000) -> None:
    """Measures the cross-entropy in nats per token of 500 training pairs, before and after many updates."""
    few, small = corpus.take(slice(500)), replace(settings, rate=3e-3)
    for system, window in (("local-p", 3), ("local-p", 10), ("general", 3), ("local-m", 3)):
        names = {"experiment": "overfit", "system": system, "window": window, "seed": 1}
        if not results.has(**names):
            recipe = recipe_of(small, system, window)
            points = run(recipe, system, few, few, updates, 1, batch_size=32)
            results.add(**names, **sizes(recipe, few, 32), points=points)


def training(settings: Settings, corpus: Corpus, results: Results) -> None:
    """Measures validation loss and predicted positions of every variant and seed, after equal numbers of updates."""
    valid, train = corpus.take(slice(500)), corpus.take(slice(500, 500 + settings.pairs))
    for seed in settings.seeds:
        for system in settings.variants:
            names = {"experiment": "training", "system": system, "window": 3, "seed": seed}
            if not results.has(**names):
                recipe = recipe_of(settings, system)
                points = run(recipe, system, train, valid, settings.updates, seed)
                results.add(**names, **sizes(recipe, train, 64), points=points)


def sgd(settings: Settings, corpus: Corpus, results: Results) -> None:
    """Measures the same as ``training`` with ``with_sgd``, for local-m and both kinds of local-p."""
    valid, train = corpus.take(slice(500)), corpus.take(slice(500, 500 + settings.pairs))
    for system, seed in ((system, seed) for seed in settings.seeds for system in TRANSLATING):
        names = {"experiment": "sgd", "system": system, "window": 3, "seed": seed}
        if not results.has(**names):
            recipe = with_sgd(recipe_of(settings, system))
            points = run(recipe, system, train, valid, SGD_UPDATES, seed)
            results.add(**names, **sizes(recipe, train, 64), points=points)


def sizes(recipe: Recipe, train: Corpus, batch_size: int) -> dict[str, float]:
    """Returns the sizes of a run, for its row."""
    return {
        "pairs": len(train.source),
        "batch_size": batch_size,
        "units": recipe.model.decoder.units,
        "rate": recipe.train.learning_rate,
    }


def run(
    recipe: Recipe,
    variant: str,
    train: Corpus,
    valid: Corpus,
    updates: int,
    seed: int,
    batch_size: int = 64,
    points: int = 8,
) -> list[dict[str, float]]:
    """Trains a model. Returns the results of ``measure`` on ``valid`` after 0, ..., ``updates`` updates."""
    import keras

    from nmt_keras.models.seq2seq import build_model
    from nmt_keras.training import Updater
    from nmt_keras.training.schedules import learning_rate

    keras.utils.set_random_seed(seed)
    with altered(variant):
        model = build_model(recipe.model, *train.sizes)
        updater = Updater(model, recipe.train)
        random = np.random.default_rng(seed)
        found = [{"updates": 0.0, **measure(model, valid)}]
        for step in range(updates):
            updater.update([train.batch(random, batch_size)], step, learning_rate(recipe.train, step, updates))
            if (step + 1) % (updates // points) == 0:
                found.append({"updates": step + 1.0, **measure(model, valid)})
    return found


def translation(settings: Settings, corpus: Corpus, results: Results, updates: int = 2000) -> None:
    """Trains systems of notebook 3. Measures validation loss, BLEU on the test set, and p_t on 1,000 of its pairs."""
    from nmt_keras.evaluation.report import evaluate
    from nmt_keras.recipes import SPANISH_ENGLISH
    from nmt_keras.runs import Run
    from nmt_keras.training import read_log

    split = read_split(settings.corpus)
    for system, seed in ((system, seed) for system in settings.systems for seed in settings.seeds):
        names = {"experiment": "translation", "system": system, "window": 2, "seed": seed}
        if results.has(**names):
            continue
        span: Literal["local-m", "local-p"] = "local-m" if system == "local-m" else "local-p"
        attention = replace(SPANISH_ENGLISH.model.attention, span=span, window=2, position_logit=logit_of(system))
        recipe = replace(
            SPANISH_ENGLISH,
            model=replace(SPANISH_ENGLISH.model, attention=attention),
            train=replace(SPANISH_ENGLISH.train, minutes=None, steps=updates, seed=seed, augmentation=0.0),
        )
        with altered(system), TemporaryDirectory() as folder:
            run = Run(folder, recipe)
            run.train(split, report=print, show=lambda step, total, row: None)
            losses = {
                row["step"]: row["valid_loss"] for row in read_log(run.folder / "log.jsonl") if "valid_loss" in row
            }
            translator = run.translator()
            bleu = evaluate(translator, split.test).bleu
            found = measure_pairs(translator, split.test[:1000])
        results.add(
            **names,
            updates=updates,
            rate=recipe.train.learning_rate,
            valid_loss=round(losses[updates], 4),
            bleu=round(bleu, 2),
            test=found,
        )


def ladder(settings: Settings, corpus: Corpus, results: Results) -> None:
    """Measures p_t of finished runs of luong-local-p, with the mean over the units, on 1,000 test pairs."""
    from nmt_keras.runs import Run

    for folder in settings.runs:
        run = Run(folder)
        if (run.recipe.name, run.recipe.model.attention.position_logit) != ("luong-local-p", "mean"):
            raise SystemExit(f"local_p: {folder}: expected a run of luong-local-p with the mean. Pass another --runs.")
        names = {"experiment": "ladder", "system": "local-p", "seed": run.recipe.train.seed}
        if not results.has(**names):
            test = read_split(settings.corpus).test
            window = run.recipe.model.attention.window
            results.add(**names, window=window, test=measure_pairs(run.translator(), test[:1000]))


def read_split(path: str) -> SplitCorpus:
    """Returns the published split of the corpus file ``path``, Spanish to English."""
    from nmt_keras.config import CorpusConfig
    from nmt_keras.corpus.loading import load_corpus
    from nmt_keras.corpus.options import CorpusOptions

    return load_corpus(CorpusOptions(corpus=(path,)), CorpusConfig(), Path(), report=print)


def measure_pairs(translator: ModelTranslator, pairs: Sequence[Pair]) -> dict[str, float]:
    """Returns the results of ``measure`` on sentence pairs."""
    import tensorflow as tf

    source = translator.source_tokenizer.encode(tf.constant([pair.source for pair in pairs])).ids.numpy()
    target = translator.target_tokenizer.encode(tf.constant([pair.target for pair in pairs])).ids.numpy()
    return measure(cast("Seq2Seq", translator.model), Corpus(source, target, (0, 0)))


def altered(variant: str) -> AbstractContextManager[Any]:
    """Returns a context in which models are built with the attention of ``variant``."""
    from nmt_keras.layers.local_attention import MonotonicLocalAttention, PredictiveLocalAttention

    class Diagonal(PredictiveLocalAttention):
        """local-p with p_t = t."""

        center = MonotonicLocalAttention.center

    attention = Diagonal if variant == "local-m, Gaussian" else PredictiveLocalAttention
    return patch("nmt_keras.models.builder.PredictiveLocalAttention", attention)


def measure(model: Seq2Seq, corpus: Corpus) -> dict[str, float]:
    """Returns the cross-entropy in nats per token under teacher forcing, and statistics of p_t over target tokens."""
    import tensorflow as tf

    from nmt_keras.config import PAD, START

    attention = model.decoder.attention
    source, target = tf.constant(corpus.source), corpus.target
    memory, advance = model.encode(source), model.step
    state = model.initial_state(memory)
    seen: list[tf.Tensor] = []
    centre = getattr(attention, "center", None)
    if centre is not None:

        def watched(query: tf.Tensor, step: tf.Tensor, memory: Any) -> tf.Tensor:
            seen.append(centre(query, step, memory))
            return seen[-1]

        attention.center = watched
    align, masses = attention.alignment, list[tf.Tensor]()

    def weighed(attended: Any, memory: Any) -> tf.Tensor:
        masses.append(tf.reduce_sum(attended.alpha, axis=-1)[:, 0])
        return align(attended, memory)

    attention.alignment = weighed
    read = np.concatenate([np.full([len(target), 1], START), target[:, :-1]], axis=1).astype(np.int32)
    losses = []
    for t in range(target.shape[1]):
        step = advance(tf.constant(read[:, t : t + 1]), state, memory)
        state = step.state
        losses.append(tf.nn.sparse_softmax_cross_entropy_with_logits(target[:, t], step.logits[:, 0]))
    real = target != PAD
    found = {"loss": float(np.stack(losses, axis=1)[real].mean()), "row_mass": float(np.stack(masses, 1)[real].mean())}
    attention.alignment = align
    if centre is not None:
        attention.center = centre
        found |= positions(np.stack([each.numpy()[:, 0] for each in seen], axis=1), memory.lengths.numpy(), real)
    return {name: round(value, 4) for name, value in found.items()}


def positions(centres: np.ndarray, lengths: np.ndarray, real: np.ndarray) -> dict[str, float]:
    """Returns statistics of p_t at real target positions.

    Args:
        centres: [N, T] float. Centre p_t of each window.
        lengths: [N] int. Number of source tokens of each sentence.
        real: [N, T] bool. True at real target positions.
    """
    share = centres / lengths[:, np.newaxis]
    diagonal = np.minimum(np.arange(centres.shape[1]), lengths[:, np.newaxis] - 1)
    spread = centres[real].std() > 1e-6
    return {
        "saturated": float((share * (1.0 - share) < SATURATED)[real].mean()),
        "distance_from_t": float(np.abs(centres - diagonal)[real].mean()),
        "correlation_with_t": float(np.corrcoef(centres[real], diagonal[real])[0, 1]) if spread else 0.0,
        "mean_share": float(share[real].mean()),
    }


if __name__ == "__main__":
    keep_memory()
    main(tyro.cli(Settings, description=__doc__))
