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
    """How a translation is searched for."""

    max_tokens: int = 80
    """Tokens of a translation, END included, at the most."""
    temperature: float = 0.0
    """0 takes the most probable token; above, tokens are drawn from softmax(logits / temperature)."""
    seed: int = 1
    """Of the draws."""

    def __post_init__(self) -> None:
        require(self.max_tokens >= 1, "SearchConfig.max_tokens", "at least 1", self.max_tokens)
        require(self.temperature >= 0.0, "SearchConfig.temperature", "0 or more", self.temperature)


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
