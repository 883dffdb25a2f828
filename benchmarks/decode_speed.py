"""Measures translation speed: sentences per second in batches, and the latency of single sentences in a SavedModel.

    python -m benchmarks.decode_speed --run runs/spa-eng --sentences test.es --references test.en

Single sentences run as in TensorFlow Serving: a session gets the names of the tensors to feed and to fetch. Prints JSON
with the median and all repetitions of each measurement.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from benchmarks.machine import in_new_process, machine, print_result
from nmt_keras.cli.startup import import_tensorflow
from nmt_keras.cli.translate import Translate
from nmt_keras.evaluation.metrics import bleu

if TYPE_CHECKING:
    from nmt_keras.translation.model_translator import ModelTranslator


def main(run: Path, sentences: Path, references: Path) -> None:
    """Measures and prints the result.

    Args:
        run: Run directory.
        sentences: File with a source sentence per line.
        references: File with the reference translations.
    """
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    import_tensorflow(Translate.threads)
    from nmt_keras.runs import Run

    before, translator = machine(), Run(run).translator()
    sources, targets = (path.read_text(encoding="utf-8").splitlines() for path in (sentences, references))
    size = sum(variable.shape.num_elements() for variable in translator.model.trainable_variables)
    results = []
    for width in (1, 5):
        system = translator.with_search(replace(translator.search, beam_size=width, n_best=None))
        score = bleu([translation.text for translation in system.translate(sources)], targets)
        results.append({"beam": width, "bleu": round(score.value, 2), **measure(system, sources)})
    told = (
        f"{translator.target_tokenizer.vocabulary_size:,} target tokens in the vocabulary, {size:,} parameters; "
        f"{len(sources):,} sentences."
    )
    rows = [
        {
            "search": "greedy" if found["beam"] == 1 else f"beam {found['beam']}",
            "BLEU": found["bleu"],
            "sentences/s in batches": round(found["sentences_per_s"]["median"]),
            "one sentence alone, median, ms": round(found["single_sentence_ms"]["median"], 1),
            "95th percentile, ms": round(found["single_sentence_ms"]["p95"], 1),
        }
        for found in results
    ]
    print_result(before, {"parameters": size, "sentences": len(sources), "results": results}, told, rows)


def measure(
    translator: ModelTranslator, sentences: Sequence[str], batch_size: int = 64, single: int = 200, repeats: int = 3
) -> dict[str, Any]:
    """Returns sentences per second in batches and milliseconds per single sentence.

    Args:
        translator: The translator.
        sentences: The sentences.
        batch_size: Number of sentences translated together.
        single: Number of sentences translated one by one per repetition.
        repeats: Number of repetitions of every measurement, after one to warm up.
    """
    from nmt_keras.export import export

    found = translator.translate(sentences, batch_size)
    translate = partial(translator.translate, sentences, batch_size)
    rates = [len(sentences) / seconds(translate) for _ in range(repeats)]
    few = sentences[:: max(1, len(sentences) // single)][:single]
    with tempfile.TemporaryDirectory() as folder:
        # in a new process, because this one limits the threads of each batch; a server does not
        milliseconds = in_new_process(singly, export(translator, Path(folder)), few, repeats)
    return {
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
    tyro.cli(main, description=__doc__)
