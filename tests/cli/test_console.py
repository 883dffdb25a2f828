"""The console: a progress bar on a terminal, lines elsewhere."""

import io
import sys

import pytest

from nmt_keras.cli.console import Console, with_options
from nmt_keras.training import describe

ROW = {
    "step": 2, "loss": 1.5, "tokens_per_s": 1234.0, "seconds_left": 90.0, "skipped": 0,
}  # fmt: skip
FIGURES = "loss 1.500, 1,234 tokens/s, 1.5 min left"


@pytest.fixture
def streams(monkeypatch):
    """Sets whether standard output and standard error are terminals. Returns standard error."""

    def put(out, error):
        for name, terminal in (("stdout", out), ("stderr", error)):
            stream = io.StringIO()
            stream.isatty = lambda terminal=terminal: terminal
            monkeypatch.setattr(sys, name, stream)
        return sys.stderr

    return put


@pytest.mark.parametrize("terminal", [True, False])
def test_training_shows_a_bar_on_a_terminal_and_a_line_per_row_of_the_log_elsewhere(terminal, streams):
    """The total number of steps changes from 2 to 3 at step 2. Only this step has a row in the log."""
    said = streams(terminal, terminal)
    console = Console()
    for step, total, row in ((1, 2, {}), (2, 3, ROW), (3, 3, ROW)):
        console.show(step, total, row)
    console.close()
    if terminal:
        assert FIGURES in said.getvalue()
        assert "step 3 of 3: " in said.getvalue()
        assert "100%" in said.getvalue()
        large = {**ROW, "loss": 10.5, "tokens_per_s": 99_999.0, "seconds_left": 5_399.0}
        assert len(f"{describe(999_999, 999_999, large)} |{'bar'}| 100%") <= 80
    else:
        assert said.getvalue() == f"step 2 of 3: {FIGURES}\n"


@pytest.mark.parametrize(
    ("out", "error", "shown"), [(False, True, True), (True, True, False), (False, False, False), (True, False, False)]
)
def test_lines_are_counted_on_a_terminal_that_shows_no_results(out, error, shown, streams):
    said = streams(out, error)
    assert list(Console().count([["a", "b"], ["c"]])) == [(0, ["a", "b"]), (2, ["c"])]
    assert ("lines" in said.getvalue()) == shown
    assert shown or said.getvalue() == ""


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("TrainConfig.max_tokens: expected 2", "--train.max-tokens: expected 2"),
        ("Raise TokenizerConfig.max_tokens.", "Raise --source.max-tokens or --target.max-tokens."),
        ("with RunOptions.previous (--previous) again", "with --previous again"),
        ("or pass max_malformed=0.5 (--max-malformed).", "or pass --max-malformed 0.5."),
        ("Check source_column and target_column (--source-column, --target-column): tabs",
         "Check --source-column, --target-column: tabs"),
        ("path: expected a run, x does not exist.", "RUN: expected a run, x does not exist."),
        ("none with two files (--reverse swaps them)", "none with two files (--reverse swaps them)"),
        ("path: expected a text file, received x.", "FILE: expected a text file, received x."),
        ("the path: /x (see --to)", "the path: /x (see --to)"),
        ("left out: 3 (1 of 2)", "left out: 3 (1 of 2)"),
        ("TrainConfig.__init__() got minuets", "TrainConfig.__init__() got minuets"),
        ("has another recipe: train.max_tokens 40 -> 4, model.encoder.units 3 -> 5.",
         "has another recipe: --train.max-tokens 40 -> 4, --model.encoder.units 3 -> 5."),
        ("has another recipe: filters.max_ratio 3.0 -> 2.0.", "has another recipe: --filters.max-ratio 3.0 -> 2.0."),
        ("train.tsv: 40 -> 4", "train.tsv: 40 -> 4"),
    ],
)  # fmt: skip
def test_messages_name_what_is_typed_on_the_command_line(message, told):
    assert with_options(message) == told
