"""RNNencdec (Cho et al. 2014) and RNNsearch at the sizes of Bahdanau, Cho, Bengio 2014.

    nmt train rnnsearch-50 --corpus pairs.tsv

As in the paper:

- n = 1000 hidden units, embeddings of size m = 620, l = 500 maxout units, n' = 1000 alignment units, 30,000 words
- initial weights: recurrent matrices orthogonal, W_a and U_a N(0, 0.001^2), v_a and biases 0, all others N(0, 0.01^2)
- Adadelta with eps 1e-6 and rho 0.95, gradients clipped at norm 1, the epochs of table 2
- batches of 80 sentences, cut from pools of 1,600 sentences sorted by length
- a loss per sentence, averaged over the batch
- no lower-casing or stemming
- beam search; the beam size 12 is that of the authors' code, because the paper gives no beam size

Differences from the paper:

- the corpus (WMT14 English-French in the paper)
- this package's word tokenizer instead of Moses's
- static batch shapes, so sentences are sorted by length bucket
- hypotheses are ranked by the mean of log p over their tokens; the paper looks for the highest log p
  (``--search.length-alpha 0``)
"""

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
"""RNNencdec: the same decoder with the forward encoder's last state as its only context."""


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
            max_tokens=words + 1,  # the words and END
            optimizer="adadelta",
            learning_rate=1.0,
            warmup_steps=0,
            decay="constant",
            rho=0.95,
            epsilon=1e-6,
            clip_norm=1.0,
            label_smoothing=0.0,
            denominator="sentences",
            patience=8,  # the number of validations, so training never stops early
        ),
        search=SearchConfig(beam_size=12),
    )


RNNENCDEC_30 = _recipe("rnnencdec-30", _ENCDEC, 30, 6.4)
"""RNNencdec, trained on sentences of up to 30 words."""
RNNENCDEC_50 = _recipe("rnnencdec-50", _ENCDEC, 50, 4.5)
"""RNNencdec, trained on sentences of up to 50 words."""
RNNSEARCH_30 = _recipe("rnnsearch-30", _SEARCH, 30, 3.6)
"""RNNsearch, trained on sentences of up to 30 words."""
RNNSEARCH_50 = _recipe("rnnsearch-50", _SEARCH, 50, 2.2)
"""RNNsearch, trained on sentences of up to 50 words."""
