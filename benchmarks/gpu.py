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

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import tyro

from benchmarks.machine import machine, output_of
from benchmarks.train_speed import WORDS, matched
from nmt_keras.config import END, ModelConfig, Recipe, require_choice
from nmt_keras.io.files import write_whole
from nmt_keras.recipes import find_recipe

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from nmt_keras.corpus.batches import Batches
    from nmt_keras.corpus.reading import Pair

ROOT = Path(__file__).parents[1]
Execution = Literal["plain", "xla"]
EXECUTIONS: tuple[Execution, ...] = ("plain", "xla")
Precision = Literal["float32", "tf32", "bfloat16", "float16"]
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
    precisions: tuple[Precision, ...]


SYSTEMS = {
    "conditional-gru": System(find_recipe("conditional-gru"), 4_000, ("tf32", "bfloat16", "float16")),
    "rnnsearch-base": System(find_recipe("rnnsearch-base"), 16_000, ("tf32", "bfloat16", "float16")),
    "matched-512": System(matched(512, 128), WORDS, ("float32", "tf32", "bfloat16")),
    "luong-location": System(find_recipe("luong-location").scaled(0.5), WORDS, ("tf32",)),
    "matched-256": System(matched(256, 64), WORDS, ("float32", "tf32", "bfloat16")),
}


class Sizes(NamedTuple):
    """Amounts of work of the parts."""

    width: float  # factor for the layer sizes of the parity models
    steps: int  # updates of each training, a multiple of train_speed.INTERVAL
    units: int  # of the model that decodes
    vocabulary: int  # of the model that decodes
    sentences: int  # number of sentences translated in batches
    single: int  # number of sentences translated one by one
    repeats: int


FULL = Sizes(width=0.1, steps=60, units=512, vocabulary=16_000, sentences=1000, single=50, repeats=3)
DRY = Sizes(width=0.02, steps=20, units=8, vocabulary=1_200, sentences=4, single=2, repeats=1)


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    to: Path = Path("gpu.json")
    """JSON file to write."""
    corpus: Path | None = None
    """Spanish-English corpus, English first. None uses the built-in sample corpus."""
    parts: tuple[str, ...] = ()
    """Parts to run. Default: all."""
    minutes: float = 10.0
    """Time limit of the whole command in minutes. Parts that do not fit are recorded as not run."""
    part_seconds: float = 200.0
    """Time limit of each part in seconds."""
    dry: bool = False
    """If True, runs tiny models, on the CPU if there is no GPU. The numbers of a dry run are meaningless."""
    only: str | None = None
    """Part to run in this process, which prints a JSON object per result. Used internally."""


def main(settings: Settings) -> None:
    """Runs the parts, and writes the file after each."""
    if settings.only:
        for result in PARTS[settings.only](settings):
            print(json.dumps(result), flush=True)
        return
    for name in settings.parts:
        require_choice("--parts", tuple(PARTS), name)
    report = Report(settings, {**machine(("tensorflow", "keras")), "command": " ".join(sys.argv), "dry": settings.dry})
    report.run("device")
    seen = report.parts["device"]["results"]
    if not settings.dry and not (seen and seen[0]["gpu"]):
        error = report.parts["device"]["error"] or "TensorFlow lists no GPU"
        raise SystemExit(f"gpu: no GPU can be used: {error}. Install tensorflow[and-cuda], or pass --dry.")
    names = [name for name in settings.parts or PARTS if name != "device"]
    together = [name for name in names if name.startswith("parity-")]
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        list(pool.map(report.run, together))
    for name in names:
        if name not in together:
            report.run(name)


