"""The command line: ``nmt`` and ``python -m nmt_keras``. TensorFlow is imported only by commands that compute.

One module per command, and

    command   what every command is
    console   what a person sees beside the answers
    lines     text in and out by lines, as they come
    corpora   which corpus, and where a run keeps what it was
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
import operator
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import tyro

import nmt_keras
from nmt_keras.cli.align import Align
from nmt_keras.cli.average import Average
from nmt_keras.cli.command import Command, named_run, stored_recipe
from nmt_keras.cli.console import Console
from nmt_keras.cli.corpora import corpus_of
from nmt_keras.cli.demo import Demo
from nmt_keras.cli.evaluate import Evaluate
from nmt_keras.cli.export import Export
from nmt_keras.cli.memory import keep_memory
from nmt_keras.cli.plot import Plot
from nmt_keras.cli.prepare import Prepare
from nmt_keras.cli.quiet import import_tensorflow
from nmt_keras.cli.recipes import Recipes
from nmt_keras.cli.score import Score
from nmt_keras.cli.serve import Serve, serve
from nmt_keras.cli.train import Train, recipe_name, training_defaults
from nmt_keras.cli.translate import Translate
from nmt_keras.config import require_choice
from serve.usage import USAGE_ERROR, one_line_errors

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
    "plot": Plot,
    "demo": Demo,
}
LONGEST_MESSAGE = 1000  # characters


def parse(arguments: Sequence[str]) -> Command:
    """The command that a command line gives.

    Options that a run or a recipe has values for show those as their defaults, and change single ones.

    Raises:
        SystemExit: after --help.
        ValueError: there is no such command, recipe or option, or an option's value is impossible.
    """
    name = arguments[0] if arguments else ""
    if name and not name.startswith("-"):
        require_choice("command", tuple(COMMANDS), name)
    begun = _begun(name, arguments[1:])
    kinds: list[Any] = [
        Annotated[
            kind,
            tyro.conf.subcommand(
                each,
                default=begun.get(each, tyro.MISSING_NONPROP),
                description=None if each == name else str(kind.__doc__).partition("\n")[0],  # the list is short
            ),
        ]
        for each, kind in COMMANDS.items()
    ]
    with one_line_errors(f"nmt {name}" if name in COMMANDS else "nmt"):
        command: Command = tyro.cli(
            functools.reduce(operator.or_, kinds),
            prog="nmt",
            description="Neural machine translation with attention. nmt --version says which.",
            args=arguments,
            config=(tyro.conf.OmitSubcommandPrefixes,),
        )
    if isinstance(command, Train) and command.recipe != recipe_name(arguments[1:]):
        raise ValueError(f"RECIPE: expected right after train, before the options: nmt train {command.recipe} ...")
    return command


def _begun(name: str, arguments: Sequence[str]) -> dict[str, Command]:
    """What the options of the command called ``name`` start from: the values of the recipe or run that is named."""
    if name == "train":
        return {name: training_defaults(arguments)}
    run = named_run(arguments)
    if run is None:
        return {}
    search, missing = stored_recipe(run).search, tyro.MISSING
    match name:
        case "translate":
            return {name: Translate(missing, search=search)}
        case "align":
            return {name: Align(missing, search=search)}
        case "evaluate":
            return {name: Evaluate(missing, data=corpus_of(run), search=search)}
        case "export":
            return {name: Export(missing, search=search)}
    return {}


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command; see above for the exit codes."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["serve"]:
        serve(given[1:])
        return
    if given == ["--version"]:
        print(f"nmt {nmt_keras.__version__}")
        return
    try:
        command = parse(given)
    except (OSError, ValueError) as error:
        _fail(USAGE_ERROR, error)
    if arguments is None and isinstance(command, Train | Demo):
        keep_memory()
    _run(command)


def _run(command: Command) -> None:
    console = Console()
    try:
        with warnings.catch_warnings():
            if not command.debug:
                warnings.showwarning = lambda message, *_: console.say(f"nmt: {message}")
            if not isinstance(command, Recipes):
                import_tensorflow()
            command(console)
        sys.stdout.flush()
    except BrokenPipeError:
        console.close()
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to write goes nowhere, quietly
        raise SystemExit(128 + signal.SIGPIPE) from None
    except KeyboardInterrupt as error:
        console.close()
        number = getattr(error, "signal_number", signal.SIGINT)
        again = " The same command goes on from what is saved." if isinstance(command, Train | Demo) else ""
        console.say(f"nmt: {str(error) or 'interrupted'}.{again}")
        raise SystemExit(128 + number) from error
    except _expected() as error:
        console.close()
        if command.debug:
            raise
        _fail(1, error)


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
