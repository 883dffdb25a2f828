"""Configuration of the model: encoder, attention and decoder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from nmt_keras.config.checks import nearest_multiple, require, require_choices, require_each, require_positive

CellName = Literal["tanh", "gru", "gru-reset-after", "lstm"]


@dataclass(frozen=True)
class EncoderConfig:
    """Encoder: maps source tokens to annotations h_j, one vector for each."""

    kind: Literal["recurrent", "self-attention"] = "recurrent"
    """Recurrent cells, or self-attention layers."""
    cell: CellName = "gru"
    """Recurrent encoders: tanh, GRU with the reset gate before its product (Cho) or after it (cuDNN), or LSTM."""
    direction: Literal["bidirectional", "forward", "backward"] = "bidirectional"
    """Recurrent encoders: "backward" reads the source reversed; annotations keep the order of the source."""
    merge: Literal["concatenate", "sum"] = "concatenate"
    """Bidirectional encoders: combination of the two directions' states."""
    units: int = 256
    """State size of each direction, or of each position in a self-attention encoder."""
    layers: int = 1
    """Number of stacked layers."""
    residual: bool = False
    """If True, adds each layer's input to its output, from the second layer on."""
    word_view: bool = False
    """If True, adds a linear projection of each source token's embedding to its annotation."""
    heads: int = 4
    """Number of heads of each self-attention layer."""

    def __post_init__(self) -> None:
        require_choices(self)
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
        """D, the size of an annotation."""
        both = self.kind == "recurrent" and self.direction == "bidirectional" and self.merge == "concatenate"
        return 2 * self.units if both else self.units


