"""Functions of the signatures of an export."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from nmt_keras.config import MicroBatchingConfig
from nmt_keras.export.contract import CONTRACT
from nmt_keras.export.micro_batching import merge_requests
from nmt_keras.manifest import BEAM_SIZE

if TYPE_CHECKING:
    from nmt_keras.translation.model_translator import ModelTranslator


def signatures(translator: ModelTranslator, micro_batching: MicroBatchingConfig | None = None) -> dict[str, Any]:
    """Returns the exported functions by signature name, with the inputs and outputs of ``CONTRACT``.

    Args:
        translator: Translator. Its search is that of ``serving_default``, and of ``beam`` if the beam size exceeds 1.
        micro_batching: Configuration for merging concurrent requests; ``None`` answers them separately.
    """
    search = translator.search
    greedy = translator if search == search.greedy else translator.with_search(search.greedy)
    beam = translator if search.beam_size > 1 else translator.with_search(replace(search.greedy, beam_size=BEAM_SIZE))
    functions: dict[str, Callable[..., Any]] = {  # lambdas, because a bound tf.function does not keep its object alive
        "serving_default": lambda text: translator.decode(text),
        "text": lambda text: translator.decode_texts(text),
        "sentences": lambda text: translator.decode_sentences(text),
        "greedy": lambda text: greedy.decode(text),
        "align": lambda text: greedy.decode(text),
        "beam": lambda text: beam.decode_nbest(text),
        "score": lambda source, target: translator.decode_scored(source, target),
    }
    return {name: _signature(name, function, micro_batching) for name, function in functions.items()}


def _signature(name: str, function: Callable[..., Any], micro_batching: MicroBatchingConfig | None) -> Any:
    """Wraps ``function``, which returns a record, as the signature ``name``."""
    inputs = [tf.TensorSpec([None], tf.string, name=text) for text in CONTRACT[name].inputs]
    outputs = CONTRACT[name].outputs

    def chosen(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        found = function(*texts)
        values = found if isinstance(found, dict) else found._asdict()
        # the lowest float32 in place of -infinity, for which JSON has no notation
        return {
            output: tf.maximum(values[output], tf.float32.min) if values[output].dtype == tf.float32 else values[output]
            for output in outputs
        }

    answer = merge_requests(chosen, name, inputs, outputs, micro_batching) if micro_batching else chosen

    @tf.function(input_signature=inputs, autograph=False)
    def served(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        # Servers accept inputs of any rank, and some tokenizers crash the process if they receive a scalar.
        return answer(*(tf.ensure_shape(text, [None]) for text in texts))

    return served
