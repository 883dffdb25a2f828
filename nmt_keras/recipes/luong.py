"""Systems of Luong, Pham, Manning 2015. Up to luong-feed, each recipe adds one technique.

    nmt train luong-feed --corpus pairs.tsv

As in the paper, except in ``luong-dot-small`` and ``luong-general-small``:

- 4 stacked LSTM layers of 1000 cells, embeddings of size 1000, 50,000 words, windows of D = 10, source reversed
- all weights uniform in [-0.1, 0.1]
- plain SGD at rate 1 for 10 epochs, halved in every epoch after the 5th
- with dropout 0.2: 12 epochs, halved in every epoch after the 8th
- batches of 128, gradients rescaled if their norm exceeds 5, no sentences over 50 words
- no attention in "base"; the input of its softmax layer is h_t

Differences from the paper:

- the corpus (WMT14 English-German in the paper) and the tokenizer
- a reversed source begins with its END
- products have biases
- the loss is averaged over sentences; the learning rate and the gradient norm refer to this average
"""

from dataclasses import replace
from typing import Literal

from nmt_keras.config import (
    AttentionConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    Recipe,
    TokenizerConfig,
    TrainConfig,
)
from nmt_keras.recipes.rnnsearch import SPANISH_ENGLISH

_WORDS = TokenizerConfig(kind="word", vocabulary_size=50_000 + 4)

_TRAIN = TrainConfig(
    minutes=None,
    epochs=10.0,
    batch_size=128,
    max_tokens=50 + 1,  # 50 words and END
    optimizer="sgd",
    learning_rate=1.0,
    warmup_steps=0,
    decay="halving",
    halve_from=5 / 10,
    halve_every=1 / 10,
    clip_norm=5.0,
    label_smoothing=0.0,
    denominator="sentences",
    patience=8,  # the number of validations, so training never stops early
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
"""Stacked LSTMs. The decoder receives only the encoder's last states."""

LUONG_REVERSE = replace(
    LUONG_BASE,
    name="luong-reverse",
    model=replace(LUONG_BASE.model, encoder=replace(LUONG_BASE.model.encoder, direction="backward")),
)
"""luong-base with reversed source."""

LUONG_DROPOUT = replace(
    LUONG_REVERSE,
    name="luong-dropout",
    model=replace(LUONG_REVERSE.model, dropout=0.2),
    train=replace(_TRAIN, epochs=12.0, halve_from=8 / 12, halve_every=1 / 12),
)
"""luong-reverse with dropout 0.2."""


def _attending(name: str, attention: AttentionConfig, input_feeding: bool) -> Recipe:
    model = LUONG_DROPOUT.model
    decoder = replace(model.decoder, output="attentional", output_units=1000, input_feeding=input_feeding)
    return replace(LUONG_DROPOUT, name=name, model=replace(model, attention=attention, decoder=decoder))


LUONG_LOCATION = _attending("luong-location", AttentionConfig("location", max_source_positions=51), False)
"""luong-dropout with global attention, location score."""
LUONG_FEED = _attending("luong-feed", AttentionConfig("location", max_source_positions=51), True)
"""luong-location with input feeding."""
LUONG_DOT = _attending("luong-dot", AttentionConfig("dot"), True)
"""Global attention with the dot score, and input feeding."""
LUONG_GENERAL = _attending("luong-general", AttentionConfig("general"), True)
"""Global attention with the general score, and input feeding."""
LUONG_CONCAT = _attending("luong-concat", AttentionConfig("concat", units=1000), True)
"""Global attention with the concat score, and input feeding."""
LUONG_LOCAL_M = _attending("luong-local-m", AttentionConfig("general", span="local-m", window=10), True)
"""Monotonic local attention with the general score, and input feeding."""
LUONG_LOCAL_P = _attending(
    "luong-local-p",
    AttentionConfig("general", span="local-p", units=1000, window=10, position_logit="sum"),
    True,
)
"""Predictive local attention with the general score, and input feeding. The paper's best single model."""

LUONG_REPLACE = replace(
    LUONG_LOCAL_P, name="luong-replace", search=replace(LUONG_LOCAL_P.search, replaces_unknown=True)
)
"""luong-local-p with unknown words replaced through the alignment.

To translate with an ensemble, load several finished runs with ``nmt_keras.load(*runs)``.
"""


def _small(name: str, kind: Literal["dot", "general"]) -> Recipe:
    model = SPANISH_ENGLISH.model
    decoder = replace(model.decoder, order="update-then-attend", output="attentional", input_feeding=True)
    return replace(
        SPANISH_ENGLISH,
        name=name,
        model=replace(model, attention=AttentionConfig(kind), decoder=decoder),
        train=replace(SPANISH_ENGLISH.train, learning_rate=3e-3),
    )


LUONG_DOT_SMALL = _small("luong-dot-small", "dot")
"""Luong's decoder beside ``rnnsearch-small``: the same encoder, sizes and training at half the learning rate.

    nmt compare rnnsearch-small luong-dot-small luong-general-small --corpus sample --updates 1000 --to comparison

It updates its state before it attends, feeds the attentional vector back, and has the dot score.
"""
LUONG_GENERAL_SMALL = _small("luong-general-small", "general")
"""luong-dot-small with the general score."""
