"""Writes the page of recipes from their modules: docstrings, and fields that differ from the defaults."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from nmt_keras.config import Recipe
from nmt_keras.recipes import RECIPES

ROOT = Path(__file__).parents[2]
RESULTS = "results.md"
INTRODUCTION = """# Recipes

A recipe is a Python value, `nmt_keras.config.Recipe`. It contains all settings of a system except the corpus and the
run directory. `nmt recipes` lists the recipes. This page is written from their modules when the documentation is built.
[Papers and code](papers.md) maps the equations of the papers to the code{results}.

The layer sizes of the papers and their optimizers, Adadelta and SGD, need a GPU and days of training. `--width 0.25`
trains the same system with layers a quarter as wide. With Adam, it learns in an hour:

```sh
nmt train luong-feed --width 0.25 --minutes 60 \\
    --train.optimizer adam --train.learning-rate 0.003 --train.warmup-steps 100 --train.decay linear
```

"""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds the page of results to the navigation, if it exists."""
    assert config.nav is not None
    if (Path(config.docs_dir) / RESULTS).exists():
        for entry in config.nav:
            if "Recipes" in entry:
                entry["Recipes"].append({"Results": RESULTS})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the page."""
    measured = files.get_file_from_path(RESULTS) is not None
    results = f", and [Results]({RESULTS}) lists the scores of the recipes" if measured else ""
    content = INTRODUCTION.format(results=results) + summary() + "".join(section(module) for module in modules())
    files.append(File.generated(config, "recipes.md", content=content))
    return files


def modules() -> list[ModuleType]:
    """Returns the modules that define recipes, in the order of ``RECIPES``."""
    folder = ROOT / "nmt_keras" / "recipes"
    found = [importlib.import_module(f"nmt_keras.recipes.{path.stem}") for path in sorted(folder.glob("[!_]*.py"))]
    order = list(RECIPES)
    return sorted(
        (m for m in found if recipes_of(m)), key=lambda m: order.index(next(iter(recipes_of(m).values())).name)
    )


def recipes_of(module: ModuleType) -> dict[str, Recipe]:
    """Returns the recipes of a module, by the name of the variable."""
    return {name: value for name, value in vars(module).items() if isinstance(value, Recipe) and name.isupper()}


def summary() -> str:
    """Returns a table with one row for each recipe."""
    rows = ["| recipe | text | encoder | attention | decoder | training |", "|---|---|---|---|---|---|"]
    for recipe in RECIPES.values():
        encoder, attention, decoder, train = (
            recipe.model.encoder,
            recipe.model.attention,
            recipe.model.decoder,
            recipe.train,
        )
        looks = attention.kind if attention.span == "global" else f"{attention.kind}, {attention.span}"
        rate = f"{train.optimizer} {train.learning_rate:g}"
        reads = "self-attention" if encoder.kind == "self-attention" else f"{encoder.cell}, {encoder.direction}"
        writes = "self-attention" if decoder.order == "self-attention" else decoder.cell
        writes = f"conditional {writes}" if decoder.order == "conditional" else writes
        cells = (
            f"[`{recipe.name}`](#{recipe.name})",
            f"{recipe.source.kind}, {recipe.source.vocabulary_size:,}",
            f"{encoder.layers} x {encoder.units} {reads}",
            looks + (", fed" if decoder.input_feeding else ""),
            f"{decoder.layers} x {decoder.units} {writes}",
            f"{rate}, {duration(recipe)}",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n\n"


def duration(recipe: Recipe) -> str:
    """Returns the training time of a recipe with its unit."""
    train = recipe.train
    for unit in ("steps", "epochs", "minutes"):
        if (count := getattr(train, unit)) is not None:
            return f"{count:g} {unit}"
    raise AssertionError("TrainConfig holds exactly one of the three.")


def section(module: ModuleType) -> str:
    """Returns the section of a module: its docstring, and the docstring and fields of each recipe."""
    title, _, text = (inspect.getdoc(module) or "").partition("\n\n")
    said = docstrings(Path(inspect.getfile(module)))
    parts = [f"## {title.rstrip('.')}\n\n{text}\n\n"]
    for variable, recipe in recipes_of(module).items():
        fields = "\n".join(f"    {name} = {value!r}" for name, value in settings(recipe).items())
        parts.append(
            f"### {recipe.name} {{: #{recipe.name} }}\n\n{said.get(variable, '')}\n\n"
            f'??? note "Fields that differ from the defaults"\n\n    ```python\n{fields}\n    ```\n\n'
        )
    return "".join(parts)


def docstrings(file: Path) -> dict[str, str]:
    """Returns the docstring after each assignment of a module, by the name of the variable."""
    statements = ast.parse(file.read_text(encoding="utf-8")).body
    found: dict[str, str] = {}
    for statement, following in pairwise(statements):
        if isinstance(statement, ast.Assign) and isinstance(following, ast.Expr):
            text = ast.literal_eval(following.value)
            found |= {target.id: inspect.cleandoc(text) for target in statement.targets if isinstance(target, ast.Name)}
    return found


def settings(recipe: Recipe) -> dict[str, Any]:
    """Returns the fields of a recipe that differ from the defaults, by their path, such as ``model.encoder.units``."""
    ours, defaults = (flat(dataclasses.asdict(r)) for r in (recipe, Recipe(name="")))
    return {name: value for name, value in ours.items() if name != "name" and value != defaults[name]}


def flat(fields: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flattens nested fields, by their dotted path."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found
