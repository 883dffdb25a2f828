"""Errors of the command line are one line, with the nearest option and the command for help."""

import json
import re
import subprocess
import sys
from unittest.mock import Mock

import pytest
from servers import ROOT
from tyro import _fmtlib

from nmt_keras import cli
from serve.client.__main__ import main as client


def usage_error(line, fails, monkeypatch):
    """Runs a wrong command line and returns its error message."""
    monkeypatch.setattr(cli, "import_tensorflow", lambda *_: pytest.fail("a command was run"))
    message = fails(line, code=2)
    assert re.fullmatch("nmt(?: serve)?: .*\n", message)
    return message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "train --train.learning-rte 3",
            "nmt: Unrecognized options: --train.learning-rte, 3. Did you mean --train.learning-rate? "
            "See nmt train --help.\n",
        ),
        (
            "translate",
            "nmt: Missing from nmt translate: RUN A run directory, or an exported version. See nmt translate --help.\n",
        ),
        (
            "evaluate x --part foo",
            "nmt: invalid choice 'foo' for argument '--part'. Expected one of ('test', 'valid'). "
            "See nmt evaluate --help.\n",
        ),
        (
            "train --model.encoder.cel gru",
            "nmt: Unrecognized options: --model.encoder.cel, gru. "
            "Did you mean --model.decoder.cell, --model.encoder.cell, --model.encoder.heads? "
            "See nmt train --help.\n",
        ),
    ],
)
@pytest.mark.parametrize(("columns", "boxes"), [("60", True), ("300", False)])
def test_mistakes_are_one_line_for_any_width_and_style_of_the_box(line, message, columns, boxes, fails, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(_fmtlib, "_FORCE_UTF8_BOXES", boxes)
    assert usage_error(line, fails, monkeypatch) == message


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("trian --minutes 3", ("Did you mean 'train'?", "nmt --help")),
        ("recipes tutrial", ("Did you mean 'tutorial'?", "nmt recipes --help")),
        ("train tutrial", ("Did you mean 'tutorial'?", "nmt train --help")),
        ("train --minutes 5 luong-base", ("RECIPE", "nmt train luong-base")),
        ("train --model.dropout 1.5", ("nmt: --model.dropout: ", "1.5")),
        ("train --train.max-tokens 1", ("nmt: --train.max-tokens: ", "received 1")),
        ("train --source.max-tokens 1", ("--source.max-tokens or --target.max-tokens: ", "received 1")),
        ("train --more-epochs 0", ("nmt: --more-epochs: ", "0")),
        ("train --more-epochs 1 --more-minutes 1", ("nmt: --more-minutes, --more-epochs: ", "(1.0, 1.0)")),
        ("train --corpus es es", ("--corpus: expected different files", "('es', 'es')")),
        ("align x mine.tsv --translations", ("nmt: --translations: ", "mine.tsv")),
        ("align x --translations --reverse", ("nmt: --translations: ", "--reverse, which has no effect")),
        ("check", ("nmt: CORPUS: ", "received (None, None, None)")),
        ("check a.tsv --source b", ("nmt: CORPUS: ", "('a.tsv', 'b', None, None)")),
        ("check --source a", ("nmt: CORPUS: ", "('a', None, None)")),
        ("check a --prepared b", ("nmt: --prepared: ", "received 'b'")),
        ("check a.tsv --repaired .", ("nmt: --repaired: expected a file", "received '.'")),
        ("check a --valid b c", ("nmt: --valid: ", "('b', 'c')")),
        ("check a.tsv --corpus b.tsv", ("nmt: --corpus: ", "('b.tsv',)")),
        ("check a.tsv --max-malformed 0.5", ("nmt: --max-malformed: ", "0.5")),
        ("train --profile -1", ("nmt: --profile: ", "-1")),
        ("train --minutes 5 --epochs 1", ("--steps, --epochs, --minutes: ", "received (None, 1.0, 5.0)")),
        ("train --steps 0", ("--steps: ", "received 0")),
        ("train --width -1", ("--width: ", "received -1")),
        ("train --max-malformed 5", ("nmt: --max-malformed: ", "received 5")),
        ("prepare a --to x --max-malformed -1", ("nmt: --max-malformed: ", "received -1")),
        ("prepare a --to x --shards 0", ("nmt: --shards: ", "1 to 512", "received 0")),
        ("select --corpus a b --domain c d --to x.gz --words 0", ("nmt: --words: ", "received 0")),
        ("export x --max-to-keep 0", ("nmt: --max-to-keep: ", "received 0")),
        ("demo --minutes 0", ("--minutes: ", "received 0")),
        ("translate x --search.beam-size 0", ("nmt: --search.beam-size: ", "received 0")),
        ("translate x a.csv --column a --to .", ("nmt: --to: expected a file", "received '.'")),
        ("translate x --n-best 0", ("--n-best: ", "received 0")),
        ("evaluate", ("RUN: ", "received []")),
        ("evaluate x --worst -1", ("--worst: ", "received -1")),
        ("evaluate x --pairs a b --source-column 2", ("--source-column, --target-column: ", "two files")),
        ("evaluate x --pairs a b c", ("--pairs: ", "('a', 'b', 'c')", "several references")),
        ("evaluate x --pairs a --part valid", ("--pairs: ", "--part", "no effect")),
        ("evaluate x --all_pairs --pairs=a", ("--pairs: ", "--all-pairs", "no effect")),
        ("train --prepared x --valid y --source.vocabulary-size 9", ("--prepared: ", "--source.vocabulary-size")),
        ("train --corpus a b --valid c d --corpus.seed 9", ("--valid: ", "--corpus.seed, which has no effect")),
        ("translate x --n-best 2 --split a", ("--n-best: ", "--split")),
        ("prepare --to x --corpus a b --source-column 2", ("--source-column, --target-column: ", "two files")),
        ("evaluate x y --ensemble z", ("--ensemble: ", "received ['x', 'y']")),
        ("compare --to x --updates 5", ("RECIPE: ", "received ()")),
        ("compare luong-dto --to x --updates 5", ("Did you mean 'luong-dot'?", "nmt compare --help")),
        ("compare luong-dot tutorial --to x --updates 5", ("RECIPE: ", "split", "tutorial")),
        ("compare luong-dot --to x", ("Missing from nmt compare: --updates",)),
        ("compare luong-dot --to x --updates 0", ("--updates: ", "received 0")),
        ("compare luong-dot --to x --updates 5 --width 0", ("nmt: --width: ", "received 0")),
        ("compare luong-dot --to x --updates 5 --jobs 0", ("--jobs: ", "received 0")),
        ("compare luong-dot --to x --updates 5 --rates 1 0", ("--rates: ", "(1.0, 0.0)")),
        ("compare luong-dot --to x --updates 5 --seeds 1 1", ("--seeds: ", "(1, 1)")),
        ("prepare --to x", ("FILE: ", "received ()")),
        ("prepare --to x --corpus a b c", ("--corpus: ", "('a', 'b', 'c')")),
        ("plot curves", ("RUN: ", "received ()")),
        ("plot curves x --to x.eps", ("--to: ", ".svg, .png or .pdf", "'x.eps'")),
        ("plot heatmap x", ("SENTENCE: ", "received ()")),
        ("score x a b", ("Unrecognized options: b",)),
        ("score x --source-column -1", ("--source-column: ", "received -1")),
        ("align x --target-column -1", ("--target-column: ", "received -1")),
        ("align x --target-column 0", ("--target-column: ", "received 0")),
        ("serve --port -1", ("--port: ", "-1", "nmt serve --help")),
        ("serve --model-dirr x", ("Did you mean --model-dir",)),
        ("train --lr 1", ("Unrecognized options: --lr, 1.",)),
        ("translate x --beam-size 5", ("Did you mean --search.beam-size?",)),
        ("translate x --n-bst 5", ("Did you mean --n-best?",)),
        ("export x micro-batching-config --max-batchsize 5", ("Did you mean --max-batch-size?",)),
        ("train pairs.tsv", ("recipe: ", "'pairs.tsv'. Did you mean --corpus pairs.tsv?")),
        ("train --max-epochs 3", ("Did you mean --epochs, --more-epochs?",)),
        ("train --steps 1e3", ("nmt: --steps: ", "INT", "'1e3'")),
        ("serve --port abc", ("--port: ", "'abc'.")),
        ("train --model.dropout 0,1", ("nmt: --model.dropout: ", "float", "'0,1'.")),
        ("translate x missing/es.txt", ("SENTENCE: ", "'missing/es.txt'")),
        ("translate x README.md", ("SENTENCE: ", "'README.md'. To read a file, run nmt translate RUN < README.md.")),
        ("plot heatmap x README.md", ("SENTENCE: ", "'README.md'")),
    ],
)
def test_a_wrong_command_line_ends_with_2_before_anything_is_loaded(line, parts, fails, monkeypatch):
    monkeypatch.chdir(ROOT)
    message = usage_error(line, fails, monkeypatch)
    assert [part for part in parts if part not in message] == []
    assert message.endswith("--help.\n")


