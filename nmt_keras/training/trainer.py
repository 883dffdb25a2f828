"""Trainer: restores the last checkpoint, makes updates, logs, validates and saves."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np

from nmt_keras.config import TrainConfig
from nmt_keras.corpus.batches import Batch, BatchSource, Bucket, Position
from nmt_keras.training.checkpoint_index import newest, repair_indexes
from nmt_keras.training.checkpoints import Checkpoints
from nmt_keras.training.compiling import compile_and_time
from nmt_keras.training.log import Log, LogInterval
from nmt_keras.training.schedules import learning_rate, sampling_probability
from nmt_keras.training.signals import Interrupted, StopSignals
from nmt_keras.training.updater import Metrics, Updater

STEPS_TO_AGREE = 5
"""Number of updates between two exchanges of stop signals among several processes."""


class Callback:
    """Base class of callbacks, which a :class:`Trainer` calls in order."""

    def on_train_begin(self, trainer: Trainer) -> None:
        """Called before the first update of a ``Trainer.train`` call."""

    def on_update_end(self, trainer: Trainer) -> None:
        """Called after each update, before a validation."""

    def on_log(self, row: Mapping[str, float]) -> None:
        """Called with each new row of the log.

        If the row has ``valid_loss``, it comes from a validation, and the model still has the validated weights.
        """

    def on_train_end(self) -> None:
        """Called at the end of training, also after a signal or an error."""


class ProgressCallback(Callback):
    """Calls ``show(step, total_steps, row)`` after each update.

    Args:
        show: Function that shows the progress. ``row`` is the last training row of the log. It is empty at first.
    """

    def __init__(self, show: Callable[[int, int, Mapping[str, float]], None]):
        self._show = show

    def on_update_end(self, trainer: Trainer) -> None:
        """Shows the progress."""
        self._show(trainer.step, trainer.total_steps, trainer.row)


class Trainer:
    """Trains a model until all steps are made, the validation loss stops improving, or a signal arrives.

    A new Trainer resumes from the last checkpoint. On a CPU with the same number of threads and with
    ``RunOptions.deterministic``, the weights are bit-identical to those of an uninterrupted run, unless the length of
    the training is given in minutes.

    Args:
        updater: Updater of the model. The last checkpoint, if there is one, replaces the model's weights.
        batches: Batches of the training set.
        checkpoints: Checkpoints of the run. Their folder may be empty.
        log_path: Path of ``log.jsonl``.
        validate: Function that evaluates the model. It returns at least ``valid_loss``, in nats per token, and
            ``valid_bleu`` if ``TrainConfig.select_by`` is "bleu".
        report: Function that receives progress messages.
        callbacks: Additional callbacks.
        previous: If ``True``, sets damaged checkpoints aside and resumes from the newest intact checkpoint.
        more_minutes, more_epochs: Additional minutes or epochs for a finished run; see ``RunOptions``.
        stop_after: Step after which training stops, without being finished; ``None`` for no such step.
        is_chief: If ``False``, this process writes no files. All processes make the same calls.
    """

    def __init__(
        self,
        updater: Updater,
        batches: BatchSource,
        checkpoints: Checkpoints,
        log_path: Path,
        validate: Callable[[], Mapping[str, float]],
        report: Callable[[str], None],
        callbacks: Sequence[Callback] = (),
        *,
        previous: bool = False,
        more_minutes: float | None = None,
        more_epochs: float | None = None,
        stop_after: int | None = None,
        is_chief: bool = True,
    ):
        self.updater, self.batches, self.checkpoints = updater, batches, checkpoints
        self.config, self.progress, self.report = updater.config, checkpoints.progress, report
        self.callbacks = list(callbacks)
        self.step = 0
        """Number of updates so far."""
        self.total, self.share = 0.0, 0.0  # length of the training, and share of it that is done
        # as in ``progress``; reading a variable waits for the device
        self.finished, self.reductions, self.validations, self.validated = False, 0, 0, 0
        self.compilation = self.validation_seconds = 0.0
        self.stop_signal: int | None = None
        """Signal that stops all processes after this update; ``None`` for no signal."""
        self.row: Mapping[str, float] = {}
        """Last row of training in the log."""
        self.rate = 0.0
        """Learning rate of the last update."""
        self._validate_model = validate
        self._log_path, self._previous, self._is_chief = log_path, previous, is_chief
        self._more_minutes, self._more_epochs, self._stop_after = more_minutes, more_epochs, stop_after
        self._began = time.perf_counter()

    def train(self) -> None:
        """Trains the model. Does nothing if the run is finished.

        Raises:
            Interrupted: SIGINT, SIGTERM or SIGHUP arrived; the state is saved. The next call repeats an interrupted
                validation.
            FloatingPointError: Updates are no longer finite. The last checkpoint is from an earlier step.
            ValueError: The checkpoint is damaged or does not fit the run, other processes restored another step, or
                ``TrainConfig.minutes`` is too short for one update.
            OSError: A file cannot be written. The last checkpoint is intact.
        """
        if not self._restore():
            return
        self._compile()
        try:
            with StopSignals() as self.signals:
                for callback in self.callbacks:
                    callback.on_train_begin(self)
                self._repeat_interrupted_validation()
                groups = self._groups()
                while self._continues():
                    self._update(*next(groups))
                    self._log_if_due()
                    for callback in self.callbacks:
                        callback.on_update_end(self)
                    self.agree_to_stop(due=self.step % STEPS_TO_AGREE == 0)
                    validates = self._validation_is_due() and self.stop_signal is None
                    if validates:
                        self._validate()
                    if validates or self.step % self.config.checkpoint_every == 0 or self.stop_signal is not None:
                        self.save("last")
        finally:
            for callback in self.callbacks:
                callback.on_train_end()
        self.report(f"trained for {float(self.progress.seconds) / 60.0:.1f} minutes, {self.step} steps")

    # Length of the training: updates, or seconds if TrainConfig.minutes is set

    @property
    def total_steps(self) -> int:
        """Number of updates of the training. If its length is in minutes, an estimate at the speed so far."""
        return round(self._steps_at_this_speed())

    def _share(self) -> float:
        """Returns the share of the training that is done, at most 1.

        If the length is in minutes, the time of the longest validation is left for the last one. The time of the
        compilation does not count.
        """
        if self.config.minutes is None:
            return min(1.0, self.step / self.total)
        whole = self.total - self.compilation - self.validation_seconds
        return min(1.0, (self._elapsed() - self.compilation) / whole) if whole > 0.0 else 1.0

    def _steps_at_this_speed(self) -> float:
        """Returns the number of updates of the training, estimated from those of the share that is done."""
        return self.total if self.config.minutes is None else self.step / max(self.share, 1e-9)

    def _elapsed(self) -> float:
        """Returns the seconds spent training, including those before the restored checkpoint."""
        return self._seconds_before + time.perf_counter() - self._began

    def _compile(self) -> None:
        """Compiles the update. Computes the length of the training unless the restored checkpoint contains it."""
        seconds = compile_and_time(self.updater, self.batches, self.report)
        if self.total:
            self._began = time.perf_counter()  # the minutes do not include compiling again
        else:
            self.compilation = self._elapsed()
            self.total = _length(self.config, self.batches, seconds, self.compilation)
        self.share = self._share()
        self.interval = LogInterval()
        if self.config.minutes is None:
            epochs = self.total * self.config.gradient_accumulation_steps / len(self.batches)
            self.report(f"training for {self.total:.0f} steps, {epochs:.2f} epochs of {len(self.batches)} batches")
        else:
            self.report(f"training for {self.total / 60.0:.1f} minutes, in epochs of {len(self.batches)} batches")

    def _continue_finished(self) -> bool:
        """Extends a finished training by ``more_minutes`` or ``more_epochs``. Returns ``False`` if neither is set.

        The schedules are stretched: the learning rate continues as if the run had had the new length from the
        beginning.
        """
        progress = self.progress
        seconds_per_step = float(progress.seconds) / max(1, self.step)
        if self._more_epochs is not None:
            steps = self._more_epochs * len(self.batches) / self.config.gradient_accumulation_steps
        elif self._more_minutes is not None:
            steps = 60.0 * self._more_minutes / seconds_per_step
        else:
            return False
        steps = max(1, round(steps))
        if self.config.minutes is None:
            self.total = float(self.step + steps)
        else:
            self.total = float(progress.seconds) + steps * seconds_per_step
        self.validations = int(self.config.validations * self.step / (self.step + steps))
        progress.stale.assign(0)
        progress.finished.assign(False)
        self.finished = False
        return True

    # Updates

    def _continues(self) -> bool:
        """Returns ``False`` at the end of training. Raises Interrupted if all processes stop for a signal."""
        stops = self.step == self._stop_after
        if stops:
            self.agree_to_stop(due=True)  # a signal may have arrived during the validation
        if self.stop_signal is not None:
            raise Interrupted(self.step, self.stop_signal)
        return self.share < 1.0 and not self.finished and not stops

    def _groups(self) -> Iterator[tuple[Position, list[Batch]]]:
        """Yields the batches of each update, with the position of the last one."""
        batches = self.batches.iterate(self.progress.position)
        while group := list(islice(batches, self.config.gradient_accumulation_steps)):
            yield group[-1][0], [batch for _, batch in group]

    def _update(self, position: Position, batches: list[Batch]) -> None:
        total_steps = self._steps_at_this_speed()
        self.rate = learning_rate(self.config, self.step, total_steps, self.reductions)
        sampling = sampling_probability(self.config, self.step, total_steps)
        self.metrics: Metrics = self.updater.update(batches, self.step, self.rate, sampling)
        self.step, self.position = self.step + 1, position
        self.share = self._share()
        self.interval.add(batches, self.metrics)

    def require_finite(self) -> None:
        """Raises FloatingPointError if training no longer has finite losses and gradients.

        This is the case after ``TrainConfig.max_skipped`` consecutive non-finite updates, or if an update was skipped
        and weights are not finite.
        """
        config, skipped = self.config, self.updater.skipped
        if not skipped.total.numpy():
            return
        longest = int(skipped.longest_row.numpy())
        broken = [variable.path for variable in self.updater.variables if not np.isfinite(variable.numpy()).all()]
        if longest < config.max_skipped and not broken:
            return
        loss, norm = float(self.metrics.loss.total), float(self.metrics.gradient_norm)
        weights = f" and non-finite weights in {broken[0]}" if broken else ""
        raise FloatingPointError(
            f"step {self.step}: expected a finite loss and gradient. Received: loss {loss}, gradient norm {norm}, "
            f"{longest} consecutive non-finite updates{weights}. Last checkpoint: "
            f"{newest(self.checkpoints.folder / 'last')}. Train in a new run directory with a lower "
            f"TrainConfig.learning_rate ({config.learning_rate} here) or TrainConfig.clip_norm ({config.clip_norm}), "
            f"with more TrainConfig.warmup_steps ({config.warmup_steps}), or with TrainConfig.precision float32 "
            f"({config.precision})."
        )

    def agree_to_stop(self, due: bool) -> None:
        """Sets ``stop_signal`` if a signal has arrived. Several processes exchange their signals only if ``due``."""
        if self.stop_signal is None:
            self.stop_signal = self.updater.replicas.agree_on_signal(self.signals.received, due)

    # Log

    def log(self, row: Mapping[str, float]) -> None:
        """Appends a row to the log and passes it to the callbacks."""
        if self._is_chief:
            self._log.append(row)
        for callback in self.callbacks:
            callback.on_log(row)

    def _log_if_due(self) -> None:
        """Logs a row every ``TrainConfig.log_every`` updates and after the last one. Reports skipped updates."""
        config = self.config
        due = self.step % config.log_every == 0 or self.share == 1.0
        if due or self.step % config.max_skipped == 0:
            self.require_finite()
        if not due:
            return
        interval, self.interval = self.interval, LogInterval()
        self.row = interval.row(self.step, self.position.epoch, self.rate, self.total_steps - self.step)
        self.log(self.row)
        if skipped := self.row["skipped"]:
            self.report(
                f"step {self.step}: skipped {skipped} of the last {len(interval.metrics)} updates because their loss "
                "or gradient was not finite"
            )

    # Validation

    def _validation_is_due(self) -> bool:
        """Returns ``True`` if fewer validations were made than belong to the share of the training that is done."""
        return self.validated < self.step and (self._validations() > self.validations or self.share == 1.0)

    def _validations(self) -> int:
        """Returns the number of validations that belong to the share of the training that is done."""
        return int(self.share * self.config.validations + 1e-9)  # 1e-9 because 3 * 0.1 is more than 0.3

    def _validate(self) -> None:
        """Validates the model and saves the best checkpoint. A signal interrupts a validation."""
        self.require_finite()
        began, progress = time.perf_counter(), self.progress
        with _averaged_weights(self.updater):
            scores = self.signals.unless_received(self._validate_model)
            self.agree_to_stop(due=True)
            if scores is not None and self.stop_signal is None:
                self.validation_seconds = max(self.validation_seconds, time.perf_counter() - began)
                self.share = self._share()
                seconds = round(self._elapsed(), 1)
                self.log({"step": self.step, "epoch": self.position.epoch, "seconds": seconds, **scores})
                described = ", ".join(f"{name} {value:.3f}" for name, value in scores.items())
                self.report(f"step {self.step}: {described}")
                self.validated, self.validations = self.step, self._validations()
                cost = scores["valid_loss"] if self.config.select_by == "loss" else -scores["valid_bleu"]
                cost = self.updater.replicas.mean_over_processes(cost)
                if progress.judge(cost, self.config, last=self.share == 1.0):
                    self.save("best")
        self.finished, self.reductions = bool(progress.finished), int(progress.reductions)
        self.interval.began += time.perf_counter() - began
        self.agree_to_stop(due=True)

    def _repeat_interrupted_validation(self) -> None:
        """Validates the restored model if a signal or a kill prevented its validation."""
        if self.step and self._validation_is_due():
            self._validate()
            if self.finished and self.stop_signal is None:
                self.save("last")  # no later checkpoint would store the validation's result

    # Checkpoints

    def save(self, name: str) -> None:
        """Saves a checkpoint named "last" or "best"."""
        self.require_finite()
        self.progress.advance(self.step, self.position)
        progress = self.progress
        progress.validated.assign(self.validated)
        progress.validations.assign(self.validations)
        progress.total.assign(self.total)
        progress.compilation.assign(self.compilation)
        progress.validation_seconds.assign(self.validation_seconds)
        progress.seconds.assign(self._elapsed())
        if self._is_chief:
            self.checkpoints.save(name)

    def _restore(self) -> bool:
        """Restores the last checkpoint, if there is one. Returns ``False`` if training is finished."""
        folder, progress, replicas = self.checkpoints.folder, self.progress, self.updater.replicas
        if self._is_chief:
            repair_indexes(folder, self._previous, self.report)
        replicas.wait_for_processes()  # other processes read the indexes after the chief has repaired them
        resumed = self.checkpoints.restore()
        self.step, self.total = int(progress.step), float(progress.total)
        self.validated, self.validations = int(progress.validated), int(progress.validations)
        self.compilation, self.validation_seconds = float(progress.compilation), float(progress.validation_seconds)
        if replicas.mean_over_processes(float(self.step)) != float(self.step):
            raise ValueError(
                f"{folder}: expected the same step in all processes. Received: step {self.step} here, "
                "another step elsewhere. Put the run directory on a disk that all workers share."
            )
        if math.isinf(replicas.mean_over_processes(float(progress.best))):
            progress.best.assign(math.inf)  # a slow disk may show the best checkpoint to some processes only
        self.finished, self.reductions = bool(progress.finished), int(progress.reductions)
        if self.finished and not self._continue_finished():
            return False
        self._seconds_before, following = float(progress.seconds), progress.position
        if resumed:
            self._began = time.perf_counter()
            self.share = self._share()
            self.report(f"resuming at step {self.step} of {self.total_steps}")
        if self._is_chief:
            self._log = Log(self._log_path, self.step, int(progress.validated))
        # position of the last batch seen; ``batch`` is -1 before the first batch
        self.position = following._replace(batch=following.batch - 1)
        return True


@contextmanager
def _averaged_weights(updater: Updater) -> Iterator[None]:
    """Assigns the optimizer's moving averages, if any, to the model. Restores the weights on exit."""
    if updater.config.ema_decay is None:
        yield
        return
    before = [variable.numpy() for variable in updater.variables]
    updater.optimizer.finalize_variable_values(updater.variables)
    try:
        yield
    finally:
        for variable, value in zip(updater.variables, before, strict=True):
            variable.assign(value)


def _length(config: TrainConfig, batches: BatchSource, seconds: Mapping[Bucket, float], spent: float) -> float:
    """Returns the length of a run: updates, or seconds if ``TrainConfig.minutes`` is set."""
    if config.steps is not None:
        return float(config.steps)
    if config.epochs is not None:
        return float(max(1, round(config.epochs * len(batches) / config.gradient_accumulation_steps)))
    counts = batches.bucket_counts(0)
    mean = sum(seconds[bucket] * count for bucket, count in counts.items()) / sum(counts.values())
    mean *= config.gradient_accumulation_steps
    assert config.minutes is not None
    if 60.0 * config.minutes < spent + mean:
        raise ValueError(
            f"TrainConfig.minutes: expected more than {(spent + mean) / 60.0:.1f} (the time for compiling and one "
            f"update), received {config.minutes}. Train for longer, with fewer TrainConfig.length_buckets, or on a GPU "
            "with TrainConfig.xla=False."
        )
    return 60.0 * config.minutes
