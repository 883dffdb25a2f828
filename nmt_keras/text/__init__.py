"""Tokenizers: convert strings to token ids and back, in the graph. Their interface is ``Tokenizer``.

Only this subpackage imports ``tensorflow_text``.
"""

from collections.abc import Iterable
from pathlib import Path

from nmt_keras.config import END, PAD, START, UNK, TokenizerConfig
from nmt_keras.text.codec import Codec, Source
from nmt_keras.text.normalisation import normalise_lines
from nmt_keras.text.subword import SubwordTokenizer
from nmt_keras.text.tokens import Tokenizer, Tokens, read_config
from nmt_keras.text.word import WordTokenizer

__all__ = [
    "END",
    "PAD",
    "START",
    "UNK",
    "Codec",
    "Source",
    "SubwordTokenizer",
    "Tokenizer",
    "Tokens",
    "WordTokenizer",
    "fit_tokenizer",
    "load_tokenizer",
    "normalise_lines",
    "read_config",
]

_KINDS: dict[str, type[WordTokenizer] | type[SubwordTokenizer]] = {
    "word": WordTokenizer,
    "subword": SubwordTokenizer,
    "character": SubwordTokenizer,
}


def fit_tokenizer(
    config: TokenizerConfig, lines: Iterable[str], placeholders: bool = False, count: int | None = None
) -> Tokenizer:
    """Returns a tokenizer of ``config.kind`` with a vocabulary learnt from ``lines``, one side of the training set.

    With ``placeholders``, the vocabulary has placeholders for words to copy. Word tokenizers never have any. Which
    words are copied depends on the pairs, too; see ``Codec.learn_copying``.

    Word tokenizers learn from all lines, other tokenizers from at most two million: evenly spaced ones if ``lines`` is
    a list or ``count`` is their number, else the first ones.

    Raises:
        ValueError: ``lines`` contain no text, or ``config.vocabulary_size`` is too small.
    """
    return _KINDS[config.kind].fit(lines, config, placeholders, count)


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Returns the tokenizer that ``Tokenizer.save`` wrote into ``folder``.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is damaged.
    """
    return _KINDS[read_config(folder).kind].load(folder)
