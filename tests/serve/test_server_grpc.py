"""Limits of the embedded server over gRPC: time, memory, values, connections. A simple servable replaces the model."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import resource
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
import tensorflow as tf
from servers import predict_request
from tensorflow.core.framework import types_pb2
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow_serving.apis.model_management_pb2 import ReloadConfigRequest
from tensorflow_serving.apis.predict_pb2 import PredictRequest, PredictResponse

from serve.core import Core
from serve.limits import Limits
from serve.models.model_config import ModelConfig
from serve.models.predict import METHODS
from serve.models.predict import predict as answer_to
from serve.models.repository import Repository
from serve.models.signature import Signature, TensorSpec
from serve.models.status import StatusError
from serve.models.versions import LoadedVersion
from serve.rpc.services import start_grpc

pytestmark = [pytest.mark.server, pytest.mark.anyio]

PREDICT = "/tensorflow.serving.PredictionService/Predict"
STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
METADATA = "/tensorflow.serving.PredictionService/GetModelMetadata"
RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"


class Repeating:
    """A servable that repeats each text ``width`` times."""

    def __init__(self, width: int = 1) -> None:
        self.width = width
        text, copies = TensorSpec("string", (None,)), TensorSpec("string", (None, width))
        self.signatures = {
            "serving_default": Signature({"text": text}, {"copies": copies}, {}, {}, METHODS[0]),
            "pair": Signature({"a": text, "b": text}, {"copies": copies}, {}, {}, METHODS[0]),
            "variant": Signature({"text": TensorSpec("variant", (None,))}, {}, {}, {}, METHODS[0]),
            "resource": Signature({"text": TensorSpec("resource", (None,))}, {}, {}, {}, METHODS[0]),
        }

    def run(self, signature: Signature, inputs: dict[str, np.ndarray], *_: Any) -> dict[str, np.ndarray]:
        return {"copies": np.repeat(next(iter(inputs.values()))[:, None], self.width, 1)}

    def close(self) -> None:
        pass


class Started(NamedTuple):
    """A running server of the model ``m``."""

    core: Core
    channel: grpc.aio.Channel
    port: int


Start = Callable[..., Coroutine[Any, Any, Started]]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
async def one_event_loop(anyio_backend: str) -> AsyncIterator[None]:
    """Keeps one event loop for all tests, because gRPC may report the end of a call after its test."""
    yield
    await asyncio.sleep(0.1)  # for the calls of the last test


@pytest.fixture
async def start(anyio_backend: str, tmp_path: Path) -> AsyncIterator[Start]:
    """Starts a server with the given limits."""
    (tmp_path / "m" / "1").mkdir(parents=True)
    repository = Repository(lambda: [ModelConfig("m", tmp_path / "m")], lambda folder: Repeating())
    repository.start()
    async with contextlib.AsyncExitStack() as stack:

        async def start(**limits: int) -> Started:
            core = Core(repository, Limits(**limits))
            server, port = await start_grpc(core, "127.0.0.1:0")
            stack.push_async_callback(server.stop, None)
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
            return Started(core, channel, port)

        yield start


request = functools.partial(predict_request, model="m")


async def predict(channel: grpc.aio.Channel, *texts: str) -> list[bytes]:
    call = channel.unary_unary(PREDICT)(request(*texts).SerializeToString(), timeout=20, wait_for_ready=True)
    return list(PredictResponse.FromString(await call).outputs["copies"].string_val)


async def refused(call: Awaitable[Any]) -> tuple[str, str]:
    """Returns the code and the message of a call that must fail."""
    with pytest.raises(grpc.RpcError) as caught:
        await call
    return caught.value.code().name, caught.value.details()


def silent(channel: grpc.aio.Channel, method: str = PREDICT, seconds: float = 20.0) -> grpc.aio.StreamUnaryCall:
    """Starts a call that sends headers and ends without a message after ``seconds``."""

    async def nothing() -> AsyncIterator[bytes]:
        await asyncio.sleep(seconds)
        return
        yield b""

    return channel.stream_unary(method)(nothing(), timeout=20)


def status(channel: grpc.aio.Channel) -> Awaitable[tuple[str, str]]:
    """Returns the error of a GetModelStatus call that ends without a message."""
    return refused(silent(channel, STATUS, 0.0))


@pytest.mark.parametrize("method", [PREDICT, STATUS])
async def test_a_stream_without_a_message_gives_up_its_slot_after_the_timeout(start, method):
    _, channel, _ = await start(connections=1, rest_api_timeout_in_ms=1000)
    code, details = await refused(silent(channel, method))
    assert code == "DEADLINE_EXCEEDED"
    assert "--rest-api-timeout-in-ms" in details
    assert await predict(channel, "a") == [b"a"]


async def test_only_as_many_messages_as_a_full_queue_has_are_received_at_once(start, monkeypatch):
    monkeypatch.setattr("serve.rpc.slots.PATIENCE", 60.0)
    _, channel, _ = await start(concurrency=1, queue=0)
    first = silent(channel)
    await asyncio.sleep(0.2)
    second = asyncio.ensure_future(predict(channel, "a"))
    await asyncio.sleep(0.2)
    assert not second.done()
    assert await status(channel) == ("UNIMPLEMENTED", "The call has no request message")
    first.cancel()
    assert await second == [b"a"]


@pytest.mark.parametrize("method", [PREDICT, STATUS])
async def test_silent_calls_of_one_connection_keep_no_other_connection_waiting(start, method):
    _, channel, port = await start()
    calls = [silent(channel, method) for _ in range(130)]
    await asyncio.sleep(0.5)
    own_connection = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", own_connection) as other:
        answered = asyncio.gather(predict(other, "a"), status(other))
        assert (await asyncio.wait_for(answered, 10))[0] == [b"a"]
    for call in calls:
        call.cancel()


async def test_calls_without_a_message_delay_others_only_briefly(start):
    _, channel, _ = await start(concurrency=1, queue=0)
    calls = [asyncio.ensure_future(refused(silent(channel))) for _ in range(3)]
    await asyncio.sleep(0.2)
    assert await asyncio.wait_for(predict(channel, "a"), 10) == [b"a"]
    for code, details in await asyncio.gather(*calls):  # each had to give up its slot
        assert code == "UNAVAILABLE"
        assert "message" in details


@pytest.mark.parametrize("queue", [0, 1], ids=["a call waits for a moment", "a slot is free"])
async def test_a_call_may_take_its_time_if_no_other_waits(start, queue, monkeypatch):
    monkeypatch.setattr("serve.rpc.slots.PATIENCE", 4.0)
    _, channel, _ = await start(concurrency=1, queue=queue)
    slow = asyncio.ensure_future(refused(silent(channel, seconds=5.0)))
    await asyncio.sleep(0.2)
    with contextlib.suppress(TimeoutError):  # the other call ends or leaves
        await asyncio.wait_for(predict(channel, "a"), 0.25)
    assert await slow == ("UNIMPLEMENTED", "The call has no request message")


async def test_calls_beyond_the_number_of_connections_are_refused(start):
    _, channel, _ = await start(connections=2)
    calls = [silent(channel) for _ in range(2)]
    await asyncio.sleep(0.2)
    assert (await status(channel))[0] == "RESOURCE_EXHAUSTED"
    for call in calls:
        call.cancel()
    await asyncio.sleep(0.2)
    assert await predict(channel, "a") == [b"a"]


FLOODING = f"""
import asyncio, sys, grpc

