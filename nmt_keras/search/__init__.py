"""Search: finds hypotheses with the step function of any model.

``greedy``, ``beam_search`` and ``sample`` share one loop (``loop``). Each has its own rule that chooses the next tokens
(``strategies``). ``log_likelihood`` computes the log-probability of given translations.
"""

from __future__ import annotations

from nmt_keras.models.predictor import StepFunction
from nmt_keras.search.candidates import Constraints
from nmt_keras.search.hypotheses import Hypotheses
from nmt_keras.search.ranking import Ranking, gnmt_length, plain_length
from nmt_keras.search.strategies import LogLikelihood, beam_search, greedy, hashed_uniform, log_likelihood, sample

__all__ = [
    "Constraints",
    "Hypotheses",
    "LogLikelihood",
    "Ranking",
    "StepFunction",
    "beam_search",
    "gnmt_length",
    "greedy",
    "hashed_uniform",
    "log_likelihood",
    "plain_length",
    "sample",
]
