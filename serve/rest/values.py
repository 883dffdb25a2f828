"""JSON values to typed values and arrays: what TensorFlow Serving accepts for each of TensorFlow's types."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..models.status import Code, StatusError, invalid
from .json_text import Json, echo, to_bytes, type_name

INTEGERS = {
    "int32": (-(2**31), 2**31),
    "int16": (-(2**31), 2**31),  # narrower types wrap around, as they do in TensorFlow Serving
    "int8": (-(2**31), 2**31),
    "uint8": (-(2**31), 2**31),
    "int64": (-(2**63), 2**63),
    "uint32": (0, 2**32),
    "uint64": (0, 2**64),
}
_BASE64 = re.compile(rb"([A-Za-z0-9+/]*)([=.]*)")
_WHITE_SPACE = b" \t\n\v\f\r"
_DECIMALS: dict[str, np.dtype[Any]] = {"float": np.dtype(np.float32), "double": np.dtype(np.float64)}


def value_reader(dtype: str) -> Callable[[Json], object]:
    """The function that reads one JSON value as ``dtype``."""

    def mismatch(value: Json) -> StatusError:
        return invalid(f"JSON Value: {echo(value)} Type: {type_name(value)} is not of expected type: {dtype}")

    def string(value: Json) -> bytes:
        if isinstance(value, dict):
            return read_base64(value)
        if not isinstance(value, str):
            raise mismatch(value)
        return to_bytes(value)

    def boolean(value: Json) -> bool:
        if not isinstance(value, bool):
            raise mismatch(value)
        return value

    def integer(value: Json) -> int:
        low, high = INTEGERS[dtype]
        if type(value) is not int or not low <= value < high:
            raise mismatch(value)
        return value

    def decimal(value: Json) -> float:
        if type(value) not in (int, float):
            raise mismatch(value)
        if not _fits(value, _DECIMALS[dtype]):
            raise invalid(f"Cannot convert JSON value: {echo(value)} to {dtype} without loss of precision.")
        return value

    def inexpressible(value: Json) -> object:
        raise StatusError(Code.UNIMPLEMENTED, f"Conversion of JSON Value: {echo(value)} to type: {dtype}")

    if dtype in INTEGERS:
        return integer
    if dtype in _DECIMALS:
        return decimal
    return {"string": string, "bool": boolean}.get(dtype, inexpressible)


def _fits(value: float, dtype: np.dtype) -> bool:
    """Whether ``dtype`` holds the integer exactly, or has the decimal within its range."""
    limits = np.finfo(dtype)
    if isinstance(value, int):
        return abs(value) < 2 ** (limits.nmant + 1)
    return not math.isfinite(value) or abs(value) <= float(limits.max)


def is_base64(value: Json) -> bool:
    """Whether ``value`` is ``{"b64": STRING}``, which stands for bytes wherever a string may stand."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def read_base64(value: dict[str, Json]) -> bytes:
    """The bytes that ``{"b64": STRING}`` stands for, by the rules of Abseil, whose decoder TensorFlow Serving calls.

    ASCII white space may stand anywhere. The padding, of equals signs or full stops, is whole or missing.
    """
    if not is_base64(value):
        raise invalid(f"JSON Value: {echo(value)} not formatted correctly for base64 data")
    found = _BASE64.fullmatch(to_bytes(value["b64"]).translate(None, _WHITE_SPACE))
    missing = -len(found[1]) % 4 if found else 0
    if found is None or missing == 3 or len(found[2]) not in (0, missing):
        raise invalid("Unable to base64 decode")
    return base64.b64decode(found[1] + b"=" * missing)


def to_array(values: list[object], shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """``values`` as read, flat, as an array of ``shape`` in the NumPy type a session takes for ``dtype``."""
    if dtype == "string":
        array = np.array(values, object)
    elif dtype in ("int16", "int8", "uint8"):
        array = np.array(values, np.int64).astype(dtype)
    else:
        array = np.array(values, _DECIMALS.get(dtype, dtype))
    return array.reshape(shape)
