"""``nmt completion``: prints a shell script for completing commands, options and recipe names."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import tyro

from nmt_keras.cli.command import SETTINGS, Command
from nmt_keras.cli.console import Console
from nmt_keras.recipes import RECIPES

WITH_RECIPES = """\
RECIPES = {recipes}
for name in ('train', 'compare', 'recipes'):
    command = COMPLETION_SPEC['subcommands'][name]
    command['subcommands'] = {{name: {{**command, 'description': 'recipe', 'subcommands': {{}}}} for name in RECIPES}}
for command in COMPLETION_SPEC['subcommands'].values():
    for option in command['options']:
        option['description'] = ' '.join(option['description'].split())

"""
"""Code inserted into tyro's script. It adds the recipes as subcommands, because tyro does not complete positional
arguments. It joins the lines of descriptions, because the shell would take each line for an option. It contains no
double quotes, because fish would need them escaped."""


@dataclass(frozen=True)
class Completion(Command):
    """Print a shell script for completing commands, options and recipes: source <(nmt completion bash).

    To load it in every new shell, write it to the shell's folder of completions:
    nmt completion bash > ~/.local/share/bash-completion/completions/nmt.
    """

    computes: ClassVar[bool] = False
    shell: Annotated[Literal["bash", "zsh", "fish"], tyro.conf.Positional]
    """Shell that runs the script."""

    def __call__(self, console: Console) -> None:
        """Prints the script."""
        from nmt_keras.cli import any_command

        script = io.StringIO()
        with contextlib.redirect_stdout(script), contextlib.suppress(SystemExit):
            tyro.cli(any_command(), prog="nmt", args=["--tyro-print-completion", self.shell], config=SETTINGS)
        before, main, after = script.getvalue().partition("\nif __name__ == ")
        print(f"{before}\n{WITH_RECIPES.format(recipes=list(RECIPES))}{main.lstrip()}{after}", end="")
