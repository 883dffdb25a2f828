"""Configuration of training, and training options that are not part of a recipe."""

from dataclasses import dataclass
from typing import Literal

from nmt_keras.config.checks import require, require_each, require_positive, require_types


@dataclass(frozen=True)
class TrainConfig:
    """Configuration of training."""

    steps: int | None = None
    """Number of updates. Set exactly one of steps, epochs and minutes."""
    epochs: float | None = None
    """Number of passes over the training pairs."""
    minutes: float | None = 10.0
    """Training time in minutes, including compilation and validation. The schedules follow the time that has passed, so
    they end with the minutes whatever else slows the machine down."""
    batch_size: int = 64
    """Number of sentence pairs in a batch. Ignored if ``batch_tokens`` is set."""
    batch_tokens: int | None = None
    """Maximum number of target positions in a batch, including padding. Batches of shorter length buckets have more
    rows. None uses ``batch_size``."""
    gradient_accumulation_steps: int = 1
    """Number of batches whose gradients are summed for one update."""
    length_buckets: int = 8
    """Maximum number of length buckets. Each has a static batch shape and is compiled once."""
    max_tokens: int = 40
    """Maximum number of tokens per side, including END. Longer pairs are skipped and counted. If
    ``TokenizerConfig.max_tokens`` is smaller, that limit applies."""
    pool_size: int = 16384
    """Number of pairs that are shuffled, varied, sorted by length and cut into batches together. Training waits for the
    first pool, and a stop waits for the next one."""
    optimizer: Literal["adam", "adadelta", "sgd"] = "adam"
    """Optimizer: Adam, Adadelta or plain SGD."""
    learning_rate: float = 2e-3
    """Peak learning rate."""
    warmup_steps: int = 200
    """Number of steps in which the learning rate grows linearly to its peak."""
    decay: Literal["constant", "cosine", "linear", "inverse-sqrt", "halving"] = "cosine"
    """Schedule of the learning rate after the warm-up. "cosine" and "linear" end at 0. "inverse-sqrt" falls as
    1 / sqrt(step)."""
    halve_from: float = 0.5
    """Position of the first halving, as a share of the steps after the warm-up, in [0, 1]. Decay "halving" only."""
    halve_every: float = 0.1
    """Interval between two halvings, as a share of the steps after the warm-up. Decay "halving" only."""
    beta_2: float = 0.98
    """Decay of Adam's second moment."""
    rho: float = 0.95
    """Decay of Adadelta's two averages."""
    epsilon: float = 1e-8
    """Constant that Adam and Adadelta add to the denominator."""
    precision: Literal["float32", "bfloat16-products", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Type of the computations. Weights stay float32. "bfloat16-products" rounds the factors of matrix products in
    cells, attention and output layer to bfloat16. It requires a CPU and XLA. "mixed_bfloat16" and "mixed_float16":
    dtype policies of Keras; "mixed_float16" also scales the loss."""
    clip_norm: float | None = 1.0
    """Maximum global L2 norm of the gradients. Larger gradients are scaled down; None for no limit."""
    label_smoothing: float = 0.1
    """Share of the target probability that is spread evenly over the vocabulary, in [0, 1)."""
    augmentation: float = 0.0
    """Share of the training pairs that are varied in each epoch, 0 to 1: lower case, no final punctuation, no accents,
    no inverted marks, typographic quotes, other names. Above 0, subword vocabularies have placeholders for names,
    numbers and addresses that are copied. Pairs of a prepared corpus are not varied."""
    guided_weight: float = 1.0
    """Weight of the guided alignment loss. Used only if the training pairs have word alignments."""
    sampling_from: float = 0.0
    """Scheduled sampling: probability that a decoder input is the model's own token instead of the reference token, at
    the first training step."""
    sampling_to: float = 0.0
    """The same probability at the last training step. In between, it changes linearly. If both are 0, training uses
    teacher forcing. If both are 1, it is free running: the model reads only its own tokens."""
    denominator: Literal["tokens", "sentences"] = "tokens"
    """Divisor of the summed loss and its gradient. "tokens": number of target tokens. "sentences": number of pairs."""
    validations: int = 8
    """Number of validations, evenly spaced. Each computes the validation loss and the BLEU of a sample, and writes a
    checkpoint."""
    validation_sentences: int = 500
    """Number of sentences in the BLEU sample."""
    checkpoint_every: int = 500
    """Number of steps between two checkpoints. Validations and interruptions also write a checkpoint."""
    max_to_keep: int = 2
    """Number of latest checkpoints to keep, for resuming."""
    max_skipped: int = 10
    """Number of consecutive non-finite updates after which training stops. Such updates are skipped."""
    patience: int = 3
    """Number of consecutive validations without a better score after which training stops early."""
    select_by: Literal["loss", "bleu"] = "loss"
    """Score that selects the best checkpoint and stops training early. "loss": lowest validation loss. "bleu": highest
    BLEU of ``validation_sentences``."""
    log_every: int = 50
    """Number of steps between two rows of the training log."""
    seed: int = 1
    """Seed of the initial weights, the corpus order and dropout."""
    xla: bool | None = None
    """If True, compiles the forward and backward pass with XLA. None uses XLA, except on several GPUs."""

    def __post_init__(self) -> None:
        require_types(self)
        require(
            [self.steps, self.epochs, self.minutes].count(None) == 2,
            "TrainConfig.steps, TrainConfig.epochs, TrainConfig.minutes",
            "exactly one of them",
            (self.steps, self.epochs, self.minutes),
        )
        require_each(
            self,
            lambda value: value is None or value > 0,
            "a positive number",
            "epochs",
            "minutes",
            "halve_every",
            "epsilon",
            "learning_rate",
            "clip_norm",
        )
        optional = [name for name in ("steps", "batch_tokens") if getattr(self, name) is not None]
        require_positive(self, *optional, "batch_size", "gradient_accumulation_steps", "length_buckets", "pool_size")
        require_positive(self, "validations", "validation_sentences", "patience", "max_skipped")
        require_positive(self, "log_every", "checkpoint_every", "max_to_keep")
        require(self.max_tokens >= 2, "TrainConfig.max_tokens", "at least 2 (one token and END)", self.max_tokens)
        require(
            self.batch_tokens is None or self.batch_tokens >= self.max_tokens,
            "TrainConfig.batch_tokens",
            f"None, or at least max_tokens ({self.max_tokens})",
            self.batch_tokens,
        )
        require_each(self, lambda value: value >= 0, "0 or more", "seed", "warmup_steps", "guided_weight")
        require_each(self, lambda value: 0.0 <= value < 1.0, "in [0, 1)", "beta_2", "rho", "label_smoothing")
        require_each(
            self,
            lambda value: 0.0 <= value <= 1.0,
            "in [0, 1]",
            "sampling_from",
            "sampling_to",
            "halve_from",
            "augmentation",
        )
        require(self.seed < 2**31, "TrainConfig.seed", "less than 2^31", self.seed)


@dataclass(frozen=True)
class RunOptions:
    """Training options that are not part of a recipe."""

    more_minutes: float | None = None
    """Minutes to add to a finished run. The schedule is stretched to the new length, so the learning rate rises
    again."""
    more_epochs: float | None = None
    """Epochs to add to a finished run. The schedule is stretched to the new length."""
    init_from: str | None = None
    """Run or exported version to fine-tune: its best weights and its vocabularies are copied. The optimizer and the
    schedule start from the beginning."""
    deterministic: bool = False
    """If True, sums are computed in a fixed order. On one machine, two runs then have bit-identical weights."""
    previous: bool = False
    """If True, damaged checkpoints are set aside, and training resumes from the newest intact checkpoint."""
    tensorboard: bool = False
    """If True, writes the rows of the log into the run directory, for TensorBoard."""
    profile: int = 0
    """Number of updates that TensorFlow's profiler records, after the first ten updates; 0 for no profile."""

    def __post_init__(self) -> None:
        require_types(self)
        require_each(self, lambda value: value >= 0, "0 or more", "profile")
        more = self.more_minutes, self.more_epochs
        require(None in more, "RunOptions.more_minutes, RunOptions.more_epochs", "at most one of them", more)
        require_each(
            self,
            lambda value: value is None or value > 0,
            "a positive number",
            "more_minutes",
            "more_epochs",
        )

    @property
    def extends(self) -> bool:
        """``True`` if a finished run is trained longer."""
        return (self.more_minutes, self.more_epochs) != (None, None)
