"""Warm-up: a version answers its warm-up requests before any request of a client."""

from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from nmt_keras.io.files import literal

from .servable import Servable, load_servable
from .status import Code, StatusError, invalid

MAX_RECORDS = 1000
SECONDS = 300.0
"""Time limit of a request in seconds. A first run may compile and allocate."""

REQUESTS = Path("assets.extra", "tf_serving_warmup_requests")
"""File of a version that holds its warm-up requests."""


def load_warm(folder: Path) -> Servable:
    """Loads the SavedModel in ``folder`` and runs its warm-up requests.

    Raises:
        StatusError: The model could not be loaded, or a warm-up request failed.
    """
    servable = load_servable(folder)
    if (folder / REQUESTS).exists():
        try:
            warm_up(servable, folder / REQUESTS)
        except BaseException:
            servable.close()
            raise
    return servable


def warm_up(servable: Servable, path: Path) -> None:
    """Runs each request in ``path``, a TFRecord file of ``PredictionLog``.

    Raises:
        StatusError: A request failed or is not a predict request, there are too many, or the file cannot be read.
    """
    try:
        for count, record in enumerate(tf.data.TFRecordDataset(str(literal(path))).as_numpy_iterator()):
            if count >= MAX_RECORDS:
                raise invalid(f"Number of warmup records exceeds the maximum ({MAX_RECORDS}) at {path}")
            _answer(servable, record, path)
    except tf.errors.OpError as error:
        reason = error.message.rpartition("}} ")[2].partition(" [Op:")[0]
        refused = isinstance(error, tf.errors.PermissionDeniedError)
        advice = "" if refused else " Please verify your warmup data is in TFRecord format."
        raise StatusError(Code(error.error_code), f"{path}: {reason}.{advice}") from error


def _answer(servable: Servable, record: bytes, path: Path) -> None:
    """Runs a request. It has no limits, because it comes from the author of the model."""
    try:
        log = PredictionLog.FromString(record)
    except DecodeError as error:
        raise invalid(f"Failed to parse warmup record: {record[:100]!r} from {path}") from error
    kind = log.WhichOneof("log_type")
    if kind != "predict_log":
        raise StatusError(Code.UNIMPLEMENTED, f"Unsupported log_type for warmup: {kind}")
    request = log.predict_log.request
    signature = servable.signature(request.model_spec.signature_name)
    if request.inputs.keys() != signature.inputs.keys():
        given, expected = (",".join(sorted(names)) for names in (request.inputs, signature.inputs))
        raise invalid(f"Inputs of a warmup record must be {expected}. Received: {given} from {path}")
    servable.run(signature, {name: tf.make_ndarray(proto) for name, proto in request.inputs.items()}, SECONDS)
