"""The ladder of Luong, Pham, Manning 2015: each recipe adds one thing to the one before it.

    nmt train luong-feed --corpus pairs.tsv

What the paper says and these hold: 4 stacked LSTM layers of 1000 cells, embeddings of 1000; all weights uniform in
[-0.1, 0.1]; plain SGD at rate 1, 10 epochs, the rate halved in every epoch after the 5th, with dropout 0.2 12 epochs
and after the 8th; batches of 128; gradients rescaled when their norm exceeds 5; 50,000 words; sentences over 50 words
left out; the source reversed; windows of D = 10.

Departures: "base" has no attention at all, as there; its softmax sees h_t itself. A reversed source begins with its
END. Products have biases. The loss is averaged over sentences, to which rate and norms refer. The corpus (WMT14
English-German there); the tokenizer.
"""

from __future__ import annotations

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

_WORDS = TokenizerConfig(kind="word", vocabulary_size=50_000 + 4)

_TRAIN = TrainConfig(
    minutes=None,
    epochs=10.0,
    batch_size=128,
    max_tokens=50 + 1,  # and END
    optimizer="sgd",
    learning_rate=1.0,
    warmup_steps=0,
    decay="halving",
    halve_from=5 / 10,
    halve_every=1 / 10,
    clip_norm=5.0,
    label_smoothing=0.0,
    denominator="sentences",
    patience=8,  # validations, as many as there are: all epochs are gone through
)

LUONG_BASE = Recipe(
    name="luong-base",
    source=_WORDS,
    target=_WORDS,
    model=ModelConfig(
        embedding_size=1000,
        encoder=EncoderConfig(cell="lstm", units=1000, layers=4, direction="forward"),
        attention=AttentionConfig(kind="none"),
        decoder=DecoderConfig(
            order="update-then-attend", cell="lstm", units=1000, layers=4, initial_state="last", output="state"
        ),
        dropout=0.0,
        initializer="uniform",
    ),
    train=_TRAIN,
)
"""Stacked LSTMs; the encoder's last states are all that the decoder knows of the source."""

LUONG_REVERSE = replace(
    LUONG_BASE,
    name="luong-reverse",
    model=replace(LUONG_BASE.model, encoder=replace(LUONG_BASE.model.encoder, direction="backward")),
)
"""+ the source reversed."""

LUONG_DROPOUT = replace(
    LUONG_REVERSE,
    name="luong-dropout",
    model=replace(LUONG_REVERSE.model, dropout=0.2),
    train=replace(_TRAIN, epochs=12.0, halve_from=8 / 12, halve_every=1 / 12),
)
"""+ dropout 0.2."""


def _attending(name: str, attention: AttentionConfig, input_feeding: bool) -> Recipe:
    model = LUONG_DROPOUT.model
    decoder = replace(model.decoder, output="attentional", output_units=1000, input_feeding=input_feeding)
    return replace(LUONG_DROPOUT, name=name, model=replace(model, attention=attention, decoder=decoder))


LUONG_LOCATION = _attending("luong-location", AttentionConfig("location", max_source_positions=51), False)
"""+ global attention, location score."""
LUONG_FEED = _attending("luong-feed", AttentionConfig("location", max_source_positions=51), True)
"""+ input feeding."""
LUONG_GENERAL = _attending("luong-general", AttentionConfig("general"), True)
"""Global attention with the general score, and input feeding."""
LUONG_LOCAL_M = _attending("luong-local-m", AttentionConfig("general", span="local-m", window=10), True)
"""Monotonic local attention with the general score, and input feeding."""
LUONG_LOCAL_P = _attending("luong-local-p", AttentionConfig("general", span="local-p", units=1000, window=10), True)
"""Predictive local attention with the general score, and input feeding: the paper's best single model."""

LUONG_REPLACE = replace(
    LUONG_LOCAL_P, name="luong-replace", search=replace(LUONG_LOCAL_P.search, replaces_unknown=True)
)
"""+ unknown words replaced through the alignment. (Ensembles are made of finished runs: ``nmt_keras.load(*runs)``.)"""
