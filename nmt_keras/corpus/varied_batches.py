"""Batches that differ in every epoch: some pairs are varied."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import tensorflow as tf

from nmt_keras.corpus.alignments import Link, split_words, token_links, words_of_tokens
from nmt_keras.corpus.augmentation import Augmentation
from nmt_keras.corpus.batches import Batch, Batches, Position, TokenLists, iterate_batches, prefetched
from nmt_keras.corpus.reading import Pair
from nmt_keras.text import Codec, Tokens
from nmt_keras.text.normalisation import in_blocks

TEXT = tf.TensorSpec([None], tf.string)


class VariedBatches:
    """Batches with new variations in every epoch: a pure function of (seed, epoch, pair).

    A pool is drawn as a whole and then cut into batches by the lengths of its drawn pairs. If a drawn pair is longer
    than the last bucket, the pool contains the pair as written. The number of batches is that of the pairs as written,
    an estimate if the number of rows depends on the bucket.

    Args:
        batches: Batches of the pairs as written.
        pairs: The N pairs.
        codec: The tokenizers of the two sides.
        augmentation: Draws variations.
        links: Links between the words of each pair, for guided alignment; ``None`` for no links. A variation
            whose words are more, fewer or at other places has none.
    """

    def __init__(
        self,
        batches: Batches,
        pairs: Sequence[Pair],
        codec: Codec,
        augmentation: Augmentation,
        links: Sequence[frozenset[Link]] | None = None,
    ):
        self.batches, self.pairs, self.augmentation, self.links = batches, pairs, augmentation, links
        self.buckets, self.masked = batches.buckets, batches.masked
        self._encode = tf.function(codec.encode_pairs, input_signature=[TEXT, TEXT], autograph=False)

    def __len__(self) -> int:
        return len(self.batches)

    def iterate(self, position: Position) -> Iterator[tuple[Position, Batch]]:
        """Yields each batch with its position; see ``BatchSource``. Threads draw ahead."""
        return prefetched(
            iterate_batches(
                lambda epoch, begin: (
                    (self._drawn(epoch, rows), np.arange(len(rows)))
                    for rows in self.batches.rows_of_pools(epoch, begin)
                ),
                position,
            )
        )

    def _drawn(self, epoch: int, rows: np.ndarray) -> Batches:
        """Returns the pairs of a pool as they are drawn."""
        blocks = [self._draw(epoch, block) for block in in_blocks(rows.tolist())]
        sources, targets, links = zip(*blocks, strict=True)
        return Batches(
            TokenLists.joined(sources),
            TokenLists.joined(targets),
            batch_size=self.batches.rows,
            buckets=self.buckets,
            pool_size=self.batches.pool_size,
            seed=self.batches.seed,
            links=None if self.links is None else list(chain(*links)),
        )

    def _draw(self, epoch: int, rows: Sequence[int]) -> tuple[TokenLists, TokenLists, list[np.ndarray]]:
        """Returns the sides and the links of the pairs ``rows``, some of them varied."""
        written = [self.pairs[row] for row in rows]
        randoms = [np.random.default_rng([self.batches.seed, epoch, 3, row]) for row in rows]
        varied = list(map(self.augmentation.draw, written, randoms))
        sides = [[side[row] for row in rows] for side in (self.batches.source, self.batches.target)]
        links = [] if self.batches.links is None else [self.batches.links[row] for row in rows]
        places = [place for place, pair in enumerate(varied) if pair is not None]
        chosen = [pair for pair in varied if pair is not None]
        for place, pair, (ids, words, fits) in zip(places, chosen, self._encoded(chosen), strict=True):
            if not fits:
                continue
            for drawn, side in zip(sides, ids, strict=True):
                drawn[place] = side
            if self.links is not None:
                keeps_words = _are_words(pair) == _are_words(written[place])
                links[place] = token_links(self.links[rows[place]] if keeps_words else (), *words)
        source, target = (TokenLists(np.concatenate(side), np.array(list(map(len, side)))) for side in sides)
        return source, target, links

    def _encoded(self, pairs: Sequence[Pair]) -> Iterator[tuple[Sequence[np.ndarray], Sequence[list[int]], bool]]:
        """Yields for each pair: the ids of its sides, the words of their tokens, and if it fits into the last bucket.

        Without links, the words are empty.
        """
        texts = [tf.constant([pair[side] for pair in pairs], tf.string) for side in (0, 1)]
        tokens = self._encode(*texts)
        words = [()] * len(pairs) if self.links is None else words_of(tokens, pairs)
        truncated = tokens[0].truncated.numpy() | tokens[1].truncated.numpy()
        for ids, is_truncated, pair_words in zip(zip(*map(_rows, tokens), strict=True), truncated, words, strict=True):
            fits = all(len(side) <= limit for side, limit in zip(ids, self.buckets[-1], strict=True))
            yield ids, pair_words, fits and not is_truncated


def words_of(tokens: Sequence[Tokens], pairs: Sequence[Pair]) -> list[tuple[list[int], ...]]:
    """Returns for each pair and side: for each token, the position of the word that contains it."""
    sides = (
        [
            words_of_tokens(text.decode(), [surface.decode() for surface in surfaces[:length]], written)
            for text, surfaces, length, written in zip(
                side.text.numpy(), side.surface.numpy(), side.lengths.numpy(), written, strict=True
            )
        ]
        for side, written in zip(tokens, zip(*pairs, strict=True), strict=True)
    )
    return list(zip(*sides, strict=True))


def _are_words(pair: Pair) -> list[list[bool]]:
    """Returns for each word of each side whether it has a letter or digit."""
    return [[re.search(r"\w", word) is not None for word in split_words(side)] for side in pair]


def _rows(tokens: Tokens) -> list[np.ndarray]:
    return [row[:length] for row, length in zip(tokens.ids.numpy(), tokens.lengths.numpy(), strict=True)]
