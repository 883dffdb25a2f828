"""The embedded server: JSON text, codec, repository, routes, process."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import gzip
import http.client
import json
import logging
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np
import pytest
import uvicorn
from browser import Browser
from starlette.types import ASGIApp, Receive, Scope, Send

from serve import codec, json_text, server
from serve.app import create_app
from serve.codec import Layout
from serve.core import Core
from serve.limits import Limits, require_few_values
from serve.metrics import Call
from serve.model_config import All, models_in, version_folders
from serve.repository import Repository
from serve.servable import Servable, Signature
from serve.status import Code, StatusError
from serve.values import TensorSpec

ROOT = Path(__file__).parents[2]
MANY = 1_000_000
TEXT = {"text": TensorSpec("string", (None,))}
PAIR = {"a": TensorSpec("float", (None,)), "b": TensorSpec("int32", (None,))}


# JSON text


def parse_error(document: bytes) -> str:
    with pytest.raises(StatusError) as caught:
        json_text.parse(document, MANY)
    assert caught.value.code is Code.INVALID_ARGUMENT
    return caught.value.message.removeprefix("JSON Parse error: ")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"", "The document is empty"),
        (b" \n", "The document is empty. at offset: 2"),
        (b"instances = [1, 2]", "Invalid value. at offset: 0"),
        (b'{"a": }', "Invalid value. at offset: 6"),
        (b"[1, ]", "Invalid value. at offset: 4"),
        (b"[1 2]", "Missing a comma or ] after an array element. at offset: 3"),
        (b'{"a": 1 "b": 2}', "Missing a comma or } after an object member. at offset: 8"),
        (b'{"[": [1], "b": 2 3}', "Missing a comma or } after an object member. at offset: 18"),
        (b'{"a" 1}', "Missing a colon after a name of object member. at offset: 5"),
        (b"{a: 1}", "Missing a name for object member. at offset: 1"),
        (b'{"a": 1, }', "Missing a name for object member. at offset: 9"),
        (b"{} {}", "The document root must not be followed by other values. at offset: 3"),
        (b'["a', "Missing a closing quotation mark in string. at offset: 3"),
        (b'["\\x"]', "Invalid escape character in string. at offset: 2"),
        (b'["\\u12g4"]', "Incorrect hex digit after \\u escape in string. at offset: 2"),
        (b'["a\nb"]', "Invalid encoding in string. at offset: 3"),
        (b'["\\ud800"]', "The surrogate pair in string is invalid. at offset: 2"),
        (b"[1.]", "Miss fraction part in number. at offset: 3"),
        (b"[1e]", "Miss exponent in number. at offset: 3"),
        (b"[1e999]", "Number too big to be stored in double. at offset: 1"),
        (b'["1e999", 1e999]', "Number too big to be stored in double. at offset: 10"),
        (b"[1e+]", "Miss exponent in number. at offset: 4"),
        (b"[tru]", "Invalid value. at offset: 4"),
        (b"text", "Invalid value. at offset: 1"),
        (b"[-]", "Invalid value. at offset: 2"),
        (b"[Infi]", "Invalid value. at offset: 5"),
        (b"\xef\xbb\xbf[1, ]", "Invalid value. at offset: 7"),
        (b"\xef\xbb\xbf\xef\xbb\xbf{}", "Invalid value. at offset: 3"),
        (b"[" + b"9" * 5000 + b"]", "Number too big to be stored in double. at offset: 1"),
        (b"[" * 100_000, "Nested deeper than 64 levels. at offset: 64"),
    ],
)
def test_a_malformed_document_is_named_in_rapidjsons_words_with_its_offset(document, message):
    assert parse_error(document) == message


def test_offsets_count_bytes_not_characters():
    assert parse_error('["ñandú" 1]'.encode()) == "Missing a comma or ] after an array element. at offset: 11"


def test_nan_and_infinity_are_read():
    nan, infinity, negative = json_text.parse(b"[NaN, Infinity, -Infinity]", MANY)
    assert nan != nan
    assert infinity == -negative == float("inf")
    assert json_text.parse(b'[Inf, -Inf, "Inf -NaN"]', MANY) == [infinity, negative, "Inf -NaN"]
    assert np.isnan(json_text.parse(b"-NaN", MANY))


def test_integers_beyond_64_bits_become_doubles():
    document = f"[{2**64 - 1}, {2**64}, {-(2**63)}, {-(2**63) - 1}]".encode()
    assert [type(value) for value in json_text.parse(document, MANY)] == [int, float, int, float]


def test_the_first_of_two_equal_keys_counts():
    assert json_text.parse(b'{"a": 1, "a": 2}', MANY) == {"a": 1}


def test_brackets_inside_strings_do_not_count_as_nesting():
    assert json_text.parse(b'["' + b"[" * 1000 + b'\\"{"]', MANY) == ["[" * 1000 + '"{']


def test_a_byte_order_mark_is_skipped():
    assert json_text.parse(b"\xef\xbb\xbf[1]", MANY) == [1]


def test_bytes_that_are_not_utf_8_pass_through_unchanged():
    request = codec.read_request(b'{"instances": ["a\xff\xc3\xb1"]}', MANY)
    tensor = codec.read_inputs(request, TEXT, Limits()).tensors["text"]
    assert tensor.tolist() == [b"a\xff\xc3\xb1"]
    assert (
        codec.write_outputs({"text": tensor}, Layout.COLUMNS)
        == b'{\n    "outputs": [\n        "a\xff\xc3\xb1"\n    ]\n}'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (2.0, "2.0"),
        (0.2, "0.2"),
        (-1.5, "-1.5"),
        (1 / 3, "0.333333343"),  # six digits do not read back as the same single
        (123456.0, "123456.0"),
        (1234567.0, "1234567.0"),
        (1e6, "1e+06"),
        (3e-05, "3e-05"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_singles_are_written_short_where_six_digits_suffice_and_with_nine_otherwise(value, text):
    assert json_text.decimals(np.array([value], np.float32)) == [text]


def test_doubles_that_six_digits_do_not_hold_are_written_with_seventeen():
    assert json_text.decimals(np.array([0.1, 1 / 3])) == ["0.1", "0.33333333333333331"]


def test_every_written_single_reads_back_as_itself():
    bits = np.random.default_rng(3).integers(0, 2**32, 5000, dtype=np.uint32)
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    np.testing.assert_array_equal(np.array([float(t) for t in json_text.decimals(values)]).astype(np.float32), values)


def test_an_echoed_value_is_cut_before_it_fills_the_answer():
    echoed = json_text.echo(["a" * 50] * 10_000)
    assert len(echoed) == json_text.MAX_ECHO + len("...")


# Codec


def read(document: object, specs: dict[str, TensorSpec]) -> codec.Inputs:
    return codec.read_inputs(codec.read_request(json.dumps(document).encode(), MANY), specs, Limits())


def read_error(document: object, specs: dict[str, TensorSpec]) -> str:
    with pytest.raises(StatusError) as caught:
        read(document, specs)
    assert caught.value.code is Code.INVALID_ARGUMENT
    return caught.value.message


def test_rows_of_plain_values_fill_the_only_input():
    tensors, layout = read({"instances": ["uno", "dos"]}, TEXT)
    assert layout is Layout.ROWS
    assert tensors["text"].tolist() == [b"uno", b"dos"]


def test_rows_of_objects_fill_several_inputs():
    tensors, _ = read({"instances": [{"a": 0.5, "b": 1}, {"b": 2, "a": 3}]}, PAIR)
    assert tensors["a"].dtype == np.float32
    assert tensors["a"].tolist() == [0.5, 3.0]
    assert tensors["b"].dtype == np.int32
    assert tensors["b"].tolist() == [1, 2]


def test_rows_of_lists_gain_a_dimension():
    assert read({"instances": [[1, 2], [3, 4], [5, 6]]}, {"x": TensorSpec("int64", None)}).tensors["x"].shape == (3, 2)


def test_columns_hold_one_value_per_input_and_further_keys_are_ignored():
    tensors, layout = read({"inputs": {"a": [0.5], "b": [[1], [2]], "c": "ignored"}}, PAIR)
    assert layout is Layout.COLUMNS
    assert tensors["a"].shape == (1,)
    assert tensors["b"].shape == (2, 1)
    assert set(tensors) == {"a", "b"}


@pytest.mark.parametrize("inputs", [["uno"], {"text": ["uno"]}])
def test_the_only_input_needs_no_name_in_columns(inputs):
    assert read({"inputs": inputs}, TEXT).tensors["text"].tolist() == [b"uno"]


def test_an_empty_column_is_an_empty_batch():
    assert read({"inputs": {"text": []}}, TEXT).tensors["text"].shape == (0,)


def test_base64_objects_stand_for_bytes_in_both_layouts():
    value = {"b64": "/wD+"}
    assert read({"instances": [value, value]}, TEXT).tensors["text"].tolist() == [b"\xff\x00\xfe"] * 2
    assert read({"inputs": value}, TEXT).tensors["text"].item() == b"\xff\x00\xfe"


@pytest.mark.parametrize(
    "digits", ["aGk", "aGk=", "aGk.", " a\tG\nk\v\f\r= ", "a Gk", "aGk = ", "aGkh", "aG==", "aG", "aG = .", "", " "]
)
def test_base64_may_lack_its_padding_and_hold_ascii_white_space(digits):
    plain = digits.translate({ord(character): None for character in " \t\n\v\f\r=."})
    expected = base64.b64decode(plain + "=" * (-len(plain) % 4))
    assert read({"inputs": {"b64": digits}}, TEXT).tensors["text"].item() == expected


@pytest.mark.parametrize(
    "digits",
    ["A", "aGk==", "aGk===", "aG=", "aGkh=", "=", "aG=k", "aGk=aGk=", "a\u2003Gk", "a\u00a0Gk", "aGk\0", "_-8="],
)
def test_base64_with_half_a_padding_or_anything_else_in_it_is_refused(digits):
    assert read_error({"inputs": {"b64": digits}}, TEXT) == "Unable to base64 decode"


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
        ("uint8", 300, np.uint8(44)),  # wraps around, as in TensorFlow Serving
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
        ("uint64", -1, "-1", "Number"),
        ("float", "1", '"1"', "String"),
        ("float", False, "false", "False"),
        ("bool", 0, "0", "Number"),
        ("float", {"b64": "AA=="}, '{\n    "b64": "AA=="\n}', "Object"),
    ],
)
def test_a_value_of_another_type_is_refused(dtype, value, echoed, kind):
    reason = f"JSON Value: {echoed} Type: {kind} is not of expected type: {dtype}"
    assert read_error({"inputs": [value]}, {"x": TensorSpec(dtype, None)}) == reason


@pytest.mark.parametrize(
    ("dtype", "value", "echoed"),
    [("float", 2**24, "16777216"), ("float", 1e39, "1e+39"), ("double", 2**53, "9007199254740992")],
)
def test_a_number_that_would_lose_precision_is_refused(dtype, value, echoed):
    reason = f"Cannot convert JSON value: {echoed} to {dtype} without loss of precision."
    assert read_error({"inputs": [value]}, {"x": TensorSpec(dtype, None)}) == reason


def test_a_type_that_json_cannot_express_is_unimplemented():
    with pytest.raises(StatusError, match=r"Conversion of JSON Value: 1 to type: complex64") as caught:
        read({"inputs": [1]}, {"x": TensorSpec("complex64", None)})
    assert caught.value.code is Code.UNIMPLEMENTED


PREFIX = "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: "


@pytest.mark.parametrize(
    ("document", "specs", "message"),
    [
        ([1], TEXT, "JSON Value: [\n    1\n] Is not object"),
        (
            {"signature_name": 5},
            TEXT,
            'JSON Value: {\n    "signature_name": 5\n} not formatted correctly. '
            "'signature_name' key must be a string value.",
        ),
        (
            {"inputs": [], "instances": []},
            TEXT,
            'JSON Value: {\n    "inputs": [],\n    "instances": []\n} Not formatted correctly '
            "expecting only one of 'inputs' or 'instances' keys to exist ",
        ),
        ({}, TEXT, "Missing 'inputs' or 'instances' key"),
        (
            {"instances": "uno"},
            TEXT,
            'JSON Value: {\n    "instances": "uno"\n} Expecting \'instances\' to be an list/array',
        ),
        ({"instances": []}, TEXT, "JSON Value: {\n    \"instances\": []\n} No values in 'instances' array"),
        ({"instances": ["a", 1]}, TEXT, PREFIX + "JSON Value: 1 Type: Number is not of expected type: string"),
        ({"instances": ["a", ["b"]]}, TEXT, PREFIX + "Expecting shape [] but got: [1]"),
        ({"instances": [["a"], ["b", "c"]]}, TEXT, PREFIX + "Expecting tensor size: 1 but got: 2"),
        ({"instances": ["a", {"text": "b"}]}, TEXT, "Expecting value/list but got object at item 1 of input list"),
        ({"instances": [{"text": "a"}, "b"]}, TEXT, "Expecting object but got list at item 1 of input list"),
        (
            {"instances": [{"foo": "a"}]},
            TEXT,
            "Failed to process element: 0 key: foo of 'instances' list. "
            "Error: INVALID_ARGUMENT: JSON object: does not have named input: foo",
        ),
        (
            {"instances": [{}]},
            TEXT,
            "Failed to process element: 0 of 'instances' list. JSON object: {} keys must be equal to: text",
        ),
        (
            {"instances": [1]},
            PAIR,
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map",
        ),
        (
            {"inputs": [1]},
            PAIR,
            "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
            "tensorinfo_map",
        ),
        ({"inputs": {"txt": ["a"]}}, TEXT, "Missing named input: text in 'inputs' object."),
        (
            {"inputs": [["a"], ["b", "c"]]},
            TEXT,
            "Encountered list at unexpected size: 2 at level: 1 expected size: 1",
        ),
        ({"inputs": ["a", ["b"]]}, TEXT, "Encountered list at unexpected level: 1 expected < 1"),
        (
            {"inputs": [["a"], "b"]},
            TEXT,
            'JSON Value: "b" found at incorrect level: 2 in the JSON DOM. Expected at level: 2',
        ),
        (
            {"inputs": [{"b65": "AA=="}]},
            TEXT,
            'JSON Value: {\n    "b65": "AA=="\n} not formatted correctly for base64 data',
        ),
        ({"inputs": [{"b64": "A"}]}, TEXT, "Unable to base64 decode"),
        ({"inputs": []}, {}, "Failed to get input map for signature: DEFAULT"),
    ],
)
def test_a_request_that_does_not_fit_is_refused_in_tensorflow_servings_words(document, specs, message):
    assert read_error(document, specs) == message


def write(outputs: dict[str, np.ndarray], layout: Layout) -> str:
    return codec.write_outputs(outputs, layout).decode()


def test_one_output_is_written_without_its_name():
    outputs = {"y": np.array([2.5, 3], np.float32)}
    assert write(outputs, Layout.ROWS) == '{\n    "predictions": [2.5, 3.0\n    ]\n}'
    assert write(outputs, Layout.COLUMNS) == '{\n    "outputs": [\n        2.5,\n        3.0\n    ]\n}'


def test_several_outputs_are_written_as_objects():
    outputs = {"y": np.array([[1, 2], [3, 4]], np.int32), "ok": np.array([True, False])}
    rows = """{
    "predictions": [
        {
            "ok": true,
            "y": [1, 2]
        },
        {
            "ok": false,
            "y": [3, 4]
        }
    ]
}"""
    assert write(outputs, Layout.ROWS) == rows
    assert json.loads(write(outputs, Layout.COLUMNS)) == {"outputs": {"ok": [True, False], "y": [[1, 2], [3, 4]]}}


def test_strings_go_out_as_text_and_outputs_called_bytes_as_base64():
    values = np.array(['¿qué "\n', ""], object)
    outputs = {
        "text": np.array([value.encode() for value in values], object),
        "raw_bytes": np.array([b"\xff", b""], object),
    }
    written = write(outputs, Layout.COLUMNS)
    assert '"¿qué \\"\\n"' in written
    assert json.loads(written)["outputs"]["raw_bytes"] == [{"b64": "/w=="}, {"b64": ""}]


@pytest.mark.parametrize("layout", list(Layout))
def test_an_empty_batch_is_answered_by_an_empty_list(layout):
    (answer,) = json.loads(write({"y": np.zeros((0, 3), np.float32)}, layout)).values()
    assert answer == []


def test_outputs_without_a_common_first_dimension_cannot_be_cut_into_rows():
    scalar = {"y": np.array(1.0)}
    uneven = {"x": np.zeros(2), "y": np.zeros(3)}
    assert json.loads(write(scalar, Layout.COLUMNS)) == {"outputs": 1.0}
    with pytest.raises(StatusError, match="Tensor name: y has no shape information"):
        write(scalar, Layout.ROWS)
    with pytest.raises(StatusError, match="Tensor name: y has inconsistent batch size: 3 expecting: 2"):
        write(uneven, Layout.ROWS)


def test_an_output_type_that_json_cannot_express_is_refused():
    with pytest.raises(StatusError, match="Failed to write JSON value for tensor type: half"):
        write({"y": np.zeros(1, np.float16)}, Layout.COLUMNS)


# Limits and queue, before any model


class Counted:
    """Stands in for a servable: answers the length of each text, once it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.released = threading.Event()
        self.asked: list[bytes] = []

    def signature(self, name: str) -> Counted:
        return self

    inputs = TEXT

    def run(self, signature: Counted, inputs: dict[str, np.ndarray], seconds: float) -> dict[str, np.ndarray]:
        self.asked += inputs["text"].tolist()
        self.entered.set()
        assert self.released.wait(20)
        return {"length": np.array([len(text) for text in inputs["text"]], np.int32)}

    def close(self) -> None:
        pass


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Callable[..., Browser]]:
    """Makes a browser before an application whose only model, ``count``, is the servable it is given."""
    browsers = []

    def make(servable: Counted, limits: Limits, raise_app_exceptions: bool = True) -> Browser:
        (tmp_path / "count" / "1").mkdir(parents=True)
        repository = Repository(lambda: models_in(tmp_path), lambda path: servable)
        repository.start()
        browsers.append(Browser(create_app(Core(repository, limits)), raise_app_exceptions))
        return browsers[-1]

    yield make
    for browser in browsers:
        browser.close()


