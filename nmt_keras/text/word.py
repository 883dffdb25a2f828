"""Word tokenizer for any text, with a vocabulary of whole words as in the TensorFlow tutorial.

One regular expression (RE2, the same in Python and in a served graph) splits a sentence into tokens:

    number    3.50  1,000  6:30  1/2/2018  5.30pm   digits joined by . , : / ٫ or ٬ and any letters that follow
    initials  U.S.  a.m.  EE.UU.                    two or more letters (or pairs of capitals), each with a full stop
    word      casa  don't  o'clock  well-known 3rd  letters, marks and digits, joined inside by apostrophes, hyphens,
                                                    middle dots or the Hebrew signs ־ ׳ ״
    sign      ¿  "  €  😀  👍🏽  🇪🇸                   any other character, with its marks and joiners

Sentences are normalised first (``text.normalisation``). White space and the remaining format characters separate tokens
and are dropped. All other characters are kept.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import tensorflow as tf
import tensorflow_text as tf_text

from nmt_keras.config import END, PAD, UNK, TokenizerConfig
from nmt_keras.text.capitals import to_lower
from nmt_keras.text.normalisation import Normalised, in_blocks, in_steps, normalise_lines
from nmt_keras.text.tokens import (
    SPECIAL_SURFACES,
    SPECIALS,
    Tokenizer,
    Tokens,
    cut,
    read_files,
    replaced,
    spell,
    write_record,
)

VOCABULARY_FILE = "vocabulary.txt"

_GAP = r"\s\p{Z}\p{Cc}\p{Cf}"
_IN_WORD = r"[\p{L}\p{M}\p{N}]+"
_NUMBER = r"\p{Nd}+(?:[.,:/٫٬]\p{Nd}+)+(?:['’]?[\p{L}\p{M}]+)?"
_INITIALS = r"(?:\p{L}\.){2,}|(?:\p{Lu}{2}\.){2,}"
# U+2010, U+2011 hyphens; U+200C, U+200D joiners, which some scripts write inside words; U+05BE, U+05F3, U+05F4 Hebrew
_INSIDE = r"'’·・\-\x{2010}\x{2011}\x{200C}\x{200D}\x{5BE}\x{5F3}\x{5F4}"
_WORD = rf"{_IN_WORD}(?:[{_INSIDE}]{_IN_WORD})*"
_SIGN_WITH_MARKS = rf"[^{_GAP}][\p{{M}}\x{{1F3FB}}-\x{{1F3FF}}]*"  # marks, variation selectors, skin tones
_FLAG = r"[\x{1F1E6}-\x{1F1FF}]{2}"
_SIGN = rf"{_FLAG}|{_SIGN_WITH_MARKS}(?:\x{{200D}}{_SIGN_WITH_MARKS})*"  # U+200D joins several emoji into one
TOKEN = "|".join((_NUMBER, _INITIALS, _WORD, _SIGN))

_CJK = r"[\p{Han}\p{Hiragana}\p{Katakana}]"
_REJOINING = (
    (r'(["״]) ([^"״]*) (["״])', r"\1\2\3"),
    (r"„ ([^„“”]*) ([“”])", r"„\1\2"),
    (r"“ ([^„“”]*) ”", r"“\1”"),
    (r"^“ ", "“"),
    (r" ' ([^']*) '( |$)", r" '\1'\2"),
    (r"^' ([^']*) '( |$)", r"'\1'\2"),
    (r"(\p{L}) '( |$)", r"\1'\2"),  # unpaired: the apostrophe of parents' or pa'
    (r" ?([、。，！？：；「」『』（）【】《》〈〉]) ?", r"\1"),
    (rf"({_CJK}) (“)|(”) ({_CJK})", r"\1\2\3\4"),
    (r" ([.,!?;:…%)\]}»”’،؛؟٪۔।॥׳])", r"\1"),
    (r"([¿¡(\[{«‘#]) ", r"\1"),
    (r"([$£€]) (\p{Nd})", r"\1\2"),
    (r" / ", "/"),
)
"""Patterns and replacements, applied in order, that turn space-separated words into written text."""

_ACCENTS = r"(^|[\p{Common}\p{Latin}\p{Greek}\p{Cyrillic}])\p{Mn}+"  # marks of other scripts belong to the word


class WordTokenizer(Tokenizer):
    """Tokenizer of whole words.

    A token is looked up by its key: its NFC form, lower-cased and without accents if so configured (é becomes e, and ñ
    becomes n). Marks of scripts without case, such as Thai vowels, are no accents. ``Tokens.surface`` keeps the text as
    written. Words outside the vocabulary are UNK.
    """

    def __init__(self, vocabulary: Sequence[str], config: TokenizerConfig):
        """Creates a tokenizer from the entries in order of id, the four special ones first."""
        super().__init__(name="word_text")
        words = list(vocabulary[len(SPECIALS) :])
        ids = tf.range(len(SPECIALS), len(vocabulary), dtype=tf.int32)
        self.config = config
        self.vocabulary_size = len(vocabulary)  # V, the four special entries included
        self._ids = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant(words), ids), UNK)
        self._surfaces = tf.constant([*SPECIAL_SURFACES, *words])
        self._spelling = tf.strings.join([" ", self._surfaces])

    @classmethod
    def fit(
        cls, lines: Iterable[str], config: TokenizerConfig, placeholders: bool = False, count: int | None = None
    ) -> Self:
        """Returns a tokenizer with the most frequent keys of ``lines``. Keys of equal count are in code point order.

        ``placeholders`` has no effect, because unknown words are UNK, and neither has ``count``.

        Raises:
            ValueError: ``lines`` contain no word.
        """
        counts: Counter[bytes] = Counter()
        for block in in_blocks(normalise_lines(lines)):
            counts.update(word_keys(split_words(tf.constant(block)).flat_values, config).numpy().tolist())
        counts.pop(b"", None)  # the key of a lone accent that the configuration strips
        if not counts:
            raise ValueError(
                "lines: expected at least one line with a word in it, received none. Check the corpus file."
            )
        # UTF-8 bytes sort like their code points
        by_count = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        words = [key.decode() for key, _ in by_count[: config.vocabulary_size - len(SPECIALS)]]
        return cls([*SPECIALS, *words], config)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Returns the tokenizer that ``save`` wrote into ``folder``.

        Raises:
            FileNotFoundError: a file is missing.
            ValueError: a file is damaged, or the folder contains another kind of tokenizer.
        """
        config, files = read_files(folder, ("word",), VOCABULARY_FILE)
        return cls(files[VOCABULARY_FILE].decode("utf-8").split("\n")[:-1], config)

    def save(self, folder: str | Path) -> None:
        """Writes ``vocabulary.txt``, one entry per line in order of id, and ``text.json``."""
        words = [word.decode() for word in self._surfaces.numpy().tolist()[len(SPECIALS) :]]
        vocabulary = "".join(f"{entry}\n" for entry in (*SPECIALS, *words))
        write_record(Path(folder), self.config, {VOCABULARY_FILE: vocabulary.encode("utf-8")})

    def encode_normalised(self, sentences: Normalised) -> Tokens:
        """Encodes normalised sentences; see ``Tokenizer.encode``."""
        words = split_words(sentences.text)  # [B,(S)]
        lengths = words.row_lengths()
        words = words[:, : self.config.max_tokens]
        known = words.with_flat_values(self._ids.lookup(word_keys(words.flat_values, self.config)))
        ids = cut(known, END, self.config.max_tokens)
        surface = cut(words, "", self.config.max_tokens)
        return Tokens(
            ids.to_tensor(PAD),
            surface.to_tensor(""),
            tf.cast(ids.row_lengths(), tf.int32),
            sentences.cut | (lengths >= self.config.max_tokens),
            sentences.text,
        )

    def decode(
        self, ids: tf.Tensor, lengths: tf.Tensor | None = None, replacements: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Decodes ids to sentences with the usual spacing; see ``Tokenizer.decode``.

        No space precedes . , ! ? ; : % or a closing bracket, and none follows ¿ ¡ or an opening one. Straight, German
        and English quotes are taken in pairs. No space surrounds Chinese and Japanese marks. This is a best effort:
        "90 %" is decoded as "90%".
        """
        return in_steps(spell(ids, lengths, self._spelling, replacements, before=" "), _REJOINING)

    def surfaces(self, ids: tf.Tensor, replacements: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the surface of each token; see ``Tokenizer.surfaces``."""
        return replaced(tf.gather(self._surfaces, ids), replacements)


def split_words(text: tf.Tensor) -> tf.RaggedTensor:
    """Splits sentences into tokens as written.

    Args:
        text: [B] string. Normalised sentences.

    Returns:
        [B, (S)] string.
    """
    # Patterns without groups let RE2 take its fast path: 0.5 s instead of 5 s for 100,000 sentences.
    spaced = tf.strings.regex_replace(text, TOKEN, r" \0 ")
    # tf.strings.split recognises ASCII white space only. A joiner inside an emoji follows no space, so it is kept.
    spaced = tf.strings.regex_replace(spaced, f"(?:^| )[{_GAP}]+", " ")
    return tf.strings.split(spaced)


def word_keys(words: tf.Tensor, config: TokenizerConfig) -> tf.Tensor:
    """Returns the lookup keys of words: NFC, lower-cased and without accents if so configured.

    Args:
        words: [N] string.
        config: Configuration of the tokenizer.
    """
    keys = to_lower(words) if config.lowercase else words  # case_fold_utf8 would turn º into o and ß into ss
    if config.strip_accents:
        keys = tf.strings.regex_replace(tf_text.normalize_utf8(keys, "NFD"), _ACCENTS, r"\1")
    return tf_text.normalize_utf8(keys, "NFC")
