"""Placeholders: names, numbers and addresses that a model copies instead of spelling them.

    source      Vivo en Guadalajara.   is read as     Vivo en ⟦0⟧.
    translation I live in ⟦0⟧.         is written as  I live in Guadalajara.

Copied words are numbers and codes of at least two characters, addresses (e-mail, URL, @name, #tag, file_name),
variables, tags and marks (``io.markup``), words in scripts that the training set hardly contains, and names. A name is
a capitalised word that the training set hardly contains. A word that begins a sentence is capitalised anyway, so it
may not be a name. Such a word is read with a placeholder after it, and the model either copies or translates it. A
sentence that has no other letters is copied as a whole.

Some corpora do not copy some of these words: language tags (en_XX), or numbers that they rewrite (1.500 as 1,500). The
training pairs decide once, and the tokenizer of the source stores the decision. Training and translation find the
same words in a source, whatever its target contains.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from nmt_keras.io.markup import MARKUP, POSITIONAL
from nmt_keras.text.capitals import to_lower
from nmt_keras.text.normalisation import in_blocks, in_steps

PLACEHOLDERS = 8
"""K: maximum number of copied words in a sentence."""

SIGNS = tuple(chr(0xF0000 + number) for number in range(PLACEHOLDERS))
"""Characters that stand for placeholders in text. They are for private use. Users' own become U+FFFD."""

MIN_COUNT = 3
"""Number of occurrences in the training set from which a word is known. Of the capitalised words inside sentences that
occurred less often in the Spanish-English training set, two thirds were the same in both languages."""

MIN_WORDS_OF_SHAPE = 5
"""Number of words of the training set from which they tell whether other words of the same shape are copied."""

MAX_WORDS = 200_000
MAX_COPIED_BYTES = 256
"""Maximum number of bytes of a copied word, because a translation can contain it many times."""

MIN_SHARE_OF_SCRIPT = 0.01
"""Share of the known words from which a script is one of the source language."""

MAX_CAPITALISED = 0.15
"""Share of capitalised words inside sentences above which capitals do not mark names. It is above 0.2 in German."""

# normalised text has no control characters
SEPARATOR, _QUOTE = "\x1f", "\x1e"  # between parts; around URLs and markup
LEFT, RIGHT = "\x02", "\x03"  # of a copied word without a space on this side
_IN_BRACKETS = r"\([^\s()]*\)|\{[^\s{}]*\}"  # inside a URL
_QUOTED = (
    rf"(?:https?://|www\.)(?:[^\s\"“”«»(){{}}<>]|{_IN_BRACKETS})*(?:[\p{{L}}\p{{M}}\p{{N}}/]|{_IN_BRACKETS})"
    rf"|{MARKUP}"
)
_WORD = (
    rf"{_QUOTE}[^{_QUOTE}]*{_QUOTE}"
    r"|\+?\d{1,3}(?: \d{3})+\b"
    r"|(?:[+\-]?[$€£¥]?\d|[@#/]?[\p{L}\p{M}\p{N}])(?:[^\s'’\"“”«»()<>¿¡—…\x1e]*[\p{L}\p{M}\p{N}/€£¥])?"
)
DIVISION = (
    (f"[{SIGNS[0]}-{SIGNS[-1]}]", "\ufffd"),
    (_QUOTED, rf"{_QUOTE}\0{_QUOTE}"),
    (_WORD, rf"{SEPARATOR}\0{SEPARATOR}"),
    (_QUOTE, ""),
)
"""Replacements that separate the words of a sentence from the characters between them."""

CAPITALISED = r"\p{Ll}*\p{Lu}[\p{L}\p{M}\-.]*[\p{L}\p{M}]"
_NUMBER = r"[+\-$€£¥]*[\p{Lu}\p{Nd}.,:/\- ]*\p{Nd}[\p{Lu}\p{Nd}.,:/\-€£¥]*"
_ADDRESS = (  # ASCII and Latin only, because text without spaces around an address is one word with it
    r"(?:https?://|www\.)[!-~\p{Latin}]+|[@#][\p{Latin}\p{N}_.\-]+|[!-?A-~]+@[!-?A-~]+\.[!-?A-~]+"
    r"|(?:[A-Za-z0-9-]+\.)+(?:com|edu|es|eu|gov|info|io|net|org|[a-z]{2,}/[!-~]*)|[!-~]*[A-Za-z0-9]_[!-~]+"
    r"|[!-~]+\.(?:csv|docx?|gif|html?|jpe?g|json|mp[34]|pdf|png|py|txt|xlsx?|xml|zip)"
    r"|(?:/|[A-Za-z]:\\)[!-~]+|[!-~]*[A-Za-z][0-9][!-~]*|[${%][!-~]+"
)
FORM = f"{_NUMBER}|{_ADDRESS}"
"""Pattern of numbers, codes and addresses."""

