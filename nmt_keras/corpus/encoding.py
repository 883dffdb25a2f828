"""Encodes sentence pairs in memory and groups them into batches."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np
import tensorflow as tf

from nmt_keras.config import TrainConfig
from nmt_keras.corpus.alignments import Link, from_pharaoh, token_links
from nmt_keras.corpus.augmentation import Augmentation
from nmt_keras.corpus.batches import Batches, BatchSource, TokenLists, bucket_count, choose_buckets, rows_by_bucket
from nmt_keras.corpus.reading import Pair
from nmt_keras.corpus.varied_batches import VariedBatches, words_of
from nmt_keras.text import Codec, Tokenizer, Tokens
from nmt_keras.text.normalisation import in_blocks

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
        config: Configuration of length limits, buckets, batch size and augmentation.
        report: Function that receives messages for the user.
        alignments: A line in Pharaoh's format for each of the N pairs; ``None`` for no alignments.

    Raises:
        ValueError: no pair is short enough, or a line is not an alignment.
    """
    limit = config.max_tokens
    limits = [min(limit, tokenizer.config.max_tokens) for tokenizer in tokenizers]
    either, within = (f"{limits[0]} source {word} {limits[1]} target tokens" for word in ("or", "and"))
    if limits[0] == limits[1]:
        either = within = f"{limits[0]} tokens per side"
    codec = Codec(*tokenizers)
    source, target, cut = encode_pairs(codec, pairs)
    long = cut | (source.lengths > limit) | (target.lengths > limit)
    kept = np.flatnonzero(~long).tolist()
    name = "TrainConfig.max_tokens" if min(limits) == limit else "TokenizerConfig.max_tokens"
    if not kept:
        raise ValueError(
            f"{name}: expected a pair of at most {within}, found none among {len(source):,} pairs. Raise the limit."
        )
    report(f"{len(kept):,} pairs to train on; {long.sum():,} skipped: more than {either}")
    if (share := long.mean()) > MAX_LEFT_OUT:
        report(f"Warning: {share:.0%} of the training pairs are longer than {either}. Raise {name} to train on them.")
    source, target = source.take(np.array(kept)), target.take(np.array(kept))
    pairs = [pairs[row] for row in kept]
    links = (
        None
        if alignments is None
        else [from_pharaoh(alignments[row], f"alignments, line {row + 1}").possible for row in kept]
    )
    buckets = choose_buckets(source.lengths, target.lengths, bucket_count(config, len(source)))
    batches = Batches(
        source,
        target,
        batch_size=rows_by_bucket(buckets, config.batch_size, config.batch_tokens),
        buckets=buckets,
        pool_size=config.pool_size,
        seed=config.seed,
        links=None if links is None else _token_links(pairs, links, codec),
    )
    if not config.augmentation:
        return batches
    return VariedBatches(batches, pairs, codec, Augmentation(config.augmentation, pairs), links)


def _token_links(pairs: Sequence[Pair], links: Sequence[frozenset[Link]], codec: Codec) -> list[np.ndarray]:
    """Returns the links between tokens for each pair, from its links between words."""
    blocks = zip(_encoded(codec, pairs), in_blocks(pairs), strict=True)
    words = chain.from_iterable(words_of(*block) for block in blocks)
    return [token_links(each, *sides) for each, sides in zip(links, words, strict=True)]


def encode_pairs(codec: Codec, pairs: Sequence[Pair]) -> tuple[TokenLists, TokenLists, np.ndarray]:
    """Encodes sentence pairs.

    Returns:
        Token ids of the sources and of the targets, and a mask of the pairs with a truncated side, [N] bool.
    """
    sides: tuple[list[TokenLists], list[TokenLists]] = ([], [])
    truncated = [np.zeros([0], bool)]
    for encoded in _encoded(codec, pairs):
        truncated.append(encoded[0].truncated.numpy() | encoded[1].truncated.numpy())
        for side, tokens in zip(sides, encoded, strict=True):
            ids, lengths = tokens.ids.numpy(), tokens.lengths.numpy()
            side.append(TokenLists(ids[np.arange(ids.shape[1]) < lengths[:, np.newaxis]], lengths))
    return TokenLists.joined(sides[0]), TokenLists.joined(sides[1]), np.concatenate(truncated)


def _encoded(codec: Codec, pairs: Sequence[Pair]) -> Iterator[tuple[Tokens, Tokens]]:
    """Yields the encoded sides of the pairs in blocks."""
    for block in in_blocks(pairs):
        source, target = zip(*block, strict=True)
        yield codec.encode_pairs(tf.constant(source), tf.constant(target))
