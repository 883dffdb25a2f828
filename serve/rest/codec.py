"""Converts predict requests to tensors and tensors to answers, in TensorFlow Serving's row and column formats.

Row format:    {"instances": [ROW, ...]}          -> {"predictions": [ROW, ...]}
Column format: {"inputs": VALUE or {NAME: VALUE}} -> {"outputs": VALUE or {NAME: VALUE}}

All functions are pure. Strings are object arrays of bytes, the type that sessions take and return. Error messages are
TensorFlow Serving's.
"""

import base64
import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..limits import Limits, require_few_rows, require_short_strings
from ..models.signature import Tensors, TensorSpec, shape_text
from ..models.status import StatusError, invalid
from . import json_text
from .json_text import Json, echo
from .values import INTEGERS, is_base64, to_array, value_reader


class Layout(enum.Enum):
    """Arrangement of the tensors in a request and its answer."""

    ROWS = "instances"
    COLUMNS = "inputs"


class Inputs(NamedTuple):
    """The tensors of a predict request and their layout."""

    tensors: Tensors
    layout: Layout


# Reading


def read_request(body: bytes, max_values: int) -> dict[str, Json]:
    """Reads the JSON object in ``body``. Its ``signature_name``, if present, must be a string."""
    document = json_text.parse(body, max_values)
    if not isinstance(document, dict):
        raise invalid(f"JSON Value: {echo(document)} Is not object")
    if not isinstance(document.get("signature_name", ""), str):
        raise invalid(
            f"JSON Value: {echo(document)} not formatted correctly. 'signature_name' key must be a string value."
        )
    return document


def read_inputs(document: dict[str, Json], specs: Mapping[str, TensorSpec], limits: Limits) -> Inputs:
    """Reads the tensors of a request.

    Args:
        document: The request's JSON object.
        specs: Inputs of the signature.
        limits: Limits of rows, values and strings.

    Raises:
        StatusError: INVALID_ARGUMENT for inputs that do not fit ``specs`` or ``limits``; UNIMPLEMENTED for a type that
            JSON cannot express.
    """
    if not specs:
        raise invalid(f"Failed to get input map for signature: {document.get('signature_name') or 'DEFAULT'}")
    if "instances" in document and "inputs" in document:
        raise invalid(
            f"JSON Value: {echo(document)} Not formatted correctly expecting only one of 'inputs' or 'instances' keys "
            "to exist "
        )
    if "instances" in document:
        instances = document["instances"]
        if not isinstance(instances, list):
            raise invalid(f"JSON Value: {echo(document)} Expecting 'instances' to be an list/array")
        if not instances:
            raise invalid(f"JSON Value: {echo(document)} No values in 'instances' array")
        require_few_rows(limits, min(specs), len(instances))
        inputs = Inputs(_read_rows(instances, specs), Layout.ROWS)
    elif "inputs" in document:
        inputs = Inputs(_read_columns(document["inputs"], specs, limits), Layout.COLUMNS)
    else:
        raise invalid("Missing 'inputs' or 'instances' key")
    for name, tensor in inputs.tensors.items():
        require_short_strings(limits, name, tensor)
    return inputs


class _Leaves(NamedTuple):
    """Flat values of a tensor, and its shape."""

    values: list
    shape: tuple[int, ...]


def _read_columns(inputs: Json, specs: Mapping[str, TensorSpec], limits: Limits) -> Tensors:
    if not isinstance(inputs, dict) or is_base64(inputs):
        inputs = {_only_input(specs, "inputs is a plain value/list, but expecting an object"): inputs}
    tensors = {}
    for name, spec in sorted(specs.items()):
        if name not in inputs:
            raise invalid(f"Missing named input: {name} in 'inputs' object.")
        if isinstance(inputs[name], list):
            require_few_rows(limits, name, len(inputs[name]))
        tensors[name] = to_array(*_read_leaves(inputs[name], spec.dtype), spec.dtype)
    return tensors


