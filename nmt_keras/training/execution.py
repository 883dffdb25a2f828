"""Execution of a training step: XLA or a plain graph, and precision."""

from typing import Final

import tensorflow as tf

from nmt_keras.config import Recipe, TrainConfig, require
from nmt_keras.layers.matmul import multiplies_bfloat16
from nmt_keras.models.seq2seq import Seq2Seq, build_model
from nmt_keras.training.distribution import find_cluster

BFLOAT16_PRODUCTS: Final = "bfloat16-products"


def build_for_training(recipe: Recipe, source_vocabulary_size: int, target_vocabulary_size: int) -> Seq2Seq:
    """Builds the model of a recipe in the dtype policy of its precision."""
    return build_model(recipe.model, source_vocabulary_size, target_vocabulary_size, _policy(recipe.train.precision))


def _policy(precision: str) -> str:
    """Returns the dtype policy of a model that is trained in a precision."""
    return precision if precision.startswith("mixed_") else "float32"


def uses_xla(config: TrainConfig, model: Seq2Seq) -> bool:
    """Returns True if XLA compiles the training step; by default, everywhere but on several GPUs.

    On one H200, XLA was 3.3 to 5 times as fast as a plain graph (docs/guides/train-on-a-gpu.md). On several GPUs, it
    was not measured.

    Raises:
        ValueError: the precision does not fit the device or the model's dtype policy.
    """
    policy, wanted = model.dtype_policy.name, _policy(config.precision)
    require(
        policy == wanted,
        "model",
        f"the dtype policy {wanted} for the precision {config.precision}",
        policy,
        f"Build the model under {wanted}, or train with precision {policy}.",
    )
    gpus = len(tf.config.list_logical_devices("GPU")) * find_cluster()[0]
    compiled = gpus <= 1 if config.xla is None else config.xla
    require(
        config.precision != BFLOAT16_PRODUCTS or (compiled and gpus == 0),
        "TrainConfig.precision",
        "float32 or mixed_bfloat16",
        config.precision,
        "The precision bfloat16-products requires XLA on a CPU.",
    )
    return compiled


def describe_execution(compiled: bool, precision: str) -> str:
    """Returns a one-line description of how a training step is executed."""
    if not compiled:
        return "forward and backward pass: a plain TensorFlow graph"
    rounds = precision == BFLOAT16_PRODUCTS
    rounded = "; factors of products are rounded to bfloat16" if rounds else ""
    if rounds and multiplies_bfloat16() is False:
        rounded += ", but this processor has no bfloat16 instructions, so float32 is faster"
    return f"forward and backward pass: compiled by XLA{rounded}"
