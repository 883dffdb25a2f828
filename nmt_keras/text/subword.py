"""Subword text: a SentencePiece unigram model (Kudo 2018), or one of single characters; cased and lossless.

Nothing a user writes is lost, ``decode(encode(x)) == x``, because

    normalisation "identity"    case, digits, inverted marks and every other sign stay as they are
    white space kept            leading, trailing and double spaces are pieces too
    character coverage 1        every character of the corpus is a piece
    byte fallback               any other, an emoji say, is spelt in its UTF-8 bytes: UNK never occurs

with two exceptions: text is taken in NFC, so that é means the same whether a keyboard sends one code point or two; and
"▁" (U+2581), which SentencePiece writes for the space, comes back as a space.
"""

from __future__ import annotations

import io
import itertools
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np
import sentencepiece
import tensorflow as tf
import tensorflow_text as tf_text

from nmt_keras.config import END, PAD, START, UNK, TokenizerConfig
from nmt_keras.files import write_whole
from nmt_keras.text.storage import read_record, write_record
from nmt_keras.text.tokens import SPECIAL_SURFACES, SPECIALS, Tokens, cut, replaced, spell, well_formed

MODEL_FILE = "sentencepiece.model"
VOCABULARY_FILE = "vocabulary.txt"

_SPACE = "▁"
_BYTE_PIECES = 256
_LINES_AT_ONCE = 8192
MAX_LINES = 2_000_000
"""Lines that a vocabulary is learnt from: the trainer holds them in memory, and more of them hardly move it."""
_MAX_LINE_BYTES = 1 << 20  # longer lines teach nothing; the trainer's own limit of 4192 loses paragraphs
_THREADS = 4  # a constant: the order of floating-point sums, and with it the model, depends on the number of threads


