"""Writes a translator as a SavedModel version."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from nmt_keras.config import ExportConfig, require
from nmt_keras.export.assets import write_assets
from nmt_keras.export.card import CARD, model_card
from nmt_keras.export.contract import CONTRACT
from nmt_keras.export.resources import Resources
from nmt_keras.export.signatures import signatures
from nmt_keras.export.versions import prune, publish
from nmt_keras.export.warmup import write_warmup_requests
from nmt_keras.io.files import literal, stamped
from nmt_keras.manifest import FORMAT, MANIFEST

if TYPE_CHECKING:
    from nmt_keras.translation.model_translator import ModelTranslator

PLAIN = ExportConfig()
"""Full precision, no micro-batching."""


def export(
    translator: ModelTranslator,
    model_folder: str | Path,
    manifest: Mapping[str, Any] | None = None,
    config: ExportConfig = PLAIN,
    *,
    max_to_keep: int | None = None,
    check: Callable[[Path], None] | None = None,
) -> Path:
    """Writes the next version of a model, with the signatures of ``CONTRACT``; see ``publish``.

    The folder ``assets`` beside the graph contains the tokenizers and the names of the weights. The folder
    ``assets.extra`` contains ``manifest.json``, the model card ``README.md`` and ``tf_serving_warmup_requests``.

    Args:
        translator: The translator to export. Its graph contains no operation of XLA.
        model_folder: ``saved_models/NAME``; created if missing.
        manifest: Facts about the model, stored as JSON with the search options, the library versions and ``config``.
            The card shows ``recipe``, ``command``, ``corpus`` and ``scores`` of a run, and ``languages`` with
            ``source`` and ``target``.
        config: Precision, micro-batching and the data's licence.
        max_to_keep: Number of versions to keep, this one included; ``None`` keeps all. See ``prune``.
        check: Called with the folder of the written version before it gets its number. If it raises, there is no
            new version.

    Returns:
        ``saved_models/NAME/VERSION``.

    Raises:
        OSError: the folder cannot be written.
        ValueError: ``max_to_keep`` is not positive, or a weight is too large for half precision.
    """
    model_folder = Path(model_folder)
    require(max_to_keep is None or max_to_keep >= 1, "max_to_keep", "at least 1 version to keep, or None", max_to_keep)
    facts = {
        **stamped(FORMAT),
        **(manifest or {}),
        "checkpoints": [checkpoint._asdict() for checkpoint in translator.checkpoints],
        "search": dataclasses.asdict(translator.search),
        "export": dataclasses.asdict(config),
        "signatures": list(CONTRACT),
        "libraries": {name: version(name) for name in ("tensorflow", "tensorflow-text", "keras")},
    }

    def write(folder: Path) -> None:
        functions = signatures(translator, config.micro_batching)
        plain, name = literal(folder), model_folder.name.encode("utf-8", "replace").decode()
        tf.saved_model.save(Resources(translator, config.half_precision), str(plain), signatures=functions)
        (folder / MANIFEST).parent.mkdir()
        (folder / MANIFEST).write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / CARD).write_text(model_card(name, translator, facts), encoding="utf-8")
        write_warmup_requests(plain, translator.source_tokenizer, name)
        write_assets(folder, translator, config.half_precision)
        if check is not None:
            check(folder)

    written = publish(model_folder, write)
    if max_to_keep is not None:
        prune(model_folder, max_to_keep)
    return written
