"""Micro-batching: requests that come at the same time are searched as one batch, inside the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from nmt_keras.config import MicroBatchingConfig
from nmt_keras.export.contract import WIDTHS, Output

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
    ``max_batch_size`` texts, or of none, is answered by itself and at once. Where the queue is full, a request is
    refused with UNAVAILABLE.

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

    def answer_soon(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = tf.size(texts[0])
        fits = (rows >= 1) & (rows <= config.max_batch_size)
        return tf.cond(fits, lambda: merged(texts), lambda: together(*texts))

    return answer_soon


def cut_to_width(found: Mapping[str, tf.Tensor], outputs: Mapping[str, Output]) -> dict[str, tf.Tensor]:
    """``found`` without the columns that no row of it fills: see ``WIDTHS``."""

    def width(axis: str) -> slice:
        named = [name for name in WIDTHS.get(axis, ()) if name in found]
        return slice(tf.reduce_max(found[named[0]])) if named else slice(None)

    return {name: tensor[tuple(map(width, outputs[name].axes))] for name, tensor in found.items()}
