"""Signatures: the named entry points of a SavedModel."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

Tensors = dict[str, np.ndarray]
"""Arrays by name of the input or output. Strings are object arrays of bytes."""

SERVING_DEFAULT = "serving_default"
"""Signature of a request without a signature name."""


class TensorSpec(NamedTuple):
    """Declared type and shape of an input or output."""

    dtype: str
    """TensorFlow's name of the type: string, float, double, int32, bool ..."""
    shape: tuple[int | None, ...] | None
    """`None` for an unknown rank. A dimension is `None` if it is unknown."""
    tensor: str = ""
    """Name of the tensor in the graph."""


class Signature(NamedTuple):
    """An entry point of the graph."""

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]

    @property
    def splits_texts(self) -> bool:
        """If `True`, the graph splits its strings into sentences: it has an output with their number."""
        return "sentences" in self.outputs


def shape_text(shape: tuple[int | None, ...]) -> str:
    """Returns ``shape`` as text for messages: [2,3], with ? for an unknown dimension."""
    return f"[{','.join('?' if size is None else str(size) for size in shape)}]"
