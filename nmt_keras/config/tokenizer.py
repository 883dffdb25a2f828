"""Configuration of a tokenizer, and the special token ids."""

from dataclasses import dataclass
from typing import Annotated, Literal

from nmt_keras.config.checks import Bound, TokenLimit, require, require_types

PAD, UNK, START, END = 0, 1, 2, 3
"""Ids of the special tokens: padding, unknown word, first decoder input, last token of a sentence."""


@dataclass(frozen=True)
class TokenizerConfig:
    """Tokenizer of one side of the corpus."""

    kind: Literal["word", "subword", "character"] = "subword"
    """Type of the tokens: "word", "subword" (SentencePiece) or "character"."""
    vocabulary_size: Annotated[int, Bound("more than the 4 special entries", lambda size: size > 4)] = 8000
    """Maximum size of the vocabulary, including the four special entries."""
    lowercase: bool = False
    """If True, words are looked up without case. Word tokenizers only."""
    strip_accents: bool = False
    """If True, words are looked up without the accents of Latin, Greek and Cyrillic letters, as in the TensorFlow
    tutorial. Word tokenizers only."""
    max_tokens: TokenLimit = 80
    """Maximum number of tokens of a sentence, including END. Longer sentences are truncated and marked as such."""

    sentencepiece_model: str = ""
    """Model file of SentencePiece to use, for example one for both sides; "" to learn the subwords from the training
    set. Subword tokenizers only."""

    def __post_init__(self) -> None:
        require_types(self)
        require(
            self.kind == "subword" or not self.sentencepiece_model,
            "TokenizerConfig.sentencepiece_model",
            f"none for {self.kind} tokenizers",
            self.sentencepiece_model,
            "Remove it, or use a subword tokenizer.",
        )
        for name in ("lowercase", "strip_accents"):
            require(
                self.kind == "word" or not getattr(self, name),
                f"TokenizerConfig.{name}",
                f"False for {self.kind} tokenizers",
                getattr(self, name),
                "Only word tokenizers can remove case and accents.",
            )
