"""Updates that are not finite: skipped, counted, reported; and when training stops."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from bigram import STEPS, Bigram, Fragile, Run, config

from nmt_keras.training import Updater, read_log
from nmt_keras.training.step import FIRST_LOSS_SCALE, STEPS_TO_DOUBLE, Health


def spoilt(factor, *steps):
    """What a run does at its steps: the updates after ``steps`` have logits times ``factor``, the others have not."""
    after = {step + 1: 1.0 for step in steps} | dict.fromkeys(steps, factor)
    return lambda run: {step: lambda value=value: run.model.factor.assign(value) for step, value in after.items()}


@pytest.mark.parametrize("factor", [math.nan, math.inf])
@pytest.mark.parametrize("xla", [False, True])
def test_an_update_that_is_not_finite_changes_nothing_but_its_count(batches, factor, xla):
    model = Fragile()
    updater = Updater(model, config(xla=xla, ema_decay=0.9))
    walk = batches.epoch(0)
    updater(next(walk), 0, STEPS)
    state = [*model.trainable_variables, *updater.optimizer.variables]
    before = [variable.numpy() for variable in state]
    model.factor.assign(factor)
    metrics = updater(next(walk), 1, STEPS)
    assert not math.isfinite(metrics.gradient_norm)
    for variable, value in zip(state, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value, err_msg=variable.path)
    assert (int(updater.health.skipped), int(updater.health.in_a_row)) == (1, 1)
    model.factor.assign(1.0)
    updater(next(walk), 2, STEPS)
    assert (int(updater.health.skipped), int(updater.health.in_a_row)) == (1, 0)
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
    last = tf.train.latest_checkpoint(str(tmp_path / "checkpoints" / "last"))
    assert last.endswith("ckpt-5")


def test_too_many_in_a_row_end_the_run_though_others_came_after_them(batches, tmp_path):
    run = Run(batches, tmp_path, config(log_every=100, max_skipped=3), model=Fragile())
    run.at = spoilt(math.nan, 4, 5, 6)(run)
    with pytest.raises(FloatingPointError, match=r"^step 9: .* 3 consecutive updates"):
        run()


def test_a_row_without_any_update_that_was_made_has_no_loss(batches, tmp_path):
    run = Run(batches, tmp_path, config(log_every=2), model=Fragile())
    run.at = {6: lambda: run.model.factor.assign(math.nan), 8: lambda: run.model.factor.assign(1.0)}
    run()
    (row,) = [row for row in read_log(tmp_path / "log.jsonl") if row.get("skipped") == 2]
    assert row["step"] == 8
    assert "loss" not in row


# The loss scale of float16


def noted(health, *verdicts):
    for verdict in verdicts:
        health.note(tf.constant(verdict))
    return float(health.scale)


def test_only_what_is_not_finite_at_the_smallest_loss_scale_counts_as_a_row():
    health, halvings = Health(scaled=True), round(math.log2(FIRST_LOSS_SCALE))
    assert noted(health, *[False] * halvings) == 1.0
    assert (int(health.skipped), int(health.in_a_row)) == (halvings, 0)
    noted(health, False, False, True)
    assert (int(health.in_a_row), int(health.longest)) == (0, 2)


def test_a_loss_scale_halves_at_each_overflow_and_doubles_after_many_sound_updates():
    health = Health(scaled=True)
    assert noted(health, True, False, True, False) == FIRST_LOSS_SCALE / 4
    health.sound.assign(STEPS_TO_DOUBLE - 2)
    assert noted(health, True) == FIRST_LOSS_SCALE / 4
    assert noted(health, True) == FIRST_LOSS_SCALE / 2
    assert int(health.sound) == 0
    health.sound.assign(STEPS_TO_DOUBLE - 1)
    assert noted(health, False) == FIRST_LOSS_SCALE / 4
    assert int(health.sound) == 0


def test_a_loss_scale_never_falls_below_1_and_float32_has_none():
    assert noted(Health(scaled=True), *[False] * 30) == 1.0
    assert noted(Health(scaled=False), False, True) == 1.0


def test_a_scaled_loss_gives_the_same_update(batches):
    weights = []
    for precision in ("float32", "mixed_float16"):  # of a model that computes in float32: the scale alone
        keras.utils.set_random_seed(5)
        model = Bigram()
        metrics = Updater(model, config(precision=precision))(next(batches.epoch(0)), 3, STEPS)
        weights.append([*model.get_weights(), float(metrics.gradient_norm), float(metrics.loss.total)])
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
