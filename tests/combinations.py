"""Configurations that together contain every layer and every way to connect them.

Widths are distinct primes wherever the layers allow it.
"""

from nmt_keras.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig


def luong(encoder=None, attention=None, decoder=None, **whole):
    """Returns a small version of Luong's model.

    Encoder and decoder have two LSTM layers each. The encoder reads the source backward, and its last states are the
    decoder's initial states.
    """
    return ModelConfig(
        5,
        EncoderConfig(**{"units": 7, "direction": "backward", "cell": "lstm", "layers": 2, **(encoder or {})}),
        AttentionConfig(**{"units": 13, **(attention or {})}),
        DecoderConfig(
            **{
                "order": "update-then-attend",
                "cell": "lstm",
                "units": 7,
                "layers": 2,
                "initial_state": "last",
                "output": "attentional",
                "output_units": 17,
                **(decoder or {}),
            }
        ),
        **whole,
    )


COMBINATIONS = {
    "rnnsearch": ModelConfig(
        5, EncoderConfig(units=7), AttentionConfig(units=13), DecoderConfig(units=11, output_units=17)
    ),
    "rnnsearch-deep": ModelConfig(
        5,
        EncoderConfig(units=7, layers=2, cell="gru-reset-after"),
        AttentionConfig(units=13),
        DecoderConfig(
            units=11,
            output_units=17,
            layers=3,
            output_state="current",
            cell="lstm",
            initial_state="both",
        ),
        recurrent_dropout=0.3,
    ),
    "rnnsearch-linear": ModelConfig(
        5,
        EncoderConfig(units=7, cell="tanh", word_projection=True),
        AttentionConfig("general"),
        DecoderConfig(units=11, output="linear", output_state="current", initial_state="mean", cell="tanh"),
    ),
    "rnnsearch-local-p": ModelConfig(
        5,
        EncoderConfig(units=7, cell="lstm"),
        AttentionConfig("additive", "local-p", units=13, window=2),
        DecoderConfig(units=11, output_units=5, tie_embeddings=True, initial_state="zero", cell="gru-reset-after"),
    ),
    "conditional": ModelConfig(
        5,
        EncoderConfig(units=7),
        AttentionConfig(units=13),
        DecoderConfig("conditional", units=11, output_units=17, output_state="current"),
    ),
    "conditional-deep": ModelConfig(
        5,
        EncoderConfig(units=7, cell="gru-layer-norm"),
        AttentionConfig("general", "local-p", units=13, window=2),
        DecoderConfig("conditional", "lstm", 11, layers=2, output="linear", output_state="current"),
        recurrent_dropout=0.3,
    ),
    "conditional-fixed": ModelConfig(
        5,
        EncoderConfig(units=7, direction="forward"),
        AttentionConfig("fixed"),
        DecoderConfig("conditional", "gru-layer-norm", 11, initial_state="forward", reads_words=False, output="state"),
    ),
    "rnnencdec": ModelConfig(
        5,
        EncoderConfig(units=7, direction="forward"),
        AttentionConfig("fixed"),
        DecoderConfig(units=11, output_units=17, initial_state="forward"),
    ),
    "rnnencdec-both": ModelConfig(
        5,
        EncoderConfig(units=7, cell="lstm"),
        AttentionConfig("fixed"),
        DecoderConfig(units=11, output_units=17, initial_state="backward", layers=2, output_state="current"),
    ),
    "rnnencdec-mean": ModelConfig(
        5,
        EncoderConfig(units=7),
        AttentionConfig("mean"),
        DecoderConfig(units=11, output_units=17),
    ),
    "luong-base": luong({"direction": "forward"}, {"kind": "none"}, {"output": "state"}, recurrent_dropout=0.3),
    "luong-location": luong(attention={"kind": "location", "max_source_positions": 3}),
    "luong-feed": luong(
        attention={"kind": "dot"}, decoder={"output_units": 5, "input_feeding": True, "tie_embeddings": True}
    ),
    "luong-local-m": luong(
        attention={"kind": "concat", "span": "local-m", "window": 1}, decoder={"input_feeding": True}
    ),
    "luong-local-p": luong(attention={"kind": "general", "span": "local-p", "window": 1}),
    "luong-local-p-wide": luong(attention={"kind": "concat", "span": "local-p", "window": 4}),
    "luong-linear": luong(
        {"cell": "gru", "layers": 1},
        {"kind": "additive"},
        {"cell": "gru", "layers": 1, "output": "linear", "output_state": "current"},
    ),
    "lecture": ModelConfig(
        5,
        EncoderConfig(units=7, direction="forward", cell="tanh"),
        AttentionConfig("none"),
        DecoderConfig(
            "update-then-attend",
            "tanh",
            7,
            initial_state="last",
            output="state",
            reads_words=False,
            shares_recurrence=True,
        ),
    ),
    "lecture-fed": ModelConfig(
        5,
        EncoderConfig(units=7, direction="forward", cell="tanh"),
        AttentionConfig("fixed"),
        DecoderConfig("attend-then-update", "tanh", 7, initial_state="last", output="state", output_state="current"),
    ),
    "self-attention": ModelConfig(
        5,
        EncoderConfig("self-attention", units=12, heads=3, layers=2),
        AttentionConfig("dot"),
        DecoderConfig("self-attention", units=8, heads=2, layers=2, output="state", max_positions=11),
    ),
    "self-attention-recurrent": ModelConfig(
        5,
        EncoderConfig("self-attention", units=12, heads=3, layers=1),
        AttentionConfig("additive", units=13),
        DecoderConfig(units=11, output_units=17, initial_state="mean"),
    ),
}
"""Model configurations by name: Bahdanau's and Luong's orders, the papers' recipes, and each option of a recipe."""
