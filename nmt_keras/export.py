"""Export: a translator as a numbered SavedModel version that TensorFlow Serving can load at any moment."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tensorflow as tf

from nmt_keras.translator import TEXT, ModelTranslator

MANIFEST = Path("assets.extra") / "manifest.json"


def versions(model_folder: Path) -> list[int]:
    """The versions under ``saved_models/NAME``, ascending: each child whose name is a number."""
    if not model_folder.is_dir():
        return []
    return sorted(int(child.name) for child in model_folder.iterdir() if child.name.isdecimal() and child.is_dir())


def export(translator: ModelTranslator, model_folder: Path, manifest: Mapping[str, Any] | None = None) -> Path:
    """Writes the next version of a model, with the signatures ``serving_default`` and ``align``.

    Everything, ``assets.extra`` included, is written into a sibling whose name is no number, flushed to the disk, and
    then renamed: a server that watches the folder sees the whole version or none, and an interrupted export leaves no
    numbered directory.

    Args:
        translator: what to export. Its graph holds neither XLA nor cuDNN.
        model_folder: ``saved_models/NAME``; made if need be.
        manifest: facts about the model, stored as JSON beside it together with the library versions.

    Returns:
        ``saved_models/NAME/VERSION``.

    Raises:
        OSError: the folder cannot be written.
    """
    model_folder.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix="partial-", dir=model_folder))
    try:
        tf.saved_model.save(Resources(translator), str(partial), signatures=signatures(translator))
        (partial / MANIFEST).parent.mkdir()
        libraries = {name: version(name) for name in ("tensorflow", "tensorflow-text", "keras")}
        content = json.dumps({**(manifest or {}), "libraries": libraries}, indent=2, ensure_ascii=False)
        (partial / MANIFEST).write_text(content + "\n", encoding="utf-8")
        partial.chmod(0o755)
        _flush(partial)
        while True:
            taken = [int(child.name) for child in model_folder.iterdir() if child.name.isdecimal()]
            final = model_folder / str(max(taken, default=0) + 1)
            try:
                os.rename(partial, final)
                break
            except OSError:
                if not final.exists():
                    raise
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _flush_directory(model_folder)
    return final


class Resources(tf.Module):
    """What the exported functions read: weights, tables and tokenizers, and nothing of Keras.

    A SavedModel of Keras's own variables restores copies of them that no function reads. TensorFlow's Python loader
    does not mind, but in TensorFlow Serving every request would fail. So the variables below them are saved.
    """

    def __init__(self, translator: ModelTranslator):
        super().__init__(name="translator")
        self.texts = [translator.source_text, translator.target_text]
        self.weights = [variable.value for variable in translator.model.variables]


def signatures(translator: ModelTranslator) -> dict[str, Any]:
    """The exported functions, by signature name; each takes ``text`` [B] string and answers a dict of named outputs."""

    @tf.function(input_signature=[TEXT], autograph=False)
    def align(text: tf.Tensor) -> dict[str, tf.Tensor]:
        return translator.decode(tf.ensure_shape(text, [None]))._asdict()

    @tf.function(input_signature=[TEXT], autograph=False)
    def serving_default(text: tf.Tensor) -> dict[str, tf.Tensor]:
        decoded = translator.decode(tf.ensure_shape(text, [None]))
        return {name: getattr(decoded, name) for name in ("translation", "score", "truncated")}

    return {"serving_default": serving_default, "align": align}


def read_manifest(version_folder: Path) -> dict[str, Any]:
    """The manifest of an exported version; {} where it has none."""
    path = version_folder / MANIFEST
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _flush(folder: Path) -> None:
    """Forces every file and directory below ``folder`` to the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    for path in (*folder.rglob("*/"), folder):
        _flush_directory(path)


def _flush_directory(folder: Path) -> None:
    """Forces a directory's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