INSIDE = ",? |['’]"
"""Pattern of the characters before a word that does not begin a sentence."""

APART = f" *{LEFT}|{RIGHT} *"
"""Pattern of what stands between markup and its words before ``joined``."""

_SCRIPTS = """
    Arabic Armenian Bengali Canadian_Aboriginal Cherokee Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi
    Han Hangul Hebrew Hiragana Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Nko Oriya Sinhala Syriac
    Tamil Telugu Thaana Thai Tibetan Tifinagh Yi
"""
SHAPE = (
    (r"[\p{L}\p{M}]+", "a"),
    ("[0-9]", "0"),
    (r"[^\P{Nd}0-9]", "9"),  # digits of another script, which a corpus can rewrite while it copies those of ASCII
    (r"^([^09]*)([09])[09]*([.,:/ \-][09])", r"\1\2\3"),
    (r"([., ](?:000|999))+\b", r"\1"),
)
"""Replacements that turn a word into its shape: 0 or 9 for each digit, and a for letters. Digits before a separator are
one, as are thousands."""
_KNOWN, _UNCOPIED = 1, 2  # flags of a word


class KnownWords(NamedTuple):
    """Words of the training set, which are not copied as names, and what the training pairs do not copy.

    The target often lacks ``uncopied`` words. Such a word is read as text if it is known, and else with a placeholder
    after it. Numbers, addresses and codes with an ``uncopied_shapes`` are read as text.
    """

    words: tuple[str, ...]
    capitals_mark_names: bool
    uncopied: tuple[str, ...] = ()  # in lower case
    uncopied_shapes: tuple[str, ...] = ()  # 0.000 for 1.500 and 12.500, @a for @law; see ``SHAPE``


def known_words(lines: Iterable[str]) -> KnownWords:
    """Returns the words that occur often enough in normalised lines of a training set."""
    counts: Counter[bytes] = Counter()
    inside = capitalised = 0
    for block in in_blocks(lines):
        words = Words(tf.constant(block))
        counts.update(words.flat.numpy()[words.is_word.numpy()].tolist())
        inside += int(tf.math.count_nonzero(words.inside))
        capitalised += int(tf.math.count_nonzero(words.inside & _is(CAPITALISED, words.flat)))
    common = [word.decode() for word, count in counts.most_common(MAX_WORDS) if count >= MIN_COUNT]
    return KnownWords(tuple(sorted(common)), capitalised <= MAX_CAPITALISED * inside)


def uncopied(counts: Counter[str], copied: Counter[str], known: KnownWords) -> KnownWords:
    """Returns ``known`` with the words and the shapes that are copied in at most half of the cases.

    Args:
        counts: Number of occurrences of each word of training sources that could be copied.
        copied: Number of those whose targets contain the word.
        known: Known words, perhaps with uncopied ones of another training set.
    """
    words = [word for word, _ in counts.most_common(MAX_WORDS)]
    flat = tf.constant(words, tf.string)
    lower = _strings(to_lower(flat))
    found = {small for word, small in zip(words, lower, strict=True) if 2 * copied[word] <= counts[word]}
    is_form = _is(MARKUP, flat) | _is_foreign(flat, foreign_letters(known)) | _is(FORM, flat)
    forms = tf.boolean_mask(flat, is_form)
    shapes = [*zip(_strings(in_steps(forms, SHAPE)), _strings(to_lower(forms)), strict=True)]
    total, missing = Counter(shape for shape, _ in shapes), Counter(shape for shape, small in shapes if small in found)
    often = {shape for shape, count in total.items() if count >= MIN_WORDS_OF_SHAPE and 2 * missing[shape] >= count}
    return known._replace(
        uncopied=tuple(sorted(found.union(known.uncopied))),
        uncopied_shapes=tuple(sorted(often.union(known.uncopied_shapes))),
    )


class Copies(NamedTuple):
    """The words to copy of each sentence, by placeholder."""

    words: tf.Tensor  # [B, K] string, "" for none
    written: tf.Tensor  # [B, K] string, words as translations contain them before ``joined``
    certain: tf.Tensor  # [B, K] bool, False if the model may translate the word


