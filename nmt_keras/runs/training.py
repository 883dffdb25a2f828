"""Trains a run: creates its directory, builds its model, and calls the training loop with a validation."""

import json
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from nmt_keras.config import Recipe, RunOptions, TrainConfig, require
from nmt_keras.corpus import CorpusOptions, Pair
from nmt_keras.corpus.batches import Batches, choose_buckets, rows_by_bucket
from nmt_keras.corpus.encoding import encode_pairs
from nmt_keras.corpus.shards import RECORD_FILE
from nmt_keras.evaluation.metrics import bleu
from nmt_keras.export.rebuilding import rebuilt
from nmt_keras.io.files import read_json, sole_writer, sync_folder, write_whole
from nmt_keras.io.lines import CUT, tell_lines
from nmt_keras.manifest import exported_version
from nmt_keras.models.seq2seq import Seq2Seq
from nmt_keras.runs.directory import (
    CHECKPOINTS,
    CORPUS,
    INITIAL,
    LOG,
    ORIGIN,
    RECIPE,
    flat,
    identity,
    is_run,
    read_ancestors,
    refuse_other_corpus,
    resolve_recipe,
    write_origin,
    write_recipe,
)
from nmt_keras.runs.training_data import Tokenizers, TrainingData
from nmt_keras.text import load_tokenizer
from nmt_keras.training import (
    Checkpoints,
    Progress,
    Show,
    StrategyReplicas,
    Trainer,
    Updater,
    batch_loss,
    copy_best,
    identify_best,
    is_chief,
    is_finished,
    load_weights,
)
from nmt_keras.training.checkpoints import set_damaged_aside
from nmt_keras.training.distribution import Replicas, reporting_lost_workers
from nmt_keras.training.execution import build_for_training, describe_execution, uses_xla
from nmt_keras.training.tensorboard import ProfilerCallback, TensorBoardCallback
from nmt_keras.translation.model_translator import ModelTranslator

MAX_ROWS = 128
"""Maximum number of sentences in a validation batch. Validation runs on one device, even if several devices train."""

SECONDS_TO_APPEAR = 60
"""Seconds that other workers wait for the chief's files. Network drives cache folders for up to a minute."""


def train_run(
    folder: Path,
    recipe: Recipe,
    data: TrainingData,
    report: Callable[[str], None],
    show: Show,
    options: RunOptions,
    strategy: tf.distribute.Strategy | None,
    stop_after: int | None,
    origin: CorpusOptions | None,
    callbacks: Sequence[keras.callbacks.Callback],
) -> Recipe:
    """Trains the run in ``folder``, or resumes it, and returns its recipe. A finished run is left unchanged."""
    require(
        options.init_from is None or Path(options.init_from).resolve() != folder.resolve(),
        "run",
        "another directory than RunOptions.init_from",
        str(folder),
        "A fine-tuned run is a new run.",
    )
    chief, replicas = is_chief(strategy), StrategyReplicas(strategy) if strategy else Replicas()
    with sole_writer(folder) if chief else nullcontext(), reporting_lost_workers(replicas):
        recipe = resolve_recipe(folder, recipe)  # another process may have created the run meanwhile
        if chief:
            _create(folder, recipe, data, options.init_from, origin)
        replicas.wait_for_processes()  # raises an error if the chief has failed
        if not chief:
            _await_corpus(folder)
            refuse_other_corpus(folder, data.facts)
        if is_finished(folder) and not options.extends:
            if chief and options.previous:
                set_damaged_aside(folder / CHECKPOINTS, report)
            return recipe
        if options.deterministic:
            tf.config.experimental.enable_op_determinism()
        config = recipe.train
        tf.keras.utils.set_random_seed(config.seed)
        tokenizers = load_tokenizers(folder)
        batches = data.batches(tokenizers)
        if chief:
            write_recipe(folder, recipe)  # the run exists now; a start that fails earlier leaves no recipe to keep to
        with strategy.scope() if strategy else nullcontext():
            model = build_for_training(recipe, *(each.vocabulary_size for each in tokenizers))
            if (folder / INITIAL).exists():
                load_weights(model, folder / INITIAL)
        report(describe_execution(uses_xla(config, model), config.precision))
        translator = ModelTranslator(*tokenizers, model, search=recipe.search)
        if options.profile:
            callbacks = [ProfilerCallback(folder / "tensorboard", options.profile), *callbacks]
        if options.tensorboard and chief:
            callbacks = [TensorBoardCallback(folder / "tensorboard"), *callbacks]
        updater = Updater(model, config, replicas)
        Trainer(
            updater,
            batches,
            Checkpoints(folder / CHECKPOINTS, updater, identity(folder, recipe)),
            folder / LOG,
            validation(model, translator, data.valid, config, origin, report),
            report,
            show,
            callbacks,
            is_chief=chief,
        ).train(options, stop_after)
    return recipe


