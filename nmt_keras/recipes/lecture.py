"""Translation models of cs224d, lecture 9: a plain recurrent encoder-decoder and its five extensions.

    nmt train lecture-fed

The lecture gives equations but no sizes. This package chose tanh cells, 500 units, embeddings of size 256, 8,000 words
and Adam. Each of the extensions 1 to 4 builds on the one before it. Extension 5 builds on extension 3, because a
reversed source requires a unidirectional encoder. The objective is the lecture's: 1/N SUM_n log p(y_n | x_n) over N
sentence pairs.
"""

from dataclasses import replace

from nmt_keras.config import (
    AttentionConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    Recipe,
    TokenizerConfig,
    TrainConfig,
)

_WORDS = TokenizerConfig(kind="word", vocabulary_size=8_000)

LECTURE_RNN = Recipe(
    name="lecture-rnn",
    source=_WORDS,
    target=_WORDS,
    model=ModelConfig(
        embedding_size=256,
        encoder=EncoderConfig(cell="tanh", units=500, direction="forward"),
        attention=AttentionConfig(kind="none"),
        decoder=DecoderConfig(
            order="attend-then-update",
            cell="tanh",
            units=500,
            initial_state="last",
            reads_words=False,
            shares_recurrence=True,
            output="state",
            output_state="current",
        ),
        dropout=0.0,
    ),
    train=TrainConfig(minutes=10.0, learning_rate=1e-3, label_smoothing=0.0, denominator="sentences"),
)
"""Encoder: h_t = f(W^(hh) h_{t-1} + W^(hx) x_t). Decoder: h_t = f(W^(hh) h_{t-1}) and y = softmax(W^(S) h_t), with the
encoder's W^(hh)."""

LECTURE_SEPARATE = replace(
    LECTURE_RNN,
    name="lecture-separate",
    model=replace(LECTURE_RNN.model, decoder=replace(LECTURE_RNN.model.decoder, shares_recurrence=False)),
)
"""Extension 1: separate weights for encoder and decoder."""

LECTURE_FED = replace(
    LECTURE_SEPARATE,
    name="lecture-fed",
    model=replace(
        LECTURE_SEPARATE.model,
        attention=AttentionConfig(kind="fixed"),
        decoder=replace(LECTURE_SEPARATE.model.decoder, reads_words=True),
    ),
)
"""Extension 2: each decoder state is computed from h_{t-1}, c = h_T and y_{t-1}."""

LECTURE_DEEP = replace(
    LECTURE_FED,
    name="lecture-deep",
    model=replace(
        LECTURE_FED.model,
        encoder=replace(LECTURE_FED.model.encoder, layers=2),
        decoder=replace(LECTURE_FED.model.decoder, layers=2),
    ),
)
"""Extension 3: stacked layers."""

LECTURE_BIDIRECTIONAL = replace(
    LECTURE_DEEP,
    name="lecture-bidirectional",
    model=replace(
        LECTURE_DEEP.model,
        encoder=replace(LECTURE_DEEP.model.encoder, direction="bidirectional"),
        decoder=replace(LECTURE_DEEP.model.decoder, initial_state="both"),
    ),
)
"""Extension 4: a bidirectional encoder. Two more things change with it: c has the last states of both directions, and
the decoder's initial state is computed from both."""

LECTURE_REVERSED = replace(
    LECTURE_DEEP,
    name="lecture-reversed",
    model=replace(LECTURE_DEEP.model, encoder=replace(LECTURE_DEEP.model.encoder, direction="backward")),
)
"""Extension 5: reversed source."""
