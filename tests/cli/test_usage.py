"""A wrong command line is told in one line, with the nearest option and where help is."""

import subprocess
import sys
from pathlib import Path

import pytest
from nmt_keras_serve.usage import one_line
from tyro import _fmtlib

import nmt_keras
from nmt_keras import cli

ROOT = Path(__file__).parents[2]


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
            ["train", "--train.length-buckets", "0"],
            "nmt: TrainConfig.length_buckets: expected a positive number, received 0. See nmt train --help.\n",
        ),
        (
            ["evaluate", "x", "--part", "foo"],
            "nmt: invalid choice 'foo' for argument '--part'. Expected one of ('test', 'valid'). "
            "See nmt evaluate --help.\n",
        ),
        (
            ["train", "--model.encoder.cel", "gru"],
            "nmt: Unrecognized options: --model.encoder.cel, gru. Did you mean --model.encoder.cell "
            "{tanh,gru,gru-reset-after,lstm}? See nmt train --help.\n",
        ),
        (
            ["--debug", "recipes", "tutorial"],
            "nmt: COMMAND: expected one before all options, received '--debug'. Write nmt recipes ... --debug. "
            "See nmt --help.\n",
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("recipes tutrial", "Did you mean 'tutorial'? See nmt recipes --help."),
        ("evaluate", "RUN: expected at least one run directory, received ()."),
        ("evaluate x --worst -1", "--worst: expected 0 or more sentences to show, received -1."),
        ("evaluate x --gold g", "--gold: expected --pairs beside it"),
        ("prepare --to x", "FILE: expected at least one, received ()."),
        (
            "prepare --to x --corpus a b c",
            "--corpus: expected one file, or two: source and target, received ('a', 'b',",
        ),
        ("plot curvs", "Did you mean 'curves'?"),
        ("plot curves", "RUN: expected at least one run directory, received ()."),
        ("plot curves x --to x.pdf", "--to: expected a file name that ends in .svg or .png, received 'x.pdf'."),
        ("plot heatmap x", "SENTENCE: expected at least one sentence, received ()."),
        ("score x a b c", "FILE: expected one of lines source<TAB>target, or a source and a target file, received"),
        ("align x a b c", "FILE: expected one of lines source<TAB>target, or a source and a target file, received"),
        ("evaluate x y --ensemble z", "--ensemble: expected exactly one RUN, which it joins, received ['x', 'y']."),
        (
            "score x a b --source-column 1",
            "--source-column, --target-column: expected none with two files, received (1,",
        ),
        ("score x --source-column -1", "--source-column: expected a column counted from 0, received -1."),
        (
            "align x --target-column 0",
            "--target-column: expected another column than --source-column names, received 0.",
        ),
        ("align x a --translations", "--translations: expected sentences on standard input, received ('a',)."),
        ("translate x --n-best 0", "--n-best: expected at least 1, received 0."),
        ("serve --port -1", "--port: expected 0 to 65535, received -1. See nmt serve --help."),
        ("serve --model-dirr x", "Did you mean --model-dir"),
        ("completion tcsh", "Expected one of ('bash', 'zsh', 'fish')"),
    ],
)
def test_a_command_line_that_cannot_be_meant_ends_with_2_before_anything_is_loaded(
    arguments, said, capsys, monkeypatch
):
    monkeypatch.setattr(cli, "_run", lambda command: pytest.fail(f"{command} was run"))
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments.split())
    told = capsys.readouterr().err
    assert stop.value.code == 2
    assert told.count("\n") == 1
    assert said in told


def test_of_the_options_that_are_alike_the_nearest_is_named():
    rows = [
        "╭─ error ─╮",
        "Unrecognized options: --model.encoder.cel",
        "-----",
        "Perhaps you meant:",
        "--model.decoder.cell {gru,lstm}",
        "its help",
        "--model.encoder.cell {gru,lstm}",
    ]
    assert "Did you mean --model.encoder.cell {gru,lstm}? See" in one_line("\n".join(rows), "nmt")
    rows[1], rows[4], rows[6] = "Unrecognized or misplaced options: --debug", "--debug", "--debugger"
    assert "Did you mean --debugger? See" in one_line("\n".join(rows), "nmt")


PLACES = [[], *([name] for name in cli.COMMANDS), *(["plot", picture] for picture in cli.PICTURES)]


@pytest.mark.parametrize("place", PLACES, ids="-".join)
def test_every_option_has_its_help(place, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(_fmtlib, "_FORCE_UTF8_BOXES", True)
    with pytest.raises(SystemExit) as stop:
        cli.main([*place, "--help"])
    assert stop.value.code == 0
    rows = [line.strip("│ ").strip() for line in capsys.readouterr().out.splitlines()[1:] if line.startswith("│")]
    options = [row for row in rows if row.startswith("-")]
    assert options
    for row, following in zip(rows, [*rows[1:], ""], strict=True):
        if row.startswith("-"):
            _, _, beside = row.partition("  ")
            told = beside.strip() or following
            assert told, row
            assert not told.startswith(("-", "(default", "(required")), f"{row} has no help"


def test_the_version_is_told(capsys):
    cli.main(["--version"])
    assert capsys.readouterr().out == f"nmt {nmt_keras.__version__}\n"


@pytest.mark.parametrize(
    "module", ["serve.server", "serve.client", "serve.bulk", "serve.conformance", "nmt_keras_serve.client"]
)
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