def load_tokenizers(folder: Path) -> Tokenizers:
    """Returns the tokenizers of a run directory."""
    return load_tokenizer(folder / "source"), load_tokenizer(folder / "target")


def _create(
    folder: Path, recipe: Recipe, data: TrainingData, init_from: str | None, origin: CorpusOptions | None
) -> None:
    """Writes the tokenizers, the corpus facts and the corpus options of a new run.

    An existing run gets the present corpus options: its files may have moved.

    With ``init_from``, only the tokenizers and the initial weights are copied from that run or exported version.

    Raises:
        ValueError: the run exists and was trained on another corpus, or did not begin with ``init_from``; the recipe
            has other tokenizers than ``init_from``; or the new run would overwrite files of another kind.
    """
    start = None if init_from is None else exported_version(Path(init_from)) or Path(init_from)
    exists = (folder / RECIPE).exists()
    ancestors = read_ancestors(folder) if exists else []
    if exists:
        refuse_other_corpus(folder, data.facts)
        if start is not None and (ancestors or not (folder / INITIAL).exists()):
            began = [ancestor["run"] for ancestor in ancestors[:1]]
            require(
                began == [str(start.resolve())],
                "RunOptions.init_from",
                f"the run that {folder} began with, {', '.join(began) or 'none'}",
                init_from,
                "Remove the option, or pass another --run.",
            )
    else:
        _require_no_other_files(folder)
        shutil.rmtree(folder / INITIAL, ignore_errors=True)  # of a call that was killed
        if start is None:
            tokenizers = data.fit(None)
        else:
            copy = _copy_run if is_run(start) else _copy_exported
            inherited, ancestors = copy(start, folder / INITIAL, recipe)
            tokenizers = data.fit(inherited)
            sync_folder(folder)
        for tokenizer, side in zip(tokenizers, ("source", "target"), strict=True):
            tokenizer.save(folder / side)
        write_whole(folder / CORPUS, json.dumps(data.facts, indent=2) + "\n")
    if origin is not None or (ancestors and not exists):
        write_origin(folder, origin, ancestors)


def _require_no_other_files(folder: Path) -> None:
    """Raises ValueError if a new run would overwrite files that no interrupted start of a run has written.

    A start copies the best checkpoint first and then writes the vocabularies, before all other files.
    """
    found = [
        path
        for place in (RECORD_FILE, CORPUS, ORIGIN, LOG, CHECKPOINTS, f"{INITIAL}/*")
        for path in folder.glob(place)
        if path != folder / INITIAL / "best"
    ]
    require(
        not found or ((folder / "source" / "text.json").exists() and not (folder / RECORD_FILE).exists()),
        "run",
        "a new folder or a run",
        ", ".join(map(str, found[:3])),
        "A run would overwrite this. Pass another folder.",
    )


def _copy_run(run: Path, to: Path, recipe: Recipe) -> tuple[Tokenizers, list[dict[str, Any]]]:
    """Copies the best checkpoint of a run into the folder ``to``.

    Returns the tokenizers of the run, which must be those of ``recipe``, and the ancestors of the new run.
    """
    tokenizers = load_tokenizers(run)
    _require_tokenizers(recipe, tokenizers)
    copy_best(run / CHECKPOINTS, to / "best")
    checkpoint, corpus = identify_best(to)._asdict(), read_json(run / CORPUS)
    return tokenizers, [{"run": str(run.resolve()), "checkpoint": checkpoint, "corpus": corpus}, *read_ancestors(run)]


