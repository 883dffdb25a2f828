"""Interface, special entries, operations and files that all tokenizers share.

The operations are those of ``tf.strings`` and of ragged tensors. They give the same results eagerly, in a
``tf.function`` and in a SavedModel. The folder of a tokenizer has ``text.json``, with its configuration and checksums,
and the vocabulary files.
"""

import dataclasses
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from nmt_keras.config import END, PAD, START, TokenizerConfig, require
from nmt_keras.io.files import make_folder, read_json, write_whole, writing
from nmt_keras.text.normalisation import Normalised, normalise
from nmt_keras.text.placeholders import KnownWords

RECORD_FILE = "text.json"
_NEXT_STEP = "Restore the folder from a copy. A newly fitted tokenizer needs a newly trained model."

SPECIALS = ("<pad>", "<unk>", "<start>", "<end>")
"""Special entries, as written in a vocabulary file. Text such as "<end>" is not encoded as the special entry."""

SPECIAL_SURFACES = ("", "⁇", "", "")
"""Special entries in surfaces and decoded text. UNK is one character, because scorers split <unk> into three words."""


class Tokens(NamedTuple):
    """A batch of encoded sentences, padded with PAD to the length S of the longest. An empty batch has S = 0."""

    ids: tf.Tensor  # [B,S] int32, every row ends in END
    surface: tf.Tensor  # [B,S] string, tokens as written by the user; "" at END and PAD
    lengths: tf.Tensor  # [B] int32 tokens, END included
    truncated: tf.Tensor  # [B] bool, True if the limit of tokens or bytes truncated the sentence
    text: tf.Tensor  # [B] string, the normalised sentence


