"""Callbacks of a Trainer: log, stop signals, validation and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nmt_keras.training.log import LogInterval
from nmt_keras.training.updater import Updater

if TYPE_CHECKING:
    from nmt_keras.training.trainer import Trainer

STEPS_TO_AGREE = 5
"""Number of updates between two exchanges of stop signals among several processes."""


class Callback:
    """Base class of callbacks, which a :class:`~nmt_keras.training.trainer.Trainer` calls in order."""

    def on_train_begin(self, trainer: Trainer) -> None:
        """Called before the first update of a ``Trainer.train`` call."""

    def on_update_end(self, trainer: Trainer) -> None:
        """Called after each update."""

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


class LogCallback(Callback):
    """Logs a row every ``TrainConfig.log_every`` updates and after the last update. Reports skipped updates."""

    def on_update_end(self, trainer: Trainer) -> None:
        """Logs a row if one is due. Raises FloatingPointError after too many non-finite updates."""
        config, step, interval = trainer.config, trainer.step, trainer.interval
        due = step % config.log_every == 0 or step == trainer.total_steps
        if due or step % config.max_skipped == 0:
            trainer.require_finite()
        if not due:
            return
        trainer.row = interval.row(step, trainer.position.epoch, trainer.rate, trainer.total_steps - step)
        trainer.log(trainer.row)
        if skipped := trainer.row["skipped"]:
            trainer.report(
                f"step {step}: skipped {skipped} of the last {len(interval.metrics)} updates because their loss or "
                "gradient was not finite"
            )
        trainer.interval = LogInterval()


class StopCallback(Callback):
    """Stops training after SIGINT or SIGTERM. Several processes exchange signals every ``STEPS_TO_AGREE`` updates."""

    def on_update_end(self, trainer: Trainer) -> None:
        """Sets ``trainer.stop_signal`` if a signal has arrived."""
        trainer.agree_to_stop(due=trainer.step % STEPS_TO_AGREE == 0)


class ValidationCallback(Callback):
    """Validates the model ``TrainConfig.validations`` times and saves the best checkpoint.

    A signal interrupts a validation. The next call of ``Trainer.train`` starts by repeating an interrupted validation.

    Args:
        validate: Function that evaluates the model. It returns at least ``valid_loss``, in nats per token.
    """

    def __init__(self, validate: Callable[[], Mapping[str, float]]):
        self._validate = validate

    def on_train_begin(self, trainer: Trainer) -> None:
        """Validates the restored model if a signal or a kill prevented its validation."""
        if trainer.step and trainer.is_validation_step and int(trainer.progress.validated) < trainer.step:
            self._run(trainer)
            if trainer.finished and trainer.stop_signal is None:
                trainer.save("last")  # no later checkpoint would store the validation's result

    def on_update_end(self, trainer: Trainer) -> None:
        """Validates the model if a validation is due."""
        if trainer.is_validation_step and trainer.stop_signal is None:
            trainer.require_finite()
            self._run(trainer)

    def _run(self, trainer: Trainer) -> None:
        began, step, progress = time.perf_counter(), trainer.step, trainer.progress
        with _averaged_weights(trainer.updater):
            scores = trainer.signals.unless_received(self._validate)
            trainer.agree_to_stop(due=True)
            if scores is not None and trainer.stop_signal is None:
                trainer.log({"step": step, "epoch": trainer.position.epoch, **scores})
                trainer.report(f"step {step}: " + ", ".join(f"{name} {value:.3f}" for name, value in scores.items()))
                progress.validated.assign(step)
                loss = trainer.updater.replicas.mean_over_processes(scores["valid_loss"])
                if progress.judge(loss, trainer.config, last=step == trainer.total_steps):
                    trainer.save("best")
        trainer.finished, trainer.reductions = bool(progress.finished), int(progress.reductions)
        trainer.interval.began += time.perf_counter() - began
        trainer.agree_to_stop(due=True)


class CheckpointCallback(Callback):
    """Saves the "last" checkpoint periodically, after validations, when the steps are replanned, and before a stop."""

    def on_update_end(self, trainer: Trainer) -> None:
        """Saves a checkpoint if one is due."""
        periodic = trainer.step % trainer.config.checkpoint_every == 0
        if periodic or trainer.is_validation_step or trainer.replanned or trainer.stop_signal is not None:
            trainer.require_finite()
            trainer.save("last")


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
