"""Replacement of unknown words by a lexicon that is learnt from alignments.

UNK in a translation stands for the source word with the largest attention weight. It is replaced by the translation of
this word in the lexicon, or by a copy of the word (Luong, Sutskever, Le, Vinyals, Zaremba 2015; Luong, Pham, Manning
2015, section 4.1; Jean et al. 2015).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from nmt_keras.config import require
from nmt_keras.io.files import write_whole
from nmt_keras.io.lines import read_lines
from nmt_keras.text import Tokens
from nmt_keras.text.placeholders import MAX_COPIED_BYTES
from nmt_keras.translation.records import AlignedPair


def learn_lexicon(pairs: Iterable[AlignedPair], *, min_count: int = 2, min_share: float = 0.3) -> dict[str, str]:
    """Returns the target word that each source word was aligned with most often.

    Each target word counts for the source word of its largest weight.

    Args:
        pairs: Aligned sentence pairs. Empty words (END, padding) are ignored.
        min_count: Minimum number of target words that were aligned with the source word.
        min_share: Minimum share of the most frequent target word among these target words.

    Returns:
        Target words by source word. Among equally frequent target words, the first by code point is chosen.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pair in pairs:
        for word, row in zip(pair.target, pair.alignment, strict=True):
            source_word = pair.source[int(np.argmax(row))]
            if word and source_word:
                counts[source_word][word] += 1
    lexicon = {}
    for source, targets in sorted(counts.items()):
        target, count = min(targets.items(), key=lambda entry: (-entry[1], entry[0]))
        if targets.total() >= min_count and count >= min_share * targets.total():
            lexicon[source] = target
    return lexicon


def save_lexicon(lexicon: Mapping[str, str], path: str | Path) -> None:
    """Writes sorted lines source<TAB>target, atomically."""
    write_whole(Path(path), "".join(f"{source}\t{target}\n" for source, target in sorted(lexicon.items())))


def load_lexicon(path: str | Path) -> dict[str, str]:
    """Returns the lexicon that ``save_lexicon`` wrote.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: A line is not source<TAB>target.
    """
    lexicon = {}
    for number, line in enumerate(read_lines(path), start=1):
        source, _, target = line.partition("\t")
        require(bool(source and target) and "\t" not in target, f"{path}:{number}", "source<TAB>target", line[:80])
        lexicon[source] = target
    return lexicon


class UnknownWords(tf.Module):
    """Replaces an unknown target word by the translation of the source word with the largest attention weight.

        replacement_i = lexicon(x_j), or x_j if the lexicon lacks it;  j = argmax_j alpha_ij

    (Luong, Sutskever, Le, Vinyals, Zaremba 2015; Luong, Pham, Manning 2015, section 4.1). END is never looked up. A
    word of more than ``MAX_COPIED_BYTES`` is not copied, because the copy would stand at every unknown position of
    every hypothesis.

    Args:
        lexicon: Target words by source word, as displayed; see ``learn_lexicon``. {} copies all source words.
    """

    def __init__(self, lexicon: Mapping[str, str]):
        super().__init__(name="unknown_words")
        self.lexicon = dict(lexicon)
        entries = {"": "", **lexicon}  # a table must not be empty
        initializer = tf.lookup.KeyValueTensorInitializer(list(entries), list(entries.values()), tf.string, tf.string)
        self._translations = tf.lookup.StaticHashTable(initializer, default_value="")

    def replacements(self, source: Tokens, alignments: tf.Tensor) -> tf.Tensor:
        """Returns the replacement for each target position.

        Args:
            source: [B, S] tokens with their surfaces.
            alignments: [B, K, T, S] float32.

        Returns:
            [B, K, T] string; "" if the source has no word, or a word that is too long.
        """
        words = tf.sequence_mask(source.lengths - 1, tf.shape(source.ids)[1])[:, tf.newaxis, tf.newaxis]
        positions = tf.argmax(tf.where(words, alignments, -1.0), axis=-1)  # [B, K, T]
        short = tf.strings.length(source.surface) <= MAX_COPIED_BYTES
        source_words = tf.gather(tf.where(short, source.surface, ""), positions, batch_dims=1)
        translated = self._translations.lookup(source_words)
        return tf.where(tf.equal(translated, ""), source_words, translated)
