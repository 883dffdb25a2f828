"""Writes the API reference: a page for each module and package, in the order of the tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]

SECTIONS = {
    "Model": "config languages text layers models names recipes",
    "Translation": "search translation",
    "Training": "corpus training runs io",
    "Evaluation": "evaluation plotting markdown",
    "Delivery": "export browser pipelines cli demo",
}
"""Modules of nmt_keras by section. Modules that are not listed are added to the section "Evaluation"."""

HIDDEN = ("__main__",)
SERVING = ("client", "server", "options", "limits", "conformance")
"""Public modules of ``serve``, whose installed name is ``nmt_keras_serve``. The other modules are internal."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds the pages to the section "Reference" of the navigation."""
    assert config.nav is not None
    sections: list[Any] = [{"nmt_keras": "reference/index.md"}]
    for section, names in contents().items():
        sections.append({section: [{name: f"reference/{name}.md"} for name in names]})
    sections.append({"Serving": [{f"nmt_keras_serve.{name}": f"reference/serve-{name}.md"} for name in SERVING]})
    for entry in config.nav:
        if "Reference" in entry:
            entry["Reference"] = sections
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    pages = {"index": directive("nmt_keras")}
    for names in contents().values():
        pages |= {name: page(f"nmt_keras.{name}") for name in names}
    pages |= {f"serve-{name}": page(f"serve.{name}") for name in SERVING}
    for name, markdown in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=markdown))
    return files


def contents() -> dict[str, list[str]]:
    """Returns the modules and packages of nmt_keras by section."""
    found = {*inner_modules("nmt_keras")}.difference(HIDDEN)
    sections = {section: [name for name in names.split() if name in found] for section, names in SECTIONS.items()}
    others = found.difference(*sections.values())
    sections["Evaluation"] += sorted(others)
    return sections


def page(module: str) -> str:
    """Returns the reference page of a module, or of a package with all modules and packages inside it."""
    return "\n".join([directive(module), *(directive(name, level=2) for name in below(module))])


def below(module: str) -> Iterator[str]:
    """Yields the dotted names of the modules and packages inside a package, depth first."""
    for name in inner_modules(module):
        yield f"{module}.{name}"
        yield from below(f"{module}.{name}")


def inner_modules(module: str) -> list[str]:
    """Returns the names of the modules and packages directly inside a package; none inside a module."""
    file = file_of(module)
    if file.name != "__init__.py":
        return []
    children = [c for c in file.parent.iterdir() if c.suffix == ".py" or (c / "__init__.py").exists()]
    return sorted(child.stem for child in children if not child.name.startswith("__"))


def directive(module: str, level: int = 1) -> str:
    """Returns the directive with which mkdocstrings documents the names that a module defines, without its imports."""
    members = [name for name in defined(file_of(module)) if not name.startswith("_")]
    listed = "[]" if not members else "".join(f"\n        - {name}" for name in members)
    title = f"      heading: nmt_keras_{module}\n" if module.startswith("serve.") else ""
    return f"::: {module}\n    options:\n      heading_level: {level}\n{title}      members: {listed}\n"


def file_of(module: str) -> Path:
    """Returns the file of a module, or ``__init__.py`` of a package."""
    path = ROOT.joinpath(*module.split("."))
    package = path / "__init__.py"
    return package if package.exists() else path.with_suffix(".py")


def defined(file: Path) -> list[str]:
    """Returns the names of the functions, classes and documented values at the top of a module, in order."""
    statements = ast.parse(file.read_text(encoding="utf-8")).body
    names = []
    for statement, following in zip(statements, [*statements[1:], None], strict=True):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(statement.name)
        elif isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
    return names
