"""Self-attention: positions that attend to each other in one step (Vaswani et al. 2017)."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.config import require
from nmt_keras.layers.attention import masked_softmax
from nmt_keras.layers.base import InitializerLike, Part, Shape, layer_norm
from nmt_keras.layers.dropout import Randomness, apply_dropout, draw_dropout_mask
from nmt_keras.layers.memory import as_encoding


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
class MultiHead(Part):
    """Scaled dot-product attention in several heads (Vaswani et al. 2017, section 3.2).

        head_n = softmax(Q W_n^Q (K W_n^K)^T / sqrt(d_k)) V W_n^V           output = [head_1 ; ... ; head_N] W^O

    ``key_value_kernel`` holds W^K, then W^V.

    Args:
        units: Width of queries and outputs; d_k = units / heads.
        heads: N, a divisor of ``units``.
        kernel_initializer: Initializer of the matrices.

    Example:
        >>> outputs, alpha = MultiHead(8, heads=2)(tf.ones([1, 3, 8]), tf.ones([1, 5, 12]))
        >>> outputs.shape, alpha.shape
        (TensorShape([1, 3, 8]), TensorShape([1, 3, 5]))
    """

    def __init__(
        self, units: int, heads: int, *, kernel_initializer: InitializerLike = "glorot_uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        require(heads >= 1 and units % heads == 0, "units", f"a multiple of heads ({heads})", units)
        self.units, self.heads = units, heads
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, x_shape: Shape, values_shape: Shape) -> None:
        """Creates the weights.

        Args:
            x_shape: Shape of the queries, [B, Q, units].
            values_shape: Shape of the positions attended to.
        """
        units, initial = self.units, self.kernel_initializer
        self.query_kernel = self.add_weight((units, units), initial, name="query_kernel")
        self.key_value_kernel = self.add_weight((values_shape[-1], 2 * units), initial, name="key_value_kernel")
        self.kernel = self.add_weight((units, units), initial, name="kernel")

    def call(
        self, x: tf.Tensor, values: tf.Tensor, values_mask: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes outputs [B, Q, units], and attention weights [B, Q, L], the mean over heads.

        Args:
            x: [B, Q, units] float, queries.
            values: [B, L, D] float, positions attended to.
            values_mask: [B, L] bool, True at positions that may be attended to; None for all, or for the mask that
                Keras has attached to ``values``.
        """
        mask = as_encoding(values, values_mask).mask[:, tf.newaxis]
        outputs, alpha = self.attend(x, *self.keys_and_values(values), mask)
        return outputs, tf.reduce_mean(alpha, axis=1)

    def split(self, x: tf.Tensor) -> tf.Tensor:
        """Splits heads: [B, L, units] -> [B, N, L, d_k]."""
        shape = tf.concat([tf.shape(x)[:-1], [self.heads, self.units // self.heads]], axis=0)
        return tf.transpose(tf.reshape(x, shape), [0, 2, 1, 3])

    def keys_and_values(self, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns keys and values [B, N, L, d_k] of positions [B, L, value_size]."""
        keys, values = tf.split(self.matmul(values, self.key_value_kernel), 2, axis=-1)
        return self.split(keys), self.split(values)

    def attend(self, x: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Attends to positions that all queries share.

        Args:
            x: [B, Q, units] float, queries.
            keys, values: [B, N, L, d_k] float.
            mask: [B, 1 or Q, L] bool, True at positions that may be attended to.

        Returns:
            Outputs [B, Q, units], and attention weights [B, N, Q, L].
        """
        query = self.split(self.matmul(x, self.query_kernel))  # [B, N, Q, d_k]
        scores = tf.matmul(query, keys, transpose_b=True) * (self.units / self.heads) ** -0.5
        alpha = masked_softmax(scores, mask[:, tf.newaxis])
        contexts = tf.transpose(tf.matmul(alpha, values), [0, 2, 1, 3])  # [B, Q, N, d_k]
        joined = tf.reshape(contexts, tf.concat([tf.shape(x)[:-1], [self.units]], axis=0))
        return self.matmul(tf.ensure_shape(joined, x.shape), self.kernel), alpha

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
class SelfAttentionLayer(Part):
    """Layer of self-attention, attention to the source (in decoders), and a feed-forward network.

    x + MultiHead(norm(x)), then (x + MultiHead(norm(x), source), then) x + W_2 relu(W_1 norm(x) + b_1) + b_2.

    (Vaswani et al. 2017, figure 1, but each normalisation precedes its sublayer.) W_1 maps units to 4 · units.

    Args:
        units: Width of each position.
        heads: Number of heads of each attention.
        kernel_initializer, bias_initializer: Initializers of the matrices, and of b_1 and b_2.

    Example:
        >>> SelfAttentionLayer(8, heads=2)(tf.ones([1, 3, 8])).shape
        TensorShape([1, 3, 8])
    """

    def __init__(
        self,
        units: int,
        heads: int,
        *,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require(units % 2 == 0, "units", "an even number, for the position encodings", units)
        self.units, self.heads = units, heads
        self.kernel_initializer, self.bias_initializer = map(
            keras.initializers.get, (kernel_initializer, bias_initializer)
        )
        self.self_attention = self._multi_head("self_attention")

    def _multi_head(self, name: str) -> MultiHead:
        return MultiHead(
            self.units, self.heads, kernel_initializer=self.kernel_initializer, dtype=self.dtype_policy, name=name
        )

    def build(self, x_shape: Shape, source_shape: Shape | None = None) -> None:
        """Creates the weights.

        Args:
            x_shape: Shape of the positions, [B, L, units].
            source_shape: Shape of the annotations; None for a layer without attention to the source.
        """
        units, kernel, bias = self.units, self.kernel_initializer, self.bias_initializer
        self.self_attention.build(x_shape, x_shape)
        self.self_attention_norm = layer_norm(units, "self_attention_norm", self)
        if source_shape is not None:
            self.cross_attention = self._multi_head("cross_attention")
            self.cross_attention.build(x_shape, source_shape)
            self.cross_attention_norm = layer_norm(units, "cross_attention_norm", self)
        self.feed_forward_norm = layer_norm(units, "feed_forward_norm", self)
        self.inner_kernel = self.add_weight((units, 4 * units), kernel, name="inner_kernel")
        self.inner_bias = self.add_weight((4 * units,), bias, name="inner_bias")
        self.outer_kernel = self.add_weight((4 * units, units), kernel, name="outer_kernel")
        self.outer_bias = self.add_weight((units,), bias, name="outer_bias")

    def call(
        self,
        x: tf.Tensor,
        source: tf.Tensor | None = None,
        x_mask: tf.Tensor | None = None,
        source_mask: tf.Tensor | None = None,
        mask: tf.Tensor | None = None,
        *,
        use_causal_mask: bool = False,
    ) -> tf.Tensor:
        """Computes all sublayers, without dropout.

        Args:
            x: [B, L, units] float.
            source: [B, S, D] float, annotations; None without attention to the source.
            x_mask: [B, L] bool, True at positions that may be attended to; None for all, or for the mask that Keras has
                attached to ``x``.
            source_mask: [B, S] bool, likewise.
            mask: ``x_mask``, as Keras calls it without a source.
            use_causal_mask: If True, a position attends to itself and earlier ones.
        """
        length, masks = tf.shape(x)[1], SublayerMasks()
        mask = as_encoding(x, mask if x_mask is None else x_mask).mask[:, tf.newaxis]
        if use_causal_mask:
            mask &= tf.range(length) <= tf.range(length)[:, tf.newaxis]
        x, _ = self.attend_to_self(self.cast(x), mask, masks)
        if source is not None:
            require(
                hasattr(self, "cross_attention"),
                "source",
                "None in a layer built without one",
                source.shape,
                "Call it with a source the first time.",
            )
            encoding = as_encoding(source, source_mask)
            x, _ = self.attend_to_source(x, self.cross_attention.keys_and_values(source), encoding.mask, masks)
        return self.feed_forward(x, masks)

    def attend_to_self(self, x: tf.Tensor, mask: tf.Tensor, masks: SublayerMasks) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the first sublayer: x attends to itself where ``mask`` is True.

        Args:
            x: [B, L, units] float.
            mask: [B, 1 or L, L] bool.
            masks: Dropout masks.

        Returns:
            [B, L, units], and the attention weights [B, N, L, L].
        """
        normed = self.self_attention_norm(x)
        added, alpha = self.self_attention.attend(normed, *self.self_attention.keys_and_values(normed), mask)
        return x + apply_dropout(added, masks.self_attention), alpha

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
        added, alpha = self.cross_attention.attend(self.cross_attention_norm(x), *source, mask[:, tf.newaxis])
        return x + apply_dropout(added, masks.cross_attention), tf.reduce_mean(alpha, axis=1)

    def feed_forward(self, x: tf.Tensor, masks: SublayerMasks) -> tf.Tensor:
        """Computes the last sublayer, position by position."""
        hidden = tf.nn.relu(self.matmul(self.feed_forward_norm(x), self.inner_kernel, self.inner_bias))
        added = self.matmul(hidden, self.outer_kernel, self.outer_bias)
        return x + apply_dropout(added, masks.feed_forward)
