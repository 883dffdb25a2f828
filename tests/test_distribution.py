"""Several devices and several machines: the same losses and weights as one device has for the same batches."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import nmt_keras
from nmt_keras.training import read_log

ROOT = Path(nmt_keras.__file__).parents[1]
SCRIPT = ROOT / "tests" / "train_replicated.py"

pytestmark = pytest.mark.saved_model


def process(folder, *, devices=1, die=0, workers=(), index=0):
    """A training process; it writes into ``folder``."""
    cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **({"TF_CONFIG": json.dumps(cluster)} if workers else {})}
    command = list(map(str, [sys.executable, SCRIPT, folder, devices, die]))
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )


def finished(training):
    """What a training process printed."""
    output, _ = training.communicate(timeout=240)
    assert training.returncode == 0, output[-3000:]
    return output


def weights(output):
    """The weights that a training process came to."""
    (line,) = [line for line in output.splitlines() if line.startswith("WEIGHTS")]
    return [np.array(one) for one in json.loads(line.removeprefix("WEIGHTS"))]


def two_addresses():
    """Two free ports of this machine."""
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in (one, other)]


def assert_same_course(folder, output, single):
    """Losses, norms and weights are those of the run on a single device."""
    rows, wanted = ([r for r in read_log(path / "log.jsonl") if "loss" in r] for path in (folder, single[0]))
    assert [row["step"] for row in rows] == list(range(1, 21))
    for name in ("loss", "cross_entropy", "accuracy", "gradient_norm", "padding"):
        np.testing.assert_allclose([r[name] for r in rows], [r[name] for r in wanted], rtol=1e-5, err_msg=name)
    for found, expected in zip(weights(output), single[1], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """The folder and the weights of a run on one device."""
    folder = tmp_path_factory.mktemp("single")
    return folder, weights(finished(process(folder)))


def test_two_devices_train_as_one(single, tmp_path):
    assert_same_course(tmp_path, finished(process(tmp_path, devices=2)), single)


def test_a_batch_that_replicas_cannot_share_evenly_is_refused(tmp_path):
    output, _ = process(tmp_path, devices=3).communicate(timeout=240)
    assert "TrainConfig.batch_size: expected a multiple of the 3 replicas, received a batch of 4 rows" in output


def test_two_workers_train_as_one_and_when_one_dies_all_fail_and_go_on_together(single, tmp_path):
    workers = two_addresses()
    died = [process(tmp_path, workers=workers, index=0), process(tmp_path, workers=workers, index=1, die=7)]
    died[1].wait(240)
    began = time.monotonic()
    assert died[1].returncode == 7
    assert died[0].wait(60) != 0
    assert time.monotonic() - began < 60.0
    for training in died:
        training.communicate()
    workers = two_addresses()
    outputs = [finished(one) for one in [process(tmp_path, workers=workers, index=index) for index in (0, 1)]]
    for output in outputs:
        assert "resuming at step 5 of 20" in output
        assert_same_course(tmp_path, output, single)
