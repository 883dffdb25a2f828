"""One update: gradients of a batch's summed loss, added over batches, divided once, clipped, applied - or skipped.

An update whose loss or gradient is not finite changes nothing but a counter. That is decided inside the graph: the host
neither waits nor looks until it writes a row of the log, or asks every so many updates whether they are sound.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from nmt_keras.config import PAD, START, TrainConfig
from nmt_keras.corpus.batches import Batch, BatchSource, Bucket
from nmt_keras.layers.base import Weights
from nmt_keras.layers.dropout import Randomness
from nmt_keras.layers.matmul import bfloat16_products, full_precision
from nmt_keras.models.seq2seq import Seq2Seq
from nmt_keras.training.execution import PRODUCTS, execution_of
from nmt_keras.training.loss import Loss, guided_alignment, masked_cross_entropy
from nmt_keras.training.optimizers import build_optimizer, clip, global_norm
from nmt_keras.training.schedules import learning_rate, sampling_probability

FIRST_LOSS_SCALE = 2.0**15

STEPS_TO_DOUBLE = 2000
"""Sound updates after which a loss scale doubles (Micikevicius et al. 2018, section 3.2, leave the number open)."""


class Metrics(NamedTuple):
    """What one update reports."""

    loss: Loss  # sums over the batch, nats
    gradient_norm: tf.Tensor  # [] float32, before clipping; not finite where the update was skipped


class Health(tf.Module):
    """Which updates were skipped because their loss or gradient was not finite, and the loss scale of float16.

    Args:
        scaled: whether the loss is scaled. Gradients too small for float16 are lost without: the loss is multiplied
            before they are taken, and they are divided afterwards. The scale halves when an update is not finite, which
            is how too large a scale shows, and doubles after ``STEPS_TO_DOUBLE`` sound ones. Only what is not finite at
            a scale of 1 is in a row: the first scale is too large by design.
    """

    def __init__(self, scaled: bool):
        super().__init__(name="health")
        self.scaled = scaled
        self.skipped = tf.Variable(0, dtype=tf.int64, trainable=False)  # updates, in the whole run
        self.in_a_row = tf.Variable(0, dtype=tf.int64, trainable=False)  # of these, directly before the next update
        self.longest = tf.Variable(0, dtype=tf.int64, trainable=False)  # row of them, in the whole run
        self.scale = tf.Variable(FIRST_LOSS_SCALE if scaled else 1.0, dtype=tf.float32, trainable=False)
        self.sound = tf.Variable(0, dtype=tf.int64, trainable=False)  # updates since the scale was changed

    def note(self, sound: tf.Tensor) -> None:
        """Takes an update's verdict, [] bool."""
        bad = tf.cast(~sound, tf.int64)
        self.skipped.assign_add(bad)
        counted = bad * tf.cast(self.scale <= 1.0, tf.int64)
        self.in_a_row.assign(counted * (self.in_a_row + 1))
        self.longest.assign(tf.maximum(self.longest, self.in_a_row))
        if self.scaled:
            count = (1 - bad) * (self.sound + 1)
            doubled = tf.cast(count == STEPS_TO_DOUBLE, tf.float32)
            self.scale.assign(tf.maximum(1.0, self.scale * tf.where(sound, 1.0 + doubled, 0.5)))
            self.sound.assign(count % STEPS_TO_DOUBLE)


def forward(
    model: Seq2Seq,
    source: tf.Tensor,
    target: tf.Tensor,
    smoothing: float,
    *,
    randomness: Randomness | None = None,
    sampling: tf.Tensor | None = None,
    alignment: tf.Tensor | None = None,
    guided_weight: float = 1.0,
    weights: Weights | None = None,
) -> Loss:
    """Returns the loss of targets given sources.

    Args:
        model: Built.
        source: [B, S] int32.
        target: [B, T] int32, END included, PAD after it.
        smoothing: Label smoothing.
        randomness, sampling, weights: See ``Seq2Seq.call``.
        alignment: [B, T, S] float32, wanted alignments, or None. ``guided_weight`` times the distance of attention from
            them is added to the total.
        guided_weight: See ``alignment``.
    """
    starts = tf.fill([tf.shape(target)[0], 1], tf.constant(START, target.dtype))
    inputs = source, tf.concat([starts, target[:, :-1]], axis=1)
    output = model(inputs, randomness=randomness, sampling=sampling, weights=weights)
    loss = masked_cross_entropy(output.logits, target, tf.not_equal(target, PAD), smoothing)
    if alignment is None:
        return loss
    return loss._replace(total=loss.total + guided_weight * guided_alignment(output.alignment, alignment))


