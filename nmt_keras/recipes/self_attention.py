"""Self-attention in encoder and decoder, as explained in the text of the TensorFlow tutorial.

    nmt train self-attention

Each annotation is computed from all source words at once. Each decoder state is computed from all earlier target words.
Layers, heads, positions and schedule are those of Vaswani et al. 2017, in a small size:

- sublayers with residual connections, layer normalisation and dropout
- sinusoidal positions
- a learning rate that grows linearly and then falls as 1 / sqrt(step)

Differences from that paper:

- layer normalisation precedes each sublayer and the softmax layer
- dropout also of the softmax layer's input
- the softmax layer and the two embeddings have weights of their own
- the peak learning rate is a constant, Adam has epsilon 1e-8 instead of 1e-9, and gradients have a norm of at most 1
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

_PIECES = TokenizerConfig(kind="subword", vocabulary_size=4000)

SELF_ATTENTION = Recipe(
    name="self-attention",
    source=_PIECES,
    target=_PIECES,
    model=ModelConfig(
        embedding_size=256,
        encoder=EncoderConfig(kind="self-attention", units=256, layers=3, heads=4),
        attention=AttentionConfig(kind="dot"),
        decoder=DecoderConfig(order="self-attention", units=256, layers=3, heads=4, output="state"),
        dropout=0.1,
    ),
    train=TrainConfig(minutes=60.0, learning_rate=1e-3, warmup_steps=1000, decay="inverse-sqrt"),
)
"""Three encoder layers and three decoder layers."""
