"""Configuration of the model: encoder, attention and decoder."""

from dataclasses import dataclass, field, replace
from typing import Literal, Self, get_args

from nmt_keras.config.checks import Count, Rate, Rule, require, require_rules, require_types

AttentionKind = Literal["additive", "dot", "general", "concat", "location", "fixed", "mean", "none"]

CellName = Literal["tanh", "gru", "gru-reset-after", "gru-layer-norm", "lstm"]

DecoderOrder = Literal["attend-then-update", "conditional", "update-then-attend", "self-attention"]

OutputName = Literal["maxout", "linear", "state", "attentional"]

REGISTERED: dict[str, set[str]] = {"score": set(), "cell": set(), "output": set(), "decoder": set()}
"""Names that ``nmt_keras.register`` added, by the part of the model."""


def _require_registered(field: str, choices: object, part: str, value: str) -> None:
    """Raises ValueError unless ``value`` is one of the ``choices``, a Literal, or a registered name."""
    known = (*get_args(choices), *sorted(REGISTERED[part]))
    hint = "A layer of your own is registered by its module: add --import MODULE, or import it in Python."
    require(value in known, field, f"one of {', '.join(known)}", value, hint)


ENCODER_RULES = (
    Rule(
        "EncoderConfig.units",
        "a multiple of twice EncoderConfig.heads ({heads}) in a self-attention encoder",
        lambda encoder: encoder.kind != "self-attention" or encoder.units % (2 * encoder.heads) == 0,
    ),
    Rule(
        "EncoderConfig.word_projection",
        "False in a self-attention encoder",
        lambda encoder: encoder.kind != "self-attention" or not encoder.word_projection,
    ),
)


@dataclass(frozen=True)
class EncoderConfig:
    """Encoder, which maps each source token to an annotation h_j."""

    kind: Literal["recurrent", "self-attention"] = "recurrent"
    """Type of the encoder's layers: "recurrent" or "self-attention"."""
    cell: CellName | str = "gru"
    """Recurrent cell. "tanh": plain RNN. "gru": GRU with the reset gate before the recurrent matrix product (Cho et al.
    2014). "gru-reset-after": GRU with the reset gate after the product, as in cuDNN. "gru-layer-norm": that GRU with
    layer normalisation of its products (Ba et al. 2016). "lstm": LSTM."""
    direction: Literal["bidirectional", "forward", "backward"] = "bidirectional"
    """Direction of a recurrent encoder. "forward": from the first source token to the last. "backward": from the last
    to the first (the reversed source of Sutskever et al. 2014). "bidirectional": both. The annotations are always in
    source order."""
    units: Count = 256
    """State size per direction of a recurrent encoder, or output size of a self-attention layer."""
    layers: Count = 1
    """Number of stacked layers."""
    word_projection: bool = False
    """If True, adds a linear projection of a source token's embedding to the token's annotation. Recurrent encoders
    only."""
    heads: Count = 4
    """Number of attention heads per layer. Self-attention encoders only."""

    def __post_init__(self) -> None:
        require_types(self)
        _require_registered("EncoderConfig.cell", CellName, "cell", self.cell)
        require_rules(self, ENCODER_RULES)

    @property
    def annotation_size(self) -> int:
        """Size D of an annotation."""
        both = self.kind == "recurrent" and self.direction == "bidirectional"
        return 2 * self.units if both else self.units


@dataclass(frozen=True)
class AttentionConfig:
    """Attention of each target position to the source."""

    kind: AttentionKind | str = "additive"
    """Score function, or a kind without scores: "fixed" (the context is always the encoder's last states), "mean"
    (it is always the mean of the annotations) or "none" (no context). ``nmt_keras.register`` adds others."""
    span: Literal["global", "local-m", "local-p"] = "global"
    """Attended source positions. "global": all. "local-m": a window around the target position. "local-p": a window
    around a predicted position."""
    units: Count = 512
    """Number of hidden units of the scores "additive" and "concat", and of the position prediction of "local-p"."""
    window: Count = 10
    """Half-width D of a local span: positions p_t - D to p_t + D are attended (Luong et al. 2015)."""
    position_logit: Literal["mean", "sum"] = "mean"
    """Logit of the position that "local-p" predicts. "sum": the sum over the units, as in the paper, for SGD. "mean":
    their mean, for Adam, with which the sum may saturate."""
    max_source_positions: Count = 50
    """Maximum number of source positions of the location score. Later positions get weight 0."""

    def __post_init__(self) -> None:
        require_types(self)
        _require_registered("AttentionConfig.kind", AttentionKind, "score", self.kind)
        require(
            (self.has_scores and self.kind != "location") or self.span == "global",
            "AttentionConfig.span",
            f"'global' with AttentionConfig.kind {self.kind!r}",
            self.span,
            "Local spans require the kind 'additive', 'dot', 'general' or 'concat'.",
        )

    @property
    def has_scores(self) -> bool:
        """``True`` if the attention weights are computed from scores, so that the alignment depends on the states."""
        return self.kind not in ("fixed", "mean", "none")


