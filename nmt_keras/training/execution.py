"""Execution of a training step: XLA or a plain graph, cuDNN, and precision."""

from typing import Final, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.config import Recipe, TrainConfig, require
from nmt_keras.layers.matmul import multiplies_bfloat16
from nmt_keras.models.seq2seq import Seq2Seq, build_model
from nmt_keras.training.distribution import find_cluster

BFLOAT16_PRODUCTS: Final = "bfloat16-products"


class Execution(NamedTuple):
    """Execution of a training step. At most one field is True, because XLA cannot compile cuDNN's operations."""

    xla: bool  # compiled by XLA
    fused: bool  # plain graph; recurrent layers use cuDNN if it supports their cells


def choose_execution(xla: bool | None, gpus: int, precision: str = "float32") -> Execution:
    """Chooses XLA on a CPU and on one GPU, and a plain graph with cuDNN on several GPUs.

    On one H200 (docs/guides/train-on-a-gpu.md), XLA was 2.3 to 3.5 times as fast as a plain graph, and 2.3 times as
    fast as one with cuDNN. On several GPUs, XLA was not measured.

    Args:
        xla: ``True`` requires XLA and ``False`` forbids it. ``None`` chooses by device.
        gpus: Number of GPUs that train together.
        precision: See ``TrainConfig.precision``.

    Raises:
        ValueError: ``precision`` is bfloat16-products, but the step is not compiled by XLA on a CPU.
    """
    compiled = gpus <= 1 if xla is None else xla
    require(
        precision != BFLOAT16_PRODUCTS or (compiled and gpus == 0),
        "TrainConfig.precision",
        "float32 or mixed_bfloat16",
        precision,
        "The precision bfloat16-products requires XLA on a CPU.",
    )
    return Execution(compiled, not compiled and gpus > 0)


def build_for_training(recipe: Recipe, source_vocabulary_size: int, target_vocabulary_size: int) -> Seq2Seq:
    """Builds the model of a recipe in its precision, with cuDNN if ``execution_of`` chooses it."""
    before, precision = keras.config.dtype_policy(), recipe.train.precision
    keras.config.set_dtype_policy(precision if precision.startswith("mixed_") else "float32")
    try:
        model = build_model(recipe.model, source_vocabulary_size, target_vocabulary_size)
    finally:
        keras.config.set_dtype_policy(before)
    model.encoder.use_cudnn = model.decoder.use_cudnn = execution_of(recipe.train, model).fused
    return model


def describe_execution(execution: Execution, model: Seq2Seq, config: TrainConfig) -> str:
    """Returns a one-line description of how a training step is executed."""
    if not execution.xla:
        samples = config.sampling_from > 0.0 or config.sampling_to > 0.0  # sampling decodes step by step
        decoder = model.decoder.runs_cudnn and not samples
        fused = ["encoder"] * model.encoder.runs_cudnn + ["decoder"] * decoder
        how = f", with cuDNN in the {' and the '.join(fused)}" if fused else ""
        return f"forward and backward pass: a plain TensorFlow graph{how}"
    rounds = config.precision == BFLOAT16_PRODUCTS
    rounded = "; factors of products are rounded to bfloat16" if rounds else ""
    if rounds and multiplies_bfloat16() is False:
        rounded += ", but this processor has no bfloat16 instructions, so float32 is as fast"
    return f"forward and backward pass: compiled by XLA{rounded}"


def execution_of(config: TrainConfig, model: Seq2Seq) -> Execution:
    """Chooses the execution of a model's training step on this machine; see ``choose_execution``.

    Raises:
        ValueError: see ``choose_execution``, or the precision does not fit the model's dtype policy.
    """
    policy = model.dtype_policy.name
    require(
        config.precision != BFLOAT16_PRODUCTS or policy == "float32",
        "model",
        f"the dtype policy float32 for the precision {BFLOAT16_PRODUCTS}",
        policy,
        f"Build the model under float32, or train with precision {policy}.",
    )
    gpus = len(tf.config.list_logical_devices("GPU")) * find_cluster()[0]
    return choose_execution(config.xla, gpus, config.precision)
