"""The demo's own parts: what it asks, and how it stands by a server that fails."""

import os
import subprocess
import sys

import pytest

from nmt_keras import demo
from nmt_keras.corpus import Pair, SplitCorpus, read_pairs, sentence_key, split_pairs
from nmt_keras.sample import SAMPLE_NAME, sample_pairs


def seen(questions, pairs):
    """The questions that stand in the training part of ``pairs``."""
    known = {sentence_key(pair.source) for pair in split_pairs(pairs, key_side="target")["train"]}
    return [question for question in questions if sentence_key(question) in known]


def test_no_question_of_the_sample_was_trained_on():
    pairs = [Pair(source=spanish, target=english) for english, spanish in sample_pairs()]
    assert seen(demo.QUESTIONS[SAMPLE_NAME], pairs) == []


@pytest.mark.corpus
def test_of_the_spanish_questions_the_tutorial_s_alone_was_trained_on():
    pairs = read_pairs(os.environ["CORPUS"], source_column=1, target_column=0).pairs
    assert seen(demo.QUESTIONS["spa-eng"], pairs) == ["¿Todavía están en casa?"]


def standing_in(monkeypatch, program):
    """Has the demo start another program for a server."""
    real = subprocess.Popen
    monkeypatch.setattr(
        demo.subprocess, "Popen", lambda command, **options: real([sys.executable, "-c", program], **options)
    )


def test_a_server_that_fails_to_start_is_quoted(monkeypatch, tmp_path):
    standing_in(monkeypatch, "import sys; sys.exit('no model in sight')")
    with pytest.raises(OSError, match=r"the embedded server did not start: no model in sight"):
        demo.ask(tmp_path / "sample" / "1", "hola")


def test_a_server_that_says_nothing_is_given_up(monkeypatch, tmp_path):
    standing_in(monkeypatch, "import time; time.sleep(600)")
    monkeypatch.setattr(demo, "START_SECONDS", 0.2)
    with pytest.raises(OSError, match=r"the embedded server did not start"):
        demo.ask(tmp_path / "sample" / "1", "hola")


def test_a_corpus_of_ones_own_is_asked_about_sentences_that_were_held_out():
    pairs = [Pair(f"s{number}", f"t{number}") for number in range(9)]
    assert demo.questions_of(SplitCorpus("mine", pairs[:1], pairs[1:3], pairs[3:])) == ["s3", "s4", "s5", "s6", "s7"]
    assert demo.questions_of(SplitCorpus("mine", pairs[:1], pairs[1:3], [])) == ["s1", "s2"]
    assert demo.questions_of(SplitCorpus("spa-eng", pairs[:1], pairs[1:3], [])) == demo.QUESTIONS["spa-eng"]
