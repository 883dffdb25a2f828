"""What is written in place of the unknown word: a translation of what it looked at."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from nmt_keras.text import Tokens


class UnknownWords(tf.Module):
    """The lexicon's translation of the source word that each target position looked at most, or that word itself.

        replacement_i = lexicon(x_j), or x_j where the lexicon lacks it;  j = argmax_j alpha_ij

    (Luong, Sutskever, Le, Vinyals, Zaremba 2015; Luong, Pham, Manning 2015, section 4.1). END is never looked up.

    Args:
        lexicon: target words by source word, both as they are written; see ``nmt_keras.lexicon``. {} copies always.
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
