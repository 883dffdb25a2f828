"""How a training step is executed: with XLA or as a plain graph, and in which precision."""

from __future__ import annotations

from typing import NamedTuple

import keras
import tensorflow as tf

from nmt_keras.config import Recipe, TrainConfig, require
from nmt_keras.layers.matmul import multiplies_bfloat16
from nmt_keras.models.seq2seq import Seq2Seq, build_model

BFLOAT16_PRODUCTS = "bfloat16-products"


class Execution(NamedTuple):
    """How a training step is executed. XLA cannot compile cuDNN's operations, so at most one of the two is True."""

    xla: bool  # XLA compiles the step
    fused: bool  # the step is a plain graph, in which cuDNN reads whole sentences where the cells allow


def choose_execution(xla: bool | None, gpus: int, precision: str = "float32") -> Execution:
    """Chooses XLA on a CPU, and on a GPU a plain graph, in which Keras's layers use cuDNN.

    Args:
        xla: True or False to decide; None to choose.
        gpus: Number of GPUs that TensorFlow sees.
        precision: See ``TrainConfig.precision``.

    Raises:
        ValueError: ``precision`` is bfloat16-products, but the step is not compiled by XLA on a CPU.
    """
    compiled = gpus == 0 if xla is None else xla
    require(
        precision != BFLOAT16_PRODUCTS or (compiled and gpus == 0),
        "TrainConfig.precision",
        "mixed_bfloat16, because bfloat16-products needs XLA on a CPU",
        precision,
    )
    return Execution(compiled, not compiled and gpus > 0)


def dtype_policy(config: TrainConfig) -> str:
    """Returns the name of Keras's dtype policy of the model."""
    return config.precision if config.precision.startswith("mixed_") else "float32"


def build_for_training(recipe: Recipe, source_vocabulary_size: int, target_vocabulary_size: int) -> Seq2Seq:
    """Returns the recipe's model in the recipe's precision, as this machine's devices execute it."""
    before, execution = keras.config.dtype_policy(), execution_of(recipe.train)
    keras.config.set_dtype_policy(dtype_policy(recipe.train))
    try:
        model = build_model(recipe.model, source_vocabulary_size, target_vocabulary_size)
    finally:
        keras.config.set_dtype_policy(before)
    model.encoder.use_cudnn = model.decoder.use_cudnn = execution.fused
    return model


def describe_execution(execution: Execution, model: Seq2Seq, config: TrainConfig) -> str:
    """Returns a sentence that says how a training step is executed."""
    if not execution.xla:
        samples = config.sampling_from > 0.0 or config.sampling_to > 0.0  # step by step, whatever the decoder
        decoder = model.decoder.reads_fused and not samples
        fused = ["encoder"] * model.encoder.reads_fused + ["decoder"] * decoder
        how = f"; cuDNN reads whole sentences in the {' and the '.join(fused)}" if fused else ""
        return f"forward and backward pass: a plain TensorFlow graph{how}"
    rounds = config.precision == BFLOAT16_PRODUCTS
    rounded = "; factors of products are rounded to bfloat16" if rounds else ""
    if rounds and multiplies_bfloat16() is False:
        rounded += ", which this processor has no instructions for: float32 would be as fast"
    return f"forward and backward pass: compiled by XLA{rounded}"


def execution_of(config: TrainConfig) -> Execution:
    """Returns how a training step of ``config`` is executed on this machine."""
    return choose_execution(config.xla, len(tf.config.list_logical_devices("GPU")), config.precision)
