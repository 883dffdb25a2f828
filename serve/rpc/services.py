"""PredictionService and ModelService over gRPC, with the same core and the same checks as REST.

The server limits the number of messages received at once, and decodes a message in the worker thread that computes the
answer. gRPC's own handlers wait for a message without a time limit and decode it on the event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import anyio
import anyio.to_thread
import grpc
from google.protobuf.message import DecodeError, Message
from grpc.aio import ServicerContext
from tensorflow_serving.apis.get_model_metadata_pb2 import (
    GetModelMetadataRequest,
    GetModelMetadataResponse,
    SignatureDefMap,
)
from tensorflow_serving.apis.get_model_status_pb2 import (
    GetModelStatusRequest,
    GetModelStatusResponse,
    ModelVersionStatus,
)
from tensorflow_serving.apis.model_management_pb2 import ReloadConfigRequest, ReloadConfigResponse
from tensorflow_serving.apis.predict_pb2 import PredictRequest

from ..core import Core
from ..models.model_config import model_configs
from ..models.predict import predict
from ..models.status import Code, StatusError, invalid
from .slots import Slots

Request = TypeVar("Request", bound=Message)

Messages = AsyncIterator[bytes]
"""Messages of a call, normally exactly one. The iterator receives a message only when its next item is requested."""

PREDICTION = "/tensorflow.serving.PredictionService/"
MODEL = "/tensorflow.serving.ModelService/"

MAX_MESSAGE = 1024
"""Maximum bytes of an error message, as in TensorFlow Serving. It is sent in a header, whose size clients limit."""

MAX_SMALL = 65536
"""Maximum bytes of a request other than Predict. It is decoded on the event loop in a few milliseconds."""

MAX_STREAMS = 16
"""Maximum number of concurrent calls on a connection. The client delays further calls."""

MAX_SMALL_AT_ONCE = 4 * MAX_STREAMS
"""Maximum number of requests other than Predict that are received at once."""

SIGNATURE_DEF = "signature_def"


async def start_grpc(core: Core, address: str, *, can_reload: bool = False) -> tuple[grpc.aio.Server, int]:
    """Starts a gRPC server on the running event loop. Returns it with its port.

    A connection takes no new calls after ``Limits.seconds``, and is closed after three times this duration. Clients
    open a new connection automatically, so only clients that are silent or do not read their answers are disconnected.

    Args:
        core: The models and the limits.
        address: HOST:PORT to listen on.
        can_reload: If `True`, clients may replace the list of models.

    Raises:
        RuntimeError: The address is in use.
    """
    limits = core.limits
    milliseconds = max(1000, limits.rest_api_timeout_in_ms)
    options = [
        ("grpc.max_receive_message_length", limits.max_body_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),  # otherwise two servers could share a port by mistake
        ("grpc.max_allowed_incoming_connections", limits.connections),
        ("grpc.max_concurrent_streams", MAX_STREAMS),
        ("grpc.http2.bdp_probe", 0),  # the probe enlarges the window, and gRPC stores as much as fits into the window
        ("grpc.server_handshake_timeout_ms", milliseconds),
        ("grpc.max_connection_age_ms", milliseconds),
        ("grpc.max_connection_age_grace_ms", 2 * milliseconds),
    ]
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=limits.connections)
    server.add_generic_rpc_handlers((Services(core, can_reload=can_reload),))
    port = server.add_insecure_port(address)
    await server.start()
    return server, port


class Services(grpc.GenericRpcHandler):
    """ModelService, and PredictionService without Classify, Regress and MultiInference. Predict runs in worker threads.

    Every method is registered as client-streaming, because gRPC lets only such methods decide when to receive a
    message. Unary clients notice no difference.
    """

    def __init__(self, core: Core, *, can_reload: bool = False) -> None:
        self._core = core
        self._can_reload = can_reload
        self._receiving = Slots(core.limits.concurrency + core.limits.queue)
        self._receiving_small = Slots(MAX_SMALL_AT_ONCE)
        self._methods: dict[str, Callable[[Messages, float], Awaitable[bytes]]] = {
            f"{PREDICTION}Predict": self._predict,
            f"{PREDICTION}GetModelMetadata": self._metadata,
            f"{MODEL}GetModelStatus": self._status,
            f"{MODEL}HandleReloadConfigRequest": self._reload,
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Returns the handler of a method, or `None` if there is no such method."""
        method = self._methods.get(handler_call_details.method)
        if method is None:
            return None

        async def answer(messages: Messages, context: ServicerContext) -> bytes:
            seconds = self._core.limits.seconds
            if (clients_seconds := context.time_remaining()) is not None:
                seconds = min(seconds, max(0.0, clients_seconds))
            try:
                return await method(messages, seconds)
            except StatusError as error:
                await _abort(context, error)

        return grpc.stream_unary_rpc_method_handler(answer)

    async def _receive(self, messages: Messages, seconds: float, slots: Slots) -> bytes:
        """Receives the message of a call within ``seconds``, once one of ``slots`` is free.

        The size of a message is unknown until it has arrived, so each slot may take ``max_body_bytes``.

        Raises:
            StatusError: DEADLINE_EXCEEDED if the message does not arrive in time; UNIMPLEMENTED if there is no message;
                UNAVAILABLE if it does not arrive for ``PATIENCE`` while other calls wait.
        """
        try:
            with anyio.fail_after(seconds):
                async with slots.occupied():
                    return await anext(messages)
        except TimeoutError as error:
            slowness = f"The message did not arrive within {seconds:.3g} seconds (--rest-api-timeout-in-ms)"
            raise StatusError(Code.DEADLINE_EXCEEDED, slowness) from error
        except StopAsyncIteration as error:
            raise StatusError(Code.UNIMPLEMENTED, "The call has no request message") from error

    async def _receive_small(self, kind: type[Request], messages: Messages, seconds: float) -> Request:
        """Receives the message of a call other than Predict."""
        encoded = await self._receive(messages, seconds, self._receiving_small)
        if len(encoded) > MAX_SMALL:
            sizes = f"({len(encoded)} vs. {MAX_SMALL})"
            raise StatusError(Code.RESOURCE_EXHAUSTED, f"Received message larger than max {sizes}")
        return _decoded(kind, encoded)

    async def _predict(self, messages: Messages, seconds: float) -> bytes:
        """Returns the outputs of a signature."""
        core = self._core
        async with core.admit("GRPC", seconds) as ticket:
            encoded = await self._receive(messages, seconds, self._receiving)
            ticket.hold(len(encoded))

            def work() -> bytes:
                request = _decoded(PredictRequest, encoded)
                with core.repository.using(*_target(request)) as loaded:
                    ticket.model_name = loaded.name
                    return predict(loaded, request, core.limits, ticket.running).SerializeToString()

            return await ticket.take_turn(work)

    async def _metadata(self, messages: Messages, seconds: float) -> bytes:
        """Returns the signatures of a version."""
        request = await self._receive_small(GetModelMetadataRequest, messages, seconds)
        target = _target(request)
        if not request.metadata_field:
            raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != SIGNATURE_DEF:
                raise invalid(f"Metadata field {field} is not supported")

        def work() -> bytes:
            response = GetModelMetadataResponse()
            with self._core.repository.using(*target) as loaded:
                response.model_spec.name = loaded.name
                response.model_spec.version.value = loaded.version
                definitions = SignatureDefMap(signature_def=loaded.servable.signature_defs)
            response.metadata[SIGNATURE_DEF].Pack(definitions)
            return response.SerializeToString()

        return await anyio.to_thread.run_sync(work)

    async def _status(self, messages: Messages, seconds: float) -> bytes:
        """Returns the states of a model's versions."""
        request = await self._receive_small(GetModelStatusRequest, messages, seconds)
        name, version, _ = _target(request)
        response = GetModelStatusResponse()
        for status in self._core.repository.status(name, version):
            state = ModelVersionStatus.State.Value(status.state.value)
            message = response.model_version_status.add(version=status.version, state=state)
            message.status.error_code = status.code.value
            message.status.error_message = _text(status.message)
        return response.SerializeToString()

    async def _reload(self, messages: Messages, seconds: float) -> bytes:
        """Replaces the list of models, and answers when they are loaded.

        UNIMPLEMENTED is gRPC's code for a method that is "not implemented or is not supported/enabled". The message is
        decoded first, because TensorFlow Serving answers INTERNAL for a malformed message.
        """
        request = await self._receive_small(ReloadConfigRequest, messages, seconds)
        if not self._can_reload:
            advice = "Start the server with --enable-reload to allow it"
            raise StatusError(Code.UNIMPLEMENTED, f"HandleReloadConfigRequest is disabled. {advice}.")
        configs = model_configs(request.config)
        await anyio.to_thread.run_sync(self._core.repository.reload, configs, abandon_on_cancel=True)
        return ReloadConfigResponse().SerializeToString()


def _decoded(kind: type[Request], encoded: bytes) -> Request:
    """Decodes a request. As in gRPC for C++, a malformed request gets INTERNAL."""
    try:
        return kind.FromString(encoded)
    except DecodeError as error:
        raise StatusError(Code.INTERNAL, "The request message could not be decoded") from error


def _target(request: Any) -> tuple[str, int | None, str | None]:
    """Returns name, version and label of the model in ``request``."""
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")
    spec = request.model_spec
    if not spec.name:
        raise invalid("ModelSpec has no name specified.")
    choice = spec.WhichOneof("version_choice")
    return (
        spec.name,
        spec.version.value if choice == "version" else None,
        spec.version_label if choice == "version_label" else None,
    )


async def _abort(context: ServicerContext, error: StatusError) -> NoReturn:
    await context.abort(grpc.StatusCode[error.code.name], _text(error.message))
    raise AssertionError("abort returned")


def _text(message: str) -> str:
    """Returns ``message`` cut to ``MAX_MESSAGE`` bytes. Bytes that are not UTF-8 are replaced."""
    return message.encode("utf-8", "surrogateescape")[:MAX_MESSAGE].decode("utf-8", "replace")
