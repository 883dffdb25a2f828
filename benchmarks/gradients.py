"""Norms of the gradients of an encoder's states: whether they vanish on the way back to the first words."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from nmt_keras.config import PAD, START
from nmt_keras.corpus import Pair
from nmt_keras.layers.losses import masked_cross_entropy
from nmt_keras.layers.matmul import weights_read_once
from nmt_keras.layers.memory import Encoding, LayerStates
from nmt_keras.models.seq2seq import Seq2Seq
from nmt_keras.translation.model_translator import ModelTranslator

LENGTH = 30
"""Number of tokens of the sources, END included: test pairs are concatenated."""


def state_gradients(translator: ModelTranslator, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Returns the norms of dL/dh_t by distance from the source's end, divided by the norm at the end.

    L is the cross-entropy of the reference. The encoder has one forward layer. The norm of an LSTM is that of both
    tensors of its state, dL/dh_t and dL/dc_t. A value is the geometric mean over the pairs whose source has ``LENGTH``
    tokens.
    """
    encoded = translator.source_tokenizer.encode(tf.constant([pair.source for pair in pairs]))
    rows = np.flatnonzero(encoded.lengths == LENGTH).tolist()
    source = tf.gather(encoded.ids, rows)[:, :LENGTH]
    target = translator.target_tokenizer.encode(tf.constant([pairs[row].target for row in rows])).ids
    logs = np.log(_norms(translator.model, source, target))
    norms = np.exp((logs - logs[0]).mean(axis=1))
    return {"sentences": len(rows), "norms": [float(f"{each:.4g}") for each in norms]}


def _norms(model: Seq2Seq, source: tf.Tensor, target: tf.Tensor) -> np.ndarray:
    """Returns the norms of the gradients [S, B], from the last position on; source [B, S], target [B, T]."""
    (cell,) = model.encoder.forward_cells
    batch, length = source.shape
    with tf.GradientTape() as tape, weights_read_once(model):
        inputs = cell.project(model.encoder.embedding(source))
        states = [cell.zero_state(batch)]
        for position in range(length):
            states.append(cell.advance(inputs[:, position : position + 1], states[-1]))
        values = tf.concat([cell.output_of(state) for state in states[1:]], axis=1)
        last = LayerStates(forward=tf.nest.map_structure(lambda tensor: tensor[:, 0], states[-1]))
        encoding = Encoding(values, tf.ones_like(source, tf.bool), tf.fill([batch], length), (last,))
        read = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=START)
        loss = masked_cross_entropy(model.decoder(read, encoding).logits, target, tf.not_equal(target, PAD), 0.0).total
    found = tape.gradient(loss, states[:0:-1])
    squares = [tf.add_n([tf.reduce_sum(x**2, [1, 2]) for x in tf.nest.flatten(each)]) for each in found]
    return tf.sqrt(tf.stack(squares)).numpy()
