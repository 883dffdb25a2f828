"""Signatures: the named entry points of a SavedModel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

Tensors = dict[str, np.ndarray]
"""Arrays by the name of their input or output; strings are object arrays of bytes."""

SERVING_DEFAULT = "serving_default"
"""The signature of a request that names none."""


class TensorSpec(NamedTuple):
    """The type and shape that a signature declares for one input or output."""

    dtype: str
    """TensorFlow's name of the type: string, float, double, int32, bool ..."""
    shape: tuple[int | None, ...] | None
    """None for an unknown dimension; None as a whole for an unknown rank."""


class Signature(NamedTuple):
    """One entry point of the graph."""

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    feeds: Mapping[str, str]
    """Input name to the graph's tensor name."""
    fetches: Mapping[str, str]
    """Output name to the graph's tensor name."""
    method_name: str
    """tensorflow/serving/predict, classify or regress; empty for the signature that initialises the model."""


def shape_text(shape: tuple[int, ...]) -> str:
    """``shape`` as a message names it: [2,3]."""
    return f"[{','.join(map(str, shape))}]"
