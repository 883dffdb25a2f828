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
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_type_hints

import tyro

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
SIMILAR = "Perhaps you meant|Arguments similar to"


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
def one_line_errors(program: str) -> Iterator[None]:
    """Turns the box that tyro draws around an error into a ValueError of one line.

    Args:
        program: Name of the program. The message refers to its --help.

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
        raise ValueError(one_line(said.getvalue(), program)) from None


def one_line(box: str, program: str) -> str:
    """Returns the error message in tyro's box as one line, with the most similar option and a reference to --help."""
    rows = [line.strip().strip("│").strip() for line in box.splitlines() if not line.startswith(("╭", "╰"))]
    if len(rows) > 1 and _is_rule(rows[1]) and not box.startswith("╭"):  # an ASCII box has its title inside
        rows = rows[2:]
    sections: list[list[str]] = [[]]
    for row in filter(None, rows):
        if _is_rule(row):
            sections.append([])
        else:
            sections[-1].append(row)
    message = " ".join(sections[0]).partition(" Got errors:")[0]
    message = re.sub(r"^Error parsing [\w.-]+: ", "", message).replace(" (required)", "").rstrip(".")
    if nearest := _nearest(sections[1:], message):
        message += f". Did you mean {nearest}?"
    if program.endswith(TAKE_TEXT) and re.match("Unrecognized options: -(?:[^-]|-[^\\s=]*[^,\\s=] )", message):
        message += ". Put -- before text that begins with a dash, or pass the text on standard input"
    return f"{message.removesuffix('?')}{'?' if message.endswith('?') else '.'} See {program} --help."


def _nearest(sections: Sequence[Sequence[str]], message: str) -> str | None:
    """Returns the listed option that is most similar to the first unrecognised option. tyro lists them unordered."""
    typed = re.search(r"(?<!\S)--?[\w.-]+", message)
    similar = ("\n".join(section[1:]) for section in sections if re.match(SIMILAR, section[0]))
    whole = (re.sub(r"\{[^}]*\}", lambda choices: choices[0].replace("\n", ""), rows) for rows in similar)  # if wrapped
    listed = [row for rows in whole for row in rows.split("\n") if row.startswith("-")]
    meant = typed[0].replace("_", "-") if typed else ""
    if meant in TENSORFLOW_SERVING or not meant or not listed:
        return TENSORFLOW_SERVING.get(meant)
    # tyro lists the typed option itself if it stands in the wrong place
    named = [row for row in listed if all(name != meant for name in row.split(", "))]
    return max(named, key=lambda row: SequenceMatcher(None, meant, row.split()[0].rstrip(",")).ratio(), default=None)


def _is_rule(row: str) -> bool:
    return len(row) > 2 and set(row) <= {"─", "-"}
