"""``nmt completion``: a script with which a shell completes commands, options and the names of recipes."""

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
"""Code for the script that tyro writes. It adds the recipes as subcommands, as tyro does not complete positional
arguments, and joins the lines of descriptions, each of which would be taken for an option. It has no double quotes,
which fish would need escaped."""


@dataclass(frozen=True)
class Completion(Command):
    """Print a script that lets a shell complete commands, options and recipes: source <(nmt completion bash).

    To have it in every new shell, write it where the shell looks for it:
    nmt completion bash > ~/.local/share/bash-completion/completions/nmt.
    """

    computes: ClassVar[bool] = False
    shell: Annotated[Literal["bash", "zsh", "fish"], tyro.conf.Positional]
    """The shell."""

    def __call__(self, console: Console) -> None:
        """Prints the script."""
        from nmt_keras.cli import any_command

        script = io.StringIO()
        with contextlib.redirect_stdout(script), contextlib.suppress(SystemExit):
            tyro.cli(any_command(), prog="nmt", args=["--tyro-print-completion", self.shell], config=SETTINGS)
        before, main, after = script.getvalue().partition("\nif __name__ == ")
        print(f"{before}\n{WITH_RECIPES.format(recipes=list(RECIPES))}{main.lstrip()}{after}", end="")
