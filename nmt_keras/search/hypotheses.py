"""Records of a search: its inputs, its state, and its result."""

from typing import NamedTuple

import tensorflow as tf

from nmt_keras.config import PAD
from nmt_keras.layers.base import Nest

IMPOSSIBLE = float("-inf")  # log-probability of a candidate that is not allowed, and of a place without a hypothesis


class SearchInputs(NamedTuple):
    """The tensors of B sentences that a search reads. No step changes them."""

    memory: Nest  # nest of [B, ...] and None; see ``Seq2Seq.encode``
    source_mask: tf.Tensor  # [B, S] bool: True at the tokens of the source
    max_lengths: tf.Tensor  # [B] int32: maximum length of a hypothesis in tokens, END included; at least 1
    prefix: tf.Tensor | None = None  # [B, P] int32: first tokens of each hypothesis; PAD where any token is allowed


class Beams(NamedTuple):
    """Q hypotheses of each of b sentences, after t steps of a search.

    Each sentence has Q places. At the beginning, place 0 has an empty hypothesis, and the other places have none.
    """

    ids: tf.Tensor  # [b, Q, 1 + t] int32: START, then the tokens, then PAD
    alignments: tf.Tensor  # [b, Q, t, S] float32: alignments of the tokens; 0 at PAD
    log_probs: tf.Tensor  # [b, Q] float32, nats: sum over the tokens; IMPOSSIBLE at places without a hypothesis
    finished: tf.Tensor  # [b, Q] bool: True if the hypothesis, or its sentence, takes no more tokens
    decoder_state: Nest  # nest of [b, Q, ...]: state before the decoder reads the last token

    @property
    def lengths(self) -> tf.Tensor:
        """Number of tokens of each hypothesis, [b, Q] int32."""
        return tf.math.count_nonzero(tf.not_equal(self.ids, PAD), axis=2, dtype=tf.int32) - 1

    @property
    def position(self) -> tf.Tensor:
        """Position t of the next token, [] int32. The first token has position 0."""
        return tf.shape(self.ids)[2] - 1


class Hypotheses(NamedTuple):
    """The result of a search: the K best hypotheses of each sentence, best first. T is the longest length, at least 1.

    If fewer than K hypotheses exist, the last ones are empty: length 0, score and log-probability -infinity.
    """

    ids: tf.Tensor  # [B, K, T] int32, ending in END unless the maximum length was reached; then PAD
    lengths: tf.Tensor  # [B, K] int32 tokens, END included
    scores: tf.Tensor  # [B, K] float32: normalised log-probabilities, see Ranking
    log_probs: tf.Tensor  # [B, K] float32, nats: sum over the tokens, END included
    alignments: tf.Tensor  # [B, K, T, S] float32: the row of a token sums to 1, rows of padding are 0
