"""Recipes of documented systems, by name."""

from __future__ import annotations

from nmt_keras.config import Recipe, require_choice
from nmt_keras.recipes.lecture import (
    LECTURE_BIDIRECTIONAL,
    LECTURE_DEEP,
    LECTURE_FED,
    LECTURE_REVERSED,
    LECTURE_RNN,
    LECTURE_SEPARATE,
)
from nmt_keras.recipes.luong import (
    LUONG_BASE,
    LUONG_DROPOUT,
    LUONG_FEED,
    LUONG_GENERAL,
    LUONG_LOCAL_M,
    LUONG_LOCAL_P,
    LUONG_LOCATION,
    LUONG_REPLACE,
    LUONG_REVERSE,
)
from nmt_keras.recipes.rnnencdec import RNNENCDEC_30, RNNENCDEC_50, RNNSEARCH_30, RNNSEARCH_50
from nmt_keras.recipes.rnnsearch import BASE, SAMPLE, SPANISH_ENGLISH
from nmt_keras.recipes.tutorial import TUTORIAL

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        SPANISH_ENGLISH,
        SAMPLE,
        BASE,
        RNNENCDEC_30,
        RNNENCDEC_50,
        RNNSEARCH_30,
        RNNSEARCH_50,
        LUONG_BASE,
        LUONG_REVERSE,
        LUONG_DROPOUT,
        LUONG_LOCATION,
        LUONG_FEED,
        LUONG_GENERAL,
        LUONG_LOCAL_M,
        LUONG_LOCAL_P,
        LUONG_REPLACE,
        TUTORIAL,
        LECTURE_RNN,
        LECTURE_SEPARATE,
        LECTURE_FED,
        LECTURE_DEEP,
        LECTURE_BIDIRECTIONAL,
        LECTURE_REVERSED,
    )
}

__all__ = ["RECIPES", "SAMPLE", "SPANISH_ENGLISH", "find_recipe"]


def find_recipe(name: str) -> Recipe:
    """Returns the recipe ``name``. Raises ValueError with the nearest name if there is none."""
    require_choice("recipe", tuple(RECIPES), name)
    return RECIPES[name]
