"""Translates a file of any size with a served model: ``python -m nmt_keras_serve.bulk INPUT OUTPUT --url ...``.

Line n of the output is the translation of line n of the input. An empty line stays empty. Lines are streamed, and
translations are written at once into ``OUTPUT.bulk.partial``, which is renamed at the end. After a kill, an
interruption or an error, the same command resumes at the end of that file. An incomplete last line is translated again.
An existing output is never changed.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, BinaryIO

import portalocker
import tyro
from tqdm import tqdm

from .client import DEFAULT_TEXT_BYTES, Client, ClientError, TranslatedText
from .client.options import ServerOptions
from .lines import CUT, STANDARD_INPUT, STDIN, one_line, open_text, tell_lines, text_blocks
from .usage import read_options

PROGRAM = f"{__package__}.bulk"


@dataclass(frozen=True)
class Options:
    """Translates a file of any size line by line. An interrupted translation is resumed."""

    input: Annotated[Path, tyro.conf.Positional]
    """Text in UTF-8, plain or packed, with a sentence or a paragraph per line. Pass - to read standard input."""
    output: Annotated[Path, tyro.conf.Positional]
    """New file of the translations, one line for each line of the input. Until it is complete, it is named
    OUTPUT.bulk.partial."""
    server: Annotated[ServerOptions, tyro.conf.arg(name="")] = field(default_factory=lambda: ServerOptions(attempts=8))
    lines: int = 64
    """Number of lines that a worker translates at a time. Each of its requests holds up to 64 of their sentences."""
    workers: int = 4
    """Number of concurrent requests. TensorFlow Serving merges them into batches."""
    max_text_bytes: int = DEFAULT_TEXT_BYTES
    """Maximum size of a sentence in UTF-8 bytes, at most the server's limit. Longer sentences are cut."""

    def __post_init__(self) -> None:
        for name in ("lines", "workers", "max_text_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name.replace('_', '-')} must be 1 or more. Received: {getattr(self, name)}.")
        if str(self.output) == STANDARD_INPUT or (self.output.exists() and not self.output.is_file()):
            raise ValueError(f"Output must be a regular file, so that it can be resumed. Received: {self.output}.")
        if self.output.exists() and self.input.exists() and self.output.samefile(self.input):
            raise ValueError(f"Input and output must be different files. Received: {self.output} for both.")


def translate_file(client: Client, lines: Iterable[str], output: Path, batch: int, workers: int) -> list[int]:
    """Writes the translations of ``lines`` to ``output``. Resumes an interrupted translation.

    If ``output`` exists and has as many lines as the input, nothing is done. It is never changed.

    Args:
        client: Client of the model.
        lines: Lines of the input, without their ends.
        output: File of the translations. It appears when it is complete; see ``partial_file``.
        batch: Number of lines that a worker translates at a time.
        workers: Number of concurrent requests. At most ``2 * workers`` batches are in memory.

    Returns:
        Numbers of the lines with a truncated sentence, from 1.

    Raises:
        ClientError: The server failed. The partial file holds the translations so far.
        ValueError: ``output`` exists and has another number of lines than the input; another process is writing it; the
            partial file has more lines than the input.
    """
    partial = partial_file(output)
    cut: list[int] = []
    if output.exists():
        _require_complete(output, lines)
        return cut
    with _appending(partial) as file:
        done = whole_lines(partial)
        remaining = iter(lines)
        skipped = sum(1 for _ in itertools.islice(remaining, done))
        if skipped < done:
            raise ValueError(
                f"{partial} has {done} lines, but the input has {skipped}. The file may belong to another input. Pass "
                "another output."
            )
        if done:
            _say(f"resuming after line {done:,}. If {partial} belongs to another input or model, remove it first.")
        # disable=None: shows progress only on a terminal
        with tqdm(unit=" lines", initial=done, disable=None, smoothing=0.05) as progress:
            for translated in _in_order(client, remaining, batch, workers):
                file.write("".join(one_line(text.translation) + "\n" for text in translated).encode())
                file.flush()
                cut += [number for number, text in enumerate(translated, done + 1) if text.truncated]
                done += len(translated)
                progress.update(len(translated))
        os.fsync(file.fileno())
        if output.exists():
            raise ValueError(f"{output} was created meanwhile. The translations are in {partial}.")
        os.rename(partial, output)
    return cut


def partial_file(output: Path) -> Path:
    """Returns the file of an incomplete translation. Its name proves that this command has written it."""
    return output.with_name(f"{output.name}.bulk.partial")


def _require_complete(output: Path, lines: Iterable[str]) -> None:
    """Raises ValueError unless ``output`` has as many lines as the input."""
    with output.open("rb") as file:
        there, wanted = sum(1 for _ in file), sum(1 for _ in lines)
    if there != wanted:
        raise ValueError(
            f"{output} exists and has {there} lines, but the input has {wanted}. It is not changed. Pass the input "
            "first and a new output second."
        )


@contextmanager
def _appending(output: Path) -> Iterator[BinaryIO]:
    """Opens a partial file and locks it. The lock has no effect on file systems without locks.

    Raises:
        ValueError: Another process has locked it, or has just completed it.
    """
    with output.open("ab") as file:
        try:
            portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
        except portalocker.AlreadyLocked as error:
            raise ValueError(
                f"{output}: another process is writing this file. Wait until it ends, or pass another output."
            ) from error
        except portalocker.LockException:
            pass
        if not (output.exists() and os.path.samestat(os.fstat(file.fileno()), output.stat())):
            raise ValueError(f"{output}: another process has just completed this file. Run the same command again.")
        yield file


def whole_lines(output: Path) -> int:
    """Returns the number of complete lines in ``output``, and removes an incomplete last line."""
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


def _in_order(client: Client, lines: Iterator[str], batch: int, workers: int) -> Iterator[list[TranslatedText]]:
    """Yields the translations of ``lines`` batch by batch, while later batches are being translated."""
    pending: deque[Future[list[TranslatedText]]] = deque()
    pool = ThreadPoolExecutor(workers)
    try:
        while group := list(itertools.islice(lines, batch)):
            pending.append(pool.submit(client.translate_texts, group))
            if len(pending) >= 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line and translates the file. The exit code is 0, 1 after an error, 130 after Ctrl-C."""
    try:
        options = read_options(Options, f"python -m {PROGRAM}", arguments)
        name = STDIN if str(options.input) == STANDARD_INPUT else str(options.input)
        with open_text(options.input) as stream, options.server.connect(options.max_text_bytes) as client:
            lines = itertools.chain.from_iterable(text_blocks(stream, name, _say))
            cut = translate_file(client, lines, options.output, options.lines, options.workers)
    except (ClientError, ValueError, OSError) as error:
        raise SystemExit(f"{PROGRAM}: {error}") from error
    except KeyboardInterrupt as error:
        print(f"{PROGRAM}: interrupted. Run the same command to resume.", file=sys.stderr)
        raise SystemExit(130) from error
    tell_lines(_say, CUT, cut, name)


def _say(message: str) -> None:
    print(f"{PROGRAM}: {message}", file=sys.stderr)


if __name__ == "__main__":
    main()
