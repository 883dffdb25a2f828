"""Configuration of the search for translations."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

from nmt_keras.config.checks import NOT_NEGATIVE, Count, Positive, require, require_types
from nmt_keras.cores import available_cores

BATCHES_AT_ONCE = max(2, min(8, available_cores()))
"""Number of batches translated concurrently. While one batch runs small operations, the others keep the processors
busy."""


@dataclass(frozen=True)
class SearchConfig:
    """Search for a translation: greedy or beam search."""

    beam_size: Count = 1
    """Number of hypotheses per sentence; 1 is greedy search."""
    n_best: int | None = None
    """Number of hypotheses in an n-best list, at most ``beam_size``; None for all."""
    length_normalisation: Literal["plain", "gnmt"] = "plain"
    """Divisor of log-probabilities. "plain": |Y|^alpha. "gnmt": ((5 + |Y|) / 6)^alpha (Wu et al. 2016)."""
    length_alpha: Annotated[float, NOT_NEGATIVE] = 1.0
    """Exponent alpha of the length normalisation. With 0, hypotheses are ranked by log-probability, which favours short
    translations. With 1 and "plain", they are ranked by mean log-probability per token."""
    coverage_beta: Annotated[float, NOT_NEGATIVE] = 0.0
    """Weight of the coverage penalty for omitted source words (Wu et al. 2016, equation 14); 0 for no penalty."""
    min_tokens: Count = 1
    """Minimum number of tokens of a translation, including END."""
    max_tokens: Count = 80
    """Maximum number of tokens of a translation, including END."""
    unk_allowed: bool = True
    """If True, a translation may contain the token UNK."""
    no_repeat_ngram_size: Annotated[int, NOT_NEGATIVE] = 0
    """Number of tokens of the n-grams that may occur only once in a translation; 0 for no limit."""
    repetition_penalty: Positive = 1.0
    """Factor of the log-probabilities of tokens that the translation already contains. Above 1, repetition is less
    probable; 1 for no penalty. The score of a greedy or beam search includes it."""
    replaces_unknown: bool = False
    """If True, replaces each UNK by a translation of the source word that it attends to most (Luong et al. 2015). The
    lexicon gives the translation. A source word that is not in the lexicon is copied."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Type of the inputs and results of products with weight matrices in the search. All other values are float32.
    "bfloat16" is faster for large batches on a CPU that supports it (AVX512-BF16, AMX)."""

    def __post_init__(self) -> None:
        require_types(self)
        require(
            self.min_tokens <= self.max_tokens,
            "SearchConfig.min_tokens",
            f"at most max_tokens ({self.max_tokens})",
            self.min_tokens,
        )
        require(
            self.n_best is None or 1 <= self.n_best <= self.beam_size,
            "SearchConfig.n_best",
            f"None, or 1 to beam_size ({self.beam_size})",
            self.n_best,
        )

    @property
    def greedy(self) -> Self:
        """The greedy search with the same other options."""
        return replace(self, beam_size=1, n_best=None)

    def __str__(self) -> str:
        """Returns a description for reports. The length normalisation of a greedy search only changes its scores."""
        if self.beam_size == 1:
            parts = ["greedy"]
        else:
            parts = [f"beam {self.beam_size}", f"{self.length_normalisation} length {self.length_alpha}"]
            parts += [f"coverage {self.coverage_beta}"] * (self.coverage_beta > 0.0)
        parts += [f"no repeated {self.no_repeat_ngram_size}-grams"] * (self.no_repeat_ngram_size > 0)
        parts += [f"repetition penalty {self.repetition_penalty}"] * (self.repetition_penalty != 1.0)
        parts += ["unknown words replaced"] * self.replaces_unknown
        parts += [self.precision] * (self.precision != "float32")
        others = ("n_best", "min_tokens", "max_tokens", "unk_allowed")
        changed = {name: getattr(self, name) for name in others if getattr(self, name) != getattr(SearchConfig, name)}
        return ", ".join([*parts, *(f"{name.replace('_', ' ')} {value}" for name, value in changed.items())])
