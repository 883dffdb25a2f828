"""``nmt recipes``: lists the recipes."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import tyro

from nmt_keras.cli.command import Command, Console
from nmt_keras.recipes import RECIPES, find_recipe, to_yaml


@dataclass(frozen=True)
class Recipes(Command):
    """List the recipes, or print one as YAML.

    To train with an edited copy, write it to a file and pass the file: nmt train mine.yaml.
    """

    computes: ClassVar[bool] = False
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE")] = None
    """Recipe to print. Default: one line about each recipe."""

    def check(self) -> None:
        """Raises ValueError if there is no such recipe."""
        if self.name is not None:
            find_recipe(self.name)

    def __call__(self, console: Console) -> None:
        """Prints one recipe, or a line about each recipe."""
        if self.name is not None:
            print(to_yaml(find_recipe(self.name)), end="")
            return
        for recipe in RECIPES.values():
            encoder, attention, decoder = recipe.model.encoder, recipe.model.attention, recipe.model.decoder
            kind = attention.kind if attention.span == "global" else f"{attention.kind} {attention.span}"
            reading = "self-attention" if encoder.kind == "self-attention" else f"{encoder.direction} {encoder.cell}"
            print(
                f"{recipe.name:22} {recipe.source.kind:8} {reading} x {encoder.layers}, "
                f"attention {kind}, decoder {decoder.units} units"
            )
