"""Writes what pages show of the code: the listings, and the page of recipes.

    python docs/generate.py

A listing is the source of a function, between ``<!-- listing: nmt_keras.layers.losses.masked_cross_entropy -->`` and
``<!-- end -->``. A test compares the pages with the code.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from nmt_keras.config import Recipe
from nmt_keras.recipes import RECIPES

DOCS = Path(__file__).parent
ROOT = DOCS.parent
LISTING = re.compile(r"^<!-- listing: ([\w.]+) -->\n(?:```python\n.*?^```\n<!-- end -->$)?", re.MULTILINE | re.DOTALL)
INTRODUCTION = """# Recipes

A recipe is a Python value, `nmt_keras.config.Recipe`. It contains all settings of a system except the corpus and the
run directory. `nmt recipes` lists the recipes. This page is written from their modules by `python docs/generate.py`.
[Papers and code](papers.md) maps the equations of the papers to the code, and [Results](results.md) lists the scores of
the recipes. The last lines of a recipe name the recipe that it is based on, or the defaults, then the other fields.

The layer sizes of the papers and their optimizers, Adadelta and SGD, need a GPU and days of training. `--width 0.25`
trains the same system with layers a quarter as wide. With Adam, it learns in an hour:

```sh
nmt train luong-feed --width 0.25 --minutes 60 \\
    --train.optimizer adam --train.learning-rate 0.003 --train.warmup-steps 100 --train.decay linear
```

"""


def pages() -> dict[Path, str]:
    """Returns the current content of each page that shows code."""
    recipes = INTRODUCTION + summary() + "".join(section(module) for module in modules())
    written = {path: path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
    found = {path: LISTING.sub(listing, text) for path, text in written.items() if LISTING.search(text)}
    return {**found, DOCS / "recipes.md": recipes.rstrip() + "\n"}


def listing(found: re.Match[str]) -> str:
    """Returns the listing that a comment names."""
    return f"<!-- listing: {found[1]} -->\n```python\n{source_of(found[1])}\n```\n<!-- end -->"


def source_of(name: str) -> str:
    """Returns the source of a function, class or method, with the first line of its docstring."""
    path, inner = module_of(name)
    source = path.read_text(encoding="utf-8")
    node: ast.AST = ast.parse(source)
    for part in inner:
        children = [child for child in ast.iter_child_nodes(node) if getattr(child, "name", None) == part]
        if not children:
            raise ValueError(f"listing: expected {name} in {path.relative_to(ROOT)}, found no {part}.")
        node = children[-1]
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    lines = source.splitlines()
    begin, end = docstring_lines(node)
    if begin < end:  # keep only the first line of the docstring; the reference shows the rest
        lines[begin - 1] += '"""'
        del lines[begin:end]
    last = (node.end_lineno or node.lineno) - (end - begin)
    return textwrap.dedent("\n".join(lines[first - 1 : last]))


def docstring_lines(node: ast.FunctionDef | ast.ClassDef) -> tuple[int, int]:
    """Returns the first and the last line of a docstring. Without a docstring, both are the same line."""
    if ast.get_docstring(node) is None:
        return node.lineno, node.lineno
    docstring = node.body[0]
    return docstring.lineno, docstring.end_lineno or docstring.lineno


def module_of(name: str) -> tuple[Path, list[str]]:
    """Returns the file of the module that ``name`` begins with, and the names inside the module."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        path = ROOT.joinpath(*parts[:end])
        for candidate in (path.with_suffix(".py"), path / "__init__.py"):
            if candidate.is_file():
                return candidate, parts[end:]
    raise ValueError(f"listing: expected a name inside a module of this project, received {name}.")


def modules() -> list[ModuleType]:
    """Returns the modules that define recipes, in the order of ``RECIPES``."""
    folder = ROOT / "nmt_keras" / "recipes"
    found = [importlib.import_module(f"nmt_keras.recipes.{path.stem}") for path in sorted(folder.glob("[!_]*.py"))]
    order = list(RECIPES)
    return sorted(
        (m for m in found if recipes_of(m)), key=lambda m: order.index(next(iter(recipes_of(m).values())).name)
    )


def recipes_of(module: ModuleType) -> dict[str, Recipe]:
    """Returns the recipes that a module assigns and describes, by the name of the variable."""
    values = {name: vars(module)[name] for name in docstrings(Path(inspect.getfile(module)))}
    return {name: value for name, value in values.items() if isinstance(value, Recipe)}


def summary() -> str:
    """Returns a table with one row for each recipe."""
    rows = ["| recipe | tokenizer | encoder | attention | decoder | training |", "|---|---|---|---|---|---|"]
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
    parts, bases = [f"## {title.rstrip('.')}\n\n{text}".rstrip() + "\n\n"], [Recipe(name="defaults")]
    for variable, recipe in recipes_of(module).items():
        compared = ((base.name, settings(recipe, base)) for base in bases)
        base, fields = min(compared, key=lambda one: len(one[1]))
        listed = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        lines = textwrap.fill(f"{base}; {listed}", 120, break_on_hyphens=False)
        parts.append(f"### {recipe.name}\n\n{said.get(variable, '')}\n\n```text\n{lines}\n```\n\n")
        bases.append(recipe)
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


def settings(recipe: Recipe, base: Recipe) -> dict[str, Any]:
    """Returns the fields of a recipe that differ from those of another, by their path, such as ``model.encoder.units``.

    Fields that both sides of the text share are named once, as ``source, target``.
    """
    ours, others = (flat(dataclasses.asdict(one)) for one in (recipe, base))
    found = {name: value for name, value in ours.items() if name != "name" and value != others[name]}
    for name in reversed([name for name in found if name.startswith("source.")]):
        twin = name.replace("source.", "target.")
        if twin in found and found[twin] == found[name]:
            found = {name.replace("source.", "source and target "): found.pop(name)} | found
            del found[twin]
    return found


def flat(fields: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flattens nested fields, by their dotted path."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


if __name__ == "__main__":
    for page, content in pages().items():
        page.write_text(content, encoding="utf-8")
