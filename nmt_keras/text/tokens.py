"""What every text shares: the special ids, the records, and the operations before and after the vocabulary.

All are core ``tf.strings`` and ragged operations, the same eagerly, in a ``tf.function`` and in a SavedModel.
"""

from __future__ import annotations

from os import PathLike
from typing import NamedTuple, Protocol

import tensorflow as tf

from nmt_keras.config import END, PAD, START, UNK, TokenizerConfig

SPECIALS = ("<pad>", "<unk>", "<start>", "<end>")
"""The special entries as a vocabulary file writes them; no text a user writes can become one of them."""

SPECIAL_SURFACES = ("", "⁇", "", "")
"""How they are displayed and decoded. UNK is one sign: a scorer's tokenizer would count <unk> as three wrong words."""


class Tokens(NamedTuple):
    """A batch of sentences as token ids. S is the longest one's length, 0 in a batch of none; PAD fills the rest."""

    ids: tf.Tensor  # [B,S] int32, every row ends in END
    surface: tf.Tensor  # [B,S] string, the token as the user wrote it; "" at END and PAD
    lengths: tf.Tensor  # [B] int32 tokens, END included
    truncated: tf.Tensor  # [B] bool, True where max_tokens cut something off


class Tokenizer(Protocol):
    """What turns strings into ids and back, for one side of the corpus: a ``tf.Module`` of graph operations alone."""

    config: TokenizerConfig
    vocabulary_size: int
    """V: entries of the vocabulary, the four special ones included."""

    def encode(self, text: tf.Tensor) -> Tokens:
        """Tokens of ``text`` [B] string. Each sentence ends in END; invalid UTF-8 becomes U+FFFD, it never raises."""

    def decode(self, ids: tf.Tensor, lengths: tf.Tensor | None = None, unknown: tf.Tensor | None = None) -> tf.Tensor:
        """Sentences [B] string that ``ids`` [B,T] spell, up to the first END or ``lengths`` [B] tokens.

        ``unknown`` [B,T] string is what stands in place of each UNK; where it is "", and by default, "⁇" does.
        """

    def surfaces(self, ids: tf.Tensor, unknown: tf.Tensor | None = None) -> tf.Tensor:
        """What each token of ``ids`` [B,T] looks like, [B,T] string: "" for PAD, START and END, "⁇" for UNK.

        ``unknown`` is as for ``decode``.
        """

    def save(self, folder: str | PathLike[str]) -> None:
        """Writes the vocabulary and ``text.json`` into ``folder``, which is made if need be."""


def well_formed(text: tf.Tensor) -> tf.Tensor:
    """``text`` [B] string as valid UTF-8: each byte that cannot be decoded becomes U+FFFD.

    Refuses every rank but 1, also when it runs: a served signature is fed without any check of shapes, and some
    tokenizer kernels end the process on a scalar.
    """
    text = tf.ensure_shape(text, [None])
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")


def cut(tokens: tf.RaggedTensor, end: int | str, max_tokens: int) -> tf.RaggedTensor:
    """``tokens`` [B,(S)] with ``end`` behind each sentence, which makes it at most ``max_tokens`` long."""
    ends = tf.fill([tokens.nrows(), 1], end)
    return tf.concat([tokens[:, : max_tokens - 1], ends], axis=1)


def replaced(ids: tf.Tensor, shown: tf.Tensor, unknown: tf.Tensor | None, before: str = "") -> tf.Tensor:
    """``shown`` [B,T] string with ``before`` and ``unknown`` [B,T] at each UNK of ``ids`` [B,T] that has one."""
    if unknown is None:
        return shown
    return tf.where(tf.equal(ids, UNK) & tf.not_equal(unknown, ""), before + unknown, shown)


def spell(ids: tf.Tensor, lengths: tf.Tensor | None, spelling: tf.Tensor, unknown: tf.Tensor | None) -> tf.Tensor:
    """Joins ``spelling[id]`` of each token before the first END, without the one space in front.

    Args:
        ids: [B,T] int. PAD and START are passed over.
        lengths: [B] int tokens to read, or None for all T.
        spelling: [V] string, each entry with the space that precedes it, if any.
        unknown: [B,T] string in place of UNK, or None.

    Returns:
        [B] string.
    """
    before_end = tf.cumsum(tf.cast(tf.equal(ids, END), tf.int32), axis=1) == 0  # [B,T]
    spelt = before_end & tf.not_equal(ids, PAD) & tf.not_equal(ids, START)
    if lengths is not None:
        spelt &= tf.sequence_mask(lengths, tf.shape(ids)[1])
    joined = tf.strings.reduce_join(
        tf.where(spelt, replaced(ids, tf.gather(spelling, ids), unknown, " "), ""), axis=1
    )  # [B]
    return tf.strings.regex_replace(joined, "^ ", "")
