"""Manifest of an exported version, and the default search that it declares. Needs no TensorFlow."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt_keras.config import Recipe, SearchConfig, record_from, require
from nmt_keras.io.files import read_json, require_format, version_folders

EXTRA = "assets.extra"
"""Folder of a version for files that are not part of the graph."""

MANIFEST = Path(EXTRA) / "manifest.json"

FORMAT = 3
"""Format number of exported versions, stored in the manifest."""

READABLE = (2, FORMAT)
"""Formats that are loaded and served. Format 2 has no tokenizers and named weights in ``assets``."""

SAVED_MODEL = "saved_model.pb"
"""File of the graph. A folder with it is a version."""

BEAM_SIZE = 5
"""Beam size of the signature ``beam`` if the translator's own search is not a beam search."""


def read_manifest(version_folder: Path) -> dict[str, Any]:
    """Returns the manifest of an exported version, or {} if it has none."""
    path = version_folder / MANIFEST
    return read_json(path) if path.exists() else {}


def exported_recipe(version_folder: Path) -> Recipe:
    """Returns the recipe of an exported version whose model can be rebuilt.

    Raises:
        ValueError: the version has an older format, without tokenizers and named weights, or is no export of a run.
    """
    manifest, path = read_manifest(version_folder), str(version_folder / MANIFEST)
    hint, expected = "Export the run again: nmt export RUN.", f"format {FORMAT}, with tokenizers and named weights"
    require(manifest.get("format") == FORMAT, path, expected, manifest.get("format"), hint)
    require("recipe" in manifest, path, "the field 'recipe' of an exported run", sorted(manifest), hint)
    return Recipe.from_json(json.dumps(manifest["recipe"]), path)


def versions(model_folder: Path) -> dict[int, Path]:
    """Returns the versions in ``saved_models/NAME`` by ascending number. Folders without a saved model do not count."""
    folders = version_folders(model_folder) if model_folder.is_dir() else {}
    return {number: path for number, path in sorted(folders.items()) if os.path.isfile(path / SAVED_MODEL)}


def exported_version(path: Path) -> Path | None:
    """Returns ``path`` if it is an exported version, or the newest version in a folder of versions.

    Returns ``None`` for any other path, including invalid ones.
    """
    try:
        if (path / SAVED_MODEL).exists():
            return path
        return next(reversed(versions(path).values()), None)
    except (OSError, ValueError):
        return None


def default_search(version_folder: Path) -> SearchConfig:
    """Returns the search of an export, unless another is chosen: that of its signature ``serving_default``.

    Raises:
        ValueError: the export has another format number, or the manifest has search options that this version lacks.
    """
    manifest = read_manifest(version_folder)
    require_format(version_folder / MANIFEST, manifest, READABLE, "Or export the run again with this version.")
    return record_from(SearchConfig, manifest["search"], f"{version_folder / MANIFEST}: search.")


def serving_search(search: SearchConfig) -> SearchConfig:
    """Returns the default search of ``serving_default``: ``search``, but with beam size BEAM_SIZE if it is greedy."""
    return replace(search, beam_size=BEAM_SIZE) if search.beam_size == 1 else search
