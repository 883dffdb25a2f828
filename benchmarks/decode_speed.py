"""Measures translation speed: sentences per second in batches, and the latency of single sentences in a SavedModel.

    python -m benchmarks.decode_speed --run runs/spa-eng
    python -m benchmarks.decode_speed --run runs/spa-eng --sentences test.es --references test.en

Single sentences run as in TensorFlow Serving: a session gets the names of the tensors to feed and to fetch. Prints JSON
with the median and all repetitions of each measurement.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from benchmarks.machine import machine, output_of, print_result
from nmt_keras.cli.startup import import_tensorflow
from nmt_keras.cli.translate import Translate

if TYPE_CHECKING:
    from nmt_keras.translation.model_translator import ModelTranslator


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    run: Path = Path()
    """Run directory. Default: the current folder."""
    sentences: Path | None = None
    """File with a source sentence per line. None uses 1,000 sentences of the built-in sample corpus."""
    batch_size: int = 64
    """Number of sentences translated together."""
    references: Path | None = None
    """File with the reference translations. If set, BLEU is reported."""
    single: int = 200
    """Number of sentences translated one by one per repetition."""
    repeats: int = 3
    """Number of repetitions of every measurement, after one to warm up."""
    version: Path | None = None
    """Export whose latency this process measures. Used internally."""


def main(settings: Settings) -> None:
    """Measures and prints the result."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    if settings.version:
        print(json.dumps(singly(settings.version, json.load(sys.stdin), settings.repeats)))
        return
    import_tensorflow(Translate.threads)
    from nmt_keras.corpus.sample import sample_pairs
    from nmt_keras.runs import Run

    before, sentences = machine(), [pair.source for pair in sample_pairs()[:1000]]
    if settings.sentences:
        sentences = settings.sentences.read_text(encoding="utf-8").splitlines()
    translator = Run(settings.run).translator()
    size = sum(variable.shape.num_elements() for variable in translator.model.trainable_variables)
    results = []
    for width in (1, 5):
        search = replace(translator.search, beam_size=width, n_best=None)
        results.append({"beam": width, **measure(translator.with_search(search), sentences, settings)})
    told = (
        f"{translator.target_tokenizer.vocabulary_size:,} target tokens in the vocabulary, {size:,} parameters; "
        f"{len(sentences):,} sentences."
    )
    found = {"parameters": size, "sentences": len(sentences), "results": results}
    print_result(before, found, told, list(map(search_row, results)))


def search_row(result: dict[str, Any]) -> dict[str, Any]:
    """Returns a row of the documentation's table of searches."""
    return {
        "search": "greedy" if result["beam"] == 1 else f"beam {result['beam']}",
        **({"BLEU": result["bleu"]} if "bleu" in result else {}),
        "sentences/s in batches": round(result["sentences_per_s"]["median"]),
        "one sentence alone, median, ms": round(result["single_sentence_ms"]["median"], 1),
        "95th percentile, ms": round(result["single_sentence_ms"]["p95"], 1),
    }


def measure(translator: ModelTranslator, sentences: Sequence[str], settings: Settings) -> dict[str, Any]:
    """Returns sentences per second in batches and milliseconds per single sentence."""
    found = translator.translate(sentences, settings.batch_size)
    rates = [
        len(sentences) / seconds(lambda: translator.translate(sentences, settings.batch_size))
        for _ in range(settings.repeats)
    ]
    few = sentences[:: max(1, len(sentences) // settings.single)][: settings.single]
    milliseconds, quality = alone(translator, few, settings), {}
    if settings.references:
        from nmt_keras.evaluation.metrics import bleu

        references = settings.references.read_text(encoding="utf-8").splitlines()
        quality["bleu"] = round(bleu([translation.text for translation in found], references).value, 2)
    return {
        **quality,
        "target_tokens_per_sentence": round(statistics.mean(len(translation.tokens) for translation in found), 2),
        "sentences_per_s": {"median": round(statistics.median(rates), 1), "all": [round(rate, 1) for rate in rates]},
        "single_sentence_ms": {
            "median": round(statistics.median(statistics.median(each) for each in milliseconds), 2),
            "all_medians": [round(statistics.median(each), 2) for each in milliseconds],
            "p95": round(statistics.median(statistics.quantiles(each, n=20)[-1] for each in milliseconds), 2),
        },
    }


def seconds(action: Callable[[], Any]) -> float:
    """Returns the duration of ``action``."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def alone(translator: ModelTranslator, sentences: Sequence[str], settings: Settings) -> list[list[float]]:
    """Returns the milliseconds of each sentence in the exported model, for every repetition.

    They are measured in a separate process, because this process limits the threads of each batch. A server does not.
    """
    from nmt_keras.export import export

    with tempfile.TemporaryDirectory() as folder:
        version, repeats = str(export(translator, Path(folder))), str(settings.repeats)
        command = [sys.executable, "-m", "benchmarks.decode_speed", "--version", version, "--repeats", repeats]
        milliseconds: list[list[float]] = json.loads(output_of(command, input=json.dumps(sentences)))
    return milliseconds


def singly(version: Path, sentences: Sequence[str], repeats: int) -> list[list[float]]:
    """Returns the milliseconds of each sentence in an export that is loaded as in TensorFlow Serving."""
    import tensorflow as tf

    from nmt_keras.export.run_saved_model import load_text_kernels

    load_text_kernels()
    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(version))
    signature = loaded.signature_def["serving_default"]
    feed, fetches = signature.inputs["text"].name, [output.name for output in signature.outputs.values()]
    run = session.make_callable(fetches, [feed])
    return [[1000.0 * seconds(partial(run, [sentence])) for sentence in sentences] for _ in range(repeats + 1)][1:]


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
