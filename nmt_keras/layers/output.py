"""Output layers: compute logits from the decoder state, the context and the previous word."""

from abc import abstractmethod

import keras
import tensorflow as tf

from nmt_keras.layers.base import BaseLayer, Shape
from nmt_keras.layers.matmul import matmul


class OutputLayer(BaseLayer):
    """Interface of output layers.

    ``features`` combines states, contexts and embeddings. ``logits`` computes the input of the softmax from them.
    ``project_context`` multiplies contexts by the block of the layer's matrix that belongs to them.

    Args:
        vocabulary_size: V.
        tie_embeddings: If True, the softmax's matrix is the embedding of the target tokens [V, feature_size] (Press,
            Wolf 2017).
    """

    feature_size: int
    """Width of ``features``, set by ``build``."""

    def __init__(self, vocabulary_size: int, *, tie_embeddings: bool = False, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size, self.tie_embeddings = vocabulary_size, tie_embeddings

    def build(self, state_shape: Shape, context_shape: Shape, embedded_shape: Shape) -> None:
        """Creates the weights.

        Args:
            state_shape: Shape of the decoder states, [B, T, U].
            context_shape: Shape of the contexts, [B, T, D]; D is 0 without attention.
            embedded_shape: Shape of the embeddings of the previous words, [B, T, E].
        """
        if not self.tie_embeddings:
            shape = (self.feature_size, self.vocabulary_size)
            self.output_kernel = self.add_weight(shape, "glorot_uniform", name="output_kernel")
        self.output_bias = self.add_weight((self.vocabulary_size,), "zeros", role="bias", name="output_bias")

    def project_context(self, context: tf.Tensor) -> tf.Tensor:
        """Returns C_o c: [..., D] -> [..., O]. A layer without C_o returns c."""
        return context

    @abstractmethod
    def features(self, state: tf.Tensor, projected_context: tf.Tensor | None, embedded: tf.Tensor) -> tf.Tensor:
        """Returns the input of ``logits``, [B, T, feature_size].

        Args:
            state: [B, T, U] float, decoder states.
            projected_context: [B, T, O] float, C_o c; None without a context.
            embedded: [B, T, E] float, embeddings of the previous words.
        """

    def logits(self, features: tf.Tensor, embeddings: keras.Variable) -> tf.Tensor:
        """Returns W t + b: [B, T, feature_size] -> [B, T, V].

        Args:
            features: [B, T, feature_size] float.
            embeddings: [V, E], the embeddings of the target tokens, which are W if ``tie_embeddings``.
        """
        kernel = embeddings if self.tie_embeddings else self.output_kernel
        return matmul(features, kernel, self.output_bias, transpose=self.tie_embeddings)


class HiddenOutput(OutputLayer):
    """Base of output layers with a hidden layer: its matrix has a block of rows for each of its inputs.

    Args:
        vocabulary_size, tie_embeddings: See :class:`OutputLayer`.
        units: Width of the features.
    """

    def __init__(self, vocabulary_size: int, *, units: int, tie_embeddings: bool = False, **kwargs: object) -> None:
        super().__init__(vocabulary_size, tie_embeddings=tie_embeddings, **kwargs)
        self.units = units

    def build(self, state_shape: Shape, context_shape: Shape, embedded_shape: Shape) -> None:
        """Creates the matrix of the softmax; see :class:`OutputLayer`."""
        self.feature_size = self.units
        super().build(state_shape, context_shape, embedded_shape)

    def add_blocks(self, shapes: dict[str, Shape], columns: int) -> list[keras.Variable]:
        """Creates blocks of rows of a matrix, with the Glorot initialisation of the whole matrix.

        Args:
            shapes: Shape of the input of each block, by the block's name.
            columns: Number of columns of the matrix.
        """
        limit = (6.0 / (sum(shape[-1] for shape in shapes.values()) + columns)) ** 0.5
        return [  # one initializer each, because an initializer draws the same numbers every time
            self.add_weight((shape[-1], columns), keras.initializers.RandomUniform(-limit, limit), name=name)
            for name, shape in shapes.items()
        ]

    def project_context(self, context: tf.Tensor) -> tf.Tensor:
        """Returns the block of the contexts times c."""
        return matmul(context, self.context_kernel)


@keras.saving.register_keras_serializable("nmt_keras")
class MaxoutOutput(HiddenOutput):
    """The deep output with one maxout layer (Bahdanau, Cho, Bengio 2014, appendix A.2.2).

        t~_i = U_o s + V_o e(y_{i-1}) + C_o c_i          2l numbers
        t_i  = max of each neighbouring pair of t~_i     l numbers
        p(y_i | ...) = softmax(W_o t_i)

    Columns n and n + l of the three matrices form a pair. s is s_{i-1} in the appendix and s_i in the main text
    (equation 4). ``Decoder.output_state`` chooses one.

    Args:
        vocabulary_size, tie_embeddings: See :class:`OutputLayer`.
        units: l, number of maxout units.
    """

    def build(self, state_shape: Shape, context_shape: Shape, embedded_shape: Shape) -> None:
        """Creates U_o, C_o, V_o and their bias; see :class:`OutputLayer`."""
        super().build(state_shape, context_shape, embedded_shape)
        shapes = {"state_kernel": state_shape, "context_kernel": context_shape, "embedding_kernel": embedded_shape}
        self.state_kernel, self.context_kernel, self.embedding_kernel = self.add_blocks(shapes, 2 * self.units)
        self.maxout_bias = self.add_weight((2 * self.units,), "zeros", role="bias", name="maxout_bias")

    def features(self, state: tf.Tensor, projected_context: tf.Tensor | None, embedded: tf.Tensor) -> tf.Tensor:
        """Returns t_i."""
        pairs = matmul(state, self.state_kernel) + matmul(embedded, self.embedding_kernel, self.maxout_bias)
        if projected_context is not None:
            pairs += projected_context
        return tf.maximum(*tf.split(pairs, 2, axis=-1))


@keras.saving.register_keras_serializable("nmt_keras")
class LinearOutput(OutputLayer):
    """One linear layer: p(y_i | ...) = softmax(W_o [s ; c_i ; e(y_{i-1})] + b) (the PyTorch version of RNNsearch).

    Args:
        vocabulary_size, tie_embeddings: See :class:`OutputLayer`.
    """

    def build(self, state_shape: Shape, context_shape: Shape, embedded_shape: Shape) -> None:
        """Creates W_o and b; see :class:`OutputLayer`."""
        self.feature_size = state_shape[-1] + context_shape[-1] + embedded_shape[-1]
        super().build(state_shape, context_shape, embedded_shape)

    def features(self, state: tf.Tensor, projected_context: tf.Tensor | None, embedded: tf.Tensor) -> tf.Tensor:
        """Returns [s ; c_i ; e(y_{i-1})], because ``project_context`` returns c_i."""
        return tf.concat([x for x in (state, projected_context, embedded) if x is not None], axis=-1)


@keras.saving.register_keras_serializable("nmt_keras")
class StateOutput(OutputLayer):
    """Linear layer over the state alone: p(y_i | ...) = softmax(W s_i + b).

    It is the output layer of the TensorFlow tutorial, of cs224d, lecture 9, and of the base model of Luong et al. 2015.

    Args:
        vocabulary_size, tie_embeddings: See :class:`OutputLayer`.
    """

    def build(self, state_shape: Shape, context_shape: Shape, embedded_shape: Shape) -> None:
        """Creates W and b; see :class:`OutputLayer`."""
        self.feature_size = state_shape[-1]
        super().build(state_shape, context_shape, embedded_shape)

    def features(self, state: tf.Tensor, projected_context: tf.Tensor | None, embedded: tf.Tensor) -> tf.Tensor:
        """Returns s_i."""
        return state


@keras.saving.register_keras_serializable("nmt_keras")
class AttentionalOutput(HiddenOutput):
    """Attentional hidden state h~_t = tanh(W_c [c_t ; h_t]), then p(y_t | ...) = softmax(W_s h~_t).

    (Luong et al. 2015, equations 5 and 6.) Both products have a bias, which the paper leaves out of its formulas.

    Args:
        vocabulary_size, tie_embeddings: See :class:`OutputLayer`.
        units: Width of h~.
    """

    def build(self, state_shape: Shape, context_shape: Shape, embedded_shape: Shape) -> None:
        """Creates W_c and its bias; see :class:`OutputLayer`."""
        super().build(state_shape, context_shape, embedded_shape)
        shapes = {"context_kernel": context_shape, "state_kernel": state_shape}
        self.context_kernel, self.state_kernel = self.add_blocks(shapes, self.units)
        self.bias = self.add_weight((self.units,), "zeros", role="bias", name="bias")

    def features(self, state: tf.Tensor, projected_context: tf.Tensor | None, embedded: tf.Tensor) -> tf.Tensor:
        """Returns h~_t."""
        sums = matmul(state, self.state_kernel, self.bias)
        return tf.tanh(sums if projected_context is None else sums + projected_context)
