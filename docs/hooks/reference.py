"""Writes the API reference: a page for each module and package, found in the tree, in the order of the walk."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]

SECTIONS = {
    "Model": "config text layers models recipes",
    "Translation": "search translation",
    "Training": "corpus training runs files",
    "Evaluation": "evaluation plotting",
    "Delivery": "export pipelines cli demo",
}
"""Modules of nmt_keras by section; any other is listed at the end of the last but one."""

HIDDEN = ("__main__",)
SERVING = ("client", "bulk", "server", "options", "limits", "conformance")
"""What of ``serve`` others may rely on; the rest is the server's own."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the pages into the navigation, where it names the section."""
    assert config.nav is not None
    sections: list[Any] = [{"nmt_keras": "reference/index.md"}]
    for section, names in contents().items():
        sections.append({section: [{name: f"reference/{name}.md"} for name in names]})
    sections.append({"Serving": [{f"serve.{name}": f"reference/serve-{name}.md"} for name in SERVING]})
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
    """Modules and packages of nmt_keras by section."""
    children = sorted((ROOT / "nmt_keras").iterdir())
    found = {c.stem for c in children if c.suffix == ".py" or (c / "__init__.py").exists()}
    found -= {"__init__", *HIDDEN}
    sections = {section: [name for name in names.split() if name in found] for section, names in SECTIONS.items()}
    others = found.difference(*sections.values())
    sections["Evaluation"] += sorted(others)
    return sections


def page(module: str) -> str:
    """The reference of a module; of a package, what it defines itself and then each of its modules."""
    file = file_of(module)
    inner = sorted(child.stem for child in file.parent.glob("[!_]*.py")) if file.name == "__init__.py" else []
    return "\n".join([directive(module), *(directive(f"{module}.{name}", level=2) for name in inner)])


def directive(module: str, level: int = 1) -> str:
    """The line that makes mkdocstrings document a module: what it defines, not what it passes on from others."""
    members = [name for name in defined(file_of(module)) if not name.startswith("_")]
    listed = "[]" if not members else "".join(f"\n        - {name}" for name in members)
    return f"::: {module}\n    options:\n      heading_level: {level}\n      members: {listed}\n"


def file_of(module: str) -> Path:
    """The file that holds a module, or a package's own definitions."""
    path = ROOT.joinpath(*module.split("."))
    package = path / "__init__.py"
    return package if package.exists() else path.with_suffix(".py")


def defined(file: Path) -> list[str]:
    """The functions, classes and documented values at the top of a module, in order."""
    statements = ast.parse(file.read_text(encoding="utf-8")).body
    names = []
    for statement, following in zip(statements, [*statements[1:], None], strict=True):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(statement.name)
        elif isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
    return names
