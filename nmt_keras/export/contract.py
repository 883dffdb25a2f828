"""What an export answers, by signature: the names, types and shapes that clients rely on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Output(NamedTuple):
    """One output of a signature."""

    dtype: str
    axes: str  # B sentence, K hypothesis, T target token, S source token
    meaning: str


class Signature(NamedTuple):
    """One way to ask an export."""

    inputs: tuple[str, ...]  # each a string [B]
    outputs: Mapping[str, Output]
    answers: str


_BRIEF = {
    "translation": Output("string", "B", "the translation"),
    "score": Output(
        "float32", "B", "what translations are ranked by, higher is better: log_prob, normalised as the search says"
    ),
    "truncated": Output("bool", "B", "whether the source was too long, so that its rest is not translated"),
}
_SOURCE = {
    "source_tokens": Output("string", "BS", 'the source\'s tokens as they were written; END is ""'),
    "source_lengths": Output("int32", "B", "source tokens, END included; what follows is padding"),
}
_BEST = {
    **_BRIEF,
    "log_prob": Output("float32", "B", "log p(translation | source) in nats, END included"),
    **_SOURCE,
    "target_tokens": Output("string", "BT", 'the translation\'s tokens; END is ""'),
    "target_lengths": Output("int32", "B", "target tokens, END included; what follows is padding"),
    "alignment": Output("float32", "BTS", "where each target token looked: rows sum to 1 over the source's tokens"),
}
_N_BEST = {
    "translations": Output("string", "BK", 'the translations, best first; "" where there are fewer than K'),
    "scores": Output("float32", "BK", "what they are ranked by; -infinity where there is none"),
    "log_probs": Output("float32", "BK", "log p(translation | source) in nats, END included"),
    "lengths": Output("int32", "BK", "target tokens, END included; 0 where there is no translation"),
    "tokens": Output("string", "BKT", 'the translations\' tokens; END is ""'),
    "alignment": Output("float32", "BKTS", "where each target token looked: rows sum to 1 over the source's tokens"),
    **_SOURCE,
    "truncated": _BRIEF["truncated"],
}
_SCORED = {
    "log_prob": Output("float32", "B", "log p(target | source) in nats, END included"),
    "token_log_probs": Output("float32", "BT", "the same of each token; 0 at padding"),
    "tokens": Output("string", "BT", 'the target\'s tokens; END is ""'),
    "lengths": Output("int32", "B", "target tokens, END included; what follows is padding"),
    "truncated": Output("bool", "B", "whether source or target was too long, so that its rest is not scored"),
}

CONTRACT: Mapping[str, Signature] = {
    "serving_default": Signature(("text",), _BRIEF, "the best translation by the model's own search"),
    "greedy": Signature(("text",), _BRIEF, "the greedy translation"),
    "align": Signature(("text",), _BEST, "the greedy translation with tokens, log-probability and alignment"),
    "beam": Signature(("text",), _N_BEST, "the n-best list of a beam search"),
    "score": Signature(("source", "target"), _SCORED, "the log-probability of a given translation"),
}
"""The signatures of every export."""

WIDTHS = {"S": ("source_lengths",), "T": ("target_lengths", "lengths")}
"""Which output, the first of these that a signature has, says how wide an axis is: its largest element."""
