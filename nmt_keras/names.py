"""The public classes by name, and their registration with Keras before their modules are imported.

A file that ``model.save`` wrote names its classes. Keras finds them if they are registered, which happens when their
module is imported; but ``import nmt_keras`` imports no module that needs TensorFlow. So this module registers, as soon
as Keras is imported, an entry for each name, which imports the class when a file is loaded. Importing
nmt_keras has no other side effect.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple

_CLASSES = {
    "layers.attention": "BahdanauAttention FixedContext GlobalAttention NoAttention",
    "layers.bridges": "CopyBridge DenseBridge ZeroBridge",
    "layers.cells": "GRUCell LSTMCell LayerNormGRUCell ResetAfterGRUCell TanhCell",
    "layers.initializers": "OpenForgetGate OrthogonalGates",
    "layers.local_attention": "MonotonicLocalAttention PredictiveLocalAttention",
    "layers.losses": "MaskedCrossEntropy MeanMetric",
    "layers.output": "AttentionalOutput LinearOutput MaxoutOutput StateOutput",
    "layers.scores": "AdditiveScore DotScore GeneralScore LocationScore ScoreFunction",
    "layers.self_attention": "MultiHead SelfAttentionLayer",
    "layers.stack": "StackedCells",
    "models.encoder": "Encoder SelfAttentionEncoder",
    "models.recurrent_decoder": "ConditionalDecoder Decoder InputFeedingDecoder LuongDecoder",
    "models.self_attention_decoder": "SelfAttentionDecoder",
    "models.seq2seq": "Seq2Seq",
}

CLASSES = {name: f"nmt_keras.{module}" for module, names in _CLASSES.items() for name in names.split()}
"""Layers, models, losses and initializers: the module of each class."""


class _Entry(NamedTuple):
    """Stands for a class in Keras's registry until its module is imported, which registers the class itself."""

    name: str

    def from_config(self, config: dict[str, Any]) -> object:
        """Imports all classes, and creates an object of this one."""
        importlib.import_module(CLASSES["Seq2Seq"])
        return getattr(importlib.import_module(CLASSES[self.name]), self.name).from_config(config)


class _KerasFinder(MetaPathFinder):
    """Finds Keras as Python does. Registers the entries when Keras has been imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Returns the spec of Keras; None for other modules."""
        if name != "keras":
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        if (spec := next(filter(None, others), None)) and spec.loader:
            execute = spec.loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                sys.meta_path.remove(self)
                _register()

            # an attribute of this loader alone: each call of find_spec creates a loader
            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


def _register() -> None:
    known = sys.modules["keras"].saving.get_custom_objects()
    for name in CLASSES:
        known.setdefault(f"nmt_keras>{name}", _Entry(name))


def register_with_keras() -> None:
    """Registers the entries, now or when Keras is imported."""
    if "keras" in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _KerasFinder())
