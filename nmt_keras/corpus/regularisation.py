"""Batches that differ in every epoch: variations of sentences, and subword regularisation (Kudo 2018)."""

from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from nmt_keras.config import PAD
from nmt_keras.corpus.alignments import Link, alignment_of, token_links, words_of_tokens
from nmt_keras.corpus.augmentation import Augmentation
from nmt_keras.corpus.batches import Batch, Batches, Position, iterate_pools, prefetched
from nmt_keras.corpus.reading import Pair
from nmt_keras.text import Codec, SubwordTokenizer, Tokens

TEXT = tf.TensorSpec([None], tf.string)


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
    """Batches with new variations and segmentations in every epoch: a pure function of (seed, epoch, pair).

    The pairs as written, in their most probable segmentations, determine the order and the buckets. If a drawn pair is
    too long for its bucket, the batch contains the pair as written.

    Args:
        batches: Batches of the pairs as written.
        pairs: The N pairs.
        codec: The tokenizers of the two sides.
        augmentation: Draws variations.
        segmenters: Segmenter of each side; ``None`` for a side with fixed segmentations.
        links: Links between the words of each pair, for guided alignment; ``None`` for no links. A variation with
            another number of words has none.
    """

    def __init__(
        self,
        batches: Batches,
        pairs: Sequence[Pair],
        codec: Codec,
        augmentation: Augmentation,
        segmenters: tuple[Segmenter | None, Segmenter | None] = (None, None),
        links: Sequence[frozenset[Link]] | None = None,
    ):
        self.batches, self.pairs, self.augmentation, self.segmenters = batches, pairs, augmentation, segmenters
        self.links = links
        self.buckets, self.masked, self.bucket_counts = batches.buckets, batches.masked, batches.bucket_counts
        self._encode = tf.function(codec.encode_pairs, input_signature=[TEXT, TEXT], autograph=False)
        self._mark = tf.function(codec.mark_pairs, input_signature=[TEXT, TEXT], autograph=False)

    def __len__(self) -> int:
        return len(self.batches)

    def iterate(self, position: Position) -> Iterator[tuple[Position, Batch]]:
        """Yields each batch with its position; see ``BatchSource``. A thread draws ahead."""
        places = iterate_pools(self.batches.pools, position)
        return prefetched((place, self._drawn(place.epoch, rows)) for place, rows in places)

    def _drawn(self, epoch: int, rows: np.ndarray) -> Batch:
        batch = self.batches.batch(rows)
        randoms = [np.random.default_rng([self.batches.seed, epoch, 3, int(row)]) for row in rows]
        drawn = [self.augmentation.draw(self.pairs[row], random) for row, random in zip(rows, randoms, strict=True)]
        is_segmented = any(self.segmenters)
        places = [place for place, pair in enumerate(drawn) if pair is not None or is_segmented]
        if not places:
            return batch
        chosen = [drawn[place] or self.pairs[rows[place]] for place in places]
        texts = [tf.constant([pair[side] for pair in chosen]) for side in (0, 1)]
        tokens = self._encode(*texts)
        truncated = (tokens[0].truncated | tokens[1].truncated).numpy()
        encoded: list[list[Sequence[int]]] = [_rows(side) for side in tokens]
        if is_segmented:
            for side, (segmenter, marked) in enumerate(zip(self.segmenters, self._mark(*texts), strict=True)):
                if segmenter is not None:
                    lines = [line.decode() for line in marked.numpy().tolist()]
                    encoded[side] = [segmenter.draw(line, randoms[i]) for line, i in zip(lines, places, strict=True)]
        words = list(zip(*map(words_of, tokens), strict=True)) if self.links is not None else []
        for number, (place, cut, *ids) in enumerate(zip(places, truncated, *encoded, strict=True)):
            arrays = batch.source, batch.target
            if not cut and all(len(row) <= array.shape[1] for array, row in zip(arrays, ids, strict=True)):
                for array, row in zip(arrays, ids, strict=True):
                    array[place] = PAD
                    array[place, : len(row)] = row
                if self.links is not None and batch.alignment is not None:
                    row = rows[place]
                    links = self.links[row] if _word_counts(chosen[number]) == _word_counts(self.pairs[row]) else ()
                    shape = 1, *batch.alignment.shape[1:]
                    batch.alignment[place] = alignment_of([token_links(links, *words[number])], *shape)[0]
        return batch


def words_of(tokens: Tokens) -> Iterator[list[int]]:
    """Yields a list for each sentence: for each token, the position of the word that contains it."""
    for text, surfaces, length in zip(tokens.text.numpy(), tokens.surface.numpy(), tokens.lengths.numpy(), strict=True):
        yield words_of_tokens(text.decode(), [surface.decode() for surface in surfaces[:length]])


def _word_counts(pair: Pair) -> list[int]:
    return [len(side.split()) for side in pair]


def _rows(tokens: Tokens) -> list[Sequence[int]]:
    return [row[:length].tolist() for row, length in zip(tokens.ids.numpy(), tokens.lengths.numpy(), strict=True)]
