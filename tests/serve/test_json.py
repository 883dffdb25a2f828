"""JSON bodies: text, conversion of requests to tensors, and of tensors to answers."""

import json
import re

import numpy as np
import pytest

from serve.limits import Limits
from serve.models.signature import TensorSpec
from serve.models.status import Code, StatusError
from serve.rest import codec, json_text
from serve.rest.codec import Layout

MANY = 1_000_000
TEXT = {"text": TensorSpec("string", (None,))}
PAIR = {"a": TensorSpec("float", (None,)), "b": TensorSpec("int32", (None,))}


# JSON text


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        *(
            (each, r"\w")
            for each in (b"", b" \n", b'{"a": }', b"[1, ]", b'["a', b'["\\x"]', b'["a\nb"]', b"[1.]", b"{} {}")
        ),
        (b"\xef\xbb\xbf\xef\xbb\xbf{}", r"\w"),
        (b"[" * 33 + b"]" * 33, "Nested deeper than 32"),
        (b'{"a":' * 100_000, "Nested deeper than 32"),
        (b'["\\ud800"]', "The surrogate"),
        (b'["\\udc80"]', "The surrogate"),
        (b'["\\ud800\\ud800"]', "The surrogate"),
        (b"[1e999]", "Number too big"),
        (b"[" + b"9" * 5000 + b"]", ".*4300"),
    ],
)
def test_a_malformed_document_or_one_that_no_request_needs_is_refused(document, reason):
    with pytest.raises(StatusError, match=f"^INVALID_ARGUMENT: JSON Parse error: {reason}"):
        json_text.parse(document, MANY)


@pytest.mark.parametrize(
    ("document", "value"),
    [
        (b"[" * 32 + b"]" * 32, "[" * 32 + "]" * 32),
        (b"[[], " + b"[" * 31 + b"]" * 32, "[[], " + "[" * 31 + "]" * 32),
        (b'["' + b"[" * 1000 + b'\\"{"]', json.dumps(["[" * 1000 + '"{'])),
        (b'{"b": 1, "a": 1, "b": 2}', '{"b": 1, "a": 1}'),
        (b"\xef\xbb\xbf[1]", "[1]"),
        (rb'["\ud83d\ude00 \\ud800"]', '["\U0001f600 \\\\ud800"]'),
        (b"[NaN, Infinity, -Infinity]", "[NaN, Infinity, -Infinity]"),
    ],
    ids=[
        "deep",
        "deep and wide",
        "brackets in a string",
        "equal keys",
        "byte order mark",
        "surrogate pair",
        "not finite",
    ],
)
def test_a_document_is_read(document, value):
    assert json.dumps(json_text.parse(document, MANY), ensure_ascii=False) == value


