"""The demo's own parts: what it asks, and how it stands by a server that fails."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from nmt_keras import cli, demo
from nmt_keras.cli.demo import FALLING_BACK
from nmt_keras.corpus import Pair, SplitCorpus, read_pairs, sentence_key, split_pairs
from nmt_keras.corpus.sample import SAMPLE_NAME, sample_pairs


def seen(questions, pairs):
    """The questions that stand in the training part of ``pairs``."""
    known = {sentence_key(pair.source) for pair in split_pairs(pairs, key_side="target")["train"]}
    return [question for question in questions if sentence_key(question) in known]


def test_no_question_of_the_sample_was_trained_on():
    pairs = sample_pairs()
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


def test_the_server_is_given_no_gpu_as_the_demo_itself_may_hold_all_of_its_memory(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("OF_THE_DEMO", "kept")
    standing_in(
        monkeypatch, "import os, sys; sys.exit(' '.join(map(os.environ.get, ['CUDA_VISIBLE_DEVICES', 'OF_THE_DEMO'])))"
    )
    with pytest.raises(OSError, match=r"the embedded server did not start: -1 kept"):
        demo.ask(tmp_path / "sample" / "1", "hola")


@pytest.mark.parametrize("sample", [False, True])
def test_what_the_demo_says_to_do_next_can_be_done_without_a_clone(sample, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    asked = []
    for line in demo._next_commands(sample, "mine", "¿Qué?"):
        program, option, module, *arguments = shlex.split(line.split("   ")[0])
        assert (Path(program).resolve(), option) == (Path(sys.executable).resolve(), "-m")
        asked.append((module, arguments))
    after_sample = [("nmt_keras", ["demo", "--corpus", "spa-eng.zip"])] if sample else []
    client = ("nmt_keras_serve.client", ["--model", "mine", "¿Qué?"])
    assert asked == [*after_sample, ("nmt_keras", ["serve"]), client]
    for module, arguments in asked:
        assert module == "nmt_keras_serve.client" or type(cli.parse(arguments)).__name__.lower() == arguments[0]
    (tmp_path / "notebooks").mkdir()
    assert demo._next_commands(sample, "mine", "¿Qué?")[-1].startswith("notebooks/ ")


def test_who_falls_back_on_the_sample_is_told_what_to_run_with_make_and_without():
    found = re.search(r"(nmt) (demo --corpus \S+) \(make demo CORPUS=(\S+)\)", FALLING_BACK)
    assert cli.parse(found[2].split()).data.corpus == (found[3],)


def test_a_corpus_of_ones_own_is_asked_about_sentences_that_were_held_out():
    pairs = [Pair(f"s{number}", f"t{number}") for number in range(9)]
    assert demo.questions_of(SplitCorpus("mine", pairs[:1], pairs[1:3], pairs[3:])) == ["s3", "s4", "s5", "s6", "s7"]
    assert demo.questions_of(SplitCorpus("mine", pairs[:1], pairs[1:3], [])) == ["s1", "s2"]
    assert demo.questions_of(SplitCorpus("spa-eng", pairs[:1], pairs[1:3], [])) == demo.QUESTIONS["spa-eng"]
