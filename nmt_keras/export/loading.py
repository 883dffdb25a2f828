"""Loads an export without the code that trained it, and without Keras."""

from __future__ import annotations

from pathlib import Path

from nmt_keras.config import SearchConfig
from nmt_keras.export.run_saved_model import load_text_kernels
from nmt_keras.export.signatures import greedy_search
from nmt_keras.export.versions import FORMAT, MANIFEST, read_manifest, versions
from nmt_keras.files import require_format
from nmt_keras.translation.exported import ServedTranslator


def load_exported(folder: Path) -> ServedTranslator:
    """Returns the translator of an exported version, or of the newest version in a folder of versions.

    Raises:
        ValueError: ``folder`` contains no exported version, or the export has another format number.
    """
    if not (folder / "saved_model.pb").exists() and (found := versions(folder)):
        folder = folder / str(found[-1])
    if (folder / "saved_model.pb").exists():
        manifest, remedy = read_manifest(folder), "Or export the run again with this version."
        require_format(folder / MANIFEST, manifest, FORMAT, remedy)
        load_text_kernels()
        return ServedTranslator(folder, greedy_search(SearchConfig(**manifest["search"])))
    raise ValueError(
        f"path: expected a run (with recipe.json), an exported version (with saved_model.pb) or a folder of versions; "
        f"{folder} holds {sorted(child.name for child in folder.iterdir())[:8] if folder.is_dir() else 'a file'}. Pass "
        "another path."
    )
