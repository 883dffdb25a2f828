"""The encoded sentences, as the encoder returns them and as the decoder reads them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from nmt_keras.config import require
from nmt_keras.layers.base import Nest, Shape
from nmt_keras.layers.cells import CellState, LSTMState


class LayerStates(NamedTuple):
    """Last states of one layer of an encoder; () for a direction that it lacks: Keras refuses None in results."""

    forward: CellState | tuple[()] = ()  # nest of [B, U]: after the last token
    backward: CellState | tuple[()] = ()  # nest of [B, U]: after the first token


class Encoding(NamedTuple):
    """A batch of encoded sentences."""

    values: tf.Tensor  # [B, S, D] float: annotations h_j; 0 at padding
    mask: tf.Tensor  # [B, S] bool: True at tokens, False at padding
    lengths: tf.Tensor  # [B] int32: number of tokens of each sentence
    states: tuple[LayerStates, ...]  # one per layer, from bottom to top; none in a self-attention encoder


class Memory(NamedTuple):
    """Fields of an ``Encoding``, and tensors that are computed from it once per sentence.

    The hypotheses of a sentence share one row.
    """

    values: tf.Tensor  # [B, S, D] float: annotations h_j
    mask: tf.Tensor  # [B, S] bool: True at tokens, False at padding
    lengths: tf.Tensor  # [B] int32: number of tokens of each sentence
    states: tuple[LayerStates, ...]  # the encoder's last states, layer by layer
    keys: Nest  # nest of [B, ...]: results of ``Attention.keys``, such as U_a h_j; None without attention
    products: dict[str, tf.Tensor] | None = None  # [B, S, ...] float: results of ``context.products``


def as_encoding(values: tf.Tensor | Encoding, mask: tf.Tensor | None = None) -> Encoding:
    """Returns annotations [B, S, D] as an encoding without states; an encoding as it is.

    Args:
        values: [B, S, D] float; or an encoding, or its fields.
        mask: [B, S] bool, True at the positions that exist. None, or the nest that Keras makes of the masks of the
            fields, for the mask of the encoding; else None for all. Each row holds at least one True.
    """
    encoding = _of_fields(values) if isinstance(values, tuple | list) else Encoding(values, None, None, ())
    if encoding.mask is not None and (mask is None or isinstance(mask, type(values))):
        mask = encoding.mask
    mask = tf.ones(tf.shape(encoding.values)[:2], tf.bool) if mask is None else tf.cast(mask, tf.bool)
    return encoding._replace(mask=mask, lengths=tf.reduce_sum(tf.cast(mask, tf.int32), axis=1))


def shape_of_encoding(shape: Shape | Encoding) -> Encoding:
    """Returns the shapes of the result of ``as_encoding``."""
    return _of_fields(shape) if isinstance(shape[0], tuple | list) else Encoding(shape, shape[:2], shape[:1], ())


def _of_fields(fields: Sequence[Any]) -> Encoding:
    """Returns the encoding of tensors, or of shapes, whose fields a loaded model passes as lists."""

    def is_lstm(state: Nest) -> bool:
        return isinstance(state, tuple | list) and bool(state) and not isinstance(state[0], int | None)

    values, mask, lengths, layers = fields
    states = [[LSTMState(*state) if is_lstm(state) else state for state in layer] for layer in layers]
    return Encoding(values, mask, lengths, tuple(LayerStates(*layer) for layer in states))


def equal_weights(encoding: Encoding | Memory, dtype: tf.DType) -> tf.Tensor:
    """Returns 1 / S at each token and 0 at padding, [B, 1, S]."""
    return (tf.cast(encoding.mask, dtype) / tf.cast(encoding.lengths, dtype)[:, tf.newaxis])[:, tf.newaxis]


def last_states(states: tuple[LayerStates, ...], source: str | None) -> list[Nest]:
    """Returns the last states of an encoder's top layer, of an LSTM h; or their shapes.

    Args:
        states: States of an ``Encoding``, or their shapes.
        source: "forward", "backward" or "both".

    Raises:
        ValueError: The encoder lacks a direction.
    """
    names = [name for name in LayerStates._fields if source in (name, "both")]
    found = [getattr(states[-1], name) for name in names] if states else [()]
    require(
        all(map(tf.nest.flatten, found)),
        "source",
        "directions that the encoder has",
        source,
        'Use another bridge or attention, such as DenseBridge(source="mean", units=units), or a bidirectional encoder.',
    )
    return [state.hidden if isinstance(state, LSTMState) else state for state in found]


SUMMARIES = ("forward", "backward", "both", "mean")
"""Sources of one vector for each sentence: directions of the encoder's last state, or the mean of the annotations."""


def summary(encoding: Encoding | Memory, source: str | None) -> tf.Tensor:
    """Returns one vector for each sentence, [B, D]: its last states, concatenated; or 1 / S SUM_j h_j.

    Args:
        encoding: Encoded sentences.
        source: One of ``SUMMARIES``.
    """
    if source == "mean":
        return tf.matmul(equal_weights(encoding, encoding.values.dtype), encoding.values)[:, 0]
    return tf.concat(last_states(encoding.states, source), axis=-1)


def summary_size(shapes: Encoding, source: str | None) -> int:
    """Returns the width D of ``summary`` for the shapes of an encoding."""
    return shapes.values[-1] if source == "mean" else sum(each[-1] for each in last_states(shapes.states, source))
