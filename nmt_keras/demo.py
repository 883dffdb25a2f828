"""The demo: translates five sentences, draws an alignment, exports the model and queries a REST server."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import httpx

from nmt_keras.corpus import SAMPLE_NAME, SplitCorpus
from nmt_keras.export import serving_search
from nmt_keras.plotting import alignment_heatmap, save_figure
from nmt_keras.runs.run import Languages, Run
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
"""Sentences that the demo translates, by corpus. The first sentence for spa-eng is from the TensorFlow tutorial and
occurs in the training set. The others occur in no training set."""

MODEL_FOLDER = Path("saved_models/demo")
"""Folder of the demo's exports. No other command writes there by default."""

STEPS = (
    "corpus",
    "training, then evaluation on the test set",
    "five sentences",
    "picture of the last sentence's alignment",
    "export",
    "the embedded server, and a request",
)


def questions_of(corpus: SplitCorpus, languages: Languages) -> list[str]:
    """Returns the sentences that the demo translates: those in ``QUESTIONS``, else up to five held-out sentences."""
    known = QUESTIONS.get(corpus.name) if languages == ("es", "en") else None
    return known or [pair.source for pair in (corpus.test or corpus.valid)[:5]]


def announce_steps(say: Callable[[str], None]) -> Iterator[None]:
    """Prints the title of a step at each call of ``next``, and the total time after the last step."""
    began = time.perf_counter()
    for number, step in enumerate(STEPS, start=1):
        say(f"\n[{number}/{len(STEPS)}] {step}   (after {time.perf_counter() - began:.0f} s)")
        yield
    say(f"\nDone in {time.perf_counter() - began:.0f} s. Next steps:")


def demonstrate(
    corpus: SplitCorpus, languages: Languages, folder: Path, say: Callable[[str], None], steps: Iterator[None]
) -> None:
    """Runs the steps after training and evaluation.

    Args:
        corpus: The corpus of the run.
        languages: Codes of the source and target languages.
        folder: A finished run directory.
        say: Function that shows a message to the user.
        steps: Iterator from ``announce_steps``, advanced past the first two steps.

    Raises:
        OSError, ValueError: a step failed. The message explains what to do.
    """
    run = Run(folder)
    translator = run.translator()
    questions = questions_of(corpus, languages)
    next(steps)
    translations = translator.translate(questions)
    for question, translation in zip(questions, translations, strict=True):
        say(f"  {question}  ->  {translation.text}   ({translation.score:.2f} nats/token)")
    next(steps)
    last = translations[-1]
    words = align_words(last.source_tokens, last.tokens, last.alignment)
    save_figure(alignment_heatmap(words.alignment, words.source, words.target), folder / "alignment.png")
    say(f"  {folder / 'alignment.png'}")
    next(steps)
    beam = translator.with_search(serving_search(translator.search))
    version = run.export(beam, MODEL_FOLDER, languages=languages)
    say(f"  {version}")
    next(steps)
    say(ask(version, questions[0]))
    next(steps, None)
    for line in next_commands(questions[0]):
        say(f"  {line}")


def ask(version: Path, sentence: str) -> str:
    """Sends one request to an embedded server on a free port. Returns the request and the answer as text.

    Raises:
        OSError: the server did not start, did not answer, or returned an error.
    """
    command = [
        *(sys.executable, "-m", "nmt_keras_serve.server"),
        *("--model-dir", str(version.parent.parent), "--port", "0", "--log-level", "error"),
    ]
    # The server runs on the CPU, because this process may hold all memory of the GPU.
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    request = json.dumps({"instances": [sentence]}, ensure_ascii=False)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            line = server.stdout.readline() if server.stdout else ""
            if not line.startswith("Listening on "):
                raise OSError("the embedded server did not start, see its message")
            url = f"{line.split()[-1]}/v1/models/{quote(version.parent.name)}:predict"
            answer = httpx.post(url, content=request.encode(), timeout=60, trust_env=False)
            answer.raise_for_status()
        except httpx.HTTPError as error:
            raise OSError(f"the embedded server did not answer {request}: {error}") from error
        finally:
            server.terminate()
    return f"  POST {url}\n  {request}\n{json.dumps(answer.json(), indent=4, ensure_ascii=False)}"


def next_commands(sentence: str) -> Sequence[str]:
    """Returns the commands to run after the demo."""
    python = shlex.quote(os.path.relpath(sys.executable))
    lines = [
        f"{python} -m nmt_keras serve     starts the server on http://127.0.0.1:8501; in another terminal, run:",
        f"{python} -m nmt_keras_serve.client --model {MODEL_FOLDER.name} {shlex.quote(sentence)}",
    ]
    if Path("notebooks").is_dir():  # in a clone; the package does not contain them
        lines.append("notebooks/     explain each step, from one sentence to a server, in Jupyter or Colab")
    return lines
