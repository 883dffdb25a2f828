"""Normalisation of text: the same graph operations in training, evaluation, search and exports.

The steps, in this order, because each must not undo an earlier one:

    1. bytes beyond a limit are cut, so that no later step can be made slow by one long string
    2. invalid UTF-8 becomes U+FFFD
    3. invisible characters are dropped: soft hyphen, zero-width space, byte order mark, direction marks, controls.
       Joiners (U+200C, U+200D), variation selectors and tags are kept where scripts and emoji need them: not after
       Latin, Greek and Cyrillic letters, white space and the punctuation of sentences
    4. white space of every kind becomes one space; the ends are stripped
    5. runs of combining marks are cut at 30 (Unicode's stream-safe text format, UAX 15), because the time of NFC is
       quadratic in their length
    6. NFC

Then bytes beyond the limit are cut once more, because U+FFFD and NFC can have more bytes than the text that they
replace.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

import tensorflow as tf
import tensorflow_text as tf_text

from nmt_keras.io.lines import INVISIBLE

BYTES_PER_TOKEN = 64
"""Maximum number of bytes that a sentence may have for each token of its limit. SentencePiece's longest piece has 16
characters of at most 4 bytes."""

MAX_MARKS = 30

_STRAY = (
    r"""(^|[\p{Latin}\p{Greek}\p{Cyrillic}\x{300}-\x{36F}\p{Z}\s.,:;!?…"'”’»)])"""
    r"[\x{200C}\x{200D}\x{FE00}-\x{FE0F}\x{E0020}-\x{E007F}]+"
)
# RE2's tables are those of Unicode 15. The other marks are new in Unicode 16, which NFC knows.
_MARK = r"[\p{M}\x{897}\x{10D69}-\x{10D6D}\x{113B8}-\x{113E2}\x{1611E}-\x{1612F}\x{1E5EE}\x{1E5EF}]"

STEPS = (
    (INVISIBLE, ""),
    (_STRAY, r"\1"),
    (r"[\s\x0B\x{85}\p{Z}]+", " "),
    ("^ | $", ""),
    (rf"({_MARK}{{{MAX_MARKS}}}){_MARK}+", r"\1"),
)
"""Replacements before NFC, in this order."""

Item = TypeVar("Item")


class Normalised(NamedTuple):
    """Normalised sentences."""

    text: tf.Tensor  # [B] string, valid UTF-8 in NFC
    cut: tf.Tensor  # [B] bool, True if bytes were cut


def well_formed(text: tf.Tensor) -> tf.Tensor:
    """Returns strings as valid UTF-8. Bytes that cannot be decoded become U+FFFD.

    Rejects any rank but 1, also at run time. Servers do not check the shapes of their inputs, and some tokenizer
    kernels crash the process if they receive a scalar.

    Args:
        text: [B] string.
    """
    text = tf.ensure_shape(text, [None])
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")


def normalise(text: tf.Tensor, max_tokens: int) -> Normalised:
    """Normalises sentences.

    Args:
        text: [B] string.
        max_tokens: Maximum number of tokens of a sentence. Bytes beyond ``BYTES_PER_TOKEN`` times this are cut.
    """
    limit = BYTES_PER_TOKEN * max_tokens
    text, before = cut_bytes(text, limit)
    text, after = cut_bytes(_normalise(text), limit)
    return Normalised(tf.strings.strip(text), before | after)


def normalise_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yields lines of a corpus, normalised. Lines of any length are kept whole."""
    for block in in_blocks(lines):
        for line in _normalise(well_formed(tf.constant(block))).numpy().tolist():
            yield line.decode("utf-8")


def in_blocks(items: Iterable[Item], size: int = 8192) -> Iterator[list[Item]]:
    """Yields the items in lists of ``size``, the last of which may be shorter."""
    remaining = iter(items)
    while block := list(islice(remaining, size)):
        yield block


def cut_bytes(text: tf.Tensor, limit: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the first ``limit`` bytes of strings as valid UTF-8, and [B] bool, True if they were cut."""
    text = tf.ensure_shape(text, [None])
    cut = tf.strings.length(text) > limit
    whole = well_formed(tf.strings.substr(text, 0, limit))
    # The cut can divide a character.
    return tf.where(cut, tf.strings.regex_replace(whole, "\ufffd$", ""), whole), cut


def _normalise(text: tf.Tensor) -> tf.Tensor:
    """Applies the steps 3 to 6 to valid UTF-8, [B] string."""
    return tf_text.normalize_utf8(in_steps(text, STEPS), "NFC")


def in_steps(text: tf.Tensor, steps: Iterable[tuple[str, str]]) -> tf.Tensor:
    """Returns strings after replacements, each a pattern and its replacement, in their order."""
    for pattern, replacement in steps:
        text = tf.strings.regex_replace(text, pattern, replacement)
    return text
