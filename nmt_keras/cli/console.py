"""Messages and progress for the user, on standard error."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

Line = TypeVar("Line")

GROUPS = {
    "TrainConfig": ("train.",),
    "ModelConfig": ("model.",),
    "EncoderConfig": ("model.encoder.",),
    "AttentionConfig": ("model.attention.",),
    "DecoderConfig": ("model.decoder.",),
    "SearchConfig": ("search.",),
    "CorpusConfig": ("corpus.",),
    "TokenizerConfig": ("source.", "target."),
    "FilterConfig": ("filters.",),
    "PairFilters": ("filters.",),
    "RunOptions": ("",),
    "ExportConfig": ("options.",),
    "MicroBatchingConfig": ("",),
}
"""Prefixes of the options that set the fields of each configuration class."""


class Console:
    """Prints messages on standard error, with a progress bar if it is a terminal."""

    def __init__(self) -> None:
        from tqdm import tqdm

        self._tqdm = tqdm
        self._bar: tqdm | None = None
        self.has_shown_updates = False

    def say(self, sentence: str) -> None:
        """Prints a message without disturbing the progress bar. Field names are replaced by option names."""
        self._tqdm.write(with_options(sentence), file=sys.stderr)

    def show(self, step: int, total: int, row: Mapping[str, float]) -> None:
        """Shows the progress of training. ``row`` is the last row of the log."""
        from nmt_keras.training import describe

        terminal, self.has_shown_updates = sys.stderr.isatty(), True
        if self._bar is None:
            parts = "{desc} |{bar}| {percentage:.0f}%"
            self._bar = self._tqdm(disable=not terminal, initial=step - 1, bar_format=parts, dynamic_ncols=True)
        progress = describe(step, total, row)
        self._bar.set_description_str(progress, refresh=False)
        if row.get("step") == step and not terminal:
            self.say(progress)
        self._bar.total = total  # changes if the training time is in minutes: the speed determines the steps
        self._bar.update()

    def count(self, blocks: Iterable[Sequence[Line]]) -> Iterator[tuple[int, Sequence[Line]]]:
        """Yields the number of lines before each block, and the block. Flushes standard output after each one.

        Shows the number of lines, unless the results are printed on the same terminal.
        """
        watched = sys.stderr.isatty() and not sys.stdout.isatty()
        self._bar = self._tqdm(disable=not watched, unit=" lines", dynamic_ncols=True)
        before = 0
        for block in blocks:
            yield before, block
            before += len(block)
            sys.stdout.flush()
            self._bar.update(len(block))
        self.close()

    def close(self) -> None:
        """Removes the progress bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def with_options(message: str) -> str:
    """Returns a message with command-line options in place of fields and arguments.

    If the message gives both names, only the option remains: "max_malformed=0.1 (--max-malformed)" becomes
    "--max-malformed 0.1".
    """

    def option(field: re.Match[str]) -> str:
        prefixes = GROUPS.get(field[1], ())
        name = field[2].replace("_", "-")
        return " or ".join(f"--{prefix}{name}" for prefix in prefixes) or field[0]

    message = re.sub(r"\b(\w+(?:Config|Options|Filters))\.([a-z]\w*)(?: \(--[\w.-]+\))?", option, message)

    both = r"\b[a-z_]+(?: and [a-z_]+)?(?:=([\d.]+\d))? \((--[\w-]+(?:, --[\w-]+)*)\)"
    message = re.sub(both, lambda names: f"{names[2]} {names[1] or ''}".rstrip(), message)
    changed = (
        r"(?<![\w./-])(?:train|model|search|source|target|corpus|filters)\.[\w.]+(?= \S+ -> )"  # fields of recipe.json
    )
    message = re.sub(changed, lambda field: f"--{field[0].replace('_', '-')}", message)
    place = "RUN" if re.match("paths?: expected (a run|runs)", message) else "FILE"
    return re.sub(r"^paths?: ", f"{place}: ", message)
