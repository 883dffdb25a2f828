"""``nmt recipes``: lists the recipes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar

import tyro

from nmt_keras.cli.command import Command, Flag
from nmt_keras.cli.console import Console
from nmt_keras.config import require
from nmt_keras.recipes import RECIPES, find_recipe, to_yaml


@dataclass(frozen=True)
class Recipes(Command):
    """List the recipes, or print one."""

    computes: ClassVar[bool] = False
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE")] = None
    """Recipe to print as JSON. Default: one line about each recipe."""
    yaml: Flag = False
    """Print the recipe as YAML. To train with an edited copy, pass the file: nmt train mine.yaml."""
    json: Flag = False
    """Print all recipes as a JSON object, by recipe name."""

    def check(self) -> None:
        """Raises ValueError if there is no such recipe, or if ``--yaml`` is given without a recipe."""
        require(self.name is not None or not self.yaml, "--yaml", "a recipe name before it", self.name)
        if self.name is not None:
            find_recipe(self.name)

    def __call__(self, console: Console) -> None:
        """Prints one recipe, all recipes as JSON, or a line about each recipe."""
        if self.name is not None:
            recipe = find_recipe(self.name)
            print(to_yaml(recipe) if self.yaml else recipe.to_json(), end="")
        elif self.json:
            print(json.dumps({name: asdict(recipe) for name, recipe in RECIPES.items()}, indent=2))
        else:
            for recipe in RECIPES.values():
                encoder, attention, decoder = recipe.model.encoder, recipe.model.attention, recipe.model.decoder
                kind = attention.kind if attention.span == "global" else f"{attention.kind} {attention.span}"
                reading = (
                    "self-attention" if encoder.kind == "self-attention" else f"{encoder.direction} {encoder.cell}"
                )
                print(
                    f"{recipe.name:22} {recipe.source.kind:8} {reading} x {encoder.layers}, "
                    f"attention {kind}, decoder {decoder.units} units"
                )
