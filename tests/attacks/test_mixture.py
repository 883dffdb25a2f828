"""All attacks at once on one server process that also answers honest clients."""

from __future__ import annotations

import shutil

import pytest

from benchmarks.attacks import ATTACKS, Settings


@pytest.mark.long
@pytest.mark.server
def test_honest_clients_are_answered_while_every_attack_runs(reverser, tmp_path):
    shutil.copytree(reverser, tmp_path / "spa-eng" / "1")
    report = Settings(model_dir=tmp_path, minutes=0.4, timeout_seconds=5.0).measure()
    # allocators still grow in the first minutes, so only a long run can check memory
    assert [promise for promise in report.broken if promise != "memory grew"] == []
    assert report.result["rounds"].keys() == {attack.__name__ for attack in ATTACKS}
    assert all(client["requests"] for client in report.result["honest"].values())
