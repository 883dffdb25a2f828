"""Micro-batching: requests that come at the same time are searched as one batch, inside the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from nmt_keras.config import MicroBatchingConfig
from nmt_keras.export.contract import WIDTHS, Output
from nmt_keras.translation.translator import UNEQUAL

Answer = Callable[..., dict[str, tf.Tensor]]


def merge_requests(
    answer: Answer,
    queue: str,
    inputs: Sequence[tf.TensorSpec],
    outputs: Mapping[str, Output],
    config: MicroBatchingConfig,
) -> Answer:
    """``answer`` for concurrent requests: those that wait together go through it as one batch.

    Every text is on its own in a batch, so a merged request is answered as if it had come alone, up to the rounding of
    larger products; axes that the batch made wider are cut to the request's own width. A request of more than
    ``max_batch_size`` texts waits in parts of that size, which are put together again; one of none is answered at once.
    Where the queue is full, a request is refused with UNAVAILABLE.

    The batch operation knows no rank 0 and no padding of rows, so only strings [B] go in, and what depends on a batch's
    widest sentence, token ids, stays inside.

    Args:
        answer: [B] string tensors to outputs by name.
        queue: a name that no other function of the export has, whose requests this one would answer else.
        inputs: what it takes.
        outputs: what it answers.
        config: sizes and times.
    """
    together = tf.function(answer, input_signature=inputs, autograph=False).get_concrete_function()

    def merged(texts: Sequence[tf.Tensor]) -> dict[str, tf.Tensor]:
        flat = tf.raw_ops.BatchFunction(
            in_tensors=texts,
            captured_tensors=together.captured_inputs,
            f=together,
            Tout=[tensor.dtype for tensor in together.outputs],
            num_batch_threads=config.threads,
            max_batch_size=config.max_batch_size,
            batch_timeout_micros=round(1000 * config.wait_ms),
            max_enqueued_batches=config.queue,
            enable_large_batch_splitting=False,
            shared_name=queue,
            batching_queue=queue,
        )
        shaped = [tf.ensure_shape(x, like.shape) for x, like in zip(flat, together.outputs, strict=True)]
        return cut_to_width(tf.nest.pack_sequence_as(together.structured_outputs, shaped), outputs)

    def in_parts(texts: Sequence[tf.Tensor]) -> dict[str, tf.Tensor]:
        size = config.max_batch_size
        count = -(-tf.size(texts[0]) // size)
        like = together.structured_outputs
        parts = {name: _parts(count, one) for name, one in like.items()}

        def ask(part: tf.Tensor, parts: dict[str, tf.TensorArray]) -> tuple[tf.Tensor, dict[str, tf.TensorArray]]:
            found = merged([text[part * size : (part + 1) * size] for text in texts])
            return part + 1, {name: array.write(part, found[name]) for name, array in parts.items()}

        # parts wait side by side, since none needs another's answer, but no more than find a place in the queue
        _, parts = tf.while_loop(
            lambda part, _: part < count,
            ask,
            (tf.constant(0), parts),
            parallel_iterations=min(config.threads, config.queue),
        )
        return _joined(parts, count, outputs, like)

    def answer_soon(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = tf.size(texts[0])
        same = [tf.debugging.assert_equal(tf.size(text), rows, UNEQUAL) for text in texts[1:]]
        with tf.control_dependencies(same):
            fits = tf.identity(rows <= config.max_batch_size)
        return tf.cond(
            fits,
            lambda: tf.cond(rows >= 1, lambda: merged(texts), lambda: together(*texts)),
            lambda: in_parts(texts),
        )

    return answer_soon


def _parts(count: tf.Tensor, like: tf.Tensor) -> tf.TensorArray:
    """Place for ``count`` tensors of the type and rank of ``like``, which differ in their shapes."""
    shape = [None] * like.shape.rank
    return tf.TensorArray(like.dtype, size=count, element_shape=shape, infer_shape=False)


def _joined(
    parts: Mapping[str, tf.TensorArray],
    count: tf.Tensor,
    outputs: Mapping[str, Output],
    like: Mapping[str, tf.Tensor],
) -> dict[str, tf.Tensor]:
    """The parts of each output below each other, those of fewer columns padded with "" and 0."""
    widths = {
        axis: tf.reduce_max(parts[named[0]].concat())
        for axis, names in WIDTHS.items()
        if (named := [name for name in names if name in parts])
    }

    def widened(name: str) -> tf.Tensor:
        axes = outputs[name].axes
        if not any(axis in widths for axis in axes):
            return parts[name].concat()

        def widen(part: tf.Tensor, wide: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            one = parts[name].read(part)
            missing = [widths[axis] - tf.shape(one)[at] if axis in widths else 0 for at, axis in enumerate(axes)]
            padding = "" if one.dtype == tf.string else tf.zeros([], one.dtype)
            return part + 1, wide.write(part, tf.pad(one, [[0, more] for more in missing], constant_values=padding))

        _, wide = tf.while_loop(lambda part, _: part < count, widen, (tf.constant(0), _parts(count, like[name])))
        return wide.concat()

    return {name: tf.ensure_shape(widened(name), one.shape) for name, one in like.items()}


def cut_to_width(found: Mapping[str, tf.Tensor], outputs: Mapping[str, Output]) -> dict[str, tf.Tensor]:
    """``found`` without the columns that no row of it fills: see ``WIDTHS``."""

    def width(axis: str) -> slice:
        named = [name for name in WIDTHS.get(axis, ()) if name in found]
        return slice(tf.reduce_max(found[named[0]])) if named else slice(None)

    return {name: tensor[tuple(map(width, outputs[name].axes))] for name, tensor in found.items()}
