"""Attention: what the decoder remembers of a sentence, and how a query is answered from it.

A score function says how well a query matches each annotation; a span says which annotations compete. Every attention
answers with a context and with weights, from which alignments are made once the loop is over.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.cells import Part, Reading, product


class Memory(NamedTuple):
    """An encoded sentence as the decoder sees it. It is never tiled: hypotheses share it."""

    values: tf.Tensor  # [B, S, D] float: the annotations h_j
    keys: Any  # nest of [B, ...]: what an attention computes of them once for a sentence, such as U_a h_j [B, S, A]
    mask: tf.Tensor  # [B, S] bool: True at tokens, False at padding
    lengths: tf.Tensor  # [B] int32: tokens
    states: Any  # nest of [B, U]: the encoder's last states
    reading: Any = ()  # Reading of the annotations, where a search has taken it; () in training
    price: Any = ()  # [B, C] float32: what a search with a shortlist adds to the logits of its C tokens; else ()


class Attended(NamedTuple):
    """What an attention answers to queries."""

    context: Any  # [B, Q, D] float: c_i; the Reading of c_i where the memory holds one of the annotations
    weights: tf.Tensor  # [B, Q, W] float: alpha_ij of W neighbouring source positions
    first: tf.Tensor  # [B, Q] int32: the source position of the first of them; it may lie before the sentence


def masked_softmax(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """exp(e_j) / SUM_k exp(e_k) over the positions k where ``mask`` is True; exactly 0 elsewhere.

    Computed in float32 whatever the dtype of ``scores`` [B, Q, W] is, and returned in that dtype. ``mask`` is
    [B, 1 or Q, W]. Each row of it holds at least one True: every sentence ends in END.
    """
    logits = tf.where(mask, tf.cast(scores, tf.float32), tf.float32.min)
    return tf.cast(tf.nn.softmax(logits), scores.dtype)


class Score(Part):
    """How well a query matches annotations: the contract is ``keys``, once for a sentence, and ``scores``."""

    @abstractmethod
    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """What of the annotations [B, S, D] depends on no query: [B, S, A]."""

    @abstractmethod
    def scores(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """e_ij [B, Q, W] of queries [B, Q, U] with keys: [B, W, A] that all queries share, or [B, Q, W, A]."""


@keras.saving.register_keras_serializable("nmt_keras")
class AdditiveScore(Score):
    """e_ij = v_a · tanh(W_a s_i + U_a h_j) (Bahdanau, Cho, Bengio 2014, appendix A.1.2).

    Luong's "concat", v_a · tanh(W_a [h_t ; h_s]), is the same: his W_a is [W_a U_a] here.

    Our names: query s_i, values h_j, keys U_a h_j, ``query_kernel`` W_a, ``key_kernel`` U_a, ``energy`` v_a.

    Args:
        units: A, the alignment model's hidden units (n' in the paper).
        query_size: width of s_i.
        value_size: D, width of h_j.
    """

    def __init__(self, units: int, query_size: int, value_size: int, **options: Any) -> None:
        super().__init__(**options)
        self.units, self.query_size, self.value_size = units, query_size, value_size
        self.query_kernel = self.weight("query_kernel", (query_size, units), "glorot_uniform")
        self.key_kernel = self.weight("key_kernel", (value_size, units), "glorot_uniform")
        self.energy = self.weight("energy", (units,), keras.initializers.RandomNormal(stddev=units**-0.5))

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """U_a h_j."""
        return product(values, self.matrix(self.key_kernel))

    def scores(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """v_a · tanh(W_a s_i + U_a h_j)."""
        each = keys if keys.shape.rank == 4 else keys[:, tf.newaxis]
        sums = product(query, self.matrix(self.query_kernel))[:, :, tf.newaxis] + each
        # flat before tanh, so that the loop's gradient keeps one tensor and not two of different shapes
        hidden = tf.tanh(tf.reshape(sums, [-1, self.units]))
        # a product, not a sum over the last axis: XLA may not reorder a float sum, so on a CPU it adds one by one
        return tf.reshape(tf.matmul(hidden, self.cast(self.energy)[:, tf.newaxis]), tf.shape(sums)[:-1])


@keras.saving.register_keras_serializable("nmt_keras")
class DotScore(Score):
    """e_ts = h_t · h_s (Luong, Pham, Manning 2015, section 3.1); states and annotations have one width."""

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """h_s."""
        return values

    def scores(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """h_t · h_s."""
        if keys.shape.rank == 3:
            return tf.matmul(query, keys, transpose_b=True)
        return tf.matmul(keys, query[..., tf.newaxis])[..., 0]


@keras.saving.register_keras_serializable("nmt_keras")
class GeneralScore(DotScore):
    """e_ts = h_t · W_a h_s (Luong, Pham, Manning 2015, section 3.1).

    Args:
        query_size: width of h_t.
        value_size: D, width of h_s.
    """

    def __init__(self, query_size: int, value_size: int, **options: Any) -> None:
        super().__init__(**options)
        self.query_size, self.value_size = query_size, value_size
        self.kernel = self.weight("kernel", (value_size, query_size), "glorot_uniform")

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """W_a h_s."""
        return product(values, self.matrix(self.kernel))


@keras.saving.register_keras_serializable("nmt_keras")
class LocationScore(Score):
    """e_t = W_a h_t (Luong, Pham, Manning 2015, equation 8): the state alone says where to look.

    A shorter source uses the first rows of W_a; positions beyond them get weight 0.

    Args:
        positions: rows of W_a, the source positions that can be looked at.
        query_size: width of h_t.
    """

    def __init__(self, positions: int, query_size: int, **options: Any) -> None:
        super().__init__(**options)
        self.positions, self.query_size = positions, query_size
        self.kernel = self.weight("kernel", (query_size, positions), "glorot_uniform")

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """Nothing, for S positions: [B, S, 0]."""
        return values[..., :0]

    def scores(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """W_a h_t."""
        width = keys.shape[1] or tf.shape(keys)[1]
        known = product(query, self.matrix(self.kernel))[..., :width]
        beyond = tf.maximum(0, width - self.positions)
        scores = tf.pad(known, [[0, 0], [0, 0], [0, beyond]], constant_values=known.dtype.min)
        return tf.ensure_shape(scores, [None, None, keys.shape[1]])


class Attention(Part):
    """The contract: ``keys`` once for a sentence, ``attend`` at every step, ``alignment`` when all steps are done."""

    context_size: int
    """Width of the contexts; 0 where there is none."""

    @abstractmethod
    def keys(self, encoding: Any) -> Any:
        """What of an Encoding depends on no query: a nest of [B, ...]."""

    @abstractmethod
    def attend(self, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> Attended:
        """Answers queries [B, Q, U] of the target positions ``step`` [B, Q], counted from 0."""

    def read(self, memory: Memory, of: Callable[[tf.Tensor], Reading]) -> Any:
        """The Reading of what contexts are made of, ``of`` each; () where that saves nothing."""
        return ()

    def alignment(self, attended: Attended, memory: Memory) -> tf.Tensor:
        """The alignment [B, Q, S]: weights at their source positions, 0 elsewhere."""
        return attended.weights


@keras.saving.register_keras_serializable("nmt_keras")
class GlobalAttention(Attention):
    """All annotations compete (Bahdanau et al. 2014, section 3.1; Luong et al. 2015, section 3.1).

        alpha_ij = exp(e_ij) / SUM_k exp(e_ik)                    over the source's tokens; padding gets 0
        c_i      = SUM_j alpha_ij h_j

    Args:
        score: gives e_ij.
        value_size: D, width of h_j.
    """

    def __init__(self, score: Score, value_size: int, **options: Any) -> None:
        super().__init__(**options)
        self.score, self.value_size = score, value_size
        self.context_size = value_size

    def keys(self, encoding: Any) -> tf.Tensor:
        """The score's."""
        return self.score.keys(encoding.values)

    def attend(self, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> Attended:
        """alpha_i and c_i."""
        weights = masked_softmax(self.score.scores(query, memory.keys), memory.mask[:, tf.newaxis])
        annotations = memory.reading or memory.values
        context = tf.nest.map_structure(lambda x: tf.matmul(weights, x), annotations)
        return Attended(context, weights, tf.zeros_like(step))

    def read(self, memory: Memory, of: Callable[[tf.Tensor], Reading]) -> Any:
        """Of the annotations."""
        return of(memory.values)


@keras.saving.register_keras_serializable("nmt_keras")
class BahdanauAttention(GlobalAttention):
    """Additive attention over the whole source (Bahdanau, Cho, Bengio 2014): :class:`AdditiveScore`, all annotations.

    Args:
        units: A, the alignment model's hidden units.
        query_size: width of s_{i-1}.
        value_size: D, width of h_j.
    """

    def __init__(self, units: int, query_size: int, value_size: int, **options: Any) -> None:
        super().__init__(AdditiveScore(units, query_size, value_size, name="score"), value_size, **options)
        self.units, self.query_size = units, query_size


class LocalAttention(Attention):
    """The annotations within D positions of p_t compete (Luong, Pham, Manning 2015, section 3.2).

    Only the 2D + 1 positions of the window are read, so that a context costs the same however long the source is; a
    batch that is known to be no wider is read as it stands, which costs less. (An alignment has S numbers, and so has
    the gradient of what a window was read from.) Where the window reaches beyond the sentence, the rest of it competes.
    Positions count from 0.

    Args:
        score: gives e_ts.
        value_size: width of h_s.
        window: D.
    """

    def __init__(self, score: Score, value_size: int, window: int, **options: Any) -> None:
        super().__init__(**options)
        self.score, self.value_size, self.window = score, value_size, window
        self.context_size = value_size

    @abstractmethod
    def centre(self, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> tf.Tensor:
        """p_t [B, Q], float32, within the sentence."""

    def reads_all(self, memory: Memory) -> bool:
        """Whether the batch is known to be no wider than the window."""
        width = memory.mask.shape[1]
        return width is not None and width <= 2 * self.window + 1

    def prefer(self, weights: tf.Tensor, distance: tf.Tensor) -> tf.Tensor:
        """Weights [B, Q, W] as they are, or changed by the ``distance`` s - p_t of each."""
        return weights

    def keys(self, encoding: Any) -> tf.Tensor:
        """The score's."""
        return self.score.keys(encoding.values)

    def attend(self, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> Attended:
        """a_t within the window, and c_t."""
        centre = self.centre(query, step, memory)[..., tf.newaxis]
        if self.reads_all(memory):
            distance = tf.range(float(memory.mask.shape[1])) - centre  # [B, Q, S]
            inside = memory.mask[:, tf.newaxis] & (tf.abs(distance) <= self.window)
            weights = masked_softmax(self.score.scores(query, memory.keys), inside)
            weights = self.prefer(weights, distance)
            return Attended(tf.matmul(weights, memory.values), weights, tf.zeros_like(step))
        lengths = memory.lengths[:, tf.newaxis, tf.newaxis]
        first = tf.cast(tf.math.ceil(centre - self.window), tf.int32)
        positions = first + tf.range(2 * self.window + 1)  # [B, Q, W]
        distance = tf.cast(positions, tf.float32) - centre
        inside = (positions >= 0) & (positions < lengths) & (distance <= self.window)
        read = tf.clip_by_value(positions, 0, lengths - 1)
        keys, values = (tf.gather(x, read, batch_dims=1) for x in (memory.keys, memory.values))
        weights = masked_softmax(self.score.scores(query, keys), inside)
        weights = self.prefer(weights, distance)
        return Attended(tf.matmul(weights[:, :, tf.newaxis], values)[:, :, 0], weights, first[..., 0])

    def alignment(self, attended: Attended, memory: Memory) -> tf.Tensor:
        """The window's weights at their source positions."""
        if self.reads_all(memory):
            return attended.weights
        width = memory.mask.shape[1] or tf.shape(memory.mask)[1]
        last = 2 * self.window
        places = tf.range(width) - attended.first[..., tf.newaxis]  # [B, Q, S]: where in the window
        weights = tf.gather(attended.weights, tf.clip_by_value(places, 0, last), batch_dims=2)
        return tf.where((places >= 0) & (places <= last), weights, tf.zeros([], weights.dtype))


@keras.saving.register_keras_serializable("nmt_keras")
class MonotonicLocalAttention(LocalAttention):
    """local-m: p_t = t, as if source and target ran side by side; past the source's end, its last position."""

    def centre(self, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> tf.Tensor:
        """t."""
        return tf.cast(tf.minimum(step, memory.lengths[:, tf.newaxis] - 1), tf.float32)


@keras.saving.register_keras_serializable("nmt_keras")
class PredictiveLocalAttention(LocalAttention):
    """local-p: the decoder says where to look, and weights fall with the distance from there.

        p_t    = S · sigma(v_p · tanh(W_p h_t))                   S: the sentence's own tokens
        a_t(s) = align(h_t, h_s) · exp(-(s - p_t)^2 / (2 sigma^2))            sigma = D / 2

    (Luong, Pham, Manning 2015, equations 9 and 10.) As there, weights are not normalised again: a row of
    the alignment sums to less than 1.

    Args:
        score, value_size, window: see :class:`LocalAttention`.
        units: rows of W_p.
        query_size: width of h_t.
    """

    def __init__(self, score: Score, value_size: int, window: int, units: int, query_size: int, **options: Any) -> None:
        super().__init__(score, value_size, window, **options)
        self.units, self.query_size = units, query_size
        self.position_kernel = self.weight("position_kernel", (query_size, units), "glorot_uniform")
        self.position_energy = self.weight(
            "position_energy", (units,), keras.initializers.RandomNormal(stddev=units**-0.5)
        )

    def centre(self, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> tf.Tensor:
        """p_t."""
        hidden = tf.tanh(product(query, self.matrix(self.position_kernel)))
        share = tf.sigmoid(product(hidden, self.cast(self.position_energy)[:, tf.newaxis])[..., 0])
        return tf.cast(memory.lengths[:, tf.newaxis], tf.float32) * tf.cast(share, tf.float32)

    def prefer(self, weights: tf.Tensor, distance: tf.Tensor) -> tf.Tensor:
        """Weights under the Gaussian."""
        return weights * tf.cast(tf.exp(-0.5 * (distance / (0.5 * self.window)) ** 2), weights.dtype)


@keras.saving.register_keras_serializable("nmt_keras")
class FixedContext(Attention):
    """One context for every step: c = the encoder's last state (Cho et al. 2014; RNNencdec of Bahdanau et al. 2014).

    A bidirectional encoder gives the last forward and the first backward state side by side. The alignment says where
    they were read: at the last token, the first, or half and half.

    Args:
        state_size: width of that state, or of both.
        directions: "forward", "backward" or "bidirectional", as the encoder's.
    """

    def __init__(self, state_size: int, directions: str, **options: Any) -> None:
        super().__init__(**options)
        self.state_size, self.directions = state_size, directions
        self.context_size = state_size

    def keys(self, encoding: Any) -> tf.Tensor:
        """c [B, D]."""
        return encoding.summary

    def attend(self, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> Attended:
        """c, and where it comes from."""
        each = tf.ones_like(query[..., :1])  # [B, Q, 1]
        weights = _summarised(memory, self.directions, query.dtype)
        fixed = memory.reading or memory.keys[:, tf.newaxis]
        context = tf.nest.map_structure(lambda x: each * x, fixed)
        return Attended(context, each * weights, tf.zeros_like(step))

    def read(self, memory: Memory, of: Callable[[tf.Tensor], Reading]) -> Any:
        """Of c."""
        return of(memory.keys[:, tf.newaxis])


@keras.saving.register_keras_serializable("nmt_keras")
class NoAttention(Attention):
    """No context: the source reaches the decoder through its first state alone (Sutskever et al. 2014).

    The alignment says where that state was read: at the last token, the first, half and half, or evenly at all.

    Args:
        directions: what that state is made of: the encoder's "forward" or "backward" state, both ("bidirectional"),
            or the "mean" of its annotations.
    """

    context_size = 0

    def __init__(self, directions: str, **options: Any) -> None:
        super().__init__(**options)
        self.directions = directions

    def keys(self, encoding: Any) -> tuple[()]:
        """Nothing."""
        return ()

    def attend(self, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> Attended:
        """A context of width 0, and where the decoder's start comes from."""
        weights = tf.ones_like(query[..., :1]) * _summarised(memory, self.directions, query.dtype)
        return Attended(query[..., :0], weights, tf.zeros_like(step))


def _summarised(memory: Memory, directions: str, dtype: tf.DType) -> tf.Tensor:
    """The positions [B, 1, S] where an encoder of these directions has read the whole sentence; all for "mean"."""
    width = memory.mask.shape[1] or tf.shape(memory.mask)[1]
    last = tf.one_hot(memory.lengths - 1, width, dtype=dtype)
    first = tf.one_hot(tf.zeros_like(memory.lengths), width, dtype=dtype)
    even = tf.cast(memory.mask, dtype) / tf.cast(memory.lengths, dtype)[:, tf.newaxis]
    places = {"forward": last, "backward": first, "bidirectional": 0.5 * (first + last), "mean": even}
    return places[directions][:, tf.newaxis]
