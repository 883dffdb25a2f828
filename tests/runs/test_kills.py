"""SIGKILL at random system calls leaves no partial results and loses none. For more kills, run tests/kills.py."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import nmt_keras

ROOT = Path(nmt_keras.__file__).parents[1]


@pytest.mark.long
@pytest.mark.strace
@pytest.mark.parametrize("work", ["training", "export", "prepare", "bulk", "publish"])
def test_a_kill_leaves_nothing_half_visible_and_loses_nothing(work, tmp_path):
    command = [sys.executable, ROOT / "tests/kills.py", "--works", work, "--kills", "2", "--folder", tmp_path]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)[work]["kills"] == 2
