"""Converts JSON values to typed values and arrays by TensorFlow Serving's rules."""

import base64
import math
from collections.abc import Callable

import numpy as np

from ..models.status import Code, StatusError, invalid
from .json_text import Json, echo, to_bytes, type_name

INTEGERS = ("int32", "int16", "int8", "uint8", "int64", "uint32", "uint64")
_DECIMALS: dict[str, type[np.floating]] = {"float": np.float32, "double": np.float64}
# Mapping from TensorFlow's type to the Python types of accepted JSON values
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "bool": (bool,),
    **dict.fromkeys(INTEGERS, (int,)),
    **dict.fromkeys(_DECIMALS, (int, float)),
}


def value_reader(dtype: str) -> Callable[[Json], object]:
    """Returns a function that reads a JSON value as ``dtype``."""
    limits = np.iinfo(dtype) if dtype in INTEGERS else None

    def read(value: Json) -> object:
        if dtype not in _KINDS:
            raise StatusError(Code.UNIMPLEMENTED, f"Conversion of JSON Value: {echo(value)} to type: {dtype}")
        if dtype == "string" and isinstance(value, dict):
            return read_base64(value)
        if type(value) not in _KINDS[dtype] or (limits is not None and not limits.min <= value <= limits.max):
            raise invalid(f"JSON Value: {echo(value)} Type: {type_name(value)} is not of expected type: {dtype}")
        if dtype in _DECIMALS and float(np.finfo(_DECIMALS[dtype]).max) < abs(value) != math.inf:
            raise invalid(f"JSON Value: {echo(value)} is too large for {dtype}")
        return to_bytes(value) if dtype == "string" else value

    return read


def is_base64(value: Json) -> bool:
    """Returns `True` if ``value`` is ``{"b64": STRING}``, which is accepted in place of any string."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def read_base64(value: dict[str, Json]) -> bytes:
    """Decodes ``{"b64": STRING}``."""
    if not is_base64(value):
        raise invalid(f"JSON Value: {echo(value)} not formatted correctly for base64 data")
    try:
        return base64.b64decode(value["b64"], validate=True)
    except ValueError as error:
        raise invalid("Unable to base64 decode") from error


def to_array(values: list[object], shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Returns an array of ``shape`` with the flat ``values``, in the NumPy type that sessions accept for ``dtype``."""
    return np.array(values, object if dtype == "string" else _DECIMALS.get(dtype, dtype)).reshape(shape)
