"""Updates, and a Trainer that can be stopped, killed and resumed at any point.

The Trainer is tested with a model of two matrices, which is traced quickly. The shared run and the tests that learn to
copy and to reverse train real models.
"""

import math
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from bigram import (
    END,
    STEPS,
    Bigram,
    Logits,
    Run,
    V,
    assert_same_checkpoints,
    config,
    interrupt,
    kill,
    random_batches,
)
from reference import adam, clip
from tensors import assert_same
from tiny import TINY_RECIPE

from nmt_keras.config import AttentionConfig
from nmt_keras.layers.dropout import Randomness
from nmt_keras.models.seq2seq import build_model
from nmt_keras.training import Interrupted, Updater, batch_loss, checkpoints_in, load_weights, read_log, trainer
from nmt_keras.training.compiling import compile_updates
from nmt_keras.training.distribution import Replicas
from nmt_keras.training.log import Log
from nmt_keras.training.schedules import learning_rate
from nmt_keras.training.signals import StopSignals


@pytest.fixture(scope="module")
def whole(batches, tmp_path_factory):
    """An undisturbed run."""
    return Run(batches, tmp_path_factory.mktemp("whole"))()


class Dropping(Bigram):
    """A Bigram with a layer of Keras that counts its draws."""

    def __init__(self):
        super().__init__(rate=0.0)
        self.drop = keras.layers.Dropout(0.5, seed=1)

    def call(self, *inputs, **others):
        return Logits(self.drop(super().call(*inputs, **others).logits))


# An update


def test_layers_of_keras_run_in_training_mode_in_an_update_alone(batches):
    model, batch = Dropping(), next(batches.epoch(0))
    losses = [
        float(batch_loss(model, batch.source, batch.target, 0.0, randomness=randomness).total)
        for randomness in (None, None, Randomness(1, 0))
    ]
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize(("denominator", "divisor"), [("tokens", 5.0), ("sentences", 2.0)])
def test_an_update_is_adam_on_the_clipped_mean_gradient_of_the_loss_it_reports(batches, denominator, divisor):
    model = Bigram(rate=0.0)
    settings = config(denominator=denominator, clip_norm=0.01, label_smoothing=0.1, warmup_steps=0, decay="constant")
    updater = Updater(model, settings)
    batch = next(batches.epoch(0))
    target = np.zeros_like(batch.target)
    target[0, :3], target[1, :2] = [4, 5, END], [6, END]
    batch = batch._replace(target=target, pairs=2)
    before = model.get_weights()
    with tf.GradientTape() as tape:
        loss = batch_loss(model, tf.constant(batch.source), tf.constant(target), 0.1)
    gradients = tape.gradient(loss.total, [v.value for v in model.trainable_variables])
    means = [tf.convert_to_tensor(g).numpy().astype(float) / divisor for g in gradients]
    metrics = updater.train_step([batch], 0, 0.05)
    assert float(metrics.loss.total) == pytest.approx(float(loss.total), rel=1e-6)
    clipped, norm = clip(means, 0.01)
    assert float(metrics.gradient_norm) == pytest.approx(norm, rel=1e-5)
    assert norm > 0.01
    for variable, start, gradient in zip(model.trainable_variables, before, clipped, strict=True):
        wanted = adam(start.astype(float), [gradient], [0.05], 0.9, settings.beta_2, 1e-8)
        np.testing.assert_allclose(variable.numpy(), wanted, rtol=1e-4, atol=1e-6)


def test_minutes_are_refused_if_several_workers_train(batches, tmp_path, monkeypatch):
    monkeypatch.setattr(Replicas, "several_processes", True)
    with pytest.raises(ValueError, match=r"TrainConfig\.minutes: expected None if several workers train"):
        Run(batches, tmp_path, config(steps=None, minutes=1.0))()


@pytest.mark.long
def test_compiling_reports_each_shape_and_leaves_no_trace():
    model, batches = Dropping(), random_batches(2)
    updater = Updater(model, config(xla=True))
    updater.train_step([next(batches.epoch(0))], 5, 0.05)
    before = [v.numpy() for v in [*model.variables, *updater.optimizer.variables]]
    reports = []
    compile_updates(updater, batches, reports.append)
    for bucket, told in zip(batches.buckets[::-1], reports, strict=True):  # the largest comes first
        assert f"({bucket.source} source, {bucket.target} target tokens)" in told
    assert updater.gradients.experimental_get_tracing_count() == 2  # of the update before, and of all buckets
    assert_same([*model.variables, *updater.optimizer.variables], before, rtol=0.0, atol=0.0)


