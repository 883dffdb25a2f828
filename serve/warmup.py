"""Warm-up: the requests that a version brings along are answered before the first client's."""

from __future__ import annotations

import contextlib
from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from serve import inference
from serve.limits import Limits
from serve.repository import LoadedVersion
from serve.servable import Servable
from serve.status import Code, StatusError, invalid

MAX_RECORDS = 1000
SECONDS = 300.0
"""For one request: a first run may compile and allocate."""

_LIMITS = Limits(max_batch_rows=2**31, max_text_bytes=2**31, max_values=2**31, max_unpacked_bytes=2**31)
"""The file is the model author's, not a client's."""


def warm_up(servable: Servable, path: Path) -> None:
    """Answers each request in ``path``, a TFRecord file of ``PredictionLog``.

    Raises:
        StatusError: a request failed, which fails the whole load; there are too many; or it is no such file.
    """
    loaded = LoadedVersion("", 0, path.parents[1], servable)
    try:
        for count, record in enumerate(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()):
            if count >= MAX_RECORDS:
                raise invalid(f"Number of warmup records exceeds the maximum ({MAX_RECORDS}) at {path}")
            _answer(loaded, _parsed(record, path))
    except tf.errors.DataLossError as error:
        advice = "Please verify your warmup data is in TFRecord format."
        raise StatusError(Code.DATA_LOSS, f"{error.message}. {advice}") from error


def _parsed(record: bytes, path: Path) -> PredictionLog:
    try:
        return PredictionLog.FromString(record)
    except DecodeError as error:
        raise invalid(f"Failed to parse warmup record: {record[:100]!r} from {path}") from error


def _answer(loaded: LoadedVersion, log: PredictionLog) -> None:
    kind = log.WhichOneof("log_type")
    rest = _LIMITS, lambda: contextlib.nullcontext(SECONDS)
    if kind == "predict_log":
        inference.predict(loaded, log.predict_log.request, *rest)
    elif kind == "classify_log":
        inference.classify(loaded, log.classify_log.request, *rest)
    elif kind == "regress_log":
        inference.regress(loaded, log.regress_log.request, *rest)
    elif kind == "multi_inference_log":
        inference.multi_infer(loaded, log.multi_inference_log.request, *rest)
    else:
        raise StatusError(Code.UNIMPLEMENTED, f"Unsupported log_type for warmup: {kind}")
