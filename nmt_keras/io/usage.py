"""Reads command lines with tyro, and ends programs. An error is one line. tyro is imported when it is needed."""

import contextlib
import dataclasses
import io
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_type_hints

from nmt_keras.io.files import described
from nmt_keras.io.lines import message, print_utf8

Options = TypeVar("Options")
USAGE_ERROR = 2
HELP = frozenset(("-h", "--help", "--help-all"))
"""Options that print a help text."""


def read_options(kind: type[Options], program: str, arguments: Sequence[str] | None, **settings: Any) -> Options:
    """Returns the options of a command line.

    Args:
        kind: Dataclass of the options.
        program: Name of the program in messages.
        arguments: Words of the command line. `None` uses the command line of the process.
        settings: Arguments of ``tyro.cli``.

    Raises:
        SystemExit: With code 0 after --help; with code 2 after an error, which is printed in one line.
    """
    import tyro

    if not HELP.isdisjoint(sys.argv[1:] if arguments is None else arguments):
        join_help(kind)
    try:
        with one_line_errors(program):
            return tyro.cli(kind, prog=program, args=arguments, **settings)
    except ValueError as error:
        print(f"{program}: {error}", file=sys.stderr)
        raise SystemExit(USAGE_ERROR) from error


def join_help(kind: type[Any]) -> None:
    """Joins the lines of each help text in a dataclass of options and in its nested dataclasses.

    Call this before ``tyro.cli``, which would keep the line breaks of a docstring. A field's metadata takes precedence
    over its docstring.
    """
    from docstring_parser import parse_from_object

    options = {each.name: each for each in dataclasses.fields(kind)}
    for base in reversed(kind.__mro__[:-1]):  # the docstring of the most derived class is used
        for text in parse_from_object(base).params:
            if text.arg_name in options and text.description:
                options[text.arg_name].metadata = MappingProxyType({"help": " ".join(text.description.split())})
    for hint in get_type_hints(kind, include_extras=True).values():
        for nested in _dataclasses_in(hint):
            join_help(nested)


def _dataclasses_in(hint: Any) -> Iterator[type[Any]]:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield hint
    for part in get_args(hint):
        yield from _dataclasses_in(part)


@contextlib.contextmanager
def one_line_errors(program: str) -> Iterator[None]:
    """Turns the box that tyro draws around an error into a ValueError of one line that refers to --help of ``program``.

    Then prints as ``print_utf8`` does.

    Raises:
        SystemExit: After --help.
        ValueError: The command line is wrong.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            yield
        sys.stderr.write(said.getvalue())
    except SystemExit as stop:
        if not stop.code:
            raise
        raise ValueError(_one_line(said.getvalue(), program)) from None
    finally:
        print_utf8()


@contextlib.contextmanager
def orderly_end(program: str, after_interrupt: str = "") -> Iterator[None]:
    """Flushes standard output after a program. Ctrl-C, and output that cannot be written, end it in one line.

    Args:
        program: Name of the program in messages.
        after_interrupt: Sentence that follows the message after Ctrl-C.

    Raises:
        SystemExit: With code 130 after Ctrl-C, 141 without a message if the reader of the output has ended, and 1 after
            another error of the system. Then the rest of the output is discarded.
    """
    try:
        try:
            yield
        except KeyboardInterrupt as error:
            print(f"{program}: {str(error) or 'interrupted'}.{after_interrupt}", file=sys.stderr)
            raise SystemExit(128 + getattr(error, "signal_number", signal.SIGINT)) from error
        finally:
            sys.stdout.flush()
    except OSError as error:
        # the interpreter would try to write the rest of the output again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise SystemExit(128 + signal.SIGPIPE) from None
        told = isinstance(error.__context__, SystemExit) and error.__context__.code  # the same error, while it ran
        raise SystemExit(told or f"{program}: {message(described(error))}") from error


def _one_line(box: str, program: str) -> str:
    """Returns the message in a box as one line, with the options that tyro suggests.

    Lines divide a box: first the message, then suggestions. A box of ASCII characters begins with its title.
    """
    rows = [line.strip("│ ") for line in box.splitlines() if not line.startswith(("╭", "╰"))]
    marked = "\n".join("" if len(row) > 2 and set(row) <= {"─", "-"} else row or " " for row in rows)
    first, *others = marked.split("\n\n")[not box.startswith("╭") :]
    message = " ".join(first.split()).partition(" Got errors:")[0].rstrip(".")
    message = re.sub(r"^Error parsing (?!-)[\w.-]+: |^Error parsing | \(required\)", "", message).rstrip(".")
    meant = [row.split()[0] for row in "\n".join(others).splitlines() if row.startswith("--")]
    suggestion = f" Did you mean {', '.join(meant)}?" if message.startswith("Unrecognized") and meant else ""
    return f"{message}.{suggestion} See {program} --help."
