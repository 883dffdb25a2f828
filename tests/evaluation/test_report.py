"""Evaluation of a translator, and the file of scores."""

import json

import numpy as np
import pytest

from nmt_keras.corpus import Pair
from nmt_keras.corpus.alignments import GoldLinks
from nmt_keras.evaluation.gold import GoldPair
from nmt_keras.evaluation.report import Report, evaluate, gold_error, read_scores, write_score
from nmt_keras.translation.records import AlignedPair, Checkpoint, Translation

CHECKPOINT = Checkpoint("ckpt-7", 7, "0a1b")

PAIRS = [
    Pair("El gato negro duerme aquí.", "The black cat sleeps here."),
    Pair("¿Dónde vives tú ahora?", "Where do you live now?"),
    Pair("Tom compró tres manzanas rojas.", "Tom bought three red apples."),
    Pair("Nunca la he visto antes.", "I have never seen her before."),
]


class Phrasebook:
    """A translator that returns the given answers."""

    def __init__(self, pairs):
        self._answers = dict(pairs)

    def translate(self, sentences, batch_size=64):
        return [Translation(self._answers[s], [], 0.0, 0.0, None, [], False) for s in sentences]


def test_translations_are_compared_with_their_references():
    found = evaluate(Phrasebook(PAIRS), PAIRS)
    assert (found.bleu, found.chrf, found.exact) == pytest.approx((100.0, 100.0, 100.0))
    assert (found.sentences, found.tokens, found.unknown) == (4, 0, 0.0)  # the phrasebook returns no tokens
    assert [translation.text for translation in found.translations] == [pair.target for pair in PAIRS]
    three_right = [*PAIRS[:3], Pair(PAIRS[3].source, "I never saw her.")]
    assert evaluate(Phrasebook(three_right), PAIRS).exact == 75.0


def test_each_part_has_its_scores_and_keeps_them_when_another_is_written(tmp_path):
    path = tmp_path / "scores.json"
    report = Report(
        bleu=12.3456,
        chrf=34.567,
        exact=25.0,
        signature="nrefs:1|case:mixed",
        chrf_signature="nrefs:1|nc:6",
        sentences=30,
        seconds=4.0,
        translations=[],
    )
    for part, bleu in (("valid", 10.0), ("test", 12.3456), ("valid", 50.0)):
        write_score(path, part, report._replace(bleu=bleu), "greedy", CHECKPOINT)
    test = {
        "bleu": 12.35,
        "chrf": 34.57,
        "exact": 25.0,
        "signature": "nrefs:1|case:mixed",
        "chrf_signature": "nrefs:1|nc:6",
        "search": "greedy",
        "step": 7,
        "checkpoint": "0a1b",
        "sentences": 30,
        "sentences_per_s": 7.5,
    }
    assert read_scores(path) == json.loads(path.read_text()) == {"valid": {**test, "bleu": 50.0}, "test": test}


def test_a_language_is_scored_by_its_own_tokenizer():
    chinese = [Pair("I like red apples.", "我喜欢红苹果")]
    assert "tok:zh" in evaluate(Phrasebook(chinese), chinese, "zh").signature


class Diagonal(Phrasebook):
    """Aligns each target token with the source token at its position."""

    def align(self, sources, targets, batch_size=64):
        sides = ([[*sentence.split(), ""] for sentence in side] for side in (sources, targets))
        return [AlignedPair(s, t, np.eye(len(t), len(s))) for s, t in zip(*sides, strict=True)]


def test_the_alignment_error_is_counted_in_the_words_of_the_reference():
    links = GoldLinks(sure=frozenset({(0, 0)}), possible=frozenset({(0, 0), (1, 1)}))
    gold = [GoldPair("la casa azul", "the blue house", links)]
    # of the links 0-0, 1-1, 2-2, one is sure and two are possible: 1 - (1 + 2) / (3 + 1)
    assert gold_error(Diagonal([]), gold).error_rate == pytest.approx(1 / 4)
