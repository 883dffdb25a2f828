"""What a recipe declares: frozen dataclasses, checked when they are built, stored with a run as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import typing
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeVar

PAD, UNK, START, END = 0, 1, 2, 3
"""The special ids of every vocabulary: padding, unknown word, the decoder's first input, a sentence's last token."""

BATCHES_AT_ONCE = max(2, min(8, os.cpu_count() or 2))
"""Batches that are translated side by side: where one waits for a small operation, the others have the processors."""

MAX_SHORTLIST = 100
"""Target tokens that are known of each source token at the most: see ``SearchConfig.shortlist``."""

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


def require_positive(record: Any, *names: str) -> None:
    """Raises ValueError unless each named field of a configuration is a whole number of at least 1."""
    for name in names:
        value = getattr(record, name)
        whole = isinstance(value, int) and not isinstance(value, bool)
        require(whole and value >= 1, f"{type(record).__name__}.{name}", "a whole number of at least 1", value)


@dataclass(frozen=True)
class TextConfig:
    """How strings become ids, for one side of the corpus."""

    kind: Literal["word", "subword", "character"] = "subword"
    """What a token is: a word, a piece that SentencePiece learns from the corpus, or a character."""
    vocabulary_size: int = 8000
    """Entries of the vocabulary, the four special ones included; a smaller corpus gives a smaller vocabulary."""
    lowercase: bool = False
    """Word texts only: fold case before looking words up. Subwords and characters are cased."""
    strip_accents: bool = False
    """Word texts only: drop combining marks before looking words up (the tutorial's rule)."""
    max_tokens: int = 80
    """Tokens of one sentence, END included; longer input is cut there and reported as truncated."""

    def __post_init__(self) -> None:
        require_choice("TextConfig.kind", ("word", "subword", "character"), self.kind)
        require(
            self.vocabulary_size > 4,
            "TextConfig.vocabulary_size",
            "more than the 4 special entries",
            self.vocabulary_size,
        )
        require(self.max_tokens >= 2, "TextConfig.max_tokens", "at least 2 (one token and END)", self.max_tokens)
        if self.kind != "word":
            cased = f"False for {self.kind} texts, which keep case and accents"
            require(not self.lowercase, "TextConfig.lowercase", cased, self.lowercase)
            require(not self.strip_accents, "TextConfig.strip_accents", cased, self.strip_accents)


Cell = Literal["tanh", "gru", "gru-reset-after", "lstm"]
CELLS = typing.get_args(Cell)


@dataclass(frozen=True)
class EncoderConfig:
    """How source tokens become annotations."""

    kind: Literal["recurrent", "self-attention"] = "recurrent"
    """Cells that read the source word by word, or layers in which each position looks at all others."""
    cell: Cell = "gru"
    """Recurrent encoders: tanh, GRU with the reset gate before its product (Cho) or after it (cuDNN), LSTM."""
    direction: Literal["bidirectional", "forward", "backward"] = "bidirectional"
    """Recurrent encoders: "backward" reads the source reversed; annotations keep the order of the source."""
    merge: Literal["concatenate", "sum"] = "concatenate"
    """Of the two directions' states."""
    units: int = 256
    """Of each direction; of each position in a self-attention encoder."""
    layers: int = 1
    """Layers above one another, each of which reads what the one below writes."""
    residual: bool = False
    """Add each layer's input to its output, from the second layer on."""
    word_view: bool = False
    """Add a linear view of each source word's embedding to its annotation."""
    heads: int = 4
    """Of each self-attention layer."""

    def __post_init__(self) -> None:
        require_choice("EncoderConfig.kind", ("recurrent", "self-attention"), self.kind)
        require_choice("EncoderConfig.cell", CELLS, self.cell)
        require_choice("EncoderConfig.direction", ("bidirectional", "forward", "backward"), self.direction)
        require_choice("EncoderConfig.merge", ("concatenate", "sum"), self.merge)
        require_positive(self, "units", "layers", "heads")
        if self.kind == "self-attention":
            require(
                self.units % (2 * self.heads) == 0,
                "EncoderConfig.units",
                f"a multiple of twice EncoderConfig.heads ({2 * self.heads}), such as "
                f"{nearest_multiple(self.units, 2 * self.heads)}",
                self.units,
            )
            require(not self.word_view, "EncoderConfig.word_view", "False in a self-attention encoder", self.word_view)

    @property
    def annotation_size(self) -> int:
        """D, the width of an annotation."""
        both = self.kind == "recurrent" and self.direction == "bidirectional" and self.merge == "concatenate"
        return 2 * self.units if both else self.units


@dataclass(frozen=True)
class AttentionConfig:
    """What each target position sees of the source."""

    kind: Literal["additive", "dot", "general", "concat", "location", "fixed", "none"] = "additive"
    """A score function, or "fixed": the same context at every step, or "none": nothing but the decoder's start."""
    span: Literal["global", "local-m", "local-p"] = "global"
    """All of the source, or a window around the target's own position, or around a predicted one."""
    units: int = 512
    """Hidden units of the additive and concat scores, and of local-p's prediction."""
    window: int = 10
    """D of Luong et al.: a local span reaches from p_t - D to p_t + D."""
    max_source_positions: int = 50
    """Rows of the location score; positions beyond get weight 0."""

    def __post_init__(self) -> None:
        require_choice("AttentionConfig.kind", typing.get_args(typing.get_type_hints(type(self))["kind"]), self.kind)
        require_choice("AttentionConfig.span", ("global", "local-m", "local-p"), self.span)
        require_positive(self, "units", "window", "max_source_positions")
        if self.kind in ("location", "fixed", "none"):
            require(
                self.span == "global",
                "AttentionConfig.span",
                f"'global' with AttentionConfig.kind {self.kind!r}; local spans go with additive, dot, general, concat",
                self.span,
            )


@dataclass(frozen=True)
class DecoderConfig:
    """How target tokens are written."""

    order: Literal["attend-then-update", "update-then-attend", "self-attention"] = "attend-then-update"
    """Bahdanau's order, Luong's order, or layers that attend to the decoder's own earlier states."""
    cell: Cell = "gru"
    """Recurrent decoders: as for the encoder."""
    units: int = 512
    """Of each layer's state."""
    layers: int = 1
    """Layers above one another, each of which reads what the one below writes."""
    residual: bool = False
    """Add each layer's input to its output, from the second layer on."""
    start: Literal["backward", "forward", "both", "last", "mean", "zero"] = "backward"
    """s_0: tanh of a product with the encoder's first backward state, its last forward state, both, or the mean of its
    annotations; the encoder's last states as they are, layer by layer; or 0."""
    reads_words: bool = True
    """Feed y_{i-1} to the state; False for the lecture's plain decoder, which runs on its state alone."""
    feeds_attention: bool = False
    """Update-then-attend only: feed the last attentional vector beside the word (input feeding)."""
    shares_recurrence: bool = False
    """Use the encoder's recurrent matrix (tanh cells, one layer, one direction): the lecture's W^(hh)."""
    readout: Literal["maxout", "linear", "state", "attentional"] = "maxout"
    """Below the softmax: maxout units over state, context and word; a linear layer over these; the state alone; or
    tanh(W_c [c ; h])."""
    readout_state: Literal["previous", "current"] = "previous"
    """Maxout and linear: s_{i-1}, as in the appendix of Bahdanau et al., or s_i, as in its main text."""
    readout_units: int = 256
    """Maxout units, l in Bahdanau et al.; width of the attentional vector."""
    tied: bool = False
    """The softmax's matrix is the target embedding."""
    heads: int = 4
    """Self-attention order: of each layer."""
    max_positions: int = 100
    """Self-attention order: target tokens, END included, that can be written."""

    def __post_init__(self) -> None:
        for name in ("order", "start", "readout", "readout_state"):
            choices = typing.get_args(typing.get_type_hints(type(self))[name])
            require_choice(f"DecoderConfig.{name}", choices, getattr(self, name))
        require_choice("DecoderConfig.cell", CELLS, self.cell)
        require_positive(self, "units", "layers", "readout_units", "heads", "max_positions")
        luong = self.order == "update-then-attend"
        require(
            luong or not self.feeds_attention,
            "DecoderConfig.feeds_attention",
            "False unless DecoderConfig.order is 'update-then-attend'",
            self.feeds_attention,
        )
        allowed = {
            "attend-then-update": ("maxout", "linear", "state"),
            "update-then-attend": ("attentional", "state", "linear"),
            "self-attention": ("state",),
        }[self.order]
        require(
            self.readout in allowed,
            "DecoderConfig.readout",
            f"one of {', '.join(allowed)} with DecoderConfig.order {self.order!r}",
            self.readout,
        )
        if luong and self.readout == "linear":
            require(
                self.readout_state == "current",
                "DecoderConfig.readout_state",
                "'current' with DecoderConfig.order 'update-then-attend'",
                self.readout_state,
            )
        require(
            not self.feeds_attention or self.readout == "attentional",
            "DecoderConfig.feeds_attention",
            "False unless DecoderConfig.readout is 'attentional': it is that vector which is fed",
            self.feeds_attention,
        )
        if self.order == "self-attention":
            require(
                self.reads_words,
                "DecoderConfig.reads_words",
                "True with DecoderConfig.order 'self-attention', whose states are made of words",
                self.reads_words,
            )
            require(
                not self.shares_recurrence,
                "DecoderConfig.shares_recurrence",
                "False with DecoderConfig.order 'self-attention', which has no recurrent matrix",
                self.shares_recurrence,
            )
            require(
                self.units % (2 * self.heads) == 0,
                "DecoderConfig.units",
                f"a multiple of twice DecoderConfig.heads ({2 * self.heads}), such as "
                f"{nearest_multiple(self.units, 2 * self.heads)}",
                self.units,
            )


@dataclass(frozen=True)
class ModelConfig:
    """An encoder, an attention and a decoder."""

    embedding_size: int = 256
    """Width of a token's vector, on either side."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """How source tokens become annotations."""
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    """What each target position sees of the source."""
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    """How target tokens are written."""
    dropout: float = 0.2
    """Probability of dropping an entry of the embeddings, of what one layer hands to the next, and of what the softmax
    sees; in training."""
    recurrent_dropout: float = 0.0
    """Probability of dropping an entry of the state where a cell reads it, one mask for a whole sentence."""
    initializer: Literal["glorot", "bahdanau", "uniform"] = "glorot"
    """Glorot and orthogonal matrices; the normal and orthogonal ones of Bahdanau et al.; all uniform in +-0.1."""

    def __post_init__(self) -> None:
        require_positive(self, "embedding_size")
        for name in ("dropout", "recurrent_dropout"):
            value = getattr(self, name)
            require(0.0 <= value < 1.0, f"ModelConfig.{name}", "a probability in [0, 1)", value)
        require_choice("ModelConfig.initializer", ("glorot", "bahdanau", "uniform"), self.initializer)
        _check_parts_fit(self)

    def scaled(self, width: float) -> ModelConfig:
        """The same model with every width times ``width``: to the nearest number that heads divide.

        A decoder scored by dot products stays as wide as the annotations, and a tied embedding as wide as the readout.
        """
        require(width > 0.0, "width", "a positive number", width)

        def times(size: int, multiple: int = 1) -> int:
            return nearest_multiple(width * size, multiple)

        encoder, attention, decoder = self.encoder, self.attention, self.decoder
        attentive = decoder.order == "self-attention"
        encoder = replace(
            encoder, units=times(encoder.units, 2 * encoder.heads if encoder.kind == "self-attention" else 1)
        )
        units = times(decoder.units, 2 * decoder.heads if attentive else 1)
        if attention.kind == "dot" and not attentive:
            units = encoder.annotation_size
        decoder = replace(decoder, units=units, readout_units=times(decoder.readout_units))
        embedding_size = times(self.embedding_size)
        if decoder.tied:
            embedding_size = decoder.units if decoder.readout == "state" else decoder.readout_units
        attention = replace(attention, units=times(attention.units))
        return replace(self, embedding_size=embedding_size, encoder=encoder, attention=attention, decoder=decoder)


def nearest_multiple(size: float, of: int) -> int:
    """The multiple of ``of`` nearest to ``size``, at least ``of`` itself."""
    return max(of, of * round(size / of))


def _check_parts_fit(model: ModelConfig) -> None:
    """Raises ValueError where encoder, attention and decoder cannot work together, with the nearest that can."""
    encoder, attention, decoder = model.encoder, model.attention, model.decoder
    recurrent = encoder.kind == "recurrent"
    directions = {"bidirectional": ("backward", "forward", "both"), "forward": ("forward", "last")}
    starts = (
        (*directions.get(encoder.direction, ("backward", "last")), "mean", "zero") if recurrent else ("mean", "zero")
    )
    if decoder.order == "self-attention":
        require(
            attention.kind == "dot" and attention.span == "global",
            "AttentionConfig.kind, AttentionConfig.span",
            "'dot' and 'global' with DecoderConfig.order 'self-attention', whose heads attend by scaled dot products",
            (attention.kind, attention.span),
        )
    else:
        require(
            decoder.start in starts,
            "DecoderConfig.start",
            f"one of {', '.join(starts)}, which this encoder ({encoder.kind}, {encoder.direction}) has",
            decoder.start,
        )
    if decoder.start == "last" and decoder.order != "self-attention":
        here, there = (decoder.cell, decoder.units, decoder.layers), (encoder.cell, encoder.units, encoder.layers)
        require(
            here == there,
            "DecoderConfig.cell, DecoderConfig.units, DecoderConfig.layers",
            f"the encoder's, {there}, with DecoderConfig.start 'last'",
            here,
        )
    if attention.kind == "dot" and decoder.order != "self-attention":
        require(
            decoder.units == encoder.annotation_size,
            "DecoderConfig.units",
            f"the annotations' width, {encoder.annotation_size}, with AttentionConfig.kind 'dot' ('general' takes any)",
            decoder.units,
        )
    if attention.kind in ("fixed", "none"):
        require(
            recurrent,
            "AttentionConfig.kind",
            "a score with a self-attention encoder, which has no last state",
            attention.kind,
        )
    if decoder.order == "update-then-attend" and decoder.readout == "state":
        require(
            attention.kind == "none",
            "DecoderConfig.readout",
            "'attentional' or 'linear' with DecoderConfig.order 'update-then-attend', unless AttentionConfig.kind is "
            "'none': else nothing would read the context",
            decoder.readout,
        )
    if attention.kind == "none":
        require(
            decoder.start != "zero",
            "DecoderConfig.start",
            "another with AttentionConfig.kind 'none': the decoder would see nothing of the source",
            decoder.start,
        )
        require(
            decoder.readout == "state",
            "DecoderConfig.readout",
            "'state' with AttentionConfig.kind 'none': there is no context to read",
            decoder.readout,
        )
    if decoder.tied:
        require(
            decoder.readout != "linear",
            "DecoderConfig.readout",
            "'maxout', 'state' or 'attentional' with DecoderConfig.tied: a linear readout has no embedding's width",
            decoder.readout,
        )
        name = "units" if decoder.readout == "state" else "readout_units"
        require(
            getattr(decoder, name) == model.embedding_size,
            f"DecoderConfig.{name}",
            f"ModelConfig.embedding_size, {model.embedding_size}, with DecoderConfig.tied",
            getattr(decoder, name),
        )
    if decoder.shares_recurrence:
        sides = (
            (encoder.kind, encoder.cell, encoder.direction, encoder.layers, encoder.units),
            (decoder.cell, decoder.layers, decoder.units),
        )
        require(
            encoder.kind == "recurrent"
            and encoder.cell == decoder.cell == "tanh"
            and encoder.layers == decoder.layers == 1
            and encoder.direction != "bidirectional"
            and encoder.units == decoder.units,
            "DecoderConfig.shares_recurrence",
            "False unless encoder and decoder are one tanh layer of one direction and equal units",
            sides,
        )


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
    accumulate: int = 1
    """Batches whose gradients are added for one update."""
    shapes: int = 8
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
    keep: int = 2
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
            "accumulate",
            "segmentations",
            "shapes",
            "pool_size",
            "learning_rate",
            "clip_norm",
            "validations",
        ):
            value = getattr(self, name)
            require(value is None or value > 0, f"TrainConfig.{name}", "a positive number", value)
        for name in ("patience", "log_every", "checkpoint_every", "validation_sentences", "keep", "max_skipped"):
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
        require_choice("TrainConfig.optimizer", ("adam", "adamw", "adadelta", "sgd"), self.optimizer)
        require_choice(
            "TrainConfig.decay",
            ("constant", "cosine", "linear", "inverse-sqrt", "halving", "plateau"),
            self.decay,
        )
        require_choice("TrainConfig.precision", ("float32", "bfloat16", "float16"), self.precision)
        require_choice("TrainConfig.denominator", ("tokens", "sentences"), self.denominator)


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
        require_choice("SearchConfig.length_normalisation", ("plain", "gnmt"), self.length_normalisation)
        require_choice("SearchConfig.precision", ("float32", "bfloat16"), self.precision)
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
        require_choice("CorpusConfig.split", ("hashed-groups", "shuffled-groups"), self.split)
        require(self.seed >= 0, "CorpusConfig.seed", "0 or more", self.seed)


@dataclass(frozen=True)
class MicroBatchingConfig:
    """How an export merges the requests that come at the same time into one search."""

    max_batch_size: int = 32
    """Sentences that are merged at the most; a request of more is searched in parts."""
    wait_ms: float = 0.0
    """Milliseconds that a batch which is not full waits for more; 0 merges what comes while all threads are busy."""
    threads: int = 2
    """Batches that are searched at once."""
    queue: int = 16
    """Batches that may wait; beyond them a request is refused (UNAVAILABLE, 503) and may be tried again."""

    def __post_init__(self) -> None:
        require_positive(self, "max_batch_size", "threads", "queue")
        require(self.wait_ms >= 0.0, "MicroBatchingConfig.wait_ms", "0 or more", self.wait_ms)


@dataclass(frozen=True)
class ExportConfig:
    """How a model is written as a SavedModel."""

    half_precision: bool = False
    """Store weights in float16, in half the bytes; they are float32 again once loaded."""
    micro_batching: MicroBatchingConfig | None = None
    """Merge concurrent requests inside the graph; None answers each by itself."""


@dataclass(frozen=True)
class Recipe:
    """A system: everything that makes a run, except the corpus and the time."""

    name: str
    """What the system is called, in the name of its run directory too."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    """What of a corpus is taken, and how it is split."""
    source: TextConfig = field(default_factory=TextConfig)
    """How source strings become ids."""
    target: TextConfig = field(default_factory=TextConfig)
    """How target strings become ids."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """Encoder, attention and decoder."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How the model is trained."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """How translations are searched for."""

    def __post_init__(self) -> None:
        decoder = self.model.decoder
        require(
            self.train.segmentation_alpha is None or "subword" in (self.source.kind, self.target.kind),
            "TrainConfig.segmentation_alpha",
            "None where neither text is a subword text: words are not cut",
            self.train.segmentation_alpha,
        )
        written = {
            "SearchConfig.max_tokens": self.search.max_tokens,
            "TextConfig.max_tokens of the target": self.target.max_tokens,
            "TrainConfig.max_tokens": self.train.max_tokens,
        }
        for name, tokens in written.items():
            require(
                decoder.order != "self-attention" or tokens <= decoder.max_positions,
                name,
                f"DecoderConfig.max_positions ({decoder.max_positions}), all that the decoder can write, at the most",
                tokens,
            )
        rows = self.model.attention.max_source_positions
        require(
            self.model.attention.kind != "location" or self.train.max_tokens <= rows,
            "TrainConfig.max_tokens",
            f"AttentionConfig.max_source_positions ({rows}), all that location attention can look at, at the most",
            self.train.max_tokens,
        )
        attention = self.model.attention.kind
        require(
            not self.search.replaces_unknown or attention not in ("fixed", "none"),
            "SearchConfig.replaces_unknown",
            f"False with AttentionConfig.kind {attention!r}, which looks at no word in particular",
            self.search.replaces_unknown,
        )

    def scaled(self, width: float) -> Recipe:
        """The same system with a model of ``width`` times the size in every layer, under a name that says so."""
        return replace(self, name=f"{self.name}-x{width:g}", model=self.model.scaled(width))

    def to_json(self) -> str:
        """The recipe as a JSON object, one key per field."""
        return json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str = "recipe") -> Recipe:
        """The inverse of ``to_json``. Raises ValueError naming ``where`` and the unknown or missing field."""
        try:
            return record_from(cls, json.loads(text))
        except (TypeError, json.JSONDecodeError) as error:
            raise ValueError(
                f"{where}: expected a recipe as JSON with the fields of {cls.__name__}; {error}."
            ) from error


def record_from(kind: type[Record], fields: dict[str, Any]) -> Record:
    """``kind`` with ``fields``, where nested objects become the dataclasses that its annotations name."""
    if not isinstance(fields, dict):
        raise TypeError(f"{kind.__name__} is an object, received {fields!r:.40}")
    hints = typing.get_type_hints(kind)
    nested = {k: record_from(hints[k], v) if dataclasses.is_dataclass(hints.get(k)) else v for k, v in fields.items()}
    return kind(**nested)
