"""A finished run is trained longer."""

from itertools import count
from types import SimpleNamespace

import pytest
from bigram import STEPS, Run, assert_same_checkpoints, config, kill

from nmt_keras.training import Progress, is_finished, read_log, trainer
from nmt_keras.training.schedules import learning_rate


def test_the_rate_of_more_epochs_is_that_of_a_run_of_the_new_length(batches, tmp_path):
    """The cosine decay is stretched. It has almost reached 0 at the last step, so the rate rises again."""
    settings = config(log_every=1)
    Run(batches, tmp_path, settings)()
    assert is_finished(tmp_path)
    more = Run(batches, tmp_path, settings)(more_epochs=2.0)
    total = STEPS + 2 * len(batches)
    assert more.shown == [(step, total) for step in range(STEPS + 1, total + 1)]
    rates = {row["step"]: row["learning_rate"] for row in read_log(tmp_path / "log.jsonl") if "learning_rate" in row}
    for step in range(1, total + 1):
        length = STEPS if step <= STEPS else total
        assert rates[step] == pytest.approx(learning_rate(settings, step - 1, length), rel=1e-5)
    assert rates[STEPS + 1] > rates[STEPS]
    assert is_finished(tmp_path)
    assert Run(batches, tmp_path, settings)().shown == []


def test_an_unfinished_run_is_not_extended_and_says_so(batches, tmp_path):
    Run(batches, tmp_path, config(), at={2: kill}).until_stopped()
    more = Run(batches, tmp_path, config())(more_epochs=1.0)
    assert more.steps[-1] == STEPS
    assert "the run is not finished, so nothing is added to its length" in more.reports


@pytest.mark.parametrize(("length", "total"), [({"steps": 10}, 15), ({"steps": None, "minutes": 1.0}, 190.0)])
def test_the_new_length_of_a_run_that_stopped_early_is_in_updates_or_in_seconds_at_the_mean_speed(length, total):
    """The seconds include a validation, which may be longer than the added updates."""
    progress = Progress(step=10, seconds=60.0, total=80, validation_seconds=100.0, validations=4, finished=True)
    settings = config(**length, validations=4)
    progress.extend(5, settings)
    assert progress == Progress(step=10, seconds=60.0, total=total, validation_seconds=100.0, validations=2)
    assert progress.share(settings) == pytest.approx(2 / 3)


def test_minutes_lengthen_a_run_of_minutes(batches, tmp_path, monkeypatch):
    ticks = count()
    monkeypatch.setattr(trainer, "time", SimpleNamespace(perf_counter=lambda: next(ticks) / 16))
    settings = config(steps=None, minutes=0.05)
    first = Run(batches, tmp_path, settings)()
    with pytest.raises(ValueError, match=r"RunOptions\.more_minutes: expected more than 0\.\d\d .* received 0\.0001"):
        Run(batches, tmp_path, settings)(more_minutes=0.0001)
    more = Run(batches, tmp_path, settings)(more_minutes=0.05)
    assert first.steps[-1] > 1
    assert more.steps[0] == first.steps[-1] + 1
    assert is_finished(tmp_path)


@pytest.mark.parametrize("place", [1, 4], ids=["before a checkpoint", "after one"])
def test_a_longer_run_that_is_killed_ends_with_the_weights_of_one_that_was_not(place, batches, tmp_path):
    """The same command resumes the training and does not lengthen it again."""
    settings = config(checkpoint_every=2)
    for name in ("whole", "killed"):
        Run(batches, tmp_path / name, settings)()
    Run(batches, tmp_path / "whole", settings)(more_epochs=1.0)
    Run(batches, tmp_path / "killed", settings, at={STEPS + place: kill}).until_stopped(more_epochs=1.0)
    Run(batches, tmp_path / "killed", settings)(more_epochs=1.0)
    assert_same_checkpoints(tmp_path / "killed", tmp_path / "whole")
