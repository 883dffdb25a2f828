"""Search: from a step function to hypotheses. Nothing here knows a model.

A step takes the last tokens [B, Q], a carry with leading [B, Q] and a memory, and gives logits, alignment and the next
carry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from nmt_keras.config import END, PAD, START


class Hypotheses(NamedTuple):
    """What a search found for a batch of sentences, best first. T is the longest hypothesis's length."""

    ids: tf.Tensor  # [B, K, T] int32, END included where it was reached; PAD after it
    lengths: tf.Tensor  # [B, K] int32 tokens, END included
    scores: tf.Tensor  # [B, K] float32, nats per token: what hypotheses are ranked by
    log_probs: tf.Tensor  # [B, K] float32, nats: sum of the tokens' log-probabilities, END included
    alignments: tf.Tensor  # [B, K, T, S] float32, each row of a real token sums to 1


class StepLike(Protocol):
    """What a step returns."""

    @property
    def logits(self) -> tf.Tensor:
        """[B, Q, V] float."""

    @property
    def alignment(self) -> tf.Tensor:
        """[B, Q, S] float."""

    @property
    def carry(self) -> Any:
        """Nest of [B, Q, ...]."""


StepFunction = Callable[[tf.Tensor, Any, Any], StepLike]


class Walk(NamedTuple):
    """The state of a search that follows one hypothesis per sentence."""

    time: tf.Tensor  # [] int32, tokens written
    ids: tf.Tensor  # [B, 1] int32, the last tokens
    carry: Any  # nest of [B, 1, ...]
    finished: tf.Tensor  # [B] bool
    lengths: tf.Tensor  # [B] int32
    log_probs: tf.Tensor  # [B] float32
    written: tf.TensorArray  # T of [B] int32
    aligned: tf.TensorArray  # T of [B, S] float32


def greedy(step: StepFunction, carry: Any, memory: Any, limits: tf.Tensor) -> Hypotheses:
    """Takes the most probable token at every step.

    Args:
        step: (ids [B, 1], carry, memory) -> logits, alignment and carry.
        carry: before the first token.
        memory: passed on to ``step``.
        limits: [B] int32, tokens of each hypothesis at the most, END included; at least 1.

    Returns:
        Hypotheses with K = 1.
    """
    return _walk(step, carry, memory, limits, lambda log_probs, _: tf.argmax(log_probs, axis=-1, output_type=tf.int32))


def sample(
    step: StepFunction, carry: Any, memory: Any, limits: tf.Tensor, *, temperature: float, seed: int
) -> Hypotheses:
    """Draws every token from softmax(logits / temperature). ``log_probs`` are the model's own, at temperature 1.

    A draw is a pure function of (seed, step): the same call gives the same hypotheses.

    Args:
        step, carry, memory, limits: as for :func:`greedy`.
        temperature: above 0.
        seed: of the draws.
    """

    def draw(log_probs: tf.Tensor, time: tf.Tensor) -> tf.Tensor:
        seeds = tf.stack([tf.constant(seed, tf.int32), time])
        return tf.random.stateless_categorical(log_probs / temperature, 1, seeds, dtype=tf.int32)[:, 0]

    return _walk(step, carry, memory, limits, draw)


def _walk(
    step: StepFunction,
    carry: Any,
    memory: Any,
    limits: tf.Tensor,
    choose: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
) -> Hypotheses:
    """Follows the tokens that ``choose`` takes from log-probabilities [B, V] until every sentence ends."""
    batch = tf.shape(limits)[0]

    def going_on(walk: Walk) -> tf.Tensor:
        # one step even in an empty batch: a TensorArray that was never written cannot be stacked
        return tf.equal(walk.time, 0) | ~tf.reduce_all(walk.finished)

    def advance(walk: Walk) -> tuple[Walk]:
        result = step(walk.ids, walk.carry, memory)
        log_probs = tf.nn.log_softmax(tf.cast(result.logits[:, 0], tf.float32))
        chosen = tf.where(walk.finished, PAD, choose(log_probs, walk.time))
        gained = tf.gather(log_probs, chosen, batch_dims=1)
        lengths = tf.where(walk.finished, walk.lengths, walk.lengths + 1)
        return (
            Walk(
                time=walk.time + 1,
                ids=chosen[:, tf.newaxis],
                carry=result.carry,
                finished=walk.finished | tf.equal(chosen, END) | (lengths >= limits),
                lengths=lengths,
                log_probs=walk.log_probs + tf.where(walk.finished, 0.0, gained),
                written=walk.written.write(walk.time, chosen),
                aligned=walk.aligned.write(walk.time, tf.cast(result.alignment[:, 0], tf.float32)),
            ),
        )

    start = Walk(
        time=tf.constant(0),
        ids=tf.fill([batch, 1], START),
        carry=carry,
        finished=tf.zeros([batch], tf.bool),
        lengths=tf.zeros([batch], tf.int32),
        log_probs=tf.zeros([batch], tf.float32),
        written=tf.TensorArray(tf.int32, size=0, dynamic_size=True, element_shape=[None]),
        aligned=tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[None, None]),
    )
    (walk,) = tf.while_loop(going_on, advance, (start,))
    ids = tf.transpose(walk.written.stack())  # [B, T]
    alignments = tf.transpose(walk.aligned.stack(), [1, 0, 2])  # [B, T, S]
    scores = walk.log_probs / tf.cast(tf.maximum(walk.lengths, 1), tf.float32)
    return Hypotheses(*(x[:, tf.newaxis] for x in (ids, walk.lengths, scores, walk.log_probs, alignments)))
