"""Configuration of a tokenizer, and the special token ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nmt_keras.config.checks import require, require_choices

PAD, UNK, START, END = 0, 1, 2, 3
"""The special ids of every vocabulary: padding, unknown word, the decoder's first input, a sentence's last token."""


@dataclass(frozen=True)
class TokenizerConfig:
    """How strings become ids, for one side of the corpus."""

    kind: Literal["word", "subword", "character"] = "subword"
    """What a token is: a word, a piece that SentencePiece learns from the corpus, or a character."""
    vocabulary_size: int = 8000
    """Entries of the vocabulary, the four special ones included; a smaller corpus gives a smaller vocabulary."""
    lowercase: bool = False
    """Word texts only: fold case before looking words up. Subwords and characters are cased."""
    strip_accents: bool = False
    """Word texts only: drop combining marks before looking words up (the tutorial's rule)."""
    max_tokens: int = 80
    """Tokens of one sentence, END included; longer input is cut there and reported as truncated."""

    def __post_init__(self) -> None:
        require_choices(self)
        require(
            self.vocabulary_size > 4,
            "TokenizerConfig.vocabulary_size",
            "more than the 4 special entries",
            self.vocabulary_size,
        )
        require(self.max_tokens >= 2, "TokenizerConfig.max_tokens", "at least 2 (one token and END)", self.max_tokens)
        if self.kind != "word":
            cased = f"False for {self.kind} texts, which keep case and accents"
            require(not self.lowercase, "TokenizerConfig.lowercase", cased, self.lowercase)
            require(not self.strip_accents, "TokenizerConfig.strip_accents", cased, self.strip_accents)
