"""Subword tokenizer: a SentencePiece unigram model (Kudo 2018) or character model, cased and lossless.

Up to ``max_tokens``, ``decode(encode(x))`` is the normalised sentence (``text.normalisation``), because of these
settings:

    no normalisation            case, digits, inverted marks and all other characters are kept
    character coverage 1        every character of the corpus is a piece, if the vocabulary has room
    byte fallback               any other character, such as an emoji, becomes its UTF-8 bytes; UNK never occurs

There are two exceptions: "▁" (U+2581), which SentencePiece uses for the space, is decoded as a space, and a
vocabulary with placeholders has no text for U+F0000 to U+F0007 (``text.placeholders``).
"""

import hashlib
import io
import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import sentencepiece
import tensorflow as tf
import tensorflow_text as tf_text
from google.protobuf.message import DecodeError
from sentencepiece.sentencepiece_model_pb2 import ModelProto, NormalizerSpec

from nmt_keras.config import END, PAD, START, UNK, TokenizerConfig, require
from nmt_keras.io.files import read_json, write_whole
from nmt_keras.text.normalisation import Normalised, normalise_lines, well_formed
from nmt_keras.text.placeholders import SIGNS, KnownWords, known_words
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

MODEL_FILE = "sentencepiece.model"
VOCABULARY_FILE = "vocabulary.txt"
KNOWN_WORDS_FILE = "known-words.json"

_SPACE = "▁"
_RESERVED = "\u2585"  # the trainer skips lines with it
_BYTE_PIECES = 256
MAX_LINES = 2_000_000
"""Maximum number of lines that ``fit`` reads into memory. More lines hardly change the vocabulary."""
_RULES = Path(__file__).with_name("sentencepiece_rules.bin")
"""Part of a SentencePiece model: a rule for U+0001, which ``normalise`` removes. TensorFlow Text prints a message
whenever it loads a model without rules. Serialized messages that follow each other are read as one."""


