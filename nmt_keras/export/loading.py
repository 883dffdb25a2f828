"""Loads an export, with none of the code that trained it."""

from __future__ import annotations

from pathlib import Path

from nmt_keras.export.versions import require_export_format, versions
from nmt_keras.translation.exported import ServedTranslator


def load_exported(folder: Path) -> ServedTranslator:
    """A version as a translator; of a folder of versions, the newest.

    Raises:
        ValueError: ``folder`` holds neither, or an export of another format.
    """
    if not (folder / "saved_model.pb").exists() and (found := versions(folder)):
        folder = folder / str(found[-1])
    if (folder / "saved_model.pb").exists():
        require_export_format(folder)
        return ServedTranslator(folder)
    raise ValueError(
        f"path: expected a run (with recipe.json), an exported version (with saved_model.pb) or a folder of versions; "
        f"{folder} holds {sorted(child.name for child in folder.iterdir())[:8] if folder.is_dir() else 'a file'}."
    )
