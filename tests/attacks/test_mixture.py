"""All attacks at once on one server process that also answers honest clients."""

import contextlib
import json
import shutil

import pytest

from benchmarks.attacks import ATTACKS, main

EXPECTED = {
    "malformed": {"400"},
    "slow": {"closed after a second", "408"},  # headers, bodies
    "unread": {"200"},
    "heavy": {"200", "400", "413"},
    "idle_sockets": {"more than the limit"},
}
"""Answers that each attack gets."""


@pytest.mark.slow
def test_honest_clients_are_answered_while_every_attack_runs(reverser, tmp_path, capsys):
    shutil.copytree(reverser, tmp_path / "spa-eng" / "1")
    with contextlib.suppress(SystemExit):
        main(model_dir=tmp_path, minutes=0.5, timeout_seconds=12.0)
    result = json.loads(capsys.readouterr().out)
    # allocators still grow in the first minutes, so only a long run can check memory
    assert [promise for promise in result["broken"] if promise != "memory grew"] == []
    rounds = result["rounds"]
    assert rounds.keys() == {attack.__name__ for attack in ATTACKS}
    for attack, answers in rounds.items():  # each attack reaches the code that it aims at
        assert answers.keys() >= EXPECTED[attack], (attack, answers)
    assert all(client["requests"] for client in result["honest"].values())
