"""Sampling: draws translations from the model's distribution."""

import tensorflow as tf

from nmt_keras.config import PAD
from nmt_keras.layers.base import Nest
from nmt_keras.models.prediction import StepFunction
from nmt_keras.search.candidates import UNCONSTRAINED, Constraints, forced_ids, token_log_probs
from nmt_keras.search.hypotheses import IMPOSSIBLE, Beams, Hypotheses, SearchInputs
from nmt_keras.search.loop import NextTokens, decode_loop
from nmt_keras.search.ranking import PER_TOKEN, Ranking


def sample(
    step: StepFunction,
    initial_state: Nest,
    inputs: SearchInputs,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    ranking: Ranking = PER_TOKEN,
    constraints: Constraints = UNCONSTRAINED,
) -> Hypotheses:
    """Draws every token from softmax(logits / temperature).

    With ``top_k`` or ``top_p``, tokens are drawn only from the most probable tokens.

    A draw is a pure function of the probabilities and ``inputs.noise``: it is the first token at which the cumulative
    probability exceeds the noise. The returned log-probabilities are the model's own, at temperature 1 over all tokens.

    Args:
        step, initial_state, ranking, constraints: See :func:`~nmt_keras.search.beam_search`.
        inputs: The encoded sentences, with ``noise`` for at least the largest maximum length. See
            :func:`hashed_uniform`.
        temperature: Divisor of the logits, above 0.
        top_k: Number of most probable tokens to draw from (Fan et al. 2018); None for all.
        top_p: Minimum total probability of the tokens to draw from, in (0, 1]; 1 for all tokens. The smallest set of
            most probable tokens that reaches it is the nucleus (Holtzman et al. 2020). With ``top_k``, probabilities
            are renormalised over the ``top_k`` tokens before the nucleus is selected.

    Returns:
        Hypotheses with K = 1.

    Raises:
        ValueError: ``inputs`` has no noise.
    """
    if inputs.noise is None:
        raise ValueError(
            "SearchInputs.noise: expected a tensor, received None. Pass `hashed_uniform(keys, count, seed)`."
        )

    def choose(logits: tf.Tensor, beams: Beams, inputs: SearchInputs) -> NextTokens:
        size = logits.shape[-1]
        allowed = constraints.allows(tf.range(size), beams.position)
        scores = logits
        if constraints.limits_repetition:
            scores = constraints.limit_repetition(tf.nn.log_softmax(logits), beams)
        values, ids = tf.where(allowed, scores / temperature, IMPOSSIBLE), None
        if top_k is not None or top_p < 1.0:
            values, ids = tf.math.top_k(values, min(top_k or size, size))
        probabilities = tf.nn.softmax(values)
        if top_p < 1.0:
            before = tf.cumsum(probabilities, axis=-1, exclusive=True)
            probabilities = tf.where(before < top_p, probabilities, 0.0)
        noise = tf.gather(inputs.noise, beams.position, axis=1)[:, tf.newaxis, tf.newaxis]
        drawn = _draw(probabilities, noise)  # [b, 1]
        if ids is not None:
            drawn = tf.gather(ids, drawn, batch_dims=2)
        forced = forced_ids(beams, inputs)
        if forced is not None:
            drawn = tf.where(tf.equal(forced, PAD), drawn, forced)
        log_probs = beams.log_probs + tf.where(beams.finished, 0.0, token_log_probs(logits, drawn))
        return NextTokens(tf.where(beams.finished, PAD, drawn), log_probs, parents=tf.zeros_like(drawn))

    return decode_loop(step, initial_state, inputs, choose, ranking=ranking)


def _draw(probabilities: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
    """Returns the first index whose cumulative probability exceeds ``noise`` times the sum.

    An index with probability 0 is never returned.

    Returns:
        [b, 1] int32.
    """
    cumulative = tf.cumsum(probabilities, axis=-1)
    # rounding in a parallel cumulative sum may increase it at an index with probability 0
    exceeds = (cumulative > noise * cumulative[..., -1:]) & (probabilities > 0.0)
    return tf.argmax(tf.cast(exceeds, tf.int32), axis=-1, output_type=tf.int32)


def hashed_uniform(keys: tf.Tensor, count: int | tf.Tensor, seed: int) -> tf.Tensor:
    """Returns noise for :func:`sample`: ``count`` numbers in [0, 1) for each key.

    Each number is a keyed hash (SipHash) of (key, position, seed), so a translation does not depend on the other
    sentences of the batch.

    Args:
        keys: [B] string.
        count: Number of values for each key.
        seed: Seed of the hash.

    Returns:
        [B, count] float32.
    """
    digests = tf.strings.as_string(tf.strings.to_hash_bucket_strong(keys, 2**62, key=[seed, 1]))  # short, unlike keys
    texts = tf.strings.as_string(tf.range(count)) + " " + digests[:, tf.newaxis]  # [B, count]
    return tf.cast(tf.strings.to_hash_bucket_strong(texts, 2**24, key=[seed, 0]), tf.float32) / 2.0**24
