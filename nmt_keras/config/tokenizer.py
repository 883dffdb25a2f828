"""Configuration of a tokenizer, and the special token ids."""

from dataclasses import dataclass
from typing import Literal

from nmt_keras.config.checks import require, require_types

PAD, UNK, START, END = 0, 1, 2, 3
"""Ids of the special tokens: padding, unknown word, first decoder input, last token of a sentence."""


@dataclass(frozen=True)
class TokenizerConfig:
    """Tokenizer of one side of the corpus."""

    kind: Literal["word", "subword", "character"] = "subword"
    """Type of the tokens: "word", "subword" (SentencePiece) or "character"."""
    vocabulary_size: int = 8000
    """Maximum size of the vocabulary, including the four special entries."""
    lowercase: bool = False
    """If True, words are looked up without case. Word tokenizers only."""
    strip_accents: bool = False
    """If True, words are looked up without the accents of Latin, Greek and Cyrillic letters, as in the TensorFlow
    tutorial. Word tokenizers only."""
    max_tokens: int = 80
    """Maximum number of tokens of a sentence, including END. Longer sentences are truncated and marked as such."""

    sentencepiece_model: str = ""
    """Model file of SentencePiece to use, for example one for both sides; "" to learn the subwords from the training
    set. Subword tokenizers only."""

    def __post_init__(self) -> None:
        require_types(self)
        require(
            self.vocabulary_size > 4,
            "TokenizerConfig.vocabulary_size",
            "more than the 4 special entries",
            self.vocabulary_size,
        )
        require(self.max_tokens >= 2, "TokenizerConfig.max_tokens", "at least 2 (one token and END)", self.max_tokens)
        if self.kind != "subword":
            require(
                not self.sentencepiece_model,
                "TokenizerConfig.sentencepiece_model",
                f"none for {self.kind} tokenizers",
                self.sentencepiece_model,
                "Remove it, or use a subword tokenizer.",
            )
        if self.kind != "word":
            cased, hint = f"False for {self.kind} tokenizers", "Only word tokenizers can remove case and accents."
            require(not self.lowercase, "TokenizerConfig.lowercase", cased, self.lowercase, hint)
            require(not self.strip_accents, "TokenizerConfig.strip_accents", cased, self.strip_accents, hint)
