"""The loop: updates, rows of the log, validations and checkpoints, until the steps are made or a signal comes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from nmt_keras.config import TrainConfig
from nmt_keras.corpus.batches import Batch, BatchSource, Bucket, Position
from nmt_keras.models.seq2seq import Seq2Seq
from nmt_keras.training.checkpoint_index import mend_records, newest
from nmt_keras.training.checkpoints import Checkpoints, Progress
from nmt_keras.training.distribution import ReplicatedUpdater, is_chief
from nmt_keras.training.log import Log, LogInterval, Unwritten
from nmt_keras.training.schedules import learning_rate
from nmt_keras.training.signals import Interrupted, StopSignals, stop_signals
from nmt_keras.training.step import Metrics, Updater

STEPS_TO_AGREE = 5
"""Updates after which several processes ask each other whether one of them was told to stop."""

SHARE_OF_TIME_FOR_STEPS = 0.92
"""Of the minutes left; the rest is for validations, checkpoints and a machine that slows down."""

SHARE_OF_STEPS_TO_SETTLE = 0.05
"""Of the steps that minutes are guessed to be: then they are counted anew by what real batches have taken."""


def train(
    model: Seq2Seq,
    batches: BatchSource,
    config: TrainConfig,
    folder: Path,
    validate: Callable[[], Mapping[str, float]],
    report: Callable[[str], None],
    show: Callable[[int, int, Mapping[str, float]], None],
    *,
    identity: Mapping[str, Any] | None = None,
    previous: bool = False,
    observe: Callable[[Mapping[str, float]], None] = lambda _: None,
    strategy: tf.distribute.Strategy | None = None,
) -> None:
    """Trains until the steps are made, validation stops improving, or a signal comes.

    Another call goes on where the last one stopped: with the same weights as if nothing had stopped it, to the bit on a
    CPU with as many threads and TensorFlow's deterministic operations (``RunOptions.deterministic``).

    Args:
        model: built; its weights are replaced by the last checkpoint's if there is one.
        batches: the training part.
        config: see :class:`~nmt_keras.config.TrainConfig`.
        folder: the run directory; gets ``checkpoints/`` and ``log.jsonl``.
        validate: measures the model as it is: at least ``valid_loss``, nats per token.
        report: told, in sentences, what happens.
        show: told (step, total steps, newest log row) after every update; the row is empty before the first.
        identity: what the run is made of, by name; a checkpoint that was written with another one is refused.
        previous: whether a damaged last checkpoint gives way to the newest that is whole, and is set aside; so is a
            best one that is damaged.
        strategy: what spreads training over devices or machines; ``model`` was made in its scope. Every process makes
            the same calls; the chief alone writes.
        observe: told each row that the log gets; while it is told a validation's, the model is as it was validated.

    Raises:
        Interrupted: SIGINT or SIGTERM came; the state is saved. A validation under way is given up: the next call
            begins with it.
        FloatingPointError: no update is finite any more; a checkpoint, if there is one, is from before.
        ValueError: the checkpoint in ``folder`` does not fit, and in what, or is another one to another process.
        OSError: ``folder`` cannot be written; the last checkpoint is whole.
    """
    began = time.perf_counter()
    updater = Updater(model, config) if strategy is None else ReplicatedUpdater(model, config, strategy)
    progress, chief = Progress(identity or {}), is_chief(strategy)
    if chief:
        mend_records(folder / "checkpoints", previous, report)
    updater.common(0.0)  # nobody looks for checkpoints before the chief has mended their record
    checkpoints = Checkpoints(folder / "checkpoints", updater, progress, config.max_to_keep)
    resumed = checkpoints.restore(previous)
    if updater.common(float(progress.step)) != float(progress.step):
        raise ValueError(
            f"{folder / 'checkpoints'}: expected the checkpoint of one step in all processes, received that of step "
            f"{int(progress.step)} here and another elsewhere. Is the run directory on a disk that all workers see?"
        )
    if math.isinf(updater.common(float(progress.best))):
        progress.best.assign(math.inf)  # one saw no best checkpoint, which a late disk may show to others
    if progress.finished.numpy():
        return
    if resumed:
        report(f"resuming at step {int(progress.step)} of {int(progress.total_steps)}")
    log = Log(folder / "log.jsonl", int(progress.step), int(progress.validated)) if chief else Unwritten()
    before = float(progress.seconds)

    def save(name: str) -> None:
        progress.seconds.assign(before + time.perf_counter() - began)
        progress.advance(step, position)
        if chief:
            checkpoints.save(name)

    if config.minutes is not None and strategy is not None and strategy.num_replicas_in_sync > len(_own(strategy)):
        raise ValueError(
            f"TrainConfig.minutes: expected steps or epochs where several workers train, received {config.minutes} "
            "minutes: each would count other steps."
        )
    seconds = updater.rehearse(batches, report)
    if not progress.total_steps.numpy():
        progress.total_steps.assign(_total_steps(config, batches, seconds, time.perf_counter() - began))
    total_steps, step = int(progress.total_steps), int(progress.step)
    settling = None
    if config.minutes is not None and not progress.settled.numpy():
        settling = step + max(1, round(SHARE_OF_STEPS_TO_SETTLE * (total_steps - step)))

    def tell_steps() -> int:
        """Says how many steps there are; answers how many lie between two validations."""
        epochs = total_steps * config.gradient_accumulation_steps / len(batches)
        report(f"training for {total_steps} steps, {epochs:.2f} epochs of {len(batches)} batches")
        return -(-total_steps // config.validations)

    every = tell_steps()
    # variables of TensorFlow are read and written around checkpoints and looks at their soundness alone
    begin = progress.position
    position = begin._replace(batch=begin.batch - 1)  # of the last batch seen
    interval, row = LogInterval(), dict[str, float]()

    def is_due() -> bool:
        """Whether the model is validated after this step."""
        return step % every == 0 or step == total_steps

    def judge(stopped: StopSignals) -> int | None:
        """Validates, keeps the best, and answers the signal that came, if one did: then validation is left to do."""
        paused = time.perf_counter()
        with _averaged(updater):
            scores = stopped.unless_told(validate)
            number = updater.agreed(stopped(), due=True)
            if scores is not None and number is None:
                validated = {"step": step, "epoch": position.epoch, **scores}
                log.append(validated)
                observe(validated)
                report(f"step {step}: " + ", ".join(f"{name} {value:.3f}" for name, value in scores.items()))
                progress.validated.assign(step)
                if progress.judge(updater.common(scores["valid_loss"]), config, last=step == total_steps):
                    save("best")
        interval.began += time.perf_counter() - paused
        return updater.agreed(stopped(), due=True) if number is None else number

    with stop_signals() as stopped:
        if step and is_due() and int(progress.validated) < step:
            if (number := judge(stopped)) is not None:
                raise Interrupted(step, number)
            if progress.finished.numpy():  # else the next checkpoint tells; until then this step's own stays as it is
                save("last")
        finished, reductions = bool(progress.finished), int(progress.reductions)
        first, looping = step, time.perf_counter()
        for position, group in _groups(batches, begin, config.gradient_accumulation_steps):
            if step >= total_steps or finished:
                break
            metrics = updater.update(group, step, total_steps, reductions)
            step += 1
            interval.add(group, metrics)
            if step == settling:
                np.asarray(metrics.loss.total)  # which waits for the updates
                now = time.perf_counter()
                total_steps = step + _fitting(config, before + now - began, (now - looping) / (step - first))
                progress.total_steps.assign(total_steps)
                progress.settled.assign(True)
                every = tell_steps()
            logging = step % config.log_every == 0 or step == total_steps
            if logging or step % config.max_skipped == 0:
                _require_sound(step, metrics, updater, newest(checkpoints.folder / "last"))
            if logging:
                rate = learning_rate(config, step - 1, total_steps, reductions)
                row = interval.row(step, position.epoch, rate, total_steps - step)
                log.append(row)
                observe(row)
                if row["skipped"]:
                    report(
                        f"step {step}: {row['skipped']} of the last {len(interval.metrics)} updates were skipped, "
                        "as their loss or gradient was not finite"
                    )
                interval = LogInterval()
            show(step, total_steps, row)
            number = updater.agreed(stopped(), due=step % STEPS_TO_AGREE == 0)
            saving = step % config.checkpoint_every == 0 or step == settling or number is not None
            if saving or is_due():
                _require_sound(step, metrics, updater, newest(checkpoints.folder / "last"))
                if is_due() and number is None:
                    number = judge(stopped)
                    finished, reductions = bool(progress.finished), int(progress.reductions)
                save("last")
            if number is not None:
                raise Interrupted(step, number)
    report(f"trained for {float(progress.seconds) / 60.0:.1f} minutes, {step} steps")


def _own(strategy: tf.distribute.Strategy) -> tuple[str, ...]:
    """The devices of this process that hold a replica."""
    return tuple(strategy.extended.worker_devices)


def _groups(batches: BatchSource, begin: Position, size: int) -> Iterator[tuple[Position, list[Batch]]]:
    """The batches of each update from ``begin`` on, with the position of the last."""
    remaining = batches.iterate(begin)
    while True:
        group = list(islice(remaining, size))
        yield group[-1][0], [batch for _, batch in group]


@contextmanager
def _averaged(updater: Updater) -> Iterator[None]:
    """Puts the moving averages into the model, where the recipe keeps them, and afterwards the weights back."""
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


def _require_sound(step: int, metrics: Metrics, updater: Updater, checkpoint: Path | None) -> None:
    """Raises FloatingPointError if updates no longer have a finite loss and gradient.

    That is after ``TrainConfig.max_skipped`` in a row since the run began, or at once where weights are not finite.

    Args:
        step: updates made.
        metrics: of the last.
        updater: made them.
        checkpoint: the last one, if there is one.
    """
    config, longest = updater.config, int(updater.health.longest.numpy())
    in_a_row = int(updater.health.in_a_row.numpy())
    searching = config.precision == "float16" and not int(updater.health.sound.numpy())  # for a loss scale
    if not in_a_row and longest < config.max_skipped and not searching:
        return
    broken = [variable.path for variable in updater.variables if not np.isfinite(variable.numpy()).all()]
    if longest < config.max_skipped and not broken:
        return
    loss, norm = float(metrics.loss.total), float(metrics.gradient_norm)
    sound = math.isfinite(loss) and math.isfinite(norm)
    name, received = ("loss", loss) if not math.isfinite(loss) else ("gradient", norm)
    wanted = "loss and gradient" if sound else f"{name}, received {received}"
    row = longest if longest >= config.max_skipped else in_a_row
    advice = [f"TrainConfig.learning_rate below {config.learning_rate}"]
    advice += [f"TrainConfig.warmup_steps above {config.warmup_steps}"]
    advice += ["a TrainConfig.clip_norm"] * (config.clip_norm is None)
    advice += [f"TrainConfig.precision float32 rather than {config.precision}"] * (config.precision != "float32")
    kept = f"{checkpoint} is from before" if checkpoint else "no checkpoint had been written"
    weights = f", and {broken[0]} is not finite itself" if broken else ""
    raise FloatingPointError(
        f"step {step}: expected a finite {wanted}; {row} updates in a row had none{weights}. "
        f"{kept[0].upper()}{kept[1:]}. Train in a new run directory with {', or '.join(advice)}."
    )


def _total_steps(config: TrainConfig, batches: BatchSource, seconds: Mapping[Bucket, float], spent: float) -> int:
    """The step count: the configured one, or how many updates fit into what is left of the minutes."""
    if config.steps is not None:
        return config.steps
    if config.epochs is not None:
        return max(1, round(config.epochs * len(batches) / config.gradient_accumulation_steps))
    assert config.minutes is not None
    counts = batches.bucket_counts(0)
    mean = (
        sum(seconds[bucket] * count for bucket, count in counts.items())
        / sum(counts.values())
        * config.gradient_accumulation_steps
    )
    steps = _fitting(config, spent, mean)
    if steps < 1:
        raise ValueError(
            f"minutes: expected more than the {(spent + mean) / 60.0:.1f} that compiling and one update take here, "
            f"received {config.minutes}. Give more (MINUTES=..., --minutes ...), or fewer TrainConfig.length_buckets."
        )
    return steps


def _fitting(config: TrainConfig, spent: float, mean: float) -> int:
    """How many updates of ``mean`` seconds fit into what is left of the minutes after ``spent`` seconds."""
    assert config.minutes is not None
    return max(0, int((60.0 * config.minutes - spent) * SHARE_OF_TIME_FOR_STEPS / mean))
