"""The command line: ``nmt`` and ``python -m nmt_keras``. TensorFlow is imported only by commands that compute.

One module per command, and

    command   what every command is
    console   what a person sees beside the answers
    lines     text in and out by lines, as they come
    memory    a malloc that keeps what is freed
    quiet     TensorFlow without its remarks

Answers go to standard output, all else to standard error. Exit codes:

    0        done
    1        an error, told in one line; --debug shows where it came from
    2        the command line itself is wrong
    128 + N  ended by signal N; 130 after Ctrl-C, 141 where the reader of the output went away
"""

from __future__ import annotations

import functools
import itertools
import operator
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import tyro
from nmt_keras_serve.usage import USAGE_ERROR, one_line_errors

import nmt_keras
from nmt_keras.cli.align import Align
from nmt_keras.cli.average import Average
from nmt_keras.cli.command import SETTINGS, Command, named_run
from nmt_keras.cli.completion import Completion
from nmt_keras.cli.console import Console
from nmt_keras.cli.demo import Demo
from nmt_keras.cli.evaluate import Evaluate
from nmt_keras.cli.export import Export
from nmt_keras.cli.memory import keep_memory
from nmt_keras.cli.plot import PICTURES, Plot
from nmt_keras.cli.prepare import Prepare
from nmt_keras.cli.quiet import import_tensorflow
from nmt_keras.cli.recipes import Recipes
from nmt_keras.cli.score import Score
from nmt_keras.cli.serve import Serve, serving_defaults
from nmt_keras.cli.shortlist import Shortlist
from nmt_keras.cli.train import Train, recipe_name, training_defaults
from nmt_keras.cli.translate import Translate
from nmt_keras.config import require_choice
from nmt_keras.runs.directory import read_recipe
from nmt_keras.runs.origin import read_origin

COMMANDS: dict[str, type[Command]] = {
    "train": Train,
    "evaluate": Evaluate,
    "translate": Translate,
    "align": Align,
    "score": Score,
    "export": Export,
    "serve": Serve,
    "recipes": Recipes,
    "prepare": Prepare,
    "average": Average,
    "shortlist": Shortlist,
    "plot": Plot,
    "demo": Demo,
    "completion": Completion,
}
LONGEST_MESSAGE = 1000  # characters


def parse(arguments: Sequence[str]) -> Command:
    """The command that a command line gives.

    Options that a run or a recipe has values for show those as their defaults, and change single ones.

    Raises:
        SystemExit: after --help.
        ValueError: there is no such command, recipe or option, or an option's value is impossible.
    """
    name, options = (arguments[0], arguments[1:]) if arguments else ("", [])
    if name in ("", "-h", "--help"):
        list_commands(arguments)
    if name.startswith("-"):
        meant = next((f" Write nmt {each} ... {name}." for each in options if each in COMMANDS), "")
        raise ValueError(f"COMMAND: expected one before all options, received {name!r}.{meant} See nmt --help.")
    require_choice("command", tuple(COMMANDS), name)
    if name == "plot" and options and not options[0].startswith("-"):
        require_choice("picture", PICTURES, options[0])
    program, kind = f"nmt {name}", COMMANDS[name]
    begun = _begun(name, options)
    with one_line_errors(program):
        try:
            command: Command = tyro.cli(
                kind,
                prog=program,
                args=options,
                default=tyro.MISSING_NONPROP if begun is None else begun,
                config=SETTINGS,
            )
            command.check()
        except ValueError as error:
            raise ValueError(f"{error} See {program} --help.") from error
    if isinstance(command, Train) and command.recipe != recipe_name(options):
        raise ValueError(f"RECIPE: expected right after train, before the options: nmt train {command.recipe} ...")
    return command


def list_commands(arguments: Sequence[str]) -> NoReturn:
    """Prints what commands there are.

    Raises:
        SystemExit: after --help.
        ValueError: there is no command.
    """
    names: list[Any] = [
        Annotated[_Listed, tyro.conf.subcommand(name, description=str(kind.__doc__).partition("\n")[0])]
        for name, kind in COMMANDS.items()
    ]
    with one_line_errors("nmt"):
        tyro.cli(
            functools.reduce(operator.or_, names),
            prog="nmt",
            description="Neural machine translation with attention. nmt --version says which.",
            args=arguments,
        )
    raise AssertionError(arguments)


@dataclass(frozen=True)
class _Listed:
    """Stands for a command in the list of all, for which the options of none need be known."""


