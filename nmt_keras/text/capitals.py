"""Sentences in capitals are read in lower case, and their translations are written in capitals."""

from __future__ import annotations

import tensorflow as tf

_OTHER = r"(?:[^\p{Ll}\p{Lo}]|[ªº])*"  # neither small letters nor letters of scripts without case
_CAPITALS = rf"{_OTHER}\p{{Lu}}{_OTHER}\p{{Lu}}{_OTHER}"


def in_capitals(text: tf.Tensor) -> tf.Tensor:
    """Returns True for sentences, [B] string, whose letters are all capitals, and at least two."""
    return tf.strings.regex_full_match(text, _CAPITALS)


def to_lower(text: tf.Tensor) -> tf.Tensor:
    """Returns strings in lower case.

    Unicode lower-casing of I and J depends on the process's locale (Turkish: I to ı). ASCII lower-casing comes first.
    """
    return tf.strings.lower(tf.strings.lower(text), encoding="utf-8")


def to_upper(text: tf.Tensor) -> tf.Tensor:
    """Returns strings in capitals; see ``to_lower``."""
    return tf.strings.upper(tf.strings.upper(text), encoding="utf-8")