@pytest.mark.long
def test_the_buckets_of_xla_share_a_trace():
    model = build_model(replace(TINY_RECIPE.model, attention=AttentionConfig("general", "local-m")), V, V)
    updater, batches = Updater(model, config(xla=True)), random_batches(3)
    updater.share_trace(batches.masked(batches.buckets[-1]))
    for batch in map(batches.masked, batches.buckets):
        updater.gradients.get_concrete_function(*updater.arguments(batch, 0))
    assert updater.gradients.experimental_get_tracing_count() == 1


# A run


def test_a_run_makes_its_steps_validates_evenly_and_logs_each_interval(whole):
    assert whole.steps == list(range(1, STEPS + 1))
    assert whole.validated == [5, 10, 15, 20]
    rows = read_log(whole.folder / "log.jsonl")
    assert [row["step"] for row in rows] == [3, 5, 6, 9, 10, 12, 15, 15, 18, 20, 20]
    assert [row["step"] for row in rows if "valid_loss" in row] == [5, 10, 15, 20]
    for row in rows:
        if "loss" in row:
            assert row["learning_rate"] == learning_rate(whole.settings, row["step"] - 1, STEPS)
            assert row["tokens_per_s"] > 0.0


def test_the_logged_loss_is_that_of_the_batches(batches, tmp_path):
    settings = config(steps=1, log_every=1, validations=1, label_smoothing=0.2)
    run = Run(batches, tmp_path, settings, model=Bigram(rate=0.0))
    batch = next(batches.epoch(0))
    wanted = batch_loss(run.model, tf.constant(batch.source), tf.constant(batch.target), 0.2)
    run()
    row = read_log(tmp_path / "log.jsonl")[0]
    assert row["loss"] == pytest.approx(float(wanted.total / wanted.tokens), rel=1e-5)
    assert row["cross_entropy"] == pytest.approx(float(wanted.cross_entropy / wanted.tokens), rel=1e-5)
    assert row["accuracy"] == pytest.approx(float(wanted.correct / wanted.tokens))
    assert row["padding"] == pytest.approx(1.0 - float(wanted.tokens) / batch.target.size)


# Training time in minutes

LIMIT, TICK = 3.0, 1 / 64  # seconds


class Clock:
    """A clock for the Trainer. An update takes one tick, or two while the machine is busy."""

    now = 0.0
    compiling = 0.0  # seconds of compilation

    def busy(self, now):
        return False


