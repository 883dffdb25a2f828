"""A wrong command line is told in one line, with the nearest option and where help is."""

import subprocess
import sys
from pathlib import Path

import pytest
from tyro import _fmtlib

import nmt_keras
from nmt_keras import cli
from serve.usage import one_line

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["train", "--train.learning-rte", "3"],
            "nmt: Unrecognized options: --train.learning-rte, 3. Did you mean --train.learning-rate FLOAT? "
            "See nmt train --help.\n",
        ),
        (
            ["translate"],
            "nmt: Missing from nmt translate: RUN A run directory, or an exported version. See nmt translate --help.\n",
        ),
        (
            ["train", "--train.shapes", "0"],
            "nmt: TrainConfig.shapes: expected a positive number, received 0. See nmt train --help.\n",
        ),
        (
            ["evaluate", "x", "--part", "foo"],
            "nmt: invalid choice 'foo' for argument '--part'. Expected one of ('test', 'valid'). "
            "See nmt evaluate --help.\n",
        ),
    ],
)
@pytest.mark.parametrize("columns", ["60", "300"])
@pytest.mark.parametrize("boxes", [False, True])
def test_mistakes_are_one_line_however_the_box_is_drawn(arguments, said, columns, boxes, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(_fmtlib, "_FORCE_UTF8_BOXES", boxes)
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert capsys.readouterr().err == said


def test_the_version_is_told(capsys):
    cli.main(["--version"])
    assert capsys.readouterr().out == f"nmt {nmt_keras.__version__}\n"


@pytest.mark.parametrize("module", ["serve.server", "serve.client", "serve.bulk", "serve.conformance"])
def test_the_programs_of_serving_do_likewise(module):
    command = [sys.executable, "-m", module, "--no-such-option"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"python -m {module}: ")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(f"See python -m {module} --help.\n")


def test_a_box_that_nobody_has_seen_before_still_becomes_a_line():
    assert one_line("", "nmt") == ". See nmt --help."
    assert one_line("something else\n", "nmt") == "something else. See nmt --help."
