"""Translates texts of several sentences inside the graph."""

from collections.abc import Callable

import tensorflow as tf

from nmt_keras.io.sentences import BORDER, MAX_SENTENCES, RULES, WIDE
from nmt_keras.text.normalisation import cut_bytes, in_steps
from nmt_keras.translation.records import MAX_BYTES, Decoded, in_parts

SENTENCES_AT_ONCE = 64
"""Number of sentences that are translated together. It bounds the memory of a request, however many texts it has."""


def decode_texts(
    decode: Callable[[tf.Tensor], Decoded], text: tf.Tensor, *, with_sentences: bool = False
) -> dict[str, tf.Tensor]:
    """Translates each sentence of texts. Line breaks, blank lines and other white space between sentences are kept.

    A space separates two translations whose sentences no space separates, except after a mark such as ``。``.

    Args:
        decode: Returns the best translation of sentences, [B] string.
        text: [B] string. Texts.
        with_sentences: If ``True``, also returns the place, score, tokens and alignment of each sentence.

    Returns:
        The outputs of an export's signature ``text``, or ``sentences``, by name.
    """
    text, too_long = cut_bytes(text, MAX_BYTES)
    split = split_sentences(text)  # [B, (P)]
    source, rows = split.flat_values, split.value_rowids()  # both [P of all texts]
    is_gap = tf.ragged.range(split.row_lengths()).flat_values % 2 == 1
    is_sentence = ~is_gap & tf.not_equal(source, "")
    counted = tf.cast(is_sentence, tf.int32)
    earlier = tf.cumsum(counted, exclusive=True)
    earlier -= tf.gather(earlier, tf.gather(split.row_starts(), rows))  # sentences before a part in its text
    sentences = tf.math.unsorted_segment_sum(counted, rows, tf.size(text))
    kept = (earlier < MAX_SENTENCES) | tf.gather(sentences <= MAX_SENTENCES, rows)

    places = tf.where(is_sentence & kept)  # [M, 1], indices of the M sentences among all parts
    fields = Decoded._fields if with_sentences else ("translation", "truncated")
    like = {name: _SPECS[name] for name in fields}
    decoded = in_parts(lambda part: decode(*part)._asdict(), [tf.gather_nd(source, places)], SENTENCES_AT_ONCE, like)
    parts = tf.tensor_scatter_nd_update(source, places, decoded["translation"])
    before = tf.concat([[""], parts[:-1]], 0)
    joint = tf.where(tf.strings.regex_full_match(before, f"(?s).*[{WIDE}]"), "", " ")
    parts = tf.where(kept, tf.where(is_gap & tf.equal(parts, ""), joint, parts), "")
    row_of = tf.gather_nd(rows, places)
    cut = tf.math.unsorted_segment_sum(tf.cast(decoded["truncated"], tf.int32), row_of, tf.size(text))
    found = {
        "translation": tf.strings.unsorted_segment_join(parts, rows, tf.size(text)),
        "truncated": too_long | (sentences > MAX_SENTENCES) | (cut > 0),
        "sentences": tf.minimum(sentences, MAX_SENTENCES),
    }
    if not with_sentences:
        return found

    places_in_texts = tf.RaggedTensor.from_value_rowids(places, row_of, tf.size(text, tf.int64), validate=False)

    def by_text(values: tf.Tensor) -> tf.Tensor:
        """Returns the values of all sentences, [M, ...], as [B, N, ...]."""
        return places_in_texts.with_values(values).to_tensor()

    for side, of_side in (("source", split), ("target", split.with_flat_values(parts))):
        for end, values in zip(("begins", "ends"), _spans(of_side), strict=True):
            found[f"{side}_{end}"] = by_text(tf.gather_nd(values, places))
    names = ("source_tokens", "source_lengths", "target_tokens", "target_lengths", "alignment")
    return found | {"scores": by_text(decoded["score"])} | {name: by_text(decoded[name]) for name in names}


def _spans(parts: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the first code point of each part of a text, and the one after its last, both [P] int32."""
    lengths = tf.strings.length(parts.flat_values, unit="UTF8_CHAR")
    begins = tf.cumsum(lengths, exclusive=True)
    begins -= tf.gather(begins, tf.gather(parts.row_starts(), parts.value_rowids()))
    return begins, begins + lengths


def split_sentences(text: tf.Tensor) -> tf.RaggedTensor:
    """Splits texts as ``nmt_keras.io.sentences.split`` does.

    Args:
        text: [B] string, valid UTF-8.

    Returns:
        [B, (P)] string: a sentence, the white space after it, the next sentence, and so on. P is odd. Parts are empty
        before leading white space, after trailing white space, and where no white space separates two sentences.
    """
    return tf.strings.split(in_steps(text, RULES), BORDER)


_SPECS = {
    **dict.fromkeys(("score", "log_prob"), tf.TensorSpec([None], tf.float32)),
    **dict.fromkeys(("source_lengths", "target_lengths"), tf.TensorSpec([None], tf.int32)),
    **dict.fromkeys(("source_tokens", "target_tokens"), tf.TensorSpec([None, None], tf.string)),
    "translation": tf.TensorSpec([None], tf.string),
    "truncated": tf.TensorSpec([None], tf.bool),
    "alignment": tf.TensorSpec([None, None, None], tf.float32),
}
"""Types and shapes of the fields of ``Decoded``."""