def _begun(name: str, arguments: Sequence[str]) -> Command | None:
    """What the options of the command called ``name`` start from, if not from their own defaults.

    That is the values of the recipe or run that is named. Where RUN comes first, it is looked for nowhere else; but
    evaluation takes several, of which the first that is no exported version counts.
    """
    match name:
        case "train":
            return training_defaults(arguments)
        case "serve":
            return serving_defaults(arguments)
    leading = list(itertools.takewhile(lambda each: not each.startswith("-"), arguments))
    run = named_run((leading if name == "evaluate" else leading[:1]) or _without_ensemble(arguments))
    if run is None:
        return None
    search, missing = read_recipe(run).search, tyro.MISSING
    match name:
        case "translate":
            return Translate(missing, search=search)
        case "align":
            return Align(missing, search=search)
        case "evaluate":
            return Evaluate(missing, data=read_origin(run), search=search)
        case "export":
            return Export(missing, search=search)
    return None


def _without_ensemble(arguments: Sequence[str]) -> list[str]:
    """A command line without the runs that follow --ensemble, which only join the one that is named."""
    kept, joining = list[str](), False
    for each in arguments:
        joining = each == "--ensemble" or (joining and not each.startswith("-"))
        if not joining:
            kept.append(each)
    return kept


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command; see above for the exit codes."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        try:
            _answer(given, anew=arguments is None)
        finally:
            _flush()
    except BrokenPipeError:
        _drop_output()
        raise SystemExit(128 + signal.SIGPIPE) from None


def _answer(given: Sequence[str], anew: bool) -> None:
    """Runs one command, of whose output some may still wait to be written."""
    try:
        if given == ["--version"]:
            print(f"nmt {nmt_keras.__version__}")
            return
        command = parse(given)
    except BrokenPipeError:
        raise
    except OSError as error:  # a run's recipe cannot be read, or this cannot be written
        _fail(1, error)
    except ValueError as error:
        _fail(USAGE_ERROR, error)
    if anew and isinstance(command, Train | Demo):
        keep_memory()
    _run(command)


class Terminated(KeyboardInterrupt):
    """SIGTERM came, from a scheduler perhaps, where nothing else had to be done first."""

    signal_number = signal.SIGTERM


@contextmanager
def _told_of_termination(command: Command) -> Iterator[None]:
    """Ends a command at SIGTERM as at Ctrl-C: with a message, and an exit code that names the signal.

    Training that is under way has its own way to end, and so has a server.
    """
    if isinstance(command, Serve) or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: Any) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends native code, too
        raise Terminated("stopped by SIGTERM")

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _run(command: Command) -> None:
    console = Console()
    try:
        with warnings.catch_warnings(), _told_of_termination(command):
            if not command.shows_traceback:
                warnings.showwarning = lambda message, *_: console.say(f"nmt: {message}")
            if command.computes:
                import_tensorflow(command.threads)
            command(console)
    except BrokenPipeError:
        console.close()
        raise
    except KeyboardInterrupt as error:
        console.close()
        number = getattr(error, "signal_number", signal.SIGINT)
        again = " The same command goes on from what is saved." if isinstance(command, Train | Demo) else ""
        console.say(f"nmt: {str(error) or 'interrupted'}.{again}")
        raise SystemExit(128 + number) from error
    except _expected() as error:
        console.close()
        if command.shows_traceback:
            raise
        _fail(1, error)


def _flush() -> None:
    """Writes what waits in standard output's buffer, and says so where that fails, on a full disk."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        _fail(1, error)


def _drop_output() -> None:
    """Lets what is left to write to standard output go nowhere: the interpreter would try once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _expected() -> tuple[type[Exception], ...]:
    """What may go wrong without a fault in the program: of files, arguments, numbers, and of TensorFlow if it runs."""
    usual = (OSError, ValueError, FloatingPointError, MemoryError)
    tensorflow = sys.modules.get("tensorflow")
    return usual if tensorflow is None else (*usual, tensorflow.errors.OpError)


def _fail(code: int, error: Exception) -> NoReturn:
    """Tells an error in one line, which says all that a message of ours does; TensorFlow's may go on for pages."""
    message = " ".join(str(error).split())
    print(f"nmt: {message if len(message) <= LONGEST_MESSAGE else message[:LONGEST_MESSAGE] + ' ...'}", file=sys.stderr)
    raise SystemExit(code) from error