async def flood():
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel("127.0.0.1:" + sys.argv[1], options) for _ in range(4)]
    message = bytes(8 * 2**20)
    for channel in channels:
        for _ in range(8):
            await asyncio.gather(channel.unary_unary("{PREDICT}")(message, timeout=10), return_exceptions=True)
    print("received", flush=True)
    sys.stdin.readline()
    calls = [channel.unary_unary("{PREDICT}")(message, timeout=20) for channel in channels for _ in range(15)]
    print("sending", flush=True)
    await asyncio.gather(*calls, return_exceptions=True)

asyncio.run(flood())
"""


def resident_mib() -> float:
    """Returns the memory of this process in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


async def test_messages_that_wait_to_be_received_stay_with_the_client(start, monkeypatch):
    """After large messages, a connection must not offer a large flow-control window to the next messages."""
    monkeypatch.setattr("serve.rpc.slots.PATIENCE", 60.0)  # the silent call keeps its slot
    _, channel, port = await start(concurrency=1, queue=0)
    pipe = asyncio.subprocess.PIPE
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FLOODING, str(port), stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        assert await client.stdout.readline() == b"received\n"
        blocking = silent(channel)
        await asyncio.sleep(0.2)
        before = resident_mib()
        client.stdin.write(b"\n")
        assert await client.stdout.readline() == b"sending\n"
        for _ in range(20):
            await asyncio.sleep(0.1)
            assert resident_mib() - before < 100  # the client sends 480 MiB
        blocking.cancel()
    finally:
        client.kill()
        await client.communicate()


