"""Named weights as the JavaScript engine reads them: safetensors with one row for each output, in int8 or float16."""

import json

import numpy as np

from nmt_keras.export.assets import Weights
from nmt_keras.export.resources import as_float16

SCALES = ".scales"
"""End of the name of an int8 matrix's scales."""
_DTYPES = {"float32": "F32", "float16": "F16", "int8": "I8"}


def by_outputs(weights: Weights) -> dict[str, np.ndarray]:
    """Transposes kernels [inputs, outputs]. An embedding has one row for each token already."""
    return {n: v.T if v.ndim == 2 and not n.endswith("embeddings") else v for n, v in weights.items()}


def in_int8(weights: Weights) -> dict[str, np.ndarray]:
    """Rounds matrices to int8, with one scale for each row (NAME.scales). Vectors become float32."""
    found = {}
    for name, value in weights.items():
        found[name] = exact = value.astype(np.float32)
        if exact.ndim == 2:
            found[name + SCALES] = scales = np.maximum(np.abs(exact).max(axis=1), 1e-30) / np.float32(127)
            found[name] = np.round(exact / scales[:, np.newaxis]).astype(np.int8)
    return found


def in_float16(weights: Weights) -> dict[str, np.ndarray]:
    """Rounds weights to float16.

    Raises:
        ValueError: a weight is too large.
    """
    return {name: as_float16(value, name, "--float16", "Omit --float16.") for name, value in weights.items()}


def as_read(rows: Weights) -> dict[str, np.ndarray]:
    """Returns the float32 values that the engine computes with, as Keras orders them."""
    exact = {
        name: value.astype(np.float32) * (rows[name + SCALES][:, np.newaxis] if name + SCALES in rows else 1)
        for name, value in rows.items()
        if not name.endswith(SCALES)
    }
    return by_outputs(exact)


def to_safetensors(rows: Weights) -> bytes:
    """Returns a safetensors file. Larger items come first, so that every array is aligned."""
    header, content, end = {}, [], 0
    for name, value in sorted(rows.items(), key=lambda each: (-each[1].itemsize, each[0])):
        data = np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes()
        begin, end = end, end + len(data)
        header[name] = {"dtype": _DTYPES[str(value.dtype)], "shape": list(value.shape), "data_offsets": [begin, end]}
        content.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(content)
