"""Candidates: the most probable next tokens that the constraints of a search allow."""

from typing import NamedTuple

import tensorflow as tf

from nmt_keras.config import END, PAD
from nmt_keras.search.hypotheses import IMPOSSIBLE, Beams, SearchInputs
from nmt_keras.search.repetition import forbid_repeated_ngrams, penalize_repetition
from nmt_keras.search.top_k import top_k


class Constraints(NamedTuple):
    """The tokens that a hypothesis may take. PAD and START are never chosen.

    Log-probabilities remain the model's own, except for ``repetition_penalty``: they are not renormalised over the
    allowed tokens.
    """

    min_tokens: int = 1  # minimum length of a hypothesis in tokens, END included
    unk_allowed: bool = True  # True if a hypothesis may contain UNK
    no_repeat_ngram_size: int = 0  # number of tokens of the n-grams that occur only once; 0 for no limit
    repetition_penalty: float = 1.0  # factor of the log-probabilities of tokens that the hypothesis contains

    def allows(self, ids: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
        """Returns True for tokens ``ids`` that are allowed at ``position``, [] int32."""
        end_allowed = position + 1 >= self.min_tokens
        allowed = tf.stack([False, self.unk_allowed, False, end_allowed, True])  # PAD, UNK, START, END, any other
        return tf.gather(allowed, tf.minimum(ids, END + 1))

    @property
    def limits_repetition(self) -> bool:
        """True if the history of a hypothesis changes the probabilities of its next tokens."""
        return self.no_repeat_ngram_size > 0 or self.repetition_penalty != 1.0

    def limit_repetition(self, log_probs: tf.Tensor, beams: Beams) -> tf.Tensor:
        """Returns the log-probabilities [b, Q, V] after the rules that read the history of each hypothesis."""
        if self.repetition_penalty != 1.0:
            log_probs = penalize_repetition(log_probs, beams.ids, self.repetition_penalty)
        if self.no_repeat_ngram_size:
            allowed = self.allows(tf.range(tf.shape(log_probs)[2]), beams.position)
            log_probs = forbid_repeated_ngrams(log_probs, beams.ids, self.no_repeat_ngram_size, allowed)
        return log_probs

    @property
    def forbidden_count(self) -> int:
        """Maximum number of tokens that are forbidden at a step, apart from repeated n-grams."""
        return 2 + (not self.unk_allowed) + (self.min_tokens > 1)


UNCONSTRAINED = Constraints()


def candidates(
    logits: tf.Tensor, count: int, constraints: Constraints, beams: Beams, inputs: SearchInputs
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns at least the ``count`` most probable allowed tokens of each hypothesis, or all if there are fewer.

    Args:
        logits: [b, Q, V] float32.
        count: Minimum number of tokens.
        constraints: The allowed tokens.
        beams: The hypotheses.
        inputs: Inputs of their sentences, with the prefix.

    Returns:
        Ids [b, Q, C] int32 in any order, and log-probabilities [b, Q, C] float32, IMPOSSIBLE for forbidden tokens.
    """
    count += constraints.forbidden_count
    if constraints.limits_repetition:
        log_total = tf.reduce_logsumexp(logits, axis=-1, keepdims=True)
        log_probs, ids = top_k(constraints.limit_repetition(logits - log_total, beams), count)
    else:
        values, ids = top_k(logits, count)
        peak = values[..., :1]  # known already, so tf.reduce_logsumexp need not find it
        log_total = peak + tf.math.log(tf.reduce_sum(tf.exp(logits - peak), axis=-1, keepdims=True))
        log_probs = values - log_total
    log_probs = tf.where(constraints.allows(ids, beams.position), log_probs, IMPOSSIBLE)
    forced = forced_ids(beams, inputs)
    if forced is None:
        return ids, log_probs
    is_forced, is_first = tf.not_equal(forced, PAD)[..., tf.newaxis], tf.range(ids.shape[2]) == 0
    forced_log_probs = tf.gather(logits, forced, axis=2, batch_dims=1) - log_total  # [b, Q, 1]
    return (
        tf.where(is_forced, forced[..., tf.newaxis], ids),
        tf.where(is_forced, tf.where(is_first, forced_log_probs, IMPOSSIBLE), log_probs),
    )


def forced_ids(beams: Beams, inputs: SearchInputs) -> tf.Tensor | None:
    """Returns the next token of each prefix, [b, 1] int32: PAD where any token is allowed. None without prefixes."""
    if inputs.prefix is None:
        return None
    return tf.pad(inputs.prefix, [[0, 0], [0, beams.position + 1]])[:, beams.position, tf.newaxis]