PLACES = [[], *([name] for name in cli.COMMANDS), *(["plot", picture] for picture in ("curves", "heatmap"))]


@pytest.fixture
def told(capsys, monkeypatch):
    """Runs a command line that prints help, and returns the rows of its boxes."""

    def rows(*line):
        monkeypatch.setenv("COLUMNS", "100")
        monkeypatch.setattr(_fmtlib, "_FORCE_UTF8_BOXES", True)
        with pytest.raises(SystemExit) as stop:
            cli.main(list(line))
        assert stop.value.code == 0
        lines = capsys.readouterr().out.splitlines()[1:]
        # rows that begin with an option are not indented
        return [line.removeprefix("│ ").rstrip("│ ") for line in lines if line.startswith("│")]

    return rows


@pytest.mark.parametrize(
    "line", [[*place, each] for place in PLACES for each in ("--help", "--help-all")], ids=" ".join
)
def test_every_option_has_its_help(line, told):
    rows = told(*line)
    options = [(row, following) for row, following in zip(rows, [*rows[1:], ""], strict=True) if row.startswith("-")]
    assert options
    for row, following in options:
        told = row.partition("  ")[2].strip() or following.strip()
        assert re.match(r"(?!-|\(default|\(required).", told), f"{row} has no help"
        # only the full help shows types; that of a picture is always full
        assert not {"--help-all", "heatmap"}.isdisjoint(line) or "{None}" not in row


