"""Subword regularisation: sentences that are cut into other pieces in every epoch (Kudo 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nmt_keras.config import PAD
from nmt_keras.corpus.batches import Batch, Batches, Position
from nmt_keras.corpus.prefetching import prefetched
from nmt_keras.text import SubwordTokenizer


class Segmenter:
    """Draws one of a sentence's most probable segmentations, with p(x) = P(x)^alpha / SUM_x' P(x')^alpha.

    (Kudo 2018, section 3.3; P is the unigram model's probability of the pieces.)

    Args:
        text: whose pieces.
        alpha: 0 draws evenly; the greater, the more often the best one.
        count: segmentations to draw from.
    """

    def __init__(self, text: SubwordTokenizer, alpha: float, count: int):
        self.text, self.alpha, self.count = text, alpha, count

    def draw(self, line: str, random: np.random.Generator) -> list[int]:
        """The ids of a segmentation of ``line``, END included."""
        segmentations, log_probs = self.text.segmentations(line, self.count)
        weights = np.exp(self.alpha * (log_probs - log_probs.max()))
        return segmentations[int(random.choice(len(segmentations), p=weights / weights.sum()))]


class SampledBatches:
    """Batches whose sentences are cut anew in every epoch; what is drawn is a pure function of (seed, epoch, sentence).

    The order is that of the best segmentations, and so are the buckets: where a drawn one has no room, the best stays.

    Args:
        batches: of the best segmentations.
        lines: [N] the sentences of each side, as they are written.
        segmenters: for each side, or None for a side whose pieces stay.
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
        """See ``Batches.iterate``; a thread of its own draws ahead."""
        drawn = ((place, self.drawn(place.epoch, rows)) for place, rows in self.batches.places(position))
        return prefetched(drawn, ahead=8)

    def drawn(self, epoch: int, rows: np.ndarray) -> Batch:
        """The batch that an epoch has of ``rows``."""
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
