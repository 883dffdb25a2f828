"""Non-finite updates are skipped, counted and reported. Training stops after too many of them."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from bigram import STEPS, Bigram, Fragile, Run, config
from tensors import assert_same

from nmt_keras.training import Updater, checkpoints_in, read_log
from nmt_keras.training.stability import FIRST_LOSS_SCALE, UPDATES_TO_DOUBLE, Stability


def spoilt(factor, *steps):
    """Returns a function that makes callbacks of a run. They scale the logits of the update after each of ``steps``."""
    after = {step + 1: 1.0 for step in steps} | dict.fromkeys(steps, factor)
    return lambda run: {step: lambda value=value: run.model.factor.assign(value) for step, value in after.items()}


@pytest.mark.parametrize(("factor", "xla"), [(math.nan, False), (math.inf, True)])
def test_an_update_that_is_not_finite_changes_nothing_but_its_count(batches, factor, xla):
    model = Fragile()
    updater = Updater(model, config(xla=xla))
    walk = batches.epoch(0)
    updater.train_step([next(walk)], 0, 0.05)
    state = [*model.trainable_variables, *updater.optimizer.variables]
    before = [variable.numpy() for variable in state]
    model.factor.assign(factor)
    metrics = updater.train_step([next(walk)], 1, 0.05)
    assert not math.isfinite(metrics.gradient_norm)
    assert_same(state, before, rtol=0.0, atol=0.0)
    assert (int(updater.stability.skipped), int(updater.stability.in_a_row)) == (1, 1)
    model.factor.assign(1.0)
    updater.train_step([next(walk)], 2, 0.05)
    assert (int(updater.stability.skipped), int(updater.stability.in_a_row)) == (1, 0)
    assert np.any(model.kernel.numpy() != before[1])


def test_skipped_updates_are_counted_in_the_log_and_told_and_losses_are_those_of_the_others(batches, tmp_path):
    run = Run(batches, tmp_path, config(log_every=5), model=Fragile())
    run.at = spoilt(math.nan, 6, 7)(run)
    run()
    rows = [row for row in read_log(tmp_path / "log.jsonl") if "skipped" in row]
    assert [row["skipped"] for row in rows] == [0, 2, 0, 0]
    assert all(math.isfinite(row["loss"]) and math.isfinite(row["gradient_norm"]) for row in rows)
    assert run.steps[-1] == STEPS
    (report,) = [sentence for sentence in run.reports if "skipped" in sentence]
    assert report.startswith("step 10: skipped 2 of the last 5 updates")


def test_too_many_in_a_row_end_the_run_before_a_checkpoint_is_written_and_say_what_to_try(batches, tmp_path):
    settings = config(log_every=100, max_skipped=3, clip_norm=None)
    run = Run(batches, tmp_path, settings, model=Fragile())
    run.at = {6: lambda: run.model.factor.assign(math.nan)}
    with pytest.raises(
        FloatingPointError,
        match=r"^step 9: .* loss nan, gradient norm nan, 3 consecutive .*last/ckpt-5\. .*TrainConfig.clip_norm \(None",
    ):
        run()
    assert [path.name for path in checkpoints_in(tmp_path / "checkpoints" / "last")] == ["ckpt-5"]


# The loss scale of float16


def test_skipped_updates_are_counted_in_all_and_in_a_row():
    stability = Stability(scales_loss=False)
    for finite in (True, False, True, False, False, True, False):
        stability.record(tf.constant(finite))
    assert (int(stability.skipped), int(stability.in_a_row), int(stability.longest_row)) == (4, 1, 2)
    assert float(stability.scale) == 1.0


def scale_after(stability, *updates):
    for finite in updates:
        stability.record(tf.constant(finite))
    return float(stability.scale)


def test_a_loss_scale_halves_at_each_overflow_and_doubles_after_many_finite_updates():
    stability = Stability(scales_loss=True)
    assert scale_after(stability, True, False, True, False) == FIRST_LOSS_SCALE / 4
    stability.finite_updates.assign(UPDATES_TO_DOUBLE - 2)
    assert scale_after(stability, True) == FIRST_LOSS_SCALE / 4
    assert scale_after(stability, True) == FIRST_LOSS_SCALE / 2
    assert int(stability.finite_updates) == 0
    stability.finite_updates.assign(UPDATES_TO_DOUBLE - 1)
    assert scale_after(stability, False) == FIRST_LOSS_SCALE / 4
    assert int(stability.finite_updates) == 0


def test_only_skipped_updates_at_the_smallest_loss_scale_count_as_a_row():
    stability = Stability(scales_loss=True)
    stability.scale.assign(4.0)
    assert scale_after(stability, *[False] * 4) == 1.0
    assert (int(stability.skipped), int(stability.in_a_row)) == (4, 2)


@pytest.mark.long
def test_a_scaled_loss_gives_the_same_update(batches, dtype_policy):
    weights = []
    for precision in ("float32", "mixed_float16"):  # the model computes in float32, so only the scale differs
        keras.utils.set_random_seed(5)
        dtype_policy(precision)
        model = Bigram()
        metrics = Updater(model, config(precision=precision)).train_step([next(batches.epoch(0))], 3, 0.05)
        weights.append([*model.get_weights(), float(metrics.gradient_norm), float(metrics.loss.total)])
    assert_same(*weights, rtol=1e-5, atol=0.0)