def _copy_exported(version: Path, to: Path, recipe: Recipe) -> tuple[Tokenizers, list[dict[str, Any]]]:
    """Writes the weights of an exported version into the folder ``to``, as a checkpoint. Returns as ``_copy_run``."""
    parts, manifest = rebuilt(version)
    tokenizers = parts.source, parts.target
    _require_tokenizers(recipe, tokenizers)
    (checkpoint,) = manifest["checkpoints"]
    model = parts.translator(recipe.search).model
    # SGD, because the checkpoint contains the optimizer, which starts from the beginning
    updater = Updater(model, replace(recipe.train, optimizer="sgd", precision="float32"))
    Checkpoints(to, updater).save("best", Progress(step=checkpoint["step"]))
    return tokenizers, [
        {"run": str(version.resolve()), "checkpoint": checkpoint, "corpus": manifest["corpus"]},
        *manifest.get("ancestors", ()),
    ]


def _require_tokenizers(recipe: Recipe, copied: Tokenizers) -> None:
    """Raises ValueError if a recipe has other tokenizers than those that are copied from another run."""
    tokenizers = (copied[0].config, copied[1].config), (recipe.source, recipe.target)
    there, here = (flat({"source": asdict(source), "target": asdict(target)}) for source, target in tokenizers)
    changed = {f"--{name}".replace("_", "-"): here[name] for name in there if here[name] != there[name]}
    require(
        not changed,
        ", ".join(changed),
        "none with RunOptions.init_from, whose vocabularies are copied",
        [*changed.values()],
        "Remove the options.",
    )


def _await_corpus(folder: Path) -> None:
    """Returns when the chief's corpus facts are visible. Raises FileNotFoundError if they do not appear."""
    for _ in range(SECONDS_TO_APPEAR):
        if (folder / CORPUS).exists():
            return
        time.sleep(1.0)
    raise FileNotFoundError(
        f"{folder / CORPUS}: expected a file that the chief writes, found none within {SECONDS_TO_APPEAR} s. Put the "
        "run directory on a disk that all workers share."
    )


def validation(
    model: Seq2Seq,
    translator: ModelTranslator,
    pairs: Sequence[Pair],
    config: TrainConfig,
    origin: CorpusOptions | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Callable[[], dict[str, float]]:
    """Returns a function that evaluates ``model`` on ``pairs`` with its current weights.

    The function returns two values. ``valid_loss`` is the cross-entropy of all pairs in nats per token, without label
    smoothing or dropout. ``valid_bleu`` is the BLEU of ``config.validation_sentences`` evenly spaced pairs.

    Args:
        model: The model.
        translator: Translator with ``model``.
        pairs: The validation set.
        config: Configuration of training. Validation batches are at most as large as training batches.
        origin: Options of the corpus. BLEU uses their target language and tokenizer.
        report: Function that receives a warning if pairs are cut, because they are too long.
    """
    source, target, cut = encode_pairs(translator.codec, pairs)
    tell_lines(report, CUT, (np.flatnonzero(cut) + 1).tolist(), "the validation set", "pair")
    buckets = choose_buckets(source.lengths, target.lengths, count=8)
    rows = rows_by_bucket(buckets, config.batch_size, config.batch_tokens)
    rows = {bucket: min(count, MAX_ROWS) for bucket, count in rows.items()}
    batches = Batches(source, target, batch_size=rows, buckets=buckets, pool_size=len(pairs), seed=0)
    measure = tf.function(
        lambda source, target: batch_loss(model, source, target, smoothing=0.0),
        input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2,
        autograph=False,
    )
    sample = [pairs[i] for i in np.unique(np.linspace(0, len(pairs) - 1, config.validation_sentences, dtype=int))]
    language, tokenizer = (origin.language_tags[1], origin.bleu_tokenizer) if origin else (None, None)

    def validate() -> dict[str, float]:
        losses = [measure(batch.source, batch.target) for batch in batches.epoch(0)]
        total = sum(float(loss.cross_entropy) for loss in losses)
        hypotheses = [found.text for found in translator.translate([pair.source for pair in sample])]
        return {
            "valid_loss": total / sum(float(loss.tokens) for loss in losses),
            "valid_bleu": bleu(hypotheses, [pair.target for pair in sample], language, tokenizer).value,
        }

    return validate
