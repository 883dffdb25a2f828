"""Trainer: restores the last checkpoint, makes updates, logs, validates and saves."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from nmt_keras.config import TrainConfig, require
from nmt_keras.corpus.batches import Batch, BatchSource, Bucket, Position
from nmt_keras.training.checkpoints import Checkpoints, checkpoints_in, set_damaged_aside
from nmt_keras.training.compiling import compile_and_time
from nmt_keras.training.log import Log, LogInterval
from nmt_keras.training.progress import Progress
from nmt_keras.training.schedules import learning_rate, sampling_probability
from nmt_keras.training.signals import Interrupted, StopSignals
from nmt_keras.training.updater import Metrics, Updater

STEPS_TO_AGREE = 5
"""Number of updates between two exchanges of stop signals among several processes."""


class Callback:
    """Base class of callbacks, which a :class:`Trainer` calls in order."""

    def on_update_end(self, trainer: "Trainer") -> None:
        """Called after each update, before a validation."""

    def on_log(self, row: Mapping[str, float]) -> None:
        """Called with each new row of the log.

        If the row has ``valid_loss``, it comes from a validation, and the model still has the validated weights.
        """

    def on_train_end(self) -> None:
        """Called at the end of training, also after a signal or an error."""


Show = Callable[[int, int, Mapping[str, float]], None]
"""Function called after each update with the step, the number of steps, and the last training row of the log, which is
empty at first."""


class Trainer:
    """Trains a model until all steps are made, validations stop improving, or a signal arrives.

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
        report: Function that receives messages for the user.
        show: Function that shows the progress after each update.
        callbacks: Additional callbacks.
        more_minutes, more_epochs: Minutes or epochs to add to a finished run; see ``RunOptions``.
        previous: If ``True``, sets damaged checkpoints aside and resumes from the newest intact checkpoint.
        stop_after: Step after which training stops, without being finished; ``None`` for no such step.
        is_chief: If ``False``, this process writes no files. All processes make the same calls.

    Raises:
        ValueError: ``TrainConfig.minutes`` is set for several processes.
    """

    def __init__(
        self,
        updater: Updater,
        batches: BatchSource,
        checkpoints: Checkpoints,
        log_path: Path,
        validate: Callable[[], Mapping[str, float]],
        report: Callable[[str], None],
        show: Show,
        callbacks: Sequence[Callback] = (),
        *,
        more_minutes: float | None = None,
        more_epochs: float | None = None,
        previous: bool = False,
        stop_after: int | None = None,
        is_chief: bool = True,
    ):
        self.updater, self.batches, self.checkpoints = updater, batches, checkpoints
        self.config, self.report, self.show, self.callbacks = updater.config, report, show, callbacks
        self.progress = Progress()
        self.share = 0.0
        """Share of the training that is done, 0 to 1."""
        self.row: Mapping[str, float] = {}
        """Last row of training in the log."""
        self.rate = 0.0
        """Learning rate of the last update."""
        self.stop_signal: int | None = None
        """Signal that stops all processes after this update; ``None`` for no signal."""
        self._validate_model, self._log_path, self._previous = validate, log_path, previous
        self._more_minutes, self._more_epochs = more_minutes, more_epochs
        self._stop_after, self._is_chief = stop_after, is_chief
        self._began = time.perf_counter()
        require(
            self.config.minutes is None or not updater.replicas.several_processes,
            "TrainConfig.minutes",
            "None if several workers train",
            self.config.minutes,
            "Each worker would plan a different number of steps. Set TrainConfig.steps or TrainConfig.epochs instead.",
        )

    def train(self) -> None:
        """Trains the model. Does nothing if the run is finished and not extended.

        Raises:
            Interrupted: SIGINT, SIGTERM or SIGHUP arrived; the state is saved.
            FloatingPointError: Updates are no longer finite. The last checkpoint is from an earlier step.
            ValueError: The checkpoint is damaged or does not fit the run, other processes restored another step, or
                ``TrainConfig.minutes`` is too short for one update.
            OSError: A file cannot be written. The last checkpoint is intact.
        """
        self._restore()
        if self.progress.finished:
            return
        self._compile()
        groups = self._groups()
        try:
            with StopSignals() as signals:
                while self._continues():
                    self._update(*next(groups))
                    self._log_if_due()
                    self.show(self.progress.step, self.total_steps, self.row)
                    for callback in self.callbacks:
                        callback.on_update_end(self)
                    validates = self._validations() > self.progress.validations or self.share == 1.0
                    if validates:
                        self._validate()
                    agrees = validates or self.progress.step % STEPS_TO_AGREE == 0
                    self.stop_signal = self.updater.replicas.agree_on_signal(signals.received, agrees)
                    is_due = self.progress.step % self.config.checkpoint_every == 0 or self._is_at_stop()
                    if validates or is_due or self.stop_signal is not None:
                        self._save("last")
        finally:
            for callback in self.callbacks:
                callback.on_train_end()
        self.report(f"trained for {self.progress.seconds / 60.0:.1f} minutes, {self.progress.step} steps")

    # Length of the training: updates, or seconds if TrainConfig.minutes is set

    @property
    def total_steps(self) -> int:
        """Number of updates of the training. If its length is in minutes, an estimate at the speed so far."""
        return round(self._steps_at_this_speed())

    def _steps_at_this_speed(self) -> float:
        """Returns the number of updates of the training, estimated from those of the share that is done."""
        return self.progress.total if self.config.minutes is None else self.progress.step / max(self.share, 1e-9)

    def _note_time(self) -> None:
        """Computes the seconds spent training, and the share of the training that is done.

        If the length is in minutes, the time of the longest validation is left for the last one. The time of the
        compilation does not count.
        """
        progress = self.progress
        progress.seconds = self._seconds_before + time.perf_counter() - self._began
        if self.config.minutes is None:
            self.share = min(1.0, progress.step / progress.total)
        else:
            whole = progress.total - progress.compilation - progress.validation_seconds
            self.share = min(1.0, (progress.seconds - progress.compilation) / whole) if whole > 0.0 else 1.0

    def _compile(self) -> None:
        """Compiles the update. Computes the length of the training unless the restored checkpoint contains it."""
        seconds, progress = compile_and_time(self.updater, self.batches, self.report), self.progress
        if progress.total:
            self._began = time.perf_counter()  # the minutes do not include compiling again
        else:
            progress.compilation = self._seconds_before + time.perf_counter() - self._began
            progress.total = _length(self.config, self.batches, seconds, progress.compilation)
        self._note_time()
        self.interval = LogInterval()
        if self.config.minutes is None:
            epochs = progress.total * self.config.gradient_accumulation_steps / len(self.batches)
            self.report(f"training for {progress.total:.0f} steps, {epochs:.2f} epochs of {len(self.batches)} batches")
        else:
            minutes, spent = progress.total / 60.0, progress.compilation / 60.0
            span = f"{minutes:.1f} minutes, {spent:.1f} of them for compilation"
            self.report(f"training for {span}, in epochs of {len(self.batches)} batches")

    def _more_updates(self) -> int:
        """Returns the number of updates to add to a finished run. Minutes are converted at the run's mean speed.

        Raises:
            ValueError: the minutes are shorter than a validation, which they include.
        """
        updates = 0.0
        if self._more_epochs is not None:
            updates = self._more_epochs * len(self.batches) / self.config.gradient_accumulation_steps
        elif self._more_minutes is not None:
            shortest = self.progress.validation_seconds if self.config.minutes is not None else 0.0
            require(
                60.0 * self._more_minutes > shortest,
                "RunOptions.more_minutes",
                f"more than {shortest / 60.0:.2f} (the time of a validation)",
                self._more_minutes,
            )
            updates = 60.0 * self._more_minutes * self.progress.step / self.progress.seconds
        return math.ceil(updates)

    # Updates

    def _continues(self) -> bool:
        """Returns ``False`` at the end of training. Raises Interrupted if all processes stop for a signal."""
        if self.stop_signal is not None:
            raise Interrupted(self.progress.step, self.stop_signal)
        return self.share < 1.0 and not self.progress.finished and not self._is_at_stop()

    def _is_at_stop(self) -> bool:
        return self._stop_after is not None and self.progress.step >= self._stop_after

    def _groups(self) -> Iterator[tuple[Position, list[Batch]]]:
        """Yields the batches of each update, with the position of the last one."""
        batches = self.batches.iterate(self.progress.position)
        while group := list(islice(batches, self.config.gradient_accumulation_steps)):
            yield group[-1][0], [batch for _, batch in group]

    def _update(self, position: Position, batches: list[Batch]) -> None:
        """Makes an update with ``batches``. ``position`` is that of the last one."""
        progress, total_steps = self.progress, self._steps_at_this_speed()
        self.rate = learning_rate(self.config, progress.step, total_steps)
        sampling = sampling_probability(self.config, progress.step, total_steps)
        self.metrics: Metrics = self.updater.train_step(batches, progress.step, self.rate, sampling)
        progress.step += 1
        progress.position = position._replace(batch=position.batch + 1)
        self._note_time()
        self.interval.add(batches, self.metrics)

    def _require_finite(self) -> None:
        """Raises FloatingPointError if training no longer has finite losses and gradients.

        This is the case after ``TrainConfig.max_skipped`` consecutive non-finite updates, or if an update was skipped
        and weights are not finite.
        """
        config, stability = self.config, self.updater.stability
        if not stability.skipped.numpy():
            return
        longest = int(stability.longest_row.numpy())
        broken = [variable.path for variable in self.updater.variables if not np.isfinite(variable.numpy()).all()]
        if longest < config.max_skipped and not broken:
            return
        loss, norm = float(self.metrics.loss.total), float(self.metrics.gradient_norm)
        weights = f" and non-finite weights in {broken[0]}" if broken else ""
        saved = checkpoints_in(self.checkpoints.folder / "last")
        raise FloatingPointError(
            f"step {self.progress.step}: expected a finite loss and gradient, received loss {loss}, gradient norm "
            f"{norm}, {longest} consecutive non-finite updates{weights}. Last checkpoint: "
            f"{saved[-1] if saved else None}. Train in a new run directory with a lower "
            f"TrainConfig.learning_rate ({config.learning_rate} here) or TrainConfig.clip_norm ({config.clip_norm}), "
            f"with more TrainConfig.warmup_steps ({config.warmup_steps}), or with TrainConfig.precision float32 "
            f"({config.precision})."
        )

    # Log

    def _log(self, row: Mapping[str, float]) -> None:
        """Appends a row to the log and passes it to the callbacks."""
        if self._is_chief:
            self._file.append(row)
        for callback in self.callbacks:
            callback.on_log(row)

    def _log_if_due(self) -> None:
        """Logs a row every ``TrainConfig.log_every`` updates and after the last one. Reports skipped updates."""
        config, step = self.config, self.progress.step
        due = step % config.log_every == 0 or self.share == 1.0
        if due or step % config.max_skipped == 0:
            self._require_finite()
        if not due:
            return
        interval, self.interval = self.interval, LogInterval()
        self.row = interval.row(step, self.progress.position.epoch, self.rate, self.total_steps - step)
        self._log(self.row)
        if skipped := self.row["skipped"]:
            self.report(
                f"step {step}: skipped {skipped} of the last {len(interval.metrics)} updates because their loss "
                "or gradient was not finite"
            )

    # Validation and checkpoints

    def _validations(self) -> int:
        """Returns the number of validations that belong to the share of the training that is done."""
        return int(self.share * self.config.validations + 1e-9)  # 1e-9 because 3 * 0.1 is more than 0.3

    def _validate(self) -> None:
        """Validates the model and saves the best checkpoint."""
        self._require_finite()
        began, progress = time.perf_counter(), self.progress
        scores = self._validate_model()
        progress.validation_seconds = max(progress.validation_seconds, time.perf_counter() - began)
        self._note_time()
        seconds = round(progress.seconds, 1)
        self._log({"step": progress.step, "epoch": progress.position.epoch, "seconds": seconds, **scores})
        self.report(f"step {progress.step}: {', '.join(f'{name} {value:.3f}' for name, value in scores.items())}")
        progress.validations = self._validations()
        cost = scores["valid_loss"] if self.config.select_by == "loss" else -scores["valid_bleu"]
        cost = self.updater.replicas.mean_over_processes(cost)
        if progress.record_validation(cost, self.config, last=self.share == 1.0):
            self._save("best")
        self.interval.began += time.perf_counter() - began

    def _save(self, name: str) -> None:
        """Saves a checkpoint named "last" or "best"."""
        self._require_finite()
        if self._is_chief:
            self.checkpoints.save(name, self.progress)

    def _restore(self) -> None:
        """Restores the last checkpoint, if there is one, and opens the log."""
        folder, replicas = self.checkpoints.folder, self.updater.replicas
        if self._is_chief and self._previous:
            set_damaged_aside(folder, self.report)
        replicas.wait_for_processes()  # other processes read the checkpoints after the chief has set them aside
        restored = self.checkpoints.restore()
        progress = self.progress = restored or self.progress
        require(
            replicas.mean_over_processes(float(progress.step)) == float(progress.step),
            str(folder),
            "the same step in all processes",
            f"step {progress.step} here, another step elsewhere",
            "Put the run directory on a disk that all workers share.",
        )
        if math.isinf(replicas.mean_over_processes(progress.best)):
            progress.best = math.inf  # a slow disk may show the best checkpoint to some processes only
        self._seconds_before = progress.seconds
        if progress.finished and (updates := self._more_updates()):
            progress.extend(updates, self.config)
        elif not progress.finished and (self._more_epochs or self._more_minutes):
            self.report("the run is not finished, so nothing is added to its length")
        if progress.finished:
            return
        if restored:
            self._began = time.perf_counter()
            self._note_time()
            self.report(f"resuming at step {progress.step} of {self.total_steps}")
        if self._is_chief:
            self._file = Log(self._log_path, progress.step)


def _length(config: TrainConfig, batches: BatchSource, seconds: Mapping[Bucket, float], spent: float) -> float:
    """Returns the length of a run: updates, or seconds if ``TrainConfig.minutes`` is set."""
    if config.steps is not None:
        return float(config.steps)
    if config.epochs is not None:
        return float(max(1, round(config.epochs * len(batches) / config.gradient_accumulation_steps)))
    counts = batches.bucket_counts(0)
    mean = sum(seconds[bucket] * count for bucket, count in counts.items()) / sum(counts.values())
    assert config.minutes is not None
    require(
        60.0 * config.minutes >= spent + mean,
        "TrainConfig.minutes",
        f"more than {(spent + mean) / 60.0:.1f} (the time for compiling and one update)",
        config.minutes,
        "Train for longer, with fewer length_buckets, or on a GPU with XLA_FLAGS=--xla_gpu_autotune_level=0.",
    )
    return 60.0 * config.minutes
