"""Assets of an exported version: tokenizers and named weights, from which other engines can be written.

    assets/source/, assets/target/    the tokenizers, with the flags of their text rules; see ``Tokenizer.save``
    assets/weights.json               of each weight: its key in the checkpoint ``variables/``, dtype and shape

The checkpoint alone contains the weights. The names are those of Keras, such as "encoder/embedding/embeddings"; the
weights of an ensemble begin with the number of their model.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from nmt_keras.export.resources import STORED, is_halved
from nmt_keras.io.files import literal, read_json

if TYPE_CHECKING:
    import keras

    from nmt_keras.models.ensemble import Predictor
    from nmt_keras.translation.model_translator import ModelTranslator

Weights = Mapping[str, np.ndarray]
"""Weights by name."""
SIDES = ("source", "target")
WEIGHTS = Path("assets") / "weights.json"


def named_variables(model: Predictor) -> Iterator[tuple[str, keras.Variable]]:
    """Yields the weights of a model or an ensemble by name, in the order of the checkpoint."""
    from nmt_keras.models.ensemble import models_of  # imports Keras, which ``load_exported`` does without

    models = models_of(model)
    for number, each in enumerate(models):
        roles = {each.encoder.name: "encoder", each.decoder.name: "decoder"}
        for variable in each.variables:
            parts = variable.path.split("/")
            begin = next((i for i, part in enumerate(parts) if part in roles), 0)
            role = roles.get(parts[begin], parts[begin])
            yield "/".join([str(number)] * (len(models) > 1) + [role, *parts[begin + 1 :]]), variable


def write_assets(version_folder: Path, translator: ModelTranslator, half_precision: bool) -> None:
    """Writes the assets of a version whose checkpoint contains ``Resources(translator, half_precision)``."""
    folder = version_folder / WEIGHTS.parent
    folder.mkdir(exist_ok=True)
    for side, tokenizer in zip(SIDES, (translator.source_tokenizer, translator.target_tokenizer), strict=True):
        tokenizer.save(folder / side)
    counts, entries = Counter[str](), {}
    for name, variable in named_variables(translator.model):
        kind, dtype = ("stored", STORED.name) if is_halved(variable, half_precision) else ("weights", variable.dtype)
        entries[name] = {"key": f"{kind}/{counts[kind]}", "dtype": dtype, "shape": list(variable.shape)}
        counts[kind] += 1
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
    (version_folder / WEIGHTS).write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def read_weights(version_folder: Path) -> dict[str, np.ndarray]:
    """Returns the weights of a version by name, in the precision in which they are stored."""
    reader = tf.train.load_checkpoint(str(literal(version_folder) / "variables" / "variables"))
    entries = read_json(version_folder / WEIGHTS)
    return {name: reader.get_tensor(f"{entry['key']}/.ATTRIBUTES/VARIABLE_VALUE") for name, entry in entries.items()}