class Updater:
    """One update of a model: forward and backward pass compiled once per length bucket, the optimizer's once.

    Args:
        model: built.
        config: rate, clipping, smoothing, denominator, accumulation, XLA, precision.

    Raises:
        ValueError: ``config.precision`` is bfloat16-products, but the model computes in another type than float32.
    """

    def __init__(self, model: Seq2Seq, config: TrainConfig):
        self.model, self.config = model, config
        self.variables = list(model.trainable_variables)
        self.optimizer = build_optimizer(config, self.variables)
        self.health = Health(scaled=config.precision == "mixed_float16")
        self.compiled, _ = execution_of(config)
        self.rounds = config.precision == PRODUCTS
        if self.rounds and model.dtype_policy.name != "float32":
            raise ValueError(
                f"model: expected the dtype policy float32 for the precision {PRODUCTS}, received "
                f"{model.dtype_policy.name}. Build the model under float32, or train with precision "
                f"{model.dtype_policy.name}."
            )
        self.differentiate = tf.function(self._differentiate, jit_compile=self.compiled, autograph=False)
        self.add = tf.function(_added, jit_compile=self.compiled, autograph=False)
        self._move: Callable[..., tf.Tensor] = self._moved
        if self.compiled:
            self._move = tf.function(self._moved, jit_compile=True, autograph=False)
        # not compiled by XLA as a whole: its branches would copy every weight
        self.apply = tf.function(self._apply, autograph=False)

    def reduce(self, sums: tuple[Any, Loss]) -> tuple[Any, Loss]:
        """Gradients and loss of all replicas from those of each: of one, they are what they are."""
        return sums

    def _differentiate(
        self,
        batch: tuple[tf.Tensor, tf.Tensor, tf.Tensor | None],
        step: tf.Tensor,
        sampling: tf.Tensor | None,
        scale: tf.Tensor,
    ) -> tuple[list[tf.Tensor], Loss]:
        """Gradients of the batch's summed loss, each dense; rows of an embedding that occur twice are summed."""
        source, target, alignment = batch
        rounds = self.rounds and not tf.executing_eagerly()  # run eagerly, to be debugged, nothing is compiled
        with tf.GradientTape() as tape:
            loss = forward(
                self.model,
                source,
                target,
                self.config.label_smoothing,
                randomness=Randomness(self.config.seed, step, self._replica()),
                sampling=sampling,
                alignment=alignment,
                guided_weight=self.config.guided_weight,
                weights=self.model.read_weights(bfloat16_products if rounds else full_precision),
            )
            scaled = loss.total * scale if self.health.scaled else loss.total
        # a variable that the loss does not reach, such as the embedding of a decoder that reads no words, gets zeros
        unreached = tf.UnconnectedGradients.ZERO
        gradients = tape.gradient(scaled, [v.value for v in self.variables], unconnected_gradients=unreached)
        return [tf.convert_to_tensor(g) for g in gradients], loss

    def _replica(self) -> tf.Tensor | int:
        """Returns the number of the replica that computes."""
        return 0

    def arrays(self, batch: Batch) -> tuple[Any, Any, Any]:
        """Source, target and alignment (None where there is none) of a batch, as ``differentiate`` takes them."""
        alignment = None if batch.alignment is None else tf.constant(batch.alignment)
        return tf.constant(batch.source), tf.constant(batch.target), alignment

    def _apply(self, gradients: list[Any], total: tf.Tensor, denominator: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        """Divides by the global denominator, clips, updates - where all is finite; returns the norm before clipping."""
        divisor = denominator * self.health.scale
        norm = global_norm([self._here(gradient) for gradient in gradients]) / divisor
        sound = tf.math.is_finite(norm) & tf.math.is_finite(total)
        tf.cond(sound, lambda: self._move(gradients, divisor, norm, rate), lambda: tf.constant(0))
        self.health.note(sound)
        return norm

    def agreed(self, number: int | None, due: bool) -> int | None:
        """The signal that all processes stop for: one process alone stops for its own, ``number``."""
        return number

    def common(self, number: float) -> float:
        """A number that all processes know alike: the mean of theirs; of one process, its own."""
        return number

    def _here(self, value: Any) -> tf.Tensor:
        """A value that is equal on all replicas, as one tensor."""
        return value

    def _moved(self, gradients: list[tf.Tensor], divisor: tf.Tensor, norm: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        """Moves the weights; the result says nothing, but a branch needs one."""
        clipped = clip([g / divisor for g in gradients], norm, self.config.clip_norm)
        self.optimizer.learning_rate.assign(rate)
        self.optimizer.apply(clipped, self.variables)
        return tf.constant(0)

    def __call__(self, batch: Batch, step: int, total_steps: int) -> Metrics:
        """Makes update number ``step``, from 0, with one batch."""
        return self.update([batch], step, total_steps)

    def update(self, batches: Sequence[Batch], step: int, total_steps: int, reductions: int = 0) -> Metrics:
        """Makes update number ``step``, from 0, with the sums of several batches, as if they were one large batch.

        Args:
            batches: as many as ``config.gradient_accumulation_steps``; more would share dropout masks with the next.
            step, total_steps: where the run stands.
            reductions: how often a plateau has lowered the rate.
        """
        sampling = self._sampling(step, total_steps)
        sums: tuple[list[tf.Tensor], Loss] | None = None
        for number, batch in enumerate(batches):
            place = tf.constant(step * self.config.gradient_accumulation_steps + number)
            found = self.differentiate(self.arrays(batch), place, sampling, self.health.scale)
            sums = found if sums is None else self.add(sums, found)
        assert sums is not None
        gradients, loss = self.reduce(sums)
        pairs = float(sum(batch.pairs for batch in batches))
        denominator = loss.tokens if self.config.denominator == "tokens" else tf.constant(pairs)
        rate = learning_rate(self.config, step, total_steps, reductions)
        return Metrics(loss, self.apply(gradients, loss.total, denominator, tf.constant(rate)))

    def _sampling(self, step: int, total_steps: int) -> tf.Tensor | None:
        """The probability of reading an own token at a step; None where a run never does."""
        if self.config.sampling_to == self.config.sampling_from == 0.0:
            return None
        return tf.constant(sampling_probability(self.config, step, total_steps), tf.float32)

    def rehearse(self, batches: BatchSource, report: Callable[[str], None]) -> dict[Bucket, float]:
        """Compiles or traces everything on batches of masked rows, then puts weights and optimiser back as they were.

        Returns:
            Seconds that one batch takes, its share of an update included, by batch bucket.
        """
        state = [*self.variables, *self.optimizer.variables, *self.health.variables]
        before = [v.numpy() for v in state]
        seconds, update = {}, 0.0
        for bucket in reversed(batches.buckets):  # the largest first: the others find the memory that it has freed
            batch = batches.masked(bucket)
            arguments = self.arrays(batch), tf.constant(0), self._sampling(0, 1), self.health.scale
            compiling = time.perf_counter()
            found = self.differentiate(*arguments)
            if not update:

                def end(found: Any = found) -> tf.Tensor:
                    gradients, _ = self.reduce(found)
                    return self.apply(gradients, tf.constant(0.0), tf.constant(1.0), tf.constant(0.0))

                end()
                update = self._median_seconds(end) / self.config.gradient_accumulation_steps
                if self.config.gradient_accumulation_steps > 1:
                    self.add(found, found)
                    update += self._median_seconds(self.add, found, found)
            compiling = time.perf_counter() - compiling
            seconds[bucket] = update + self._median_seconds(self.differentiate, *arguments)
            made = "compiled" if self.compiled else "traced"
            report(
                f"{made} batches of {len(batch.source)} x ({bucket.source} source, {bucket.target} target tokens) "
                f"in {compiling:.1f} s; {seconds[bucket] * 1e3:.0f} ms an update"
            )
        for variable, value in zip(state, before, strict=True):
            variable.assign(value)
        return seconds

    def _median_seconds(self, function: Callable[..., Any], *arguments: Any, runs: int = 5) -> float:
        """Seconds until ``function(*arguments)`` is there, median of ``runs``."""
        durations = []
        for _ in range(runs):
            began = time.perf_counter()
            np.asarray(self._here(tf.nest.flatten(function(*arguments))[-1]))  # which waits for it
            durations.append(time.perf_counter() - began)
        return statistics.median(durations)


def _added(one: tuple[list[tf.Tensor], Loss], other: tuple[list[tf.Tensor], Loss]) -> tuple[list[tf.Tensor], Loss]:
    """Sums of gradients and of losses."""
    return tf.nest.map_structure(tf.add, one, other)
