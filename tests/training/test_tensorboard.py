"""Callbacks for TensorBoard: all numbers of the log, and profiles."""

import pytest
import tensorflow as tf
from bigram import Run, config

from nmt_keras.training import read_log
from nmt_keras.training.tensorboard import FIRST_PROFILED, ProfilerCallback, TensorBoardCallback


def written(folder):
    """Returns the content of a log directory as {(step, tag): value}."""
    found = {}
    for path in sorted(folder.glob("events.*")):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                found[event.step, value.tag] = tf.make_ndarray(value.tensor)
    return found


@pytest.mark.parametrize("updates", [2, 100])
def test_a_profile_begins_after_the_first_updates_and_ends_with_the_run_at_the_latest(tmp_path, updates):
    profiler = ProfilerCallback(tmp_path, updates)
    for step in range(FIRST_PROFILED + 4):
        assert list(tmp_path.rglob("*.xplane.pb")) == [] or step >= FIRST_PROFILED + updates
        tf.square(tf.constant(1.0))
        profiler.on_train_batch_end(step)
    profiler.on_train_end()
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 1


def test_a_run_writes_its_whole_log_for_tensorboard(batches, tmp_path):
    Run(batches, tmp_path, config(log_every=6))(callbacks=[TensorBoardCallback(tmp_path / "tensorboard")])
    found = written(tmp_path / "tensorboard")
    for row in read_log(tmp_path / "log.jsonl"):
        part = "validation" if "valid_loss" in row else "training"
        for name in row.keys() - {"step", "epoch"}:
            assert float(found[row["step"], f"{part}/{name}"]) == pytest.approx(row[name], rel=1e-6)
