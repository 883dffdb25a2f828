"""Warm-up: before a version is served, it answers the requests in its folder."""

import shutil
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow_serving.apis.prediction_log_pb2 import ClassifyLog, PredictionLog

from serve.models.status import StatusError
from serve.models.warmup import REQUESTS, load_warm

pytestmark = pytest.mark.long


def record(*texts: str, signature: str = "", name: str = "text") -> bytes:
    log = PredictionLog()
    log.predict_log.request.model_spec.signature_name = signature
    log.predict_log.request.inputs[name].CopyFrom(tf.make_tensor_proto(list(texts), tf.string))
    return log.SerializeToString()


def with_warm_up(export: Path, folder: Path, *records: bytes) -> Path:
    """Copies ``export`` to ``folder`` and adds ``records`` as warm-up requests. Returns ``folder``."""
    shutil.copytree(export, folder)
    (folder / REQUESTS).parent.mkdir()
    with tf.io.TFRecordWriter(str(folder / REQUESTS)) as writer:
        for each in records:
            writer.write(each)
    return folder


def test_a_version_is_warmed_up_with_the_requests_it_brings(reverser, tmp_path):
    load_warm(with_warm_up(reverser, tmp_path / "1", *[record("uno", *["dos"] * 300)] * 2)).close()


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([record("uno"), record("uno", signature="x")], 'signature name: "x" not found'),
        ([record("uno", name="x")], "must be text. Received: x from "),
        ([b"\xff"], "Failed to parse warmup record"),
        ([PredictionLog().SerializeToString()], "log_type"),
        ([PredictionLog(classify_log=ClassifyLog()).SerializeToString()], "log_type .*classify_log"),
        ([record("a")] * 1001, r"1000"),
    ],
    ids=["signature", "inputs", "no message", "no type", "another type", "too many"],
)
def test_a_failing_warm_up_request_fails_the_load(reverser, tmp_path, records, message):
    with pytest.raises(StatusError, match=message):
        load_warm(with_warm_up(reverser, tmp_path / "1", *records))


def test_warm_up_data_of_another_format_fails_the_load(reverser, tmp_path):
    folder = with_warm_up(reverser, tmp_path / "1")
    (folder / REQUESTS).write_bytes(b"not a record file, but long enough")
    with pytest.raises(StatusError, match=f"{REQUESTS}: corrupted record.*TFRecord"):
        load_warm(folder)
