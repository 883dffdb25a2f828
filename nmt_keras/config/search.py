"""Configuration of the search for translations."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from nmt_keras.config.checks import require, require_choices

BATCHES_AT_ONCE = max(2, min(8, os.cpu_count() or 2))
"""Batches that are translated side by side: where one waits for a small operation, the others have the processors."""

MAX_SHORTLIST = 100
"""Target tokens that are known of each source token at the most: see ``SearchConfig.shortlist``."""


@dataclass(frozen=True)
class SearchConfig:
    """How a translation is searched for: greedily, by beam search, or by drawing tokens."""

    beam_size: int = 1
    """Hypotheses that are kept of a sentence; 1 takes the most probable token at every step."""
    n_best: int | None = None
    """Hypotheses that an n-best list holds, ``beam_size`` at the most; None for all of them."""
    length_normalisation: Literal["plain", "gnmt"] = "plain"
    """What log-probabilities are divided by: |Y|^alpha, or ((5 + |Y|) / 6)^alpha (Wu et al. 2016)."""
    length_alpha: float = 1.0
    """0 does not normalise and favours short translations; plain and 1 ranks by the mean of a token."""
    coverage_beta: float = 0.0
    """Weight of the coverage penalty (Wu et al. 2016, equation 14), against words that are left out; 0 has none."""
    min_tokens: int = 1
    """Tokens of a translation, END included, at the least."""
    max_tokens: int = 80
    """Tokens of a translation, END included, at the most."""
    unk_allowed: bool = True
    """Whether a translation may contain the unknown word."""
    replaces_unknown: bool = False
    """Write, in place of the unknown word, what the run's lexicon has for the source word that it looked at most, or
    that word itself (Luong et al. 2015)."""
    temperature: float = 0.0
    """0 takes the most probable token; above, tokens are drawn from softmax(logits / temperature)."""
    top_k: int | None = None
    """Draw among this many most probable tokens only; None for all."""
    top_p: float = 1.0
    """Draw among the fewest most probable tokens whose probabilities sum to this only; 1 for all."""
    seed: int = 1
    """Of the draws."""
    shortlist: int = 0
    """How many target tokens each token of the source brings into the softmax, beside the thousand most frequent ones
    (Jean et al. 2015, section 3.3): faster, and nearly the same translations. 0 lets the whole vocabulary compete."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """What each step's products with the model's matrices are computed in: their factors and results are rounded to it,
    all else is float32. bfloat16 is faster for many sentences at a time on a CPU that has it (AVX512-BF16, AMX)."""

    def __post_init__(self) -> None:
        for name in ("beam_size", "min_tokens", "max_tokens"):
            require(getattr(self, name) >= 1, f"SearchConfig.{name}", "at least 1", getattr(self, name))
        require(
            self.min_tokens <= self.max_tokens,
            "SearchConfig.min_tokens",
            f"max_tokens ({self.max_tokens}) at the most",
            self.min_tokens,
        )
        require(
            self.n_best is None or 1 <= self.n_best <= self.beam_size,
            "SearchConfig.n_best",
            f"None, or 1 to beam_size ({self.beam_size})",
            self.n_best,
        )
        require_choices(self)
        for name in ("length_alpha", "coverage_beta", "temperature"):
            require(getattr(self, name) >= 0.0, f"SearchConfig.{name}", "0 or more", getattr(self, name))
        require(
            self.temperature == 0.0 or self.temperature >= 1e-6,
            "SearchConfig.temperature",
            "0, which draws nothing, or at least 0.000001, below which logits overflow",
            self.temperature,
        )
        require(self.top_k is None or self.top_k >= 1, "SearchConfig.top_k", "None, or a positive number", self.top_k)
        require(0.0 < self.top_p <= 1.0, "SearchConfig.top_p", "a probability in (0, 1]", self.top_p)
        require(
            0 <= self.shortlist <= MAX_SHORTLIST,
            "SearchConfig.shortlist",
            f"0 for none, or {MAX_SHORTLIST} at the most",
            self.shortlist,
        )
        if self.temperature > 0.0:
            require(
                self.shortlist == 0,
                "SearchConfig.shortlist",
                "0 where temperature draws tokens, all of which may come (temperature 0 searches)",
                self.shortlist,
            )
            require(
                self.beam_size == 1,
                "SearchConfig.beam_size",
                "1 where temperature draws tokens (temperature 0 searches with a beam)",
                self.beam_size,
            )
        else:
            require(
                self.top_k is None and self.top_p == 1.0,
                "SearchConfig.top_k, SearchConfig.top_p",
                "None and 1.0 where temperature 0 draws nothing (temperature 1.0 draws)",
                (self.top_k, self.top_p),
            )

    def __str__(self) -> str:
        """The search in a few words, as reports name it."""
        if self.temperature > 0.0:
            parts = ["sampling", f"temperature {self.temperature}"]
            parts += [f"top {self.top_k}"] * (self.top_k is not None) + [f"nucleus {self.top_p}"] * (self.top_p < 1.0)
        elif self.beam_size == 1:
            parts = ["greedy"]
        else:
            parts = [f"beam {self.beam_size}", f"{self.length_normalisation} length {self.length_alpha}"]
            parts += [f"coverage {self.coverage_beta}"] * (self.coverage_beta > 0.0)
        parts += ["unknown words replaced"] * self.replaces_unknown
        parts += [f"shortlist {self.shortlist}"] * (self.shortlist > 0)
        parts += [self.precision] * (self.precision != "float32")
        return ", ".join(parts)
