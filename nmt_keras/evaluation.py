"""Evaluation: how well a translator does on a part of the corpus, in figures that others can compare with."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nmt_keras.corpus import Pair
from nmt_keras.metrics import bleu, chrf, exact_match
from nmt_keras.translator import Translation, Translator


class Report(NamedTuple):
    """What ``evaluate`` found. Scores are on raw, cased, detokenised text, one reference per pair."""

    bleu: float  # 0 to 100
    chrf: float  # 0 to 100
    exact: float  # percent of sentences that equal their reference
    signature: str  # sacreBLEU's, of the BLEU
    chrf_signature: str
    sentences: int
    seconds: float
    translations: list[Translation]


def evaluate(translator: Translator, pairs: Sequence[Pair]) -> Report:
    """Translates the sources of ``pairs`` and compares with their targets.

    Raises:
        ValueError: there is no pair.
    """
    if not pairs:
        raise ValueError("pairs: expected at least one to evaluate, received none. Choose another part or corpus.")
    began = time.perf_counter()
    translations = translator.translate([pair.source for pair in pairs])
    seconds = time.perf_counter() - began
    hypotheses, references = [t.text for t in translations], [pair.target for pair in pairs]
    bleu_score, chrf_score = bleu(hypotheses, references), chrf(hypotheses, references)
    return Report(
        bleu=bleu_score.value,
        chrf=chrf_score.value,
        exact=exact_match(hypotheses, references),
        signature=bleu_score.signature,
        chrf_signature=chrf_score.signature,
        sentences=len(pairs),
        seconds=seconds,
        translations=translations,
    )


def write_score(path: Path, part: str, report: Report, search: str, step: int) -> None:
    """Puts a report under ``part`` into ``scores.json``, whole or not at all; other parts stay.

    Args:
        path: the file.
        part: "test" or "valid".
        report: its figures are rounded to two decimals, sacreBLEU's own habit.
        search: how translations were searched for, as ``str(SearchConfig)`` says it.
        step: at which the model's checkpoint was written.
    """
    scores = json.loads(path.read_text()) if path.exists() else {}
    scores[part] = {
        "bleu": round(report.bleu, 2),
        "chrf": round(report.chrf, 2),
        "exact": round(report.exact, 2),
        "signature": report.signature,
        "chrf_signature": report.chrf_signature,
        "search": search,
        "step": step,
        "sentences": report.sentences,
        "sentences_per_s": round(report.sentences / report.seconds, 1),
    }
    temporary = path.with_suffix(".partial")
    temporary.write_text(json.dumps(scores, indent=2) + "\n")
    os.replace(temporary, path)
