"""Export: a translator as a numbered SavedModel version that TensorFlow Serving can load at any moment."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tensorflow as tf

from nmt_keras.translator import SOURCE, TARGET, TEXT, Decoded, ModelTranslator

MANIFEST = Path("assets.extra") / "manifest.json"

BEAM_SIZE = 5
"""Hypotheses of the signature ``beam`` where the translator's own search keeps one."""

BRIEF = ("translation", "score", "truncated")
"""Outputs of the signatures that answer in short."""


def versions(model_folder: Path) -> list[int]:
    """The versions under ``saved_models/NAME``, ascending: each child whose name is a number."""
    if not model_folder.is_dir():
        return []
    return sorted(int(child.name) for child in model_folder.iterdir() if child.name.isdecimal() and child.is_dir())


def export(translator: ModelTranslator, model_folder: Path, manifest: Mapping[str, Any] | None = None) -> Path:
    """Writes the next version of a model, with the signatures of ``signatures``.

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
    """The exported functions, by signature name; each answers a dict of named outputs.

    serving_default   text [B]               the best translation by the translator's own search
    greedy            text [B]               the greedy translation
    align             text [B]               the same, with tokens, log-probability and alignment
    beam              text [B]               the n-best list, of BEAM_SIZE where the translator's search has no beam
    score             source [B], target [B] the log-probability of a given translation, and of its tokens
    """
    search = translator.search
    one = replace(search, beam_size=1, n_best=None, temperature=0.0, top_k=None, top_p=1.0)
    greedy = translator.with_search(one)
    beam = translator if search.beam_size > 1 else translator.with_search(replace(one, beam_size=BEAM_SIZE))

    def answering_best(best: ModelTranslator, names: Sequence[str]) -> Any:
        @tf.function(input_signature=[TEXT], autograph=False)
        def answer(text: tf.Tensor) -> dict[str, tf.Tensor]:
            decoded = best.decode(tf.ensure_shape(text, [None]))
            return {name: getattr(decoded, name) for name in names}

        return answer

    @tf.function(input_signature=[TEXT], autograph=False)
    def answer_nbest(text: tf.Tensor) -> dict[str, tf.Tensor]:
        return beam.decode_nbest(tf.ensure_shape(text, [None]))._asdict()

    @tf.function(input_signature=[SOURCE, TARGET], autograph=False)
    def answer_score(source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        source, target = (tf.ensure_shape(side, [None]) for side in (source, target))
        return translator.decode_forced(source, target)._asdict()

    return {
        "serving_default": answering_best(translator, BRIEF),
        "align": answering_best(greedy, Decoded._fields),
        "greedy": answering_best(greedy, BRIEF),
        "beam": answer_nbest,
        "score": answer_score,
    }


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
