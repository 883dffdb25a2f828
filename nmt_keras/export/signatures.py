"""The functions that an export is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tensorflow as tf

from nmt_keras.config import MicroBatchingConfig, SearchConfig
from nmt_keras.export.contract import CONTRACT
from nmt_keras.export.micro_batching import merge_requests
from nmt_keras.translation.model_translator import ModelTranslator

BEAM_SIZE = 5
"""Hypotheses of the signature ``beam`` where the translator's own search keeps one."""


def serving_search(search: SearchConfig) -> SearchConfig:
    """How ``serving_default`` searches by default: as a recipe says, with a beam of BEAM_SIZE where that is greedy."""
    greedy = search.beam_size == 1 and search.temperature == 0.0
    return replace(search, beam_size=BEAM_SIZE) if greedy else search


def signatures(translator: ModelTranslator, micro_batching: MicroBatchingConfig | None = None) -> dict[str, Any]:
    """The exported functions, by signature name; each answers a dict of named outputs: see ``CONTRACT``.

    Args:
        translator: what answers. ``serving_default`` searches as it does, ``beam`` too if it has a beam.
        micro_batching: how requests are merged; None answers each by itself.
    """
    search = translator.search
    one = replace(search, beam_size=1, n_best=None, temperature=0.0, top_k=None, top_p=1.0)
    greedy = translator if search == one else translator.with_search(one)
    beam = translator if search.beam_size > 1 else translator.with_search(replace(one, beam_size=BEAM_SIZE))
    asked: dict[str, Callable[..., Any]] = {  # closures, because a method that is a tf.function keeps no object alive
        "serving_default": lambda text: translator.decode(text),
        "greedy": lambda text: greedy.decode(text),
        "align": lambda text: greedy.decode(text),
        "beam": lambda text: beam.decode_nbest(text),
        "score": lambda source, target: translator.decode_scored(source, target),
    }
    return {name: _signature(name, answer, micro_batching) for name, answer in asked.items()}


def _signature(name: str, answer: Callable[..., Any], micro_batching: MicroBatchingConfig | None) -> Any:
    """``answer``, which gives a record, as the function of the signature ``name``."""
    inputs = [tf.TensorSpec([None], tf.string, name=text) for text in CONTRACT[name].inputs]
    outputs = CONTRACT[name].outputs

    def chosen(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        found = answer(*texts)
        return {output: getattr(found, output) for output in outputs}

    ask = merge_requests(chosen, name, inputs, outputs, micro_batching) if micro_batching else chosen

    @tf.function(input_signature=inputs, autograph=False)
    def served(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        # A server feeds what came, whatever its rank, and some tokenizers end the process on a scalar.
        return ask(*(tf.ensure_shape(text, [None]) for text in texts))

    return served
