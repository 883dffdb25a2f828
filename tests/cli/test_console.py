"""What a person sees beside the answers: a bar on a terminal, a line now and then elsewhere."""

import io
import sys

import pytest

from nmt_keras.cli.console import Console

ROW = {
    "step": 2, "loss": 1.5, "perplexity": 4.48, "tokens_per_s": 1234.0, "padding": 0.125, "learning_rate": 5e-4,
    "seconds_left": 90.0, "skipped": 0,
}  # fmt: skip
FIGURES = "loss 1.500 nats/token, perplexity 4.5, 1,234 target tokens/s, 12% padding, rate 5.00e-04, 1.5 min left"


class Stream(io.StringIO):
    """A stream that is a terminal, or none."""

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.fixture
def streams(monkeypatch):
    """Standard output and error, terminals or none."""

    def put(out, error):
        for name, terminal in (("stdout", out), ("stderr", error)):
            monkeypatch.setattr(sys, name, Stream(terminal))
        return sys.stderr

    return put


def test_training_shows_a_bar_on_a_terminal(streams):
    said = streams(True, True)
    console = Console()
    console.show(1, 3, {})
    assert "loss" not in said.getvalue()
    for step in (2, 3):
        console.show(step, 3, ROW)
    console.close()
    assert FIGURES in said.getvalue()
    assert "3/3" in said.getvalue()
    assert "step 2 of 3" not in said.getvalue()


def test_a_bar_s_end_moves_with_the_number_of_steps(streams):
    said = streams(True, True)
    console = Console()
    console.show(1, 2, {})
    for step in (2, 3):
        console.show(step, 3, ROW)
    console.close()
    assert "3/3" in said.getvalue()


def test_training_that_nobody_watches_says_a_line_for_each_row_of_its_log_and_shows_no_bar(streams):
    said = streams(False, False)
    console = Console()
    for step in (1, 2, 3):
        console.show(step, 3, ROW)  # the last row of the log is that of step 2
    console.close()
    assert said.getvalue() == f"step 2 of 3: {FIGURES}\n"


@pytest.mark.parametrize(
    ("out", "error", "shown"), [(False, True, True), (True, True, False), (False, False, False), (True, False, False)]
)
def test_lines_are_counted_on_a_terminal_where_no_answers_come_between(out, error, shown, streams):
    said = streams(out, error)
    console = Console()
    assert list(console.count([["a", "b"], ["c"]])) == [["a", "b"], ["c"]]
    assert ("lines" in said.getvalue()) == shown
    assert shown or said.getvalue() == ""