def count(browser: Browser, *texts: str) -> Awaitable[httpx.Response]:
    return browser.send("POST", "/v1/models/count:predict", json={"instances": texts})


def test_a_request_beyond_the_queue_is_turned_away_and_those_before_it_are_answered(counted):
    servable = Counted()
    browser = counted(servable, Limits(concurrency=1, queue=1))

    async def one_too_many() -> httpx.Response:
        while not servable.entered.is_set():
            await asyncio.sleep(0.01)
        waiting = asyncio.ensure_future(count(browser, "abcd"))
        await asyncio.sleep(0.1)
        refused = await count(browser, "abcde")
        servable.released.set()
        assert (await waiting).json() == {"predictions": [4]}
        return refused

    first, refused = browser.together(count(browser, "abc"), one_too_many())
    assert first.json() == {"predictions": [3]}
    assert refused.status_code == 503
    assert refused.json() == {"error": "2 requests are waiting already: try again later"}
    assert browser.together(count(browser, "ab"))[0].json() == {"predictions": [2]}


def test_a_request_that_waits_too_long_for_its_turn_is_answered_504(counted):
    servable = Counted()
    browser = counted(servable, Limits(concurrency=1, queue=1, rest_api_timeout_in_ms=200))

    async def wait_in_vain() -> httpx.Response:
        refused = await count(browser, "abcd")
        servable.released.set()
        return refused

    first, refused = browser.together(count(browser, "abc"), wait_in_vain())
    assert first.status_code == 200
    assert refused.status_code == 504
    assert refused.json() == {"error": "Timed out after 0.2 seconds"}


