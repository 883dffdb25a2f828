"""RNNsearch as in a PyTorch implementation.

    nmt train rnnsearch-pytorch

As in that implementation:

- s_0 = tanh(fc([forward last ; backward last]))
- the output layer is linear over [s_i ; c_i ; e(y_{i-1})]
- dropout on the embeddings alone
- additive attention with s_{i-1}, before the update of the state
- the GRU applies its reset gate after the recurrent product

Differences:

- corrections: padding gets no attention, U_a h is computed once per sentence, and v_a starts at 0
- initial weights of Bahdanau et al.: N(0, 0.01^2), orthogonal recurrent matrices
- the attention score has no bias
- every decoder input is the reference's token; there, with probability 0.5, it is the model's own
- Adam's rate warms up and falls; there, it is constant
- sizes and vocabulary are this package's choice
"""

from nmt_keras.config import (
    AttentionConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    Recipe,
    TokenizerConfig,
    TrainConfig,
)

_WORDS = TokenizerConfig(kind="word", vocabulary_size=10_000)

RNNSEARCH_PYTORCH = Recipe(
    name="rnnsearch-pytorch",
    source=_WORDS,
    target=_WORDS,
    model=ModelConfig(
        embedding_size=256,
        encoder=EncoderConfig(cell="gru-reset-after", units=512),
        attention=AttentionConfig(kind="additive", units=512),
        decoder=DecoderConfig(
            order="attend-then-update",
            cell="gru-reset-after",
            units=512,
            initial_state="both",
            output="linear",
            output_state="current",
        ),
        dropout=0.5,
        output_dropout=0.0,
        initializer="bahdanau",
    ),
    train=TrainConfig(
        minutes=None,
        epochs=10.0,
        batch_size=128,
        learning_rate=1e-3,
        label_smoothing=0.0,
    ),
)
"""Bidirectional encoder, additive attention, linear output layer."""
