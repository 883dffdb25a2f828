"""What a search is given and what it finds: steps in, hypotheses out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import tensorflow as tf


class StepLike(Protocol):
    """What a step returns."""

    @property
    def logits(self) -> tf.Tensor:
        """[B, Q, V] float: log-probabilities of the next token, or anything that differs from them by a constant."""

    @property
    def alignment(self) -> tf.Tensor:
        """[B, Q, S] float."""

    @property
    def state(self) -> Any:
        """Nest of [B, Q, ...]."""


StepFunction = Callable[[tf.Tensor, Any, Any], StepLike]
"""(last tokens [B, Q] int32, state of [B, Q, ...], memory of [B, ...]) -> logits, alignment and the next state."""


class Hypotheses(NamedTuple):
    """What a search found for a batch of sentences, best first. T is the longest hypothesis's length, 1 at the least.

    Where fewer than K hypotheses exist, the last are empty: length 0, score and log-probability -infinity.
    """

    ids: tf.Tensor  # [B, K, T] int32, END included where it was reached; PAD after it
    lengths: tf.Tensor  # [B, K] int32 tokens, END included
    scores: tf.Tensor  # [B, K] float32: what hypotheses are ranked by, normalised
    log_probs: tf.Tensor  # [B, K] float32, nats: sum of the tokens' log-probabilities, END included
    alignments: tf.Tensor  # [B, K, T, S] float32: each row of a real token sums to 1, the others are 0
