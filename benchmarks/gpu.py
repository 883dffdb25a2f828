"""Checks and measures a GPU: parity with the CPU, and speed of training and search.

    python -m benchmarks.gpu --to gpu.json                     all parts, in at most ten minutes
    python -m benchmarks.gpu --to gpu.json --corpus spa-eng.zip
    python -m benchmarks.gpu --to dry.json --dry               all parts with tiny models; needs no GPU

The benchmark has these parts:

    device                 the GPU, its driver and the libraries
    parity-RECIPE          difference of loss and gradients between the GPU (plain graph, XLA) and the CPU
    train-SYSTEM-EXECUTION target tokens per second and peak memory, in float32, TF32, bfloat16 or float16
    decode, decode-cpu     greedy and beam search: sentences per second, and milliseconds of a single sentence

There are two executions: ``plain``, a plain graph, and ``xla``, a step compiled by XLA. Each part runs in its own
process with a time limit. If a part fails, its error is recorded and the other parts still run. The JSON is rewritten
after every part. Several processes compute parity at the same time. Timed parts run one at a time.

Weights have the initializer "uniform", because "orthogonal" would be the only use of cuSOLVER. Sentences are random
ids. Their lengths in words are those of the corpus, or of the built-in sample corpus.
"""

import gc
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf
import tyro

from benchmarks.decode_speed import measure
from benchmarks.machine import machine, output_of
from benchmarks.train_speed import WORDS, matched, train
from nmt_keras.config import END, ModelConfig, Recipe, SearchConfig, TokenizerConfig, TrainConfig, require_choice
from nmt_keras.corpus.batches import Batches, TokenLists, choose_buckets, rows_by_bucket
from nmt_keras.corpus.reading import Pair, read_pairs
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.io.files import write_whole
from nmt_keras.layers.dropout import Randomness
from nmt_keras.models.seq2seq import build_model
from nmt_keras.recipes import SAMPLE, find_recipe
from nmt_keras.text import fit_tokenizer
from nmt_keras.training import batch_loss
from nmt_keras.translation.model_translator import ModelTranslator

EXECUTIONS = ("plain", "xla")
PRECISIONS: dict[str, Literal["float32", "mixed_bfloat16", "mixed_float16"]] = {
    "float32": "float32",
    "tf32": "float32",
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
}
"""``TrainConfig.precision`` by the names of the precisions here."""
Result = dict[str, Any]

ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_FORCE_GPU_ALLOW_GROWTH": "true", "CUDA_VISIBLE_DEVICES": "0"}
"""Environment variables of the parts' processes, unless the environment sets them."""
LOSS_TOLERANCE, GRADIENT_TOLERANCE = 1e-5, 1e-3
"""Maximum relative difference of the loss, and of the gradient of each weight, between two devices in float32."""
FAMILIES = (
    "conditional-gru",
    "rnnsearch-small",
    "rnnsearch-base",
    "rnnencdec-30",
    "luong-reverse",
    "luong-location",
    "luong-dot",
    "luong-general",
    "luong-concat",
    "luong-local-m",
    "luong-local-p",
    "rnnsearch-pytorch",
    "tutorial",
    "self-attention",
    "small-corpus",
    "lecture-rnn",
    "lecture-fed",
    "lecture-bidirectional",
)
"""Recipes that together have every cell, direction, score, span, initial state and output layer of all recipes."""


class System(NamedTuple):
    """Model to train, and the precisions to measure."""

    recipe: Recipe
    vocabulary: int
    precisions: tuple[str, ...]


SYSTEMS = {
    "conditional-gru": System(find_recipe("conditional-gru"), 4_000, ("tf32", "bfloat16", "float16")),
    "rnnsearch-base": System(find_recipe("rnnsearch-base"), 16_000, ("tf32", "bfloat16", "float16")),
    "matched-512": System(matched(512, 128), WORDS, ("float32", "tf32", "bfloat16")),
    "matched-256": System(matched(256, 64), WORDS, ("float32", "tf32", "bfloat16")),
    "luong-location": System(find_recipe("luong-location").scaled(0.5), WORDS, ("tf32",)),
}