OUTPUTS = {
    "attend-then-update": ("maxout", "linear", "state"),
    "conditional": ("maxout", "linear", "state"),
    "update-then-attend": ("attentional", "state", "linear"),
    "self-attention": ("state",),
}
"""Outputs of each order. Registered orders and outputs combine with all others."""

DECODER_RULES = (
    Rule(
        "DecoderConfig.input_feeding",
        "False unless DecoderConfig.order is 'update-then-attend' and DecoderConfig.output is 'attentional'",
        lambda decoder: (
            not decoder.input_feeding
            or decoder.order in REGISTERED["decoder"]
            or (decoder.order == "update-then-attend" and decoder.output in ("attentional", *REGISTERED["output"]))
        ),
        "Input feeding passes the attentional vector to the next step.",
    ),
    *(
        Rule(
            "DecoderConfig.output",
            f"one of {', '.join(outputs)} with DecoderConfig.order {order!r}",
            lambda decoder, order=order, outputs=outputs: (
                decoder.order != order or decoder.output in (*outputs, *REGISTERED["output"])
            ),
        )
        for order, outputs in OUTPUTS.items()
    ),
    Rule(
        "DecoderConfig.output_state",
        "'current' with DecoderConfig.order {order!r}",
        lambda decoder: (
            decoder.order in ("attend-then-update", *REGISTERED["decoder"])
            or decoder.output not in ("maxout", "linear")
            or decoder.output_state == "current"
        ),
        "Set DecoderConfig.output_state to 'current'.",
    ),
    Rule(
        "DecoderConfig.shares_recurrence",
        "False with DecoderConfig.order {order!r}",
        lambda decoder: not decoder.shares_recurrence or decoder.order not in ("conditional", "self-attention"),
        "The decoder does not have one recurrent matrix.",
    ),
    Rule(
        "DecoderConfig.reads_words",
        "True with DecoderConfig.order 'self-attention'",
        lambda decoder: decoder.reads_words or decoder.order != "self-attention",
        "A self-attention decoder has no other target input.",
    ),
    Rule(
        "DecoderConfig.units",
        "a multiple of twice DecoderConfig.heads ({heads}) with DecoderConfig.order 'self-attention'",
        lambda decoder: decoder.order != "self-attention" or decoder.units % (2 * decoder.heads) == 0,
    ),
)


