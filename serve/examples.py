"""Classify and regress requests over REST to examples, and results to answers, as TensorFlow Serving has them.

{"signature_name": NAME, "context": EXAMPLE, "examples": [EXAMPLE, ...]}      EXAMPLE: {FEATURE: VALUE or [VALUE, ...]}
-> {"results": [[[LABEL, SCORE], ...], ...]}  or  {"results": [VALUE, ...]}
"""

from __future__ import annotations

import enum
import math
from typing import NamedTuple

import numpy as np

from serve import codec, json_text
from serve.json_text import Json, decimals, echo, quoted, type_name
from serve.status import invalid
from serve.values import is_base64, read_base64


class Kind(enum.Enum):
    """The type of a feature's values, which its first value dictates."""

    BYTES = "bytes"
    FLOAT = "float"
    INT64 = "int64"


class Feature(NamedTuple):
    """One feature of an example; an empty list has no kind."""

    kind: Kind | None
    values: list


Example = dict[str, Feature]


class ExamplesRequest(NamedTuple):
    """A classify or regress request."""

    signature_name: str
    """Empty when the request names none."""
    context: Example
    """Features that every example has beside its own."""
    examples: list[Example]
    """At least one."""


class Classifications(NamedTuple):
    """What a classifier says of each of N examples; a classifier may leave out one of the two."""

    labels: np.ndarray | None
    """[N, classes] bytes."""
    scores: np.ndarray | None
    """[N, classes] float32."""


def read_examples(body: bytes, max_values: int) -> ExamplesRequest:
    """The request in ``body``.

    Raises:
        StatusError: INVALID_ARGUMENT for whatever does not fit.
    """
    document, name = codec.read_request(body, max_values)
    context = _example(document["context"]) if "context" in document else {}
    if "examples" not in document:
        reason = "When method is classify, key 'examples' is expected and was not found"
        raise invalid(f"JSON Value: {echo(document)} {reason}")
    examples = document["examples"]
    if not isinstance(examples, list):
        raise invalid(f"JSON Value: {echo(document)} Expecting 'examples' value to be an list/array")
    if not examples:
        raise invalid(f"JSON Value: {echo(document)} 'examples' value is an empty array")
    return ExamplesRequest(name, context, [_example(example) for example in examples])


def _example(value: Json) -> Example:
    if not isinstance(value, dict):
        raise invalid(f"Example must be JSON object but got JSON {type_name(value)}")
    return {name: _feature(name, content) for name, content in value.items()}


def _feature(name: str, content: Json) -> Feature:
    elements = content if isinstance(content, list) else [content]
    kinds = [_kind(name, element) for element in elements]
    if len(set(kinds)) > 1:
        raise invalid(f"Unexpected element type in feature: {name} expecting type: {kinds[0].value}")
    return Feature(kinds[0] if kinds else None, [_value(name, element) for element in elements])


def _kind(name: str, value: Json) -> Kind:
    if isinstance(value, bool | int):
        return Kind.INT64
    if isinstance(value, float):
        return Kind.FLOAT
    if isinstance(value, str) or is_base64(value):
        return Kind.BYTES
    raise invalid(f"Feature: {name} has element with unexpected JSON type: {type_name(value)}")


def _value(name: str, value: Json) -> bytes | float | int:
    if isinstance(value, str):
        return json_text.to_bytes(value)
    if isinstance(value, dict):
        return read_base64(value)
    if isinstance(value, float):
        if math.isfinite(value) and abs(value) > float(np.finfo(np.float32).max):
            raise invalid(f"Cannot convert JSON value: {echo(value)} to float without loss of precision.")
        return value
    if value >= 2**63:
        raise invalid(f"Feature: {name} has uint64 element. Only int64 is supported.")
    return int(value)


def write_classifications(result: Classifications) -> bytes:
    """The answer to a classify request: a label and a score for each class of each example.

    A label that the classifier leaves out is empty, a score that it leaves out 0.
    """
    given = result.labels if result.labels is not None else result.scores
    assert given is not None
    labels = np.full(given.shape, b"", object) if result.labels is None else result.labels
    scores = np.zeros(given.shape, np.float32) if result.scores is None else result.scores
    rows = []
    for names, values in zip(labels, scores, strict=True):
        pairs = zip(names, decimals(values), strict=True)
        rows.append(f"[{', '.join(f'[{quoted(json_text.to_text(name))}, {value}]' for name, value in pairs)}]")
    return json_text.to_bytes(f'{{\n    "results": [{", ".join(rows)}\n    ]\n}}')


def write_regressions(values: np.ndarray) -> bytes:
    """The answer to a regress request: ``values`` [N] float32."""
    return json_text.to_bytes(f'{{\n    "results": [{", ".join(decimals(values))}]\n}}')
