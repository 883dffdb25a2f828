"""Translates texts of several sentences inside the graph."""

from collections.abc import Callable

import tensorflow as tf

from nmt_keras.io.sentences import BORDER, MAX_SENTENCES, RULES, WIDE
from nmt_keras.text.normalisation import cut_bytes
from nmt_keras.translation.records import MAX_BYTES, Decoded, DecodedText

SENTENCES_AT_ONCE = 64
"""Number of sentences that are translated together. It bounds the memory of a request, however many texts it has."""


def decode_texts(decode: Callable[[tf.Tensor], Decoded], text: tf.Tensor) -> DecodedText:
    """Translates each sentence of texts. Line breaks, blank lines and other white space between sentences are kept.

    A space separates two translations whose sentences no space separates, except after a mark such as ``。``.

    Args:
        decode: Returns the best translation of sentences, [B] string.
        text: [B] string. Texts.
    """
    text, too_long = cut_bytes(text, MAX_BYTES)
    split = split_sentences(text)  # [B, (P)]
    parts, rows = split.flat_values, split.value_rowids()  # both [P of all texts]
    is_gap = tf.ragged.range(split.row_lengths()).flat_values % 2 == 1
    is_sentence = ~is_gap & tf.not_equal(parts, "")
    counted = tf.cast(is_sentence, tf.int32)
    earlier = tf.cumsum(counted, exclusive=True)
    earlier -= tf.gather(earlier, tf.gather(split.row_starts(), rows))  # sentences before a part in its text
    sentences = tf.math.unsorted_segment_sum(counted, rows, tf.size(text))
    kept = (earlier < MAX_SENTENCES) | tf.gather(sentences <= MAX_SENTENCES, rows)

    places = tf.where(is_sentence & kept)
    translations, shortened = _decode_in_parts(decode, tf.gather_nd(parts, places))
    parts = tf.tensor_scatter_nd_update(parts, places, translations)
    before = tf.concat([[""], parts[:-1]], 0)
    joint = tf.where(tf.strings.regex_full_match(before, f"(?s).*[{WIDE}]"), "", " ")
    parts = tf.where(kept, tf.where(is_gap & tf.equal(parts, ""), joint, parts), "")
    cut = tf.math.unsorted_segment_sum(tf.cast(shortened, tf.int32), tf.gather_nd(rows, places), tf.size(text))
    return DecodedText(
        translation=tf.strings.unsorted_segment_join(parts, rows, tf.size(text)),
        truncated=too_long | (sentences > MAX_SENTENCES) | (cut > 0),
        sentences=tf.minimum(sentences, MAX_SENTENCES),
    )


def split_sentences(text: tf.Tensor) -> tf.RaggedTensor:
    """Splits texts as ``nmt_keras.io.sentences.split`` does.

    Args:
        text: [B] string, valid UTF-8.

    Returns:
        [B, (P)] string: a sentence, the white space after it, the next sentence, and so on. P is odd. Parts are empty
        before leading white space, after trailing white space, and where no white space separates two sentences.
    """
    for pattern, replacement in RULES:
        text = tf.strings.regex_replace(text, pattern, replacement)
    return tf.strings.split(text, BORDER)


def _decode_in_parts(decode: Callable[[tf.Tensor], Decoded], sentences: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the translations of sentences, [N] string, and True for cut sentences, [N] bool."""

    def add_part(begin: tf.Tensor, translations: tf.Tensor, truncated: tf.Tensor) -> tuple[tf.Tensor, ...]:
        end = begin + SENTENCES_AT_ONCE
        found = decode(sentences[begin:end])
        return end, tf.concat([translations, found.translation], 0), tf.concat([truncated, found.truncated], 0)

    _, translations, truncated = tf.while_loop(
        lambda begin, *_: begin < tf.size(sentences),
        add_part,
        (tf.constant(0), tf.zeros([0], tf.string), tf.zeros([0], tf.bool)),
        (tf.TensorShape([]), tf.TensorShape([None]), tf.TensorShape([None])),
        parallel_iterations=1,
    )
    return translations, truncated
