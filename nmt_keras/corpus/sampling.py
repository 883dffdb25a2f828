"""Subword regularisation: draws a new segmentation of each sentence in every epoch (Kudo 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nmt_keras.config import PAD
from nmt_keras.corpus.batches import Batch, Batches, Position, iterate_pools
from nmt_keras.corpus.prefetching import prefetched
from nmt_keras.text import SubwordTokenizer


class Segmenter:
    """Draws one of a sentence's most probable segmentations (Kudo 2018, section 3.3).

    A segmentation x is drawn with probability P(x)^alpha / SUM_x' P(x')^alpha, where P is the probability of its pieces
    under the unigram model.

    Args:
        tokenizer: Subword tokenizer of the side.
        alpha: Exponent. 0 draws uniformly; larger values prefer more probable segmentations.
        count: Number of segmentations to draw from.
    """

    def __init__(self, tokenizer: SubwordTokenizer, alpha: float, count: int):
        self.tokenizer, self.alpha, self.count = tokenizer, alpha, count

    def draw(self, line: str, random: np.random.Generator) -> list[int]:
        """Returns the ids of a segmentation of ``line``, END included."""
        segmentations, log_probs = self.tokenizer.segmentations(line, self.count)
        weights = np.exp(self.alpha * (log_probs - log_probs.max()))
        return segmentations[int(random.choice(len(segmentations), p=weights / weights.sum()))]


class SampledBatches:
    """Batches with new segmentations in every epoch. A segmentation is a pure function of (seed, epoch, sentence).

    The most probable segmentations determine the order and the buckets. If a drawn segmentation is too long for its
    bucket, the batch contains the most probable segmentation.

    Args:
        batches: Batches of the most probable segmentations.
        lines: The N sentences of each side.
        segmenters: Segmenter of each side; ``None`` for a side with fixed tokens.
    """

    def __init__(
        self,
        batches: Batches,
        lines: tuple[Sequence[str], Sequence[str]],
        segmenters: tuple[Segmenter | None, Segmenter | None],
    ):
        self.batches, self.lines, self.segmenters = batches, lines, segmenters
        self.buckets, self.masked, self.bucket_counts = batches.buckets, batches.masked, batches.bucket_counts

    def __len__(self) -> int:
        return len(self.batches)

    def iterate(self, position: Position) -> Iterator[tuple[Position, Batch]]:
        """Yields each batch with its position; see ``BatchSource``. A thread draws segmentations ahead."""
        places = iterate_pools(self.batches.pools, position)
        return prefetched(((place, self._drawn(place.epoch, rows)) for place, rows in places), ahead=8)

    def _drawn(self, epoch: int, rows: np.ndarray) -> Batch:
        batch = self.batches.batch(rows)
        for place, row in enumerate(rows):
            random = np.random.default_rng([self.batches.seed, epoch, 3, int(row)])
            for side, lines, segmenter in zip((batch.source, batch.target), self.lines, self.segmenters, strict=True):
                if segmenter is None:
                    continue
                ids = segmenter.draw(lines[row], random)
                if len(ids) <= side.shape[1]:
                    side[place] = PAD
                    side[place, : len(ids)] = ids
        return batch
