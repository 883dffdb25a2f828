"""All attacks at once on one server process that also answers honest clients."""

from __future__ import annotations

import shutil

import pytest

from benchmarks.attacks import ATTACKS, Settings

EXPECTED = {
    "malformed": {"400"},
    "slow_headers": {"closed after a second"},
    "slow_body": {"408"},
    "unfinished_body": {"408", "503"},
    "tiny_chunks": {"400", "408"},
    "slow_reader": {"200"},
    "pipelined": {"200", "closed"},  # closed beyond the limit of connections
    "header_flood": {"400"},
    "bomb": {"413", "400"},
    "huge_names": {"400"},
    "long_text": {"200"},
    "many_sentences": {"200"},
    "forged_log": {"404", "400"},
    "idle_sockets": {"more than the limit"},
    "idle_clients": {"200", "closed"},
}
"""Answers of which each attack gets at least one."""


@pytest.mark.slow
def test_honest_clients_are_answered_while_every_attack_runs(reverser, tmp_path):
    shutil.copytree(reverser, tmp_path / "spa-eng" / "1")
    report = Settings(model_dir=tmp_path, minutes=0.5, timeout_seconds=12.0).measure()
    # allocators still grow in the first minutes, so only a long run can check memory
    assert [promise for promise in report.broken if promise != "memory grew"] == []
    rounds = report.result["rounds"]
    assert rounds.keys() == {attack.__name__ for attack in ATTACKS}
    for attack, answers in rounds.items():  # each attack reaches the code that it aims at
        assert answers.keys() & EXPECTED[attack], (attack, answers)
        assert "403" not in answers
    assert all(client["requests"] for client in report.result["honest"].values())
