"""Vocabulary shortlists: the few target tokens that a sentence's own tokens may become, instead of all V.

The softmax is the largest product of a search's step. Jean, Cho, Memisevic, Bengio 2015 (section 3.3) let the most
frequent target words compete, and those that a dictionary has for the source's words. See ``partners`` for ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from nmt_keras.ensemble import Predictor
from nmt_keras.search import Hypotheses

if TYPE_CHECKING:
    from nmt_keras.partners import Partners


class Words(NamedTuple):
    """The target tokens that compete in a batch: those of all its sentences' shortlists."""

    ids: tf.Tensor  # [C] int32, ascending; the special ids first, at their own places
    price: tf.Tensor  # [B, C] float32: 0 for the tokens of a sentence's own shortlist, -infinity for the others


class Shortlist(tf.Module):
    """Gives a batch its words.

    Args:
        partners: learnt from the training part.
        vocabulary_size: V of the target.
    """

    def __init__(self, partners: Partners, vocabulary_size: int):
        super().__init__(name="shortlist")
        self.vocabulary_size = vocabulary_size
        self.narrows = len(partners.common) < vocabulary_size  # whether there is anything to leave out
        self._by_source = tf.Variable(partners.by_source, trainable=False, name="by_source")
        is_common = np.isin(np.arange(vocabulary_size), partners.common)
        self._is_common = tf.Variable(is_common, trainable=False, name="is_common")

    def words(self, ids: tf.Tensor, size: int, also: tf.Tensor | None = None) -> Words:
        """Of sources ids [B, S].

        Args:
            ids: padding brings nothing.
            size: N, target tokens that each source token brings, 1 to MAX_SHORTLIST.
            also: [B, P] int32, target tokens that each sentence's shortlist holds in any case; PAD brings nothing.
        """
        batch = tf.shape(ids)[0]
        brought = tf.reshape(tf.gather(self._by_source[:, :size], ids), [batch, -1])
        if also is not None:
            brought = tf.concat([brought, also], axis=1)
        rows = tf.broadcast_to(tf.range(batch)[:, tf.newaxis], tf.shape(brought))
        places = tf.stack([rows, brought], axis=-1)
        # a maximum, not a sum or an assignment: places repeat
        own = tf.tensor_scatter_nd_max(
            tf.zeros([batch, self.vocabulary_size]), places, tf.ones_like(brought, tf.float32)
        )
        holds = (own > 0.0) | self._is_common  # [B, V]
        # the common ones in an empty batch, too: a search counts on them
        competing = tf.cast(tf.where(tf.reduce_any(holds, axis=0) | self._is_common)[:, 0], tf.int32)
        return Words(competing, tf.where(tf.gather(holds, competing, axis=1), 0.0, float("-inf")))


class Narrowed:
    """A model in whose searches only ``words`` compete. Its ids are places in ``words.ids``.

    The search takes it for a model of C words. What it says is the model's own softmax over each sentence's shortlist:
    a probability is that of the whole vocabulary over the shortlist's share of it.
    """

    def __init__(self, model: Predictor, words: Words):
        self.model, self.words = model, words
        self._softmax = model.softmax_of(words.ids)

    def step(self, ids: tf.Tensor, carry: Any, memory: Any) -> Any:
        """As the model's, of C words."""
        return self.model.step(tf.gather(self.words.ids, ids), carry, memory, self._softmax)

    def places(self, ids: tf.Tensor) -> tf.Tensor:
        """Where tokens of the vocabulary, all of which compete, stand among the words."""
        return tf.reshape(tf.searchsorted(self.words.ids, tf.reshape(ids, [-1])), tf.shape(ids))

    def in_vocabulary(self, found: Hypotheses) -> Hypotheses:
        """``found`` with ids of the vocabulary."""
        return found._replace(ids=tf.gather(self.words.ids, found.ids))
