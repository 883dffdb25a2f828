"""Recipes: one constant per system. ``find_recipe`` returns a recipe by name, or reads it from a file."""

import dataclasses
import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from nmt_keras.config import Recipe, require, require_choice
from nmt_keras.io.errors import require_shallow
from nmt_keras.io.lines import read_lines
from nmt_keras.io.modules import require_imported
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
    LUONG_CONCAT,
    LUONG_DOT,
    LUONG_DOT_SMALL,
    LUONG_DROPOUT,
    LUONG_FEED,
    LUONG_GENERAL,
    LUONG_GENERAL_SMALL,
    LUONG_LOCAL_M,
    LUONG_LOCAL_P,
    LUONG_LOCATION,
    LUONG_REPLACE,
    LUONG_REVERSE,
)
from nmt_keras.recipes.pytorch import RNNSEARCH_PYTORCH
from nmt_keras.recipes.rnnencdec import RNNENCDEC_30, RNNENCDEC_50, RNNSEARCH_30, RNNSEARCH_50
from nmt_keras.recipes.rnnsearch import BASE, CONDITIONAL_GRU, SAMPLE, SMALL_CORPUS, SPANISH_ENGLISH
from nmt_keras.recipes.self_attention import SELF_ATTENTION
from nmt_keras.recipes.tutorial import TUTORIAL

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        CONDITIONAL_GRU,
        SPANISH_ENGLISH,
        SMALL_CORPUS,
        SAMPLE,
        BASE,
        RNNENCDEC_30,
        RNNENCDEC_50,
        RNNSEARCH_30,
        RNNSEARCH_50,
        RNNSEARCH_PYTORCH,
        LUONG_BASE,
        LUONG_REVERSE,
        LUONG_DROPOUT,
        LUONG_LOCATION,
        LUONG_FEED,
        LUONG_DOT,
        LUONG_GENERAL,
        LUONG_CONCAT,
        LUONG_LOCAL_M,
        LUONG_LOCAL_P,
        LUONG_REPLACE,
        LUONG_DOT_SMALL,
        LUONG_GENERAL_SMALL,
        TUTORIAL,
        SELF_ATTENTION,
        LECTURE_RNN,
        LECTURE_SEPARATE,
        LECTURE_FED,
        LECTURE_DEEP,
        LECTURE_BIDIRECTIONAL,
        LECTURE_REVERSED,
    )
}

__all__ = [
    "CONDITIONAL_GRU",
    "RECIPES",
    "SAMPLE",
    "SMALL_CORPUS",
    "SPANISH_ENGLISH",
    "find_recipe",
    "options_of",
    "to_yaml",
    "train_command",
]


def find_recipe(name: str) -> Recipe:
    """Returns the recipe called ``name``, or the recipe in the file ``name`` if it ends in .yaml, .yml or .json.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: there is no such recipe, or the file holds no recipe. The message suggests the nearest name.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml", ".json"):
        return _read(path)
    is_corpus = path.suffix in (".tsv", ".txt", ".gz", ".zip") or os.path.isfile(name)
    require(not is_corpus, "recipe", "a recipe's name or file (.yaml, .json)", name, f"Did you mean --corpus {name}?")
    require_choice("recipe", tuple(RECIPES), name)
    return RECIPES[name]


def to_yaml(recipe: Recipe) -> str:
    """Returns a recipe as YAML, which ``find_recipe`` reads from a file."""
    import yaml  # imported here so that `nmt --help` is fast

    return yaml.safe_dump(json.loads(recipe.to_json()), sort_keys=False, allow_unicode=True)


def train_command(recipe: Recipe, modules: Iterable[str] = ()) -> str | None:
    """Returns the command that trains ``recipe``, without corpus options, or ``None`` if its name is unknown.

    Args:
        recipe: The recipe.
        modules: Modules that register layers of the recipe.
    """
    if recipe.name not in RECIPES:
        return None
    imports = (f"--import {name}" for name in modules)
    return " ".join(["nmt train", recipe.name, *imports, *map(shlex.quote, options_of(recipe, RECIPES[recipe.name]))])


def options_of(config: Any, known: Any, prefix: str = "") -> Iterator[str]:
    """Yields the words of the options for the fields of a dataclass ``config`` that differ from those of ``known``."""
    for field in dataclasses.fields(config):
        value, other = getattr(config, field.name), getattr(known, field.name)
        if dataclasses.is_dataclass(value):
            yield from options_of(value, other, f"{prefix}{field.name}.")
        elif value != other:
            is_flag = field.type is bool
            name = f"{prefix}{'no-' if is_flag and not value else ''}{field.name}".replace("_", "-")
            yield f"--{name}"
            if not is_flag:
                yield from map(str, value if isinstance(value, tuple) else (value,))


MAX_BYTES = 1 << 16  # of a recipe file, whose parser takes up to a minute for each MiB

_SCALARS = {
    "bool": "true|false|True|False",
    "null": "null|~|",
    "int": r"[-+]?(?:0|[1-9]\d*)",
    "float": r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?",
}
"""Patterns of the scalars in YAML that are not text."""


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object of JSON or YAML. Raises ValueError if a field has several values."""
    found = dict(members)
    if len(found) < len(members):
        ((field, _),) = Counter(name for name, _ in members).most_common(1)
        raise ValueError(f"received several values of {field}")
    return found


def _read(path: Path) -> Recipe:
    """Reads a recipe file or a run's recipe.json. Fields that are missing in the file have their defaults."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Reads what JSON can express: no tags, and no aliases, which can unfold a short file to any size.

        1e-3 is a number, but 010, 1:30, no and 2026-01-01 are text.
        """

        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            if event.anchor or event.tag:  # an alias has an anchor, too
                raise ValueError(
                    f"line {event.start_mark.line + 1} has an anchor, alias or tag. Write the value itself"
                )
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            _object([(key.value, None) for key, _ in node.value if isinstance(key.value, str)])
            return super().construct_mapping(node, deep)

    for kind, pattern in _SCALARS.items():
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"(?:{pattern})$"), None)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: expected a recipe file, found none. nmt recipes NAME prints a recipe.")
    text = "\n".join(read_lines(path, MAX_BYTES))
    try:
        fields = json.loads(text, object_pairs_hook=_object) if path.suffix == ".json" else yaml.load(text, Loader)
        require_shallow(fields)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: expected a recipe as YAML or JSON; {error}.") from error
    if isinstance(fields, dict):
        for field in ("format", "nmt_keras"):  # only in a run's recipe.json
            fields.pop(field, None)
        require_imported(path, fields)
    return Recipe.from_json(json.dumps(fields), str(path))
