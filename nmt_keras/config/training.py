"""Configuration of training, and options of a run that do not change its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nmt_keras.config.checks import require, require_choices


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained."""

    steps: int | None = None
    """Updates to make. How long to train is said by exactly one of steps, epochs and minutes."""
    epochs: float | None = None
    """Times that every training pair is seen."""
    minutes: float | None = 10.0
    """Training time, compilation and validation included; becomes a number of steps, which is
    guessed before the first update and settled after a twentieth of them."""
    batch_size: int = 64
    """Sentence pairs of one batch; not read where ``batch_tokens`` is given."""
    batch_tokens: int | None = None
    """Target positions of one batch, padding included: each shape has as many rows as they hold."""
    gradient_accumulation_steps: int = 1
    """Batches whose gradients are added for one update."""
    length_buckets: int = 8
    """Static batch shapes at the most; each is compiled once."""
    max_tokens: int = 40
    """Pairs with a side of more tokens, END included, or of more than its text takes, are left out of training, and
    counted."""
    pool_size: int = 16384
    """Pairs that are permuted, sorted by length and cut into batches together."""
    optimizer: Literal["adam", "adamw", "adadelta", "sgd"] = "adam"
    """What turns gradients into updates."""
    learning_rate: float = 2e-3
    """The peak rate."""
    warmup_steps: int = 200
    """Steps over which the rate grows linearly from 0 to its peak."""
    decay: Literal["constant", "cosine", "linear", "inverse-sqrt", "halving", "plateau"] = "cosine"
    """How the rate goes on after warming up; "cosine" and "linear" reach 0 at the last step."""
    plateau_factor: float = 0.5
    """Plateau only: what the rate is multiplied with after each validation without a better loss."""
    halve_from: float = 0.5
    """Halving only: the share of the run after which the rate is halved for the first time."""
    halve_every: float = 0.1
    """Halving only: the share of the run between two halvings."""
    beta_2: float = 0.98
    """Adam's decay of the second moment."""
    rho: float = 0.95
    """Adadelta's decay of both its averages."""
    epsilon: float = 1e-8
    """What Adam and Adadelta add below the fraction."""
    weight_decay: float = 0.01
    """AdamW only: the share of a weight, times the rate, that an update takes away."""
    ema_decay: float | None = None
    """Decay of a moving average of the weights, which then is validated and kept as the best; None keeps none."""
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """What the model computes in; weights stay float32. bfloat16 compiled by XLA for a CPU rounds the factors of
    products with weight matrices and nothing else; elsewhere activations are bfloat16, too. float16 scales the loss."""
    clip_norm: float | None = 1.0
    """Gradients whose global L2 norm exceeds this are scaled down to it; None leaves them."""
    label_smoothing: float = 0.1
    """The share of probability that is asked for all entries of the vocabulary alike rather than for the right one."""
    segmentation_alpha: float | None = None
    """Subword texts only: cut every sentence anew in each epoch, with probabilities in proportion to P(pieces)^alpha
    (Kudo 2018); None takes the most probable pieces."""
    segmentations: int = 16
    """Of a sentence's segmentations, how many of the most probable are drawn from."""
    guided_weight: float = 1.0
    """Weight of the alignment loss, where word alignments of the training pairs are given."""
    sampling_from: float = 0.0
    """Scheduled sampling: the probability, at the first step, that the decoder reads a token of its own rather than the
    reference's. 0 at both ends is teacher forcing, 1 at both ends free running."""
    sampling_to: float = 0.0
    """The same at the last step; between them, a line."""
    denominator: Literal["tokens", "sentences"] = "tokens"
    """What the summed loss and its gradient are divided by."""
    validations: int = 8
    """Validations in a run, evenly spaced: the loss of ``valid``, the BLEU of a sample of it, a checkpoint."""
    validation_sentences: int = 500
    """Sentences of the BLEU sample."""
    checkpoint_every: int = 500
    """Steps between two checkpoints; each validation and each interruption writes one as well."""
    max_to_keep: int = 2
    """Last checkpoints that are kept, to go back to or to average."""
    max_skipped: int = 10
    """Updates in a row without a finite loss and gradient, which are skipped, after which training stops; it looks
    every so many updates."""
    patience: int = 3
    """Validations without a better loss after which training stops early."""
    log_every: int = 50
    """Steps between two rows of the log."""
    seed: int = 1
    """Of the first weights, of the order of the corpus, and of dropout."""
    xla: bool | None = None
    """Compile forward and backward pass with XLA; None does on a CPU, while a GPU gets a plain graph with cuDNN."""

    def __post_init__(self) -> None:
        require(
            [self.steps, self.epochs, self.minutes].count(None) == 2,
            "TrainConfig.steps, TrainConfig.epochs, TrainConfig.minutes",
            "exactly one of them",
            (self.steps, self.epochs, self.minutes),
        )
        for name in (
            "steps",
            "epochs",
            "minutes",
            "halve_every",
            "epsilon",
            "batch_size",
            "batch_tokens",
            "gradient_accumulation_steps",
            "segmentations",
            "length_buckets",
            "pool_size",
            "learning_rate",
            "clip_norm",
            "validations",
        ):
            value = getattr(self, name)
            require(value is None or value > 0, f"TrainConfig.{name}", "a positive number", value)
        for name in ("patience", "log_every", "checkpoint_every", "validation_sentences", "max_to_keep", "max_skipped"):
            require(getattr(self, name) >= 1, f"TrainConfig.{name}", "at least 1", getattr(self, name))
        require(self.max_tokens >= 2, "TrainConfig.max_tokens", "at least 2 (one token and END)", self.max_tokens)
        require(self.seed >= 0, "TrainConfig.seed", "0 or more", self.seed)
        require(
            self.batch_tokens is None or self.batch_tokens >= self.max_tokens,
            "TrainConfig.batch_tokens",
            f"None, or room for one sentence of max_tokens ({self.max_tokens})",
            self.batch_tokens,
        )
        require(self.warmup_steps >= 0, "TrainConfig.warmup_steps", "0 or more", self.warmup_steps)
        require(
            self.ema_decay is None or 0.0 < self.ema_decay < 1.0,
            "TrainConfig.ema_decay",
            "None, or a decay in (0, 1)",
            self.ema_decay,
        )
        require(
            self.segmentation_alpha is None or self.segmentation_alpha >= 0.0,
            "TrainConfig.segmentation_alpha",
            "None, or 0 or more",
            self.segmentation_alpha,
        )
        require(self.guided_weight >= 0.0, "TrainConfig.guided_weight", "0 or more", self.guided_weight)
        require(self.weight_decay >= 0.0, "TrainConfig.weight_decay", "0 or more", self.weight_decay)
        require(0.0 < self.plateau_factor < 1.0, "TrainConfig.plateau_factor", "in (0, 1)", self.plateau_factor)
        require(0.0 <= self.beta_2 < 1.0, "TrainConfig.beta_2", "a decay in [0, 1)", self.beta_2)
        require(
            0.0 <= self.label_smoothing < 1.0, "TrainConfig.label_smoothing", "a share in [0, 1)", self.label_smoothing
        )
        for name in ("sampling_from", "sampling_to"):
            value = getattr(self, name)
            require(0.0 <= value <= 1.0, f"TrainConfig.{name}", "a probability in [0, 1]", value)
        require(0.0 <= self.rho < 1.0, "TrainConfig.rho", "a decay in [0, 1)", self.rho)
        require(0.0 <= self.halve_from <= 1.0, "TrainConfig.halve_from", "a share in [0, 1]", self.halve_from)
        require_choices(self)


@dataclass(frozen=True)
class RunOptions:
    """How a run is carried out. It changes nothing of what the run is, so it is no part of its recipe."""

    deterministic: bool = False
    """Compute every sum in a fixed order: on one machine, two runs have equal weights to the bit."""
    previous: bool = False
    """Set damaged checkpoints aside and go on from the newest that is whole, rather than stop."""
    tensorboard: bool = False
    """Write scalars, alignments and sample translations into the run directory, for TensorBoard."""
    profile: int = 0
    """Updates, after the first ten, that TensorFlow's profiler records; 0 records none."""

    def __post_init__(self) -> None:
        require(self.profile >= 0, "RunOptions.profile", "0 or more", self.profile)
