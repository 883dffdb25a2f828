"""Search: from a step function to hypotheses. Nothing here knows a model.

A step takes the last tokens [B, Q], a state with leading [B, Q] and a memory, and gives logits, alignment and the next
state. Every search is one loop (``loop``) around a rule that says which tokens come next: ``greedy``, ``beam_search``,
``sample``. ``log_likelihood`` scores what is given.
"""

from __future__ import annotations

from nmt_keras.search.beam import beam_search
from nmt_keras.search.candidates import Constraints
from nmt_keras.search.contract import Hypotheses, StepFunction, StepLike
from nmt_keras.search.greedy import greedy
from nmt_keras.search.log_likelihood import LogLikelihood, log_likelihood
from nmt_keras.search.ranking import Coverage, Ranking, gnmt_length, plain_length
from nmt_keras.search.sampling import hashed_uniform, sample

__all__ = [
    "Constraints",
    "Coverage",
    "Hypotheses",
    "LogLikelihood",
    "Ranking",
    "StepFunction",
    "StepLike",
    "beam_search",
    "gnmt_length",
    "greedy",
    "hashed_uniform",
    "log_likelihood",
    "plain_length",
    "sample",
]
