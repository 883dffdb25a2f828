"""JSON text to Python values and back, by the rules and in the words of TensorFlow Serving's parser (RapidJSON).

Beyond the standard it reads NaN, Infinity and Inf, with a minus or without, keeps the first of two equal keys, and
reads an integer beyond 64 bits as a double. Bytes that are not UTF-8 pass through: they travel as surrogate escapes
inside ``str``, which is why text is encoded and decoded here and nowhere else.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import numpy as np

from serve.status import invalid

Json = Any
"""None, bool, int, float, str, list of values or dict from str to values."""

MAX_DEPTH = 64
"""Containers inside one another; TensorFlow Serving has no bound and recurses until its stack ends."""

MAX_ECHO = 2000
"""Characters of the client's own value repeated in an error message; TensorFlow Serving repeats all of it."""

_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_ESCAPE_OR_LONE_SURROGATE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
_STRING_OR_INFINITY = re.compile(r'"(?:[^"\\]++|\\.)*+"?|(-?)Inf(?!inity)|-NaN', re.DOTALL)
_WHITESPACE = re.compile(r"[ \t\n\r]*")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_SENTENCES = {
    "Expecting value": "Invalid value.",
    "Expecting property name enclosed in double quotes": "Missing a name for object member.",
    "Expecting ':' delimiter": "Missing a colon after a name of object member.",
    "Extra data": "The document root must not be followed by other values.",
    "Invalid \\escape": "Invalid escape character in string.",
    "Invalid \\uXXXX escape": "Incorrect hex digit after \\u escape in string.",
    "Invalid control character at": "Invalid encoding in string.",
    "Unterminated string starting at": "Missing a closing quotation mark in string.",
    "Illegal trailing comma before end of array": "Invalid value.",
    "Illegal trailing comma before end of object": "Missing a name for object member.",
}
"""What Python's decoder says (3.11 to 3.13) and what RapidJSON says of the same mistake."""


def to_bytes(text: str) -> bytes:
    """The UTF-8 bytes of ``text``; bytes that came in undecodable go out unchanged."""
    return text.encode("utf-8", "surrogateescape")


def to_text(data: bytes) -> str:
    """The text of UTF-8 ``data``; bytes that are not UTF-8 are kept as surrogate escapes."""
    return data.decode("utf-8", "surrogateescape")


def parse(document: bytes, max_values: int) -> Json:
    """The value of a JSON document of at most ``max_values`` values.

    Raises:
        StatusError: INVALID_ARGUMENT, ``JSON Parse error: REASON at offset: BYTES``.
    """
    if not document:
        raise invalid("JSON Parse error: The document is empty")
    values = sum(document.count(mark) for mark in b",[{")
    if values > max_values:
        raise invalid(f"The body has about {values} values, more than {max_values} (--max-values)")
    marked = document.startswith(_BYTE_ORDER_MARK)
    text = to_text(document.removeprefix(_BYTE_ORDER_MARK))
    try:
        return _parsed(text)
    except _Fault as fault:
        position = len(_BYTE_ORDER_MARK) * marked + len(to_bytes(text[: fault.position]))
        raise invalid(f"JSON Parse error: {fault.reason} at offset: {position}") from None


class _Fault(Exception):
    """What is wrong with a document, in RapidJSON's words, and the character at which it stopped."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


def _parsed(text: str) -> Json:
    if _WHITESPACE.fullmatch(text):
        raise _Fault("The document is empty.", len(text))
    _require_shallow(text)
    _require_paired_surrogates(text)

    def decimal(digits: str) -> float:
        value = float(digits)
        if math.isinf(value):
            raise _Fault("Number too big to be stored in double.", _place_of_number(text, digits))
        return value

    def integer(digits: str) -> int | float:
        value = int(digits) if len(digits) <= 20 else None  # -2**63 and 2**64 - 1 have 20 characters
        return value if value is not None and -(2**63) <= value < 2**64 else decimal(digits)

    def read(document: str) -> Json:
        return json.loads(document, parse_int=integer, parse_float=decimal, object_pairs_hook=_first_of_equal_keys)

    try:
        return read(text)
    except json.JSONDecodeError as error:
        spelt_out = _STRING_OR_INFINITY.sub(_spelt_out, text)
        if spelt_out != text:
            with contextlib.suppress(json.JSONDecodeError):
                return read(spelt_out)
        raise _Fault(*_reason(error)) from error


def _spelt_out(match: re.Match[str]) -> str:
    """A number as Python's decoder reads it where RapidJSON reads a shorter name, too; strings as they are."""
    if match.group() == "-NaN":
        return "NaN"
    return match.group() if match.group(1) is None else f"{match.group(1)}Infinity"


def _place_of_number(text: str, digits: str) -> int:
    """Where a number stands that is not part of a string."""
    for match in re.finditer(r'"(?:[^"\\]++|\\.)*+"?|[-+.0-9eE]+', text, re.DOTALL):
        if match.group() == digits:
            return match.start()
    return 0