class Report:
    """JSON file with the machine, and the seconds, results and error of each part.

    Args:
        settings: Options.
        head: Fields to write before the parts.
    """

    def __init__(self, settings: Settings, head: Result):
        self.settings, self.head = settings, head
        self.parts: dict[str, Result] = {}
        self.lock, self.deadline = threading.Lock(), time.monotonic() + 60.0 * settings.minutes

    def run(self, name: str) -> None:
        """Runs one part in its own process group, which is killed at the time limit. Writes the file."""
        part = self.parts[name] = {"seconds": 0.0, "results": [], "error": "not run: no time was left"}
        began = time.monotonic()
        limit = min(self.settings.part_seconds, self.deadline - began)
        options = ["--dry"] * self.settings.dry
        options += ["--corpus", str(self.settings.corpus.resolve())] if self.settings.corpus else []
        if limit > 0:
            with subprocess.Popen(
                [sys.executable, "-m", "benchmarks.gpu", "--only", name, *options],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env={**ENVIRONMENT, **os.environ, **({"CUDA_VISIBLE_DEVICES": "-1"} if name == "decode-cpu" else {})},
                cwd=ROOT,
                start_new_session=True,
            ) as process:
                reason = ""
                try:
                    found, said = process.communicate(timeout=limit)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    found, said = process.communicate()
                    reason = f"stopped after {limit:.0f} s"
            part["seconds"] = round(time.monotonic() - began, 1)
            part["results"] = [json.loads(line) for line in found.splitlines() if line.startswith("{")]
            told = f"exit code {process.returncode}: {said.replace(f'{ROOT}/', '').strip()[-1500:]}"
            part["error"] = reason or (told if process.returncode else None)
        with self.lock:
            whole = {**self.head, "parts": self.parts, "shown": [] if self.settings.dry else shown(self.parts)}
            write_whole(self.settings.to, json.dumps(whole, indent=2) + "\n")
        print(name, {**part, "results": len(part["results"])}, file=sys.stderr, flush=True)


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
    import tensorflow as tf

    return "/GPU:0" if tf.config.list_physical_devices("GPU") else "/CPU:0"


def sizes_of(settings: Settings) -> Sizes:
    """Returns the amounts of work, which are small for a dry run."""
    return DRY if settings.dry else FULL