async def test_messages_count_among_the_bodies_that_are_held_together(start):
    core, channel, _ = await start(concurrency=1, queue=0, max_body_bytes=1200)
    async with core.admit("REST", 20.0) as other:
        other.hold(1000)
        code, details = await refused(predict(channel, "a" * 500))
    assert (code, "Too many large bodies" in details) == ("UNAVAILABLE", True)
    assert await predict(channel, "a" * 500) == [b"a" * 500]


async def test_a_message_is_decoded_when_its_turn_has_come_and_not_before(start):
    core, channel, _ = await start(concurrency=1, rest_api_timeout_in_ms=1000)
    malformed = channel.unary_unary(PREDICT)
    async with core.turns:
        assert (await refused(malformed(b"\xff")))[0] == "DEADLINE_EXCEEDED"
    assert (await refused(malformed(b"\xff")))[0] == "INTERNAL"


@pytest.mark.parametrize("method", [STATUS, METADATA, RELOAD])
@pytest.mark.parametrize(("message", "code"), [(b"\xff", "INTERNAL"), (bytes(70_000), "RESOURCE_EXHAUSTED")])
async def test_a_request_about_a_model_must_be_small_and_well_formed(start, method, message, code):
    _, channel, _ = await start()
    assert (await refused(channel.unary_unary(method)(message)))[0] == code


async def test_reloading_is_off_by_default(start, tmp_path):
    message = ReloadConfigRequest()
    message.config.model_config_list.config.add(name="n", base_path=str(tmp_path), model_platform="tensorflow")
    core, channel, _ = await start()
    code, details = await refused(channel.unary_unary(RELOAD)(message.SerializeToString()))
    assert (code, "--enable-reload" in details) == ("UNIMPLEMENTED", True)
    assert core.repository.available() == [("m", 1)]


# Connections


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def header(name: bytes, value: bytes) -> bytes:
    return bytes([0, len(name)]) + name + bytes([len(value)]) + value


def call_of_a_client_that_takes_no_data(message: bytes) -> bytes:
    """Returns the bytes of a call by a client with a flow-control window of 0, so that no answer can be sent."""
    fields = {b":method": b"POST", b":scheme": b"http", b":path": PREDICT.encode(), b":authority": b"s"}
    fields |= {b"te": b"trailers", b"content-type": b"application/grpc"}
    settings = frame(4, 0, 0, struct.pack(">HI", 4, 0))
    headers = frame(1, 4, 1, b"".join(header(*field) for field in fields.items()))
    return PREFACE + settings + headers + frame(0, 1, 1, struct.pack(">BI", 0, len(message)) + message)


@pytest.mark.parametrize(
    "said",
    [b"", PREFACE + frame(4, 0, 0, b""), call_of_a_client_that_takes_no_data(request("a" * 1000).SerializeToString())],
    ids=["silent", "no call", "does not read"],
)
async def test_a_connection_that_is_held_open_is_closed_and_makes_room_for_another(start, said):
    _, channel, port = await start(connections=1, rest_api_timeout_in_ms=1000)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    await reader.readexactly(9)  # the header of the server's first frame, after it has accepted the connection
    assert (await refused(channel.unary_unary(STATUS)(b"", timeout=20)))[0] == "UNAVAILABLE"
    while await asyncio.wait_for(reader.read(1000), 20):
        pass
    writer.close()
    assert await predict(channel, "a") == [b"a"]


async def test_a_connection_that_sends_nothing_is_closed_after_the_timeout(start):
    _, _, port = await start(rest_api_timeout_in_ms=2000)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.wait_for(reader.read(), 5)  # if it sends anything, the limit is three times the timeout
    writer.close()