@dataclass(frozen=True)
class AttentionConfig:
    """Attention of each target position to the source."""

    kind: Literal["additive", "dot", "general", "concat", "location", "fixed", "none"] = "additive"
    """Score function; "fixed", the same context at every step; or "none", the decoder's initial state alone."""
    span: Literal["global", "local-m", "local-p"] = "global"
    """Attended positions: all, a window around the target's own position, or a window around a predicted one."""
    units: int = 512
    """Number of hidden units of the additive and concat scores, and of local-p's prediction."""
    window: int = 10
    """D of Luong et al.: a local span covers p_t - D to p_t + D."""
    max_source_positions: int = 50
    """Maximum number of source positions of the location score; later positions get weight 0."""

    def __post_init__(self) -> None:
        require_choices(self)
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
    """Decoder: generates target tokens."""

    order: Literal["attend-then-update", "update-then-attend", "self-attention"] = "attend-then-update"
    """Bahdanau's order, Luong's order, or layers with self-attention to earlier positions."""
    cell: CellName = "gru"
    """Recurrent decoders: as for the encoder."""
    units: int = 512
    """Size of each layer's state."""
    layers: int = 1
    """Number of stacked layers."""
    residual: bool = False
    """If True, adds each layer's input to its output, from the second layer on."""
    initial_state: Literal["backward", "forward", "both", "last", "mean", "zero"] = "backward"
    """Source of s_0: tanh of a projection of the encoder's first backward state, its last forward state, both, or the
    mean annotation; "last" copies the encoder's last states layer by layer; "zero" is 0."""
    reads_words: bool = True
    """If True, the state reads y_{i-1}. False gives the lecture's plain decoder."""
    input_feeding: bool = False
    """Update-then-attend only: if True, the state also reads the last attentional vector (input feeding)."""
    shares_recurrence: bool = False
    """If True, shares the encoder's recurrent matrix, the lecture's W^(hh) (tanh cells, one layer, one direction)."""
    output: Literal["maxout", "linear", "state", "attentional"] = "maxout"
    """Output layer below the softmax: maxout units over state, context and word; a linear layer over these; the state
    alone; or tanh(W_c [c ; h])."""
    output_state: Literal["previous", "current"] = "previous"
    """Maxout and linear: they read s_{i-1}, as in the appendix of Bahdanau et al., or s_i, as in its main text."""
    output_units: int = 256
    """Number of maxout units (l in Bahdanau et al.), or size of the attentional vector."""
    tie_embeddings: bool = False
    """If True, the softmax matrix is the target embedding."""
    heads: int = 4
    """Self-attention order: number of heads of each layer."""
    max_positions: int = 100
    """Self-attention order: maximum number of target tokens, END included."""

    def __post_init__(self) -> None:
        require_choices(self)
        require_positive(self, "units", "layers", "output_units", "heads", "max_positions")
        luong = self.order == "update-then-attend"
        require(
            luong or not self.input_feeding,
            "DecoderConfig.input_feeding",
            "False unless DecoderConfig.order is 'update-then-attend'",
            self.input_feeding,
        )
        allowed = {
            "attend-then-update": ("maxout", "linear", "state"),
            "update-then-attend": ("attentional", "state", "linear"),
            "self-attention": ("state",),
        }[self.order]
        require(
            self.output in allowed,
            "DecoderConfig.output",
            f"one of {', '.join(allowed)} with DecoderConfig.order {self.order!r}",
            self.output,
        )
        if luong and self.output == "linear":
            require(
                self.output_state == "current",
                "DecoderConfig.output_state",
                "'current' with DecoderConfig.order 'update-then-attend'",
                self.output_state,
            )
        require(
            not self.input_feeding or self.output == "attentional",
            "DecoderConfig.input_feeding",
            "False unless DecoderConfig.output is 'attentional': it is that vector which is fed",
            self.input_feeding,
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
    """Model: encoder, attention and decoder."""

    embedding_size: int = 256
    """Size of the token embeddings of both sides."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """Encoder."""
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    """Attention."""
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    """Decoder."""
    dropout: float = 0.2
    """Dropout rate of the embeddings, between layers, and before the softmax."""
    recurrent_dropout: float = 0.0
    """Dropout rate of the recurrent state, with one mask per sentence."""
    initializer: Literal["glorot", "bahdanau", "uniform"] = "glorot"
    """Glorot and orthogonal matrices; those of Bahdanau et al., normal and orthogonal; or uniform in [-0.1, 0.1]."""

    def __post_init__(self) -> None:
        require_positive(self, "embedding_size")
        require_each(self, lambda rate: 0.0 <= rate < 1.0, "a probability in [0, 1)", "dropout", "recurrent_dropout")
        require_choices(self)
        _check_parts_fit(self)

    def scaled(self, width: float) -> ModelConfig:
        """Returns the model with all sizes multiplied by ``width``, rounded to multiples that the heads divide.

        With dot-product attention the decoder keeps the size of the annotations. A tied embedding keeps the size of the
        output layer.
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
        decoder = replace(decoder, units=units, output_units=times(decoder.output_units))
        embedding_size = times(self.embedding_size)
        if decoder.tie_embeddings:
            embedding_size = decoder.units if decoder.output == "state" else decoder.output_units
        attention = replace(attention, units=times(attention.units))
        return replace(self, embedding_size=embedding_size, encoder=encoder, attention=attention, decoder=decoder)


def _check_parts_fit(model: ModelConfig) -> None:
    """Raises ValueError if encoder, attention and decoder do not fit together."""
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
            decoder.initial_state in starts,
            "DecoderConfig.initial_state",
            f"one of {', '.join(starts)}, which this encoder ({encoder.kind}, {encoder.direction}) has",
            decoder.initial_state,
        )
    if decoder.initial_state == "last" and decoder.order != "self-attention":
        here, there = (decoder.cell, decoder.units, decoder.layers), (encoder.cell, encoder.units, encoder.layers)
        require(
            here == there,
            "DecoderConfig.cell, DecoderConfig.units, DecoderConfig.layers",
            f"the encoder's, {there}, with DecoderConfig.initial_state 'last'",
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
    if decoder.order == "update-then-attend" and decoder.output == "state":
        require(
            attention.kind == "none",
            "DecoderConfig.output",
            "'attentional' or 'linear' with DecoderConfig.order 'update-then-attend', unless AttentionConfig.kind is "
            "'none': else nothing would read the context",
            decoder.output,
        )
    if attention.kind == "none":
        require(
            decoder.initial_state != "zero",
            "DecoderConfig.initial_state",
            "another with AttentionConfig.kind 'none': the decoder would see nothing of the source",
            decoder.initial_state,
        )
        require(
            decoder.output == "state",
            "DecoderConfig.output",
            "'state' with AttentionConfig.kind 'none': there is no context to read",
            decoder.output,
        )
    if decoder.tie_embeddings:
        require(
            decoder.output != "linear",
            "DecoderConfig.output",
            "'maxout', 'state' or 'attentional' with DecoderConfig.tie_embeddings: 'linear' has no embedding's width",
            decoder.output,
        )
        name = "units" if decoder.output == "state" else "output_units"
        require(
            getattr(decoder, name) == model.embedding_size,
            f"DecoderConfig.{name}",
            f"ModelConfig.embedding_size, {model.embedding_size}, with DecoderConfig.tie_embeddings",
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
