"""Search: finds hypotheses with the step function of any model.

``beam_search`` (``beam``) is also greedy search. ``log_likelihood`` (``likelihood``) computes the log-probability of
given translations.
"""

from nmt_keras.models.prediction import StepFunction
from nmt_keras.search.beam import beam_search
from nmt_keras.search.candidates import Constraints
from nmt_keras.search.hypotheses import Hypotheses, SearchInputs
from nmt_keras.search.likelihood import LogLikelihood, log_likelihood
from nmt_keras.search.ranking import Ranking, gnmt_length, plain_length

__all__ = [
    "Constraints",
    "Hypotheses",
    "LogLikelihood",
    "Ranking",
    "SearchInputs",
    "StepFunction",
    "beam_search",
    "gnmt_length",
    "log_likelihood",
    "plain_length",
]
