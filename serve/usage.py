"""Reads command lines. An error is printed as one line."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import io
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise, takewhile
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_type_hints

import tyro

from .lines import print_utf8

Options = TypeVar("Options")
USAGE_ERROR = 2
HELP = frozenset(("-h", "--help", "--help-all"))
"""Options that print a help text."""
TENSORFLOW_SERVING = {
    "--rest-api-port": "--port",
    "--model-base-path": "--model-dir",
    "--model-name": "--model-dir",
    "--file-system-poll-wait-seconds": "--poll-seconds",
    "--monitoring-config-file": "--enable-monitoring",
}
"""Mapping from TensorFlow Serving's name of an option to the server's name."""
TAKE_TEXT = (" translate", " plot", ".client")
"""Ends of the names of programs whose arguments are text."""
_WRONG_TYPE = (
    r"^Error parsing (--[\w.-]+:) (?:no type matching (?:{None}\|)?(\S+) could be instantiated from \["
    r"|(?:invalid literal for|could not convert string to) (int|float)(?:\(\) with base 10)?: )([^\]]*)\]?$"
)
"""Pattern of tyro's messages about a value that is not a number."""
SIMILARITY = 0.8
"""Minimum similarity of a suggested option, from 0 to 1."""


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
    if not HELP.isdisjoint(sys.argv[1:] if arguments is None else arguments):
        join_help(kind)
    try:
        with one_line_errors(program, kind):
            return tyro.cli(kind, prog=program, args=arguments, **settings)
    except ValueError as error:
        print(f"{program}: {error}", file=sys.stderr)
        raise SystemExit(USAGE_ERROR) from error


def join_help(kind: type[Any]) -> None:
    """Joins the lines of each help text in a dataclass of options and in its nested dataclasses.

    Call this before ``tyro.cli``, which would keep the line breaks of a docstring. A field's metadata takes precedence
    over its docstring.
    """
    options = {each.name: each for each in dataclasses.fields(kind)}
    for base in reversed(kind.__mro__):  # the docstring of the most derived class is used
        if not dataclasses.is_dataclass(base):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for pair in pairwise(definition.body):
            match pair:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    if name in options:
                        options[name].metadata = MappingProxyType({"help": " ".join(text.split())})
    for hint in get_type_hints(kind, include_extras=True).values():
        for nested in _dataclasses_in(hint):
            join_help(nested)


def _dataclasses_in(hint: Any) -> Iterator[type[Any]]:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield hint
    for part in get_args(hint):
        yield from _dataclasses_in(part)


@contextlib.contextmanager
def one_line_errors(
    program: str, kind: type[Any] | None = None, other_names: Mapping[str, str] = TENSORFLOW_SERVING
) -> Iterator[None]:
    """Turns the box that tyro draws around an error into a ValueError of one line. Then prints as ``print_utf8`` does.

    Args:
        program: Name of the program. The message refers to its --help.
        kind: Dataclass of the options that the message may suggest.
        other_names: Mapping from names of options in other programs to names of options here.

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
        names = [] if kind is None else list(option_names(kind))
        raise ValueError(one_line(said.getvalue(), program, names, other_names)) from None
    finally:
        print_utf8()


def option_names(kind: type[Any], prefix: str = "--") -> Iterator[str]:
    """Yields the options of a dataclass and of its nested dataclasses, such as ``--train.learning-rate``."""
    hints = get_type_hints(kind, include_extras=True)
    for each in dataclasses.fields(kind):
        hint, name = hints[each.name], each.name.replace("_", "-")
        markers, groups = getattr(hint, "__metadata__", ()), list(_dataclasses_in(hint))
        is_subcommand = (get_args(hint)[0] if markers else hint) not in groups  # its options have no prefix
        is_unnamed = any(getattr(marker, "name", None) == "" for marker in markers)
        for group in groups:
            yield from option_names(group, "--" if is_subcommand else prefix if is_unnamed else f"{prefix}{name}.")
        if not groups and tyro.conf.Positional not in markers:
            yield f"{prefix}{name}"


def one_line(box: str, program: str, names: Sequence[str], other_names: Mapping[str, str]) -> str:
    """Returns the error message in tyro's box as one line, with a similar option and a reference to --help.

    Args:
        box: The message that tyro prints.
        program: Name of the program.
        names: Names of the options that the message may suggest.
        other_names: Mapping from names of options in other programs to names of options here.
    """
    rows = [line.strip().strip("│").strip() for line in box.splitlines() if not line.startswith(("╭", "╰"))]
    if len(rows) > 1 and _is_rule(rows[1]) and not box.startswith("╭"):  # an ASCII box has its title inside
        rows = rows[2:]
    message = " ".join(takewhile(lambda row: not _is_rule(row), filter(None, rows))).partition(" Got errors:")[0]
    message = re.sub(_WRONG_TYPE, r"\1 expected \2\3, received \4", message.rstrip("."))
    message = re.sub(r"^Error parsing [\w.-]+: | \(required\)", "", message).rstrip(".")
    message = message.replace("argument 'path'", "RUN")
    typed = re.match(r"Unrecognized [^:]*: (--?[\w.-]+)", message)
    if typed and (nearest := _nearest(typed[1].replace("_", "-"), names, other_names)):
        message += f". Did you mean {nearest}?"
    if program.endswith(TAKE_TEXT) and re.match("Unrecognized options: -(?:[^-]|-[^\\s=]*[^,\\s=] )", message):
        message += ". Put -- before text that begins with a dash, or pass the text on standard input"
    return f"{message.removesuffix('?')}{'?' if message.endswith('?') else '.'} See {program} --help."


def _nearest(typed: str, names: Sequence[str], other_names: Mapping[str, str]) -> str | None:
    """Returns the option in ``names`` that has the name ``typed`` elsewhere, or is most similar to it."""
    if (meant := other_names.get(typed)) and meant.split()[0] in names:
        return meant

    def similarity(name: str) -> tuple[float, int]:
        last = f"--{name.lstrip('-').rpartition('.')[2]}"
        return max(SequenceMatcher(None, typed, each).ratio() for each in (name, last)), -len(name)

    nearest = max(names, key=similarity, default=None)
    return nearest if nearest is not None and similarity(nearest)[0] >= SIMILARITY else None


def _is_rule(row: str) -> bool:
    return len(row) > 2 and set(row) <= {"─", "-"}