def read_corpus(settings: Settings) -> list[Pair]:
    """Returns the pairs of the corpus, or of the built-in sample corpus."""
    from nmt_keras.corpus.reading import read_pairs
    from nmt_keras.corpus.sample import sample_pairs

    if settings.corpus is None:
        return sample_pairs()
    pairs = read_pairs(settings.corpus, source_column=1, target_column=0).pairs
    return pairs[:: -(-len(pairs) // 20_000)]  # of all lengths, because the file is sorted by length


def device(settings: Settings) -> Iterator[Result]:
    """Yields facts about the GPU from TensorFlow and the driver."""
    import tensorflow as tf

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
    """Loss and gradients of a batch, and facts about the computation."""

    loss: float  # nats per token
    gradients: list[np.ndarray]


def parity(name: str, settings: Settings) -> Iterator[Result]:
    """Yields the differences of loss and gradients between each execution and a plain graph on the CPU."""
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(False)
    config = small(find_recipe(name).model, sizes_of(settings).width)
    batch = one_batch()
    weights = draw_weights(config, batch)
    reference = compute(config, batch, weights, "/CPU:0")
    for execution in EXECUTIONS:
        found = compute(config, batch, weights, accelerator(), execution)
        yield {"recipe": name, "execution": execution, **compare(found, reference)}


def small(model: ModelConfig, width: float) -> ModelConfig:
    """Returns a narrow version of a model, with at most two layers."""
    scaled = model.scaled(width)
    encoder = replace(scaled.encoder, layers=min(2, scaled.encoder.layers))
    decoder = replace(scaled.decoder, layers=min(2, scaled.decoder.layers))
    return replace(scaled, encoder=encoder, decoder=decoder, initializer="uniform")


class IdBatch(NamedTuple):
    """A batch of the sample corpus as ids, and the sizes of the vocabularies."""

    source: tf.Tensor  # [B, S] int32
    target: tf.Tensor  # [B, T] int32
    sizes: tuple[int, int]


def one_batch() -> IdBatch:
    """Returns the first 64 pairs of the sample corpus, which have different lengths."""
    import tensorflow as tf

    from nmt_keras.corpus.sample import sample_pairs
    from nmt_keras.recipes import SAMPLE
    from nmt_keras.text import fit_tokenizer

    sides = list(zip(*sample_pairs(), strict=True))
    texts = [fit_tokenizer(SAMPLE.source, side) for side in sides]
    source, target = (text.encode(tf.constant(side[:64])).ids for text, side in zip(texts, sides, strict=True))
    return IdBatch(source, target, (texts[0].vocabulary_size, texts[1].vocabulary_size))


def draw_weights(config: ModelConfig, batch: IdBatch) -> list[np.ndarray]:
    """Returns random biases, and weights that are large enough to drive gates and attention away from their means."""
    import keras
    import numpy as np
    import tensorflow as tf

    from nmt_keras.models.seq2seq import build_model

    keras.utils.set_random_seed(1)
    random = np.random.default_rng(1)
    with tf.device("/CPU:0"):
        variables = build_model(config, *batch.sizes).variables
    return [3.0 * v.numpy() if len(v.shape) > 1 else random.normal(0.0, 0.3, v.shape) for v in variables]


def compute(
    config: ModelConfig, batch: IdBatch, weights: Sequence[np.ndarray], place: str, execution: Execution = "plain"
) -> Computed:
    """Computes the mean loss and its gradients on a device with these weights."""
    import tensorflow as tf

    from nmt_keras.layers.dropout import Randomness
    from nmt_keras.models.seq2seq import build_model
    from nmt_keras.training import batch_loss

    with tf.device(place):
        model = build_model(config, *batch.sizes)
        for variable, value in zip(model.variables, weights, strict=True):
            variable.assign(value)

        @tf.function(jit_compile=execution == "xla", autograph=False)
        def differentiate() -> Any:
            with tf.GradientTape() as tape:
                loss = batch_loss(model, batch.source, batch.target, smoothing=0.0, randomness=Randomness(1, 0))
                mean = loss.total / loss.tokens
            unreached = tf.UnconnectedGradients.ZERO
            variables = [variable.value for variable in model.trainable_variables]
            return mean, tape.gradient(mean, variables, unconnected_gradients=unreached)

        loss, gradients = differentiate()
    return Computed(float(loss), [tf.convert_to_tensor(g).numpy() for g in gradients])


def compare(found: Computed, wanted: Computed) -> Result:
    """Returns the relative difference of the losses, the largest relative difference of the gradients, and ``passed``.

    ``passed`` is True if both are smaller than the tolerances. NaN is not smaller.
    """
    import numpy as np

    loss = abs(found.loss - wanted.loss) / abs(wanted.loss)
    pairs = zip(found.gradients, wanted.gradients, strict=True)
    gradient = float(np.max([np.linalg.norm(a - b) / (np.linalg.norm(b) or 1.0) for a, b in pairs]))
    passed = loss < LOSS_TOLERANCE and gradient < GRADIENT_TOLERANCE
    differences = {"loss_difference": loss, "gradient_difference": gradient}
    return {**{name: float(f"{value:.2g}") for name, value in differences.items()}, "passed": passed}


def train(name: str, execution: Execution, settings: Settings) -> Iterator[Result]:
    """Yields the target tokens per second and the memory of a system's training, for each of its precisions."""
    import keras

    from benchmarks.train_speed import rates
    from nmt_keras.training import Updater
    from nmt_keras.training.compiling import compile_updates
    from nmt_keras.training.execution import build_for_training

    system, sizes = SYSTEMS[name], sizes_of(settings)
    for precision in system.precisions:
        keras.utils.set_random_seed(1)
        recipe, vocabulary = executed(system, execution, precision, settings.dry)
        batches = random_batches(recipe, vocabulary, settings)
        updater = Updater(build_for_training(recipe, vocabulary, vocabulary), recipe.train)
        peak_megabytes()
        began = time.perf_counter()
        compile_updates(updater, batches, lambda _: None)
        compiling = time.perf_counter() - began
        found = rates(updater, batches, sizes.steps)
        yield {
            "system": name,
            "execution": execution,
            "precision": precision,
            "parameters": sum(int(keras.ops.size(variable)) for variable in updater.variables),
            "target_tokens_per_s": round(statistics.median(found[1:] or found)),
            "target_tokens_per_s_of_each_interval": [round(rate) for rate in found],
            "compile_s": round(compiling, 1),
            "buckets": [[batches.rows[bucket], *bucket] for bucket in batches.buckets],  # rows, source, target tokens
            "peak_megabytes": peak_megabytes(),
        }
        del updater, batches
        gc.collect()


def executed(system: System, execution: Execution, precision: Precision, dry: bool) -> tuple[Recipe, int]:
    """Returns the recipe and the vocabulary size of a system for a precision. Both are small in a dry run.

    Enables TF32 for the precision "tf32", and disables it otherwise.
    """
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
    recipe, vocabulary = system.recipe, system.vocabulary
    if dry:
        train = replace(recipe.train, batch_size=4, batch_tokens=None)
        recipe, vocabulary = replace(recipe, model=recipe.model.scaled(0.02), train=train), 50
    mixed: dict[Precision, Literal["mixed_bfloat16", "mixed_float16"]]
    mixed = {"bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
    return replace(
        recipe,
        model=replace(recipe.model, initializer="uniform"),
        train=replace(recipe.train, xla=execution == "xla", precision=mixed.get(precision, "float32")),
    ), vocabulary


def random_batches(recipe: Recipe, vocabulary: int, settings: Settings) -> Batches:
    """Returns batches of random ids in two length buckets."""
    import numpy as np

    from nmt_keras.corpus.batches import Batches, TokenLists, choose_buckets, rows_by_bucket

    random, train = np.random.default_rng(1), recipe.train
    lengths = [(len(pair.source.split()) + 1, len(pair.target.split()) + 1) for pair in read_corpus(settings)]
    both = np.array([each for each in lengths if max(each) <= train.max_tokens])

    def ids(lengths: np.ndarray) -> TokenLists:
        flat = random.integers(END + 1, vocabulary, lengths.sum())
        flat[np.cumsum(lengths) - 1] = END
        return TokenLists(flat, lengths)

    source, target = both.T
    buckets = choose_buckets(source, target, 2)
    rows = rows_by_bucket(buckets, train.batch_size, train.batch_tokens)
    return Batches(ids(source), ids(target), batch_size=rows, buckets=buckets, pool_size=train.pool_size, seed=1)


def peak_megabytes() -> int:
    """Returns the peak memory of the GPU since the last call, or of this process if there is no GPU, in megabytes."""
    import tensorflow as tf

    if accelerator() == "/CPU:0":
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
    peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
    tf.config.experimental.reset_memory_stats("GPU:0")
    return round(peak / 1e6)


def decode(settings: Settings) -> Iterator[Result]:
    """Yields the speed of greedy search and of beam search, measured by ``benchmarks/decode_speed.py``.

    The weights are random, so translations are cut at about the length of a trained model's translations.
    """

    from benchmarks import decode_speed
    from nmt_keras.config import SearchConfig, TokenizerConfig
    from nmt_keras.models.seq2seq import build_model
    from nmt_keras.text import fit_tokenizer
    from nmt_keras.translation.model_translator import ModelTranslator

    class CutTranslator(ModelTranslator):
        def limits(self, source_lengths: tf.Tensor) -> tf.Tensor:
            return source_lengths + 1

    sizes = sizes_of(settings)
    sides = list(zip(*read_corpus(settings), strict=True))
    source, target = (fit_tokenizer(TokenizerConfig("word", sizes.vocabulary), side) for side in sides)
    model = matched(sizes.units, 64).model
    network = build_model(model, source.vocabulary_size, target.vocabulary_size)
    for width in (1, 5):
        translator = CutTranslator(source, target, network, search=SearchConfig(beam_size=width))
        decoding = decode_speed.Settings(batch_size=256, single=sizes.single, repeats=sizes.repeats)
        yield {"beam": width, **decode_speed.measure(translator, sides[0][: sizes.sentences], decoding)}


def trainings(*names: str) -> dict[str, Callable[[Settings], Iterator[Result]]]:
    """Returns the parts that train some systems."""
    return {f"train-{name}-{execution}": partial(train, name, execution) for name in names for execution in EXECUTIONS}


PARTS: dict[str, Callable[[Settings], Iterator[Result]]] = {
    "device": device,
    **{f"parity-{name}": partial(parity, name) for name in FAMILIES},
    **trainings("conditional-gru", "rnnsearch-base"),
    "decode": decode,
    "decode-cpu": decode,
    **trainings("matched-512", "matched-256", "luong-location"),
}
"""Functions of the parts by name, in the order in which they run."""


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
