"""Measures training speed in target tokens per second, compared with OpenNMT-py on a matched model.

    benchmarks/setup_opennmt.sh PEERS                                                  installs OpenNMT-py
    python -m benchmarks.train_speed --venv PEERS --work WORK --corpus spa-eng.zip     writes the corpus to WORK, too
    python -m benchmarks.train_speed --venv PEERS --work WORK --units 512 --batch 128
    python -m benchmarks.train_speed --venv PEERS --work WORK --earlier first.json     adds a round to the first
    python -m benchmarks.train_speed --work WORK                                       without OpenNMT-py

The matched model translates Spanish to English with vocabularies of 5,000 words. It has embeddings of 256, a
bidirectional GRU layer of units / 2 per direction, additive attention, a GRU decoder layer with input feeding, and
tanh(W [c ; s]) of ``units`` below the softmax. It is trained with Adam at 1e-3, clipping at 1 and no dropout. This
package is also measured with bfloat16 factors. Rates count target tokens after warm-up, END included and padding
excluded. Compilation is reported separately. The systems run one after the other, each in its own process, ``repeats``
times: this is a round. Each system keeps freed memory. Prints JSON with every repetition and the ratios of the medians.
With ``--earlier``, the result also contains the rounds of an earlier one.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from benchmarks.machine import machine, output_of, print_result
from nmt_keras.config import (
    END,
    UNK,
    AttentionConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    Recipe,
    TrainConfig,
    require,
)
from nmt_keras.io.startup import keep_freed_memory
from nmt_keras.languages import without_accents

if TYPE_CHECKING:
    from nmt_keras.corpus.batches import Batches, TokenLists
    from nmt_keras.corpus.shards import ShardedBatches
    from nmt_keras.training.updater import Updater

WORDS = 5_000
INTERVAL = 20
"""Number of updates per measured rate, as in the reports of OpenNMT-py."""
MAX_TOKENS = 50
MALLOC = {
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "268435456",
}
"""Environment of OpenNMT-py, which takes memory from malloc: freed memory is kept, as TensorFlow keeps it here."""


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    work: Path
    """Folder of the corpus as text."""
    corpus: Path | None = None
    """File of the Spanish-English corpus, to write ``work``. ``None`` if ``work`` is complete."""
    venv: Path | None = None
    """Environment created by ``setup_opennmt.sh``. None measures this package alone."""
    units: int = 256
    batch: int = 64
    steps: int = 200
    """Number of updates per repetition, at least 60. The first 40 are not counted."""
    repeats: int = 3
    earlier: Path | None = None
    """Result of the same command, whose rounds precede the new one."""
    only: Literal["matched", "matched-bfloat16"] | None = None
    """System of this package to measure in this process. Used internally for each repetition."""


def main(settings: Settings) -> None:
    """Measures and prints the result."""
    if settings.only:
        print(json.dumps(measure(settings)))
        return
    if settings.corpus:
        write_corpus(settings.corpus, settings.work)
    ours, others = ("matched", "matched-bfloat16"), ("onmt",) if settings.venv else ()
    rounds = json.loads(settings.earlier.read_text(encoding="utf-8"))["rounds"] if settings.earlier else []
    for one in rounds:
        require(tuple(one["runs"]) == (*ours, *others), "--earlier", "rounds of the same systems", tuple(one["runs"]))
    found: dict[str, list[dict[str, Any]]] = {}
    facts = machine()
    for _ in range(settings.repeats):
        for name in (*ours, *others):
            run = opennmt_process(settings) if name == "onmt" else own_process(settings, name)
            print(name, run, file=sys.stderr, flush=True)
            found.setdefault(name, []).append(run)
    rates = {name: statistics.median(each["target_tokens_per_s"] for each in runs) for name, runs in found.items()}
    ratios = {name: {other: round(rates[name] / rates[other], 2) for other in others} for name in ours}
    one = {"date": facts["date"], "median": rates, "ratios": ratios}
    rounds = [*rounds, {**one, "runs": found}]
    print_result(facts, {"rounds": rounds})


def write_corpus(corpus: Path, work: Path) -> None:
    """Writes the sets of the benchmark split as text, and as words as in the TensorFlow tutorial."""
    from nmt_keras.corpus import read_pairs, split_pairs

    work.mkdir(parents=True, exist_ok=True)
    pairs = read_pairs(corpus, source_column=1, target_column=0).pairs
    for part, found in split_pairs(pairs, key_side="target").items():
        for place, language in enumerate(("es", "en")):
            kept = [words(pair[place]) for pair in found if all(map(words, pair))]
            for name, lines in ((part, [pair[place] for pair in found]), (f"{part}.w", kept)):
                (work / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def words(text: str) -> str:
    """Returns lower-case words without accents, and punctuation marks, separated by spaces."""
    spaced = re.sub(r"([?.!,¿])", r" \1 ", without_accents(text.lower()))
    return " ".join(re.sub(r"[^a-z?.!,¿]+", " ", spaced).split())


def own_process(settings: Settings, name: str) -> dict[str, Any]:
    """Measures one system of this package in a process, and returns its result."""
    options: dict[str, Any] = {"units": settings.units, "batch": settings.batch, "steps": settings.steps, "only": name}
    given = [part for key, value in options.items() for part in (f"--{key}", str(value))]
    said = output_of([sys.executable, "-m", "benchmarks.train_speed", "--work", str(settings.work), *given])
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


def opennmt_process(settings: Settings) -> dict[str, Any]:
    """Trains OpenNMT-py, and returns its target tokens per second and number of parameters."""
    work, programs = settings.work.resolve(), (settings.venv or Path()) / "bin"
    (work / "speed").mkdir(exist_ok=True)
    parts = {"c": "train", "valid": "valid"}
    config = {
        "save_data": f"{work}/speed/d",
        "src_vocab": f"{work}/speed/v.src",
        "tgt_vocab": f"{work}/speed/v.tgt",
        "overwrite": True,
        "src_vocab_size": WORDS,
        "tgt_vocab_size": WORDS,
        "data": {
            name: {"path_src": f"{work}/{part}.w.es", "path_tgt": f"{work}/{part}.w.en"} for name, part in parts.items()
        },
        "save_model": f"{work}/speed/m",
        "train_steps": settings.steps,
        "valid_steps": 10**6,
        "save_checkpoint_steps": 10**6,
        "report_every": INTERVAL,
        "batch_size": settings.batch,
        "batch_type": "sents",
        "encoder_type": "brnn",
        "decoder_type": "rnn",
        "rnn_type": "GRU",
        "enc_layers": 1,
        "dec_layers": 1,
        "word_vec_size": 256,
        "hidden_size": settings.units,
        "global_attention": "mlp",
        "input_feed": 1,
        "dropout": 0.0,
        "optim": "adam",
        "learning_rate": 0.001,
        "max_grad_norm": 1.0,
        "seed": 1,
        "num_workers": 0,
    }
    path = work / "speed" / "config.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    output_of([str(programs / "onmt_build_vocab"), "-config", str(path), "-n_sample", "-1"])
    said = output_of(
        [str(programs / "onmt_train"), "-config", str(path)], env={**os.environ, **MALLOC}, stderr=subprocess.STDOUT
    )
    found = [float(rate) for rate in re.findall(r"\d+/\s*(\d+) tok/s", said)]
    (parameters,) = re.findall(r"number of parameters: (\d+)", said)
    return {"target_tokens_per_s": statistics.median(found[2:]), "parameters": int(parameters)}


def matched(units: int, batch: int) -> Recipe:
    """Returns the recipe of the model that both toolkits can train."""
    model = ModelConfig(
        embedding_size=256,
        encoder=EncoderConfig(cell="gru-reset-after", units=units // 2),
        attention=AttentionConfig("additive", units=units),
        decoder=DecoderConfig(
            order="update-then-attend",
            cell="gru-reset-after",
            units=units,
            initial_state="both",
            input_feeding=True,
            output="attentional",
            output_state="current",
            output_units=units,
        ),
        dropout=0.0,
    )
    train = TrainConfig(
        batch_size=batch,
        length_buckets=12,
        max_tokens=MAX_TOKENS,
        learning_rate=1e-3,
        warmup_steps=0,
        decay="constant",
        beta_2=0.999,
        label_smoothing=0.0,
    )
    return Recipe(name="matched", model=model, train=train)


def measure(settings: Settings) -> dict[str, Any]:
    """Measures one system of this package in this process."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    keep_freed_memory()
    import tensorflow as tf

    from nmt_keras.training.compiling import compile_updates
    from nmt_keras.training.execution import build_for_training
    from nmt_keras.training.updater import Updater

    precision: Literal["bfloat16-products", "float32"]
    precision = "bfloat16-products" if settings.only == "matched-bfloat16" else "float32"
    recipe = matched(settings.units, settings.batch)
    recipe = replace(recipe, train=replace(recipe.train, precision=precision))
    tf.keras.utils.set_random_seed(1)
    batches, sizes = read_batches(settings.work, recipe)
    updater = Updater(build_for_training(recipe, *sizes), recipe.train)
    began = time.perf_counter()
    compile_updates(updater, batches, lambda _: None)
    compiling = time.perf_counter() - began
    measured = rates(updater, batches, settings.steps)
    return {
        "ours": settings.only,
        "parameters": sum(int(tf.size(variable)) for variable in updater.variables),
        "target_tokens_per_s": round(statistics.median(measured[2:])),
        "compile_s": round(compiling, 1),
        "shapes": len(batches.buckets),
    }