def _first_of_equal_keys(members: list[tuple[str, Json]]) -> dict[str, Json]:
    values: dict[str, Json] = {}
    for key, value in members:
        values.setdefault(key, value)
    return values


def _require_shallow(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for position, bracket in _brackets(text):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH:
            raise _Fault(f"Nested deeper than {MAX_DEPTH} levels.", position)


def _require_paired_surrogates(text: str) -> None:
    if "\\u" not in text:
        return
    for match in _ESCAPE_OR_LONE_SURROGATE.finditer(text):
        if match.group(1):
            raise _Fault("The surrogate pair in string is invalid.", match.start())


def _brackets(text: str) -> Iterator[tuple[int, str]]:
    for match in _STRING_OR_BRACKET.finditer(text):
        if match.group() in "[]{}":
            yield match.start(), match.group()


def _reason(error: json.JSONDecodeError) -> tuple[str, int]:
    """RapidJSON's sentence for Python's ``error``, and the character at which RapidJSON would have stopped."""
    mistake, position, text = error.msg.split(": ")[0], error.pos, error.doc
    if text[position - 1 : position].isdigit() and text[position : position + 1] in (".", "e", "E"):
        fraction = text[position] == "."
        signed = not fraction and text[position + 1 : position + 2] in ("+", "-")
        return ("Miss fraction part in number." if fraction else "Miss exponent in number."), position + 1 + signed
    if mistake == "Expecting ',' delimiter":
        if _innermost_bracket(text[:position]) == "{":
            return "Missing a comma or } after an object member.", position
        return "Missing a comma or ] after an array element.", position
    if mistake == "Unterminated string starting at":
        position = len(text)
    if mistake in ("Invalid \\escape", "Invalid \\uXXXX escape"):
        position = text.rfind("\\", 0, position + 1)
    if mistake.startswith("Illegal trailing comma"):
        position = _whitespace_end(text, position + 1)
    if mistake == "Expecting value":
        position += _consumed(text[position : position + len("Infinity") + 1])
    return _SENTENCES.get(mistake, "Invalid value."), position


def _consumed(text: str) -> int:
    """How many characters RapidJSON takes of a value that is none: a minus, or the beginning of a literal."""
    minus = text.startswith("-")
    literals = ("NaN", "Infinity") if minus else ("true", "false", "null", "NaN", "Infinity")
    return minus + max(sum(1 for _ in takewhile(bool, map(str.__eq__, text[minus:], each))) for each in literals)


def _innermost_bracket(text: str) -> str:
    opened: list[str] = []
    for _, bracket in _brackets(text):
        if bracket in "[{":
            opened.append(bracket)
        else:
            opened.pop()
    return opened[-1]


def _whitespace_end(text: str, position: int) -> int:
    match = _WHITESPACE.match(text, position)
    return match.end() if match else position


def type_name(value: Json) -> str:
    """The JSON type of ``value`` as an error message names it."""
    if value is None or isinstance(value, bool):
        return {None: "Null", True: "True", False: "False"}[value]
    return {str: "String", int: "Number", float: "Number", list: "Array", dict: "Object"}[type(value)]


def echo(value: Json) -> str:
    """``value`` as an error message repeats it: indented by four, a decimal as it is answered, cut at ``MAX_ECHO``."""
    if isinstance(value, float):
        is_single = abs(value) <= float(np.finfo(np.float32).max)
        return decimals(np.array([value], np.float32 if is_single else np.float64))[0]
    written: list[str] = []
    length = 0
    for piece in json.JSONEncoder(indent=4, ensure_ascii=False).iterencode(value):
        written.append(piece)
        length += len(piece)
        if length > MAX_ECHO:
            return "".join(written)[:MAX_ECHO] + "..."
    return "".join(written)


def quoted(text: str) -> str:
    """``text`` as a JSON string; characters beyond ASCII are written as they are."""
    return json.dumps(text, ensure_ascii=False)


def decimals(values: np.ndarray) -> list[str]:
    """Each of ``values`` [N] float32 or float64 as the JSON number TensorFlow Serving writes.

    Six significant digits where they read back as the same number, else as many as always do (9 and 17); ``.0`` is
    appended to whole numbers; NaN, Infinity and -Infinity are written so.
    """
    digits = 9 if values.dtype == np.float32 else 17
    numbers = values.tolist()
    short = [f"{number:.6g}" for number in numbers]
    reads_back = (np.array([float(text) for text in short], np.float64).astype(values.dtype) == values).tolist()
    return [
        _decimal_text(number, text if exact else f"{number:.{digits}g}")
        for number, text, exact in zip(numbers, short, reads_back, strict=True)
    ]


def _decimal_text(number: float, text: str) -> str:
    if math.isfinite(number):
        return text if "." in text or "e" in text else text + ".0"
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
