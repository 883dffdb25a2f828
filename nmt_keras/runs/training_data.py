"""Training data of a run: tokenizers and batches of a corpus in memory or of a prepared corpus."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from nmt_keras.config import PairFilters, Recipe, require
from nmt_keras.corpus import Pair, Side, SplitCorpus, part_sha256
from nmt_keras.corpus.batches import BatchSource, bucket_count
from nmt_keras.corpus.encoding import batch_pairs
from nmt_keras.corpus.filtering import kept_rows
from nmt_keras.corpus.shards import PreparedCorpus, ShardedBatches
from nmt_keras.text import Codec, Tokenizer, fit_tokenizer, load_tokenizer

Tokenizers = tuple[Tokenizer, Tokenizer]
"""The tokenizers of source and target."""


class TrainingData(NamedTuple):
    """Data for the training and validation of a run."""

    facts: Mapping[str, Any]  # content of corpus.json
    fit: Callable[[Tokenizers | None], Tokenizers]  # the tokenizers of a new run, from those of its ancestor if any
    batches: Callable[[Tokenizers], BatchSource]  # returns the training batches
    valid: Sequence[Pair]


class PreparedSplit(NamedTuple):
    """A prepared corpus as training set, with validation pairs."""

    name: str
    train: PreparedCorpus
    valid: Sequence[Pair]
    test: Sequence[Pair] = ()
    key_side: Side = "target"


def training_data(corpus: SplitCorpus | PreparedSplit, recipe: Recipe, report: Callable[[str], None]) -> TrainingData:
    """Returns the training data of a corpus.

    Raises:
        ValueError: the recipe does not fit the corpus. A corpus with alignments requires one alignment per training
            pair, a trainable attention, and another precision than "mixed_float16". For a prepared corpus, the recipe
            must have the tokenizers of the corpus, and a ``TrainConfig.max_tokens`` of at least the longest side.
    """
    if isinstance(corpus, PreparedSplit):
        return _prepared(corpus, recipe, report)
    return _in_memory(corpus, recipe, report)


def _in_memory(corpus: SplitCorpus, recipe: Recipe, report: Callable[[str], None]) -> TrainingData:
    (rows, skipped), given = kept_rows(corpus.train, recipe.filters), corpus.alignments
    if skipped:
        require(bool(rows), "PairFilters", "filters that a training pair passes", str(recipe.filters))
        for reason, count in skipped.items():
            report(f"{count:,} training pairs skipped: {reason}")
        corpus = corpus._replace(
            train=[corpus.train[row] for row in rows], alignments=given and [given[row] for row in rows]
        )
    alignments = corpus.alignments
    sums = {
        part: part_sha256(pairs, key_side=corpus.key_side)
        for part, pairs in (("train", corpus.train), ("valid", corpus.valid), ("test", corpus.test))
    }
    if alignments is not None:
        attention, precision = recipe.model.attention, recipe.train.precision
        require(
            attention.has_scores,
            "AttentionConfig.kind",
            "a kind with scores if alignments are given",
            attention.kind,
            "Attention without scores cannot be trained on alignments.",
        )
        require(
            precision != "mixed_float16",
            "TrainConfig.precision",
            "another precision if alignments are given",
            precision,
            "The gradient of log alpha overflows float16.",
        )
        require(
            len(alignments) == len(corpus.train),
            "alignments",
            f"one line for each of the {len(corpus.train)} training pairs",
            len(alignments),
        )
        sums["alignments"] = hashlib.sha256("".join(f"{line}\n" for line in alignments).encode()).hexdigest()
    facts = {
        "name": corpus.name,
        "key_side": corpus.key_side,  # distinguishes the two directions, whose checksums are equal
        "pairs": {"train": len(corpus.train), "valid": len(corpus.valid), "test": len(corpus.test)},
        "sha256": sums,
    }

    def fit(inherited: Tokenizers | None) -> Tokenizers:
        if inherited is None:
            report("learning the vocabularies from the training set")
        tokenizers = inherited or (
            fit_tokenizer(recipe.source, [pair.source for pair in corpus.train], recipe.train.augmentation > 0),
            fit_tokenizer(recipe.target, [pair.target for pair in corpus.train], recipe.train.augmentation > 0),
        )
        Codec(*tokenizers).learn_copying(corpus.train)
        return tokenizers

    def batches(tokenizers: Tokenizers) -> BatchSource:
        return batch_pairs(corpus.train, tokenizers, recipe.train, report, alignments)

    return TrainingData(facts, fit, batches, corpus.valid)


def _prepared(split: PreparedSplit, recipe: Recipe, report: Callable[[str], None]) -> TrainingData:
    corpus = split.train
    corpus.require_its_vocabularies()
    tokenizers = load_tokenizer(corpus.folder / "source"), load_tokenizer(corpus.folder / "target")
    for side, tokenizer, wanted in zip(("source", "target"), tokenizers, (recipe.source, recipe.target), strict=True):
        require(
            tokenizer.config == wanted,
            str(corpus.folder / side),
            f"the recipe's {wanted}",
            tokenizer.config,
            "Prepare the corpus with the tokenizers of the recipe, or pass a recipe with those of the corpus.",
        )
    hint = "Pass the filters to nmt prepare."
    require(recipe.filters == PairFilters(), "--filters", "none with --prepared", str(recipe.filters), hint)
    config = recipe.train
    longest = int(corpus.lengths[:, :2].max(initial=0))
    require(
        longest <= config.max_tokens,
        "TrainConfig.max_tokens",
        f"at least {longest}, the maximum number of tokens per side in {corpus.folder}",
        config.max_tokens,
    )
    facts = {
        "name": split.name,
        "pairs": {"train": len(corpus), "valid": len(split.valid), "test": 0},
        "sha256": {"train": corpus.sha256, "valid": part_sha256(split.valid, key_side=split.key_side), "test": ""},
    }

    def batches(_: Tokenizers) -> BatchSource:
        report(f"{len(corpus):,} pairs to train on; skipped during preparation: {corpus.describe_skipped()}")
        if config.augmentation:
            report("pairs of a prepared corpus are not varied: TrainConfig.augmentation has no effect")
        return ShardedBatches(
            corpus,
            buckets=bucket_count(config, len(corpus)),
            batch_size=config.batch_size,
            batch_tokens=config.batch_tokens,
            pool_size=config.pool_size,
            seed=config.seed,
        )

    return TrainingData(facts, lambda inherited: inherited or tokenizers, batches, split.valid)