@pytest.fixture
def clock(monkeypatch):
    clock, update = Clock(), Updater.train_step

    def updated(*arguments):
        clock.now += TICK * (1 + clock.busy(clock.now))
        return update(*arguments)

    def compiled(*_):
        clock.now += clock.compiling

    monkeypatch.setattr(trainer, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    monkeypatch.setattr(Updater, "train_step", updated)
    monkeypatch.setattr(trainer, "compile_updates", compiled)
    return clock


def in_minutes(**fields):
    """Returns the configuration of a training of 3 seconds, which are 192 ticks."""
    return config(**{"steps": None, "minutes": LIMIT / 60.0, "log_every": 1000, "decay": "linear", **fields})


def test_a_training_that_lasts_less_than_an_update_is_refused_at_the_first_bucket_that_shows_it(tmp_path):
    run = Run(random_batches(3), tmp_path, config(steps=None, minutes=1e-5))
    with pytest.raises(ValueError, match=r"^TrainConfig\.minutes: .* 3 length buckets .* received 1e-05"):
        run()
    assert len(run.reports) == 1


LOADS = {
    "never": lambda now: False,
    "comes": lambda now: now > 0.3 * LIMIT,
    "comes and goes": lambda now: 0.3 * LIMIT < now < 0.6 * LIMIT,
}


@pytest.mark.parametrize("busy", LOADS.values(), ids=LOADS)
def test_a_training_takes_its_minutes_while_the_machine_s_load_changes(batches, tmp_path, clock, busy):
    clock.busy, clock.compiling = busy, 0.05 * LIMIT
    settings = in_minutes(log_every=1, sampling_to=0.8)
    run = Run(batches, tmp_path, settings)()
    assert 0.95 * LIMIT <= clock.now <= 1.05 * LIMIT
    assert len(run.validated) == settings.validations
    assert run.shown[-1] == (run.steps[-1], run.steps[-1])
    # the learning rate falls with the time and reaches 0 at its end
    rates = [row["learning_rate"] for row in read_log(tmp_path / "log.jsonl") if "learning_rate" in row]
    drops = -np.diff(rates[settings.warmup_steps :]) / settings.learning_rate
    assert all(0.9 * TICK / LIMIT < drop < 6.0 * TICK / LIMIT for drop in drops)  # most at first: the compilation
    assert rates[-1] <= 2.5 * TICK / LIMIT * settings.learning_rate


@pytest.mark.long
def test_a_run_of_minutes_that_is_killed_ends_with_the_same_weights(batches, tmp_path, clock):
    """The time of the second compilation does not count. The machine is busy from 0.9 seconds on."""
    clock.busy = LOADS["comes"]
    settings = in_minutes(checkpoint_every=1000, validations=3, log_every=1)
    whole = Run(batches, tmp_path / "whole", settings)()
    clock.now = 0.0
    killed = Run(batches, tmp_path / "killed", settings, at={115: kill}).until_stopped()
    saved = killed.validated[-1] * TICK
    clock.now, clock.compiling = saved, LIMIT
    clock.busy = lambda now: LOADS["comes"](now - LIMIT)
    resumed = Run(batches, tmp_path / "killed", settings)()
    assert 0 < len(resumed.shown) < len(whole.shown)
    assert resumed.shown == whole.shown[-len(resumed.shown) :]
    assert_same_checkpoints(tmp_path / "killed", tmp_path / "whole")


# Stopping and resuming


@pytest.mark.parametrize(("epochs", "size"), [(1.5, 1), (2.0, 3)])
def test_a_run_of_epochs_sees_every_pair_as_often(batches, tmp_path, epochs, size):
    settings = config(steps=None, epochs=epochs, gradient_accumulation_steps=size, validations=3)
    run = Run(batches, tmp_path, settings)()
    assert run.steps[-1] == round(epochs * len(batches) / size)
    assert len(run.validated) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_after_its_step_and_the_next_call_goes_on_there(whole, batches, tmp_path, number):
    first = Run(batches, tmp_path, at={7: lambda: os.kill(os.getpid(), number)})
    with pytest.raises(Interrupted, match=f"stopped at step 7 by {signal.Signals(number).name}") as stopped:
        first()
    assert (stopped.value.step, stopped.value.signal_number) == (7, number)
    second = Run(batches, tmp_path)()
    assert second.steps == list(range(8, STEPS + 1))
    assert "resuming at step 7 of 20" in second.reports
    assert_same_checkpoints(tmp_path, whole.folder)


def test_a_run_ends_when_validation_stops_improving_and_keeps_the_best(batches, tmp_path):
    settings = config(validations=10, patience=2)
    run = Run(batches, tmp_path, settings, losses=[3.0, 2.0, 2.0, 2.5, 1.0])()
    assert run.validated == [2, 4, 6, 8]
    assert run.steps[-1] == 8
    assert load_weights(Bigram(), tmp_path / "checkpoints").step == 4
    assert Run(batches, tmp_path, settings)().shown == []


class Scored(Run):
    """A run whose losses are its BLEU, so that the lowest loss is the lowest BLEU."""

    def validate(self):
        return {**(scores := super().validate()), "valid_bleu": scores["valid_loss"]}


def test_bleu_selects_the_best_checkpoint_and_stops_training_on_request(batches, tmp_path):
    settings = config(validations=10, patience=2, select_by="bleu")
    run = Scored(batches, tmp_path, settings, losses=[3.0, 2.0, 5.0, 1.0, 5.0])()
    assert run.validated == [2, 4, 6, 8, 10]
    assert load_weights(Bigram(), tmp_path / "checkpoints").step == 6


# Callbacks


def recorder(calls):
    """Returns a callback that appends the name of each called hook to ``calls``."""
    hooks = [name for name in dir(keras.callbacks.Callback) if re.match("on_(train|epoch|test_(begin|end))", name)]
    return keras.callbacks.LambdaCallback(**{name: lambda *_, name=name, **__: calls.append(name) for name in hooks})


def test_hooks_are_called_in_the_order_of_fit(batches, tmp_path):
    found, wanted = [], []
    Run(batches, tmp_path, config(steps=4, validations=2))(callbacks=[recorder(found)])
    model, data = keras.Sequential([keras.layers.Dense(1)]), np.zeros([2, 1])
    model.compile(loss="mse")
    model.fit(data, data, 1, epochs=2, verbose=0, validation_data=(data, data), callbacks=[recorder(wanted)])
    assert found == wanted


def test_early_stopping_of_keras_stops_a_run_which_the_next_call_continues(batches, tmp_path, whole):
    history, stopping = keras.callbacks.History(), keras.callbacks.EarlyStopping(patience=1)
    first = Run(batches, tmp_path, losses=[3.0, 4.0])(callbacks=[history, stopping])
    assert (first.progress.step, first.progress.finished) == (10, False)
    losses = [row["loss"] for row in read_log(tmp_path / "log.jsonl") if row["step"] in (3, 9)]
    assert (history.history["loss"], history.history["val_loss"]) == (losses, [3.0, 4.0])
    second = Run(batches, tmp_path)()
    assert (second.steps, second.progress.finished) == (list(range(11, STEPS + 1)), True)
    assert_same_checkpoints(tmp_path, whole.folder)


# Signals


@pytest.mark.usefixtures("_python_s_own_interrupt_handler")
def test_a_second_signal_acts_at_once_and_the_handlers_come_back():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with StopSignals() as signals:
        assert signals.received is None
        interrupt()
        assert signals.received == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            interrupt()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_training_in_another_thread_leaves_signals_to_the_main_thread():
    handler = signal.getsignal(signal.SIGTERM)
    with ThreadPoolExecutor(1) as threads, StopSignals() as outer:
        assert threads.submit(StopSignals().__enter__).result().received is None
        assert signal.getsignal(signal.SIGTERM) == outer._record
    assert signal.getsignal(signal.SIGTERM) == handler


# Checkpoints that do not fit, and losses that are not finite


def test_processes_that_restored_different_steps_do_not_train_together(batches, tmp_path, monkeypatch):
    Run(batches, tmp_path, at={3: interrupt}).until_stopped()
    # as if another process had restored nothing
    monkeypatch.setattr(Replicas, "mean_over_processes", lambda self, number: number / 2.0)
    with pytest.raises(ValueError, match=r"step 3 here, another step elsewhere"):
        Run(batches, tmp_path)()


def test_processes_go_on_when_the_chief_has_saved(batches, tmp_path, monkeypatch):
    last, seen = tmp_path / "checkpoints" / "last", []
    monkeypatch.setattr(Replicas, "wait_for_processes", lambda _: seen.append([*map(str, checkpoints_in(last))][-1:]))
    Run(batches, tmp_path)()
    assert seen == [[], *([str(last / f"ckpt-{step}")] for step in (5, 10, 15, 20))]


def test_weights_of_another_model_are_refused(whole):
    with pytest.raises(ValueError, match="embedding"):
        load_weights(build_model(TINY_RECIPE.model, V, V), whole.folder / "checkpoints")


def test_weights_without_a_checkpoint_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected a checkpoint under best/ or last/, found none"):
        load_weights(Bigram(), tmp_path)


@pytest.mark.parametrize(("log_every", "noticed"), [(3, 9), (100, 10)], ids=["next row of the log", "next validation"])
def test_a_loss_that_is_not_finite_ends_the_run_before_it_is_logged_or_saved(batches, tmp_path, log_every, noticed):
    run = Run(batches, tmp_path, config(log_every=log_every))
    run.at = {7: lambda: run.model.kernel.assign(run.model.kernel * math.nan)}
    with pytest.raises(FloatingPointError, match=rf"^step {noticed}: .*TrainConfig.learning_rate \(0\.05 "):
        run()
    assert all(math.isfinite(row.get("loss", 0.0)) for row in read_log(tmp_path / "log.jsonl"))
    assert [path.name for path in checkpoints_in(tmp_path / "checkpoints" / "last")] == ["ckpt-5"]


@pytest.mark.parametrize("damage", [b"\0\0\0\0", b'{"step": 2, "lo', b"\xff", b"[1]", b"{}"])
def test_a_damaged_log_row_is_named_skipped_and_kept_aside(tmp_path, damage):
    path = tmp_path / "log.jsonl"
    content = b'{"step": 1}\n' + damage + b'\n{"step": 3}\n'
    path.write_bytes(content)
    with pytest.warns(UserWarning, match=rf"{path}: skipped 1 damaged lines, the first of which is line 2"):
        assert read_log(path) == [{"step": 1}, {"step": 3}]
    with pytest.warns(UserWarning, match="line 2"):
        Log(path, 3)
    assert read_log(path) == [{"step": 1}, {"step": 3}]
    assert (tmp_path / "damaged-log.jsonl").read_bytes() == content
