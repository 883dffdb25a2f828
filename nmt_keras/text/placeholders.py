"""Placeholders: names, numbers and addresses that a model copies instead of spelling them.

    source      Vivo en Guadalajara.   is read as     Vivo en ⟦0⟧.
    translation I live in ⟦0⟧.         is written as  I live in Guadalajara.

Copied words are numbers and codes of at least two characters, addresses (e-mail, URL, @name, #tag, file_name),
variables ({name}, %s), and names. A name is a capitalised word that the training set hardly contains. A word that
begins a sentence is capitalised anyway, so it may not be a name. Such a word is read with a placeholder after it, and
the model either copies or translates it. A sentence that has no other letters is copied as a whole.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import tensorflow as tf

from nmt_keras.text.capitals import to_lower
from nmt_keras.text.normalisation import in_blocks

PLACEHOLDERS = 8
"""K: maximum number of copied words in a sentence."""

SIGNS = tuple(chr(0xF0000 + number) for number in range(PLACEHOLDERS))
"""Characters that stand for placeholders in text. They are for private use. Users' own become U+FFFD."""

MIN_COUNT = 3
"""Number of occurrences in the training set from which a word is known. Of the capitalised words inside sentences that
occurred less often in the Spanish-English training set, two thirds were the same in both languages."""

MAX_WORDS = 200_000
MAX_COPIED_BYTES = 256
"""Maximum number of bytes of a copied word, because a translation can contain it many times."""

MAX_CAPITALISED = 0.15
"""Share of capitalised words inside sentences above which capitals do not mark names. It is above 0.2 in German."""

_SEPARATOR = "\x1f"  # normalised text has no control characters
_IN_BRACKETS = r"\([^\s()]*\)"  # inside a URL
_WORD = (
    rf"(?:https?://|www\.)(?:[^\s\"“”«»()<>\x1f]|{_IN_BRACKETS})*(?:[\p{{L}}\p{{M}}\p{{N}}/]|{_IN_BRACKETS})"
    r"|\+?\d{1,3}(?: \d{3})+\b"
    r"|\$?\{+[^\s{}\x1f]+\}+|%(?:\d+\$)?[ds]\b"
    r"|(?:[+\-]?[$€£¥]?\d|[@#/]?[\p{L}\p{M}\p{N}])(?:[^\s'’\"“”«»()<>¿¡—…\x1f]*[\p{L}\p{M}\p{N}/€£¥])?"
)
_CAPITALISED = r"\p{Ll}*\p{Lu}[\p{L}\p{M}\-.]*[\p{L}\p{M}]"
_NUMBER = r"[+\-$€£¥]*[\p{Lu}\p{Nd}.,:/\- ]*\p{Nd}[\p{Lu}\p{Nd}.,:/\-€£¥]*"
_ADDRESS = (  # ASCII and Latin only, because text without spaces around an address is one word with it
    r"(?:https?://|www\.)[!-~\p{Latin}]+|[@#][\p{Latin}\p{N}_.\-]+|[!-?A-~]+@[!-?A-~]+\.[!-?A-~]+"
    r"|(?:[A-Za-z0-9-]+\.)+(?:com|edu|es|eu|gov|info|io|net|org|[a-z]{2,}/[!-~]*)|[!-~]*[A-Za-z0-9]_[!-~]+"
    r"|[!-~]+\.(?:csv|docx?|gif|html?|jpe?g|json|mp[34]|pdf|png|py|txt|xlsx?|xml|zip)"
    r"|(?:/|[A-Za-z]:\\)[!-~]+|[!-~]*[A-Za-z][0-9][!-~]*|[${%][!-~]+"
)


class KnownWords(NamedTuple):
    """Words of the training set, which are not copied as names."""

    words: tuple[str, ...]
    capitals_mark_names: bool


def known_words(lines: Iterable[str]) -> KnownWords:
    """Returns the words that occur often enough in normalised lines of a training set."""
    counts: Counter[bytes] = Counter()
    inside = capitalised = 0
    for block in in_blocks(lines):
        words = Words(tf.constant(block))
        counts.update(words.flat.numpy()[words.is_word.numpy()].tolist())
        inside += int(tf.math.count_nonzero(words.inside))
        capitalised += int(tf.math.count_nonzero(words.inside & _is(_CAPITALISED, words.flat)))
    common = [word.decode() for word, count in counts.most_common(MAX_WORDS) if count >= MIN_COUNT]
    return KnownWords(tuple(sorted(common)), capitalised <= MAX_CAPITALISED * inside)


class Copies(NamedTuple):
    """The words to copy of each sentence, by placeholder."""

    words: tf.Tensor  # [B, K] string, "" for none
    certain: tf.Tensor  # [B, K] bool, False if the model may translate the word


