"""A lexicon learnt from alignments: which target word a source word was most often written as.

It replaces unknown words (Luong, Sutskever, Le, Vinyals, Zaremba 2015; Luong, Pham, Manning 2015, section 4.1; Jean et
al. 2015): where a translation has UNK, the source word that it looked at most is translated by the lexicon, or copied.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path

import numpy as np
import tensorflow as tf

from nmt_keras.files import write_whole
from nmt_keras.text import Tokens
from nmt_keras.translation.records import AlignedPair


def learn_lexicon(pairs: Iterable[AlignedPair], *, min_count: int = 2, min_share: float = 0.3) -> dict[str, str]:
    """The target word that each source word was aligned with most often.

    Each target word is counted for the one source word that it looked at most.

    Args:
        pairs: aligned sentences. Empty words (END, padding) are passed over on either side.
        min_count: times that a source word must have been looked at.
        min_share: share of these that its most frequent target word must have.

    Returns:
        Target words by source word. Among equally frequent ones, the first by code point.

    Raises:
        ValueError: an alignment does not fit its words.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for number, pair in enumerate(pairs):
        if pair.alignment.shape != (len(pair.target), len(pair.source)):
            raise ValueError(
                f"pairs: expected an alignment of {len(pair.target)} target and {len(pair.source)} source words in "
                f"pair {number}, received {pair.alignment.shape}."
            )
        for word, row in zip(pair.target, pair.alignment, strict=True):
            seen = pair.source[int(np.argmax(row))]
            if word and seen:
                counts[seen][word] += 1
    lexicon = {}
    for source in sorted(counts):
        found = counts[source]
        target, count = min(found.items(), key=lambda entry: (-entry[1], entry[0]))
        total = found.total()
        if total >= min_count and count >= min_share * total:
            lexicon[source] = target
    return lexicon


def save_lexicon(lexicon: Mapping[str, str], path: str | PathLike[str]) -> None:
    """Writes source<TAB>target lines in order, whole or not at all."""
    write_whole(Path(path), "".join(f"{source}\t{lexicon[source]}\n" for source in sorted(lexicon)))


def load_lexicon(path: str | PathLike[str]) -> dict[str, str]:
    """The lexicon that ``save_lexicon`` wrote.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line is no source<TAB>target.
    """
    lexicon = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").split("\n")[:-1], start=1):
        source, tab, target = line.partition("\t")
        if not (source and tab and target) or "\t" in target:
            raise ValueError(f"{path}:{number}: expected source<TAB>target, received {line!r:.80}.")
        lexicon[source] = target
    return lexicon


class UnknownWords(tf.Module):
    """The lexicon's translation of the source word that each target position looked at most, or that word itself.

        replacement_i = lexicon(x_j), or x_j where the lexicon lacks it;  j = argmax_j alpha_ij

    (Luong, Sutskever, Le, Vinyals, Zaremba 2015; Luong, Pham, Manning 2015, section 4.1). END is never looked up.

    Args:
        lexicon: target words by source word, both as they are written; see ``learn_lexicon``. {} copies always.
    """

    def __init__(self, lexicon: Mapping[str, str]):
        super().__init__(name="unknown_words")
        self.lexicon = dict(lexicon)
        entries = {"": "", **lexicon}  # no table may be empty
        initializer = tf.lookup.KeyValueTensorInitializer(list(entries), list(entries.values()), tf.string, tf.string)
        self._translations = tf.lookup.StaticHashTable(initializer, default_value="")

    def replacements(self, source: Tokens, alignments: tf.Tensor) -> tf.Tensor:
        """What to write at each position, were it unknown: "" for a source of no word.

        Args:
            source: [B, S] tokens with their surfaces.
            alignments: [B, K, T, S] float32.

        Returns:
            [B, K, T] string.
        """
        words = tf.sequence_mask(source.lengths - 1, tf.shape(source.ids)[1])[:, tf.newaxis, tf.newaxis]
        looked_at = tf.argmax(tf.where(words, alignments, -1.0), axis=-1)  # [B, K, T]
        seen = tf.gather(source.surface, looked_at, batch_dims=1)
        translated = self._translations.lookup(seen)
        return tf.where(tf.equal(translated, ""), seen, translated)