def _read_rows(rows: list[Json], specs: Mapping[str, TensorSpec]) -> Tensors:
    if not isinstance(rows[0], dict):
        _only_input(specs, "instances is a plain list, but expecting list of objects")
    are_named, only = _is_named(rows[0]), min(specs)
    columns: dict[str, _Leaves] = {}
    for index, row in enumerate(rows):
        if _is_named(row) != are_named:
            expected = "object but got list" if are_named else "value/list but got object"
            raise invalid(f"Expecting {expected} at item {index} of input list")
        for name, value in row.items() if are_named else [(only, row)]:
            try:
                if name not in specs:
                    raise invalid(f"JSON object: does not have named input: {name}")
                _append_row(columns, name, _read_leaves(value, specs[name].dtype))
            except StatusError as error:
                place = f"{index} key: {name}" if are_named else str(index)
                raise invalid(f"Failed to process element: {place} of 'instances' list. Error: {error}") from error
        if are_named and row.keys() != specs.keys():
            raise invalid(
                f"Failed to process element: {index} of 'instances' list. JSON object: {echo(row)} keys must be equal "
                f"to: {','.join(sorted(specs))}"
            )
    return {
        name: to_array(leaves.values, (len(rows), *leaves.shape), specs[name].dtype) for name, leaves in columns.items()
    }


def _append_row(columns: dict[str, _Leaves], name: str, row: _Leaves) -> None:
    """Appends ``row`` to its column. All rows must have the shape of the first."""
    column = columns.setdefault(name, _Leaves([], row.shape))
    expected = math.prod(column.shape)
    if len(row.values) != expected:
        raise invalid(f"Expecting tensor size: {expected} but got: {len(row.values)}")
    if row.shape != column.shape:
        raise invalid(f"Expecting shape {shape_text(column.shape)} but got: {shape_text(row.shape)}")
    column.values.extend(row.values)


def _only_input(specs: Mapping[str, TensorSpec], complaint: str) -> str:
    if len(specs) > 1:
        raise invalid(f"{complaint} as multiple input tensors required as per tensorinfo_map")
    return next(iter(specs))


def _read_leaves(value: Json, dtype: str) -> _Leaves:
    """Returns the values of a nested list and its shape, which the first element of each level determines."""
    shape: list[int] = []
    first = value
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
    read = value_reader(dtype)
    return _Leaves([read(leaf) for leaf in _flat(value, shape)], tuple(shape))


def _flat(value: Json, shape: Sequence[int], level: int = 0) -> Iterator[Json]:
    """Yields the values of a nested list. Raises INVALID_ARGUMENT where it has another shape."""
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid(
                f"JSON Value: {echo(value)} found at incorrect level: {level + 1} in the JSON DOM. Expected at level: "
                f"{len(shape)}"
            )
        yield value
        return
    if level >= len(shape):
        raise invalid(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise invalid(
            f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: {shape[level]}"
        )
    for element in value:
        yield from _flat(element, shape, level + 1)


def _is_named(row: Json) -> bool:
    return isinstance(row, dict) and not is_base64(row)


# Writing


def write_outputs(outputs: Tensors, layout: Layout) -> bytes:
    """Returns the answer's JSON: ``predictions`` for rows, ``outputs`` for columns. A single output has no name.

    Raises:
        StatusError: INVALID_ARGUMENT for outputs that cannot be split into rows, and for types that JSON cannot
            express.
    """
    ordered = dict(sorted(outputs.items()))
    if layout is Layout.ROWS:
        _require_rows(ordered)
    columns = {name: _nested_list(name, tensor) for name, tensor in ordered.items()}
    values: Json = next(iter(columns.values())) if len(columns) == 1 else columns
    if layout is Layout.COLUMNS:
        return json_text.write({"outputs": values})
    if len(columns) > 1:
        values = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return json_text.write({"predictions": values})


def _require_rows(outputs: Tensors) -> None:
    batch_size: int | None = None
    for name, tensor in outputs.items():
        if tensor.ndim == 0:
            raise invalid(f"Tensor name: {name} has no shape information ")
        if batch_size not in (None, len(tensor)):
            raise invalid(f"Tensor name: {name} has inconsistent batch size: {len(tensor)} expecting: {batch_size}")
        batch_size = len(tensor)


def _nested_list(name: str, tensor: np.ndarray) -> Json:
    """Returns ``tensor`` as nested lists of JSON values."""
    flat = tensor.ravel()
    if tensor.dtype == np.float32:
        flat = np.array(json_text.shortest(flat), np.float64)
    elif tensor.dtype == object and name.endswith("_bytes"):
        flat = np.array([{"b64": base64.b64encode(value).decode("ascii")} for value in flat], object)
    elif tensor.dtype == object:
        flat = np.array([json_text.to_text(value) for value in flat], object)
    elif tensor.dtype.name not in ("bool", "float64", *INTEGERS):
        raise invalid(f"Failed to write JSON value for tensor type: {tensor.dtype.name}")
    return flat.reshape(tensor.shape).tolist()
