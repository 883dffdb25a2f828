"""Micro-batching: runs concurrent requests as one batch, inside the graph."""

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from nmt_keras.config import MicroBatchingConfig
from nmt_keras.export.contract import LENGTHS, Output
from nmt_keras.translation.records import in_parts
from nmt_keras.translation.translator import UNEQUAL

Answer = Callable[..., dict[str, tf.Tensor]]


def merge_requests(
    answer: Answer,
    queue: str,
    inputs: Sequence[tf.TensorSpec],
    outputs: Mapping[str, Output],
    config: MicroBatchingConfig,
) -> Answer:
    """Returns a function like ``answer`` that runs concurrent requests as one batch.

    Each request gets the same answer as without batching, up to rounding. Padding for other requests is removed. A
    request with more than ``max_batch_size`` texts is split into batches of this size. If the queue is full, a request
    fails with UNAVAILABLE.

    The batch operation supports neither scalars nor padding. Therefore its only inputs are strings [B]. ``answer``
    encodes and pads the sentences inside the batch.

    Args:
        answer: Function from string tensors [B] to outputs by name.
        queue: Name of the queue, unique within the export. Functions with the same queue would share batches.
        inputs: Specifications of the arguments.
        outputs: Declarations of the outputs, by name.
        config: Batch size, queue length, waiting time and number of threads.
    """
    batched = tf.function(answer, input_signature=inputs, autograph=False).get_concrete_function()
    outcome = batched.structured_outputs
    shapes = {  # of which only the number of hypotheses is known
        name: [size if axis == "K" else None for axis, size in zip(outputs[name].axes, like.shape, strict=True)]
        for name, like in outcome.items()
    }

    def merged(texts: Sequence[tf.Tensor]) -> dict[str, tf.Tensor]:
        flat = tf.raw_ops.BatchFunction(
            in_tensors=texts,
            captured_tensors=batched.captured_inputs,
            f=batched,
            Tout=[tensor.dtype for tensor in batched.outputs],
            num_batch_threads=config.threads,
            max_batch_size=config.max_batch_size,
            batch_timeout_micros=round(1000 * config.wait_ms),
            max_enqueued_batches=config.queue,
            enable_large_batch_splitting=False,
            shared_name=queue,
            batching_queue=queue,
        )
        shaped = [tf.ensure_shape(x, like.shape) for x, like in zip(flat, batched.outputs, strict=True)]
        return cut_to_width(tf.nest.pack_sequence_as(outcome, shaped), outputs)

    def all_merged(texts: Sequence[tf.Tensor]) -> dict[str, tf.Tensor]:
        at_once = min(config.threads, config.queue)  # at most as many parts as the queue holds
        found = in_parts(merged, texts, config.max_batch_size, outcome, at_once)
        return {name: tf.ensure_shape(tensor, shapes[name]) for name, tensor in found.items()}

    def answer_merged(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = tf.size(texts[0])
        with tf.control_dependencies([tf.debugging.assert_equal(tf.size(text), rows, UNEQUAL) for text in texts[1:]]):
            is_empty = tf.equal(rows, 0)
        return tf.cond(is_empty, lambda: batched(*texts), lambda: all_merged(texts))

    return answer_merged


def cut_to_width(found: Mapping[str, tf.Tensor], outputs: Mapping[str, Output]) -> dict[str, tf.Tensor]:
    """Removes the columns of ``found`` that are padding in every row."""
    widths = {axis: tf.reduce_max(found[name]) for name, axis in LENGTHS.items() if name in found}
    return {
        name: tensor[tuple(slice(widths.get(axis)) for axis in outputs[name].axes)] for name, tensor in found.items()
    }
