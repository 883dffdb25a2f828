"""Neural machine translation with attention, from the papers' equations to a served SavedModel.

Shape comments and docstrings use one legend throughout the package:

    B  sentences in a batch            V  entries of a vocabulary
    b  sentences not yet finished      E  width of an embedding
    S  source positions                U  units of a recurrent state
    T  target positions                D  width of an encoder annotation
    K  hypotheses returned (n best)    A  alignment units (the attention's hidden width)
    Q  queries per sentence: T if all positions are read at once, 1 in a scan or in greedy search, the beam size in beam
       search
    W  source positions that a query reads: S, or a local window
    C  candidates: next tokens of a hypothesis
    P  tokens of a forced prefix
    L  positions that a self-attention layer reads: S, T, or the maximum number of target positions
    N  heads of a self-attention layer

A sentence passes through the package as follows:

    string -> tokenizer -> Tokens -> Encoder -> Memory -> search with the Decoder -> ids + alignment -> string
"""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING, Any

from nmt_keras.io.startup import native_messages_hidden, use_tensorflow_for_keras
from nmt_keras.names import CLASSES, register_with_keras
from nmt_keras.version import VERSION

if TYPE_CHECKING:
    from os import PathLike

    from nmt_keras import export, recipes
    from nmt_keras.layers.attention import BahdanauAttention, FixedContext, GlobalAttention, NoAttention
    from nmt_keras.layers.bridges import CopyBridge, DenseBridge, ZeroBridge
    from nmt_keras.layers.cells import GRUCell, LayerNormGRUCell, LSTMCell, ResetAfterGRUCell, TanhCell
    from nmt_keras.layers.initializers import OpenForgetGate, OrthogonalGates
    from nmt_keras.layers.local_attention import MonotonicLocalAttention, PredictiveLocalAttention
    from nmt_keras.layers.losses import MaskedCrossEntropy, MeanMetric
    from nmt_keras.layers.output import AttentionalOutput, LinearOutput, MaxoutOutput, StateOutput
    from nmt_keras.layers.scores import AdditiveScore, DotScore, GeneralScore, LocationScore, ScoreFunction
    from nmt_keras.layers.self_attention import MultiHead, SelfAttentionLayer
    from nmt_keras.layers.stack import StackedCells
    from nmt_keras.models.builder import register
    from nmt_keras.models.encoder import Encoder, SelfAttentionEncoder
    from nmt_keras.models.recurrent_decoder import ConditionalDecoder, Decoder, InputFeedingDecoder, LuongDecoder
    from nmt_keras.models.self_attention_decoder import SelfAttentionDecoder
    from nmt_keras.models.seq2seq import Seq2Seq, build_model
    from nmt_keras.text import fit_tokenizer
    from nmt_keras.text.codec import Codec
    from nmt_keras.translation.model_translator import ModelTranslator
    from nmt_keras.translation.translator import Translator

__version__ = VERSION

_PLACES = {
    **{name: f"{module}:{name}" for name, module in CLASSES.items()},
    "Codec": "nmt_keras.text.codec:Codec",
    "ModelTranslator": "nmt_keras.translation.model_translator:ModelTranslator",
    "build_model": "nmt_keras.models.seq2seq:build_model",
    "export": "nmt_keras.export:",
    "fit_tokenizer": "nmt_keras.text:fit_tokenizer",
    "recipes": "nmt_keras.recipes:",
    "register": "nmt_keras.models.builder:register",
}
"""Modules of the public names, for ``pkgutil.resolve_name``."""

__all__ = [
    "AdditiveScore",
    "AttentionalOutput",
    "BahdanauAttention",
    "Codec",
    "ConditionalDecoder",
    "CopyBridge",
    "Decoder",
    "DenseBridge",
    "DotScore",
    "Encoder",
    "FixedContext",
    "GRUCell",
    "GeneralScore",
    "GlobalAttention",
    "InputFeedingDecoder",
    "LSTMCell",
    "LayerNormGRUCell",
    "LinearOutput",
    "LocationScore",
    "LuongDecoder",
    "MaskedCrossEntropy",
    "MaxoutOutput",
    "MeanMetric",
    "ModelTranslator",
    "MonotonicLocalAttention",
    "MultiHead",
    "NoAttention",
    "OpenForgetGate",
    "OrthogonalGates",
    "PredictiveLocalAttention",
    "ResetAfterGRUCell",
    "ScoreFunction",
    "SelfAttentionDecoder",
    "SelfAttentionEncoder",
    "SelfAttentionLayer",
    "Seq2Seq",
    "StackedCells",
    "StateOutput",
    "TanhCell",
    "ZeroBridge",
    "build_model",
    "export",
    "fit_tokenizer",
    "load",
    "recipes",
    "register",
]

register_with_keras()


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that ``import nmt_keras`` does not import TensorFlow."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    use_tensorflow_for_keras()
    return pkgutil.resolve_name(_PLACES[name])


def __dir__() -> list[str]:
    """Lists the public names, imported or not."""
    return sorted({*globals(), *__all__})


def load(path: str | PathLike[str], *more: str | PathLike[str]) -> Translator:
    """Loads a translator from a run directory, an exported version, or several runs (an ensemble).

    An exported version is a SavedModel, which can run any code. Load only models that you trust; see SECURITY.md.

    Args:
        path: Run directory, exported version, or folder of exported versions. The newest version of a folder is loaded.
        *more: More run directories with the same vocabularies. The runs form an ensemble, which averages their
            probabilities. The ensemble uses the search options of the first run's recipe.

    Returns:
        A translator with the search of the recipe or of the export. Its ``translate`` takes a list of strings and
        returns a list of ``Translation`` records.

    Raises:
        FileNotFoundError: ``path`` does not exist.
        ValueError: ``path`` holds neither a run nor a SavedModel, or the runs' vocabularies differ.
    """
    from pathlib import Path

    folder = Path(path)
    if not folder.exists():
        raise FileNotFoundError(
            f"path: expected a run directory or an exported version; {folder} does not exist. The package contains no "
            "model. Clone the repository, which contains saved_models/spa-eng/1, or train a model with `nmt train`."
        )
    use_tensorflow_for_keras()
    with native_messages_hidden():
        if more or (folder / "recipe.json").exists():
            from nmt_keras.runs import load_runs

            return load_runs([path, *more])
        from nmt_keras.export import load_exported

        return load_exported(folder)
