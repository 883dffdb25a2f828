"""Measures translation speed: sentences per second in batches, and the latency of single sentences in a SavedModel.

    python -m benchmarks.decode_speed                          an untrained model of 256 units, 8,000 words
    python -m benchmarks.decode_speed --sentences test.es      sentences from a file
    python -m benchmarks.decode_speed --run runs/spa-eng       a trained model
    python -m benchmarks.decode_speed --run runs/spa-eng --sentences test.es --references test.en

An untrained model does not end its sentences. Its translations are therefore cut at the number of source tokens plus
one, which resembles real lengths. The field "lengths" of the result states this. Single sentences run as in TensorFlow
Serving: a session gets the names of the tensors to feed and to fetch. The size of an export, and the seconds to write
and load it, are also reported. Prints JSON with the median and all repetitions of each measurement.
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
from nmt_keras.config.model import CellName

if TYPE_CHECKING:
    from nmt_keras.translation.model_translator import ModelTranslator

LINES = 1000  # of the built-in sample corpus


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    run: Path | None = None
    """Run directory. None builds an untrained model."""
    units: int = 256
    """Number of units of the untrained model's decoder, attention, output layer and embedding. Each direction of the
    encoder has half as many."""
    cell: CellName = "gru"
    """Cell of the untrained model's encoder and decoder."""
    vocabulary: int = 8000
    """Number of words on each side of the untrained model."""
    sentences: Path | None = None
    """File with a source sentence per line. None uses the built-in sample corpus."""
    batch_size: int = 64
    """Number of sentences translated together."""
    beams: tuple[int, ...] = (1, 5)
    """Beam sizes to measure; 1 is greedy search."""
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
    from nmt_keras.models.seq2seq import Seq2Seq

    before = machine()
    sentences = read_sentences(settings)
    translator = load_run(settings.run) if settings.run else untrained(settings, sentences)
    network = translator.model
    assert isinstance(network, Seq2Seq)
    results = []
    for width in settings.beams:
        search = replace(translator.search, beam_size=width, n_best=None)
        results.append({"beam": width, **measure(translator.with_search(search), sentences, settings)})
    model = {
        "run": str(settings.run) if settings.run else None,
        "decoder_units": network.decoder.units,
        "target_vocabulary": translator.target_tokenizer.vocabulary_size,
        "parameters": sum(variable.shape.num_elements() for variable in network.trainable_variables),
        "lengths": "the model's own" if settings.run else "untrained: cut at source tokens + 1",
    }
    exports = exported(translator)
    told = (
        f"{model['decoder_units']} units, {model['target_vocabulary']:,} target tokens in the vocabulary, "
        f"{model['parameters']:,} parameters; {len(sentences):,} sentences."
    )
    sizes = {"megabytes": "size, MB", "seconds_to_export": "to export, s", "seconds_to_load": "to load, s"}
    rows = [{"export": name, **{sizes[key]: value for key, value in one.items()}} for name, one in exports.items()]
    found = {"model": model, "sentences": len(sentences), "results": results, "export": exports}
    print_result(before, found, told, list(map(search_row, results)), rows)


def search_row(result: dict[str, Any]) -> dict[str, Any]:
    """Returns a row of the documentation's table of searches."""
    name = "greedy" if result["beam"] == 1 else f"beam {result['beam']}"
    alone = result["single_sentence_ms"]
    return {
        "search": name,
        **({"BLEU": result["bleu"]} if "bleu" in result else {}),
        "sentences/s in batches": round(result["sentences_per_s"]["median"]),
        "one sentence alone, median, ms": round(alone["median"], 1),
        "95th percentile, ms": round(alone["p95"], 1),
    }


def read_sentences(settings: Settings) -> list[str]:
    """Returns the sentences to translate."""
    if settings.sentences:
        return settings.sentences.read_text(encoding="utf-8").splitlines()
    from nmt_keras.corpus.sample import sample_pairs

    return [pair.source for pair in sample_pairs()[:LINES]]