class Words:
    """Sentences as parts: the parts at odd positions are words, the others are the characters between them.

    The model reads spaces around markup: "<b>Hola</b>" as "⟦0⟧ Hola ⟦1⟧".

    Args:
        text: [B] string. Normalised sentences.
        max_words: Number of words after which a sentence is cut; ``None`` for no limit.
    """

    def __init__(self, text: tf.Tensor, max_words: int | None = None):
        parts = tf.strings.split(in_steps(text, DIVISION), SEPARATOR)
        self.parts = parts if max_words is None else parts[:, : 2 * max_words + 1]
        self.flat = self.parts.flat_values  # [N] string
        # int32, because oneDNN reports an error for sums of int64
        self.rows = tf.cast(self.parts.value_rowids(), tf.int32)  # [N] the sentence of each part
        position = tf.range(tf.size(self.rows)) - tf.gather(tf.cast(self.parts.row_starts(), tf.int32), self.rows)
        self.is_word = tf.equal(position % 2, 1)
        before, after = tf.concat([[""], self.flat[:-1]], axis=0), tf.concat([self.flat[1:], [""]], axis=0)
        self.inside = self.is_word & (position > 1) & _is(INSIDE, before)  # not after the end of a sentence

        self.is_markup = self.is_word & _is(MARKUP, self.flat)
        is_last = tf.equal(position + 2, tf.gather(tf.cast(self.parts.row_lengths(), tf.int32), self.rows))
        self._joins = (  # whether a word touches the markup
            self.is_markup & tf.equal(before, "") & (position > 1),
            self.is_markup & tf.equal(after, "") & ~is_last,
        )

    def beside(self, middle: tf.Tensor, left: str, right: str) -> tf.Tensor:
        """Returns ``middle`` [N] string, with ``left`` and ``right`` on the sides on which markup touches a word."""
        joins_before, joins_after = self._joins
        return tf.strings.join([tf.where(joins_before, left, ""), middle, tf.where(joins_after, right, "")])

    def contain(self, copies: Copies) -> tf.Tensor:
        """Returns [B, K] bool: the copied words that their sentence contains."""
        equal = tf.cast(self.equal(copies), tf.int32)
        return tf.math.unsorted_segment_max(equal, self.rows, self.parts.nrows()) > 0

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
        equal = self._distinct(self.equal(copies))
        number = tf.argmax(tf.cast(equal, tf.int32), axis=1, output_type=tf.int32)
        written = self.beside(tf.gather(tf.constant(SIGNS), number), " ", " ")
        if keeps_uncertain:
            certain = tf.gather_nd(copies.certain, tf.stack([self.rows, number], axis=1))
            written = tf.where(certain, written, self.flat + written)
        marked = tf.where(tf.reduce_any(equal, axis=1), written, self.flat)
        return tf.strings.regex_replace(tf.strings.reduce_join(self.parts.with_flat_values(marked), axis=1), " +", " ")

    def _distinct(self, equal: tf.Tensor) -> tf.Tensor:
        """Returns ``equal`` [N, K] with one copy of each word: the first, the second and so on of equal ones."""
        order = tf.cumsum(tf.cast(equal, tf.int32), axis=1)  # [N, K]
        first = tf.cast(equal & tf.equal(order, 1), tf.int32)
        earlier = tf.cumsum(first, exclusive=True)
        earlier -= tf.gather(earlier, tf.gather(self.parts.row_starts(), self.rows))  # in the same sentence
        wanted = tf.minimum(tf.reduce_sum(first * earlier, axis=1) + 1, order[:, -1])
        return equal & tf.equal(order, wanted[:, tf.newaxis])


