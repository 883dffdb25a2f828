"""Configuration of the corpus: selection, split and filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nmt_keras.config.checks import require, require_choices, require_positive


@dataclass(frozen=True)
class FilterConfig:
    """Which pairs a prepared corpus leaves out; each reason is counted."""

    max_tokens: int = 80
    """Tokens of a side, END included, at the most; or as many as its text takes, where these are fewer."""
    max_ratio: float | None = None
    """Times that one side may have the other's tokens, END included; None allows any."""
    drop_identical: bool = True
    """Leave out pairs whose sides are the same: nobody has translated them."""
    drop_duplicates: bool = True
    """Keep only one of equal pairs."""

    def __post_init__(self) -> None:
        require(self.max_tokens >= 2, "FilterConfig.max_tokens", "at least 2 (one token and END)", self.max_tokens)
        require(
            self.max_ratio is None or self.max_ratio >= 1.0,
            "FilterConfig.max_ratio",
            "None, or at least 1",
            self.max_ratio,
        )


@dataclass(frozen=True)
class CorpusConfig:
    """What of a corpus a recipe takes, and how it is split."""

    first: int | None = None
    """Pairs from the beginning of the file; None takes all."""
    split: Literal["hashed-groups", "shuffled-groups"] = "hashed-groups"
    """The benchmark's split, or 80 % to train on and 20 % to validate and test on, drawn by target sentence."""
    seed: int = 1
    """Of the draw."""

    def __post_init__(self) -> None:
        if self.first is not None:
            require_positive(self, "first")
        require_choices(self)
        require(self.seed >= 0, "CorpusConfig.seed", "0 or more", self.seed)