@pytest.mark.parametrize(
    ("limits", "texts", "status", "message"),
    [
        (
            Limits(max_batch_rows=2),
            ["a", "b", "c"],
            400,
            "Input text has 3 rows, more than 2 (--max-batch-rows): send fewer at a time",
        ),
        (
            Limits(max_text_bytes=3),
            ["abc", "ññ"],
            400,
            "Input text has a string of 4 bytes, more than 3 (--max-text-bytes): split it into sentences",
        ),
        (
            Limits(max_body_bytes=40),
            ["a" * 40],
            413,
            "The body is larger than 40 bytes (--max-body-bytes): send fewer rows at a time",
        ),
    ],
)
def test_a_request_beyond_a_limit_is_refused_with_the_option_that_sets_it(counted, limits, texts, status, message):
    browser = counted(Counted(), limits)
    (response,) = browser.together(count(browser, *texts))
    assert response.status_code == status
    assert response.json() == {"error": message}


def test_a_body_that_is_slow_to_come_keeps_nobody_waiting(counted):
    servable = Counted()
    servable.released.set()
    browser = counted(servable, Limits(concurrency=1, queue=0))
    begun, answered = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b'{"instances": ["ab'
        begun.set()
        await answered.wait()
        yield b'cd"]}'

    async def quick() -> httpx.Response:
        await begun.wait()
        response = await count(browser, "abc")
        answered.set()
        return response

    patient, meanwhile = browser.together(browser.send("POST", "/v1/models/count:predict", content=slow()), quick())
    assert meanwhile.json() == {"predictions": [3]}
    assert patient.json() == {"predictions": [4]}


