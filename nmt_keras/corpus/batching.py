"""Encodes sentence pairs in memory and groups them into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from nmt_keras.config import TrainConfig, require
from nmt_keras.corpus.alignments import from_pharaoh, token_links, words_of_tokens
from nmt_keras.corpus.batches import Batches, BatchSource, TokenLists, choose_buckets, rows_by_bucket
from nmt_keras.corpus.reading import Pair
from nmt_keras.corpus.sampling import SampledBatches, Segmenter
from nmt_keras.text import SubwordTokenizer, Tokenizer, normalise_lines

MAX_LEFT_OUT = 0.05
"""Share of skipped pairs above which a warning is reported."""


def batch_pairs(
    pairs: Sequence[Pair],
    tokenizers: tuple[Tokenizer, Tokenizer],
    config: TrainConfig,
    report: Callable[[str], None],
    alignments: Sequence[str] | None = None,
) -> BatchSource:
    """Returns the batches of ``pairs``. Pairs that are too long are skipped.

    Args:
        pairs: The training set.
        tokenizers: Tokenizers of source and target.
        config: Configuration of length limits, buckets, batch size and subword regularisation.
        report: Function that receives messages for the user.
        alignments: A line in Pharaoh's format for each of the N pairs; ``None`` for no alignments.

    Raises:
        ValueError: no pair is short enough, a line is not an alignment, or alignments are combined with subword
            regularisation.
    """
    require(
        alignments is None or config.segmentation_alpha is None,
        "TrainConfig.segmentation_alpha",
        "None with --alignments",
        config.segmentation_alpha,
        "Alignments are valid only for the most probable segmentation. Remove --alignments, or pass None.",
    )
    limit = config.max_tokens
    limits = [min(limit, tokenizer.config.max_tokens) for tokenizer in tokenizers]
    told, within = (f"{limits[0]} source {word} {limits[1]} target tokens" for word in ("or", "and"))
    if limits[0] == limits[1]:
        told = within = f"{limits[0]} tokens per side"
    (source, source_cut), (target, target_cut) = (
        encode_lines(tokenizer, lines) for tokenizer, lines in zip(tokenizers, zip(*pairs, strict=True), strict=True)
    )
    long = source_cut | target_cut | (source.lengths > limit) | (target.lengths > limit)
    kept = np.flatnonzero(~long).tolist()
    name = "TrainConfig.max_tokens" if min(limits) == limit else "TokenizerConfig.max_tokens"
    if not kept:
        raise ValueError(
            f"{name}: expected a pair of at most {within}, found none among {len(source):,} pairs. Raise the limit."
        )
    report(f"{len(kept):,} pairs to train on; {len(source) - len(kept):,} skipped: more than {told}")
    if (share := (len(source) - len(kept)) / len(source)) > MAX_LEFT_OUT:
        report(f"Warning: {share:.0%} of the training pairs are longer than {told}. Raise {name} to train on them.")
    source, target = source.take(np.array(kept)), target.take(np.array(kept))
    buckets = choose_buckets(source.lengths, target.lengths, config.length_buckets)
    batches = Batches(
        source,
        target,
        batch_size=rows_by_bucket(buckets, config.batch_size, config.batch_tokens),
        buckets=buckets,
        pool_size=config.pool_size,
        seed=config.seed,
        links=None if alignments is None else _links(pairs, alignments, kept, tokenizers),
    )
    if config.segmentation_alpha is None:
        return batches
    sources, targets = ([getattr(pairs[row], side) for row in kept] for side in ("source", "target"))
    return SampledBatches(
        batches,
        lines=(list(normalise_lines(sources)), list(normalise_lines(targets))),
        segmenters=(_segmenter(tokenizers[0], config), _segmenter(tokenizers[1], config)),
    )


def _segmenter(tokenizer: Tokenizer, config: TrainConfig) -> Segmenter | None:
    """Returns the segmenter of one side, or ``None`` if its segmentation is fixed."""
    if config.segmentation_alpha is None or not isinstance(tokenizer, SubwordTokenizer):
        return None
    if tokenizer.config.kind != "subword":
        return None
    return Segmenter(tokenizer, config.segmentation_alpha, config.segmentations)


def _links(
    pairs: Sequence[Pair], lines: Sequence[str], kept: Sequence[int], tokenizers: tuple[Tokenizer, Tokenizer]
) -> list[np.ndarray]:
    """Returns the links between tokens for each pair whose index is in ``kept``."""
    links = [from_pharaoh(lines[row], f"alignments, line {row + 1}").possible for row in kept]
    sources = _words(tokenizers[0], [pairs[row].source for row in kept])
    targets = _words(tokenizers[1], [pairs[row].target for row in kept])
    return [token_links(*one) for one in zip(links, sources, targets, strict=True)]


def _words(tokenizer: Tokenizer, sentences: Sequence[str]) -> Iterator[list[int]]:
    """Yields a list for each sentence: for each token, the position of the word that contains it."""
    for begin in range(0, len(sentences), LINES_AT_ONCE):
        chunk = sentences[begin : begin + LINES_AT_ONCE]
        tokens = tokenizer.encode(tf.constant(chunk))
        for sentence, surfaces, length in zip(
            normalise_lines(chunk), tokens.surface.numpy(), tokens.lengths.numpy(), strict=True
        ):
            yield words_of_tokens(sentence, [surface.decode() for surface in surfaces[:length]])


LINES_AT_ONCE = 4096


def encode_lines(tokenizer: Tokenizer, lines: Sequence[str]) -> tuple[TokenLists, np.ndarray]:
    """Encodes lines.

    Returns:
        Token ids of all lines, and a mask of the lines that the tokenizer truncated, [N] bool.
    """
    ids, lengths, truncated = [np.zeros([0], np.int32)], [np.zeros([0], np.int32)], [np.zeros([0], bool)]
    for begin in range(0, len(lines), LINES_AT_ONCE):
        tokens = tokenizer.encode(tf.constant(lines[begin : begin + LINES_AT_ONCE]))
        lengths.append(tokens.lengths.numpy())
        truncated.append(tokens.truncated.numpy())
        real = np.arange(tokens.ids.shape[1]) < lengths[-1][:, np.newaxis]
        ids.append(tokens.ids.numpy()[real])
    return TokenLists(np.concatenate(ids), np.concatenate(lengths)), np.concatenate(truncated)
