"""The model in the repository, saved_models/spa-eng/1: its size, card, scores and translations."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from servers import ROOT

import nmt_keras
from nmt_keras.evaluation.metrics import bleu
from nmt_keras.export import read_manifest
from nmt_keras.export.card import CARD
from nmt_keras.export.fresh_process import Request, ask

VERSION = ROOT / "saved_models" / "spa-eng" / "1"
FOLDERS = [
    *(b"/home/", b"/root/", b"/tmp/", b"/usr/", b"/opt/", b"/content/", b"/Users/"),
    *(f"/{folder.parts[1]}/".encode() for folder in (ROOT, Path.home())),
]
"""First parts of the paths of machines that build models, and of this one."""
PAIRS = [line.split("\t") for line in Path(__file__).with_name("spa-eng-200.tsv").read_text("utf-8").splitlines()]
"""The 200 pairs of the test set with the smallest sha256 of ``English<TAB>Spanish<LF>``. From Tatoeba, CC BY 2.0."""


def test_the_model_is_small_and_contains_no_path_of_a_machine():
    contents = [path.read_bytes() for path in VERSION.rglob("*") if path.is_file()]
    assert sum(map(len, contents)) < 20e6
    assert not [folder for folder in FOLDERS for each in contents if folder in each]


def test_the_card_states_the_licence_the_command_and_a_bleu_of_at_least_55():
    scores = read_manifest(VERSION)["scores"]["test"]
    assert (scores["search"], scores["sentences"]) == ("beam 5, gnmt length 1.0", 3415)
    assert scores["bleu"] >= 55.0
    card = (VERSION / CARD).read_text("utf-8")
    assert "CC BY 2.0" in card
    assert "nmt train conditional-gru --" in card
    assert "Fine-tuned from ckpt-25419 of spa-eng/1" in card


def bleu_of(translations):
    return bleu(translations, [target for _, target in PAIRS], "en").value


@pytest.mark.long
def test_the_command_line_prints_its_translation_and_no_message_of_native_code():
    command = [sys.executable, "-m", "nmt_keras", "translate", VERSION, "Hola."]
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


@pytest.mark.long
def test_200_pairs_are_translated_well_and_one_sentence_as_in_the_readme():
    translator = nmt_keras.load(VERSION)
    readme = (ROOT / "README.md").read_text("utf-8")
    sentence, text, log_prob = re.search(
        r'translate\(\["(.+)"\]\).*?# (.+) (-[\d.]+) \(nats', readme, re.DOTALL
    ).groups()
    (translation,) = translator.translate([sentence])
    assert (translation.text, translation.log_prob) == (text, pytest.approx(float(log_prob), abs=2e-3))
    (given,) = translator.score([sentence], [text])
    assert given.log_prob == pytest.approx(translation.log_prob, abs=2e-3)
    translations = translator.translate([source for source, _ in PAIRS])
    assert bleu_of([translation.text for translation in translations]) > 50.0
    beam, greedy = translator.searches
    for search, text, log_prob in (  # quoted in notebook 0
        (greedy, "You're telling the prize.", -4.76),
        (beam, "You deserve the prize.", -2.97),
    ):
        (found,) = translator.with_search(search).translate(["Os merecéis el premio."])
        assert (found.text, found.log_prob) == (text, pytest.approx(log_prob, abs=5e-3))


@pytest.mark.tf220
def test_tensorflow_2_20_translates_200_pairs_well(python_of_serving):
    request = Request("serving_default", [[source for source, _ in PAIRS]])
    answers = ask(VERSION, [request], python_of_serving)
    assert answers.libraries["tensorflow"] == "2.20.0"
    ((reply,),) = answers.replies
    assert bleu_of(reply["outputs"]["translation"]["values"]) > 50.0
