"""Callbacks for TensorBoard: all numbers of the log, and profiles."""

import math
from dataclasses import replace

import keras
import pytest
import tensorflow as tf
from tiny import TINY_RECIPE

from nmt_keras.config import RunOptions
from nmt_keras.corpus import SplitCorpus
from nmt_keras.runs import Run
from nmt_keras.training import describe, read_log
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


def test_a_row_reads_as_a_line():
    row = {
        "step": 1500, "epoch": 1, "loss": 2.25, "cross_entropy": 2.0, "perplexity": math.exp(2.0), "accuracy": 0.5,
        "gradient_norm": 1.0, "skipped": 0, "learning_rate": 5e-4, "tokens_per_s": 6384.0, "seconds_left": 90.0,
        "padding": 0.125,
    }  # fmt: skip
    assert describe(1500, 30000, row) == "step 1,500 of 30,000: loss 2.250, 6,384 tokens/s, 1.5 min left"
    spoilt = {name: value for name, value in row.items() if name not in ("loss", "perplexity")}
    spoilt |= {"skipped": 3, "seconds_left": 360000.0, "tokens_per_s": 123456.0}
    longest = describe(1_500_000, 3_000_000, spoilt)
    assert longest == "step 1,500,000 of 3,000,000: no finite loss, 123,456 tokens/s, 100.0 h left"
    assert len(longest) <= 80
