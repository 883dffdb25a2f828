"""Configuration of the corpus: selection, split and filters."""

from dataclasses import dataclass
from typing import Literal

from nmt_keras.config.checks import require, require_each, require_positive, require_types


@dataclass(frozen=True)
class PairFilters:
    """Filters of a corpus in memory: of the training set, and of validation and test sets that are split off it.

    Skipped pairs are counted.
    """

    max_ratio: float | None = None
    """Maximum ratio of the longer side to the shorter one, in words and punctuation marks, END included; None for no
    limit. Letters of scripts without spaces are words."""
    drop_identical: bool = False
    """If True, pairs with identical source and target are skipped."""
    drop_duplicates: bool = False
    """If True, a pair that occurs several times is kept once."""

    def __post_init__(self) -> None:
        require_types(self)
        require_each(self, lambda ratio: ratio is None or ratio >= 1.0, "None, or at least 1", "max_ratio")


@dataclass(frozen=True)
class FilterConfig(PairFilters):
    """Filters that apply when a corpus is prepared. Skipped pairs are counted by reason."""

    max_tokens: int = 80
    """Maximum number of tokens per side, END included. A lower limit of the tokenizer takes precedence."""
    drop_identical: bool = True
    drop_duplicates: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.max_tokens >= 2, "FilterConfig.max_tokens", "at least 2 (one token and END)", self.max_tokens)


@dataclass(frozen=True)
class CorpusConfig:
    """Selection of pairs from a corpus, and their split into training, validation and test set."""

    first: int | None = None
    """Number of pairs to take from the beginning of the file; None for all."""
    split: Literal["hashed-groups", "shuffled-groups"] = "hashed-groups"
    """Method of the split. "hashed-groups": the benchmark's split, 94 % training data. "shuffled-groups": a random
    split, 80 % training data. Both keep pairs with the same key sentence in one set. The key sentence is in the left
    column of a TSV file, or in the second of two files."""
    seed: int = 1
    """Seed of the shuffled split."""

    def __post_init__(self) -> None:
        require_types(self)
        if self.first is not None:
            require_positive(self, "first")
        require(self.seed >= 0, "CorpusConfig.seed", "0 or more", self.seed)
