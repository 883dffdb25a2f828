"""Model of the TensorFlow Spanish-English tutorial, with corrections.

    nmt train tutorial

As in the tutorial:

- lower case without accents
- embeddings of size 256, GRUs of 1024 units on both sides, additive attention, and a softmax layer whose only input is
  the state
- Adam at its default rate of 0.001, with the epsilon of the first edition's `tf.train.AdamOptimizer` (Keras: 1e-7),
  batches of 64, 10 epochs without early stopping
- a loss per sentence, averaged over the batch
- the first 30,000 pairs, 80 % of them for training; of the others, half are for validation and half for testing
- a log row every 100 batches, a validation and a checkpoint every 2 epochs; the best and last checkpoints are kept

Corrections:

- attention and loss ignore padding
- the decoder's initial state is the encoder's state at the last token, not at padding
- the split is seeded and keeps pairs with the same English sentence in the same set
- vocabularies are learnt from the training set
- digits, quotes and inverted punctuation (¿ ¡) are kept, and unknown words become UNK

Differences:

- initial recurrent matrices are orthogonal, not Glorot uniform
- the attention score has no biases, and v_a is drawn from a normal distribution, not Glorot uniform
- sources do not begin with START
- word ids are ordered by count
- batches have sentences of similar lengths
"""

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
        clip_norm=None,
        label_smoothing=0.0,
        denominator="sentences",
        log_every=100,
        validations=5,
        patience=5,
    ),
)
"""The tutorial's model and training, with the corrections above."""
