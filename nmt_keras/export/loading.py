"""Loads an export without the code that trained it, and without Keras."""

from pathlib import Path

from nmt_keras.export.run_saved_model import load_text_kernels
from nmt_keras.manifest import default_search, exported_version
from nmt_keras.translation.exported import ServedTranslator


def load_exported(folder: Path) -> ServedTranslator:
    """Returns the translator of an exported version, or of the newest version in a folder of versions.

    Its search is that of the signature ``serving_default``.

    Raises:
        ValueError: ``folder`` contains no exported version, or the export has another format number.
    """
    if version := exported_version(folder):
        search = default_search(version)
        load_text_kernels()
        return ServedTranslator(version, search)
    raise ValueError(
        f"path: expected a run (with recipe.json), an exported version (with saved_model.pb) or a folder of versions; "
        f"{folder} holds {sorted(child.name for child in folder.iterdir())[:8] if folder.is_dir() else 'a file'}. Pass "
        "another path."
    )
