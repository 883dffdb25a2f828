"""Trainer: restores the last checkpoint, makes updates, logs, validates and saves."""

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import keras
import numpy as np

from nmt_keras.config import RunOptions, TrainConfig, require
from nmt_keras.corpus.batches import Batch, BatchSource, Position
from nmt_keras.training.checkpoints import Checkpoints, checkpoints_in, set_damaged_aside
from nmt_keras.training.compiling import compile_updates
from nmt_keras.training.log import Log, LogInterval
from nmt_keras.training.progress import Progress
from nmt_keras.training.schedules import learning_rate, sampling_probability
from nmt_keras.training.signals import Interrupted, StopSignals
from nmt_keras.training.updater import Metrics, Updater

FEW_UPDATES = 200
"""Number of updates below which a training in minutes ends with a warning."""

STEPS_TO_AGREE = 5
"""Number of updates between two exchanges of stop requests among several processes."""

Show = Callable[[int, int, Mapping[str, float]], None]
"""Function called after each update with the step, the number of steps, and the last training row of the log, which is
empty at first."""


class Trainer:
    """Trains a model until all steps are made, validations stop improving, or a signal or a callback stops it.

    A new Trainer resumes from the last checkpoint. On a CPU with the same number of threads and with
    ``RunOptions.deterministic``, the weights are bit-identical to those of an uninterrupted run, unless the length of
    the training is given in minutes.

    Callbacks are Keras's. An epoch of a callback ends with a validation, so it can be shorter or longer than an epoch
    of the training set. Batches are counted over the whole training, a resumed one included:

    on_train_begin()              after the compilation
    on_epoch_begin(epoch)         at the start, and after each validation but the last
    on_train_batch_begin(batch)   before update number ``batch``, from 0
    on_train_batch_end(batch, logs)
                                  after the update, with the last training row of the log; empty at first
    on_test_begin()               before a validation
    on_test_end(logs)             after it, with its row of the log; the model has the validated weights
    on_epoch_end(epoch, logs)     then, with the last training row, ``val_loss`` and the other validation scores
    on_train_end(logs)            at the end, also after a signal or an error, with the logs of the last epoch

    ``model.stop_training = True`` ends training after the update, with a checkpoint from which the next call continues.
    Callbacks cannot change the learning rate, which the schedule sets: ``model.optimizer`` is ``None``.

    Args:
        updater: Updater of the model. The last checkpoint, if there is one, replaces the model's weights.
        batches: Batches of the training set.
        checkpoints: Checkpoints of the run. Their folder may be empty.
        log_path: Path of ``log.jsonl``.
        validate: Function that evaluates the model. It returns at least ``valid_loss``, in nats per token, and
            ``valid_bleu`` if ``TrainConfig.select_by`` is "bleu".
        report: Function that receives messages for the user.
        show: Function that shows the progress after each update.
        callbacks: Callbacks of the user.
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
        callbacks: Sequence[keras.callbacks.Callback] = (),
        *,
        is_chief: bool = True,
    ):
        self.updater, self.batches, self.checkpoints, self.log_path = updater, batches, checkpoints, log_path
        self.validate, self.report, self.show, self.callbacks = validate, report, show, callbacks
        self.config, self.is_chief = updater.config, is_chief
        require(
            self.config.minutes is None or not updater.replicas.several_processes,
            "TrainConfig.minutes",
            "None if several workers train",
            self.config.minutes,
            "Each worker would plan a different number of steps. Set TrainConfig.steps or TrainConfig.epochs instead.",
        )

    def train(self, options: RunOptions, stop_after: int | None = None) -> Progress:
        """Trains the model. Does nothing if the run is finished and not extended.

        Args:
            options: ``more_minutes`` and ``more_epochs`` extend a finished run. With ``previous``, damaged checkpoints
                are set aside.
            stop_after: Step after which training stops, without being finished; ``None`` for no such step.

        Returns:
            Progress at the end. ``finished`` is ``False`` if training stopped before its end.

        Raises:
            Interrupted: SIGINT, SIGTERM or SIGHUP arrived; the state is saved.
            FloatingPointError: Updates are no longer finite. The last checkpoint is from an earlier step.
            ValueError: The checkpoint is damaged or does not fit the run, other processes restored another step, or
                ``TrainConfig.minutes`` is too short for one update.
            OSError: A file cannot be written. The last checkpoint is intact.
        """
        began = time.perf_counter()
        progress = self._restore(options)
        if progress.finished:
            return progress
        append = Log(self.log_path, progress.step).append if self.is_chief else lambda _: None
        began = self._compile(progress, began)
        config, model, replicas = self.config, self.updater.model, self.updater.replicas
        last_step = math.inf if stop_after is None else stop_after
        row, logs = dict[str, float](), dict[str, float]()
        interval, updates, validates = LogInterval(), self._updates(progress.position), True
        callbacks = keras.callbacks.CallbackList(
            list(self.callbacks), model=model, verbose=1, epochs=config.validations, steps=None
        )
        model.stop_training, model.optimizer = False, getattr(model, "optimizer", None)  # as callbacks expect
        callbacks.on_train_begin()
        try:
            with StopSignals() as signals:
                while progress.step < last_step and not progress.finished and progress.share(config) < 1.0:
                    if validates:
                        epoch = progress.validations
                        callbacks.on_epoch_begin(epoch)
                    callbacks.on_train_batch_begin(progress.step)

                    progress.position, batches = next(updates)
                    metrics, rate = self._update(progress, batches)
                    progress.seconds = time.perf_counter() - began
                    interval.add(batches, metrics)

                    is_last, total = progress.share(config) == 1.0, round(progress.total_steps(config))
                    validates = is_last or progress.validations_due(config) > progress.validations
                    logged = is_last or progress.step % config.log_every == 0
                    if logged or validates or progress.step % config.max_skipped == 0:
                        self._require_finite(progress.step, metrics)
                    if logged:
                        full, interval = interval, LogInterval()
                        row = full.row(progress.step, progress.position.epoch, rate, total - progress.step)
                        append(row)
                        if skipped := row["skipped"]:
                            self.report(
                                f"step {progress.step}: skipped {skipped} of the last {len(full.metrics)} updates "
                                "because their loss or gradient was not finite"
                            )
                    self.show(progress.step, total, row)
                    callbacks.on_train_batch_end(progress.step - 1, _logs(row))

                    if validates:
                        started = time.perf_counter()
                        callbacks.on_test_begin()
                        scores = self._validate(progress, began, append)
                        callbacks.on_test_end(scores)
                        logs = _logs({**row, **scores})
                        callbacks.on_epoch_end(epoch, logs)
                        interval.began += time.perf_counter() - started

                    agrees = validates or progress.step % STEPS_TO_AGREE == 0 or not replicas.several_processes
                    interrupted = agrees and replicas.any_process(signals.received is not None)
                    if agrees and replicas.any_process(model.stop_training):
                        last_step = progress.step
                    is_due = progress.step % config.checkpoint_every == 0 or progress.step >= last_step
                    if validates or interrupted or is_due:
                        self._require_finite(progress.step, metrics)
                        if self.is_chief:
                            self.checkpoints.save("last", progress)
                        replicas.wait_for_processes()  # one that ended before the chief saved could not resume with it
                    if interrupted:
                        raise Interrupted(progress.step, signals.received or signal.SIGTERM)
        finally:
            callbacks.on_train_end(logs)
        self.report(f"trained for {progress.seconds / 60.0:.1f} minutes, {progress.step} steps")
        if config.minutes is not None and progress.finished and progress.step < FEW_UPDATES:
            self.report(
                f"Warning: {progress.step} updates are too few for useful translations; {FEW_UPDATES} are a beginning. "
                f"Continue with --more-minutes, for example {10 * math.ceil(progress.total / 60.0)}."
            )
        return progress

    def _restore(self, options: RunOptions) -> Progress:
        """Restores the last checkpoint, if there is one, and extends a finished run if ``options`` ask for it."""
        folder, replicas = self.checkpoints.folder, self.updater.replicas
        if self.is_chief and options.previous:
            set_damaged_aside(folder, self.report)
        replicas.wait_for_processes()  # other processes read the checkpoints after the chief has set them aside
        restored = self.checkpoints.restore()
        progress = restored or Progress()
        require(
            replicas.mean_over_processes(float(progress.step)) == float(progress.step),
            str(folder),
            "the same step in all processes",
            f"step {progress.step} here, another step elsewhere",
            "Put the run directory on a disk that all workers share.",
        )
        if math.isinf(replicas.mean_over_processes(progress.best)):
            progress.best = math.inf  # a slow disk may show the best checkpoint to some processes only
        if options.extends and not progress.finished:
            self.report("the run is not finished, so nothing is added to its length")
        elif options.extends:
            progress.extend(self._more_updates(progress, options), self.config)
        if restored and not progress.finished:
            self.report(f"resuming at step {progress.step} of {round(progress.total_steps(self.config))}")
        return progress

    def _more_updates(self, progress: Progress, options: RunOptions) -> int:
        """Returns the number of updates to add to a finished run. Minutes are converted at the run's mean speed.

        Raises:
            ValueError: the minutes are shorter than a validation, which they include.
        """
        if options.more_minutes is None:
            return math.ceil((options.more_epochs or 0.0) * len(self.batches) / self.config.gradient_accumulation_steps)
        shortest = progress.validation_seconds if self.config.minutes is not None else 0.0
        require(
            60.0 * options.more_minutes > shortest,
            "RunOptions.more_minutes",
            f"more than {shortest / 60.0:.2f} (the time of a validation)",
            options.more_minutes,
        )
        return math.ceil((60.0 * options.more_minutes - shortest) * progress.step / progress.seconds)

    def _compile(self, progress: Progress, began: float) -> float:
        """Compiles the update. Computes the length of the training unless the restored checkpoint contains it.

        Returns:
            Time at which training would have begun if it had not been interrupted.
        """
        config, within = self.config, math.inf
        if config.minutes is not None and not progress.total:
            within = 60.0 * config.minutes - (time.perf_counter() - began)
        compile_updates(self.updater, self.batches, self.report, within)
        if progress.total:
            began = time.perf_counter() - progress.seconds  # the minutes do not include compiling again
        else:
            progress.seconds = progress.compilation = time.perf_counter() - began
            progress.total = _length(config, self.batches)
        if config.minutes is None:
            epochs = progress.total * config.gradient_accumulation_steps / len(self.batches)
            length = f"{progress.total:.0f} steps, {epochs:.2f} epochs of {len(self.batches)} batches"
        else:
            minutes, spent = (f"{part / 60.0:.1f}" for part in (progress.total, progress.compilation))
            length = f"{minutes} minutes, {spent} of them for compilation, in epochs of {len(self.batches)} batches"
        self.report(f"training for {length}")
        return began

    def _updates(self, position: Position) -> Iterator[tuple[Position, list[Batch]]]:
        """Yields the batches of each update, with the position after them."""
        batches = self.batches.iterate(position)
        while group := list(islice(batches, self.config.gradient_accumulation_steps)):
            last = group[-1][0]
            yield last._replace(batch=last.batch + 1), [batch for _, batch in group]

    def _update(self, progress: Progress, batches: list[Batch]) -> tuple[Metrics, float]:
        """Makes an update with ``batches``. Returns its metrics and its learning rate."""
        step, total_steps = progress.step, progress.total_steps(self.config)
        rate = learning_rate(self.config, step, total_steps)
        sampling = sampling_probability(self.config, step, total_steps)
        progress.step += 1
        return self.updater.train_step(batches, step, rate, sampling), rate

    def _require_finite(self, step: int, metrics: Metrics) -> None:
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
        loss, norm = float(metrics.loss.total), float(metrics.gradient_norm)
        weights = f" and non-finite weights in {broken[0]}" if broken else ""
        saved = checkpoints_in(self.checkpoints.folder / "last")
        raise FloatingPointError(
            f"step {step}: expected a finite loss and gradient, received loss {loss}, gradient norm "
            f"{norm}, {longest} consecutive non-finite updates{weights}. Last checkpoint: "
            f"{saved[-1] if saved else None}. Train in a new run directory with a lower "
            f"TrainConfig.learning_rate ({config.learning_rate} here) or TrainConfig.clip_norm ({config.clip_norm}), "
            f"with more TrainConfig.warmup_steps ({config.warmup_steps}), or with TrainConfig.precision float32 "
            f"({config.precision})."
        )

    def _validate(
        self, progress: Progress, began: float, append: Callable[[Mapping[str, float]], None]
    ) -> Mapping[str, float]:
        """Validates the model and saves the best checkpoint. Returns the row of the log."""
        config, started = self.config, time.perf_counter()
        scores = self.validate()
        now = time.perf_counter()
        progress.seconds = now - began
        progress.validation_seconds = max(progress.validation_seconds, now - started)
        row = {
            "step": progress.step,
            "epoch": progress.position.epoch,
            "seconds": round(progress.seconds, 1),
            **scores,
        }
        append(row)
        self.report(f"step {progress.step}: {', '.join(f'{name} {value:.3f}' for name, value in scores.items())}")
        progress.validations = progress.validations_due(config)
        cost = scores["valid_loss"] if config.select_by == "loss" else -scores["valid_bleu"]
        mean_cost, last = self.updater.replicas.mean_over_processes(cost), progress.share(config) == 1.0
        if progress.record_validation(mean_cost, config, last=last) and self.is_chief:
            self.checkpoints.save("best", progress)
        return row


def _logs(row: Mapping[str, float]) -> dict[str, float]:
    """Returns a row with Keras's names for callbacks, which get the number of the epoch as an argument."""
    return {name.replace("valid_", "val_"): value for name, value in row.items() if name != "epoch"}


def _length(config: TrainConfig, batches: BatchSource) -> float:
    """Returns the length of a run: updates, or seconds if ``TrainConfig.minutes`` is set."""
    if config.steps is not None:
        return float(config.steps)
    if config.epochs is not None:
        return float(max(1, round(config.epochs * len(batches) / config.gradient_accumulation_steps)))
    assert config.minutes is not None
    return 60.0 * config.minutes
