"""Training: one compiled step under teacher forcing, and the loop around it, which can be stopped and resumed."""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from nmt_keras.cells import Noise
from nmt_keras.config import PAD, START, TrainConfig
from nmt_keras.corpus.batches import Batch, Batches, Shape
from nmt_keras.loss import Loss, masked_cross_entropy
from nmt_keras.model import Seq2Seq
from nmt_keras.optimization import build_optimizer, clip_by_global_norm, learning_rate, sampling_probability

SHARE_OF_TIME_FOR_STEPS = 0.9
"""Of the minutes left after compiling; the rest is for validations, checkpoints and a machine that slows down."""

UNFIT = (AssertionError, IndexError, RuntimeError, ValueError, tf.errors.OpError)
"""What TensorFlow raises when a checkpoint is damaged or belongs to another model."""


class Metrics(NamedTuple):
    """What one update reports."""

    loss: Loss  # sums over the batch, nats
    gradient_norm: tf.Tensor  # [] float32, before clipping


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop by a signal; the last checkpoint holds everything up to this step."""

    def __init__(self, step: int, signal_number: int):
        super().__init__(f"stopped at step {step} by {signal.Signals(signal_number).name}")
        self.step, self.signal_number = step, signal_number


def forward(
    model: Seq2Seq,
    source: tf.Tensor,
    target: tf.Tensor,
    smoothing: float,
    noise: Noise | None = None,
    sampling: tf.Tensor | None = None,
) -> Loss:
    """The loss of targets [B, T] (END included, PAD after it) given sources [B, S].

    Under teacher forcing, or with ``sampling`` [], the probability that the decoder reads a token of its own instead.
    """
    starts = tf.fill([tf.shape(target)[0], 1], tf.constant(START, target.dtype))
    output = model((source, tf.concat([starts, target[:, :-1]], axis=1)), noise=noise, sampling=sampling)
    return masked_cross_entropy(output.logits, target, tf.not_equal(target, PAD), smoothing)


class Updater:
    """One update of a model: forward and backward pass compiled once for each batch shape, the optimiser's once in all.

    Args:
        model: built.
        config: rate, clipping, smoothing, denominator, XLA.
    """

    def __init__(self, model: Seq2Seq, config: TrainConfig):
        self.model, self.config = model, config
        self.variables = list(model.trainable_variables)
        self.optimizer = build_optimizer(config, self.variables)
        self.differentiate = tf.function(self._differentiate, jit_compile=config.xla, autograph=False)
        self.apply = tf.function(self._apply, jit_compile=config.xla, autograph=False)

    def _differentiate(
        self, source: tf.Tensor, target: tf.Tensor, step: tf.Tensor, sampling: tf.Tensor | None
    ) -> tuple[list[tf.Tensor], Loss]:
        """Gradients of the batch's summed loss, each dense; rows of an embedding that occur twice are summed."""
        noise = Noise(tf.constant(self.config.seed, tf.int32), step)
        with tf.GradientTape() as tape:
            loss = forward(self.model, source, target, self.config.label_smoothing, noise, sampling)
        # a variable that the loss does not reach, such as the embedding of a decoder that reads no words, gets zeros
        unreached = tf.UnconnectedGradients.ZERO
        gradients = tape.gradient(loss.total, [v.value for v in self.variables], unconnected_gradients=unreached)
        return [tf.convert_to_tensor(g) for g in gradients], loss

    def _apply(self, gradients: list[tf.Tensor], denominator: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        """Divides by the global denominator, clips, updates; returns the norm before clipping."""
        gradients, norm = clip_by_global_norm([g / denominator for g in gradients], self.config.clip_norm)
        self.optimizer.learning_rate.assign(rate)
        self.optimizer.apply(gradients, self.variables)
        return norm

    def __call__(self, batch: Batch, step: int, total_steps: int) -> Metrics:
        """Makes update number ``step``, from 0."""
        source, target = tf.constant(batch.source), tf.constant(batch.target)
        gradients, loss = self.differentiate(source, target, tf.constant(step), self._sampling(step, total_steps))
        denominator = loss.tokens if self.config.denominator == "tokens" else tf.constant(float(batch.pairs))
        rate = learning_rate(self.config, step, total_steps)
        return Metrics(loss, self.apply(gradients, denominator, tf.constant(rate)))

    def _sampling(self, step: int, total_steps: int) -> tf.Tensor | None:
        """The probability of reading an own token at a step; None where a run never does."""
        if self.config.sampling_to == self.config.sampling_from == 0.0:
            return None
        return tf.constant(sampling_probability(self.config, step, total_steps), tf.float32)

    def rehearse(self, batches: Batches, report: Callable[[str], None]) -> dict[Shape, float]:
        """Compiles everything on batches of masked rows, then puts weights and optimiser back as they were.

        Returns:
            Seconds that one update takes, by batch shape.
        """
        state = [*self.variables, *self.optimizer.variables]
        before = [v.numpy() for v in state]
        nothing = np.zeros([0], np.int64)
        seconds, update = {}, 0.0
        for shape in batches.shapes:
            batch = batches.filled(nothing, shape)
            arguments = tf.constant(batch.source), tf.constant(batch.target), tf.constant(0), self._sampling(0, 1)
            compiling = time.perf_counter()
            gradients, _ = self.differentiate(*arguments)
            if not update:
                self.apply(gradients, tf.constant(1.0), tf.constant(0.0))
                update = _median_seconds(self.apply, gradients, tf.constant(1.0), tf.constant(0.0))
            compiling = time.perf_counter() - compiling
            seconds[shape] = update + _median_seconds(self.differentiate, *arguments)
            report(
                f"compiled batches of {batches.batch_size} x ({shape.source} source, {shape.target} target tokens) "
                f"in {compiling:.1f} s; {seconds[shape] * 1e3:.0f} ms an update"
            )
        for variable, value in zip(state, before, strict=True):
            variable.assign(value)
        return seconds


def _median_seconds(function: Callable[..., Any], *arguments: Any, runs: int = 3) -> float:
    """Seconds until ``function(*arguments)`` is there, median of ``runs``."""
    durations = []
    for _ in range(runs):
        began = time.perf_counter()
        tf.nest.flatten(function(*arguments))[-1].numpy()
        durations.append(time.perf_counter() - began)
    return statistics.median(durations)


class Progress(tf.Module):
    """Where training stands: all that a checkpoint must hold beside weights and optimiser."""

    def __init__(self) -> None:
        super().__init__(name="progress")
        self.step = tf.Variable(0, dtype=tf.int64)  # updates made
        self.epoch = tf.Variable(0, dtype=tf.int64)
        self.batch = tf.Variable(0, dtype=tf.int64)  # batches of this epoch seen
        self.total_steps = tf.Variable(0, dtype=tf.int64)  # 0 until it is known
        self.seconds = tf.Variable(0.0, dtype=tf.float64)  # spent training
        self.best = tf.Variable(math.inf, dtype=tf.float64)  # lowest validation loss, nats per token
        self.stale = tf.Variable(0, dtype=tf.int64)  # validations since then
        self.finished = tf.Variable(False)


class Weights(tf.Module):
    """A model's variables, in order, as a checkpoint holds them.

    TensorFlow would look for them by the attributes of the layers, and passes over layers that Keras keeps in lists.
    """

    def __init__(self, model: keras.Model):
        super().__init__(name="weights")
        self.all = [variable.value for variable in model.variables]


class Checkpoints:
    """The last and the best state of a training, each written whole or not at all.

    ``tf.train.Checkpoint`` writes data under a new number, renames it, and only then rewrites the small file that says
    which number
    counts: a process killed at any moment leaves the previous checkpoint valid.

    Args:
        folder: holds ``last`` and ``best``.
        updater: its model and optimiser are saved.
        progress: saved beside them.
    """

    def __init__(self, folder: Path, updater: Updater, progress: Progress):
        checkpoint = tf.train.Checkpoint(weights=Weights(updater.model), optimizer=updater.optimizer, progress=progress)
        self.last = tf.train.CheckpointManager(checkpoint, str(folder / "last"), max_to_keep=2)
        self.best = tf.train.CheckpointManager(checkpoint, str(folder / "best"), max_to_keep=1)

    def restore(self) -> bool:
        """Restores the last checkpoint if there is one; every variable must be found in it.

        Raises:
            ValueError: the checkpoint does not fit the model.
        """
        path = self.last.latest_checkpoint
        if path is None:
            return False
        try:
            self.last.checkpoint.restore(path).assert_existing_objects_matched().assert_consumed()
        except UNFIT as error:
            raise ValueError(
                f"{path}: expected a checkpoint of this recipe's model; {error}. "
                "Train in a new run directory, or restore the recipe that made it."
            ) from error
        return True


def is_finished(folder: Path) -> bool:
    """Whether the training in the run directory ``folder`` has come to its end."""
    path = tf.train.latest_checkpoint(str(folder / "checkpoints" / "last"))
    if path is None:
        return False
    return bool(tf.train.load_checkpoint(path).get_tensor("progress/finished/.ATTRIBUTES/VARIABLE_VALUE"))


def load_weights(model: Seq2Seq, folder: Path) -> int:
    """Restores the model's weights alone from the best checkpoint under ``folder``, or the last where none is best.

    Returns:
        The step at which the checkpoint was written.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: it does not fit the model.
    """
    path = tf.train.latest_checkpoint(str(folder / "best")) or tf.train.latest_checkpoint(str(folder / "last"))
    if path is None:
        raise FileNotFoundError(
            f"{folder}: expected a checkpoint under best/ or last/, found none. Train the run first."
        )
    progress = Progress()
    try:
        status = tf.train.Checkpoint(weights=Weights(model), progress=progress).restore(path)
        status.assert_existing_objects_matched().expect_partial()
    except UNFIT as error:
        raise ValueError(f"{path}: expected a checkpoint of this recipe's model; {error}.") from error
    return int(progress.step.numpy())


class Log:
    """``log.jsonl``: one row per line, appended; a resumed run drops the rows its checkpoint does not know of."""

    def __init__(self, path: Path, step: int):
        rows = [row for row in read_log(path) if row["step"] <= step]
        temporary = path.with_suffix(".partial")
        temporary.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.replace(temporary, path)
        self.path = path

    def append(self, row: Mapping[str, float]) -> None:
        """Writes a row."""
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def read_log(path: Path) -> list[dict[str, float]]:
    """The rows of a log, in order; a last line that a kill cut short is left out. No file gives no rows."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


@contextmanager
def stop_signals() -> Iterator[Callable[[], int | None]]:
    """Turns the first SIGINT or SIGTERM into a number that the yielded function returns; a second one acts at once."""
    received: list[int] = []

    def note(number: int, _frame: Any) -> None:
        received.append(number)
        for each, handler in previous.items():
            signal.signal(each, handler)

    previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: received[0] if received else None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class Interval:
    """What is averaged between two rows of the log."""

    def __init__(self) -> None:
        self.metrics: list[Metrics] = []
        self.positions = 0
        self.began = time.perf_counter()  # moved on by what validations take: they are no training speed

    def add(self, batch: Batch, metrics: Metrics) -> None:
        """Adds an update."""
        self.metrics.append(metrics)
        self.positions += batch.target.size

    def row(self, step: int, epoch: int, rate: float, remaining: int) -> dict[str, float]:
        """The log row: losses in nats per target token, speed in real target tokens per second, END included."""
        seconds = time.perf_counter() - self.began
        sums = [float(tf.add_n(column)) for column in zip(*(m.loss for m in self.metrics), strict=True)]
        total, cross_entropy, correct, tokens = sums
        return {
            "step": step,
            "epoch": epoch,
            "loss": total / tokens,
            "cross_entropy": cross_entropy / tokens,
            "accuracy": correct / tokens,
            "gradient_norm": statistics.median(float(m.gradient_norm) for m in self.metrics),
            "learning_rate": rate,
            "tokens_per_s": tokens / seconds,
            "seconds_left": remaining * seconds / len(self.metrics),
            "padding": 1.0 - tokens / self.positions,
        }


def train(
    model: Seq2Seq,
    batches: Batches,
    config: TrainConfig,
    folder: Path,
    validate: Callable[[], Mapping[str, float]],
    report: Callable[[str], None],
    show: Callable[[int, int, Mapping[str, float]], None],
) -> None:
    """Trains until the steps are made, validation stops improving, or a signal comes.

    Another call goes on where the last one stopped.

    Args:
        model: built; its weights are replaced by the last checkpoint's if there is one.
        batches: the training part.
        config: see :class:`~nmt_keras.config.TrainConfig`.
        folder: the run directory; gets ``checkpoints/`` and ``log.jsonl``.
        validate: measures the model as it is: at least ``valid_loss``, nats per token.
        report: told, in sentences, what happens.
        show: told (step, total steps, newest log row) after every update.

    Raises:
        Interrupted: SIGINT or SIGTERM came; the state is saved.
        FloatingPointError: the loss is not finite; the last checkpoint is from before.
        ValueError: the checkpoint in ``folder`` does not fit.
    """
    began = time.perf_counter()
    updater, progress = Updater(model, config), Progress()
    checkpoints = Checkpoints(folder / "checkpoints", updater, progress)
    resumed = checkpoints.restore()
    if progress.finished.numpy():
        return
    if resumed:
        report(f"resuming at step {int(progress.step)} of {int(progress.total_steps)}")
    log = Log(folder / "log.jsonl", int(progress.step))
    before = float(progress.seconds)

    def save(manager: tf.train.CheckpointManager) -> None:
        progress.seconds.assign(before + time.perf_counter() - began)
        manager.save(checkpoint_number=int(progress.step))

    seconds = updater.rehearse(batches, report)
    if not progress.total_steps.numpy():
        progress.total_steps.assign(_total_steps(config, batches, seconds, time.perf_counter() - began))
    total_steps, step = int(progress.total_steps), int(progress.step)
    report(f"training for {total_steps} steps, {total_steps / len(batches):.2f} epochs of {len(batches)} batches")
    every = -(-total_steps // config.validations)
    interval, row = Interval(), {"loss": math.nan, "tokens_per_s": math.nan}
    with stop_signals() as stopped:
        for batch in _from(batches, progress):
            if step >= total_steps or progress.finished.numpy():
                break
            metrics = updater(batch, step, total_steps)
            step += 1
            progress.step.assign(step)
            progress.batch.assign_add(1)
            interval.add(batch, metrics)
            logging = step % config.log_every == 0 or step == total_steps
            validating = step % every == 0 or step == total_steps
            if logging:
                _require_finite(step, metrics, config)
                rate = learning_rate(config, step - 1, total_steps)
                row = interval.row(step, int(progress.epoch), rate, total_steps - step)
                log.append(row)
                interval = Interval()
            show(step, total_steps, row)
            number = stopped()
            saving = step % config.checkpoint_every == 0 or number is not None
            if validating or saving:
                _require_finite(step, metrics, config)
            if validating:
                paused = time.perf_counter()
                scores = validate()
                log.append({"step": step, "epoch": int(progress.epoch), **scores})
                report(f"step {step}: " + ", ".join(f"{name} {value:.3f}" for name, value in scores.items()))
                better = scores["valid_loss"] < float(progress.best)
                progress.best.assign(min(float(progress.best), scores["valid_loss"]))
                progress.stale.assign(0 if better else progress.stale + 1)
                progress.finished.assign(step == total_steps or int(progress.stale) >= config.patience)
                if better:
                    save(checkpoints.best)
                save(checkpoints.last)
                interval.began += time.perf_counter() - paused
            elif saving:
                save(checkpoints.last)
            if (number := stopped()) is not None:
                raise Interrupted(step, number)
    report(f"trained for {float(progress.seconds) / 60.0:.1f} minutes, {step} steps")


def _require_finite(step: int, metrics: Metrics, config: TrainConfig) -> None:
    """Raises FloatingPointError if the loss or its gradient is not finite: no checkpoint may hold such an update."""
    for name, value in (("loss", metrics.loss.total), ("gradient", metrics.gradient_norm)):
        if not math.isfinite(value):
            raise FloatingPointError(
                f"step {step}: expected a finite {name}, received {float(value)}. The last checkpoint is from "
                f"before; lower TrainConfig.learning_rate, now {config.learning_rate}."
            )


def _total_steps(config: TrainConfig, batches: Batches, seconds: Mapping[Shape, float], spent: float) -> int:
    """The step count: the configured one, or how many updates fit into what is left of the minutes."""
    if config.steps is not None:
        return config.steps
    if config.epochs is not None:
        return max(1, round(config.epochs * len(batches)))
    assert config.minutes is not None
    counts = batches.shape_counts(0)
    mean = sum(seconds[shape] * count for shape, count in counts.items()) / sum(counts.values())
    steps = int((60.0 * config.minutes - spent) * SHARE_OF_TIME_FOR_STEPS / mean)
    if steps < 1:
        raise ValueError(
            f"minutes: expected more than the {(spent + mean) / 60.0:.1f} that compiling and one update take here, "
            f"received {config.minutes}. Give more time, or fewer TrainConfig.shapes."
        )
    return steps


def _from(batches: Batches, progress: Progress) -> Iterator[Batch]:
    """The batches from where ``progress`` stands, epoch after epoch."""
    while True:
        yield from batches.epoch(int(progress.epoch), int(progress.batch))
        progress.epoch.assign_add(1)
        progress.batch.assign(0)
