"""Adds a page for each notebook that has outputs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

ROOT = Path(__file__).parents[2]
BADGE = re.compile(r"\[!\[Open in Colab\]\([^)]*\)\]\(([^)]*)\)")
PICTURE = re.compile(r"\]\(data:image/png;base64,[^)]*\)")
LINK = re.compile(r"\]\((\d-[\w-]+)\.ipynb\)")
OUTSIDE = re.compile(r"\]\(((?:\.\./)*)\.\./notebooks/(\d-[\w-]+)\.ipynb")
SERVING = re.compile(r"\]\(((?:\.\./)*)\.\./serve/README\.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages and their pictures."""
    notebooks = {path.stem: read(path) for path in (ROOT / "notebooks").glob("*.ipynb")}
    executed = {name: notebook for name, notebook in notebooks.items() if has_outputs(notebook)}
    for name, notebook in executed.items():
        text, resources = MarkdownExporter().from_notebook_node(
            notebook, resources={"unique_key": "output", "output_files_dir": name}
        )
        for file, content in resources["outputs"].items():
            files.append(File.generated(config, f"notebooks/{file}", content=content))
        text = BADGE.sub(r"[Open in Colab](\1)", text)  # the site loads nothing from other hosts
        text = PICTURE.sub("](../architecture.svg)", text)  # the picture that notebook 0 contains
        text = LINK.sub(lambda link: f"]({target(link[1], executed)})", text)
        text = text.replace("](../docs/", "](../")  # the site's root is docs
        files.append(File.generated(config, f"notebooks/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replaces links to notebooks and to ``serve/README.md`` by links to their pages."""
    return OUTSIDE.sub(r"](\1notebooks/\2.md", SERVING.sub(r"](\1serving.md", markdown))


def read(path: Path) -> nbformat.NotebookNode:
    """Returns a notebook."""
    return nbformat.read(path, as_version=4)


def has_outputs(notebook: nbformat.NotebookNode) -> bool:
    """Returns ``True`` if a cell of the notebook has outputs."""
    return any(cell.get("outputs") for cell in notebook.cells)


def target(name: str, pages: dict[str, nbformat.NotebookNode]) -> str:
    """Returns the link to a notebook: its page if it has one, else its file in the repository."""
    if name in pages:
        return f"{name}.md"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return f"{project['urls']['Homepage']}/blob/main/notebooks/{name}.ipynb"