class Tokenizer(tf.Module, ABC):
    """Base class of tokenizers. Converts strings of one side of the corpus to ids and back, in the graph."""

    config: TokenizerConfig
    vocabulary_size: int
    """V: number of vocabulary entries, the four special ones included."""
    known_words: KnownWords | None = None
    """Words that are not copied; see ``Codec.learn_copying``. ``None`` if the vocabulary has no placeholders."""
    first_placeholder: int = 0
    """Id of the first placeholder. The others follow. Valid only with ``known_words``."""

    def encode(self, text: tf.Tensor) -> Tokens:
        """Encodes sentences. Each sentence ends in END. Invalid UTF-8 becomes U+FFFD and does not raise.

        Args:
            text: [B] string. Sentences. For an empty batch, the ids have the shape [0, 0].
        """
        return self.encode_normalised(normalise(text, self.config.max_tokens))

    @abstractmethod
    def encode_normalised(self, sentences: Normalised) -> Tokens:
        """Encodes normalised sentences; see ``encode``."""

    @abstractmethod
    def decode(
        self, ids: tf.Tensor, lengths: tf.Tensor | None = None, replacements: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Decodes ids to sentences.

        Args:
            ids: [B, T] int32.
            lengths: [B] int32. Maximum number of tokens to decode. Decoding also ends at the first END.
            replacements: [B, T] string. Words to write instead of tokens; "" keeps the token.

        Returns:
            [B] string.
        """

    @abstractmethod
    def surfaces(self, ids: tf.Tensor, replacements: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the surface of each token: "" for PAD, START, END and placeholders, "⁇" for UNK.

        Args:
            ids: [B, T] int32.
            replacements: [B, T] string. As in ``decode``.

        Returns:
            [B, T] string.
        """

    @abstractmethod
    def save(self, folder: str | Path) -> None:
        """Writes the vocabulary and ``text.json`` into ``folder``, created if missing."""


def decoder_inputs(ids: tf.Tensor) -> tf.Tensor:
    """Returns the tokens that a decoder reads in order to predict ``ids`` [B, T]: START, then all but the last."""
    return tf.pad(ids[:, :-1], [[0, 0], [1, 0]], constant_values=START)


def cut(tokens: tf.RaggedTensor, end: int | str, max_tokens: int) -> tf.RaggedTensor:
    """Truncates each sentence to ``max_tokens - 1`` tokens and appends ``end``. ``tokens`` has the shape [B, (S)]."""
    ends = tf.fill([tokens.nrows(), 1], end)
    return tf.concat([tokens[:, : max_tokens - 1], ends], axis=1)


def replaced(shown: tf.Tensor, replacements: tf.Tensor | None, before: str = "") -> tf.Tensor:
    """Returns ``before + replacements`` where ``replacements`` is not "", else ``shown``.

    Args:
        shown: [B, T] string. Surface of each token.
        replacements: [B, T] string; ``None`` for no replacements.
        before: Prefix of a replacement.
    """
    if replacements is None:
        return shown
    return tf.where(tf.equal(replacements, ""), shown, before + replacements)


def spell(
    ids: tf.Tensor, lengths: tf.Tensor | None, spelling: tf.Tensor, replacements: tf.Tensor | None, before: str = ""
) -> tf.Tensor:
    """Joins ``spelling[id]`` of each token before the first END and removes one leading space.

    Args:
        ids: [B, T] int. PAD and START are skipped.
        lengths: [B] int. Number of tokens to decode; ``None`` for all T.
        spelling: [V] string. Text of each entry, with the space that precedes it, if any.
        replacements: [B, T] string. Words to write instead of tokens; ``None`` for no replacements.
        before: Prefix of a replacement.

    Returns:
        [B] string.
    """
    before_end = tf.cumsum(tf.cast(tf.equal(ids, END), tf.int32), axis=1) == 0  # [B,T]
    spelt = before_end & tf.not_equal(ids, PAD) & tf.not_equal(ids, START)
    if lengths is not None:
        spelt &= tf.sequence_mask(lengths, tf.shape(ids)[1])
    joined = tf.strings.reduce_join(
        tf.where(spelt, replaced(tf.gather(spelling, ids), replacements, before), ""), axis=1
    )  # [B]
    return tf.strings.regex_replace(joined, "^ ", "")


def write_record(folder: Path, config: TokenizerConfig, files: Mapping[str, bytes]) -> None:
    """Writes ``files``, by name, into ``folder``, and then ``text.json`` with ``config`` and their checksums."""
    with writing(folder):
        make_folder(folder)
    for name, content in files.items():
        write_whole(folder / name, content)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    record = {"config": dataclasses.asdict(config), "sha256": sums}
    write_whole(folder / RECORD_FILE, json.dumps(record, indent=2) + "\n")


def read_config(folder: str | Path) -> TokenizerConfig:
    """Returns the configuration of the tokenizer in ``folder``.

    Raises:
        FileNotFoundError: ``text.json`` is missing.
        ValueError: ``text.json`` is damaged.
    """
    return _read_record(Path(folder))[0]


def read_files(
    folder: str | Path, kinds: Sequence[str], vocabulary_file: str
) -> tuple[TokenizerConfig, dict[str, bytes]]:
    """Returns the configuration and the files of the tokenizer in ``folder``, after verifying the checksums.

    Raises:
        FileNotFoundError: ``text.json`` or another file is missing.
        ValueError: a file is damaged, or the kind of the tokenizer is not in ``kinds``.
    """
    config, sums = _read_record(Path(folder))
    where, hint = str(Path(folder) / RECORD_FILE), "Load it with load_tokenizer(folder)."
    require(config.kind in kinds, where, f"a {' or '.join(kinds)} tokenizer", config.kind, hint)
    files = {name: _existing(Path(folder) / name).read_bytes() for name in {vocabulary_file, *sums}}
    for name, content in files.items():
        received = f"{hashlib.sha256(content).hexdigest()} ({len(content)} bytes)"
        wanted = f"sha256 {sums.get(name)}, as recorded in {RECORD_FILE}"
        require(received.split()[0] == sums.get(name), str(Path(folder) / name), wanted, received, _NEXT_STEP)
    return config, files


def _read_record(folder: Path) -> tuple[TokenizerConfig, dict[str, str]]:
    """Returns the configuration in ``text.json``, and the checksums of the other files."""
    record = dict(read_json(_existing(folder / RECORD_FILE)))  # whose missing fields are named below, once
    try:
        return TokenizerConfig(**record["config"]), dict(record["sha256"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{folder / RECORD_FILE}: expected the fields of a TokenizerConfig under 'config', and checksums under "
            f"'sha256' ({error}). {_NEXT_STEP}"
        ) from error


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: expected a file of a saved tokenizer, received none. {_NEXT_STEP}")
    return path
