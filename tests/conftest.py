"""Shared fixtures: a fixed environment, and small models and servers that take long to create."""

import os
import shutil
import signal
import subprocess
import sys
import venv
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # results are compared across machines; GPUs round differently
os.environ["NMT_COMPILATION_CACHE"] = "off"  # tests leave no files in the home folder

import keras
import pytest
from bigram import random_batches
from reverser import export_reverser
from servers import CHROMIUM, NGINX, ROOT, Certificate, running_server
from tiny import OWN_LAYERS, TINY_MODEL, TINY_RECIPE, TINY_TEXT, randomise

from nmt_keras.corpus import Pair, SplitCorpus
from nmt_keras.corpus.batches import Batches
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.io.modules import IMPORTED
from nmt_keras.models.builder import REGISTERED, REGISTRIES
from nmt_keras.models.seq2seq import Seq2Seq, build_model
from nmt_keras.runs import Run
from nmt_keras.text import fit_tokenizer
from nmt_keras.translation.model_translator import ModelTranslator

PROGRAMS = {"browser": CHROMIUM, "cpp": shutil.which("g++"), "nginx": NGINX}
"""Programs outside Python that some tests run, by marker; ``None`` if not installed."""

PROGRAMS_REQUIRED = "PROGRAMS_REQUIRED"
"""Environment variable. If it is set, a missing program is an error."""


def pytest_configure(config):
    """Fails before the collection if all programs are required and one is missing."""
    missing = [name for name, path in PROGRAMS.items() if path is None]
    if os.environ.get(PROGRAMS_REQUIRED) and missing:
        raise pytest.UsageError(
            f"{PROGRAMS_REQUIRED}: expected {', '.join(PROGRAMS)} on the PATH, found no {', '.join(missing)}. "
            "Install the programs, or unset the variable to deselect their tests."
        )


def pytest_make_parametrize_id(val, argname):
    """Names bytes by their argument. Compressed bytes contain the time, so workers would collect different tests."""
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Deselects tests that need the real corpus or a program if there is none.

    The environment variable CORPUS names the real corpus. Tests with the shared run or the shared export are long.
    Files with long tests come first. At the end, one worker would otherwise wait for the other.
    """
    for item in items:
        if {"run_folder", "reverser"} & {*item.fixturenames}:
            item.add_marker("long")
    present = {"corpus": os.environ.get("CORPUS"), **PROGRAMS}
    without = [i for i in items if any(i.get_closest_marker(need) and not found for need, found in present.items())]
    config.hook.pytest_deselected(items=without)
    lasting = {item.path for item in items if any(map(item.get_closest_marker, ("long", "slow", *PROGRAMS)))}
    items[:] = sorted((item for item in items if item not in without), key=lambda item: item.path not in lasting)


@pytest.fixture(autouse=True)
def _seeds():
    """Seeds the random numbers, so that they do not depend on earlier tests."""
    keras.utils.set_random_seed(20)


@pytest.fixture
def _python_s_own_interrupt_handler():
    """Sets the handler of a process in a terminal. Shells start background jobs with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def forget_modules():
    """A function that forgets, as a new process would, which modules --import has imported and what they registered.

    Called at the end of the test, too.
    """
    known = {part: dict(registry) for part, registry in REGISTRIES.items()}

    def forget():
        for part, registry in REGISTRIES.items():
            registry.clear()
            registry.update(known[part])
            REGISTERED[part].clear()
        for name in {"own_layers", *IMPORTED}:
            sys.modules.pop(name, None)
        IMPORTED.clear()

    yield forget
    forget()


@pytest.fixture
def own_layers(tmp_path, monkeypatch, forget_modules):
    """The options of recipe and module for the cell and the score in ``OWN_LAYERS``, in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "own_layers.py").write_text(OWN_LAYERS)
    return "--model.encoder.cell own --model.attention.kind own --model.decoder.cell own"


@pytest.fixture
def dtype_policy():
    """Sets Keras's dtype policy for one test."""
    before = keras.config.dtype_policy()
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy(before)


@pytest.fixture(scope="session")
def model() -> Seq2Seq:
    """A tiny RNNsearch with random weights, for vocabularies of 19 and 23 words. Tests must not change it."""
    model = build_model(TINY_MODEL, 19, 23)
    randomise(model, 3)
    return model


@pytest.fixture(scope="session")
def pairs() -> list[Pair]:
    """120 pairs of the sample corpus, Spanish to English."""
    return sample_pairs()[:120]


@pytest.fixture(scope="session")
def corpus(pairs) -> SplitCorpus:
    """The pairs as 80 for training, 20 for validation and 20 for testing."""
    return SplitCorpus("sample", pairs[:80], pairs[80:100], pairs[100:])


@pytest.fixture(scope="session")
def batches() -> Batches:
    """Batches of random tokens for the model of ``bigram``."""
    return random_batches()


@pytest.fixture(scope="session")
def translator(pairs) -> ModelTranslator:
    """A translator with a tiny model of random weights, and word tokenizers fitted on sample sentences."""
    source = fit_tokenizer(TINY_TEXT, [pair.source for pair in pairs])
    target = fit_tokenizer(TINY_TEXT, [pair.target for pair in pairs])
    model = build_model(TINY_MODEL, source.vocabulary_size, target.vocabulary_size)
    randomise(model, 7)
    return ModelTranslator(source, target, model, search=TINY_RECIPE.search)


@pytest.fixture(scope="session")
def run_folder(corpus, tmp_path_factory):
    """A run directory after a few training steps on ``corpus``."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    Run(folder, TINY_RECIPE).train(corpus, report=lambda _: None, show=lambda *_: None)
    return folder


@pytest.fixture(scope="session")
def reverser(tmp_path_factory) -> Path:
    """An export of the reversing model. Tests must not change it."""
    folder = tmp_path_factory.mktemp("reverser") / "1"
    export_reverser(folder)
    return folder


@pytest.fixture(scope="session")
def served(tmp_path_factory, reverser):
    """The URL of an embedded server that serves the reversing model as version 3 of ``spa-eng``."""
    models = tmp_path_factory.mktemp("served")
    shutil.copytree(reverser, models / "spa-eng" / "3")
    with running_server(models) as url:
        yield url


@pytest.fixture(scope="module")
def chromium():
    """A headless Chromium. Not for the whole session, because its event loop runs as long as it is open."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory) -> Certificate:
    """A self-signed certificate for localhost, created as in serve/README.md."""
    folder = tmp_path_factory.mktemp("tls")
    files = Certificate(folder / "server.crt", folder / "server.key")
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*request, *names, "-keyout", files.key, "-out", files.certificate], check=True, capture_output=True)
    return files


@pytest.fixture(scope="session")
def python_of_serving() -> Path:
    """A Python interpreter with TensorFlow 2.20.0 in a separate virtual environment.

    The environment variable TF220_VENV names the environment, by default ``.venv-tf220``. It is created if missing.
    """
    folder = Path(os.environ.get("TF220_VENV", ROOT / ".venv-tf220"))
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    install = [python, "-m", "pip", "install", "--quiet", "--require-hashes"]
    subprocess.run([*install, "-r", ROOT / "requirements/tf220.txt"], check=True)
    return python
