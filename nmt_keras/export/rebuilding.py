"""Builds translators from named weights, such as those of an exported version."""

from pathlib import Path
from typing import Any, NamedTuple, Self

from nmt_keras.config import ModelConfig, SearchConfig, require
from nmt_keras.export.assets import SIDES, WEIGHTS, Weights, named_variables, read_weights
from nmt_keras.manifest import exported_recipe, read_manifest
from nmt_keras.models.seq2seq import build_model
from nmt_keras.text import Tokenizer, load_tokenizer
from nmt_keras.translation.model_translator import ModelTranslator


class Parts(NamedTuple):
    """Parts of which a translator is built."""

    model: ModelConfig
    source: Tokenizer
    target: Tokenizer
    weights: Weights  # by name; see ``nmt_keras.export.assets``

    @classmethod
    def of(cls, translator: ModelTranslator, model: ModelConfig) -> Self:
        """Returns the parts of a translator whose model is not an ensemble, with its configuration."""
        weights = {name: variable.numpy() for name, variable in named_variables(translator.model)}
        return cls(model, translator.source_tokenizer, translator.target_tokenizer, weights)

    def translator(self, search: SearchConfig) -> ModelTranslator:
        """Builds the translator."""
        model = build_model(self.model, self.source.vocabulary_size, self.target.vocabulary_size)
        for name, variable in named_variables(model):
            variable.assign(self.weights[name])
        return ModelTranslator(self.source, self.target, model, search=search)


def rebuilt(version_folder: Path) -> tuple[Parts, dict[str, Any]]:
    """Returns the parts of an exported version, and its manifest.

    Raises:
        ValueError: the version has an older format, without parts, or it is not the export of one run.
    """
    recipe = exported_recipe(version_folder)
    source, target = (load_tokenizer(version_folder / WEIGHTS.parent / side) for side in SIDES)
    weights = read_weights(version_folder)
    is_ensemble = any(name[0].isdigit() for name in weights)
    require(not is_ensemble, str(version_folder), "the export of one run", "an ensemble", "Export one of its runs.")
    return Parts(recipe.model, source, target, weights), read_manifest(version_folder)
