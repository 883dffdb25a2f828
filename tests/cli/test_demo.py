"""The demo: its questions, a server that fails, and the commands that it recommends."""

import os
import subprocess
import sys

import pytest

from nmt_keras import demo
from nmt_keras.corpus import Pair, SplitCorpus, read_pairs, sentence_key, split_pairs
from nmt_keras.corpus.sample import SAMPLE_NAME, sample_pairs


def seen(questions, pairs):
    """Returns the questions that are in the training set of ``pairs``."""
    known = {sentence_key(pair.source) for pair in split_pairs(pairs, key_side="target")["train"]}
    return [question for question in questions if sentence_key(question) in known]


def test_no_question_of_the_sample_is_in_its_training_part():
    assert seen(demo.QUESTIONS[SAMPLE_NAME], sample_pairs()) == []


@pytest.mark.corpus
def test_of_the_spanish_questions_only_the_tutorial_s_is_in_the_training_part():
    pairs = read_pairs(os.environ["CORPUS"], source_column=1, target_column=0).pairs
    assert seen(demo.QUESTIONS["spa-eng"], pairs) == ["¿Todavía están en casa?"]


def test_questions_of_another_corpus_are_held_out_sentences():
    pairs = [Pair(f"s{number}", f"t{number}") for number in range(9)]
    tested, untested = (SplitCorpus("spa-eng", pairs[:1], pairs[1:3], held) for held in (pairs[3:], []))
    for languages in (("en", "es"), (None, None)):  # not those of the real spa-eng
        assert demo.questions_of(tested, languages) == ["s3", "s4", "s5", "s6", "s7"]
        assert demo.questions_of(untested, languages) == ["s1", "s2"]
    assert demo.questions_of(tested, ("es", "en")) == demo.QUESTIONS["spa-eng"]


def test_a_server_that_does_not_start_is_reported_after_its_message(monkeypatch, tmp_path, capfd):
    """The server gets no GPU, because the demo itself may hold all of the GPU's memory."""
    program = "import os, sys; sys.exit(' '.join(map(os.environ.get, ['CUDA_VISIBLE_DEVICES', 'KEPT'])))"
    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda _, **options: real([sys.executable, "-c", program], **options))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("KEPT", "yes")
    with pytest.raises(OSError, match="the embedded server did not start"):
        demo.ask(tmp_path / "sample" / "1", "hola")
    assert capfd.readouterr().err == "-1 yes\n"