class Words:
    """Sentences as parts: the parts at odd positions are words, the others are the characters between them.

    Args:
        text: [B] string. Normalised sentences.
        max_words: Number of words after which a sentence is cut; ``None`` for no limit.
    """

    def __init__(self, text: tf.Tensor, max_words: int | None = None):
        text = tf.strings.regex_replace(text, f"[{SIGNS[0]}-{SIGNS[-1]}]", "\ufffd")
        divided = tf.strings.regex_replace(text, _WORD, rf"{_SEPARATOR}\0{_SEPARATOR}")
        parts = tf.strings.split(divided, _SEPARATOR)
        self.parts = parts if max_words is None else parts[:, : 2 * max_words + 1]
        self.flat = self.parts.flat_values  # [N] string
        # int32, because oneDNN reports an error for sums of int64
        self.rows = tf.cast(self.parts.value_rowids(), tf.int32)  # [N] the sentence of each part
        position = tf.range(tf.size(self.rows)) - tf.gather(tf.cast(self.parts.row_starts(), tf.int32), self.rows)
        self.is_word = tf.equal(position % 2, 1)
        before = tf.concat([[""], self.flat[:-1]], axis=0)
        self.inside = self.is_word & (position > 1) & _is(",? |['’]", before)  # not after the end of a sentence

    def equal(self, copies: Copies) -> tf.Tensor:
        """Returns [N, K] bool: the words that are equal to a copied word of their sentence."""
        copied = tf.gather(copies.words, self.rows)
        return tf.equal(copied, self.flat[:, tf.newaxis]) & tf.not_equal(copied, "") & self.is_word[:, tf.newaxis]

    def marked(self, copies: Copies, keeps_uncertain: bool = False) -> tf.Tensor:
        """Returns the sentences [B] string with placeholders in place of copied words.

        Args:
            copies: The copied words.
            keeps_uncertain: If ``True``, a word that the model may translate is kept, before its placeholder.
        """
        equal = self.equal(copies)
        number = tf.argmax(tf.cast(equal, tf.int32), axis=1, output_type=tf.int32)
        written = tf.gather(tf.constant(SIGNS), number)
        if keeps_uncertain:
            certain = tf.gather_nd(copies.certain, tf.stack([self.rows, number], axis=1))
            written = tf.where(certain, written, self.flat + written)
        marked = tf.where(tf.reduce_any(equal, axis=1), written, self.flat)
        return tf.strings.reduce_join(self.parts.with_flat_values(marked), axis=1)


class Placeholders(tf.Module):
    """Finds the words to copy of a sentence.

    Args:
        known: Words that are not copied as names.
    """

    def __init__(self, known: KnownWords):
        super().__init__(name="placeholders")
        self._capitals_mark_names = known.capitals_mark_names
        words = tf.constant(["", *known.words])  # a table must not be empty
        ones = tf.ones([len(words)], tf.int32)
        self._known = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(words, ones), 0)

    def find(self, words: Words) -> Copies:
        """Returns the words of sentences that are copied."""
        short = words.is_word & _is("..+", words.flat) & (tf.strings.length(words.flat) <= MAX_COPIED_BYTES)
        found = certain = short & (_is(_NUMBER, words.flat) | _is(_ADDRESS, words.flat))
        if self._capitals_mark_names:
            known = self._known.lookup(words.flat) + self._known.lookup(to_lower(words.flat))
            name = short & tf.equal(known, 0) & _is(_CAPITALISED, words.flat)
            certain |= name & words.inside
            found |= name

        def of_found(values: tf.Tensor, padding: str | bool) -> tf.Tensor:
            kept = tf.ragged.boolean_mask(words.parts.with_flat_values(values), words.parts.with_flat_values(found))
            return kept[:, :PLACEHOLDERS].to_tensor(padding, shape=[None, PLACEHOLDERS])

        return Copies(of_found(words.flat, ""), of_found(certain, False))

    def find_in_both(self, source: Words, target: Words) -> Copies:
        """Returns the words of sentence pairs that are copied: those of the source that the target contains.

        Words that the model may translate are kept. The numbers of the placeholders begin at a pseudo-random number, so
        that training sees all of them equally often.
        """
        copies = self.find(source)
        equal = tf.cast(target.equal(copies), tf.int32)
        contained = tf.math.unsorted_segment_max(equal, target.rows, target.parts.nrows()) > 0  # [B, K]
        kept = tf.where(contained | ~copies.certain, copies.words, "")
        text = [tf.strings.reduce_join(side.parts, axis=1) for side in (source, target)]
        shift = tf.cast(tf.strings.to_hash_bucket_fast(tf.strings.join(text), 2 * PLACEHOLDERS), tf.int32)
        shift = tf.where(shift < PLACEHOLDERS, shift, 0)  # search begins at 0, so half of the pairs do
        places = (tf.range(PLACEHOLDERS) - shift[:, tf.newaxis]) % PLACEHOLDERS
        return Copies(tf.gather(kept, places, batch_dims=1), tf.gather(copies.certain, places, batch_dims=1))


def copied_words(ids: tf.Tensor, first: int, words: tf.Tensor) -> tf.Tensor:
    """Returns the word that each placeholder stands for.

    Args:
        ids: [B, T] int32. Tokens.
        first: Id of the first placeholder.
        words: [B, K] string. Words by placeholder.

    Returns:
        [B, T] string; "" for other tokens, and for placeholders without a word.
    """
    number = ids - first
    is_placeholder = (number >= 0) & (number < PLACEHOLDERS)
    copied = tf.gather(words, tf.clip_by_value(number, 0, PLACEHOLDERS - 1), batch_dims=1)
    return tf.where(is_placeholder, copied, "")


def _is(pattern: str, words: tf.Tensor) -> tf.Tensor:
    return tf.strings.regex_full_match(words, pattern)
