"""What a person sees beside the answers: sentences and progress, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

Line = TypeVar("Line")


class Console:
    """Says on standard error what happens; progress is a bar on a terminal, and none elsewhere.

    A training that nobody watches says a line now and then instead: its log.
    """

    def __init__(self) -> None:
        from tqdm import tqdm

        self._tqdm = tqdm
        self._bar: tqdm | None = None

    def say(self, sentence: str) -> None:
        """Prints a sentence without disturbing the bar."""
        self._tqdm.write(sentence, file=sys.stderr)
        sys.stderr.flush()

    def show(self, step: int, total: int, row: Mapping[str, float]) -> None:
        """Shows where training stands: what ``training.describe`` says of the newest row."""
        from nmt_keras.training import describe, describe_figures

        terminal = sys.stderr.isatty()
        if self._bar is None:
            self._bar = self._tqdm(disable=not terminal, initial=step - 1, total=total, unit="step", dynamic_ncols=True)
        if row.get("step") == step:  # just made
            self._bar.set_postfix_str(describe_figures(row), refresh=False)
            if not terminal:
                self.say(describe(row, total))
        self._bar.total = total  # minutes become another number of steps once some are made
        self._bar.update()

    def count(self, blocks: Iterable[Sequence[Line]]) -> Iterator[Sequence[Line]]:
        """Passes blocks of lines on; counts those that are done, where that disturbs no output on a terminal."""
        watched = sys.stderr.isatty() and not sys.stdout.isatty()
        self._bar = self._tqdm(disable=not watched, unit=" lines", dynamic_ncols=True)
        for block in blocks:
            yield block
            self._bar.update(len(block))
        self.close()

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
