"""Search: from a step function to hypotheses. Nothing here knows a model.

A step takes the last tokens [B, Q], a carry with leading [B, Q] and a memory, and gives logits, alignment and the next
carry. Every search is one loop (``loop``) around a rule that says which tokens come next: ``greedy``, ``beam_search``,
``sample``. ``force`` scores what is given.
"""

from __future__ import annotations

from nmt_keras.search.beam import beam_search
from nmt_keras.search.candidates import Constraints
from nmt_keras.search.contract import Hypotheses, StepFunction, StepLike
from nmt_keras.search.greedy import greedy
from nmt_keras.search.log_likelihood import Forced, force
from nmt_keras.search.ranking import Coverage, Ranking, gnmt_length, plain_length
from nmt_keras.search.sampling import sample, uniform

__all__ = [
    "Constraints",
    "Coverage",
    "Forced",
    "Hypotheses",
    "Ranking",
    "StepFunction",
    "StepLike",
    "beam_search",
    "force",
    "gnmt_length",
    "greedy",
    "plain_length",
    "sample",
    "uniform",
]