@dataclass(frozen=True)
class DecoderConfig:
    """Decoder, which generates target tokens."""

    order: DecoderOrder | str = "attend-then-update"
    """Structure of a decoder step. "attend-then-update": the context is computed before the new state (Bahdanau et al.
    2014). "conditional": a first cell reads the previous word, the context is computed from its state, and a second
    cell reads the context (conditional GRU of Sennrich et al. 2017). "update-then-attend": the context is computed
    after the new state (Luong et al. 2015). "self-attention": no recurrent state; each position of all
    layers attends to itself, to earlier target positions and to the source."""
    cell: CellName | str = "gru"
    """Recurrent cell. The choices are those of the encoder."""
    units: Count = 512
    """State size of each decoder layer."""
    layers: Count = 1
    """Number of stacked layers. With order "conditional", the first layer has two cells."""
    initial_state: Literal["backward", "forward", "both", "last", "mean", "zero"] = "backward"
    """Initial state s_0. "last": the encoder's last state of the same layer. "zero": the zero vector. The other values
    select x in s_0 = tanh(W x + b). "backward": backward state at the first token. "forward": forward state at the last
    token. "both": concatenation of these two. "mean": mean of the annotations."""
    reads_words: bool = True
    """If True, the embedding of the previous target token y_{i-1} is an input of the recurrent cell. False gives the
    plain RNN decoder of Stanford's cs224d, lecture 9."""
    input_feeding: bool = False
    """If True, the previous attentional vector is also an input of the recurrent cell. Requires order
    "update-then-attend" and output "attentional"."""
    shares_recurrence: bool = False
    """If True, encoder and decoder share one recurrent matrix. Both must have a single tanh layer of the same size, and
    the encoder must be unidirectional."""
    output: OutputName | str = "maxout"
    """Input of the softmax layer. "maxout": maxout units over state, context and previous word. "linear": concatenation
    of these three. "state": the state alone. "attentional": the attentional vector tanh(W_c [c ; h])."""
    output_state: Literal["previous", "current"] = "previous"
    """State that enters a "maxout" or "linear" output layer. "previous": s_{i-1} (Bahdanau et al. 2014, appendix).
    "current": s_i (their main text), the only choice with other orders."""
    output_units: Count = 256
    """Number of maxout units (l in Bahdanau et al.), or size of the attentional vector."""
    tie_embeddings: bool = False
    """If True, the target embedding is also the weight matrix of the softmax layer."""
    heads: Count = 4
    """Number of attention heads per layer. Self-attention decoders only."""
    max_positions: Count = 100
    """Maximum number of target tokens, including END. Self-attention decoders only."""

    def __post_init__(self) -> None:
        require_types(self)
        _require_registered("DecoderConfig.order", DecoderOrder, "decoder", self.order)
        _require_registered("DecoderConfig.cell", CellName, "cell", self.cell)
        _require_registered("DecoderConfig.output", OutputName, "output", self.output)
        require_rules(self, DECODER_RULES)


INITIAL_STATES = {
    "bidirectional": ("backward", "forward", "both", "mean", "zero"),
    "forward": ("forward", "last", "mean", "zero"),
    "backward": ("backward", "last", "mean", "zero"),
    "self-attention": ("mean", "zero"),
}
"""Initial states of a recurrent decoder, by the direction of a recurrent encoder or the kind of another one."""

_TIED = "{embedding_size}, the value of ModelConfig.embedding_size, with DecoderConfig.tie_embeddings"

