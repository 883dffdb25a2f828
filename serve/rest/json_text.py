"""Converts JSON to Python values and back as TensorFlow Serving does.

Python's ``json`` reads and writes NaN and Infinity, as TensorFlow Serving does. Hooks add TensorFlow Serving's other
rules: the first of two equal keys counts, decimals are finite, and nesting is limited. Bytes that are not UTF-8 are
kept as surrogate escapes in ``str``, so text is encoded and decoded only here.
"""

import json
import math
import re
from typing import Any

import numpy as np

from ..models.status import invalid

Json = Any
"""`None`, bool, int, float, str, a list of values, or a dict from str to values."""

MAX_DEPTH = 32
"""Maximum nesting of arrays and objects. NumPy's iterators have at most 32 dimensions."""

_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_PAIR_OR_LONE_SURROGATE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def to_bytes(text: str) -> bytes:
    """Encodes ``text`` as UTF-8. Surrogate escapes become their original bytes."""
    return text.encode("utf-8", "surrogateescape")


def to_text(data: bytes) -> str:
    """Decodes UTF-8 ``data``. Other bytes become surrogate escapes."""
    return data.decode("utf-8", "surrogateescape")


def parse(document: bytes, max_values: int) -> Json:
    """Returns the value of a JSON document of at most ``max_values`` values.

    Raises:
        StatusError: INVALID_ARGUMENT, ``JSON Parse error: REASON``.
    """
    if not document:
        raise invalid("JSON Parse error: The document is empty")
    values = sum(document.count(mark) for mark in b",[{")
    if values > max_values:
        raise invalid(f"The body has about {values} values, more than {max_values} (--max-values)")
    text = to_text(document.removeprefix(_BYTE_ORDER_MARK))
    try:
        _require_shallow(text)
        if "\\u" in text and any(match[1] for match in _PAIR_OR_LONE_SURROGATE.finditer(text)):
            raise ValueError("The surrogate pair in string is invalid")
        return json.loads(text, parse_float=_decimal, object_pairs_hook=_first_of_equal_keys)
    except ValueError as error:
        raise invalid(f"JSON Parse error: {error}") from None


def _decimal(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError("Number too big to be stored in double")
    return value


def _first_of_equal_keys(members: list[tuple[str, Json]]) -> dict[str, Json]:
    first = dict(reversed(members))
    return {key: first[key] for key, _ in members}


def _require_shallow(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        if depth > MAX_DEPTH:
            raise ValueError(f"Nested deeper than {MAX_DEPTH} levels")


def write(document: Json) -> bytes:
    """Returns ``document`` as JSON. Characters beyond ASCII are not escaped."""
    return to_bytes(json.dumps(document, ensure_ascii=False))


def type_name(value: Json) -> str:
    """Returns the name of ``value``'s JSON type in error messages."""
    if value is None or isinstance(value, bool):
        return {None: "Null", True: "True", False: "False"}[value]
    return {str: "String", int: "Number", float: "Number", list: "Array", dict: "Object"}[type(value)]


def echo(value: Json) -> str:
    """Returns ``value`` as JSON, for an error message, which is shortened."""
    return json.dumps(value, ensure_ascii=False)


def shortest(values: np.ndarray) -> list[float]:
    """Returns float32 ``values`` [N] as doubles. JSON writes them with few digits, which read back as the same float32.

    They have six significant digits if that is exact, otherwise nine, as in TensorFlow Serving.
    """
    singles = values.tolist()
    short = [float(f"{single:.6g}") for single in singles]
    exact = (np.array(short).astype(np.float32) == values).tolist()
    return [six if fits else float(f"{nine:.9g}") for six, nine, fits in zip(short, singles, exact, strict=True)]