class Placeholders(tf.Module):
    """Finds the words to copy of a sentence.

    Args:
        known: Words and shapes that are not copied.
    """

    def __init__(self, known: KnownWords):
        super().__init__(name="placeholders")
        self._capitals_mark_names = known.capitals_mark_names
        flags = {"": _KNOWN, **dict.fromkeys(known.words, _KNOWN)}  # a table must not be empty
        common = {word.lower() for word in known.words}
        for key in (*known.uncopied, *(SEPARATOR + shape for shape in known.uncopied_shapes)):
            flags[key] = flags.get(key, _KNOWN if key in common else 0) | _UNCOPIED
        entries = tf.lookup.KeyValueTensorInitializer(list(flags), list(flags.values()), tf.string, tf.int32)
        self._flags = tf.lookup.StaticHashTable(entries, 0)
        self.foreign = foreign_letters(known)

    def find(self, words: Words) -> Copies:
        """Returns the words of sentences that are copied."""
        short = words.is_word & (tf.strings.length(words.flat) <= MAX_COPIED_BYTES)
        other = words.is_markup | _is_foreign(words.flat, self.foreign)
        short &= other | _is("..+", words.flat)
        form = other | _is(FORM, words.flat)
        flags = tf.bitwise.bitwise_or(self._flags.lookup(words.flat), self._flags.lookup(to_lower(words.flat)))
        shape_flags = self._flags.lookup(SEPARATOR + in_steps(words.flat, SHAPE))
        known, missing = (tf.not_equal(tf.bitwise.bitwise_and(flags, flag), 0) for flag in (_KNOWN, _UNCOPIED))
        found = certain = short & form & tf.equal(shape_flags, 0) & ~(known & missing)
        if self._capitals_mark_names:
            name = short & ~form & ~known & _is(CAPITALISED, words.flat)
            certain |= name & words.inside
            found |= name
        certain &= ~missing

        def of_found(values: tf.Tensor, padding: str | bool) -> tf.Tensor:
            kept = tf.ragged.boolean_mask(words.parts.with_flat_values(values), words.parts.with_flat_values(found))
            return kept[:, :PLACEHOLDERS].to_tensor(padding, shape=[None, PLACEHOLDERS])

        written = words.beside(words.flat, LEFT, RIGHT)
        return Copies(of_found(words.flat, ""), of_found(written, ""), of_found(certain, False))

    def find_for_training(self, source: Words, target: Words) -> Copies:
        """Returns the words of the sources of pairs that are copied, as ``find`` does, at other numbers.

        The numbers of the placeholders begin at a pseudo-random number, so that training sees all of them equally
        often.
        """
        copies = self.find(source)
        text = [tf.strings.reduce_join(side.parts, axis=1) for side in (source, target)]
        shift = tf.cast(tf.strings.to_hash_bucket_fast(tf.strings.join(text), 2 * PLACEHOLDERS), tf.int32)
        shift = tf.where(shift < PLACEHOLDERS, shift, 0)  # search begins at 0, so half of the pairs do
        places = (tf.range(PLACEHOLDERS) - shift[:, tf.newaxis]) % PLACEHOLDERS
        return Copies(*(tf.gather(each, places, batch_dims=1) for each in copies))


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


def in_order(ids: tf.Tensor, first: int, words: tf.Tensor) -> tf.Tensor:
    """Returns translations [B, T] whose positional variables, such as %s and %d, have the order of the source.

    For the arguments, see ``copied_words``.
    """
    positional = _is(POSITIONAL, words)  # [B, K]
    is_variable = tf.not_equal(copied_words(ids, first, tf.where(positional, words, "")), "")  # [B, T]
    rank = tf.cumsum(tf.cast(is_variable, tf.int32), axis=1)
    places = tf.cumsum(tf.cast(positional, tf.int32), axis=1)
    same = positional[:, tf.newaxis] & tf.equal(places[:, tf.newaxis], rank[:, :, tf.newaxis])  # [B, T, K]
    number = tf.argmax(tf.cast(same, tf.int32), axis=2, output_type=tf.int32)
    return tf.where(is_variable & tf.reduce_any(same, axis=2), first + number, ids)


def joined(text: tf.Tensor) -> tf.Tensor:
    """Returns translations with markup beside its words, as in the source."""
    return tf.strings.regex_replace(text, APART, "")


def _is(pattern: str, words: tf.Tensor) -> tf.Tensor:
    return tf.strings.regex_full_match(words, pattern)


def _is_foreign(words: tf.Tensor, letters: str) -> tf.Tensor:
    return _is(foreign_word(letters), words) if letters else tf.zeros_like(words, tf.bool)


def foreign_word(letters: str) -> str:
    """Returns the pattern of words that have ``letters``, and no others; see ``foreign_letters``."""
    return rf"[\P{{L}}{letters}]*[{letters}][\P{{L}}{letters}]*"


def has_letters(foreign: str) -> str:
    """Returns the pattern of sentences with letters that are not ``foreign``.

    RE2's tables are those of Unicode 15, so newer scripts have no letters.
    """
    return rf".*[^\P{{L}}{foreign}].*"


def foreign_letters(known: KnownWords) -> str:
    """Returns the scripts of which the training set has hardly a word, for a class of a regular expression.

    "" if its pairs do not copy words in such scripts.
    """
    if "a" in known.uncopied_shapes:
        return ""
    words = tf.constant(known.words, tf.string)
    least = MIN_SHARE_OF_SCRIPT * len(known.words)
    classes = (rf"\p{{{script}}}" for script in _SCRIPTS.split())
    return "".join(each for each in classes if np.count_nonzero(_is(f".*{each}.*", words)) < least)


def _strings(tensor: tf.Tensor) -> list[str]:
    return [text.decode() for text in tensor.numpy().tolist()]
