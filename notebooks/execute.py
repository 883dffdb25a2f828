#!/usr/bin/env python3
"""Executes notebooks and writes the outputs into the notebooks.

    python -m notebooks.execute --corpus spa-eng.zip
    python -m notebooks.execute 0-nmt-with-attention

Each code cell stores a hash of its source, and each notebook one of the recipes. A test compares them, so that outputs
belong to their code and to its recipes. Changes of the library that leave the recipes as they are need a new execution
only if they change what a notebook shows: run the notebooks again before a release.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import nbformat
import tyro
from nbclient import NotebookClient

from nmt_keras.config import Recipe
from nmt_keras.io.startup import keep_freed_memory
from nmt_keras.recipes import SAMPLE, SPANISH_ENGLISH

ROOT = Path(__file__).parents[1]
EXECUTED = (
    "0-nmt-with-attention",
    "2-train",
    "1-step-by-step",
    "3-attention",
    "4-export-and-serve",
    "5-your-own-corpus",
)
"""Notebooks that are committed with outputs, in the order of their execution: notebook 1 uses the run of notebook 2."""
HASH = "executed_source_sha256"
"""Metadata of a cell: the hash of the source that produced its outputs."""
LOG = re.compile(r"INFO:tensorflow:|[IWEF]\d{4} [\d:.]+ +\d+ [\w.]+:\d+\] ")
"""Beginning of a line that TensorFlow or its C++ code logs. It differs from run to run."""
RECIPES_HASH = "executed_recipes_sha256"
"""Metadata of a notebook: the hash of the recipes with which it was executed; see ``recipes_hash``."""


@dataclass(frozen=True)
class Options:
    """Options of the command."""

    names: Annotated[tuple[str, ...], tyro.conf.Positional] = EXECUTED
    """Names of notebooks."""
    corpus: Path | None = None
    """Zip file of the Spanish-English corpus. None downloads the corpus."""


def source_hash(source: str) -> str:
    """Returns the hash of a cell's source."""
    return hashlib.sha256(source.encode()).hexdigest()


def recipes_hash() -> str:
    """Returns the hash of the recipes that the notebooks train, without options that have their defaults."""
    records = [changed(asdict(recipe), asdict(Recipe("default"))) for recipe in (SAMPLE, SPANISH_ENGLISH)]
    return source_hash(json.dumps(records, sort_keys=True))


def changed(fields: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields, at any depth, that do not have their defaults."""
    return {
        name: changed(value, defaults[name]) if isinstance(value, dict) else value
        for name, value in fields.items()
        if value != defaults[name]
    }


def execute(path: Path, folder: Path) -> None:
    """Executes a notebook in ``folder``, and writes it with its outputs.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed. The notebook is unchanged.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=None,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env={**os.environ, "PYTHONPATH": str(ROOT)})
    for cell in notebook.cells:
        if cell.cell_type == "code":
            kept = {name: value for name, value in cell.metadata.items() if name != "execution"}
            cell.metadata = {**kept, HASH: source_hash(cell.source)}
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                if "text" in output:
                    output.text = as_printed(output.text.replace(str(folder), ".").replace(f"{ROOT}/", ""))
    notebook.metadata[RECIPES_HASH] = recipes_hash()
    nbformat.write(notebook, path)


def as_printed(text: str) -> str:
    """Returns a text as a terminal shows it, without TensorFlow's log lines.

    Only the last state of a progress bar is left.
    """
    lines = (
        re.split(r"[\r\b]+", line.rstrip("\r\b"))[-1] for line in re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", text).split("\n")
    )
    return "\n".join(line.rstrip() for line in lines if not LOG.match(line))


def main(options: Options) -> None:
    """Executes the notebooks in turn, in one new folder, with the memory setting of the command line."""
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if options.corpus is not None:
            # the folders of downloads in the notebooks: Keras's cache, and "data" in the working directory
            for cache in (Path(os.environ.get("KERAS_HOME", Path.home() / ".keras")) / "datasets", folder / "data"):
                cache.mkdir(parents=True, exist_ok=True)
                shutil.copy(options.corpus, cache / "spa-eng.zip")
        for name in options.names:
            execute(ROOT / "notebooks" / f"{name}.ipynb", folder)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
