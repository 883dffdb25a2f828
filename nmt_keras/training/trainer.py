"""Trainer: restores the last checkpoint, plans the steps, makes updates and calls the callbacks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from nmt_keras.config import TrainConfig
from nmt_keras.corpus.batches import Batch, BatchSource, Bucket, Position
from nmt_keras.training.callbacks import (
    Callback,
    CheckpointCallback,
    LogCallback,
    StopCallback,
    ValidationCallback,
)
from nmt_keras.training.checkpoint_index import mend_records, newest
from nmt_keras.training.checkpoints import Checkpoints
from nmt_keras.training.log import Log, LogInterval
from nmt_keras.training.schedules import learning_rate, sampling_probability
from nmt_keras.training.signals import Interrupted, StopSignals
from nmt_keras.training.updater import Metrics, Updater

REPLANS = 0.05, 0.25, 0.5, 0.75
"""Shares of the training time after which the number of steps is planned again.

Each plan uses the speed since the last plan.
"""

SHARE_OF_TIME_FOR_STEPS = 0.92
"""Share of the remaining time that the first two plans use for updates. The rest is for validations, because the speed
behind these plans includes none."""


class Trainer:
    """Trains a model until all steps are made, the validation loss stops improving, or a signal arrives.

    A new Trainer resumes from the last checkpoint. On a CPU with the same number of threads and with
    ``RunOptions.deterministic``, the weights are bit-identical to those of an uninterrupted run.

    Args:
        updater: Updater of the model. The last checkpoint, if there is one, replaces the model's weights.
        batches: Batches of the training set.
        checkpoints: Checkpoints of the run. Their folder may be empty.
        log_path: Path of ``log.jsonl``.
        validate: Function that evaluates the model. It returns at least ``valid_loss``, in nats per token.
        report: Function that receives progress messages.
        callbacks: Additional callbacks, called between the log and the check for stop signals.
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
        self.callbacks = [
            LogCallback(),
            *callbacks,
            StopCallback(),
            ValidationCallback(validate),
            CheckpointCallback(),
        ]
        self.stop_signal: int | None = None
        """Signal that stops all processes after this update; ``None`` for no signal."""
        self.row: Mapping[str, float] = {}
        """Last row of training in the log."""
        self.rate = 0.0
        """Learning rate of the last update."""
        self.replanned = False
        """``True`` if the number of steps was planned again after the last update."""
        self._log_path, self._previous, self._is_chief = log_path, previous, is_chief
        self._more_minutes, self._more_epochs, self._stop_after = more_minutes, more_epochs, stop_after
        self._limit = math.inf if self.config.minutes is None else 60.0 * self.config.minutes  # seconds
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
        self._plan_steps()
        try:
            with StopSignals() as self.signals:
                for callback in self.callbacks:
                    callback.on_train_begin(self)
                groups = self._groups()
                while self._continues():
                    self._update(*next(groups))
                    self._replan_steps()
                    for callback in self.callbacks:
                        callback.on_update_end(self)
        finally:
            for callback in self.callbacks:
                callback.on_train_end()
        self.report(f"trained for {float(self.progress.seconds) / 60.0:.1f} minutes, {self.step} steps")

    @property
    def is_validation_step(self) -> bool:
        """``True`` if the model is validated after this step."""
        interval = math.ceil(self.schedule_steps / self.config.validations)
        # computed from positions in the schedules, so that a new plan neither repeats nor skips a validation
        here, next_ = (math.ceil(self._schedule_position(step) / interval) for step in (self.step, self.step + 1))
        return next_ > here or self.step == self.total_steps

    def log(self, row: Mapping[str, float]) -> None:
        """Appends a row to the log and passes it to the callbacks."""
        if self._is_chief:
            self._log.append(row)
        for callback in self.callbacks:
            callback.on_log(row)

    def save(self, name: str) -> None:
        """Saves a checkpoint named "last" or "best"."""
        progress = self.progress
        progress.advance(self.step, self.position)
        progress.total_steps.assign(self.total_steps)
        progress.replans.assign(self.replans)
        progress.plan_step.assign(self.plan_step)
        progress.plan_position.assign(self.plan_position)
        progress.schedule_steps.assign(self.schedule_steps)
        progress.seconds.assign(self._elapsed())
        if self._is_chief:
            self.checkpoints.save(name)

    def agree_to_stop(self, due: bool) -> None:
        """Sets ``stop_signal`` if a signal has arrived. Several processes exchange their signals only if ``due``."""
        if self.stop_signal is None:
            self.stop_signal = self.updater.replicas.agree_on_signal(self.signals.received, due)

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

    def _restore(self) -> bool:
        """Restores the last checkpoint, if there is one. Returns ``False`` if training is finished."""
        folder, progress, replicas = self.checkpoints.folder, self.progress, self.updater.replicas
        if self._is_chief:
            mend_records(folder, self._previous, self.report)
        replicas.wait_for_processes()  # other processes read the indexes after the chief has repaired them
        resumed = self.checkpoints.restore()
        self.step, self.total_steps, self.replans = int(progress.step), int(progress.total_steps), int(progress.replans)
        self.plan_step, self.plan_position = int(progress.plan_step), float(progress.plan_position)
        self.schedule_steps = int(progress.schedule_steps)
        if replicas.mean_over_processes(float(self.step)) != float(self.step):
            raise ValueError(
                f"{folder}: expected the same step in all processes. Received: step {self.step} here, "
                "another step elsewhere. Put the run directory on a disk that all workers share."
            )
        if math.isinf(replicas.mean_over_processes(float(progress.best))):
            progress.best.assign(math.inf)  # a slow disk may show the best checkpoint to some processes only
        # copied to Python values for the loop, because reading a variable waits for the device
        self.finished, self.reductions = bool(progress.finished), int(progress.reductions)
        if self.finished and not self._continue_finished():
            return False
        if resumed:
            self.report(f"resuming at step {self.step} of {self.total_steps}")
        if self._is_chief:
            self._log = Log(self._log_path, self.step, int(progress.validated))
        self._seconds_before, following = float(progress.seconds), progress.position
        # position of the last batch seen; ``batch`` is -1 before the first batch
        self.position = following._replace(batch=following.batch - 1)
        return True

    def _continue_finished(self) -> bool:
        """Extends a finished training by ``more_minutes`` or ``more_epochs``. Returns ``False`` if neither is set.

        The schedules are stretched: the learning rate continues as if the run had been planned with the new number of
        steps from the beginning.
        """
        progress = self.progress
        if self._more_epochs is not None:
            steps = self._more_epochs * len(self.batches) / self.config.gradient_accumulation_steps
        elif self._more_minutes is not None:
            steps = 60.0 * self._more_minutes * self.step / float(progress.seconds)
        else:
            return False
        self.total_steps = self.schedule_steps = self.step + max(1, round(steps))
        self.plan_step, self.plan_position, self.replans = 0, 0.0, len(REPLANS)
        progress.stale.assign(0)
        progress.finished.assign(False)
        self.finished = False
        return True

    def _plan_steps(self) -> None:
        """Compiles the update. Plans the number of steps, unless the restored checkpoint contains it."""
        seconds = self.updater.compile_and_time(self.batches, self.report)
        if self.total_steps:
            self._began = time.perf_counter()  # the minutes do not include compiling again
        else:
            self.total_steps = _count_steps(self.config, self.batches, seconds, self._elapsed())
            self.schedule_steps = self.total_steps
        self._report_steps()
        self.interval = LogInterval()
        self._measure_speed()

    def _measure_speed(self) -> None:
        """Starts to measure the speed for the next plan, and sets the time of that plan.

        The plan is made at the next share of ``REPLANS`` or after 5 % of the remaining time, whichever is later. For
        example, compiling can take longer than the share.
        """
        elapsed = self._elapsed()
        share = REPLANS[self.replans] if self.replans < len(REPLANS) else math.inf
        self._measured_from = self.step, elapsed
        self._replan_at = max(share * self._limit, elapsed + REPLANS[0] * (self._limit - elapsed))

    def _replan_steps(self) -> None:
        """Plans the number of steps again if the time of the next plan has come.

        The schedules continue from their current position, faster or slower, and end at the new last step.
        """
        self.replanned = self._elapsed() >= self._replan_at
        if not self.replanned:
            return
        np.asarray(self.metrics.loss.total)  # waits for the updates
        (step, began), elapsed = self._measured_from, self._elapsed()
        left = (self._limit - elapsed) * (1.0 if self.replans else SHARE_OF_TIME_FOR_STEPS)
        total_steps = self.step + max(0, round(left * (self.step - step) / (elapsed - began)))
        self.replans = sum(elapsed >= share * self._limit for share in REPLANS)
        if total_steps != self.total_steps:
            self.plan_step, self.plan_position = self.step, self._schedule_position(self.step)
            self.total_steps = total_steps
            self._report_steps()
        self._measure_speed()

    def _schedule_position(self, step: int) -> float:
        """Returns the position of ``step`` in the schedules. It equals ``step`` until the steps are planned again."""
        pace = (self.schedule_steps - self.plan_position) / max(1, self.total_steps - self.plan_step)
        return min(self.plan_position + pace * (step - self.plan_step), self.schedule_steps)  # despite rounding

    def _elapsed(self) -> float:
        """Returns the seconds spent training, including those before the restored checkpoint."""
        return self._seconds_before + time.perf_counter() - self._began

    def _report_steps(self) -> None:
        epochs = self.total_steps * self.config.gradient_accumulation_steps / len(self.batches)
        self.report(f"training for {self.total_steps} steps, {epochs:.2f} epochs of {len(self.batches)} batches")

    def _continues(self) -> bool:
        """Returns ``False`` at the end of training. Raises Interrupted if all processes stop for a signal."""
        stops = self.step == self._stop_after
        if stops:
            self.agree_to_stop(due=True)  # a signal may have arrived during the validation
        if self.stop_signal is not None:
            raise Interrupted(self.step, self.stop_signal)
        return self.step < self.total_steps and not self.finished and not stops

    def _groups(self) -> Iterator[tuple[Position, list[Batch]]]:
        """Yields the batches of each update, with the position of the last one."""
        batches = self.batches.iterate(self.progress.position)
        while group := list(islice(batches, self.config.gradient_accumulation_steps)):
            yield group[-1][0], [batch for _, batch in group]

    def _update(self, position: Position, batches: list[Batch]) -> None:
        at, of = self._schedule_position(self.step), self.schedule_steps
        self.rate = learning_rate(self.config, at, of, self.reductions)
        sampling = sampling_probability(self.config, at, of)
        self.metrics: Metrics = self.updater.update(batches, self.step, self.rate, sampling)
        self.step, self.position = self.step + 1, position
        self.interval.add(batches, self.metrics)


def _count_steps(config: TrainConfig, batches: BatchSource, seconds: Mapping[Bucket, float], spent: float) -> int:
    """Returns the number of updates of a run, from ``TrainConfig.steps``, ``epochs`` or the remaining ``minutes``."""
    if config.steps is not None:
        return config.steps
    if config.epochs is not None:
        return max(1, round(config.epochs * len(batches) / config.gradient_accumulation_steps))
    counts = batches.bucket_counts(0)
    mean = sum(seconds[bucket] * count for bucket, count in counts.items()) / sum(counts.values())
    mean *= config.gradient_accumulation_steps
    assert config.minutes is not None
    steps = int((60.0 * config.minutes - spent) * SHARE_OF_TIME_FOR_STEPS / mean)
    if steps < 1:
        raise ValueError(
            f"TrainConfig.minutes: expected more than {(spent + mean) / 60.0:.1f} (the time for compiling and one "
            f"update), received {config.minutes}. Train for longer, with fewer TrainConfig.length_buckets, or on a GPU "
            "with TrainConfig.xla=False."
        )
    return steps
