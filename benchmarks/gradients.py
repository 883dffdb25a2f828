"""Norms of the gradients of an encoder's states: whether they vanish on the way back to the first words."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from nmt_keras.config import START
from nmt_keras.corpus import Pair
from nmt_keras.layers.memory import Encoding, LayerStates
from nmt_keras.models.seq2seq import Seq2Seq
from nmt_keras.translation.model_translator import ModelTranslator

DISTANCES = 12
"""Number of positions from the end, END included. Shorter sources are skipped."""
SENTENCES = 200


def state_gradients(translator: ModelTranslator, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Returns the norms of dL/dh_t by distance from the source's end, divided by the norm at the end.

    L is the cross-entropy of the reference. The encoder has one forward layer. The norm of an LSTM is that of both
    tensors of its state, dL/dh_t and dL/dc_t. A value is the geometric mean over the sentences.
    """
    tokenizers = translator.source_tokenizer, translator.target_tokenizer
    ids = [
        [tokenizer.encode(tf.constant([side])).ids for tokenizer, side in zip(tokenizers, pair, strict=True)]
        for pair in pairs
    ]
    long = [pair for pair in ids if pair[0].shape[1] >= DISTANCES][:SENTENCES]
    norms = np.array([_norms(translator.model, *pair) for pair in long])
    logs = np.log(norms / norms[:, :1])
    return {"sentences": len(long), "norms": [float(f"{each:.4g}") for each in np.exp(logs.mean(axis=0))]}


def _norms(model: Seq2Seq, source: tf.Tensor, target: tf.Tensor) -> list[float]:
    """Returns the norms of one sentence's gradients, from the last position on; source [1, S], target [1, T]."""
    (cell,) = model.encoder.forward_cells
    with tf.GradientTape() as tape:
        inputs = cell.project(model.encoder.embedding(source))
        states = [cell.zero_state(1)]
        for position in range(source.shape[1]):
            states.append(cell.advance(inputs[:, position : position + 1], states[-1]))
        values = tf.concat([cell.output_of(state) for state in states[1:]], axis=1)
        last = LayerStates(forward=tf.nest.map_structure(lambda tensor: tensor[:, 0], states[-1]))
        encoding = Encoding(values, tf.ones_like(source, tf.bool), tf.constant([source.shape[1]]), (last,))
        read = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=START)
        loss = keras.losses.sparse_categorical_crossentropy(
            target, model.decoder(read, encoding).logits, from_logits=True
        )
        loss = tf.reduce_sum(loss)
    found = tape.gradient(loss, states[1:][::-1][:DISTANCES], unconnected_gradients="zero")
    return [float(tf.linalg.global_norm(tf.nest.flatten(gradient))) for gradient in found]
