"""Self-attention: positions that attend to each other in one step (Vaswani et al. 2017)."""

from typing import NamedTuple

import keras
import tensorflow as tf

from nmt_keras.config import require
from nmt_keras.layers.attention import masked_softmax
from nmt_keras.layers.base import BaseLayer, Shape, layer_norm
from nmt_keras.layers.dropout import Randomness, apply_dropout, draw_dropout_mask
from nmt_keras.layers.matmul import matmul


def with_positions(x: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Adds the position encodings of Vaswani et al. 2017, section 3.5.

        PE(p, 2i) = sin(p / 10000^(2i / units))          PE(p, 2i + 1) = cos(p / 10000^(2i / units))

    All sines come first, then all cosines. The paper interleaves them, which is a fixed permutation.

    Args:
        x: [..., units] float, of even width.
        positions: [...] int32, counted from 0.
    """
    units = x.shape[-1]
    rates = 10000.0 ** (-tf.range(0, units, 2, dtype=tf.float32) / units)
    angles = tf.cast(positions, tf.float32)[..., tf.newaxis] * rates
    return x + tf.cast(tf.concat([tf.sin(angles), tf.cos(angles)], axis=-1), x.dtype)


@keras.saving.register_keras_serializable("nmt_keras")
class MultiHead(BaseLayer):
    """Scaled dot-product attention in several heads (Vaswani et al. 2017, section 3.2).

        head_n = softmax(Q W_n^Q (K W_n^K)^T / sqrt(d_k)) V W_n^V           output = [head_1 ; ... ; head_N] W^O

    ``key_value_kernel`` holds W^K, then W^V.

    Args:
        units: Width of queries and outputs; d_k = units / heads.
        heads: N, a divisor of ``units``.
    """

    def __init__(self, units: int, heads: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        require(units % heads == 0, "units", f"a multiple of heads ({heads})", units)
        self.units, self.heads = units, heads

    def build(self, values_shape: Shape) -> None:
        """Creates the weights.

        Args:
            values_shape: Shape of the positions attended to.
        """
        units = self.units
        self.query_kernel = self.add_weight((units, units), "glorot_uniform", name="query_kernel")
        self.key_value_kernel = self.add_weight(
            (values_shape[-1], 2 * units), "glorot_uniform", name="key_value_kernel"
        )
        self.kernel = self.add_weight((units, units), "glorot_uniform", name="kernel")

    def split(self, x: tf.Tensor) -> tf.Tensor:
        """Splits heads: [B, L, units] -> [B, N, L, d_k]."""
        shape = tf.concat([tf.shape(x)[:-1], [self.heads, self.units // self.heads]], axis=0)
        return tf.transpose(tf.reshape(x, shape), [0, 2, 1, 3])

    def keys_and_values(self, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns keys and values [B, N, L, d_k] of positions [B, L, value_size]."""
        keys, values = tf.split(matmul(values, self.key_value_kernel), 2, axis=-1)
        return self.split(keys), self.split(values)

    def attend(self, x: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Attends to positions that all queries share.

        Args:
            x: [B, Q, units] float, queries.
            keys, values: [B, N, L, d_k] float.
            mask: [B, 1 or Q, L] bool, True at positions that may be attended to.

        Returns:
            Outputs [B, Q, units], and attention weights [B, Q, L], the mean over heads.
        """
        query = self.split(matmul(x, self.query_kernel))  # [B, N, Q, d_k]
        scores = tf.matmul(query, keys, transpose_b=True) * (self.units / self.heads) ** -0.5
        alpha = masked_softmax(scores, mask[:, tf.newaxis])
        contexts = tf.transpose(tf.matmul(alpha, values), [0, 2, 1, 3])  # [B, Q, N, d_k]
        joined = tf.reshape(contexts, tf.concat([tf.shape(x)[:-1], [self.units]], axis=0))
        return matmul(tf.ensure_shape(joined, x.shape), self.kernel), tf.reduce_mean(alpha, axis=1)

    def attend_per_query(self, x: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Attends to different positions for each query, such as the earlier tokens of its hypothesis.

        Args:
            x: [B, Q, units] float, queries.
            keys, values: [B, Q, L, units] float.
            mask: [B, Q, L] bool, True at positions that may be attended to.

        Returns:
            [B, Q, units].
        """
        queries = tf.reshape(x, [-1, 1, self.units])  # each query as a sentence of its own
        keys, values = (self.split(tf.reshape(part, [-1, part.shape[2], self.units])) for part in (keys, values))
        outputs, _ = self.attend(queries, keys, values, tf.reshape(mask, [-1, 1, mask.shape[2]]))
        return tf.ensure_shape(tf.reshape(outputs, tf.shape(x)), x.shape)


class SublayerMasks(NamedTuple):
    """Dropout masks of one layer, applied to each sublayer's result before the residual sum; None for no dropout."""

    self_attention: tf.Tensor | None = None  # [B, L, units] float
    cross_attention: tf.Tensor | None = None  # [B, L, units] float
    feed_forward: tf.Tensor | None = None  # [B, L, units] float


def draw_masks(like: tf.Tensor, rate: float, randomness: Randomness | None, layer: str) -> SublayerMasks:
    """Draws the dropout masks of the layer named ``layer``, in the shape of ``like`` [B, L, units]."""
    names = [f"{layer} {sublayer}" for sublayer in SublayerMasks._fields]
    return SublayerMasks(*(draw_dropout_mask(tf.shape(like), rate, randomness, name, like.dtype) for name in names))


@keras.saving.register_keras_serializable("nmt_keras")
class SelfAttentionLayer(BaseLayer):
    """Layer of self-attention, attention to the source (in decoders), and a feed-forward network.

    x + MultiHead(norm(x)), then (x + MultiHead(norm(x), memory), then) x + W_2 relu(W_1 norm(x) + b_1) + b_2.

    (Vaswani et al. 2017, figure 1, but each normalisation precedes its sublayer.) W_1 maps units to 4 · units.

    Args:
        units: Width of each position.
        heads: Number of heads of each attention.
    """

    def __init__(self, units: int, heads: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.units, self.heads = units, heads
        self.self_attention = MultiHead(
            units, heads, initializer=self.initializer, dtype=self.dtype_policy.name, name="self_attention"
        )

    def build(self, annotations_shape: Shape | None = None) -> None:
        """Creates the weights.

        Args:
            annotations_shape: Shape of the annotations; None for a layer without attention to the source.
        """
        units = self.units
        self.self_attention.build((None, None, units))
        self.self_attention_norm = layer_norm(units, "self_attention_norm", self.dtype_policy)
        if annotations_shape is not None:
            self.cross_attention = MultiHead(
                units, self.heads, initializer=self.initializer, dtype=self.dtype_policy.name, name="cross_attention"
            )
            self.cross_attention.build(annotations_shape)
            self.cross_attention_norm = layer_norm(units, "cross_attention_norm", self.dtype_policy)
        self.feed_forward_norm = layer_norm(units, "feed_forward_norm", self.dtype_policy)
        self.inner_kernel = self.add_weight((units, 4 * units), "glorot_uniform", name="inner_kernel")
        self.inner_bias = self.add_weight((4 * units,), "zeros", role="bias", name="inner_bias")
        self.outer_kernel = self.add_weight((4 * units, units), "glorot_uniform", name="outer_kernel")
        self.outer_bias = self.add_weight((units,), "zeros", role="bias", name="outer_bias")

    def attend_to_self(self, x: tf.Tensor, mask: tf.Tensor, masks: SublayerMasks) -> tf.Tensor:
        """Computes the first sublayer: x attends to itself where ``mask`` is True.

        Args:
            x: [B, L, units] float.
            mask: [B, 1 or L, L] bool.
            masks: Dropout masks.
        """
        normed = self.self_attention_norm(x)
        added, _ = self.self_attention.attend(normed, *self.self_attention.keys_and_values(normed), mask)
        return x + apply_dropout(added, masks.self_attention)

    def attend_to_source(
        self,
        x: tf.Tensor,
        source: tuple[tf.Tensor, tf.Tensor],
        mask: tf.Tensor,
        masks: SublayerMasks,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the middle sublayer: x [B, Q, units] attends to the source's keys and values with mask [B, S].

        Returns:
            [B, Q, units], and the alignment [B, Q, S], the mean over heads.
        """
        added, alignment = self.cross_attention.attend(self.cross_attention_norm(x), *source, mask[:, tf.newaxis])
        return x + apply_dropout(added, masks.cross_attention), alignment

    def feed_forward(self, x: tf.Tensor, masks: SublayerMasks) -> tf.Tensor:
        """Computes the last sublayer, position by position."""
        hidden = tf.nn.relu(matmul(self.feed_forward_norm(x), self.inner_kernel, self.inner_bias))
        added = matmul(hidden, self.outer_kernel, self.outer_bias)
        return x + apply_dropout(added, masks.feed_forward)
