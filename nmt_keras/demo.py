"""The demo: one sentence all the way, from the corpus to the answer of a REST server."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

import httpx

from nmt_keras.corpus import SplitCorpus
from nmt_keras.corpus.sample import SAMPLE_NAME
from nmt_keras.export import serving_search
from nmt_keras.plotting import alignment_heatmap, save_figure
from nmt_keras.runs import Run
from nmt_keras.runs.run import Languages
from nmt_keras.translation.model_translator import ModelTranslator
from nmt_keras.translation.word_alignment import align_words

QUESTIONS = {
    "spa-eng": [
        "¿Todavía están en casa?",
        "El artículo estaba escrito en francés.",
        "Me gustaría verte antes de marcharme.",
        "No creo que Tom sepa nadar.",
        "Mi hermana mayor trabaja en un hospital.",
    ],
    SAMPLE_NAME: [
        "¿Están cansados los médicos?",
        "Estoy en la cocina.",
        "Compra la caja nueva de tu madre, por favor.",
        "Mi hermano compró tres libros viejos.",
        "¿Te gusta leer libros?",
    ],
}
"""Five sentences that the demo translates; a corpus of one's own gives the first ones of its test part,
or of its validation part where it has no other. No training
part holds one of them, but for the first: it is the TensorFlow tutorial's, and everybody's."""


def questions_of(corpus: SplitCorpus) -> list[str]:
    """The sentences that the demo translates."""
    return QUESTIONS.get(corpus.name) or [pair.source for pair in (corpus.test or corpus.valid)[:5]]


START_SECONDS = 300.0
"""That the embedded server may take to load the models."""

STEPS = (
    "corpus",
    "training, then evaluation on the test part",
    "five sentences",
    "the alignment of the last one, as a picture",
    "export",
    "the embedded server, and a request",
)


class Announcer:
    """Says which of the demo's steps begins, and when.

    Args:
        say: told a sentence.
    """

    def __init__(self, say: Callable[[str], None]):
        self.say, self.began, self.count = say, time.perf_counter(), 0

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return time.perf_counter() - self.began

    def next_step(self) -> None:
        """Announces the next step."""
        self.say(f"\n[{self.count + 1}/{len(STEPS)}] {STEPS[self.count]}   (after {self.seconds:.0f} s)")
        self.count += 1


def demonstrate(corpus: SplitCorpus, languages: Languages, folder: Path, announcer: Announcer) -> None:
    """Runs the steps after training; what an earlier demo made is used again.

    Args:
        corpus: what the run was trained on.
        languages: codes of its source and target.
        folder: a finished run directory.
        announcer: two steps further already.

    Raises:
        OSError, ValueError: a step failed; the message says what to do.
    """
    say = announcer.say
    run = Run(folder)
    translator = run.translator()
    questions = questions_of(corpus)
    announcer.next_step()
    for question, translation in zip(questions, translator.translate(questions), strict=True):
        say(f"  {question}  ->  {translation.text}   ({translation.score:.2f} nats/token)")
    announcer.next_step()
    say(f"  {draw(translator, questions[-1], folder / 'alignment.png')}")
    announcer.next_step()
    beam = translator.with_search(serving_search(translator.search))
    version = run.export(beam, Path("saved_models") / folder.name, languages=languages)
    say(f"  {version}")
    announcer.next_step()
    say(ask(version, questions[0]))
    say(f"\nDone in {announcer.seconds:.0f} s. Next:")
    for line in _next_commands(corpus.name == SAMPLE_NAME, folder.name, questions[0]):
        say(f"  {line}")


def draw(translator: ModelTranslator, sentence: str, path: Path) -> Path:
    """Writes the heatmap of one sentence's alignment."""
    (translation,) = translator.translate([sentence])
    words = align_words(translation.source_tokens, translation.tokens, translation.alignment)
    save_figure(alignment_heatmap(words.weights, words.source, words.target), path)
    return path


def ask(version: Path, sentence: str) -> str:
    """Starts the embedded server on a free port, sends it one request, stops it; returns request and answer as text.

    Raises:
        OSError: the server did not start, or its answer is an error.
    """
    command = [sys.executable, "-m", "nmt_keras_serve.server", "--model-dir", str(version.parent.parent), "--port", "0"]
    # TensorFlow takes all of a GPU's memory, and this process has it already
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    request = json.dumps({"instances": [sentence]}, ensure_ascii=False)
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as server,
    ):
        try:
            line = _first_line(server)
            if not line.startswith("Listening on "):
                errors.seek(0)
                raise OSError(f"the embedded server did not start: {errors.read().strip()[-500:]}")
            address = line.split()[-1]
            path = f"/v1/models/{quote(version.parent.name)}:predict"
            answer = httpx.post(address + path, content=request.encode(), timeout=60, trust_env=False)
            answer.raise_for_status()
        except httpx.HTTPError as error:
            raise OSError(f"the embedded server did not answer {request}: {error}") from error
        finally:
            _stop(server)
    return f"  POST {address}{path}\n  {request}\n{json.dumps(answer.json(), indent=4, ensure_ascii=False)}"


def _first_line(server: subprocess.Popen[str]) -> str:
    """What a server prints first, or "" if it ends before, or has not within START_SECONDS."""
    assert server.stdout is not None
    patience = threading.Timer(START_SECONDS, server.kill)
    patience.start()
    try:
        return server.stdout.readline()
    finally:
        patience.cancel()


def _stop(server: subprocess.Popen[str]) -> None:
    """Ends a server, gently if it lets itself be ended so."""
    server.terminate()
    try:
        server.wait(timeout=30)
    except subprocess.TimeoutExpired:
        server.kill()


def _next_commands(sample: bool, model: str, sentence: str) -> Sequence[str]:
    """What to run after the demo, a line each."""
    python = shlex.quote(os.path.relpath(sys.executable))
    lines = [
        f"{python} -m nmt_keras serve     the server, on http://127.0.0.1:8501; then, elsewhere:",
        f"{python} -m nmt_keras_serve.client --model {model} {shlex.quote(sentence)}",
    ]
    if sample:
        lines.insert(0, f"{python} -m nmt_keras demo --corpus spa-eng.zip     the real corpus; this was the sample")
    if Path("notebooks").is_dir():  # of a clone; they are no part of the package
        lines.append("notebooks/     from one sentence's walk to a server, in Jupyter or Colab")
    return lines