def main(
    to: Path = Path("gpu.json"),
    corpus: Path | None = None,
    parts: tuple[str, ...] = (),
    minutes: float = 10.0,
    part_seconds: float = 200.0,
    dry: bool = False,
    only: str | None = None,
) -> None:
    """Runs the parts, and writes the file after each.

    Args:
        to: JSON file to write.
        corpus: Spanish-English corpus, English first. ``None`` uses the built-in sample corpus.
        parts: Parts to run. Default: all.
        minutes: Time limit of the whole command in minutes. Parts that do not fit are recorded as not run.
        part_seconds: Time limit of each part in seconds.
        dry: If ``True``, runs tiny models, on the CPU if there is no GPU. The numbers of a dry run are meaningless.
        only: Part to run in this process, which prints a JSON object per result. Used internally.
    """
    if only:
        for result in PARTS[only](corpus, dry):
            print(json.dumps(result), flush=True)
        return
    for name in parts:
        require_choice("--parts", tuple(PARTS), name)
    head = {**machine(("tensorflow", "keras")), "command": " ".join(sys.argv), "dry": dry}
    end = time.monotonic() + 60.0 * minutes
    done: dict[str, Result] = {}
    writing = threading.Lock()

    def run(name: str) -> None:
        part = run_part(name, min(part_seconds, end - time.monotonic()), corpus, dry)
        with writing:
            done[name] = part
            whole = {**head, "parts": done, "shown": [] if dry else shown(done)}
            write_whole(to, json.dumps(whole, indent=2) + "\n")
        print(name, {**part, "results": len(part["results"])}, file=sys.stderr, flush=True)

    run("device")
    seen = done["device"]["results"]
    if not dry and not (seen and seen[0]["gpu"]):
        error = done["device"]["error"] or "TensorFlow lists no GPU"
        raise SystemExit(f"gpu: no GPU can be used: {error}. Install tensorflow[and-cuda], or pass --dry.")
    names = [name for name in parts or PARTS if name != "device"]
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        list(pool.map(run, (name for name in names if name.startswith("parity-"))))
    for name in names:
        if name not in done:
            run(name)


def run_part(name: str, seconds: float, corpus: Path | None, dry: bool) -> Result:
    """Runs a part in a process, which is killed after some seconds. Returns its seconds, results and error."""
    if seconds <= 0:
        return {"seconds": 0.0, "results": [], "error": "not run: no time was left"}
    command = ["timeout", "--signal=KILL", str(seconds), sys.executable, "-m", "benchmarks.gpu", "--only", name]
    command += ["--dry"] * dry
    command += ["--corpus", str(corpus)] if corpus else []
    environment = {**ENVIRONMENT, **os.environ, **({"CUDA_VISIBLE_DEVICES": "-1"} if name == "decode-cpu" else {})}
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment)
    passed = time.monotonic() - began
    error = f"exit code {done.returncode}: {done.stderr.replace(f'{Path.cwd()}/', '').strip()[-1500:]}"
    if passed >= seconds:
        error = f"stopped after {seconds:.0f} s"
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {"seconds": round(passed, 1), "results": results, "error": error if done.returncode else None}


def shown(parts: dict[str, Result]) -> list[str | list[Result]]:
    """Returns paragraphs and tables of parity, training, search and failed parts; nothing without a GPU."""
    results = [result for part in parts.values() for result in part["results"]]
    device = next(iter(parts["device"]["results"]), {"gpu": None})
    if device["gpu"] is None:
        return []
    compared = [result for result in results if "gradient_difference" in result]
    largest = max((result["gradient_difference"] for result in compared), default=0.0)
    told: list[str | list[Result]] = [
        f"{device['gpu']}, driver {device['driver']}, CUDA {device['cuda']}, cuDNN {device['cudnn']}. Loss and "
        f"gradients equal those on the CPU in {sum(result['passed'] for result in compared)} of {len(compared)} "
        f"comparisons. The largest difference between gradients is {largest:.1e}."
    ]
    columns = {
        "system": "training",
        "execution": "execution",
        "precision": "precision",
        "target_tokens_per_s": "tokens/s",
        "peak_megabytes": "peak memory, MB",
        "compile_s": "compilation, s",
    }
    trained = [result for result in results if "target_tokens_per_s" in result]
    searches = [
        {
            "search": "greedy" if row["beam"] == 1 else f"beam {row['beam']}",
            "device": where,
            "sentences/s": round(row["sentences_per_s"]["median"]),
            "one sentence alone, median, ms": round(row["single_sentence_ms"]["median"], 1),
        }
        for part, where in (("decode", "GPU"), ("decode-cpu", "CPU"))
        for row in parts.get(part, {"results": []})["results"]
    ]
    tables = [[{title: row[key] for key, title in columns.items()} for row in trained], searches]
    told += [table for table in tables if table]
    errors = {name: part["error"] for name, part in parts.items() if part["error"]}
    failed = [f"{name} ({error})" if "stopped" in error else name for name, error in errors.items()]
    return told + ([f"Failed checks: {', '.join(failed)}."] if failed else [])


