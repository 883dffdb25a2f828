"""RNNencdec and RNNsearch at the sizes of Bahdanau, Cho, Bengio 2014; the first is Cho et al. 2014's model.

    nmt train rnnsearch-50 --corpus pairs.tsv

What the paper says and these hold: n = 1000 hidden units, m = 620 for embeddings, l = 500 maxout units, n' = 1000
alignment units, 30,000 words; recurrent matrices orthogonal, W_a and U_a N(0, 0.001^2), v_a and biases 0, the rest
N(0, 0.01^2); Adadelta with eps 1e-6 and rho 0.95, gradients cut at norm 1; batches of 80 sentences, drawn 1,600 at a
time and sorted by length; the cost of a sentence, averaged over the batch; nothing lower-cased or stemmed; epochs as
its table 2 has them. Beam search; its width, which the paper does not say, is the 12 of its authors' code.

Departures, all of them ours: the corpus (WMT14 English-French there); words are cut by this package's tokenizer, not by
Moses's; batches have static shapes, so that sentences are sorted by the shape that holds them.
"""

from __future__ import annotations

from dataclasses import replace

from nmt_keras.config import (
    AttentionConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    Recipe,
    SearchConfig,
    TokenizerConfig,
    TrainConfig,
)

_WORDS = TokenizerConfig(kind="word", vocabulary_size=30_000 + 4)

_SEARCH = ModelConfig(
    embedding_size=620,
    encoder=EncoderConfig(cell="gru", units=1000, direction="bidirectional"),
    attention=AttentionConfig(kind="additive", units=1000),
    decoder=DecoderConfig(
        order="attend-then-update",
        cell="gru",
        units=1000,
        initial_state="backward",
        output="maxout",
        output_state="previous",
        output_units=500,
    ),
    dropout=0.0,
    initializer="bahdanau",
)

_ENCDEC = replace(
    _SEARCH,
    encoder=replace(_SEARCH.encoder, direction="forward"),
    attention=replace(_SEARCH.attention, kind="fixed"),
    decoder=replace(_SEARCH.decoder, initial_state="forward"),
)
"""The same decoder with one context, the forward encoder's last state."""


def _recipe(name: str, model: ModelConfig, words: int, epochs: float) -> Recipe:
    return Recipe(
        name=name,
        source=_WORDS,
        target=_WORDS,
        model=model,
        train=TrainConfig(
            minutes=None,
            epochs=epochs,
            batch_size=80,
            pool_size=1600,
            max_tokens=words + 1,  # and END
            optimizer="adadelta",
            learning_rate=1.0,
            warmup_steps=0,
            decay="constant",
            rho=0.95,
            epsilon=1e-6,
            clip_norm=1.0,
            label_smoothing=0.0,
            denominator="sentences",
            patience=8,  # validations, as many as there are: all epochs are gone through
        ),
        search=SearchConfig(beam_size=12),
    )


RNNENCDEC_30 = _recipe("rnnencdec-30", _ENCDEC, 30, 6.4)
"""Trained on sentences of up to 30 words."""
RNNENCDEC_50 = _recipe("rnnencdec-50", _ENCDEC, 50, 4.5)
"""Trained on sentences of up to 50 words."""
RNNSEARCH_30 = _recipe("rnnsearch-30", _SEARCH, 30, 3.6)
"""Trained on sentences of up to 30 words."""
RNNSEARCH_50 = _recipe("rnnsearch-50", _SEARCH, 50, 2.2)
"""Trained on sentences of up to 50 words."""
