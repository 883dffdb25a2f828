"""RNNsearch (Bahdanau, Cho, Bengio 2014) in smaller sizes than the paper's, also with a conditional GRU."""

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

SPANISH_ENGLISH = Recipe(
    name="rnnsearch-small",
    source=TokenizerConfig(kind="subword", vocabulary_size=4000),
    target=TokenizerConfig(kind="subword", vocabulary_size=4000),
    model=ModelConfig(
        embedding_size=160,
        encoder=EncoderConfig(units=128, word_projection=True),
        attention=AttentionConfig(units=160),
        decoder=DecoderConfig(units=256, output_units=160, output_state="current"),
        dropout=0.0,
    ),
    train=TrainConfig(
        minutes=10.0,
        batch_size=64,
        length_buckets=8,
        learning_rate=6e-3,
        warmup_steps=100,
        decay="linear",
        label_smoothing=0.1,
        augmentation=0.3,
        validations=2,
    ),
)
"""RNNsearch at sizes that train in ten minutes on two cores.

    nmt train rnnsearch-small

Differences from the paper:

- 4,000 subwords instead of 30,000 words
- changes for a training time of a thousandth of the paper's: Adam with a rate that falls to 0 instead of Adadelta,
  label smoothing, batches of 64, and Glorot and orthogonal initial weights instead of N(0, 0.01^2)
- the output layer reads s_i, as in the paper's main text, instead of s_{i-1}
- each annotation includes a linear projection of its word's embedding
"""

CONDITIONAL_GRU = replace(
    SPANISH_ENGLISH,
    name="conditional-gru",
    model=replace(SPANISH_ENGLISH.model, decoder=replace(SPANISH_ENGLISH.model.decoder, order="conditional")),
)
"""The recipe ``rnnsearch-small`` with a conditional GRU (Nematus: Sennrich et al. 2017).

    nmt train conditional-gru

``nmt train`` trains it, unless a recipe or the corpus "sample" is given. The query of the attention depends on the
previous word. In ten minutes on two cores, its test BLEU with greedy search was 51.65 on Spanish-English before pairs
were varied, and that of ``rnnsearch-small`` 48.2 (one run each).

Differences from Nematus: those of ``rnnsearch-small`` from its paper, and

- each GRU applies its reset gate before the recurrent product
- s_0 is computed from the last state of the backward encoder, instead of the mean annotation
- the output layer has maxout units, instead of a hidden layer with tanh
"""

_WIDE = CONDITIONAL_GRU.model.scaled(1.5)

SMALL_CORPUS = replace(
    CONDITIONAL_GRU,
    name="small-corpus",
    model=replace(
        _WIDE,
        encoder=replace(_WIDE.encoder, cell="gru-layer-norm"),
        decoder=replace(_WIDE.decoder, cell="gru-layer-norm", tie_embeddings=True),
        dropout=0.4,
        recurrent_dropout=0.2,
    ),
    train=replace(
        CONDITIONAL_GRU.train,
        minutes=None,
        epochs=34.0,
        learning_rate=3e-3,
        validations=34,
        validation_sentences=1000,
        patience=12,
        select_by="bleu",
    ),
)
"""The recipe ``conditional-gru`` for up to 60,000 pairs.

    nmt train small-corpus --corpus pairs.tsv

A small corpus is seen in many epochs, so this recipe has dropout and recurrent dropout, which allow wider layers. Its
cells have layer normalisation, and the output layer uses the embeddings of the target words (Press and Wolf 2017).
The checkpoint with the highest validation BLEU is used, because BLEU can rise for long after the validation loss has
stopped falling. Training stops early if BLEU does not rise in twelve validations, one per epoch. With ``--width 0.667
--model.dropout 0.3 --epochs 17``, it takes three tenths of the time and loses 2.5 BLEU with 10,000 pairs.
"""

SAMPLE = Recipe(
    name="sample",
    source=TokenizerConfig(kind="word", vocabulary_size=1000, max_tokens=40),
    target=TokenizerConfig(kind="word", vocabulary_size=1000, max_tokens=40),
    model=ModelConfig(
        embedding_size=64,
        encoder=EncoderConfig(units=96, word_projection=True),
        attention=AttentionConfig(units=96),
        decoder=DecoderConfig(units=192, output_units=96, output_state="current"),
        dropout=0.1,
    ),
    train=TrainConfig(
        steps=1000,
        minutes=None,
        batch_size=64,
        length_buckets=3,
        learning_rate=4e-3,
        warmup_steps=100,
        label_smoothing=0.05,
        validations=4,
    ),
)
"""RNNsearch for the built-in sample corpus. It trains in at most three minutes on two cores."""

_PIECES = TokenizerConfig(kind="subword", vocabulary_size=16_000, max_tokens=100)

BASE = Recipe(
    name="rnnsearch-base",
    source=_PIECES,
    target=_PIECES,
    model=ModelConfig(
        embedding_size=256,
        encoder=EncoderConfig(cell="gru-reset-after", units=512),
        attention=AttentionConfig(units=512),
        decoder=DecoderConfig(cell="gru-reset-after", units=512, output_units=256, output_state="current"),
        dropout=0.2,
    ),
    train=TrainConfig(
        epochs=10.0,
        minutes=None,
        batch_tokens=4096,
        max_tokens=100,
        learning_rate=2e-3,
        warmup_steps=400,
        label_smoothing=0.1,
        augmentation=0.3,
        validations=10,
    ),
    search=SearchConfig(max_tokens=100),
)
"""RNNsearch at half the paper's sizes, for hundreds of thousands to millions of pairs of up to 100 subwords.

    nmt train rnnsearch-base --corpus pairs.tsv

Differences from the paper:

- 16,000 subwords instead of 30,000 words
- Adam with a rate that falls to 0 along a cosine instead of Adadelta, label smoothing, dropout
- batches of 4,096 target positions instead of 80 sentences, which bounds the memory of the logits
- the GRU applies its reset gate after the recurrent product, as in cuDNN
- the output layer reads s_i, as in the paper's main text
"""
