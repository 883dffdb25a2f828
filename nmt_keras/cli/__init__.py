"""The command line: ``nmt`` and ``python -m nmt_keras``. Only commands that compute import TensorFlow.

Each module holds one command or a few similar ones (``corpora``, ``runs``, ``train``, ``translate``), except

    cache     cache of compiled training steps
    command   base classes of the commands
    console   messages and progress for the user
    startup   fast import of TensorFlow

Results go to standard output, everything else to standard error. Exit codes:

    0        done
    1        an error, in one line; --debug shows its traceback
    2        the command line is wrong
    3        nmt check has findings
    128 + N  ended by signal N: 130 after Ctrl-C, 141 if the process that reads the output has ended
"""

import contextlib
import inspect
import os
import platform
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Union

import tyro

import nmt_keras
from nmt_keras.cli.cache import use_compilation_cache
from nmt_keras.cli.check import Check
from nmt_keras.cli.command import SETTINGS, Command, shortened, values_of
from nmt_keras.cli.compare import Compare
from nmt_keras.cli.console import Console, with_options
from nmt_keras.cli.corpora import Prepare, Select
from nmt_keras.cli.evaluate import Evaluate
from nmt_keras.cli.plot import Plot
from nmt_keras.cli.runs import Export, Recipes, Runs, Serve
from nmt_keras.cli.startup import import_tensorflow
from nmt_keras.cli.train import Demo, Train, recipe_name
from nmt_keras.cli.translate import Align, Score, Translate
from nmt_keras.config import require_choice
from nmt_keras.io.files import described
from nmt_keras.io.lines import message, print_utf8
from nmt_keras.io.modules import import_modules
from nmt_keras.io.usage import HELP, USAGE_ERROR, join_help, one_line_errors, orderly_end

COMMANDS: dict[str, type[Command]] = {
    "train": Train,
    "evaluate": Evaluate,
    "compare": Compare,
    "check": Check,
    "runs": Runs,
    "translate": Translate,
    "align": Align,
    "score": Score,
    "export": Export,
    "serve": Serve,
    "recipes": Recipes,
    "select": Select,
    "prepare": Prepare,
    "plot": Plot,
    "demo": Demo,
}

ABOUT = "Neural machine translation with attention. nmt --version prints the version."


def any_command() -> Any:
    """Returns the union of all commands for tyro, with the first line of their descriptions."""
    kinds = [
        Annotated[kind, tyro.conf.subcommand(name, description=str(kind.__doc__).partition("\n")[0])]
        for name, kind in COMMANDS.items()
    ]
    return Union[*kinds]


def parse(arguments: Sequence[str]) -> Command:
    """Parses a command line. If it names a run or a recipe, the defaults of the options come from there.

    Imports the modules of --import first, because runs and recipes may name the layers that they register.

    Raises:
        SystemExit: --help was printed.
        ValueError: there is no such command, recipe or option, or an option's value is invalid.
    """
    short = not {"-h", "--help"}.isdisjoint(arguments[1:])
    name, *options = ["--help" if each == "--help-all" else each for each in arguments or ["--help"]]
    kind, program = COMMANDS.get(name), f"nmt {name}" if name in COMMANDS else "nmt"
    if kind is Serve:
        return Serve.read(program, options)
    import_modules(values_of("--import", options))
    if kind is not None and not HELP.isdisjoint(options):
        join_help(kind)
    with one_line_errors(program):
        try:
            if not name.startswith("-"):
                require_choice("COMMAND", tuple(COMMANDS), name)
            parsed: Command = tyro.cli(
                any_command() if kind is None else shortened(kind, kind.rare) if short else kind,
                prog=program,
                description=inspect.cleandoc(str(kind.__doc__)) if kind else ABOUT,
                args=options if kind else [name, *options],
                default=tyro.MISSING_NONPROP if kind is None or short else kind.defaults(options),
                config=SETTINGS,
            )
            command = replace(parsed, typed=tuple(options))
            command.require_effects(options)
            command.check()
            if isinstance(command, Train) and command.recipe != recipe_name(options):
                raise ValueError(f"RECIPE: expected directly after train, as in: nmt train {command.recipe} ...")
        except ValueError as error:
            raise ValueError(f"{error} See {program} --help.") from error
    return command


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command line, by default that of this process. The module's docstring lists the exit codes."""
    print_utf8(colors=True)
    if arguments is None:
        for each in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(each) != signal.SIG_IGN:  # as under nohup
                signal.signal(each, lambda number, _: sys.exit(128 + number))
    words = sys.argv[1:] if arguments is None else list(arguments)
    trains = words[:1] in (["train"], ["compare"], ["demo"])
    with orderly_end("nmt", " Run the same command again to resume the training." * trains):
        _run(words, may_cache=trains and arguments is None)


def _run(arguments: Sequence[str], may_cache: bool) -> None:
    code, debug, cache = USAGE_ERROR, "--debug" in arguments, None
    try:
        if arguments == ["--version"]:
            print(f"nmt {nmt_keras.__version__}")
            return
        kind, early = COMMANDS.get(arguments[0] if arguments else ""), bool(values_of("--import", arguments))
        command = None if early else parse(arguments)
        console = Console()
        # child processes of a comparison could not empty the cache after an error
        if may_cache and kind is not Compare:
            cache = use_compilation_cache()
        with warnings.catch_warnings(), contextlib.closing(console):
            if not debug:
                warnings.showwarning = lambda message, *_: console.say(f"nmt: {message}")
            if kind is not None and (kind.computes or early):  # the modules of --import import TensorFlow
                if (sys.platform, platform.machine()) != ("linux", "x86_64"):
                    here = f"{sys.platform} on {platform.machine()}"
                    console.say(f"nmt: {here} is untested. Linux on x86-64 is supported, for example in a container.")
                import_tensorflow(kind.threads)
            command = command or parse(arguments)
            code = 1
            command(console)
    except BrokenPipeError:
        raise
    except Exception as error:
        expected: tuple[type[Exception], ...] = (OSError, ValueError, FloatingPointError, MemoryError)
        if (tensorflow := sys.modules.get("tensorflow")) is not None:
            expected += (tensorflow.errors.OpError,)
            if cache is not None and isinstance(error, tensorflow.errors.OpError) and _may_be_of(cache, error, console):
                shutil.rmtree(cache, ignore_errors=True)  # an entry may be damaged, or the disk full
                console.say(f"nmt: emptied the cache of compiled training steps, {cache}. Run the same command again.")
        if not isinstance(error, expected):
            raise
        if debug:
            traceback.print_exc()
        print(f"nmt: {with_options(message(described(error)))}", file=sys.stderr)
        raise SystemExit(code if isinstance(error, ValueError) else 1) from error


def _may_be_of(cache: os.PathLike[str], error: Exception, console: Console) -> bool:
    """Returns whether TensorFlow may have failed to load or to write a compiled step: before the first update."""
    other = "OOM" in str(error) or described(error) != str(error)  # memory, or a reason of the system with its remedy
    return not console.has_shown_updates and (str(cache) in str(error) or not other)
