"""notebooks/faults: each fault fails its own test only, and the solutions in the README repair it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks" / "faults"


def solutions():
    """Returns the solutions in the README: the faulty lines and the repaired lines."""
    found = re.findall(r"```diff\n(.*?)```", (FOLDER / "README.md").read_text("utf-8"), re.DOTALL)
    return [
        tuple("".join(line[1:] for line in diff.splitlines(keepends=True) if line[0] == sign) for sign in "-+")
        for diff in found
    ]


def repaired(code, numbers):
    for number, (faulty, sound) in enumerate(solutions(), 1):
        assert code.count(faulty) == 1, faulty
        code = code.replace(faulty, sound) if number in numbers else code
    return code


@pytest.mark.long
def test_each_fault_fails_only_its_own_test_and_its_solution_repairs_it(tmp_path):
    """One process runs the tests of all variants, because importing TensorFlow takes most of the time."""
    variants = {"published": set(), "solved": {1, 2, 3, 4}, **{f"only{n}": {1, 2, 3, 4} - {n} for n in (1, 2, 3, 4)}}
    code, tests = ((FOLDER / name).read_text("utf-8") for name in ("translator.py", "test_translator.py"))
    for name, numbers in variants.items():
        (tmp_path / f"{name}.py").write_text(repaired(code, numbers), "utf-8")
        (tmp_path / f"test_{name}.py").write_text(tests.replace("import translator", f"import {name} as translator"))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTEST_ADDOPTS": ""}, capture_output=True, text=True
    )
    failed = {name: set() for name in variants}
    for name, number in re.findall(r"^FAILED test_(\w+)\.py::test_(\d)_", done.stdout, re.MULTILINE):
        failed[name].add(int(number))
    expected = {"published": {1, 2, 3, 4}, "solved": set(), **{f"only{n}": {n} for n in (1, 2, 3, 4)}}
    assert failed == expected, done.stdout[-5000:]
    assert re.search(r"^8 failed, 16 passed", done.stdout, re.MULTILINE), done.stdout[-5000:]
