"""Exports a run as a SavedModel version, once for each checkpoint, search and configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from nmt_keras.config import ExportConfig, Recipe
from nmt_keras.export import export, prune, read_manifest, versions
from nmt_keras.files import read_json
from nmt_keras.runs.directory import CHECKPOINTS, CORPUS
from nmt_keras.training import best_checkpoint
from nmt_keras.translation.model_translator import ModelTranslator

Languages = tuple[str | None, str | None]
"""Codes of source and target language; ``None`` if unspecified."""


def manifest_facts(folder: Path, recipe: Recipe, translator: ModelTranslator, languages: Languages) -> dict[str, Any]:
    """Returns what the manifest of an export records of a run, or of an ensemble whose first run it is."""
    codes = zip(("source", "target"), languages, strict=True)
    return {
        "search": str(translator.search),
        "recipe": dataclasses.asdict(recipe),
        "corpus": read_json(folder / CORPUS),
        "languages": {side: code for side, code in codes if code is not None},
    }


def export_run(
    folder: Path,
    facts: Mapping[str, Any],
    translator: ModelTranslator,
    model_folder: Path,
    config: ExportConfig,
    max_to_keep: int | None,
    labelled: Collection[int],
) -> Path:
    """Exports the run in ``folder``; see ``Run.export``. ``facts`` go into the manifest."""
    checkpoint = best_checkpoint(folder / CHECKPOINTS)
    status = checkpoint.with_name(f"{checkpoint.name}.index").stat()
    manifest = {
        **facts,
        "checkpoint": {"name": checkpoint.name, "bytes_and_time": [status.st_size, status.st_mtime_ns]},
        "export": dataclasses.asdict(config),
    }
    for version in versions(model_folder)[-1:]:
        latest = model_folder / str(version)
        known = read_manifest(latest)
        if all(known.get(name) == manifest[name] for name in ("checkpoint", "search", "export")):
            if max_to_keep is not None:
                prune(model_folder, max_to_keep, labelled)
            return latest
    return export(translator, model_folder, manifest, config, max_to_keep=max_to_keep, labelled=labelled)
