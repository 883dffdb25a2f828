"""Several devices and several machines: the same losses and weights as one device for the same batches."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bigram import assert_same_checkpoints
from tensors import assert_same
from tiny import write_pairs

from nmt_keras.config import FilterConfig, TokenizerConfig
from nmt_keras.corpus.preparing import prepare
from nmt_keras.training import read_log
from nmt_keras.training.distribution import find_cluster

TESTS = Path(__file__).parents[1]

LOST = "Lost another worker"
ROUNDING = {"rtol": 1e-4, "atol": 1e-6}

pytestmark = pytest.mark.long


def started(command, workers=(), index=0):
    """Starts a process. If ``workers`` is not empty, the process is worker ``index``."""
    cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (TESTS.parent, TESTS))),
        **({"TF_CONFIG": json.dumps(cluster)} if workers else {}),
    }
    return subprocess.Popen(
        list(map(str, command)),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def process(folder, *, devices=1, step=0, number=0, workers=(), index=0):
    """Starts a training process that writes to ``folder``. It sends itself the signal ``number`` after ``step``."""
    program = [sys.executable, TESTS / "training/train_replicated.py"]
    return started([*program, folder, devices, step, int(number)], workers, index)


def finished(training):
    """Returns the output of a training process that must succeed."""
    output, _ = training.communicate(timeout=240)
    assert training.returncode == 0, output[-3000:]
    return output


def weights(output):
    """Returns the final weights from the output of a training process."""
    (line,) = [line for line in output.splitlines() if line.startswith("WEIGHTS")]
    return [np.array(one) for one in json.loads(line.removeprefix("WEIGHTS"))]


def two_addresses():
    """Returns the addresses of two free ports of this machine."""
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in (one, other)]


def assert_same_course(folder, output, single):
    """Asserts that metrics, weights and optimizer state equal those of a run on one device.

    Two updates were not finite. All replicas have skipped them.
    """
    rows, wanted = ([r for r in read_log(path / "log.jsonl") if "loss" in r] for path in (folder, single[0]))
    assert [row["step"] for row in rows] == [*range(1, 12), *range(14, 21)]
    for name in ("loss", "cross_entropy", "accuracy", "gradient_norm", "padding"):
        np.testing.assert_allclose([r[name] for r in rows], [r[name] for r in wanted], rtol=1e-5, err_msg=name)
    assert_same(weights(output), single[1], **ROUNDING)
    assert_same_checkpoints(folder, single[0], **ROUNDING)


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """The folder and the weights of a run on one device."""
    folder = tmp_path_factory.mktemp("single")
    return folder, weights(finished(process(folder)))


@pytest.mark.parametrize(
    "devices",
    [pytest.param(2, marks=pytest.mark.slow), 3],
    ids=["even shares", "masked rows fill the shares"],
)
def test_several_devices_train_as_one(single, tmp_path, devices):
    assert_same_course(tmp_path, finished(process(tmp_path, devices=devices)), single)


def failed(training, seconds=90.0):
    """Returns the output of a training process that must fail within ``seconds``."""
    output, _ = training.communicate(timeout=seconds)
    assert training.returncode > 0, output[-3000:]
    return output


def assert_resumed_as_one(folder, single, step):
    """Starts both workers again. Asserts that they resume after ``step`` and end like an undisturbed run."""
    workers = two_addresses()
    outputs = [finished(one) for one in [process(folder, workers=workers, index=index) for index in (0, 1)]]
    for output in outputs:
        assert f"resuming at step {step} of 20" in output
        assert_same_course(folder, output, single)


def test_two_workers_train_as_one_and_when_one_dies_all_fail_and_go_on_together(single, tmp_path):
    workers = two_addresses()
    lost = {"step": 7, "number": signal.SIGKILL}
    died = [process(tmp_path, workers=workers, index=0), process(tmp_path, workers=workers, index=1, **lost)]
    died[1].communicate(timeout=240)
    assert died[1].returncode == -signal.SIGKILL
    assert LOST in failed(died[0])
    assert_resumed_as_one(tmp_path, single, 5)


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 1], ids=["the chief", "a worker"])
def test_where_one_hangs_all_fail_and_go_on_together(single, tmp_path, index):
    """A stopped process sends no heartbeat and keeps its connections open, like a machine that hangs."""
    workers = two_addresses()
    hung = process(tmp_path, workers=workers, index=index, step=7, number=signal.SIGSTOP)
    other = process(tmp_path, workers=workers, index=1 - index)
    _, status = os.waitpid(hung.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert LOST in failed(other)
    hung.send_signal(signal.SIGCONT)
    assert LOST in failed(hung)
    assert_resumed_as_one(tmp_path, single, 5)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "end"), [(signal.SIGTERM, "stopped at step 10 by SIGTERM"), (0, ", 10 steps")])
def test_workers_of_which_one_is_told_to_stop_stop_together_and_lose_nothing(single, tmp_path, number, end):
    workers = two_addresses()
    asked = {"step": 6, "number": number}
    told = [process(tmp_path, workers=workers, index=index, **more) for index, more in ((0, {}), (1, asked))]
    for output in [training.communicate(timeout=240)[0] for training in told]:
        assert end in output
    assert_resumed_as_one(tmp_path, single, 10)


@pytest.mark.slow
def test_two_workers_train_a_real_model_from_the_command_line(pairs, tmp_path):
    text = TokenizerConfig("word", 150)
    file = write_pairs(tmp_path / "pairs.tsv", pairs)
    prepare([file], tmp_path / "prepared", text, text, FilterConfig(max_tokens=12), shards=2)
    command = [
        sys.executable, "-m", "nmt_keras", "train", "rnnsearch-small", "--prepared", tmp_path / "prepared", "--valid",
        file, "--steps", 4, "--width", 0.03125, "--model.dropout", 0, "--train.length-buckets", 1,
        "--train.batch-tokens", 100, "--train.gradient-accumulation-steps", 2,
        "--train.validations", 1, "--train.validation-sentences",
        2, "--run",
    ]  # fmt: skip
    finished(started([*command, tmp_path / "alone"]))
    workers = two_addresses()
    for output in map(finished, [started([*command, tmp_path / "both"], workers, index) for index in (0, 1)]):
        assert "training for 4 steps" in output
    assert_same_checkpoints(tmp_path / "both", tmp_path / "alone", **ROUNDING)
    losses = [
        [row["loss"] for row in read_log(tmp_path / run / "log.jsonl") if "loss" in row] for run in ("both", "alone")
    ]
    np.testing.assert_allclose(*losses, rtol=1e-5)


def cluster(monkeypatch, jobs, kind, index):
    addresses = {job: [f"{job}{number}:2222" for number in range(count)] for job, count in jobs.items()}
    told = {"cluster": addresses, "task": {"type": kind, "index": index}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(told))


@pytest.mark.parametrize(
    ("jobs", "kind", "index", "found"),
    [
        ({"worker": 2}, "worker", 0, (2, True)),
        ({"worker": 2}, "worker", 1, (2, False)),
        ({"chief": 1, "worker": 1}, "chief", 0, (2, True)),
        ({"chief": 1, "worker": 1}, "worker", 0, (2, False)),
        ({"worker": 1}, "worker", 0, (1, True)),
        ({}, "worker", 0, (1, True)),
    ],
)
def test_one_process_of_a_cluster_is_its_chief(monkeypatch, jobs, kind, index, found):
    cluster(monkeypatch, jobs, kind, index)
    assert find_cluster() == found


def test_a_cluster_that_cannot_train_together_is_refused(monkeypatch):
    cluster(monkeypatch, {"worker": 2, "ps": 1}, "worker", 0)
    with pytest.raises(ValueError, match="TF_CONFIG: expected the jobs chief and worker, received 'ps'"):
        find_cluster()
    for text in ("{", '{"task": {"index": "x"}}'):
        monkeypatch.setenv("TF_CONFIG", text)
        with pytest.raises(ValueError, match=r"^TF_CONFIG: expected JSON such as "):
            find_cluster()