class SubwordTokenizer(tf.Module):
    """Pieces of words, or characters, to ids and back; ``TokenizerConfig.kind`` says which.

    A piece is displayed as it stands in the text, with "▁" for the space in front of a word. A character spelt in bytes
    is displayed at its first byte, its other bytes as "", on the source side and on the target side.
    """

    def __init__(self, model: bytes, config: TokenizerConfig):
        """Takes the bytes of a SentencePiece model that ``fit`` trained."""
        super().__init__(name="subword_text")
        self.config = config
        self._model = model
        tokenizer = self._tokenizer()
        self.vocabulary_size = int(tokenizer.vocab_size())  # V, the four special entries included
        self._pieces = tokenizer.id_to_string(tf.range(self.vocabulary_size))  # [V]
        spelt = [_bytes_of(piece) for piece in self._pieces.numpy().tolist()[len(SPECIALS) :]]
        self._raw = tf.constant([*(sign.encode() for sign in SPECIAL_SURFACES), *spelt])  # [V]
        # 10xxxxxx: a byte that goes on with a character
        self._continues = tf.constant([len(raw) == 1 and raw[0] >> 6 == 0b10 for raw in self._raw.numpy().tolist()])
        self._spelling = tf.strings.regex_replace(self._raw, _SPACE, " ")

    @classmethod
    def fit(cls, lines: Iterable[str], config: TokenizerConfig) -> Self:
        """A text whose pieces are learnt from ``lines``, of which the first two million are read.

        The vocabulary is smaller than ``config.vocabulary_size`` if ``lines`` yield no more pieces. Equal lines in
        equal order give an equal model.

        Raises:
            ValueError: ``lines`` are blank, or have more characters than the vocabulary can hold.
        """
        characters: set[str] = set()
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_normalised(itertools.islice(lines, MAX_LINES), characters),
                model_writer=model,
                model_type="unigram" if config.kind == "subword" else "char",
                vocab_size=config.vocabulary_size,
                hard_vocab_limit=False,
                max_sentence_length=_MAX_LINE_BYTES,
                character_coverage=1.0,
                byte_fallback=True,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                pad_id=PAD,
                unk_id=UNK,
                bos_id=START,
                eos_id=END,
                pad_piece=SPECIALS[PAD],
                unk_piece=SPECIALS[UNK],
                bos_piece=SPECIALS[START],
                eos_piece=SPECIALS[END],
                num_threads=_THREADS,
                minloglevel=2,  # errors only
            )
        except RuntimeError as error:
            raise ValueError(f"{_fault(characters, config)} SentencePiece says: {error}") from error
        return cls(model.getvalue(), config)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """The text that ``save`` wrote into ``folder``.

        Raises:
            FileNotFoundError: a file is missing.
            ValueError: a file is damaged or holds another kind of text.
        """
        config, model = read_record(folder, ("subword", "character"), MODEL_FILE)
        return cls(model, config)

    def save(self, folder: str | PathLike[str]) -> None:
        """Writes ``sentencepiece.model``, ``text.json`` and, for reading only, ``vocabulary.txt`` in order of id."""
        write_record(Path(folder), self.config, MODEL_FILE, self._model)
        pieces = [piece.decode("utf-8") for piece in self._pieces.numpy().tolist()]
        write_whole(Path(folder) / VOCABULARY_FILE, "".join(f"{piece}\n" for piece in pieces))

    def encode(self, text: tf.Tensor) -> Tokens:
        """Tokens of ``text`` [B] string; a batch of none gives ids [0,0]. See ``Tokenizer.encode``."""
        pieces = self._tokenizer().tokenize(tf_text.normalize_utf8(well_formed(text), "NFC"))  # [B,(S)]
        ids = cut(pieces, END, self.config.max_tokens)
        # A sentence begins with a piece of its own, so no character reaches across two of them.
        surface = ids.with_flat_values(self._displayed(ids.flat_values, tf.zeros_like(ids.flat_values, tf.bool)))
        return Tokens(
            ids.to_tensor(PAD),
            surface.to_tensor(""),
            tf.cast(ids.row_lengths(), tf.int32),
            pieces.row_lengths() >= self.config.max_tokens,
        )

    def decode(self, ids: tf.Tensor, lengths: tf.Tensor | None = None, unknown: tf.Tensor | None = None) -> tf.Tensor:
        """Decodes ids [B, T] to sentences [B] string. Invalid UTF-8 becomes U+FFFD. See ``Tokenizer.decode``."""
        return well_formed(spell(ids, lengths, self._spelling, unknown))

    def surfaces(self, ids: tf.Tensor, unknown: tf.Tensor | None = None) -> tf.Tensor:
        """What each token of ``ids`` [B,T] looks like, [B,T] string. See ``Tokenizer.surfaces``."""
        first = tf.zeros_like(ids, tf.bool) | (tf.range(tf.shape(ids)[1]) == 0)  # [B,T]
        displayed = self._displayed(tf.reshape(ids, [-1]), tf.reshape(first, [-1]))
        return replaced(ids, tf.reshape(displayed, tf.shape(ids)), unknown)

    def segmentations(self, line: str, count: int) -> tuple[list[list[int]], np.ndarray]:
        """The most probable ways to cut ``line`` into pieces, the best first, as ids that end in END.

        Args:
            line: one sentence, of any length.
            count: segmentations at the most; one is what ``encode`` gives, unless ``max_tokens`` cuts it.

        Returns:
            The segmentations, and their log-probabilities, [N] float64, nats: the sums of their pieces'.
        """
        found = self._processor.nbest_encode_as_ids(unicodedata.normalize("NFC", line), count)
        return [[*ids, END] for ids in found], np.array([self._scores[ids].sum() for ids in found])

    @cached_property
    def _processor(self) -> sentencepiece.SentencePieceProcessor:
        return sentencepiece.SentencePieceProcessor(model_proto=self._model)

    @cached_property
    def _scores(self) -> np.ndarray:
        return np.array([self._processor.get_score(piece) for piece in range(self.vocabulary_size)])  # [V] nats

    def _tokenizer(self) -> tf_text.SentencepieceTokenizer:
        """A tokenizer for one use; TensorFlow keeps the model that it reads and finds it again.

        A tokenizer kept for good would lose it: the model belongs to a cached kernel, and ``tf.random.set_seed``
        empties the cache.
        """
        return tf_text.SentencepieceTokenizer(self._model)

    def _displayed(self, ids: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
        """What the tokens ``ids`` [N] of a row of sentences look like, [N] string; ``first`` [N]: where one begins."""
        begins = first | ~tf.gather(self._continues, ids)  # [N], False at the later bytes of a character
        character = tf.cumsum(tf.cast(begins, tf.int32)) - 1  # [N], counts pieces and characters
        spelt = tf.strings.unsorted_segment_join(tf.gather(self._raw, ids), character, tf.size(ids))
        return tf.where(begins, well_formed(tf.gather(spelt, character)), "")


def _normalised(lines: Iterable[str], characters: set[str]) -> Iterator[str]:
    """The lines in NFC, as ``encode`` will see them; collects their distinct characters in ``characters``."""
    remaining = iter(lines)
    while chunk := list(itertools.islice(remaining, _LINES_AT_ONCE)):
        for line in tf_text.normalize_utf8(tf.constant(chunk), "NFC").numpy().tolist():
            text = line.decode("utf-8")
            if not text.isspace():
                characters.update(text.replace(" ", _SPACE))
                yield text


def _fault(characters: set[str], config: TokenizerConfig) -> str:
    """Why no vocabulary could be learnt from lines with these ``characters``, and what to do."""
    if not characters:
        return "lines: expected at least one that is not blank, received none. Check the corpus file."
    least = len(SPECIALS) + _BYTE_PIECES + len(characters)
    if config.vocabulary_size < least:
        return (
            f"TokenizerConfig.vocabulary_size: expected at least {least} for a {config.kind} text of these lines (4 "
            f"specials, 256 bytes, {len(characters)} characters), received {config.vocabulary_size}. Raise it or use a "
            "word text."
        )
    return "lines: expected lines that SentencePiece can learn from. Check the corpus file or use a word text."


def _bytes_of(piece: bytes) -> bytes:
    """The UTF-8 that ``piece`` stands for: its own, or for a byte piece such as <0xF0> that byte."""
    if len(piece) == 6 and piece.startswith(b"<0x") and piece.endswith(b">"):
        return bytes([int(piece[3:5], 16)])
    return piece
