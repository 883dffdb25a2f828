"""Output layers: compute logits from the decoder state, the context and the previous word."""

from abc import abstractmethod
from typing import Any, ClassVar, TypeAlias

import keras
import tensorflow as tf

from nmt_keras.config import require
from nmt_keras.layers.base import InitializerLike, Part, Shape
from nmt_keras.layers.context import Context

ContextLike: TypeAlias = tf.Tensor | Context | None
"""Contexts c_i [B, T, D]; None without attention."""


class OutputLayer(Part):
    """Interface of output layers.

    ``features`` combines states, contexts and embeddings. ``logits`` computes the input of the softmax from them.

    Args:
        vocabulary_size: V.
        tie_embeddings: If True, the softmax's matrix is the embedding of the target tokens [V, feature_size] (Press,
            Wolf 2017).
        kernel_initializer, bias_initializer: Initializers of the matrices and of the biases.
    """

    feature_size: int
    """Width of ``features``, set by ``build``."""

    reads: ClassVar[tuple[str, ...]] = ("state", "context", "embedded")
    """The arguments of ``call`` that the layer needs."""

    def __init__(
        self,
        vocabulary_size: int,
        *,
        tie_embeddings: bool = False,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size, self.tie_embeddings = vocabulary_size, tie_embeddings
        self.kernel_initializer, self.bias_initializer = map(
            keras.initializers.get, (kernel_initializer, bias_initializer)
        )

    def build(
        self, state_shape: Shape, context_shape: Shape | None = None, embedded_shape: Shape | None = None
    ) -> None:
        """Creates the weights.

        Args:
            state_shape: Shape of the decoder states, [B, T, U].
            context_shape: Shape of the contexts, [B, T, D]; None without attention.
            embedded_shape: Shape of the embeddings of the previous words, [B, T, E].
        """
        shapes = {"state": state_shape, "context": context_shape, "embedded": embedded_shape}
        read: dict[str, Shape] = {name: shape for name in self.reads if (shape := shapes[name]) is not None}
        require(len(read) == len(self.reads), "inputs", f"tensors for {', '.join(self.reads)}", ", ".join(read))
        self.feature_size = self.size_of_features(read)
        if not self.tie_embeddings:
            shape = (self.feature_size, self.vocabulary_size)
            self.output_kernel = self.add_weight(shape, self.kernel_initializer, name="output_kernel")
        self.output_bias = self.add_weight((self.vocabulary_size,), self.bias_initializer, name="output_bias")

    def call(
        self,
        state: tf.Tensor,
        context: tf.Tensor | None = None,
        embedded: tf.Tensor | None = None,
        embeddings: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Returns the logits [B, T, V]; see ``features`` and ``logits`` for the arguments."""
        return self.logits(self.features(state, context, embedded), embeddings)

    def size_of_features(self, shapes: dict[str, Shape]) -> int:
        """Returns the width of ``features`` for inputs of the given shapes: by default the sum of their widths."""
        return sum(shape[-1] for shape in shapes.values())

    @abstractmethod
    def features(self, state: tf.Tensor, context: ContextLike, embedded: tf.Tensor | None) -> tf.Tensor:
        """Returns the input of ``logits``, [B, T, feature_size].

        Args:
            state: [B, T, U] float, decoder states.
            context: [B, T, D] float, contexts; None without attention.
            embedded: [B, T, E] float, embeddings of the previous words.
        """

    def logits(self, features: tf.Tensor, embeddings: keras.Variable | tf.Tensor | None = None) -> tf.Tensor:
        """Returns W t + b: [B, T, feature_size] -> [B, T, V].

        Args:
            features: [B, T, feature_size] float.
            embeddings: [V, E], the embeddings of the target tokens, which are W if ``tie_embeddings``.
        """
        if self.tie_embeddings:
            shape, received = (self.vocabulary_size, self.feature_size), getattr(embeddings, "shape", None)
            require(received == shape, "embeddings", f"a matrix of shape {shape} with tie_embeddings", received)
        kernel = embeddings if self.tie_embeddings else self.output_kernel
        return self.matmul(features, kernel, self.output_bias, transpose=self.tie_embeddings)


class HiddenOutput(OutputLayer):
    """Base of output layers with a hidden layer: its matrix has a block of rows for each of its inputs.

    Args:
        vocabulary_size, tie_embeddings, kernel_initializer, bias_initializer: See :class:`OutputLayer`.
        units: Width of the features.
    """

    def __init__(
        self,
        vocabulary_size: int,
        units: int,
        *,
        tie_embeddings: bool = False,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            vocabulary_size,
            tie_embeddings=tie_embeddings,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            **kwargs,
        )
        self.units = units

    def size_of_features(self, shapes: dict[str, Shape]) -> int:
        """Returns ``units``."""
        return self.units

    def add_blocks(self, shapes: dict[str, Shape | None], columns: int) -> list[keras.Variable]:
        """Creates blocks of rows of a matrix, with the Glorot initialisation of the whole matrix.

        Args:
            shapes: Shape of the input of each block, by the block's name.
            columns: Number of columns of the matrix.
        """
        initial, sizes = self.kernel_initializer, {name: shape[-1] for name, shape in shapes.items() if shape}
        if isinstance(initial, keras.initializers.GlorotUniform):
            limit = (6.0 / (sum(sizes.values()) + columns)) ** 0.5
            initial = keras.initializers.RandomUniform(-limit, limit, seed=initial.get_config()["seed"])
        return [self.add_weight((size, columns), initial, name=name) for name, size in sizes.items()]


@keras.saving.register_keras_serializable("nmt_keras")
class MaxoutOutput(HiddenOutput):
    """The deep output with one maxout layer (Bahdanau, Cho, Bengio 2014, appendix A.2.2).

        t~_i = U_o s + V_o e(y_{i-1}) + C_o c_i          2l numbers
        t_i  = max of each neighbouring pair of t~_i     l numbers
        p(y_i | ...) = softmax(W_o t_i)

    Columns n and n + l of the three matrices form a pair. s is s_{i-1} in the appendix and s_i in the main text
    (equation 4). ``Decoder.output_state`` chooses one.

    Args:
        vocabulary_size, tie_embeddings, kernel_initializer, bias_initializer: See :class:`OutputLayer`.
        units: l, number of maxout units.

    Example:
        >>> layer = MaxoutOutput(100, units=4)
        >>> layer(tf.ones([2, 5, 8]), tf.ones([2, 5, 12]), tf.ones([2, 5, 6])).shape
        TensorShape([2, 5, 100])
    """

    def build(
        self, state_shape: Shape, context_shape: Shape | None = None, embedded_shape: Shape | None = None
    ) -> None:
        """Creates U_o, C_o, V_o and their bias; see :class:`OutputLayer`."""
        super().build(state_shape, context_shape, embedded_shape)
        shapes = {"state_kernel": state_shape, "context_kernel": context_shape, "embedding_kernel": embedded_shape}
        self.state_kernel, self.context_kernel, self.embedding_kernel = self.add_blocks(shapes, 2 * self.units)
        self.maxout_bias = self.add_weight((2 * self.units,), self.bias_initializer, name="maxout_bias")

    def features(self, state: tf.Tensor, context: ContextLike, embedded: tf.Tensor | None) -> tf.Tensor:
        """Returns t_i."""
        pairs = self.matmul(state, self.state_kernel) + self.matmul(embedded, self.embedding_kernel, self.maxout_bias)
        pairs += self.matmul(context, self.context_kernel)
        return tf.maximum(*tf.split(pairs, 2, axis=-1))


@keras.saving.register_keras_serializable("nmt_keras")
class LinearOutput(OutputLayer):
    """One linear layer: p(y_i | ...) = softmax(W_o [s ; c_i ; e(y_{i-1})] + b) (the PyTorch version of RNNsearch).

    Args:
        vocabulary_size, tie_embeddings, kernel_initializer, bias_initializer: See :class:`OutputLayer`.

    Example:
        >>> LinearOutput(100)(tf.ones([2, 5, 8]), tf.ones([2, 5, 12]), tf.ones([2, 5, 6])).shape
        TensorShape([2, 5, 100])
    """

    def features(self, state: tf.Tensor, context: ContextLike, embedded: tf.Tensor | None) -> tf.Tensor:
        """Returns [s ; c_i ; e(y_{i-1})]."""
        return tf.concat(self.cast([state, context, embedded]), axis=-1)


@keras.saving.register_keras_serializable("nmt_keras")
class StateOutput(OutputLayer):
    """Linear layer over the state alone: p(y_i | ...) = softmax(W s_i + b).

    It is the output layer of the TensorFlow tutorial, of cs224d, lecture 9, and of the base model of Luong et al. 2015.

    Args:
        vocabulary_size, tie_embeddings, kernel_initializer, bias_initializer: See :class:`OutputLayer`.

    Example:
        >>> StateOutput(100)(tf.ones([2, 5, 8])).shape
        TensorShape([2, 5, 100])
    """

    reads = ("state",)

    def features(self, state: tf.Tensor, context: ContextLike, embedded: tf.Tensor | None) -> tf.Tensor:
        """Returns s_i."""
        return self.cast(state)


@keras.saving.register_keras_serializable("nmt_keras")
class AttentionalOutput(HiddenOutput):
    """Attentional hidden state h~_t = tanh(W_c [c_t ; h_t]), then p(y_t | ...) = softmax(W_s h~_t).

    (Luong et al. 2015, equations 5 and 6.) Both products have a bias, which the paper leaves out of its formulas.

    Args:
        vocabulary_size, tie_embeddings, kernel_initializer, bias_initializer: See :class:`OutputLayer`.
        units: Width of h~.

    Example:
        >>> AttentionalOutput(100, units=8)(tf.ones([2, 5, 8]), tf.ones([2, 5, 12])).shape
        TensorShape([2, 5, 100])
    """

    reads = ("state", "context")

    def build(
        self, state_shape: Shape, context_shape: Shape | None = None, embedded_shape: Shape | None = None
    ) -> None:
        """Creates W_c and its bias; see :class:`OutputLayer`."""
        super().build(state_shape, context_shape, embedded_shape)
        shapes = {"context_kernel": context_shape, "state_kernel": state_shape}
        self.context_kernel, self.state_kernel = self.add_blocks(shapes, self.units)
        self.bias = self.add_weight((self.units,), self.bias_initializer, name="bias")

    def features(self, state: tf.Tensor, context: ContextLike, embedded: tf.Tensor | None) -> tf.Tensor:
        """Returns h~_t."""
        sums = self.matmul(state, self.state_kernel, self.bias) + self.matmul(context, self.context_kernel)
        return tf.tanh(sums)
