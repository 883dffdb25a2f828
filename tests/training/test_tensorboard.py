"""Callbacks for TensorBoard: all numbers of the log, and profiles."""

from dataclasses import replace

import keras
import pytest
import tensorflow as tf
from tiny import TINY_RECIPE

from nmt_keras.config import RunOptions
from nmt_keras.corpus import SplitCorpus
from nmt_keras.runs import Run
from nmt_keras.training import read_log
from nmt_keras.training.tensorboard import FIRST_PROFILED, ProfilerCallback


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


@pytest.mark.long
def test_a_run_writes_its_whole_log_for_tensorboard_where_it_is_asked_to(pairs, tmp_path):
    recipe = replace(TINY_RECIPE, train=replace(TINY_RECIPE.train, steps=12, log_every=6))
    corpus = SplitCorpus("sample", pairs[:40], pairs[40:50], pairs[100:])
    history = keras.callbacks.History()
    Run(tmp_path / "run", recipe).train(
        corpus, lambda _: None, lambda *_: None, RunOptions(tensorboard=True, profile=1), callbacks=[history]
    )
    found = written(tmp_path / "run" / "tensorboard")
    rows = read_log(tmp_path / "run" / "log.jsonl")
    for row in rows:
        part = "validation" if "valid_loss" in row else "training"
        for name in row.keys() - {"step", "epoch"}:
            assert float(found[row["step"], f"{part}/{name}"]) == pytest.approx(row[name], rel=1e-6)
    assert list((tmp_path / "run" / "tensorboard").rglob("*.xplane.pb"))
    assert history.history["val_bleu"] == [row["valid_bleu"] for row in rows if "valid_bleu" in row]
