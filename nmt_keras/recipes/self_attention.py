"""Self-attention in the encoder and in the decoder, as the TensorFlow tutorial's text explains it.

    nmt train self-attention

Each annotation is computed from all words of the source in one step, and each decoder state from all earlier target
words. Layers, heads, positions and schedule are those of Vaswani et al. 2017, in a small size:

- sublayers with residual connections, layer normalization and dropout
- sinusoids as positions
- a rate that grows linearly and then falls as 1 / sqrt(step)

Differences from that paper: layer normalization stands before each sublayer, and Adam's rate is a fixed peak.
"""

from __future__ import annotations

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
"""Three layers on each side."""