def test_bytes_that_are_not_utf_8_pass_through_unchanged():
    request = codec.read_request(b'{"instances": ["a\xff\xc3\xb1"]}', MANY)
    tensor = codec.read_inputs(request, TEXT, Limits()).tensors["text"]
    assert tensor.tolist() == [b"a\xff\xc3\xb1"]
    assert b'"a\xff\xc3\xb1"' in codec.write_outputs({"text": tensor}, Layout.COLUMNS)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0, "2.0"),
        (0.2, "0.2"),
        (1 / 3, "0.333333343"),  # six digits would be read as another float32
        (1234567.0, "1234567.0"),
        (3e-05, "3e-05"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_singles_are_written_with_six_digits_where_they_suffice_and_with_nine_otherwise(value, text):
    assert write({"y": np.array([value], np.float32)}, Layout.COLUMNS) == f'{{"outputs": [{text}]}}'


# Codec


def read(document: object, specs: dict[str, TensorSpec]) -> codec.Inputs:
    return codec.read_inputs(codec.read_request(json.dumps(document).encode(), MANY), specs, Limits())


def read_error(document: object, specs: dict[str, TensorSpec]) -> str:
    with pytest.raises(StatusError) as caught:
        read(document, specs)
    assert caught.value.code is Code.INVALID_ARGUMENT
    return caught.value.message


INTEGERS = {"x": TensorSpec("int64", None)}


@pytest.mark.parametrize(
    ("document", "specs", "tensors"),
    [
        ({"instances": ["uno", "dos"]}, TEXT, {"text": [b"uno", b"dos"]}),
        ({"instances": [{"text": "uno"}]}, TEXT, {"text": [b"uno"]}),
        ({"instances": [{"a": 0.5, "b": 1}, {"b": 2, "a": 3}]}, PAIR, {"a": [0.5, 3.0], "b": [1, 2]}),
        ({"instances": [[1, 2], [3, 4], [5, 6]]}, INTEGERS, {"x": [[1, 2], [3, 4], [5, 6]]}),
        ({"instances": [{"b64": "/wD+"}] * 2}, TEXT, {"text": [b"\xff\x00\xfe"] * 2}),
        ({"inputs": ["uno"]}, TEXT, {"text": [b"uno"]}),
        ({"inputs": {"text": ["uno"]}}, TEXT, {"text": [b"uno"]}),
        ({"inputs": {"a": [0.5], "b": [[1], [2]], "c": "ignored"}}, PAIR, {"a": [0.5], "b": [[1], [2]]}),
        ({"inputs": {"text": []}}, TEXT, {"text": []}),
        ({"inputs": {"b64": "/wD+"}}, TEXT, {"text": b"\xff\x00\xfe"}),
    ],
)
def test_rows_and_columns_become_tensors(document, specs, tensors):
    found, layout = read(document, specs)
    assert layout is (Layout.ROWS if "instances" in document else Layout.COLUMNS)
    assert {name: tensor.tolist() for name, tensor in found.items()} == tensors
    numbers = {"float": np.float32, "int32": np.int32, "int64": np.int64, "string": object}
    assert {name: tensor.dtype for name, tensor in found.items()} == {
        name: numbers[spec.dtype] for name, spec in specs.items()
    }


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("float", float("inf"), np.float32("inf")),
        ("float", 2**24 - 1, np.float32(16777215)),
        ("double", 2**53 - 1, np.float64(2**53 - 1)),
        ("int32", -(2**31), np.int32(-(2**31))),
        ("int64", 2**63 - 1, np.int64(2**63 - 1)),
        ("uint32", 2**32 - 1, np.uint32(2**32 - 1)),
        ("uint64", 2**64 - 1, np.uint64(2**64 - 1)),
        ("uint8", 255, np.uint8(255)),
        ("bool", True, np.True_),
    ],
)
def test_each_type_reads_its_extremes(dtype, value, expected):
    tensor = read({"instances": [value]}, {"x": TensorSpec(dtype, None)}).tensors["x"]
    assert tensor.dtype == expected.dtype
    assert tensor[0] == expected


@pytest.mark.parametrize(
    ("dtype", "value", "echoed", "kind"),
    [
        ("string", 1, "1", "Number"),
        ("string", True, "true", "True"),
        ("string", None, "null", "Null"),
        ("int32", 1.0, "1.0", "Number"),
        ("int32", 2**31, "2147483648", "Number"),
        ("int64", 2**63, "9223372036854775808", "Number"),
        ("uint32", -1, "-1", "Number"),
        ("uint8", 256, "256", "Number"),
        ("uint64", -1, "-1", "Number"),
        ("float", "1", '"1"', "String"),
        ("float", False, "false", "False"),
        ("bool", 0, "0", "Number"),
        ("float", {"b64": "AA=="}, '{"b64": "AA=="}', "Object"),
    ],
)
def test_a_value_of_another_type_is_refused(dtype, value, echoed, kind):
    error = read_error({"inputs": [value]}, {"x": TensorSpec(dtype, None)})
    assert f"Value: {echoed} Type: {kind}" in error
    assert error.endswith(dtype)