def read_batches(work: Path, recipe: Recipe) -> tuple[Batches, tuple[int, int]]:
    """Returns batches of the training set as words, and the sizes of the vocabularies."""
    from nmt_keras.corpus.batches import Batches, choose_buckets

    sides = [encoded(work / f"train.w.{language}") for language in ("es", "en")]
    lengths = [side.lengths for side, _ in sides]
    kept = (lengths[0] <= recipe.train.max_tokens) & (lengths[1] <= recipe.train.max_tokens)
    source, target = (side.take(kept.nonzero()[0]) for side, _ in sides)
    batches = Batches(
        source,
        target,
        batch_size=recipe.train.batch_size,
        buckets=choose_buckets(source.lengths, target.lengths, recipe.train.length_buckets),
        pool_size=recipe.train.pool_size,
        seed=recipe.train.seed,
    )
    return batches, (sides[0][1], sides[1][1])


def encoded(path: Path) -> tuple[TokenLists, int]:
    """Returns a file's lines as ids of its most frequent words, and the size of the vocabulary."""
    import numpy as np

    from nmt_keras.corpus.batches import TokenLists

    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    counts = Counter(word for line in lines for word in line)
    ids = {word: END + 1 + rank for rank, (word, _) in enumerate(counts.most_common(WORDS))}
    flat = [number for line in lines for number in (*(ids.get(word, UNK) for word in line), END)]
    return TokenLists(np.array(flat), np.array([len(line) + 1 for line in lines])), END + 1 + len(ids)


def rates(updater: Updater, batches: Batches | ShardedBatches, steps: int) -> list[float]:
    """Returns target tokens per second for every ``INTERVAL`` updates."""
    import numpy as np

    from nmt_keras.corpus.batches import Position
    from nmt_keras.training.schedules import learning_rate

    found: list[float] = []
    tokens, began = 0, time.perf_counter()
    for step, (_, batch) in zip(range(1, steps + 1), batches.iterate(Position(0, 0, 0)), strict=False):
        metrics = updater.train_step([batch], step, learning_rate(updater.config, step, steps))
        tokens += int(np.count_nonzero(batch.target))
        if step % INTERVAL == 0:
            float(metrics.gradient_norm)  # waits for the update
            now = time.perf_counter()
            found.append(tokens / (now - began))
            tokens, began = 0, now
    return found


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
