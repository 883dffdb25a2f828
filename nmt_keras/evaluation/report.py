"""Evaluation: how well a translator does on a part of the corpus, in figures that others can compare with."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nmt_keras.config import UNK
from nmt_keras.corpus import Pair
from nmt_keras.corpus.alignments import GoldLinks
from nmt_keras.evaluation.metrics import AlignmentError, alignment_error, bleu, chrf, exact_match
from nmt_keras.files import locked, write_whole
from nmt_keras.text.tokens import SPECIAL_SURFACES
from nmt_keras.translation.model_translator import ModelTranslator
from nmt_keras.translation.records import Translation
from nmt_keras.translation.translator import Translator
from nmt_keras.translation.word_alignment import align_words, links, written_words

UNKNOWN = SPECIAL_SURFACES[UNK]
"""The sign that stands for an unknown word."""


class Report(NamedTuple):
    """What ``evaluate`` found. Scores are on raw, cased, detokenised text, one reference per pair."""

    bleu: float  # 0 to 100
    chrf: float  # 0 to 100
    exact: float  # percent of sentences that equal their reference
    signature: str  # sacreBLEU's, of the BLEU
    chrf_signature: str
    sentences: int
    seconds: float  # of translating all sentences, with a search that is traced already
    translations: list[Translation]

    @property
    def tokens(self) -> int:
        """Target tokens that were written, END not counted."""
        return sum(token != "" for translation in self.translations for token in translation.tokens)

    @property
    def unknown(self) -> float:
        """The percentage (0 to 100) of these that are the unknown word's sign."""
        signs = sum(token == UNKNOWN for translation in self.translations for token in translation.tokens)
        return 100 * signs / max(1, self.tokens)


def evaluate(translator: Translator, pairs: Sequence[Pair], language: str | None = None) -> Report:
    """Translates the sources of ``pairs`` and compares with their targets.

    The first source is translated twice: the time of tracing the search, once in a process, is not the translator's.

    Args:
        translator: what is measured.
        pairs: sentences and their references.
        language: the code of the target language; see ``metrics.bleu``.

    Raises:
        ValueError: there is no pair.
    """
    if not pairs:
        raise ValueError("pairs: expected at least one to evaluate, received none. Choose another part or corpus.")
    translator.translate([pairs[0].source])
    began = time.perf_counter()
    translations = translator.translate([pair.source for pair in pairs])
    seconds = time.perf_counter() - began
    hypotheses, references = [t.text for t in translations], [pair.target for pair in pairs]
    bleu_score, chrf_score = bleu(hypotheses, references, language), chrf(hypotheses, references)
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


def gold_error(
    translator: ModelTranslator, pairs: Sequence[Pair], gold: Sequence[GoldLinks], batch_size: int = 64
) -> AlignmentError:
    """How well what each reference word looked at most agrees with what annotators linked it to.

    The model reads each pair's source and is made to write its target; words are what spaces separate.

    Args:
        translator: what is measured.
        pairs: sentences and their references.
        gold: the links of each pair.
        batch_size: pairs that are worked on together.

    Raises:
        ValueError: there are more of the one than of the other.
    """
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    found = [
        set(links(written_words(align_words(*aligned), *pair)))
        for aligned, pair in zip(translator.align(sources, targets, batch_size), pairs, strict=True)
    ]
    return alignment_error(found, [one.sure for one in gold], [one.possible for one in gold])


def read_scores(path: Path) -> dict[str, Any]:
    """What ``write_score`` wrote, by part; {} where there is no such file.

    Raises:
        ValueError: the file is damaged.
    """
    if not path.exists():
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: expected scores as JSON; {error}. Remove the file and evaluate again.") from error


def write_score(path: Path, part: str, report: Report, search: str, step: int) -> None:
    """Puts a report under ``part`` into ``scores.json``, whole or not at all; other parts stay.

    Args:
        path: the file.
        part: "test" or "valid".
        report: its figures are rounded to two decimals, sacreBLEU's own habit.
        search: how translations were searched for, as ``str(SearchConfig)`` says it.
        step: at which the model's checkpoint was written.
    """
    score = {
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
    with locked(path):  # another process may evaluate another part
        write_whole(path, json.dumps({**read_scores(path), part: score}, indent=2) + "\n")