async def test_a_client_s_requests_go_on_while_its_connections_are_replaced(start):
    _, channel, _ = await start(rest_api_timeout_in_ms=1000)
    end = asyncio.get_running_loop().time() + 2.5
    while asyncio.get_running_loop().time() < end:
        calls = [predict(channel, str(number)) for number in range(8)]
        assert await asyncio.gather(*calls) == [[str(number).encode()] for number in range(8)]


# Values


def answer(message: PredictRequest, width: int = 1, **limits: int) -> PredictResponse:
    version = LoadedVersion("m", 1, Path(), Repeating(width))
    return answer_to(version, message, Limits(**limits), lambda: contextlib.nullcontext(1.0))


@pytest.fixture
def unparsed(monkeypatch) -> None:
    """Fails if a tensor is parsed."""
    monkeypatch.setattr(tf.io, "parse_tensor", lambda *_: pytest.fail("parsed"))


def test_an_answer_of_too_many_values_is_refused():
    assert len(answer(request("a", "b"), width=5, max_values=10).outputs["copies"].string_val) == 10
    with pytest.raises(StatusError, match=r"10 values, more than 9 \(--max-values\)"):
        answer(request("a", "b"), width=5, max_values=9)


def test_the_values_of_all_inputs_count_together():
    message = request(signature="pair")
    del message.inputs["text"]
    for name in "ab":
        message.inputs[name].CopyFrom(tf.make_tensor_proto(["x"] * 5))
    answer(message, max_values=10)
    message.inputs["a"].tensor_shape.dim[0].size = -5  # a negative size does not reduce the total
    message.inputs["b"].tensor_shape.dim[0].size = 10
    with pytest.raises(StatusError, match=r"10 values, more than 9 \(--max-values\)"):
        answer(message, max_values=9)


@pytest.mark.parametrize(
    ("dtype", "signature", "code"),
    [
        *((name, "", "INVALID_ARGUMENT: .* to be string") for name in ("variant", "resource", "float")),
        *((name, name, f"UNIMPLEMENTED: .*{name}") for name in ("variant", "resource")),
    ],
)
def test_a_tensor_of_another_type_is_refused_before_it_is_parsed(unparsed, dtype, signature, code):
    message = request(signature=signature)
    message.inputs["text"].CopyFrom(TensorProto(dtype=f"DT_{dtype.upper()}"))
    with pytest.raises(StatusError, match=code):
        answer(message)


@pytest.mark.parametrize("extra", [1, 5000])
def test_the_error_for_wrong_inputs_is_short(extra):
    message = request("a")
    for number in range(extra):
        message.inputs[f"x{number}"].dtype = types_pb2.DT_STRING
    with pytest.raises(StatusError, match=f"input size does not match signature: {extra + 1}!=1") as caught:
        answer(message)
    assert len(caught.value.message) < 2000


@pytest.mark.parametrize(
    ("sizes", "texts", "limits", "message"),
    [
        ([8], [b"a"], {"max_batch_rows": 7}, r"Input text has 8 rows, more than 7 \(--max-batch-rows\)"),
        ([1], [b"a" * 9], {"max_text_bytes": 8}, r"Input text has a string of 9 bytes, more than 8"),
        (
            [200, 50],
            [b"a" * 1000],
            {"max_unpacked_bytes": 9_999_999},
            r"Input text has 10000000 bytes, more than 9999999 \(--max-unpacked-bytes\)",
        ),
        ([1] * 255, [b"a"], {}, "tensor parsing error: text"),
        ([2**63 - 1] * 255, [b"a"], {}, "tensor parsing error: text"),
        ([-1], [b""], {}, "tensor parsing error: text"),
        ([3, -1], [b""], {}, "tensor parsing error: text"),
        ([2**63 - 1] * 254, [b"a"], {}, r"The request has 9223372036854775807 values, more than 2000000"),
    ],
    ids=["rows", "text", "repeated text", "dimensions", "large dimensions", "negative", "one negative", "values"],
)
def test_a_small_message_that_would_fill_the_memory_is_refused_before_it_is_parsed(
    unparsed, sizes, texts, limits, message
):
    """A tensor with fewer values than its shape requires is filled with copies of its last value."""
    sent = request()
    proto = TensorProto(dtype=types_pb2.DT_STRING, string_val=texts)
    for size in sizes:
        proto.tensor_shape.dim.add(size=size)
    sent.inputs["text"].CopyFrom(proto)
    with pytest.raises(StatusError, match=message):
        answer(sent, **limits)
