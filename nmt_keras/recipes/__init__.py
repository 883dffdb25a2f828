"""Recipes: one documented value per system, found by name."""

from __future__ import annotations

from nmt_keras.config import Recipe, require_choice
from nmt_keras.recipes.rnnsearch import SAMPLE, SPANISH_ENGLISH

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (SPANISH_ENGLISH, SAMPLE)}

__all__ = ["RECIPES", "SAMPLE", "SPANISH_ENGLISH", "find_recipe"]


def find_recipe(name: str) -> Recipe:
    """The recipe called ``name``. Raises ValueError naming the nearest if there is none."""
    require_choice("recipe", tuple(RECIPES), name)
    return RECIPES[name]