def test_who_is_cancelled_leaves_the_queue_but_work_that_has_begun_keeps_its_turn():
    core = Core(Repository(lambda: [], lambda path: None), Limits(concurrency=1, queue=1))
    begun, released = threading.Event(), threading.Event()
    done: list[str] = []

    def work(name: str) -> Callable[[], None]:
        def run() -> None:
            begun.set()
            assert released.wait(20)
            done.append(name)

        return run

    async def ask(name: str) -> None:
        async with core.admit(Call("Predict", "GRPC"), 20.0) as ticket:
            await ticket.take_turn(work(name))

    async def leave() -> None:
        computed = asyncio.create_task(ask("computed"))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        waiting = asyncio.create_task(ask("waiting"))
        await asyncio.sleep(0.1)
        for task in (computed, waiting):
            task.cancel()
        for task in (computed, waiting):
            with pytest.raises(asyncio.CancelledError):
                await task
        patient = asyncio.create_task(ask("patient"))
        await asyncio.sleep(0.1)
        assert core.turns.borrowed_tokens == 1
        with pytest.raises(StatusError, match="2 requests are waiting already"):
            await ask("one too many")
        released.set()
        await patient

    asyncio.run(leave())
    assert done == ["computed", "patient"]


def test_bodies_are_turned_away_when_all_together_are_more_than_a_full_queue_s():
    core = Core(Repository(lambda: [], lambda path: None), Limits(concurrency=1, queue=1, max_body_bytes=10))

    async def fill() -> None:
        async with core.admit(Call("predict", "REST"), 9.0) as one, core.admit(Call("predict", "REST"), 9.0) as other:
            one.hold(10)
            other.hold(10)
            with pytest.raises(StatusError, match="Too many large bodies") as caught:
                other.hold(1)
            assert caught.value.code is Code.UNAVAILABLE
        async with core.admit(Call("predict", "REST"), 9.0) as again:  # what has ended is forgotten
            again.hold(20)

    asyncio.run(fill())


def test_an_answer_that_is_too_large_to_be_written_is_refused():
    outputs = {"a": np.zeros([2, 3]), "b": np.zeros([4])}
    require_few_values(Limits(max_values=10), outputs)
    with pytest.raises(StatusError, match=r"would have 10 values, more than 9 \(--max-values\)"):
        require_few_values(Limits(max_values=9), outputs)


def test_what_the_graph_s_own_placeholder_does_not_take_is_the_request_s_fault():
    class Session:
        def run(self, *_: object, **__: object) -> None:
            raise ValueError("Cannot feed value of shape (2, 3) for Tensor x:0, which has shape (?,)")

    servable = Servable(Session(), {})
    nothing = Signature({"x": TensorSpec("float32", None)}, {}, {"x": "x:0"}, {}, "")
    with pytest.raises(StatusError, match="Cannot feed value of shape") as caught:
        servable.run(nothing, {"x": np.zeros([2, 3])}, 1.0)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_an_empty_body_is_an_empty_document_packed_or_not(counted):
    browser = counted(Counted(), Limits())
    for headers in ({}, {"Content-Encoding": "gzip"}):
        response = browser.post("/v1/models/count:predict", content=b"", headers=headers)
        assert response.json() == {"error": "JSON Parse error: The document is empty"}


def test_a_small_body_that_unpacks_beyond_the_limit_is_refused(counted):
    browser = counted(Counted(), Limits(max_unpacked_bytes=10_000))
    for bomb in (gzip.compress(b" " * 1_000_000), gzip.compress(b" " * 5001) * 2):
        assert len(bomb) < 10_000
        response = browser.post("/v1/models/count:predict", content=bomb, headers={"Content-Encoding": "gzip"})
        assert response.status_code == 413


