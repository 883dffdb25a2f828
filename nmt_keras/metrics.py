"""Scores of translations, by sacreBLEU on raw, cased, detokenised text; the signature says how, so scores compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu.metrics import BLEU, CHRF


class Score(NamedTuple):
    """A corpus score and the sacreBLEU signature to publish with it."""

    value: float
    """0 to 100."""
    signature: str


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Computes corpus BLEU (Papineni et al. 2002): up to 4-grams, cased, 13a tokens, one reference per hypothesis.

    Args:
        hypotheses: detokenised translations; an empty one is a translation of no tokens.
        references: detokenised references, in the same order.

    Raises:
        ValueError: the lists are empty, differ in length, or are a string instead of a list.
    """
    return _score(BLEU(tokenize="13a"), hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Computes corpus chrF2 (Popovic 2015): character 6-grams, cased, no spaces; arguments and errors as ``bleu``."""
    return _score(CHRF(), hypotheses, references)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Computes the percentage (0 to 100) of hypotheses equal to their reference, character by character."""
    _require_corresponding(hypotheses, references)
    equal = sum(hypothesis == reference for hypothesis, reference in zip(hypotheses, references, strict=True))
    return 100 * equal / len(references)


def _score(metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    _require_corresponding(hypotheses, references)
    value = metric.corpus_score(hypotheses, [references]).score
    return Score(value, str(metric.get_signature()))  # the signature counts references, so it is asked for last


def _require_corresponding(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise ValueError("hypotheses, references: expected two lists of sentences, received a string. Pass [sentence].")
    if not hypotheses or len(hypotheses) != len(references):
        raise ValueError(
            "hypotheses, references: expected two lists of one length, at least 1; received "
            f"{len(hypotheses):,} hypotheses and {len(references):,} references."
        )