class SubwordTokenizer(Tokenizer):
    """Tokenizer of subword pieces or characters, depending on ``TokenizerConfig.kind``.

    The surface of a piece is its text, with "▁" for the space before a word. If a character is encoded as bytes, the
    surface of its first byte is the character, and the surface of its other bytes is "". This holds for
    source and target.
    """

    def __init__(self, model: bytes, config: TokenizerConfig, known_words: KnownWords | None = None):
        """Creates a tokenizer from the bytes of a SentencePiece model that ``fit`` trained."""
        super().__init__(name="subword_text")
        self.config = config
        self.known_words = known_words
        self.model = model
        tokenizer = self._tokenizer()
        self.vocabulary_size = int(tokenizer.vocab_size())  # V, the four special entries included
        self._pieces = tokenizer.id_to_string(tf.range(self.vocabulary_size))  # [V]
        spelt = [_bytes_of(piece) for piece in self._pieces.numpy().tolist()[len(SPECIALS) :]]
        self._raw = tf.constant([*(sign.encode() for sign in SPECIAL_SURFACES), *spelt])  # [V]
        # 10xxxxxx: a UTF-8 continuation byte
        continues = [len(raw) == 1 and raw[0] >> 6 == 0b10 for raw in self._raw.numpy().tolist()]
        with tf.device("/CPU:0"):  # where ``Codec.encode_pairs`` reads it
            self._continues = tf.constant(continues)
        self._spelling = tf.strings.regex_replace(self._raw, _SPACE, " ")
        self.first_placeholder = int(tokenizer.string_to_id(SIGNS[0])) if known_words else 0

    @classmethod
    def fit(
        cls, lines: Iterable[str], config: TokenizerConfig, placeholders: bool = False, count: int | None = None
    ) -> Self:
        """Returns a tokenizer trained on at most ``MAX_LINES`` of ``lines``.

        The lines are evenly spaced if their number is known, because the first lines of a corpus are often of one kind.
        ``count`` is the number of lines; ``None`` is unknown, unless ``lines`` is a list.

        With ``placeholders``, the vocabulary contains placeholders, and the tokenizer has known words.

        The vocabulary is smaller than ``config.vocabulary_size`` if ``lines`` yield fewer pieces. The same lines in
        the same order give the same model. With ``config.sentencepiece_model``, the pieces are those of that model,
        and only the known words come from ``lines``.

        Raises:
            ValueError: ``lines`` are blank, or have more distinct characters than the vocabulary can hold; or
                ``config.sentencepiece_model`` is not a cased model of at most ``config.vocabulary_size`` pieces.
        """
        step = -(-(count or (len(lines) if isinstance(lines, Sequence) else 1)) // MAX_LINES) or 1
        lines = itertools.islice(lines, 0, step * MAX_LINES, step)
        taken = (line.replace(_RESERVED, " ") for line in normalise_lines(lines))
        written = [" ".join(line.split()) for line in taken if line.strip()]
        known = known_words(written) if placeholders else None
        if config.sentencepiece_model:
            return cls(_adopted(config, placeholders), config, known)
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(written),
                model_writer=model,
                model_type="unigram" if config.kind == "subword" else "char",
                vocab_size=config.vocabulary_size,
                hard_vocab_limit=False,
                max_sentence_length=1 << 20,  # the trainer skips longer lines, by default paragraphs of 4192 bytes
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
                user_defined_symbols=list(SIGNS) if placeholders else [],
                num_threads=4,  # fixed, because it changes the order of floating-point sums, and thereby the model
                minloglevel=2,  # errors only
            )
        except RuntimeError as error:
            raise ValueError(f"{_fault(written, config, placeholders)} SentencePiece reported: {error}") from error
        return cls(model.getvalue() + _RULES.read_bytes(), config, known)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Returns the tokenizer that ``save`` wrote into ``folder``.

        Raises:
            FileNotFoundError: a file is missing.
            ValueError: a file is damaged, or the folder contains another kind of tokenizer.
        """
        config, files = read_files(folder, ("subword", "character"), MODEL_FILE)
        known = None
        if KNOWN_WORDS_FILE in files:
            fields = read_json(Path(folder) / KNOWN_WORDS_FILE)
            words, *others = (tuple(fields.get(name, ())) for name in ("words", "uncopied", "uncopied_shapes"))
            known = KnownWords(words, fields["capitals_mark_names"], *others)
        return cls(files[MODEL_FILE], config, known)

    def save(self, folder: str | Path) -> None:
        """Writes ``sentencepiece.model``, ``text.json``, the known words and, for human readers, ``vocabulary.txt``.

        ``vocabulary.txt`` is in order of id.
        """
        files = {MODEL_FILE: self.model}
        if self.known_words:
            files[KNOWN_WORDS_FILE] = json.dumps(self.known_words._asdict(), ensure_ascii=False).encode("utf-8")
        write_record(Path(folder), self.config, files)
        pieces = [piece.decode("utf-8") for piece in self._pieces.numpy().tolist()]
        write_whole(Path(folder) / VOCABULARY_FILE, "".join(f"{piece}\n" for piece in pieces))

    def encode_normalised(self, sentences: Normalised) -> Tokens:
        """Encodes normalised sentences; see ``Tokenizer.encode``."""
        pieces = self._tokenizer().tokenize(sentences.text)  # [B,(S)]
        ids = cut(pieces, END, self.config.max_tokens)
        # No sentence begins with a continuation byte, so no character spans two sentences.
        surface = ids.with_flat_values(self._displayed(ids.flat_values, tf.zeros_like(ids.flat_values, tf.bool)))
        return Tokens(
            ids.to_tensor(PAD),
            surface.to_tensor(""),
            tf.cast(ids.row_lengths(), tf.int32),
            sentences.cut | (pieces.row_lengths() >= self.config.max_tokens),
            sentences.text,
        )

    def decode(
        self, ids: tf.Tensor, lengths: tf.Tensor | None = None, replacements: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Decodes ids to sentences; see ``Tokenizer.decode``. Invalid UTF-8 becomes U+FFFD."""
        return well_formed(spell(ids, lengths, self._spelling, replacements))

    def surfaces(self, ids: tf.Tensor, replacements: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the surface of each token; see ``Tokenizer.surfaces``."""
        first = tf.zeros_like(ids, tf.bool) | (tf.range(tf.shape(ids)[1]) == 0)  # [B,T]
        displayed = self._displayed(tf.reshape(ids, [-1]), tf.reshape(first, [-1]))
        return replaced(tf.reshape(displayed, tf.shape(ids)), replacements)

    def _tokenizer(self) -> tf_text.SentencepieceTokenizer:
        """Returns a tokenizer for one use. TensorFlow caches the parsed model.

        A tokenizer that is kept longer could lose its model: a cached kernel owns the model, and
        ``tf.random.set_seed`` empties the cache.

        The operation is named after the model: ``tf.saved_model.load`` shares a resource between all operations of a
        SavedModel that have the same name.
        """
        digest = hashlib.sha256(self.model).hexdigest()[:16]
        return tf_text.SentencepieceTokenizer(self.model, name=f"sentencepiece_{digest}")

    def _displayed(self, ids: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
        """Returns the surface of each token of concatenated sentences.

        Args:
            ids: [N] int. Tokens.
            first: [N] bool. Marks tokens that do not continue a character of the previous token.

        Returns:
            [N] string.
        """
        begins = first | ~tf.gather(self._continues, ids)  # [N], False at continuation bytes
        character = tf.cumsum(tf.cast(begins, tf.int32)) - 1  # [N], index of the piece or character
        spelt = tf.strings.unsorted_segment_join(tf.gather(self._raw, ids), character, tf.size(ids))
        return tf.where(begins, well_formed(tf.gather(spelt, character)), "")


def _adopted(config: TokenizerConfig, placeholders: bool) -> bytes:
    """Returns ``config.sentencepiece_model`` with the special entries and the settings of a model that ``fit`` trains.

    Its pieces keep their order and scores. Bytes and placeholders that it lacks are added before them.
    """
    path, name, model = Path(config.sentencepiece_model), "TokenizerConfig.sentencepiece_model", ModelProto()
    try:
        model.ParseFromString(path.read_bytes() if path.is_file() else b"")
    except DecodeError:
        model.Clear()
    require(len(model.pieces) > 0, name, "a model file of SentencePiece", str(path))
    spec, piece = model.trainer_spec, ModelProto.SentencePiece
    cased = not spec.treat_whitespace_as_suffix and model.normalizer_spec.name in ("identity", "nfkc", "nmt_nfkc")
    wanted = "a cased model: with the rule identity, nfkc or nmt_nfkc, and the space before words"
    require(cased, name, wanted, f"{path} with {model.normalizer_spec.name}", "Train the model with these settings.")
    kinds = dict(zip(SPECIALS, (piece.CONTROL, piece.UNKNOWN, piece.CONTROL, piece.CONTROL), strict=True))
    kinds |= dict.fromkeys(SIGNS if placeholders else (), piece.USER_DEFINED)
    kinds |= {f"<0x{byte:02X}>": piece.BYTE for byte in range(_BYTE_PIECES)}
    own = [each for each in model.pieces if each.type in (piece.NORMAL, piece.USER_DEFINED) and each.piece not in kinds]
    pieces = [*(piece(piece=text, type=kind, score=0.0) for text, kind in kinds.items()), *own]
    require(
        len(pieces) <= config.vocabulary_size,
        "TokenizerConfig.vocabulary_size",
        f"at least {len(pieces)} for the pieces of {path}, the special entries, bytes and placeholders",
        config.vocabulary_size,
    )
    del model.pieces[:]
    model.pieces.extend(pieces)
    spec.byte_fallback = True
    spec.pad_id, spec.unk_id, spec.bos_id, spec.eos_id = PAD, UNK, START, END
    spec.pad_piece, spec.unk_piece, spec.bos_piece, spec.eos_piece = (SPECIALS[i] for i in (PAD, UNK, START, END))
    model.normalizer_spec.CopyFrom(NormalizerSpec(name="identity", remove_extra_whitespaces=False))
    return model.SerializeToString() + _RULES.read_bytes()


def _fault(lines: Sequence[str], config: TokenizerConfig, placeholders: bool) -> str:
    """Returns an error message for failed training on normalised ``lines`` that are not blank."""
    if not lines:
        return "lines: expected a line with more than spaces and U+2585, received none. Check the corpus file."
    characters = len(set("".join(lines).replace(" ", _SPACE)))
    symbols = len(SPECIALS) + len(SIGNS) * placeholders
    least = symbols + _BYTE_PIECES + characters
    if config.vocabulary_size < least:
        return (
            f"TokenizerConfig.vocabulary_size: expected at least {least} for a {config.kind} tokenizer of these lines "
            f"({symbols} specials, 256 bytes, {characters} characters), received {config.vocabulary_size}. Raise "
            "the size, or use a word tokenizer."
        )
    return "lines: expected lines that SentencePiece can learn from. Check the corpus file or use a word tokenizer."


def _bytes_of(piece: bytes) -> bytes:
    """Returns the UTF-8 bytes of ``piece``. A byte piece such as <0xF0> gives that byte, a placeholder nothing."""
    if piece.decode("utf-8") in SIGNS:
        return b""
    if len(piece) == 6 and piece.startswith(b"<0x") and piece.endswith(b">"):
        return bytes([int(piece[3:5], 16)])
    return piece
