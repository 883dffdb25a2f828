"""Configuration of the corpus: selection, split and filters."""

from dataclasses import dataclass
from typing import Annotated, Literal

from nmt_keras.config.checks import NOT_NEGATIVE, Bound, Count, TokenLimit, require_types


@dataclass(frozen=True)
class PairFilters:
    """Filters of a corpus in memory: of the training set, and of validation and test sets that are split off it.

    Skipped pairs are counted.
    """

    max_ratio: Annotated[float, Bound("at least 1", lambda ratio: ratio >= 1.0)] | None = None
    """Maximum ratio of the longer side to the shorter one, in words and punctuation marks, END included; None for no
    limit. Letters of scripts without spaces are words."""
    drop_identical: bool = False
    """If True, pairs with identical source and target are skipped."""
    drop_duplicates: bool = False
    """If True, a pair that occurs several times is kept once."""

    def __post_init__(self) -> None:
        require_types(self)


@dataclass(frozen=True)
class FilterConfig(PairFilters):
    """Filters that apply when a corpus is prepared. Skipped pairs are counted by reason."""

    max_tokens: TokenLimit = 80
    """Maximum number of tokens per side, END included. A lower limit of the tokenizer takes precedence."""
    drop_identical: bool = True
    drop_duplicates: bool = True


@dataclass(frozen=True)
class CorpusConfig:
    """Selection of pairs from a corpus, and their split into training, validation and test set."""

    first: Count | None = None
    """Number of pairs to take from the beginning of the file; None for all."""
    split: Literal["hashed-groups", "shuffled-groups"] = "hashed-groups"
    """Method of the split. "hashed-groups": the benchmark's split, 94 % training data. "shuffled-groups": a random
    split, 80 % training data. Both keep pairs with the same key sentence in one set. The key sentence is in the left
    column of a TSV file, or in the second of two files."""
    seed: Annotated[int, NOT_NEGATIVE] = 1
    """Seed of the shuffled split."""

    def __post_init__(self) -> None:
        require_types(self)