MODEL_RULES = (
    Rule(
        "AttentionConfig.kind, AttentionConfig.span",
        "'dot' and 'global' with DecoderConfig.order 'self-attention'",
        lambda model: (
            model.decoder.order != "self-attention" or (model.attention.kind, model.attention.span) == ("dot", "global")
        ),
        "A self-attention decoder uses scaled dot products.",
    ),
    *(
        Rule(
            "DecoderConfig.initial_state",
            f"one of {', '.join(states)} with this encoder ({{encoder.kind}}, {{encoder.direction}})",
            lambda model, reading=reading, states=states: (
                model.decoder.order == "self-attention"
                or reading != (model.encoder.direction if model.encoder.kind == "recurrent" else model.encoder.kind)
                or model.decoder.initial_state in states
            ),
        )
        for reading, states in INITIAL_STATES.items()
    ),
    *(
        Rule(
            f"DecoderConfig.{name}",
            f"the encoder's value, {{encoder.{name}}}, with DecoderConfig.initial_state 'last'",
            lambda model, name=name: (
                model.decoder.initial_state != "last"
                or model.decoder.order == "self-attention"
                or getattr(model.decoder, name) == getattr(model.encoder, name)
            ),
        )
        for name in ("cell", "units", "layers")
    ),
    Rule(
        "DecoderConfig.units",
        "the annotation size {encoder.annotation_size} with AttentionConfig.kind 'dot'",
        lambda model: (
            model.attention.kind != "dot"
            or model.decoder.order == "self-attention"
            or model.decoder.units == model.encoder.annotation_size
        ),
        "The kind 'general' accepts any size.",
    ),
    Rule(
        "AttentionConfig.kind",
        "a kind other than 'fixed' and 'none' with a self-attention encoder",
        lambda model: model.encoder.kind == "recurrent" or model.attention.kind not in ("fixed", "none"),
        "A self-attention encoder has no last state.",
    ),
    Rule(
        "DecoderConfig.output",
        "'attentional' or 'linear' with DecoderConfig.order 'update-then-attend'",
        lambda model: (
            (model.decoder.order, model.decoder.output) != ("update-then-attend", "state")
            or model.attention.kind == "none"
        ),
        "The output 'state' ignores the context. For a model without context, set AttentionConfig.kind to 'none'.",
    ),
    Rule(
        "AttentionConfig.kind",
        "a kind other than 'none' with DecoderConfig.order 'conditional'",
        lambda model: (model.attention.kind, model.decoder.order) != ("none", "conditional"),
        "The second cell reads the context. For a model without context, set DecoderConfig.order to "
        "'attend-then-update' and DecoderConfig.output to 'state'.",
    ),
    Rule(
        "DecoderConfig.initial_state",
        "a value other than 'zero' with AttentionConfig.kind 'none'",
        lambda model: (model.attention.kind, model.decoder.initial_state) != ("none", "zero"),
        "Without attention, only the initial state depends on the source.",
    ),
    Rule(
        "DecoderConfig.output",
        "'state' with AttentionConfig.kind 'none'",
        lambda model: (
            model.attention.kind != "none"
            or model.decoder.order in REGISTERED["decoder"]
            or model.decoder.output in ("state", *REGISTERED["output"])
        ),
        "The other outputs require a context.",
    ),
    Rule(
        "DecoderConfig.output",
        "'maxout', 'state' or 'attentional' with DecoderConfig.tie_embeddings",
        lambda model: not model.decoder.tie_embeddings or model.decoder.output != "linear",
        "The features of 'linear' are wider than an embedding.",
    ),
    Rule(
        "DecoderConfig.units",
        _TIED,
        lambda model: (
            not model.decoder.tie_embeddings
            or model.decoder.output != "state"
            or model.decoder.units == model.embedding_size
        ),
    ),
    Rule(
        "DecoderConfig.output_units",
        _TIED,
        lambda model: (
            not model.decoder.tie_embeddings
            or model.decoder.output in ("state", *REGISTERED["output"])
            or model.decoder.output_units == model.embedding_size
        ),
    ),
    Rule(
        "DecoderConfig.shares_recurrence",
        "False unless encoder and decoder each have a single tanh layer of the same size and the encoder is "
        "unidirectional; the encoder has {encoder.layers} {encoder.direction} {encoder.cell} of size {encoder.units}, "
        "the decoder {decoder.layers} {decoder.cell} of size {decoder.units}",
        lambda model: (
            not model.decoder.shares_recurrence
            or (
                model.encoder.kind == "recurrent"
                and model.encoder.direction != "bidirectional"
                and model.encoder.cell == model.decoder.cell == "tanh"
                and model.encoder.layers == model.decoder.layers == 1
                and model.encoder.units == model.decoder.units
            )
        ),
    ),
)


@dataclass(frozen=True)
class ModelConfig:
    """Model of encoder, attention and decoder."""

    embedding_size: Count = 256
    """Size of the token embeddings of both sides."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """Encoder."""
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    """Attention."""
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    """Decoder."""
    dropout: Rate = 0.2
    """Dropout rate in [0, 1), applied to embeddings, between layers, and before the softmax."""
    output_dropout: Rate | None = None
    """Dropout rate before the softmax, in [0, 1); None for the rate ``dropout``."""
    recurrent_dropout: Rate = 0.0
    """Dropout rate of the recurrent state, in [0, 1). A sentence has the same mask in all steps."""
    initializer: Literal["glorot", "bahdanau", "uniform"] = "glorot"
    """Initial weights. "glorot": Glorot uniform, recurrent matrices orthogonal. "bahdanau": normal, recurrent matrices
    orthogonal (Bahdanau et al. 2014). "uniform": all weights uniform in [-0.1, 0.1]."""

    def __post_init__(self) -> None:
        require_types(self)
        require_rules(self, MODEL_RULES)

    def scaled(self, width: float) -> Self:
        """Returns the model with all sizes multiplied by ``width`` and rounded.

        Sizes of self-attention layers are rounded to a multiple of twice the number of heads. If a recurrent decoder
        uses dot-product attention, its units are set to the scaled annotation size. If the embeddings are tied to a
        built-in output layer, the embedding size is set to its scaled size.
        """
        require(0.0 < width <= 2**31, "width (--width)", "a positive number of at most 2^31", width)

        def times(size: int, multiple: int = 1) -> int:
            return max(multiple, multiple * round(width * size / multiple))

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
        if decoder.tie_embeddings and decoder.output not in REGISTERED["output"]:
            embedding_size = decoder.units if decoder.output == "state" else decoder.output_units
        attention = replace(attention, units=times(attention.units))
        return replace(self, embedding_size=embedding_size, encoder=encoder, attention=attention, decoder=decoder)
