"""The model of the TensorFlow Spanish-English tutorial, without its faults.

    nmt train tutorial

What it says and this holds: accents stripped, lower case; embeddings of 256, GRUs of 1024 on both sides, additive
attention, a softmax over the state alone; Adam at Keras's rate, batches of 64, 10 epochs; the first 30,000 pairs, 80 %
of them to train on; a row of the log every 100 batches, a validation and a checkpoint every 2 epochs. All epochs are
gone through; of the five checkpoints the best is kept beside the last.

Departures, each a fault mended: attention and loss leave padding out; the encoder's state is the one at the last token,
the decoder begins with it; the split keeps pairs with one English sentence on one side, and is seeded; vocabularies are
learnt from the training part; digits, quotes and inverted marks are kept, unknown words are UNK.
"""

from __future__ import annotations

from nmt_keras.config import (
    AttentionConfig,
    CorpusConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    Recipe,
    TokenizerConfig,
    TrainConfig,
)

_WORDS = TokenizerConfig(kind="word", vocabulary_size=20_000, lowercase=True, strip_accents=True)

TUTORIAL = Recipe(
    name="tutorial",
    source=_WORDS,
    target=_WORDS,
    corpus=CorpusConfig(first=30_000, split="shuffled-groups"),
    model=ModelConfig(
        embedding_size=256,
        encoder=EncoderConfig(cell="gru-reset-after", units=1024, direction="forward"),
        attention=AttentionConfig(kind="additive", units=1024),
        decoder=DecoderConfig(
            order="attend-then-update", cell="gru-reset-after", units=1024, initial_state="last", output="state"
        ),
        dropout=0.0,
    ),
    train=TrainConfig(
        minutes=None,
        epochs=10.0,
        batch_size=64,
        learning_rate=1e-3,
        warmup_steps=0,
        decay="constant",
        beta_2=0.999,
        epsilon=1e-7,
        clip_norm=None,
        label_smoothing=0.0,
        log_every=100,
        validations=5,
        patience=5,
    ),
)
