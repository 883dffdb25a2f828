"""PredictionService and ModelService over gRPC: the same core, the same checks, the same words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import anyio.to_thread
import grpc
from google.protobuf.message import DecodeError, Message
from grpc.aio import ServicerContext
from tensorflow_serving.apis import inference_pb2, model_service_pb2_grpc, prediction_service_pb2_grpc
from tensorflow_serving.apis.classification_pb2 import ClassificationRequest, ClassificationResponse
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
from tensorflow_serving.apis.model_pb2 import ModelSpec
from tensorflow_serving.apis.predict_pb2 import PredictRequest, PredictResponse
from tensorflow_serving.apis.regression_pb2 import RegressionRequest, RegressionResponse

from serve import inference
from serve.core import Core
from serve.json_text import to_bytes
from serve.limits import Limits
from serve.metrics import Call
from serve.model_config import model_configs
from serve.repository import LoadedVersion
from serve.status import Code, StatusError, invalid
from serve.values import SERVING_DEFAULT

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

MAX_MESSAGE = 1024
"""Bytes of an error message: it travels as a header, whose size clients bound; TensorFlow Serving cuts it here too."""

SIGNATURE_DEF = "signature_def"


async def start_grpc(core: Core, address: str) -> tuple[grpc.aio.Server, int]:
    """A gRPC server that listens at ``address``, HOST:PORT, on the running event loop; and its port.

    Raises:
        RuntimeError: the address is taken.
    """
    options = [
        ("grpc.max_receive_message_length", core.limits.max_body_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),  # otherwise two servers would share a port without knowing
    ]
    server = grpc.aio.server(
        interceptors=[_Decoding()], options=options, maximum_concurrent_rpcs=core.limits.connections
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(PredictionService(core), server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(ModelService(core), server)
    port = server.add_insecure_port(address)
    await server.start()
    return server, port


class _Decoding(grpc.aio.ServerInterceptor):
    """Answers a message that cannot be decoded by INTERNAL, as gRPC for C++ does; for Python it answers UNKNOWN."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler | None:
        """The method that is called, which now decodes its request itself; None if there is no such method."""
        method = await continuation(handler_call_details)
        if method is None:
            return None

        async def answer(encoded: bytes, context: ServicerContext) -> Message:
            try:
                request = method.request_deserializer(encoded)
            except DecodeError:
                await _abort(context, StatusError(Code.INTERNAL, "The request message could not be decoded"))
            return await method.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(answer, response_serializer=method.response_serializer)


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers inference requests in worker threads, each when its turn comes."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def Predict(self, request: PredictRequest, context: ServicerContext) -> PredictResponse:
        """Any signature's outputs."""
        return await self._infer("Predict", inference.predict, request, request.model_spec, context)

    async def Classify(self, request: ClassificationRequest, context: ServicerContext) -> ClassificationResponse:
        """Classes of examples."""
        return await self._infer("Classify", inference.classify, request, request.model_spec, context)

    async def Regress(self, request: RegressionRequest, context: ServicerContext) -> RegressionResponse:
        """Values of examples."""
        return await self._infer("Regress", inference.regress, request, request.model_spec, context)

    async def MultiInference(
        self, request: inference_pb2.MultiInferenceRequest, context: ServicerContext
    ) -> inference_pb2.MultiInferenceResponse:
        """Several classifications and regressions of the same examples."""
        spec = request.tasks[0].model_spec if request.tasks else ModelSpec()
        return await self._infer("MultiInference", inference.multi_infer, request, spec, context)

    async def GetModelMetadata(
        self, request: GetModelMetadataRequest, context: ServicerContext
    ) -> GetModelMetadataResponse:
        """The signatures of a version."""
        try:
            return self._metadata(request)
        except StatusError as error:
            await _abort(context, error)

    def _metadata(self, request: GetModelMetadataRequest) -> GetModelMetadataResponse:
        _require_spec(request)
        if not request.metadata_field:
            raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != SIGNATURE_DEF:
                raise invalid(f"Metadata field {field} is not supported")
        response = GetModelMetadataResponse()
        with self._core.repository.using(*_target(request.model_spec)) as loaded:
            response.model_spec.name = loaded.name
            response.model_spec.version.value = loaded.version
            definitions = SignatureDefMap(signature_def=loaded.servable.signature_defs)
        response.metadata[SIGNATURE_DEF].Pack(definitions)
        return response

    async def _infer(
        self,
        api: str,
        method: Callable[[LoadedVersion, Request, Limits, inference.Running], Response],
        request: Request,
        spec: ModelSpec,
        context: ServicerContext,
    ) -> Response:
        limits = self._core.limits
        clients_seconds = context.time_remaining()
        seconds = limits.seconds if clients_seconds is None else min(limits.seconds, max(0.0, clients_seconds))
        try:
            async with self._core.admit(Call(api, "GRPC"), seconds) as ticket:

                def work() -> Response:
                    _require_spec(request)
                    with self._core.repository.using(*_target(spec)) as loaded:
                        signature_name = spec.signature_name or SERVING_DEFAULT
                        ticket.found(loaded, signature_name if signature_name in loaded.servable.signatures else "")
                        return method(loaded, request, limits, ticket.running)

                return await ticket.take_turn(work)
        except StatusError as error:
            await _abort(context, error)


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """Says which versions there are, and changes which models are served."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def GetModelStatus(self, request: GetModelStatusRequest, context: ServicerContext) -> GetModelStatusResponse:
        """The state of a model's versions."""
        try:
            _require_spec(request)
            name, version, _ = _target(request.model_spec)
            statuses = self._core.repository.status(name, version)
        except StatusError as error:
            await _abort(context, error)
        response = GetModelStatusResponse()
        for status in statuses:
            state = ModelVersionStatus.State.Value(status.state.value)
            message = response.model_version_status.add(version=status.version, state=state)
            message.status.error_code = status.code.value
            message.status.error_message = _text(status.message)
        return response

    async def HandleReloadConfigRequest(
        self, request: ReloadConfigRequest, context: ServicerContext
    ) -> ReloadConfigResponse:
        """Serves other models from now on; answers once they are loaded."""
        try:
            configs = model_configs(request.config)
            await anyio.to_thread.run_sync(self._core.repository.reload, configs)
        except StatusError as error:
            await _abort(context, error)
        return ReloadConfigResponse()


def _require_spec(request: Any) -> None:
    if "model_spec" in request.DESCRIPTOR.fields_by_name and not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")


def _target(spec: ModelSpec) -> tuple[str, int | None, str | None]:
    """Name, version and label, as the repository is asked for them."""
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
    """``message``, cut, without the bytes in it that are no UTF-8, which protocol buffers refuse."""
    return to_bytes(message)[:MAX_MESSAGE].decode("utf-8", "replace")
