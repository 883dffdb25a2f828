"""Splits text into sentences inside the graph, by the rules of the client and the command line."""

from __future__ import annotations

import tensorflow as tf
from nmt_keras_serve.sentences import BORDER, RULES


def split_sentences(text: tf.Tensor) -> tf.RaggedTensor:
    """Splits texts as ``nmt_keras_serve.sentences.split`` does.

    Args:
        text: [B] string, valid UTF-8.

    Returns:
        [B, (P)] string: a sentence, the white space after it, the next sentence, and so on. P is odd. Parts are empty
        before leading white space, after trailing white space, and where no white space separates two sentences.
    """
    for pattern, replacement in RULES:
        text = tf.strings.regex_replace(text, pattern, replacement)
    return tf.strings.split(text, BORDER)
