"""Evaluation of one translator on a set of sentence pairs."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nmt_keras.config import UNK, require
from nmt_keras.corpus import Pair
from nmt_keras.evaluation.gold import GoldPair
from nmt_keras.evaluation.metrics import AlignmentError, alignment_error, bleu, chrf, exact_match
from nmt_keras.io.files import locked, read_json, write_whole
from nmt_keras.text.tokens import SPECIAL_SURFACES
from nmt_keras.translation.model_translator import ModelTranslator
from nmt_keras.translation.records import Checkpoint, Translation
from nmt_keras.translation.translator import Translator
from nmt_keras.translation.word_alignment import align_words, links, written_words


class Report(NamedTuple):
    """Result of ``evaluate``. Scores are on raw, cased, detokenised text, one reference per pair."""

    bleu: float  # 0 to 100
    chrf: float  # 0 to 100
    exact: float  # percentage of sentences that equal their reference
    signature: str  # sacreBLEU's signature of BLEU
    chrf_signature: str
    sentences: int
    seconds: float  # time to translate all sentences, without tracing
    translations: list[Translation]

    @property
    def cut(self) -> list[int]:
        """Numbers of the pairs whose source was cut at the model's length limit, from 1."""
        return [number for number, translation in enumerate(self.translations, 1) if translation.truncated]

    @property
    def tokens(self) -> int:
        """Number of target tokens, without END."""
        return sum(token != "" for translation in self.translations for token in translation.tokens)

    @property
    def unknown(self) -> float:
        """Percentage (0 to 100) of target tokens that are UNK, displayed as "⁇"."""
        signs = sum(translation.tokens.count(SPECIAL_SURFACES[UNK]) for translation in self.translations)
        return 100 * signs / max(1, self.tokens)


def evaluate(
    translator: Translator, pairs: Sequence[Pair], language: str | None = None, tokenizer: str | None = None
) -> Report:
    """Translates the sources of ``pairs`` and scores the translations against the targets.

    The first source is translated twice, so that the measured time does not include tracing the search.

    Args:
        translator: The translator to evaluate.
        pairs: Sentences and their references.
        language: Code of the target language; see ``metrics.bleu``.
        tokenizer: Tokenizer of BLEU; see ``metrics.bleu``.

    Raises:
        ValueError: there is no pair.
    """
    require(len(pairs) > 0, "pairs", "at least one pair to evaluate", "none")
    translator.translate([pairs[0].source])
    began = time.perf_counter()
    translations = translator.translate([pair.source for pair in pairs])
    seconds = time.perf_counter() - began
    hypotheses, references = [translation.text for translation in translations], [pair.target for pair in pairs]
    bleu_score, chrf_score = bleu(hypotheses, references, language, tokenizer), chrf(hypotheses, references)
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


def gold_error(translator: ModelTranslator, gold: Sequence[GoldPair]) -> AlignmentError:
    """Returns the alignment error of the attention on pairs with gold alignments, by forced decoding of the targets."""
    aligned = translator.align([pair.source for pair in gold], [pair.target for pair in gold])
    found = [
        set(links(written_words(align_words(*one), pair.source, pair.target)))
        for one, pair in zip(aligned, gold, strict=True)
    ]
    return alignment_error(found, [pair.links for pair in gold])


def read_scores(path: Path) -> dict[str, Any]:
    """Returns the contents of ``scores.json``: the scores of each set, by its name. {} if the file does not exist.

    Raises:
        ValueError: the file is damaged.
    """
    return read_json(path) if path.exists() else {}


def write_score(path: Path, part: str, report: Report, search: str, checkpoint: Checkpoint) -> None:
    """Writes the scores of a set into ``scores.json``, atomically. Scores of other sets are kept.

    Args:
        path: Path of ``scores.json``.
        part: Name of the set, "test" or "valid".
        report: The report. Scores are rounded to two decimals, as in sacreBLEU.
        search: Description of the search, ``str(SearchConfig)``.
        checkpoint: The checkpoint of the model.
    """
    score = {
        "bleu": round(report.bleu, 2),
        "chrf": round(report.chrf, 2),
        "exact": round(report.exact, 2),
        "signature": report.signature,
        "chrf_signature": report.chrf_signature,
        "search": search,
        "step": checkpoint.step,
        "checkpoint": checkpoint.sha256,
        "sentences": report.sentences,
        "sentences_per_s": round(report.sentences / report.seconds, 1),
    }
    with locked(path):  # another process may evaluate another set
        write_whole(path, json.dumps({**read_scores(path), part: score}, indent=2) + "\n")