def load_run(folder: Path) -> ModelTranslator:
    """Returns a translator with a run's best model."""
    from nmt_keras.runs import Run

    return Run(folder).translator()


def untrained(settings: Settings, sentences: Sequence[str]) -> ModelTranslator:
    """Returns a translator with random weights. Its vocabulary has the sentences' words and invented words."""
    import tensorflow as tf

    from nmt_keras.config import (
        AttentionConfig,
        DecoderConfig,
        EncoderConfig,
        ModelConfig,
        SearchConfig,
        TokenizerConfig,
    )
    from nmt_keras.models.seq2seq import build_model
    from nmt_keras.text import WordTokenizer, fit_tokenizer
    from nmt_keras.text.tokens import SPECIALS
    from nmt_keras.translation.model_translator import ModelTranslator

    class CutTranslator(ModelTranslator):
        """Translator that cuts translations at about the length of a trained model's translations."""

        def limits(self, source_lengths: tf.Tensor) -> tf.Tensor:
            return source_lengths + 1

    size, units = settings.vocabulary, settings.units
    config = TokenizerConfig(kind="word", vocabulary_size=size)
    known = fit_tokenizer(config, sentences)
    words = [word.decode() for word in known.surfaces(tf.range(known.vocabulary_size)[tf.newaxis])[0].numpy()][4:]
    invented = [f"word{i}" for i in range(size - len(SPECIALS) - len(words))]
    text = WordTokenizer([*SPECIALS, *words, *invented], config)
    sizes = ModelConfig(
        embedding_size=units,
        encoder=EncoderConfig(cell=settings.cell, units=units // 2),
        attention=AttentionConfig(units=units),
        decoder=DecoderConfig(cell=settings.cell, units=units, output_units=units),
        dropout=0.0,
    )
    tf.keras.utils.set_random_seed(1)
    return CutTranslator(text, text, build_model(sizes, size, size), search=SearchConfig())


def measure(translator: ModelTranslator, sentences: Sequence[str], settings: Settings) -> dict[str, Any]:
    """Returns sentences per second in batches and milliseconds per single sentence."""
    found = translator.translate(sentences, settings.batch_size)
    rates = [
        len(sentences) / seconds(lambda: translator.translate(sentences, settings.batch_size))
        for _ in range(settings.repeats)
    ]
    milliseconds = alone(
        translator, sentences[:: max(1, len(sentences) // settings.single)][: settings.single], settings
    )
    quality = {}
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
    """Measures the milliseconds of each sentence in this process, for every repetition."""
    from nmt_keras.export.run_saved_model import load_text_kernels

    load_text_kernels()
    session, loaded = load(version)
    signature = loaded.signature_def["serving_default"]
    feed, fetches = signature.inputs["text"].name, [output.name for output in signature.outputs.values()]
    run = session.make_callable(fetches, [feed])
    return [[1000.0 * seconds(partial(run, [sentence])) for sentence in sentences] for _ in range(repeats + 1)][1:]


def load(version: Path) -> tuple[Any, Any]:
    """Loads an exported model as TensorFlow Serving does. Returns the session and the MetaGraphDef."""
    import tensorflow as tf

    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        return session, tf.compat.v1.saved_model.load(session, ["serve"], str(version))


def exported(translator: ModelTranslator) -> dict[str, dict[str, float]]:
    """Returns megabytes of an export and seconds to write and load it, in full and half precision."""
    from nmt_keras.config import ExportConfig
    from nmt_keras.export import export

    found = {}
    for name, half in (("float32", False), ("half precision", True)):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            version = export(translator, Path(folder), config=ExportConfig(half_precision=half))
            made = time.perf_counter()
            load(version)[0].close()
            size = sum(path.stat().st_size for path in version.rglob("*") if path.is_file())
            found[name] = {
                "megabytes": round(size / 1e6, 1),
                "seconds_to_export": round(made - began, 1),
                "seconds_to_load": round(time.perf_counter() - made, 2),
            }
    return found


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
