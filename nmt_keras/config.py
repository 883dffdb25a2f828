"""What a recipe declares: frozen dataclasses, checked when they are built, stored with a run as JSON."""

from __future__ import annotations

import dataclasses
import json
import typing
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, TypeVar

PAD, UNK, START, END = 0, 1, 2, 3
"""The special ids of every vocabulary: padding, unknown word, the decoder's first input, a sentence's last token."""

Record = TypeVar("Record")


def require(ok: bool, where: str, expected: str, received: object) -> None:
    """Raises ValueError in the project's one form unless ``ok``: the field, what was expected, what came."""
    if not ok:
        raise ValueError(f"{where}: expected {expected}, received {received!r}.")


def require_choice(where: str, choices: typing.Sequence[str], received: str) -> None:
    """Raises ValueError unless ``received`` is one of ``choices``; names the nearest."""
    if received not in choices:
        nearest = get_close_matches(str(received), choices, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise ValueError(f"{where}: expected one of {', '.join(choices)}; received {received!r}.{hint}")


@dataclass(frozen=True)
class TextConfig:
    """How strings become ids, for one side of the corpus."""

    kind: Literal["word", "subword"] = "subword"
    vocabulary_size: int = 8000
    """Entries of the vocabulary, the four special ones included; a smaller corpus gives a smaller vocabulary."""
    lowercase: bool = False
    """Word texts only: fold case before looking words up. Subword texts are cased."""
    strip_accents: bool = False
    """Word texts only: drop combining marks before looking words up (the tutorial's rule)."""
    max_tokens: int = 80
    """Tokens of one sentence, END included; longer input is cut there and reported as truncated."""

    def __post_init__(self) -> None:
        require_choice("TextConfig.kind", ("word", "subword"), self.kind)
        require(
            self.vocabulary_size > 4,
            "TextConfig.vocabulary_size",
            "more than the 4 special entries",
            self.vocabulary_size,
        )
        require(self.max_tokens >= 2, "TextConfig.max_tokens", "at least 2 (one token and END)", self.max_tokens)
        if self.kind == "subword":
            require(
                not self.lowercase, "TextConfig.lowercase", "False for subword texts, which are cased", self.lowercase
            )
            require(not self.strip_accents, "TextConfig.strip_accents", "False for subword texts", self.strip_accents)


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of an encoder with attention and its decoder."""

    embedding_size: int = 256
    encoder_units: int = 256
    """Units of each direction; the annotations are twice as wide."""
    decoder_units: int = 512
    attention_units: int = 512
    readout_units: int = 256
    """Maxout units, l in Bahdanau et al.; the layer below the softmax."""
    readout_state: Literal["previous", "current"] = "previous"
    """Which decoder state the readout sees: s_{i-1}, as in the paper's appendix, or s_i, as in its main text."""
    residual: bool = False
    """Add a linear view of each source word's embedding to its annotation."""
    dropout: float = 0.2

    def __post_init__(self) -> None:
        for name in ("embedding_size", "encoder_units", "decoder_units", "attention_units", "readout_units"):
            require(getattr(self, name) >= 1, f"ModelConfig.{name}", "a positive number", getattr(self, name))
        require_choice("ModelConfig.readout_state", ("previous", "current"), self.readout_state)
        require(0.0 <= self.dropout < 1.0, "ModelConfig.dropout", "a probability in [0, 1)", self.dropout)


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained."""

    steps: int | None = None
    """Updates to make; None when ``minutes`` says how long."""
    minutes: float | None = 10.0
    """Training time, compilation and validation included; becomes a number of steps once, before the first update."""
    batch_size: int = 64
    """Sentence pairs of one update."""
    shapes: int = 8
    """Static batch shapes at the most; each is compiled once."""
    max_tokens: int = 40
    """Pairs with a side of more tokens, END included, are left out of training, and counted."""
    pool_size: int = 16384
    """Pairs that are permuted, sorted by length and cut into batches together."""
    learning_rate: float = 2e-3
    """Adam's peak rate."""
    warmup_steps: int = 200
    """Steps over which the rate grows linearly from 0 to its peak."""
    decay: Literal["constant", "cosine", "linear"] = "cosine"
    """How the rate goes on after warming up; all but "constant" reach 0 at the last step."""
    beta_2: float = 0.98
    """Adam's decay of the second moment."""
    clip_norm: float = 1.0
    """Gradients whose global L2 norm exceeds this are scaled down to it."""
    label_smoothing: float = 0.1
    denominator: Literal["tokens", "sentences"] = "tokens"
    """What the summed loss and its gradient are divided by."""
    validations: int = 4
    """Validations in a run, evenly spaced: the loss of ``valid``, the BLEU of a sample of it, a checkpoint."""
    validation_sentences: int = 500
    """Sentences of the BLEU sample."""
    patience: int = 4
    """Validations without a better loss after which training stops early."""
    log_every: int = 50
    """Steps between two rows of the log."""
    seed: int = 1
    xla: bool = True
    """Compile forward and backward pass with XLA."""

    def __post_init__(self) -> None:
        require(
            (self.steps is None) != (self.minutes is None),
            "TrainConfig.steps, TrainConfig.minutes",
            "exactly one of them",
            (self.steps, self.minutes),
        )
        for name in (
            "steps",
            "minutes",
            "batch_size",
            "shapes",
            "pool_size",
            "learning_rate",
            "clip_norm",
            "validations",
        ):
            value = getattr(self, name)
            require(value is None or value > 0, f"TrainConfig.{name}", "a positive number", value)
        for name in ("patience", "log_every", "validation_sentences"):
            require(getattr(self, name) >= 1, f"TrainConfig.{name}", "at least 1", getattr(self, name))
        require(self.max_tokens >= 2, "TrainConfig.max_tokens", "at least 2 (one token and END)", self.max_tokens)
        require(self.warmup_steps >= 0, "TrainConfig.warmup_steps", "0 or more", self.warmup_steps)
        require(0.0 <= self.beta_2 < 1.0, "TrainConfig.beta_2", "a decay in [0, 1)", self.beta_2)
        require(
            0.0 <= self.label_smoothing < 1.0, "TrainConfig.label_smoothing", "a share in [0, 1)", self.label_smoothing
        )
        require_choice("TrainConfig.decay", ("constant", "cosine", "linear"), self.decay)
        require_choice("TrainConfig.denominator", ("tokens", "sentences"), self.denominator)


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
    temperature: float = 0.0
    """0 takes the most probable token; above, tokens are drawn from softmax(logits / temperature)."""
    top_k: int | None = None
    """Draw among this many most probable tokens only; None for all."""
    top_p: float = 1.0
    """Draw among the fewest most probable tokens whose probabilities sum to this only; 1 for all."""
    seed: int = 1
    """Of the draws."""

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
        require_choice("SearchConfig.length_normalisation", ("plain", "gnmt"), self.length_normalisation)
        for name in ("length_alpha", "coverage_beta", "temperature"):
            require(getattr(self, name) >= 0.0, f"SearchConfig.{name}", "0 or more", getattr(self, name))
        require(self.top_k is None or self.top_k >= 1, "SearchConfig.top_k", "None, or a positive number", self.top_k)
        require(0.0 < self.top_p <= 1.0, "SearchConfig.top_p", "a probability in (0, 1]", self.top_p)
        if self.temperature > 0.0:
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
            among = [f"top {self.top_k}"] * (self.top_k is not None) + [f"nucleus {self.top_p}"] * (self.top_p < 1.0)
            return ", ".join(["sampling", f"temperature {self.temperature}", *among])
        if self.beam_size == 1:
            return "greedy"
        coverage = f", coverage {self.coverage_beta}" if self.coverage_beta else ""
        return f"beam {self.beam_size}, {self.length_normalisation} length {self.length_alpha}{coverage}"


@dataclass(frozen=True)
class Recipe:
    """A system: everything that makes a run, except the corpus and the time."""

    name: str
    source: TextConfig = field(default_factory=TextConfig)
    target: TextConfig = field(default_factory=TextConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    search: SearchConfig = field(default_factory=SearchConfig)

    def to_json(self) -> str:
        """The recipe as a JSON object, one key per field."""
        return json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str = "recipe") -> Recipe:
        """The inverse of ``to_json``. Raises ValueError naming ``where`` and the unknown or missing field."""
        try:
            return _record(cls, json.loads(text))
        except (TypeError, json.JSONDecodeError) as error:
            raise ValueError(
                f"{where}: expected a recipe as JSON with the fields of {cls.__name__}; {error}."
            ) from error


def _record(kind: type[Record], fields: dict[str, Any]) -> Record:
    """``kind`` with ``fields``, where nested objects become the dataclasses that its annotations name."""
    if not isinstance(fields, dict):
        raise TypeError(f"{kind.__name__} is an object, received {fields!r:.40}")
    hints = typing.get_type_hints(kind)
    nested = {k: _record(hints[k], v) if dataclasses.is_dataclass(hints.get(k)) else v for k, v in fields.items()}
    return kind(**nested)
