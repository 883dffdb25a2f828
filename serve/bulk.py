"""Translates a file of any size by a served model: ``python -m serve.bulk INPUT OUTPUT --url ...``.

Line n of the output is the translation of line n of the input; an empty line stays empty. Lines are streamed, a few
requests travel at a time, and what is done is written at once: after a kill, an interruption or an error the same
command goes on where the output ends. A last line that was cut off in the middle is made again.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, BinaryIO

import tyro
from tqdm import tqdm

from .client import DEFAULT_TEXT_BYTES, Client, ClientError, TranslatedText
from .client.options import ServerOptions
from .usage import read_options

PROGRAM = f"{__package__}.bulk"


@dataclass(frozen=True)
class Options:
    """Translates a file line by line, whatever its size; run again, it goes on where the output ends."""

    input: Annotated[Path, tyro.conf.Positional]
    """UTF-8 text, a sentence or a paragraph per line; - reads standard input."""
    output: Annotated[Path, tyro.conf.Positional]
    """Where the translations go, one line for each line of the input."""
    server: Annotated[ServerOptions, tyro.conf.arg(name="")] = field(default_factory=lambda: ServerOptions(attempts=8))
    lines: int = 64
    """Lines that are sent together."""
    workers: int = 4
    """Requests under way at a time; TensorFlow Serving merges them into batches."""
    max_text_bytes: int = DEFAULT_TEXT_BYTES
    """UTF-8 bytes of a sentence, no more than the server takes; of a longer one the beginning is translated."""

    def __post_init__(self) -> None:
        for name in ("lines", "workers", "max_text_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name.replace('_', '-')}: expected 1 or more, received {getattr(self, name)}.")
        if self.output.exists() and self.input.exists() and self.output.samefile(self.input):
            raise ValueError(f"output: expected another file than the input, received {self.output} for both.")


def translate_file(client: Client, lines: Iterable[bytes], output: Path, batch: int, workers: int) -> int:
    """Appends the translations of those of ``lines`` that ``output`` does not hold yet.

    Args:
        client: whom to ask.
        lines: the input, each with its line break.
        output: made if need be.
        batch: lines that are sent together.
        workers: requests under way at a time. Twice as many batches are held in memory, and no more.

    Returns:
        How many lines held a sentence that was longer than the model reads.

    Raises:
        ClientError: the server failed; what was translated before is in ``output``.
        ValueError: ``output`` has more lines than the input, or a line is not UTF-8.
    """
    done = whole_lines(output)
    numbered = enumerate(lines, 1)
    skipped = sum(1 for _ in itertools.islice(numbered, done))
    if skipped < done:
        raise ValueError(
            f"{output}: expected no more lines than the input's {skipped}, found {done}: is it the output of another?"
        )
    cut = 0
    with (
        output.open("ab") as file,
        tqdm(unit=" lines", initial=done, disable=None, smoothing=0.05) as progress,  # None: a terminal alone
    ):
        for translated in _in_order(client, numbered, batch, workers):
            file.write("".join(text.translation.replace("\n", " ") + "\n" for text in translated).encode())
            file.flush()
            cut += sum(text.truncated for text in translated)
            progress.update(len(translated))
    return cut


def whole_lines(output: Path) -> int:
    """How many whole lines ``output`` holds; what follows the last of them is removed."""
    if not output.exists():
        return 0
    count = end = 0
    with output.open("r+b") as file:
        while block := file.read(1 << 20):
            if breaks := block.count(b"\n"):
                count += breaks
                end = file.tell() - len(block) + block.rindex(b"\n") + 1
        file.truncate(end)
    return count


def _in_order(
    client: Client, lines: Iterator[tuple[int, bytes]], batch: int, workers: int
) -> Iterator[list[TranslatedText]]:
    """The translations of ``lines``, a batch at a time, while later batches are under way."""
    pending: deque[Future[list[TranslatedText]]] = deque()
    pool = ThreadPoolExecutor(workers)
    try:
        while group := list(itertools.islice(lines, batch)):
            pending.append(pool.submit(_translate, client, group))
            if len(pending) >= 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _translate(client: Client, lines: list[tuple[int, bytes]]) -> list[TranslatedText]:
    return client.translate_texts([_text(number, line) for number, line in lines])


def _text(number: int, line: bytes) -> str:
    try:
        return line.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"input, line {number}: expected UTF-8, found byte {line[error.start]:#04x} at column {error.start + 1}. "
            "iconv -c -t utf-8 leaves such bytes out."
        ) from error


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line and translates the file. Exit code 0; 1 after an error; 130 after Ctrl-C."""
    try:
        options = read_options(Options, f"python -m {PROGRAM}", arguments)
        with _open(options.input) as lines, options.server.connect(options.max_text_bytes) as client:
            cut = translate_file(client, lines, options.output, options.lines, options.workers)
    except (ClientError, ValueError, OSError) as error:
        raise SystemExit(f"{PROGRAM}: {error}") from error
    except KeyboardInterrupt as error:
        print(f"{PROGRAM}: interrupted. The same command goes on where the output ends.", file=sys.stderr)
        raise SystemExit(130) from error
    if cut:
        print(
            f"{PROGRAM}: {cut} lines hold a sentence that is longer than the model reads and was cut.", file=sys.stderr
        )


def _open(path: Path) -> BinaryIO:
    return os.fdopen(os.dup(sys.stdin.fileno()), "rb") if str(path) == "-" else path.open("rb")


if __name__ == "__main__":
    main()
