"""What tests share: an environment without surprises, and a few small things that are costly to make."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # figures are compared across machines; a GPU rounds otherwise

import keras
import numpy as np
import pytest

from nmt_keras.config import ModelConfig, Recipe, SearchConfig, TextConfig, TrainConfig
from nmt_keras.corpus import Pair, SplitCorpus
from nmt_keras.experiment import Experiment
from nmt_keras.model import Seq2Seq, build_model
from nmt_keras.sample import sample_pairs
from nmt_keras.text import fit_text
from nmt_keras.translator import ModelTranslator

TINY_MODEL = ModelConfig(
    embedding_size=5, encoder_units=7, decoder_units=11, attention_units=13, readout_units=17, dropout=0.1
)
TINY_TEXT = TextConfig(kind="word", vocabulary_size=200, max_tokens=30)
TINY_RECIPE = Recipe(
    name="tiny",
    source=TINY_TEXT,
    target=TINY_TEXT,
    model=TINY_MODEL,
    train=TrainConfig(
        steps=20,
        minutes=None,
        batch_size=16,
        shapes=1,
        learning_rate=0.02,
        warmup_steps=2,
        validations=1,
        validation_sentences=8,
        log_every=5,
        xla=False,
    ),
    search=SearchConfig(max_tokens=12),
)


def pytest_collection_modifyitems(config, items):
    """Deselects what needs the real corpus where the environment variable CORPUS does not name it."""
    if os.environ.get("CORPUS"):
        return
    without = [item for item in items if item.get_closest_marker("corpus")]
    config.hook.pytest_deselected(items=without)
    items[:] = [item for item in items if item not in without]


def randomise(part: keras.layers.Layer, seed: int) -> None:
    """Gives every variable normal numbers, biases too: zeros would hide one that is forgotten."""
    random = np.random.default_rng(seed)
    for variable in part.trainable_variables:
        variable.assign(random.normal(0.0, 0.5, variable.shape))


@pytest.fixture(autouse=True)
def _seeds():
    """The same random numbers in every test, whatever ran before."""
    keras.utils.set_random_seed(20)


@pytest.fixture(scope="session")
def model() -> Seq2Seq:
    """A tiny RNNsearch with random weights, for vocabularies of 19 and 23 words; no test may change it."""
    keras.utils.set_random_seed(3)
    model = build_model(TINY_MODEL, 19, 23)
    randomise(model, 3)
    return model


@pytest.fixture(scope="session")
def pairs() -> list[Pair]:
    """A hundred and twenty pairs of the sample corpus, Spanish to English."""
    return [Pair(spanish, english) for english, spanish in sample_pairs()[:120]]


@pytest.fixture(scope="session")
def translator(pairs) -> ModelTranslator:
    """A tiny model with random weights, and word texts fitted on sample sentences."""
    keras.utils.set_random_seed(7)
    source = fit_text(TINY_TEXT, [pair.source for pair in pairs])
    target = fit_text(TINY_TEXT, [pair.target for pair in pairs])
    model = build_model(TINY_MODEL, source.vocabulary_size, target.vocabulary_size)
    randomise(model, 7)
    return ModelTranslator(source, target, model, TINY_RECIPE.search)


@pytest.fixture(scope="session")
def run_folder(pairs, tmp_path_factory):
    """A run directory that a few steps of training left behind."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    parts = SplitCorpus("sample", pairs[:80], pairs[80:100], pairs[100:])
    Experiment(folder, TINY_RECIPE).train(parts, report=lambda _: None, show=lambda *_: None)
    return folder