def accelerator() -> str:
    """Returns the device to measure: the first GPU, or the CPU if there is no GPU."""
    return "/GPU:0" if tf.config.list_physical_devices("GPU") else "/CPU:0"


def read_corpus(corpus: Path | None) -> Sequence[Pair]:
    """Returns the pairs of the corpus, or of the built-in sample corpus."""
    if corpus is None:
        return sample_pairs()
    pairs = read_pairs(corpus, source_column=1, target_column=0).pairs
    return pairs[:: -(-len(pairs) // 20_000)]  # of all lengths, because the file is sorted by length


def device(*_: Any) -> Iterator[Result]:
    """Yields facts about the GPU from TensorFlow and the driver."""
    build = tf.sysconfig.get_build_info()
    found: Result = {"gpu": None, "cuda": build.get("cuda_version"), "cudnn": build.get("cudnn_version")}
    query = ["nvidia-smi", "--query-gpu=driver_version,memory.total", "--format=csv,noheader"]
    if gpus := tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(gpus[0])
        found |= {
            "gpu": details.get("device_name", "unnamed"),
            "compute_capability": details.get("compute_capability"),
            "gpus": len(gpus),
            "driver": output_of(query).splitlines()[0],
        }
    yield found


class Computed(NamedTuple):
    """Loss and gradients of a batch."""

    loss: float  # nats per token
    gradients: list[np.ndarray]


def parity(name: str, _: Path | None, dry: bool) -> Iterator[Result]:
    """Yields the differences of loss and gradients between each execution and a plain graph on the CPU."""
    tf.config.experimental.enable_tensor_float_32_execution(False)
    scaled = find_recipe(name).model.scaled(0.02 if dry else 0.1)
    config = replace(
        scaled,
        encoder=replace(scaled.encoder, layers=min(2, scaled.encoder.layers)),
        decoder=replace(scaled.decoder, layers=min(2, scaled.decoder.layers)),
        initializer="uniform",
    )
    reference = compute(config, "/CPU:0")
    for execution in EXECUTIONS:
        found = compute(config, accelerator(), execution)
        yield {"recipe": name, "execution": execution, **compare(found, reference)}


def compute(config: ModelConfig, place: str, execution: str = "plain") -> Computed:
    """Computes the mean loss and its gradients on a device, with weights and a batch that are always the same.

    The weights are random, and large enough to drive gates and attention away from their means. The batch has the first
    64 pairs of the sample corpus, which have different lengths.
    """
    sides = list(zip(*sample_pairs(), strict=True))
    texts = [fit_tokenizer(SAMPLE.source, side) for side in sides]
    source, target = (text.encode(tf.constant(side[:64])).ids for text, side in zip(texts, sides, strict=True))
    draw = np.random.default_rng(1)
    with tf.device(place):
        model = build_model(config, *(text.vocabulary_size for text in texts))
        for variable in model.variables:
            is_matrix = len(variable.shape) > 1
            variable.assign(
                draw.uniform(-0.3, 0.3, variable.shape) if is_matrix else draw.normal(0.0, 0.3, variable.shape)
            )

        @tf.function(jit_compile=execution == "xla", autograph=False)
        def differentiate() -> Any:
            with tf.GradientTape() as tape:
                loss = batch_loss(model, source, target, smoothing=0.0, randomness=Randomness(1, 0))
                mean = loss.total / loss.tokens
            variables = [variable.value for variable in model.trainable_variables]
            return mean, tape.gradient(mean, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)

        loss, gradients = differentiate()
    return Computed(float(loss), [tf.convert_to_tensor(g).numpy() for g in gradients])


def compare(found: Computed, wanted: Computed) -> Result:
    """Returns the relative difference of the losses, the largest relative difference of the gradients, and ``passed``.

    ``passed`` is True if both are smaller than the tolerances. NaN is not smaller.
    """
    loss = abs(found.loss - wanted.loss) / abs(wanted.loss)
    pairs = zip(found.gradients, wanted.gradients, strict=True)
    gradient = float(np.max([np.linalg.norm(a - b) / (np.linalg.norm(b) or 1.0) for a, b in pairs]))
    passed = loss < LOSS_TOLERANCE and gradient < GRADIENT_TOLERANCE
    differences = {"loss_difference": loss, "gradient_difference": gradient}
    return {**{name: float(f"{value:.2g}") for name, value in differences.items()}, "passed": passed}


def training(name: str, execution: str, corpus: Path | None, dry: bool) -> Iterator[Result]:
    """Yields the target tokens per second and the memory of a system's training, for each of its precisions."""
    recipe, words, precisions = SYSTEMS[name]
    if dry:
        small = replace(recipe.train, batch_size=4, batch_tokens=None)
        recipe, words = replace(recipe, model=recipe.model.scaled(0.02), train=small), 50
    model = replace(recipe.model, initializer="uniform")
    for precision in precisions:
        tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
        config = replace(recipe.train, xla=execution == "xla", precision=PRECISIONS[precision])
        batches = random_batches(config, words, corpus)
        gc.collect()  # frees the previous model
        peak_megabytes()
        steps = 40 if dry else 60
        figures, rates = train(replace(recipe, model=model, train=config), batches, (words, words), steps)
        yield {
            "system": name,
            "execution": execution,
            "precision": precision,
            **figures,
            "target_tokens_per_s": round(statistics.median(rates[1:])),
            "target_tokens_per_s_of_each_interval": [round(rate) for rate in rates],
            "buckets": [[batches.rows[bucket], *bucket] for bucket in batches.buckets],  # rows, source, target tokens
            "peak_megabytes": peak_megabytes(),
        }


def random_batches(config: TrainConfig, words: int, corpus: Path | None) -> Batches:
    """Returns batches of random ids in two length buckets."""
    draw = np.random.default_rng(1)
    lengths = np.array([[len(side.split()) + 1 for side in pair] for pair in read_corpus(corpus)])  # [N, 2]
    sides = []
    for kept in lengths[lengths.max(axis=1) <= config.max_tokens].T:
        ids = draw.integers(END + 1, words, kept.sum())
        ids[np.cumsum(kept) - 1] = END
        sides.append(TokenLists(ids, kept))
    buckets = choose_buckets(sides[0].lengths, sides[1].lengths, 2)
    rows = rows_by_bucket(buckets, config.batch_size, config.batch_tokens)
    return Batches(*sides, batch_size=rows, buckets=buckets, pool_size=config.pool_size, seed=1)


def peak_megabytes() -> int:
    """Returns the peak memory of the GPU since the last call, or of this process if there is no GPU, in megabytes."""
    if accelerator() == "/CPU:0":
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
    peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
    tf.config.experimental.reset_memory_stats("GPU:0")
    return round(peak / 1e6)


class CutTranslator(ModelTranslator):
    """Translator that cuts translations at about the length of a trained model's translations."""

    def limits(self, source_lengths: tf.Tensor) -> tf.Tensor:
        return source_lengths + 1


def decode(corpus: Path | None, dry: bool) -> Iterator[Result]:
    """Yields the speed of greedy search and of beam search with random weights; see ``benchmarks.decode_speed``."""
    units, words, count, single, repeats = (8, 1_200, 4, 2, 1) if dry else (512, 16_000, 1000, 50, 3)
    sides = list(zip(*read_corpus(corpus), strict=True))
    source, target = (fit_tokenizer(TokenizerConfig("word", words), side) for side in sides)
    network = build_model(matched(units, 64).model, source.vocabulary_size, target.vocabulary_size)
    for width in (1, 5):
        translator = CutTranslator(source, target, network, search=SearchConfig(beam_size=width))
        yield {"beam": width, **measure(translator, sides[0][:count], 256, single, repeats)}


PARTS: dict[str, Callable[[Path | None, bool], Iterator[Result]]] = {
    "device": device,
    **{f"parity-{name}": partial(parity, name) for name in FAMILIES},
    "decode": decode,
    "decode-cpu": decode,
    **{
        f"train-{name}-{execution}": partial(training, name, execution)
        for name, execution in itertools.product(SYSTEMS, EXECUTIONS)
    },
}
"""Functions of the parts by name, in the order in which they run. Arguments: the corpus, and whether the run is dry."""


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