def test_help_imports_no_heavy_package():
    heavy = {
        *("tensorflow", "keras", "numpy", "httpx", "matplotlib", "sacrebleu", "sklearn"),
        *("uvicorn", "starlette", "grpc", "prometheus_client"),
    }
    code = (
        "import contextlib, io, sys\n"
        "import nmt_keras.cli as cli\n"
        f"for arguments in {json.dumps(PLACES)}:\n"
        "    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "        cli.parse([*arguments, '--help'])\n"
        f"print({heavy} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout == "set()\n"


@pytest.mark.parametrize("module", ["serve.server", "serve.client", "serve.conformance"])
def test_the_programs_of_serving_report_mistakes_in_one_line_too(module):
    command = [sys.executable, "-m", module, "--no-such-option"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"python -m {module}: .*See python -m {module} --help\.\n", done.stderr)


FAILING = "from nmt_keras.io.usage import orderly_end\nwith orderly_end(''):\n print(1)\n raise SystemExit('An error.')"
# more than the buffer holds
LONG = "from nmt_keras import cli; cli.nmt_keras.__version__ = '9' * 99999; cli.main(['--version'])"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-c", FAILING], r"An error\."),
        (["-c", LONG], r"nmt: .* No space left on device\. Make room\."),
        *(
            (["-m", program, "--help"], r"[\w.]+: .* No space left on device\. Make room\.")
            for program in ("nmt_keras", "serve.server", "serve.client", "serve.conformance")
        ),
    ],
)
def test_a_full_disk_ends_the_output_of_every_program_in_one_line(arguments, told, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert re.fullmatch(rf"{told}\n", done.stderr)


def test_ctrl_c_ends_a_program_in_one_line(capsys, monkeypatch):
    monkeypatch.setattr("serve.client.__main__.Client", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(SystemExit, match="130"):
        client(["Hola."])
    assert capsys.readouterr().err == "serve.client: interrupted.\n"


def test_an_error_shows_control_characters(fails):
    files = ["no\x1b[2J"] * 2
    assert "no\\x1b[2J" in fails("select --words 1 --to no.gz --corpus", *files, "--domain", *files)
