"""Sentences in capitals are read in lower case, and their translations are written in capitals."""

import tensorflow as tf

_OTHER = r"\P{L}\p{Lt}\p{Lm}ªº"  # neither capitals nor small letters nor letters of scripts without case
CAPITALS = rf"[{_OTHER}]*\p{{Lu}}[{_OTHER}]*\p{{Lu}}[{_OTHER}\p{{Lu}}]*"
"""Pattern of sentences in capitals. It takes linear time in engines that backtrack, too."""


def in_capitals(text: tf.Tensor) -> tf.Tensor:
    """Returns True for sentences, [B] string, whose letters are all capitals, and at least two.

    Sentences that ``to_lower`` and ``to_upper`` do not restore, such as those with circled letters, do not count.
    """
    restored = tf.equal(to_upper(to_lower(text), text), text)
    return restored & tf.strings.regex_full_match(text, CAPITALS)


def to_lower(text: tf.Tensor) -> tf.Tensor:
    """Returns strings in lower case. Strings with İ are Turkish or Azerbaijani, where the small letter of I is ı.

    Unicode lower-casing of I and J depends on the process's locale (Turkish: I to ı). ASCII lower-casing comes first.
    Other letters follow the locale: in Greek, capitals lose their accents, and in Lithuanian, i and j keep their dots.
    """
    dotless = tf.where(_contains(text, "İ"), tf.strings.regex_replace(text, "I", "ı"), text)
    ascii_lower = tf.strings.lower(tf.strings.regex_replace(dotless, "İ", "i"))
    return tf.strings.lower(ascii_lower, encoding="utf-8")


def to_upper(text: tf.Tensor, like: tf.Tensor | None = None) -> tf.Tensor:
    """Returns strings in capitals; see ``to_lower``.

    Args:
        text: Strings of any shape.
        like: Strings of a shape that can be broadcast to that of ``text``. The capital of i is İ if ``like`` contains
            İ, and that of ß is ẞ instead of SS if ``like`` contains ẞ.
    """
    for small, capital in () if like is None else (("i", "İ"), ("ß", "ẞ")):
        text = tf.where(_contains(like, capital), tf.strings.regex_replace(text, small, capital), text)
    return tf.strings.upper(tf.strings.upper(text), encoding="utf-8")


def _contains(text: tf.Tensor, letter: str) -> tf.Tensor:
    return tf.strings.regex_full_match(text, f".*{letter}.*")