@pytest.mark.parametrize(
    ("document", "specs", "named"),
    [
        ([1], TEXT, "Is not object"),
        ({"signature_name": 5}, TEXT, "'signature_name'"),
        ({"inputs": [], "instances": []}, TEXT, "only one of 'inputs' or 'instances'"),
        ({}, TEXT, "Missing 'inputs' or 'instances' key"),
        ({"instances": "uno"}, TEXT, "'instances'"),
        ({"instances": []}, TEXT, "No values in 'instances'"),
        ({"instances": ["a", 1]}, TEXT, "element: 1 of 'instances' list.*JSON Value: 1 Type: Number"),
        ({"instances": ["a", ["b"]]}, TEXT, r"element: 1.*shape \[\] but got: \[1\]"),
        ({"instances": [["a"], ["b", "c"]]}, TEXT, "element: 1.*size: 1 but got: 2"),
        ({"instances": ["a", {"text": "b"}]}, TEXT, "got object at item 1"),
        ({"instances": [{"text": "a"}, "b"]}, TEXT, "got list at item 1"),
        ({"instances": [{"foo": "a"}]}, TEXT, "element: 0 key: foo.*does not have named input: foo"),
        ({"instances": [{}]}, TEXT, "element: 0.*keys must be equal to: text"),
        ({"instances": [1]}, PAIR, "expecting list of objects"),
        ({"inputs": [1]}, PAIR, "expecting an object"),
        ({"inputs": {"txt": ["a"]}}, TEXT, "Missing named input: text"),
        ({"inputs": [["a"], ["b", "c"]]}, TEXT, "size: 2 at level: 1 expected size: 1"),
        ({"inputs": ["a", ["b"]]}, TEXT, "level: 1 expected < 1"),
        ({"inputs": [["a"], "b"]}, TEXT, 'Value: "b" found at incorrect level: 2'),
        ({"inputs": [{"b65": "AA=="}]}, TEXT, "b65.*base64"),
        *(
            ({"inputs": {"b64": digits}}, TEXT, "base64 decode$")
            for digits in ("A", "aGk", "aGk==", "aG=", "=", "aG=k", "a Gk=", "a\u2003Gk", "aGk\0", "_-8=")
        ),
        ({"inputs": []}, {}, "signature: DEFAULT"),
        ({"inputs": [1e39]}, {"x": TensorSpec("float", None)}, r"1e\+39 is too large for float"),
    ],
)
def test_a_request_that_does_not_fit_is_refused_with_its_place_and_value(document, specs, named):
    assert re.search(named, read_error(document, specs))


def write(outputs: dict[str, np.ndarray], layout: Layout) -> str:
    return codec.write_outputs(outputs, layout).decode()


SINGLE = {"y": np.array([2.5, 3], np.float32)}
SEVERAL = {"y": np.array([[1, 2], [3, 4]], np.int32), "ok": np.array([True, False])}


@pytest.mark.parametrize(
    ("outputs", "layout", "answer"),
    [
        (SINGLE, Layout.ROWS, {"predictions": [2.5, 3.0]}),
        (SINGLE, Layout.COLUMNS, {"outputs": [2.5, 3.0]}),
        (SEVERAL, Layout.ROWS, {"predictions": [{"ok": True, "y": [1, 2]}, {"ok": False, "y": [3, 4]}]}),
        (SEVERAL, Layout.COLUMNS, {"outputs": {"ok": [True, False], "y": [[1, 2], [3, 4]]}}),
        ({"y": np.zeros((0, 3))}, Layout.ROWS, {"predictions": []}),
        ({"y": np.zeros((0, 3))}, Layout.COLUMNS, {"outputs": []}),
        ({"y": np.array(1.0)}, Layout.COLUMNS, {"outputs": 1.0}),
    ],
)
def test_outputs_are_written_as_rows_or_columns_and_a_single_one_without_its_name(outputs, layout, answer):
    assert json.loads(write(outputs, layout)) == answer


def test_strings_go_out_as_text_and_outputs_called_bytes_as_base64():
    outputs = {
        "text": np.array(['¿qué "\n'.encode(), b""], object),
        "raw_bytes": np.array([b"\xff", b""], object),
    }
    written = write(outputs, Layout.COLUMNS)
    assert '"¿qué \\"\\n"' in written
    assert json.loads(written)["outputs"]["raw_bytes"] == [{"b64": "/w=="}, {"b64": ""}]


@pytest.mark.parametrize(
    ("outputs", "layout", "message"),
    [
        ({"y": np.array(1.0)}, Layout.ROWS, "y has no shape information"),
        ({"x": np.zeros(2), "y": np.zeros(3)}, Layout.ROWS, "y has inconsistent batch size: 3 expecting: 2"),
        ({"y": np.zeros(1, np.float16)}, Layout.COLUMNS, "float16"),
    ],
)
def test_outputs_that_cannot_be_written_are_refused(outputs, layout, message):
    with pytest.raises(StatusError, match=message):
        write(outputs, layout)
