#!/usr/bin/env python3
"""How fast sentences are translated: sentences per second in batches, and the time of a single one from a SavedModel.

    python -m benchmarks.decode_speed                          an untrained model: 256 units, vocabularies of 8,000
    python -m benchmarks.decode_speed --sentences test.es      on the lines of a file
    python -m benchmarks.decode_speed --run runs/spa-eng       a trained model
    python -m benchmarks.decode_speed --run runs/spa-eng --shortlists 0 20 --sentences test.es --references test.en

An untrained model does not end its sentences: its translations are cut at the source's tokens + 1, which resembles real
ones, and the result says so. Single sentences are run as TensorFlow Serving does, by the names of feeds and fetches in
a session; of an export, its size and the seconds to make and to load it are told. One JSON object is printed last; of
each figure it holds the median and all repetitions.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from benchmarks.machine import machine
from nmt_keras.cli.quiet import import_tensorflow
from nmt_keras.cli.translate import Translate

if TYPE_CHECKING:
    from nmt_keras.translation.model_translator import ModelTranslator

LINES = 1000  # of the built-in sample, unless a file of sentences is given


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    run: Path | None = None
    """A run directory; without one an untrained model is built."""
    units: int = 256
    """Units of the untrained model's decoder, attention, output layer and embedding; the encoder has half as many per
    direction."""
    vocabulary: int = 8000
    """Of the untrained model: words on either side."""
    sentences: Path | None = None
    """A file with a source sentence per line; without one, sentences of the built-in sample."""
    batch_size: int = 64
    """Sentences that are translated together."""
    beams: tuple[int, ...] = (1, 5)
    """Widths to measure; 1 is greedy."""
    shortlists: tuple[int, ...] = (0,)
    """Shortlists to measure; 0 is the whole vocabulary. An untrained model's are random."""
    references: Path | None = None
    """A file with the sentences' translations; BLEU is told then."""
    single: int = 200
    """Sentences that are translated one by one, per repetition."""
    repeats: int = 3
    """Repetitions of every measurement, after one to warm up."""
    version: Path | None = None
    """An export whose answers to single sentences this process times: what the benchmark starts."""


def main(settings: Settings) -> None:
    """Measures, and prints the result."""
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
        search = replace(translator.search, beam_size=width, n_best=None, temperature=0.0, top_k=None, top_p=1.0)
        for size in settings.shortlists:
            searching = translator.with_search(replace(search, shortlist=size))
            results.append({"beam": width, "shortlist": size, **measure(searching, sentences, settings)})
    model = {
        "run": str(settings.run) if settings.run else None,
        "decoder_units": network.config.decoder.units,
        "target_vocabulary": translator.target_tokenizer.vocabulary_size,
        "parameters": sum(variable.shape.num_elements() for variable in network.trainable_variables),
        "lengths": "the model's own" if settings.run else "untrained: cut at source tokens + 1",
    }
    command = " ".join(["python -m benchmarks.decode_speed", *sys.argv[1:]])
    found = {"model": model, "sentences": len(sentences), "results": results, "export": exported(translator)}
    print(json.dumps({**before, "command": command, **found}, indent=2))


def read_sentences(settings: Settings) -> list[str]:
    """The sentences to translate."""
    if settings.sentences:
        return settings.sentences.read_text(encoding="utf-8").splitlines()
    from nmt_keras.corpus.sample import sample_pairs

    return [pair.source for pair in sample_pairs()[:LINES]]


def load_run(folder: Path) -> ModelTranslator:
    """Loads a run's best model."""
    from nmt_keras.runs import Run

    return Run(folder).translator()


def untrained(settings: Settings, sentences: Sequence[str]) -> ModelTranslator:
    """A model with random weights, over the sentences' own words and as many invented ones as make the vocabulary."""
    import numpy as np
    import tensorflow as tf

    from nmt_keras.config import (
        MAX_SHORTLIST,
        PAD,
        AttentionConfig,
        DecoderConfig,
        EncoderConfig,
        ModelConfig,
        SearchConfig,
        TokenizerConfig,
    )
    from nmt_keras.models.seq2seq import build_model
    from nmt_keras.search.shortlist import COMMON, LexicalTable, Shortlist
    from nmt_keras.text import WordTokenizer, fit_tokenizer
    from nmt_keras.text.tokens import SPECIALS
    from nmt_keras.translation.model_translator import ModelTranslator

    class CutTranslator(ModelTranslator):
        """Ends translations where those of a trained model would about end."""

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
        encoder=EncoderConfig(units=units // 2),
        attention=AttentionConfig(units=units),
        decoder=DecoderConfig(units=units, output_units=units),
        dropout=0.0,
    )
    tf.keras.utils.set_random_seed(1)
    # as many candidates as a learnt shortlist has, though not such as overlap as those of related words do
    drawn = np.random.default_rng(1).integers(min(COMMON, size - 1), size, [size, MAX_SHORTLIST]).astype(np.int32)
    drawn[: len(SPECIALS)] = PAD
    shortlist = Shortlist(LexicalTable(drawn, np.arange(min(COMMON, size), dtype=np.int32)), size)
    return CutTranslator(text, text, build_model(sizes, size, size), search=SearchConfig(), shortlist=shortlist)


def measure(translator: ModelTranslator, sentences: Sequence[str], settings: Settings) -> dict[str, Any]:
    """Sentences per second in batches, and milliseconds of a sentence alone."""
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
    """How long an action takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def alone(translator: ModelTranslator, sentences: Sequence[str], settings: Settings) -> list[list[float]]:
    """Milliseconds of each sentence translated alone by the exported model, once for every repetition.

    In a process of its own: batches have one thread each, as the command line gives them, a server's request has all.
    """
    from nmt_keras.export import export

    with tempfile.TemporaryDirectory() as folder:
        version = export(translator, Path(folder))
        options = ["--version", str(version), "--repeats", str(settings.repeats)]
        command = [sys.executable, "-m", "benchmarks.decode_speed", *options]
        done = subprocess.run(command, input=json.dumps(sentences), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"decode_speed: {' '.join(command)} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout)


def singly(version: Path, sentences: Sequence[str], repeats: int) -> list[list[float]]:
    """What ``alone`` answers, measured here."""
    from nmt_keras.export.run_saved_model import load_text_kernels

    load_text_kernels()
    session, loaded = load(version)
    signature = loaded.signature_def["serving_default"]
    feed, fetches = signature.inputs["text"].name, [output.name for output in signature.outputs.values()]
    run = session.make_callable(fetches, [feed])
    return [[1000.0 * seconds(partial(run, [sentence])) for sentence in sentences] for _ in range(repeats + 1)][1:]


def load(version: Path) -> tuple[Any, Any]:
    """A session that holds an exported model, as TensorFlow Serving has it, and what the model says of itself."""
    import tensorflow as tf

    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        return session, tf.compat.v1.saved_model.load(session, ["serve"], str(version))


def exported(translator: ModelTranslator) -> dict[str, dict[str, float]]:
    """Bytes of an export, and seconds to make and to load it, with whole and with half weights."""
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
