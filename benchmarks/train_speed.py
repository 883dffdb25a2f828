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

import json
import os
import re
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tensorflow as tf
import tyro

from benchmarks.machine import in_new_process, machine, output_of, print_result
from nmt_keras.config import (
    AttentionConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    Recipe,
    TokenizerConfig,
    TrainConfig,
    require,
)
from nmt_keras.corpus import Pair, read_pairs, split_pairs
from nmt_keras.corpus.batches import BatchSource, Position
from nmt_keras.corpus.encoding import batch_pairs
from nmt_keras.io.startup import keep_freed_memory
from nmt_keras.languages import without_accents
from nmt_keras.text import fit_tokenizer
from nmt_keras.training import Updater
from nmt_keras.training.compiling import compile_updates
from nmt_keras.training.execution import build_for_training
from nmt_keras.training.schedules import learning_rate

OURS: dict[str, Literal["float32", "bfloat16-products"]] = {
    "matched": "float32",
    "matched-bfloat16": "bfloat16-products",
}
"""Systems of this package, with their precision."""
WORDS = 5_000
INTERVAL = 20
"""Number of updates per measured rate, as in the reports of OpenNMT-py."""
MALLOC = {
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "268435456",
}
"""Environment of OpenNMT-py, which takes memory from malloc: freed memory is kept, as TensorFlow keeps it here."""


def main(
    work: Path,
    corpus: Path | None = None,
    venv: Path | None = None,
    units: int = 256,
    batch: int = 64,
    steps: int = 200,
    repeats: int = 3,
    earlier: Path | None = None,
) -> None:
    """Measures and prints the result.

    Args:
        work: Folder of the corpus as text.
        corpus: File of the Spanish-English corpus, to write ``work``. ``None`` if ``work`` is complete.
        venv: Environment created by ``setup_opennmt.sh``. ``None`` measures this package alone.
        units: Units of the decoder.
        batch: Number of sentences in a batch.
        steps: Number of updates per repetition, at least 60. The first 40 are not counted.
        repeats: Number of repetitions.
        earlier: Result of the same command, whose rounds precede the new one.
    """
    if corpus:
        write_corpus(corpus, work)
    others = ("onmt",) if venv else ()
    systems = (*OURS, *others)
    rounds = json.loads(earlier.read_text(encoding="utf-8"))["rounds"] if earlier else []
    for one in rounds:
        require(tuple(one["runs"]) == systems, "--earlier", "rounds of the same systems", tuple(one["runs"]))
    facts, found = machine(), dict[str, list[dict[str, Any]]]()
    for name in systems * repeats:
        if venv and name == "onmt":
            run = train_opennmt(venv, work.resolve(), units, batch, steps)
        else:
            run = in_new_process(measure, name, work, units, batch, steps)
        print(name, run, file=sys.stderr, flush=True)
        found.setdefault(name, []).append(run)
    rates = {name: statistics.median(each["target_tokens_per_s"] for each in runs) for name, runs in found.items()}
    ratios = {name: {other: round(rates[name] / rates[other], 2) for other in others} for name in OURS}
    one = {"date": facts["date"], "median": rates, "ratios": ratios, "runs": found}
    print_result(facts, {"rounds": [*rounds, one]})


def write_corpus(corpus: Path, work: Path) -> None:
    """Writes the sets of the benchmark split as text, and as words as in the TensorFlow tutorial."""
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


def train_opennmt(venv: Path, work: Path, units: int, batch: int, steps: int) -> dict[str, Any]:
    """Trains OpenNMT-py, and returns its target tokens per second and number of parameters."""
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
        "train_steps": steps,
        "valid_steps": 10**6,
        "save_checkpoint_steps": 10**6,
        "report_every": INTERVAL,
        "batch_size": batch,
        "batch_type": "sents",
        "encoder_type": "brnn",
        "decoder_type": "rnn",
        "rnn_type": "GRU",
        "enc_layers": 1,
        "dec_layers": 1,
        "word_vec_size": 256,
        "hidden_size": units,
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
    output_of([str(venv / "bin" / "onmt_build_vocab"), "-config", str(path), "-n_sample", "-1"])
    command = [str(venv / "bin" / "onmt_train"), "-config", str(path)]
    said = output_of(command, env={**os.environ, **MALLOC}, stderr=subprocess.STDOUT)
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
        epochs=1.0,
        minutes=None,
        length_buckets=12,
        max_tokens=50,
        learning_rate=1e-3,
        warmup_steps=0,
        decay="constant",
        beta_2=0.999,
        label_smoothing=0.0,
    )
    return Recipe(name="matched", model=model, train=train)


def measure(name: str, work: Path, units: int, batch: int, steps: int) -> dict[str, Any]:
    """Measures one system of this package in this process."""
    keep_freed_memory()
    recipe = matched(units, batch)
    recipe = replace(recipe, train=replace(recipe.train, precision=OURS[name]))
    sides = [(work / f"train.w.{language}").read_text("utf-8").splitlines() for language in ("es", "en")]
    # in addition to the words, a vocabulary has four special entries
    source, target = (fit_tokenizer(TokenizerConfig("word", WORDS + 4), side) for side in sides)
    batches = batch_pairs(list(map(Pair, *sides)), (source, target), recipe.train, lambda _: None)
    figures, rates = train(recipe, batches, (source.vocabulary_size, target.vocabulary_size), steps)
    return {
        "ours": name,
        **figures,
        "target_tokens_per_s": round(statistics.median(rates[2:])),
        "shapes": len(batches.buckets),
    }


def train(
    recipe: Recipe, batches: BatchSource, vocabulary_sizes: tuple[int, int], steps: int
) -> tuple[dict[str, Any], list[float]]:
    """Trains a new model for ``steps`` updates.

    Returns the number of parameters and the seconds of compilation, and the target tokens per second of each
    ``INTERVAL`` updates.
    """
    tf.keras.utils.set_random_seed(1)
    updater = Updater(build_for_training(recipe, *vocabulary_sizes), recipe.train)
    began = time.perf_counter()
    compile_updates(updater, batches, lambda _: None)
    compiling = time.perf_counter() - began
    rates, training = [], batches.iterate(Position(0, 0, 0))
    for first in range(1, steps + 1, INTERVAL):
        tokens, began = 0, time.perf_counter()
        for step, (_, batch) in zip(range(first, first + INTERVAL), training, strict=False):
            metrics = updater.train_step([batch], step, learning_rate(updater.config, step, steps))
            tokens += int(np.count_nonzero(batch.target))
        float(metrics.gradient_norm)  # waits for the update
        rates.append(tokens / (time.perf_counter() - began))
    parameters = sum(int(tf.size(variable)) for variable in updater.variables)
    return {"parameters": parameters, "compile_s": round(compiling, 1)}, rates


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
