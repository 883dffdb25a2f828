"""Configuration of training, and training options that are not part of a recipe."""

from dataclasses import dataclass
from typing import Annotated, Literal

from nmt_keras.config.checks import (
    NOT_NEGATIVE,
    Bound,
    Count,
    Positive,
    Rate,
    Share,
    TokenLimit,
    require,
    require_types,
)


@dataclass(frozen=True)
class TrainConfig:
    """Configuration of training."""

    steps: Count | None = None
    """Number of updates. Set exactly one of steps, epochs and minutes."""
    epochs: Positive | None = None
    """Number of passes over the training pairs."""
    minutes: Positive | None = 10.0
    """Training time in minutes, including compilation and validation. The schedules follow the time that has passed, so
    they end with the minutes whatever else slows the machine down."""
    batch_size: Count = 64
    """Number of sentence pairs in a batch. Ignored if ``batch_tokens`` is set."""
    batch_tokens: int | None = None
    """Maximum number of target positions in a batch, including padding. Batches of shorter length buckets have more
    rows. None uses ``batch_size``."""
    gradient_accumulation_steps: Count = 1
    """Number of batches whose gradients are summed for one update."""
    length_buckets: Count = 8
    """Maximum number of length buckets. Each has a static batch shape and is compiled once."""
    max_tokens: TokenLimit = 40
    """Maximum number of tokens per side, including END. Longer pairs are skipped and counted. If
    ``TokenizerConfig.max_tokens`` is smaller, that limit applies."""
    pool_size: Count = 16384
    """Number of pairs that are shuffled, varied, sorted by length and cut into batches together. Training waits for the
    first pool, and a stop waits for the next one."""
    optimizer: Literal["adam", "adadelta", "sgd"] = "adam"
    """Optimizer: Adam, Adadelta or plain SGD."""
    learning_rate: Positive = 2e-3
    """Peak learning rate."""
    warmup_steps: Annotated[int, NOT_NEGATIVE] = 200
    """Number of steps in which the learning rate grows linearly to its peak."""
    decay: Literal["constant", "cosine", "linear", "inverse-sqrt", "halving"] = "cosine"
    """Schedule of the learning rate after the warm-up. "cosine" and "linear" end at 0. "inverse-sqrt" falls as
    1 / sqrt(step)."""
    halve_from: Share = 0.5
    """Position of the first halving, as a share of the steps after the warm-up, in [0, 1]. Decay "halving" only."""
    halve_every: Positive = 0.1
    """Interval between two halvings, as a share of the steps after the warm-up. Decay "halving" only."""
    beta_2: Rate = 0.98
    """Decay of Adam's second moment."""
    rho: Rate = 0.95
    """Decay of Adadelta's two averages."""
    epsilon: Positive = 1e-8
    """Constant that Adam and Adadelta add to the denominator."""
    precision: Literal["float32", "bfloat16-products", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Type of the computations. Weights stay float32. "bfloat16-products" rounds the factors of matrix products in
    cells, attention and output layer to bfloat16. It requires a CPU and XLA. "mixed_bfloat16" and "mixed_float16":
    dtype policies of Keras; "mixed_float16" also scales the loss."""
    clip_norm: Positive | None = 1.0
    """Maximum global L2 norm of the gradients. Larger gradients are scaled down; None for no limit."""
    label_smoothing: Rate = 0.1
    """Share of the target probability that is spread evenly over the vocabulary, in [0, 1)."""
    augmentation: Share = 0.0
    """Share of the training pairs that are varied in each epoch, 0 to 1: lower case, no final punctuation, no accents,
    no inverted marks, typographic quotes, other names. Above 0, subword vocabularies have placeholders for names,
    numbers and addresses that are copied. Pairs of a prepared corpus are not varied."""
    guided_weight: Annotated[float, NOT_NEGATIVE] = 1.0
    """Weight of the guided alignment loss. Used only if the training pairs have word alignments."""
    sampling_from: Share = 0.0
    """Scheduled sampling: probability that a decoder input is the model's own token instead of the reference token, at
    the first training step."""
    sampling_to: Share = 0.0
    """The same probability at the last training step. In between, it changes linearly. If both are 0, training uses
    teacher forcing. If both are 1, it is free running: the model reads only its own tokens."""
    denominator: Literal["tokens", "sentences"] = "tokens"
    """Divisor of the summed loss and its gradient. "tokens": number of target tokens. "sentences": number of pairs."""
    validations: Count = 8
    """Number of validations, evenly spaced. Each computes the validation loss and the BLEU of a sample, and writes a
    checkpoint."""
    validation_sentences: Count = 500
    """Number of sentences in the BLEU sample."""
    checkpoint_every: Count = 500
    """Number of steps between two checkpoints. Validations and interruptions also write a checkpoint."""
    max_to_keep: Count = 2
    """Number of latest checkpoints to keep, for resuming."""
    max_skipped: Count = 10
    """Number of consecutive non-finite updates after which training stops. Such updates are skipped."""
    patience: Count = 3
    """Number of consecutive validations without a better score after which training stops early."""
    select_by: Literal["loss", "bleu"] = "loss"
    """Score that selects the best checkpoint and stops training early. "loss": lowest validation loss. "bleu": highest
    BLEU of ``validation_sentences``."""
    log_every: Count = 50
    """Number of steps between two rows of the training log."""
    seed: Annotated[int, Bound("0 or more, and less than 2^31", lambda seed: 0 <= seed < 2**31)] = 1
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
        require(
            self.batch_tokens is None or self.batch_tokens >= self.max_tokens,
            "TrainConfig.batch_tokens",
            f"None, or at least max_tokens ({self.max_tokens})",
            self.batch_tokens,
        )


@dataclass(frozen=True)
class RunOptions:
    """Training options that are not part of a recipe."""

    more_minutes: Positive | None = None
    """Minutes to add to a finished run. The schedule is stretched to the new length, so the learning rate rises
    again."""
    more_epochs: Positive | None = None
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
    profile: Annotated[int, NOT_NEGATIVE] = 0
    """Number of updates that TensorFlow's profiler records, after the first ten updates; 0 for no profile."""

    def __post_init__(self) -> None:
        require_types(self)
        more = self.more_minutes, self.more_epochs
        require(None in more, "RunOptions.more_minutes, RunOptions.more_epochs", "at most one of them", more)

    @property
    def extends(self) -> bool:
        """``True`` if a finished run is trained longer."""
        return (self.more_minutes, self.more_epochs) != (None, None)