@contextlib.contextmanager
def listening(app: ASGIApp, limits: Limits) -> Iterator[tuple[str, int]]:
    """The address at which the application is served over HTTP, in a thread of this process."""
    uvicorn_server = uvicorn.Server(server.http_config(app, limits, shutdown_seconds=1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=uvicorn_server.run, args=([listener],))
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            uvicorn_server.should_exit = True
            thread.join(20)


def answer_of(chunks: list[bytes]) -> ASGIApp:
    """An application whose answer to every request is ``chunks``."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


GET = b"GET / HTTP/1.1\r\nHost: s\r\n\r\n"


@pytest.mark.parametrize("chunks", [1, 256], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "later", [b"", b"G", b"GET / HTTP/1.1\r\nHost: s\r\n\r\n"], ids=["silent", "byte", "pipelined"]
)
def test_a_client_that_does_not_read_its_answer_is_cut_off_whatever_it_sends(chunks, later):
    app = answer_of([b"a" * (2**24 // chunks)] * chunks)
    with listening(app, Limits(connections=1, rest_api_timeout_in_ms=500)) as address, socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(address)
        stuck.sendall(GET)
        time.sleep(0.2)  # until writing is stuck
        stuck.sendall(later)
        give_up = time.monotonic() + 5
        while (status := first_line(address)) != b"HTTP/1.1 200 OK\r\n":
            assert time.monotonic() < give_up, status
            time.sleep(0.05)


def first_line(address: tuple[str, int]) -> bytes:
    """The first line of the answer to a request on a new connection."""
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(GET)
        return connection.makefile("rb").readline()


def test_a_connection_beyond_the_limit_is_told_that_the_server_is_busy(page):
    with listening(page.app, Limits(connections=1)) as address:
        first, second = (http.client.HTTPConnection(*address, timeout=20) for _ in range(2))
        with contextlib.closing(first), contextlib.closing(second):
            for connection, status in ((first, 200), (second, 503), (first, 200)):
                connection.request("GET", "/")
                response = connection.getresponse()
                body = response.read()
                assert (response.status, bool(body)) == (status, True)
                if status == 503:
                    assert "try again later" in json.loads(body)["error"]
                    assert response.headers["Content-Type"] == "application/json"


def test_requests_whose_clients_have_left_give_up_their_places_in_the_queue(counted):
    servable = Counted()
    limits = Limits(concurrency=1, queue=3)

    def send(address: tuple[str, int], text: str) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(*address, timeout=20)
        connection.request("POST", "/v1/models/count:predict", json.dumps({"instances": [text]}))
        return connection

    with listening(counted(servable, limits).app, limits) as address, contextlib.ExitStack() as connections:
        first = connections.enter_context(contextlib.closing(send(address, "first")))
        assert servable.entered.wait(20)
        for waiting in [send(address, "left") for _ in range(3)]:
            waiting.close()
        for _ in range(100):
            honest = connections.enter_context(contextlib.closing(send(address, "honest")))
            if not select.select([honest.sock], [], [], 2.0)[0]:
                break  # it waits for its turn: a refusal is there sooner
            assert honest.getresponse().status == 503
        servable.released.set()
        for connection in (first, honest):
            assert connection.getresponse().status == 200
    assert servable.asked == [b"first", b"honest"]


def test_a_body_of_too_many_values_is_refused_before_it_is_read(counted):
    browser = counted(Counted(), Limits(max_values=50))
    response = browser.post("/v1/models/count:predict", content=b'{"x": [' + b"[]," * 1000 + b"]")
    assert response.status_code == 400
    assert response.json() == {"error": "The body has about 2002 values, more than 50 (--max-values)"}


def test_a_refused_request_leaves_nothing_behind_for_the_garbage_collector(counted):
    class Refusing(Counted):
        held: weakref.ref

        def signature(self, name: str) -> Counted:
            large = np.zeros(1)
            self.held = weakref.ref(large)
            raise StatusError(Code.INVALID_ARGUMENT, "refused")

    servable = Refusing()
    browser = counted(servable, Limits())
    gc.disable()
    try:
        assert browser.post("/v1/models/count:predict", json={}).json() == {"error": "refused"}
        assert servable.held() is None
    finally:
        gc.enable()


def test_a_defect_of_the_server_is_answered_in_json_without_its_details(counted):
    class Broken(Counted):
        def signature(self, name: str) -> Counted:
            raise AssertionError("secret")

    response = counted(Broken(), Limits(), raise_app_exceptions=False).post("/v1/models/count:predict", json={})
    assert response.status_code == 500
    assert response.json() == {"error": "Internal error"}


@pytest.mark.parametrize(
    "field", ["max_body_bytes", "max_batch_rows", "max_text_bytes", "rest_api_timeout_in_ms", "concurrency"]
)
def test_a_limit_that_would_let_nothing_through_is_refused(field):
    with pytest.raises(ValueError, match=f"--{field.replace('_', '-')}: expected"):
        Limits(**{field: 0})


# The page


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Browser]:
    """A browser before a server of no model, with a folder of files beside a secret one."""
    web = tmp_path / "web"
    (web / "assets").mkdir(parents=True)
    (web / "index.html").write_text("<title>page</title>")
    (web / "assets" / "page.js").write_text("1")
    (tmp_path / "secret").write_text("secret")
    repository = Repository(list, lambda path: Counted())
    browser = Browser(create_app(Core(repository, Limits()), web=web))
    yield browser
    browser.close()


def test_files_are_served_outside_v1(page):
    assert page.get("/").text == "<title>page</title>"
    assert page.get("/").headers["content-type"].startswith("text/html")
    assert page.get("/assets/page.js").text == "1"
    assert page.request("HEAD", "/").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/nothing", 404, "Not Found"),
        ("GET", "/%2e%2e/secret", 404, "Not Found"),
        ("GET", "/..%2fsecret", 404, "Not Found"),
        ("GET", "/%00", 404, "Not Found"),
        ("GET", f"/{'a' * 5000}", 404, "Not Found"),
        ("POST", "/", 404, "Not Found"),
        ("POST", "/v2/models/toy:predict", 404, "Not Found"),
        ("GET", "/v1/", 400, "Malformed request: GET /v1/"),
        ("GET", "/v1/index.html", 400, "Malformed request: GET /v1/index.html"),
        ("GET", "/V1/models/toy", 404, "Could not find any versions of model toy"),
        ("GET", "/monitoring/prometheus/metrics", 404, "Not Found"),
    ],
)
def test_files_change_nothing_else(page, method, path, status, message):
    response = page.request(method, path)
    assert response.status_code == status
    assert response.json() == {"error": message}


class Published(NamedTuple):
    """A version, and what its manifest holds."""

    name: str
    version: int
    manifest: str = ""


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[Callable[..., httpx.Response]]:
    """Asks a server of some versions for its page's config.json; None is a folder without one."""
    web, models = tmp_path / "web", tmp_path / "models"
    browsers = []

    def ask(content: str | None, *published: Published, method: str = "GET") -> httpx.Response:
        web.mkdir()
        models.mkdir()
        if content is not None:
            (web / "config.json").write_text(content)
        for name, version, manifest in published:
            extra = models / name / str(version) / "assets.extra"
            extra.mkdir(parents=True)
            (extra / "manifest.json").write_text(manifest)
        repository = Repository(
            lambda: [config._replace(policy=All()) for config in models_in(models)], lambda path: Counted()
        )
        repository.start()
        browsers.append(Browser(create_app(Core(repository, Limits()), web=web)))
        return browsers[-1].request(method, "/config.json")

    yield ask
    for browser in browsers:
        browser.close()


SPANISH = '{"model": "spa-eng", "timeout_seconds": 7}'


@pytest.mark.parametrize(
    ("published", "named"),
    [
        ([Published("pairs", 2), Published("quick", 1)], "pairs"),
        ([Published("pairs", 1), Published("spa-eng", 3)], "spa-eng"),
        ([Published("classifier", 1, "no json"), Published("pairs", 2, "{}")], "pairs"),
        ([], "spa-eng"),
    ],
    ids=["missing", "there", "one that is no translator", "no model at all"],
)
def test_the_page_is_told_of_a_model_that_answers(configured, published, named):
    response = configured(SPANISH, *published)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-cache"
    assert response.json() == {"model": named, "timeout_seconds": 7}


def test_a_configuration_without_a_model_gets_one_and_its_head_is_answered_too(configured):
    response = configured("{}", Published("pairs", 1), method="HEAD")
    assert response.status_code == 200
    assert int(response.headers["content-length"]) == len('{\n  "model": "pairs"\n}\n')


@pytest.mark.parametrize("content", ['{"model": ', '["spa-eng"]'])
def test_a_configuration_that_is_none_is_served_as_it_is(configured, content):
    assert configured(content, Published("pairs", 1)).text == content


def test_a_page_without_a_configuration_is_given_none(configured):
    response = configured(None, Published("pairs", 1))
    assert (response.status_code, response.json()) == (404, {"error": "Not Found"})


SPANISH_TO_ENGLISH = '{"languages": {"source": "es", "target": "en"}}'
ENGLISH_TO_SPANISH = '{"languages": {"source": "en", "target": "es"}}'


@pytest.mark.parametrize(
    ("said", "published", "told"),
    [
        ({}, [Published("spa-eng", 1, ENGLISH_TO_SPANISH), Published("spa-eng", 2, SPANISH_TO_ENGLISH)], ("es", "en")),
        ({"source_language": "es-MX"}, [Published("spa-eng", 1, SPANISH_TO_ENGLISH)], ("es-MX", "en")),
        ({"source_language": "es"}, [Published("eng-spa", 1, ENGLISH_TO_SPANISH)], ("en", "es")),
        ({"source_language": "es"}, [Published("eng-spa", 1, "{}")], (None, None)),
        ({"source_language": "es"}, [], ("es", None)),
        ({}, [Published("spa-eng", 1, '{"languages": {"source": "es"}}')], ("es", None)),
        ({}, [Published("spa-eng", 1, '{"languages": {"source": 3, "target": null}}')], (None, None)),
        ({}, [Published("spa-eng", 1, '{"languages": "es"}')], (None, None)),
        ({}, [Published("spa-eng", 1, "no json")], (None, None)),
    ],
    ids=[
        "the newest version's",
        "the file's own",
        "another model's",
        "another model without any",
        "no model at all",
        "one side",
        "no codes",
        "no sides",
        "no manifest",
    ],
)
def test_the_page_is_told_of_the_languages_of_its_model(configured, said, published, told):
    found = configured(json.dumps({"model": "spa-eng", **said}), *published).json()
    assert (found.get("source_language"), found.get("target_language")) == told


# Repository


def test_versions_are_the_folders_whose_names_are_numbers(tmp_path):
    for folder in ("spa/1", "spa/0010", "spa/tmp-11", "spa/9.5", "spa/-3", "spa/²", "empty", "draft/next"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "spa/12").write_text("a file")
    (tmp_path / "file").write_text("a file")
    assert version_folders(tmp_path / "spa") == {1: tmp_path / "spa/1", 10: tmp_path / "spa/0010"}
    assert [model.name for model in models_in(tmp_path)] == ["draft", "empty", "spa"]


# A real SavedModel


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of many signatures in two versions, and a damaged model."""
    import tensorflow as tf

    strings = tf.TensorSpec([None], tf.string, name="text")
    folder = tmp_path_factory.mktemp("models")

    class Toy(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = tf.Variable(0.5)

        @tf.function(input_signature=[strings])
        def translate(self, text):
            text = tf.ensure_shape(text, [None])
            length = tf.strings.length(text, unit="UTF8_CHAR")
            score = self.bias + tf.cast(length, tf.float32)
            return {"translation": tf.strings.upper(text, encoding="utf-8"), "score": score, "truncated": length > 9}

        @tf.function(
            input_signature=[
                tf.TensorSpec([None], tf.float32, name="f"),
                tf.TensorSpec([None, 2], tf.int64, name="i"),
                tf.TensorSpec([None], tf.bool, name="b"),
            ]
        )
        def types(self, f, i, b):
            return {"third": f / 3.0, "sum": tf.reduce_sum(i, axis=1), "negated": tf.logical_not(b)}

        @tf.function(input_signature=[strings])
        def only(self, text):
            return {"raw_bytes": tf.identity(text)}

        @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, name="x")])
        def fixed(self, x):
            return {"total": tf.reduce_sum(x)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="x")])
        def checked(self, x):
            with tf.control_dependencies([tf.debugging.assert_positive(x, message="not positive")]):
                return {"root": tf.sqrt(tf.cast(x, tf.float32))}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="x")])
        def endless(self, x):
            return {"count": x + tf.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 1000, [0])[0]}

    toy = Toy()
    signatures = {name: getattr(toy, name) for name in ("types", "only", "fixed", "checked", "endless")}
    tf.saved_model.save(toy, str(folder / "toy" / "7"), signatures={"serving_default": toy.translate, **signatures})
    older = folder / "toy" / "2"
    older.mkdir()
    damaged = folder / "damaged" / "1"
    damaged.mkdir(parents=True)
    (damaged / "saved_model.pb").write_bytes(b"not a SavedModel")
    return folder


@pytest.fixture(scope="module")
def client(model_dir: Path) -> Iterator[Browser]:
    from serve.servable import load_servable

    repository = Repository(lambda: models_in(model_dir), load_servable)
    repository.start()
    browser = Browser(create_app(Core(repository, Limits(rest_api_timeout_in_ms=5000))))
    yield browser
    browser.close()
    repository.close()


def predict(client: Browser, document: object, path: str = "/v1/models/toy:predict") -> httpx.Response:
    return client.post(path, json=document)


@pytest.mark.server
@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/toy:predict",
        "/v1/models/toy/versions/7:predict",
        "/v1/models/toy/versions/007:predict",
        "/V1/Models/toy:PREDICT",
        "/v1/models/t%6Fy:predict",
    ],
)
def test_a_model_answers_under_each_spelling_of_its_path(client, path):
    response = predict(client, {"instances": ["¿qué?", "ñandúes corren"]}, path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "predictions": [
            {"score": 5.5, "translation": "¿QUÉ?", "truncated": False},
            {"score": 14.5, "translation": "ÑANDÚES CORREN", "truncated": True},
        ]
    }


@pytest.mark.server
def test_columns_are_answered_by_columns(client):
    response = predict(client, {"signature_name": "serving_default", "inputs": {"text": ["a"]}})
    assert response.json() == {"outputs": {"score": [1.5], "translation": ["A"], "truncated": [False]}}


@pytest.mark.server
def test_an_empty_batch_gets_an_empty_answer(client):
    outputs = predict(client, {"inputs": {"text": []}}).json()["outputs"]
    assert outputs == {"score": [], "translation": [], "truncated": []}


@pytest.mark.server
def test_several_inputs_of_several_types_reach_the_graph_under_their_names(client):
    rows = [{"f": 1, "i": [2, 3], "b": True}, {"f": float("nan"), "i": [2**40, 1], "b": False}]
    response = client.post(
        "/v1/models/toy:predict", content=json.dumps({"signature_name": "types", "instances": rows}).encode()
    )
    assert '"third": 0.333333343' in response.text
    assert '"third": NaN' in response.text
    assert [row["sum"] for row in response.json()["predictions"]] == [5, 2**40 + 1]
    assert [row["negated"] for row in response.json()["predictions"]] == [False, True]


@pytest.mark.server
def test_bytes_travel_both_ways_as_base64(client):
    response = predict(client, {"signature_name": "only", "instances": [{"b64": "/wA="}]})
    assert response.json() == {"predictions": [{"b64": "/wA="}]}


@pytest.mark.server
def test_a_gzipped_request_is_unpacked(client):
    body = gzip.compress(json.dumps({"instances": ["a"]}).encode())
    headers = {"Content-Encoding": "gzip"}
    assert client.post("/v1/models/toy:predict", content=body, headers=headers).status_code == 200
    for damaged in (body[:-9], b"plain", body + b"junk", body + b"\0", body + body[:9]):
        response = client.post("/v1/models/toy:predict", content=damaged, headers=headers)
        assert response.status_code == 400
        assert response.json()["error"].startswith("Failed to uncompress the gzipped body")


@pytest.mark.server
def test_a_gzipped_request_may_have_several_members_but_not_endlessly_many(client):
    headers = {"Content-Encoding": "gzip"}
    members = gzip.compress(b'{"instances": ') + gzip.compress(b"") + gzip.compress(b'["a"]}')
    answer = client.post("/v1/models/toy:predict", content=members, headers=headers).json()
    assert answer["predictions"][0]["translation"] == "A"
    response = client.post("/v1/models/toy:predict", content=gzip.compress(b" ") * 101, headers=headers)
    assert response.json()["error"] == "Failed to uncompress the gzipped body: it has more than 100 members"


@pytest.mark.server
@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "/v1/models/nope:predict", "{}", 404, "Servable not found for request: Latest(nope)"),
        ("POST", "/v1/models/toy/versions/2:predict", "{}", 404, "Servable not found for request: Specific(toy, 2)"),
        ("POST", "/v1/models/damaged:predict", "{}", 404, "Servable not found for request: Latest(damaged)"),
        ("POST", "/v1/models/toy/labels/stable:predict", "{}", 400, "Unrecognized servable version label: stable"),
        ("GET", "/v1/models/nope", "", 404, "Could not find any versions of model nope"),
        ("GET", "/v1/models/toy/versions/2", "", 404, "Could not find version 2 of model toy"),
        ("GET", "/v1/models/toy/labels/a%20b/metadata", "", 400, "Unrecognized servable version label: a b"),
        ("GET", "/v1/models/nope/metadata", "", 404, "Servable not found for request: Latest(nope)"),
        (
            "POST",
            "/v1/models/toy:predict",
            '{"signature_name": "x"}',
            400,
            'Serving signature name: "x" not found in signature def',
        ),
        ("POST", "/v1/models/toy:predict", "", 400, "JSON Parse error: The document is empty"),
        (
            "POST",
            "/v1/models/toy:predict",
            "{",
            400,
            "JSON Parse error: Missing a name for object member. at offset: 1",
        ),
        ("POST", "/v1/models/toy:predict", "3", 400, "JSON Value: 3 Is not object"),
        ("POST", "/v1/models/toy:predict", "{}", 400, "Missing 'inputs' or 'instances' key"),
        (
            "POST",
            "/v1/models/toy:predict",
            '{"inputs": 1}',
            400,
            "JSON Value: 1 Type: Number is not of expected type: string",
        ),
        (
            "POST",
            "/v1/models/toy:predict",
            '{"inputs": "hello"}',
            400,
            "Shape of input text: expected [?], received []",
        ),
        (
            "POST",
            "/v1/models/toy:predict",
            '{"signature_name": "fixed", "inputs": [1.0, 2.0, 3.0]}',
            400,
            "Shape of input x: expected [2], received [3]",
        ),
        (
            "POST",
            "/v1/models/toy:predict",
            '{"signature_name": "fixed", "instances": [1.0, 2.0]}',
            400,
            "Tensor name: total has no shape information ",
        ),
        ("GET", "/v1/models", "", 400, "Missing model name in request."),
        ("GET", "/v1/models/versions/3", "", 400, "Missing model name in request."),
        ("GET", "/v1/models/metadata", "", 404, "Could not find any versions of model metadata"),
        ("GET", "/v1/models/toy?x=1", "", 404, "Could not find any versions of model toy?x=1"),
        ("GET", "/v1/models/toy/", "", 400, "Malformed request: GET /v1/models/toy/"),
        ("GET", "/v1/models/toy:predict", "", 400, "Malformed request: GET /v1/models/toy:predict"),
        ("POST", "/v1/models/toy", "{}", 400, "Malformed request: POST /v1/models/toy"),
        ("POST", "/v1/models/toy:predict/", "{}", 400, "Malformed request: POST /v1/models/toy:predict/"),
        ("PUT", "/v1/models/toy:predict", "{}", 400, "Malformed request: PUT /v1/models/toy:predict"),
        ("GET", "/v1/models/toy/versions/x", "", 400, "Malformed request: GET /v1/models/toy/versions/x"),
        (
            "GET",
            f"/v1/models/toy/versions/{2**63}",
            "",
            400,
            f"Failed to convert version: {2**63} to numeric.",
        ),
        ("OPTIONS", "/v1/models/toy", "", 400, "Malformed request: OPTIONS /v1/models/toy"),
        ("GET", "/", "", 404, "Not Found"),
        ("GET", "/v2/models/toy", "", 404, "Not Found"),
    ],
)
def test_each_failure_has_tensorflow_servings_status_and_message(client, method, path, body, status, message):
    response = client.request(method, path, content=body)
    assert response.json() == {"error": message}
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"


@pytest.mark.server
@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "JSON Parse error"),  # before the type of signature_name, the model, the signature, the inputs
        ('{"signature_name": 1}', "'signature_name' key must be a string value."),
        ('{"signature_name": "x"}', "Servable not found for request: Latest(nope)"),
    ],
)
def test_a_request_with_several_mistakes_is_told_the_first_in_tensorflow_servings_order(client, document, message):
    assert message in client.post("/v1/models/nope:predict", content=document).json()["error"]


@pytest.mark.server
def test_a_preflight_from_a_web_page_is_answered_with_an_empty_body(client):
    response = client.request("OPTIONS", "/v1/models/toy:predict", headers={"Origin": "https://example.org"})
    assert response.status_code == 200
    assert response.content == b""
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.server
def test_an_error_raised_inside_the_graph_is_the_clients_with_the_graphs_own_words(client):
    response = predict(client, {"signature_name": "checked", "instances": [4, -1]})
    assert response.status_code == 400
    assert "not positive" in response.json()["error"]
    assert not response.json()["error"].startswith("Graph execution error")
    assert predict(client, {"signature_name": "checked", "instances": [4]}).json() == {"predictions": [2.0]}


@pytest.mark.server
def test_a_graph_that_does_not_end_is_stopped_and_the_next_request_is_answered(model_dir):
    from serve.servable import load_servable

    servable = load_servable(model_dir / "toy" / "7")
    endless = servable.signature("endless")
    with pytest.raises(StatusError, match="Timed out") as caught:
        servable.run(endless, {"x": np.array([1], np.int32)}, seconds=0.2)
    assert caught.value.code.http == 504
    text = {"text": np.array([b"a"], object)}
    assert servable.run(servable.signature(""), text, seconds=20)["translation"].tolist() == [b"A"]
    servable.close()


@pytest.mark.server
def test_the_status_of_a_loaded_model_is_available_in_protocol_buffers_json(client):
    expected = """{
 "model_version_status": [
  {
   "version": "7",
   "state": "AVAILABLE",
   "status": {
    "error_code": "OK",
    "error_message": ""
   }
  }
 ]
}
"""
    for path in ("/v1/models/toy", "/v1/models/toy/versions/7"):
        assert client.get(path).text == expected


@pytest.mark.server
def test_a_damaged_model_says_so_in_its_status_while_the_others_are_served(client):
    (status,) = client.get("/v1/models/damaged").json()["model_version_status"]
    assert status["version"] == "1"
    assert status["state"] == "END"
    assert status["status"]["error_code"] == "NOT_FOUND"
    assert "saved_model.pb" in status["status"]["error_message"]
    assert client.get("/v1/models/toy").status_code == 200


@pytest.mark.server
def test_metadata_lists_the_signatures_with_their_types_and_shapes(client):
    answer = client.get("/v1/models/toy/metadata").json()
    assert client.get("/V1/models/toy/METADATA").json() == answer
    assert answer["model_spec"] == {"name": "toy", "signature_name": "", "version": "7"}
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert {"serving_default", "types", "only", "fixed"} <= set(signatures)
    matrix = signatures["types"]["inputs"]["i"]
    assert matrix["dtype"] == "DT_INT64"
    assert matrix["tensor_shape"] == {
        "dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}],
        "unknown_rank": False,
    }
    assert signatures["types"]["method_name"] == "tensorflow/serving/predict"


@pytest.mark.server
def test_requests_at_the_same_time_get_their_own_answers(client):
    texts = ["a" * length for length in range(1, 9)]
    requests = [client.send("POST", "/v1/models/toy:predict", json={"instances": [text]}) for text in texts]
    answers = [response.json()["predictions"][0]["translation"] for response in client.together(*requests)]
    assert answers == [text.upper() for text in texts]


# Process


def test_help_does_not_wait_for_tensorflow():
    code = """
import sys
from serve import server
try:
    server.main(["--help"])
except SystemExit:
    sys.exit("tensorflow" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "--max-batch-rows" in run.stdout


def test_a_folder_that_is_missing_or_holds_no_version_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"--model-dir: expected a folder, received .*nowhere"):
        server.main(["--model-dir", str(tmp_path / "nowhere")])
    with pytest.raises(SystemExit, match=r"--model-dir: expected NAME/VERSION/saved_model.pb in .* found no version"):
        server.main(["--model-dir", str(tmp_path)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--model-dir, --model-config-file: expected one of the two"),
        (["--model-dir", "a", "--model-config-file", "b"], "--model-dir, --model-config-file: expected one of the two"),
        (["--model-config-file", "nowhere"], "nowhere: expected a text file with a ModelServerConfig"),
        (["--model-dir", "a", "--port", "65536"], "--port: expected 0 to 65535, received 65536"),
        (["--model-dir", "a", "--grpc-port", "-1"], "--grpc-port: expected 0 to 65535, received -1"),
        (["--model-dir", "a", "--grpc-port", "8501"], "--grpc-port: expected another port than REST's, received 8501"),
        (["--model-dir", "a", "--poll-seconds", "-1"], "--poll-seconds: expected 0 or more, received -1"),
        (
            ["--model-dir", "a", "--load-retry-interval-micros", "-1"],
            "--load-retry-interval-micros: expected 0 or more, received -1",
        ),
        (["--model-dir", "a", "--queue", "-1"], "--queue: expected 0 or more, received -1"),
    ],
)
def test_an_option_that_cannot_be_is_refused_with_what_was_expected(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        server.main(arguments)
    assert caught.value.code
    said = f"{caught.value} {capsys.readouterr().err}"
    assert message in " ".join(said.replace("│", " ").split())


def test_a_forged_line_in_an_exceptions_message_is_indented_in_the_log():
    try:
        raise ValueError("a\n2026-01-01 INFO forged\x1b")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "Model %s", ("b\r\nc",), sys.exc_info())
    first, *others = server.LogFormatter("%(levelname)s %(message)s").format(record).split("\n")
    assert first == r"ERROR Model b\r\nc"
    assert all(line.startswith("    ") for line in others)
    assert others[-1] == r"    2026-01-01 INFO forged\x1b"


def test_a_busy_port_is_refused_before_any_model_is_loaded(tmp_path):
    (tmp_path / "toy" / "1").mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(SystemExit, match=f"cannot listen on 127.0.0.1 port {port}: .* in use"):
            server.main(["--model-dir", str(tmp_path), "--port", str(port)])


@pytest.mark.server
def test_the_process_listens_when_ready_finishes_what_is_under_way_and_exits_with_0_on_sigterm(model_dir):
    command = [sys.executable, "-m", "serve.server", "--model-dir", str(model_dir), "--port", "0"]
    with subprocess.Popen(
        [*command, "--rest-api-timeout-in-ms", "3000"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            url = httpx.URL(process.stdout.readline().removeprefix("Listening on ").strip())
            assert url.host == "127.0.0.1"
            predict = url.join("/v1/models/toy:predict")
            answer = httpx.post(predict, json={"instances": ["uno"]}, timeout=30)
            assert answer.json()["predictions"][0]["translation"] == "UNO"

            endless = http.client.HTTPConnection(url.host, url.port, timeout=30)
            endless.request("POST", predict.path, json.dumps({"signature_name": "endless", "instances": [1]}))
            # This answer says that the server has read what lay in its sockets before.
            assert httpx.get(url.join("/v1/models/toy"), timeout=30).status_code == 200
            process.send_signal(signal.SIGTERM)
            assert endless.getresponse().status == 504
            endless.close()
            assert process.wait(30) == 0
            assert process.stdout.read() == ""
        finally:
            process.kill()
