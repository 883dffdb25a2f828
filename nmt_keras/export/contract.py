"""Signatures of an export: the names, types and shapes that clients rely on.

A sentence without letters, apart from copied words such as numbers, addresses and names, is copied: its score and
log_prob are 0, its tokens are aligned one to one, and it has one hypothesis. Its translation is the whole normalised
sentence, even if its tokens are truncated.

``text`` and ``sentences`` divide their strings into sentences. All other signatures read each string as one sentence,
in which a line break is a space. The model can omit a part of several sentences that it reads as one, and
``truncated`` cannot tell.
"""

from collections.abc import Mapping
from typing import NamedTuple

from nmt_keras.io.sentences import MAX_SENTENCES
from nmt_keras.translation.records import MAX_BYTES


class Output(NamedTuple):
    """One output of a signature."""

    dtype: str
    axes: str  # B sentence or text, N sentence of a text, K hypothesis, T target token, S source token
    meaning: str


class Signature(NamedTuple):
    """One signature of an export."""

    inputs: tuple[str, ...]  # each a string [B]
    outputs: Mapping[str, Output]
    meaning: str


_ROWS = "attention weights; each row sums to 1 over the source tokens"
_BRIEF = {
    "translation": Output("string", "B", "the translation"),
    "score": Output("float32", "B", "ranking score, higher is better: log_prob after length normalisation"),
    "truncated": Output("bool", "B", "true if the source was too long; the rest is not translated"),
}
_SOURCE = {
    "source_tokens": Output("string", "BS", 'source tokens as they were written; END is ""'),
    "source_lengths": Output("int32", "B", "number of source tokens, END included; the rest is padding"),
}
_BEST = {
    **_BRIEF,
    "log_prob": Output("float32", "B", "log p(translation | source) in nats, END included"),
    **_SOURCE,
    "target_tokens": Output("string", "BT", 'target tokens; END is ""'),
    "target_lengths": Output("int32", "B", "number of target tokens, END included; the rest is padding"),
    "alignment": Output("float32", "BTS", _ROWS),
}
_N_BEST = {
    "translations": Output("string", "BK", 'translations, best first; "" if there are fewer than K'),
    "scores": Output("float32", "BK", "ranking scores; the lowest float32 for a missing translation"),
    "log_probs": Output("float32", "BK", "log p(translation | source) in nats; the lowest float32 if it is missing"),
    "lengths": Output("int32", "BK", "number of target tokens, END included; 0 for a missing translation"),
    "tokens": Output("string", "BKT", 'target tokens; END is ""'),
    "alignment": Output("float32", "BKTS", _ROWS),
    **_SOURCE,
    "truncated": _BRIEF["truncated"],
}
_SCORED = {
    "log_prob": Output("float32", "B", "log p(target | source) in nats, END included"),
    "token_log_probs": Output("float32", "BT", "log-probability of each target token; 0 at padding"),
    "tokens": Output("string", "BT", 'target tokens; END is ""'),
    "lengths": Output("int32", "B", "number of target tokens, END included; the rest is padding"),
    "truncated": Output("bool", "B", "true if source or target was too long; the rest is not scored"),
}

_TEXT = {
    "translation": Output("string", "B", "the translation, with the line breaks of the text"),
    "truncated": Output(
        "bool",
        "B",
        f"true if a sentence was too long, or the text has more than {MAX_SENTENCES} sentences or {MAX_BYTES:,} bytes; "
        "the rest is not translated",
    ),
    "sentences": Output("int32", "B", "number of translated sentences"),
}

_SPAN = "of each sentence, in Unicode code points from 0"
_SENTENCES = {
    **_TEXT,
    "source_begins": Output("int32", "BN", f"begin {_SPAN}, in the text as read; the rest is padding, see sentences"),
    "source_ends": Output("int32", "BN", f"end {_SPAN}, in the text as read"),
    "target_begins": Output("int32", "BN", f"begin {_SPAN}, in the translation"),
    "target_ends": Output("int32", "BN", f"end {_SPAN}, in the translation"),
    "scores": Output("float32", "BN", "ranking score of each sentence"),
    "source_tokens": _SOURCE["source_tokens"]._replace(axes="BNS"),
    "source_lengths": _SOURCE["source_lengths"]._replace(axes="BN"),
    "target_tokens": _BEST["target_tokens"]._replace(axes="BNT"),
    "target_lengths": _BEST["target_lengths"]._replace(axes="BN"),
    "alignment": Output("float32", "BNTS", _ROWS),
}

CONTRACT: Mapping[str, Signature] = {
    "serving_default": Signature(("text",), _BRIEF, "the best translation, by the exported search"),
    "text": Signature(("text",), _TEXT, "the translation of a text, sentence by sentence, by the exported search"),
    "sentences": Signature(("text",), _SENTENCES, "as text, with the place, tokens and alignment of each sentence"),
    "greedy": Signature(("text",), _BRIEF, "the greedy translation"),
    "align": Signature(("text",), _BEST, "the greedy translation with tokens and alignment"),
    "beam": Signature(("text",), _N_BEST, "the n-best list of a beam search"),
    "score": Signature(("source", "target"), _SCORED, "the log-probability of a given translation"),
}
"""The signatures of every export."""

LENGTHS: Mapping[str, str] = {"source_lengths": "S", "target_lengths": "T", "lengths": "T", "sentences": "N"}
"""Outputs that hold lengths, each with the axis that it measures. The axis is as wide as the largest length."""
