"""A run directory: everything that makes, continues and rebuilds one trained translator.

runs/NAME/
  recipe.json      what was asked for
  corpus.json      what it was trained on: name, pairs of each part, sha256 of each
  source/ target/  the two texts
  checkpoints/     last/ and best/
  shortlist.npz    which target tokens compete for which source tokens, where a search asks for a shortlist
  lexicon.tsv      source word, tab, target word: what replaces unknown words, if the recipe or somebody asked for it
  lock             held by the process that trains
  log.jsonl        a row per interval of training and per validation
  scores.json      BLEU and chrF of valid and test
  tensorboard/     where a run was asked for it: scalars, alignments, translations, profiles
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from nmt_keras.config import ExportConfig, Recipe, RunOptions, TrainConfig, require
from nmt_keras.corpus import Pair, SplitCorpus, part_sha256
from nmt_keras.corpus.batches import Batches, BatchSource, TokenLists, choose_buckets, rows_by_bucket
from nmt_keras.corpus.batching import batch_pairs, encode_lines
from nmt_keras.corpus.shards import PreparedCorpus, ShardedBatches
from nmt_keras.evaluation.metrics import bleu
from nmt_keras.evaluation.report import Report, evaluate, read_scores, write_score
from nmt_keras.export import PLAIN, export, prune, read_manifest, versions
from nmt_keras.files import PARTIAL, make_folder, settle_below, write_whole
from nmt_keras.layers.matmul import multiplies_bfloat16
from nmt_keras.models.ensemble import Ensemble
from nmt_keras.models.seq2seq import Seq2Seq, build_model
from nmt_keras.search.shortlist import Shortlist, learn_lexical_table, load_lexical_table, save_lexical_table
from nmt_keras.text import Tokenizer, fit_tokenizer, load_tokenizer
from nmt_keras.training import (
    average_weights,
    forward,
    is_chief,
    is_finished,
    load_weights,
    newest,
    save_weights,
    train,
)
from nmt_keras.training.checkpoint_index import mend_record
from nmt_keras.training.execution import Execution, choose_execution
from nmt_keras.training.lock import sole_trainer
from nmt_keras.training.tensorboard import Profiler, TensorBoardCallback
from nmt_keras.translation.model_translator import ModelTranslator
from nmt_keras.translation.translator import Translator
from nmt_keras.translation.unknown_words import UnknownWords, learn_lexicon, load_lexicon, save_lexicon

AS_ALWAYS = RunOptions()

SECONDS_FOR_CHIEF = 600  # that other workers wait until the vocabularies are there

SHOWN_SENTENCES = 4  # whose translations TensorBoard shows

MOST_VALIDATED = 128  # sentences of a batch whose loss is measured; a batch of training may be shared among devices

Languages = tuple[str | None, str | None]
"""Codes of source and target language; None where nobody said."""

SHORTLIST = "shortlist.npz"

SHORTLIST_PAIRS = 400_000
"""Training pairs that a shortlist is learnt from at the most: about ten seconds for short sentences on two cores."""

LEXICON = "lexicon.tsv"

LEXICON_PAIRS = 40_000
"""Training pairs that a lexicon is learnt from at the most: about two minutes on two cores."""


class Experiment:
    """One run directory, opened or made.

    Args:
        folder: the run directory.
        recipe: what to train; None takes the stored one.

    Raises:
        FileNotFoundError: no recipe is given and none is stored.
        ValueError: the stored recipe differs, and in what. How long to train may, until there is a checkpoint.
    """

    def __init__(self, folder: str | PathLike[str], recipe: Recipe | None = None):
        self.folder = Path(folder)
        self.recipe = _settled(self.folder, recipe)

    def train(
        self,
        corpus: SplitCorpus,
        report: Callable[[str], None],
        show: Callable[[int, int, Mapping[str, float]], None],
        options: RunOptions = AS_ALWAYS,
        strategy: tf.distribute.Strategy | None = None,
    ) -> None:
        """Trains, or goes on where the run stopped; returns at once if it is finished. See ``training.train``.

        Args:
            corpus: what to train and validate on.
            report, show: see ``training.train``.
            options: how the run is carried out. Determinism, once asked for, holds for the rest of the process.
            strategy: from ``training.find_strategy``; None trains on one device. Every worker makes this call, with the
                run directory on a disk that all of them see; the chief alone writes.

        Raises:
            ValueError: the corpus has alignments, but not one for each pair, or one that cannot be read, or the model
                or its precision cannot learn from them.
        """
        alignments = corpus.alignments
        if alignments is not None:
            _require_guidable(self.recipe)
            if len(alignments) != len(corpus.train):
                raise ValueError(
                    f"alignments: expected one for each of the {len(corpus.train)} training pairs, received "
                    f"{len(alignments)}."
                )
        facts = {
            "name": corpus.name,
            "key_side": corpus.key_side,  # the checksums are those of both directions of a file
            "pairs": {"train": len(corpus.train), "valid": len(corpus.valid), "test": len(corpus.test)},
            "sha256": {
                "train": part_sha256(corpus.train, key_side=corpus.key_side),
                "valid": part_sha256(corpus.valid, key_side=corpus.key_side),
                "test": part_sha256(corpus.test, key_side=corpus.key_side),
                **({} if alignments is None else {"alignments": _lines_sha256(alignments)}),
            },
        }

        def fit() -> tuple[Tokenizer, Tokenizer]:
            report("learning the vocabularies from the training part")
            return (
                fit_tokenizer(self.recipe.source, [pair.source for pair in corpus.train]),
                fit_tokenizer(self.recipe.target, [pair.target for pair in corpus.train]),
            )

        def make_batches(source_tokenizer: Tokenizer, target_tokenizer: Tokenizer) -> BatchSource:
            return batch_pairs(
                corpus.train, (source_tokenizer, target_tokenizer), self.recipe.train, report, alignments
            )

        def encoded() -> tuple[TokenLists, TokenLists]:
            pairs = _evenly(corpus.train, SHORTLIST_PAIRS)
            source_tokenizer, target_tokenizer = self._tokenizers()
            source, _ = encode_lines(source_tokenizer, [pair.source for pair in pairs])
            target, _ = encode_lines(target_tokenizer, [pair.target for pair in pairs])
            return source, target

        self._train(facts, fit, make_batches, corpus.valid, report, show, options, strategy)
        if is_chief(strategy):
            self._learn_shortlist(encoded, report)
            if self.recipe.search.replaces_unknown and not (self.folder / LEXICON).exists():
                report("learning the lexicon from the alignments of the training part")
                self.learn_lexicon(corpus.train)

    def train_prepared(
        self,
        corpus: PreparedCorpus,
        name: str,
        valid: Sequence[Pair],
        report: Callable[[str], None],
        show: Callable[[int, int, Mapping[str, float]], None],
        options: RunOptions = AS_ALWAYS,
        strategy: tf.distribute.Strategy | None = None,
    ) -> None:
        """Trains on a corpus larger than memory, or goes on where the run stopped. See ``training.train``.

        Args:
            corpus: prepared with the recipe's texts; its vocabularies become the run's.
            name: the corpus's.
            valid: what to validate on.
            report, show, options, strategy: as for ``train``.

        Raises:
            ValueError: the corpus was prepared for other texts or for longer sentences than the recipe trains on.
        """
        texts = load_tokenizer(corpus.folder / "source"), load_tokenizer(corpus.folder / "target")
        corpus.require_its_vocabularies()
        for side, text, wanted in zip(
            ("source", "target"), texts, (self.recipe.source, self.recipe.target), strict=True
        ):
            if text.config != wanted:
                raise ValueError(
                    f"{corpus.folder / side}: expected the recipe's {wanted}, received {text.config}. "
                    "Prepare the corpus with the recipe's texts, or train with the texts that it has."
                )
        longest, limit = int(corpus.lengths[:, :2].max(initial=0)), self.recipe.train.max_tokens
        if longest > limit:
            raise ValueError(
                f"TrainConfig.max_tokens: expected at least {longest}, the longest side in {corpus.folder}, received "
                f"{limit}. Prepare the corpus with FilterConfig.max_tokens={limit}, or raise it."
            )
        if self.recipe.train.segmentation_alpha is not None:
            raise ValueError(
                f"TrainConfig.segmentation_alpha: expected None with a prepared corpus, whose pieces are cut already, "
                f"received {self.recipe.train.segmentation_alpha}. Train on the text itself."
            )
        facts = {
            "name": name,
            "pairs": {"train": len(corpus), "valid": len(valid), "test": 0},
            "sha256": {"train": corpus.sha256, "valid": part_sha256(valid, key_side="target"), "test": ""},
        }

        def make_batches(*_: Tokenizer) -> BatchSource:
            config = self.recipe.train
            report(f"{len(corpus):,} pairs to train on; left out when they were prepared: {corpus.told_left_out()}")
            return ShardedBatches(
                corpus,
                buckets=config.length_buckets,
                batch_size=config.batch_size,
                batch_tokens=config.batch_tokens,
                pool_size=config.pool_size,
                seed=config.seed,
            )

        self._train(facts, lambda: texts, make_batches, valid, report, show, options, strategy)
        if is_chief(strategy):
            self._learn_shortlist(lambda: corpus.read_some(SHORTLIST_PAIRS), report)
            if self.recipe.search.replaces_unknown and not (self.folder / LEXICON).exists():
                report(
                    "unknown words are replaced by the source's own: a prepared corpus has no words to learn a lexicon "
                    "from (Experiment.learn_lexicon does, from pairs)"
                )

    def _train(
        self,
        facts: Mapping[str, Any],
        fit: Callable[[], tuple[Tokenizer, Tokenizer]],
        make_batches: Callable[[Tokenizer, Tokenizer], BatchSource],
        valid: Sequence[Pair],
        report: Callable[[str], None],
        show: Callable[[int, int, Mapping[str, float]], None],
        options: RunOptions,
        strategy: tf.distribute.Strategy | None,
    ) -> bool:
        """Trains what ``facts`` tell of, as the only process that does; answers whether there was anything to do.

        ``fit`` makes the texts of a run that is new, ``make_batches`` the batches of the training part.
        """
        with sole_trainer(self.folder) if is_chief(strategy) else nullcontext():
            self.recipe = _settled(self.folder, self.recipe)  # another process may have begun the run meanwhile
            self._prepare(facts, fit, is_chief(strategy))
            if is_finished(self.folder):
                best = self.folder / "checkpoints" / "best"  # what is translated with; nobody goes on from the last
                if is_chief(strategy) and (mended := mend_record(best, options.previous, needed=False)):
                    report(mended)
                return False
            if options.deterministic:
                tf.config.experimental.enable_op_determinism()
            config = self.recipe.train
            tf.keras.utils.set_random_seed(config.seed)
            texts = self._tokenizers()
            batches = make_batches(*texts)
            with strategy.scope() if strategy else nullcontext():
                model = build_for_training(self.recipe, *(text.vocabulary_size for text in texts))
            report(describe_execution(_execution(self.recipe), model, config))
            # there is no shortlist yet, and a validation's figures are of the whole vocabulary
            translator = ModelTranslator(*texts, model, dataclasses.replace(self.recipe.search, shortlist=0))
            board, profiler = self.folder / "tensorboard", Profiler(self.folder / "tensorboard", options.profile)
            shown = options.tensorboard and is_chief(strategy)

            def show_and_profile(step: int, total_steps: int, row: Mapping[str, float]) -> None:
                profiler.count()
                show(step, total_steps, row)

            with profiler:
                train(
                    model,
                    batches,
                    config,
                    self.folder,
                    validation(model, translator, valid, config),
                    report,
                    show_and_profile,
                    identity=self.identity(),
                    previous=options.previous,
                    observe=TensorBoardCallback(board, translator, valid[:SHOWN_SENTENCES]).observe
                    if shown
                    else _nothing,
                    strategy=strategy,
                )
        return True

    def learn_lexicon(self, pairs: Sequence[Pair]) -> int:
        """Learns from the best model's alignments of ``pairs`` what replaces unknown words, and keeps it with the run.

        Returns:
            Entries of the lexicon.
        """
        taken = _evenly(pairs, LEXICON_PAIRS)
        aligned = self.translator().align([pair.source for pair in taken], [pair.target for pair in taken])
        lexicon = learn_lexicon(aligned)
        save_lexicon(lexicon, self.folder / LEXICON)
        return len(lexicon)

    def _learn_shortlist(
        self, encoded: Callable[[], tuple[TokenLists, TokenLists]], report: Callable[[str], None]
    ) -> None:
        """Keeps with the run, unless it has them, which target tokens occur beside which source tokens."""
        if (self.folder / SHORTLIST).exists():
            return
        report("learning which target tokens compete for which source tokens, should a search ask for a shortlist")
        sizes = [text.vocabulary_size for text in self._tokenizers()]
        with sole_trainer(self.folder):
            save_lexical_table(learn_lexical_table(*encoded(), *sizes), self.folder / SHORTLIST)

    def average(self, count: int, folder: str | PathLike[str]) -> Experiment:
        """Makes ``folder`` a finished run whose model is the mean of this one's last ``count`` checkpoints.

        See ``training.average_weights``.

        Raises:
            FileExistsError: ``folder`` holds a run.
            ValueError: this run has kept fewer checkpoints.
        """
        made = Path(folder)
        if (made / "recipe.json").exists():
            raise FileExistsError(f"{made}: expected a new run directory, received one that holds a run. Name another.")
        source_tokenizer, target_tokenizer = self._tokenizers()
        model = build_model(self.recipe.model, source_tokenizer.vocabulary_size, target_tokenizer.vocabulary_size)
        make_folder(made)
        steps = average_weights(model, self.folder / "checkpoints", count)
        save_weights(model, made / "checkpoints", steps[-1])
        for side in ("source", "target"):
            shutil.copytree(self.folder / side, made / side, dirs_exist_ok=True)
        # origin.json: where the command line finds the corpus
        for name in ("corpus.json", "origin.json", LEXICON, SHORTLIST):
            if (self.folder / name).exists():
                shutil.copyfile(self.folder / name, made / name)
        settle_below(made)
        write_recipe(made, self.recipe)
        return Experiment(made)

    def translator(self) -> ModelTranslator:
        """The run's best model, ready to translate."""
        source_tokenizer, target_tokenizer = self._tokenizers()
        model = build_model(self.recipe.model, source_tokenizer.vocabulary_size, target_tokenizer.vocabulary_size)
        load_weights(model, self.folder / "checkpoints")
        lexicon = load_lexicon(self.folder / LEXICON) if (self.folder / LEXICON).exists() else {}
        shortlist = None
        if (self.folder / SHORTLIST).exists():
            shortlist = Shortlist(load_lexical_table(self.folder / SHORTLIST), target_tokenizer.vocabulary_size)
        return ModelTranslator(
            source_tokenizer, target_tokenizer, model, self.recipe.search, UnknownWords(lexicon), shortlist
        )

    def evaluate(self, translator: Translator, part: str, pairs: Sequence[Pair]) -> Report:
        """Evaluates a part and writes its scores into ``scores.json``."""
        found = evaluate(translator, pairs)
        write_score(self.folder / "scores.json", part, found, str(self.recipe.search), self.step())
        return found

    def scores(self) -> dict[str, Any]:
        """What ``scores.json`` holds of the model that ``translator`` loads; {} before its first evaluation."""
        found = read_scores(self.folder / "scores.json")
        return {part: score for part, score in found.items() if score["step"] == self.step()}

    def step(self) -> int:
        """The step at which the checkpoint that ``translator`` loads was written."""
        return int(self._checkpoint().name.rpartition("-")[2])

    def export(
        self,
        translator: ModelTranslator,
        model_folder: Path,
        config: ExportConfig = PLAIN,
        *,
        languages: Languages = (None, None),
        max_to_keep: int | None = None,
        labelled: Collection[int] = (),
    ) -> Path:
        """Exports the best model as the next version; the newest, if it is the same export, serves as it is.

        ``languages`` are the codes of source and target, for the model's card; ``config``,
        ``max_to_keep`` and ``labelled`` are those of ``nmt_keras.export.export``.
        """
        best = self._checkpoint()
        manifest = {
            **self.facts(translator, languages),
            "checkpoint": {"name": best.name, "bytes_and_time": _stamp(best.with_name(f"{best.name}.index"))},
            "scores": self.scores(),
            "export": dataclasses.asdict(config),
        }
        for version in versions(model_folder)[-1:]:
            latest = model_folder / str(version)
            known = read_manifest(latest)
            if all(known.get(name) == manifest[name] for name in ("checkpoint", "search", "export")):
                if max_to_keep is not None:
                    prune(model_folder, max_to_keep, labelled)
                return latest
        return export(translator, model_folder, manifest, config, max_to_keep=max_to_keep, labelled=labelled)

    def facts(self, translator: ModelTranslator, languages: Languages) -> dict[str, Any]:
        """What a manifest says of this run, and of any ensemble that it is the first of."""
        known = zip(("source", "target"), languages, strict=True)
        return {
            "search": str(translator.search),
            "recipe": dataclasses.asdict(self.recipe),
            "corpus": json.loads((self.folder / "corpus.json").read_text(encoding="utf-8")),
            "languages": {side: code for side, code in known if code is not None},
        }

    def _checkpoint(self) -> Path:
        """The checkpoint that ``translator`` loads: the best, or the last of a run that has no best yet."""
        for name in ("best", "last"):
            if (found := newest(self.folder / "checkpoints" / name)) is not None:
                return found
        raise FileNotFoundError(f"{self.folder}: expected a checkpoint to export, found none. Train the run first.")

    def identity(self) -> dict[str, Any]:
        """What the run is made of, by name: the recipe's fields, and the checksums of corpus and vocabularies."""
        corpus = json.loads((self.folder / "corpus.json").read_text(encoding="utf-8"))
        texts = {
            side: json.loads((self.folder / side / "text.json").read_text("utf-8")) for side in ("source", "target")
        }
        record = {"corpus": corpus["sha256"], "vocabulary": {side: text["sha256"] for side, text in texts.items()}}
        return _flat({**dataclasses.asdict(self.recipe), **record})

    def _tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return load_tokenizer(self.folder / "source"), load_tokenizer(self.folder / "target")

    def _prepare(self, facts: Mapping[str, Any], fit: Callable[[], tuple[Tokenizer, Tokenizer]], chief: bool) -> None:
        """Writes what the run is made of; the recipe last, so that a run that has one has all.

        Args:
            facts: of the corpus.
            fit: makes the two texts, if the run is new.
            chief: whether to write; a worker that is not the chief waits for it.
        """
        waited = 0
        while not chief and not (self.folder / "recipe.json").exists():
            if waited == SECONDS_FOR_CHIEF:
                raise FileNotFoundError(
                    f"{self.folder / 'recipe.json'}: expected the chief to write it within {waited} s. Is the run "
                    "directory on a disk that all workers see?"
                )
            time.sleep(1.0)
            waited += 1
        recorded = self.folder / "corpus.json"
        if (self.folder / "recipe.json").exists():
            before = json.loads(recorded.read_text(encoding="utf-8"))
            _refuse_other_corpus(recorded, before, facts)
            if chief:
                write_recipe(self.folder, self.recipe)
            return
        for text, side in zip(fit(), ("source", "target"), strict=True):
            text.save(self.folder / side)
        write_whole(recorded, json.dumps(facts, indent=2) + "\n")
        write_recipe(self.folder, self.recipe)


def build_for_training(recipe: Recipe, source_size: int, target_size: int) -> Seq2Seq:
    """The model of a recipe as it is trained here: in the recipe's precision, as this machine's devices execute it."""
    before, execution = keras.config.dtype_policy(), _execution(recipe)
    keras.config.set_dtype_policy(execution.policy)
    try:
        return build_model(recipe.model, source_size, target_size, fused=execution.fused)
    finally:
        keras.config.set_dtype_policy(before)


def _execution(recipe: Recipe) -> Execution:
    """How a training step of ``recipe`` is executed on this machine."""
    return choose_execution(recipe.train.xla, len(tf.config.list_logical_devices("GPU")), recipe.train.precision)


def describe_execution(execution: Execution, model: Seq2Seq, config: TrainConfig) -> str:
    """Which path a training step takes, in a sentence."""
    if not execution.xla:
        samples = config.sampling_from > 0.0 or config.sampling_to > 0.0  # step by step, whatever the decoder
        decoder = model.decoder.trains_fused and not samples
        fused = ["encoder"] * model.encoder.trains_fused + ["decoder"] * decoder
        how = f"; cuDNN reads whole sentences in the {' and the '.join(fused)}" if fused else ""
        return f"forward and backward pass: a plain TensorFlow graph{how}"
    rounded = "; factors of products are rounded to bfloat16" if execution.rounds else ""
    if execution.rounds and multiplies_bfloat16() is False:
        rounded += ", which this processor has no instructions for: float32 would be as fast"
    return f"forward and backward pass: compiled by XLA{rounded}"


def write_recipe(folder: Path, recipe: Recipe) -> None:
    """Writes a run's recipe; see ``write_whole``."""
    write_whole(folder / "recipe.json", recipe.to_json())


def _settled(folder: Path, recipe: Recipe | None) -> Recipe:
    """The recipe of a run: what is asked for, if that is what is stored; what is stored, if nothing is asked for.

    Raises:
        FileNotFoundError: neither is there.
        ValueError: they differ, and in what. How long to train may, until there is a checkpoint.
    """
    path = folder / "recipe.json"
    if path.exists():
        stored = Recipe.from_json(path.read_text(encoding="utf-8"), str(path))
        if recipe is not None and not any((folder / "checkpoints").glob("*/checkpoint")):
            stored = _trained_as_long_as(stored, recipe)
        _refuse_changes(path, stored, recipe or stored)
        return stored
    if recipe is None:
        raise FileNotFoundError(f"{path}: expected a run's recipe, found none. Train a run there first.")
    return recipe


def _refuse_other_corpus(path: Path, before: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Raises ValueError if a run is asked to go on with another corpus than it was begun with, and says in what."""
    there, here = _flat(before), _flat(facts)
    # a run begun by an older version does not say all of it; that one has alignments and another none is a difference
    names = sorted((there.keys() | here.keys()) - ({"key_side"} - there.keys()))
    differing = [name for name in names if there.get(name) != here.get(name)]
    if differing == ["key_side"]:
        raise ValueError(
            f"{path}: the run was trained on this corpus with its columns the other way round. Say which they are "
            f"(--source-column, --target-column), or name the run alone, --run {path.parent}. Train in a new run "
            "directory to translate the other way."
        )
    if differing:
        told = ", ".join(f"{name} {there.get(name)} -> {here.get(name)}" for name in differing)
        raise ValueError(f"{path}: the run was trained on another corpus: {told}. Train in a new run directory.")


def _trained_as_long_as(stored: Recipe, asked: Recipe) -> Recipe:
    """``stored`` with what ``asked`` says of how long to train."""
    longer = {name: getattr(asked.train, name) for name in ("steps", "epochs", "minutes")}
    return dataclasses.replace(stored, train=dataclasses.replace(stored.train, **longer))


def _require_guidable(recipe: Recipe) -> None:
    """Raises ValueError unless a recipe's attention can learn from given alignments."""
    kind, precision = recipe.model.attention.kind, recipe.train.precision
    require(
        recipe.model.decoder.order == "self-attention" or kind not in ("fixed", "none"),
        "AttentionConfig.kind",
        "an attention that can learn where to look, as alignments are given",
        kind,
    )
    require(
        precision != "float16",
        "TrainConfig.precision",
        "float32 or bfloat16 where alignments are given: the gradient of log alpha is too large for float16",
        precision,
    )


def _lines_sha256(lines: Sequence[str]) -> str:
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def _nothing(_: Mapping[str, float]) -> None:
    """Observes nothing."""


def validation(
    model: Seq2Seq, translator: ModelTranslator, pairs: Sequence[Pair], config: TrainConfig
) -> Callable[[], dict[str, float]]:
    """A function that measures the model, which ``translator`` translates with, as it is on ``pairs``.

    It answers ``valid_loss``, the cross-entropy of all pairs in nats per token without smoothing or dropout, and
    ``valid_bleu``, of an evenly spaced sample of ``config.validation_sentences`` of them. Batches have no more rows
    than those of training, for which there is memory.
    """
    source, _ = encode_lines(translator.source_tokenizer, [pair.source for pair in pairs])
    target, _ = encode_lines(translator.target_tokenizer, [pair.target for pair in pairs])
    buckets = choose_buckets(source.lengths, target.lengths, count=8)
    trained = rows_by_bucket(buckets, config.batch_size, config.batch_tokens)
    rows = {shape: min(count, MOST_VALIDATED) for shape, count in trained.items()}
    batches = Batches(source, target, batch_size=rows, buckets=buckets, pool_size=len(pairs), seed=0)
    ids = tf.TensorSpec([None, None], tf.int32)
    measure = tf.function(
        lambda source, target: forward(model, source, target, smoothing=0.0),
        input_signature=[ids, ids],
        autograph=False,
    )
    sample = np.linspace(0, len(pairs) - 1, config.validation_sentences)
    shown = [pairs[i] for i in np.unique(sample.astype(int))]

    def validate() -> dict[str, float]:
        losses = [measure(batch.source, batch.target) for batch in batches.epoch(0)]
        total = sum(float(loss.cross_entropy) for loss in losses)
        hypotheses = [t.text for t in translator.translate([pair.source for pair in shown])]
        return {
            "valid_loss": total / sum(float(loss.tokens) for loss in losses),
            "valid_bleu": bleu(hypotheses, [pair.target for pair in shown]).value,
        }

    return validate


def load_runs(paths: Sequence[str | PathLike[str]]) -> ModelTranslator:
    """A run's translator; of several, one that searches as the first one does: see ``ensemble.Ensemble``.

    Raises:
        FileNotFoundError: there is no such run.
        ValueError: none is given, or their vocabularies differ.
    """
    folders = [Path(path) for path in paths]
    if not folders:
        raise ValueError("paths: expected at least one run, received none.")
    experiments = [Experiment(folder) for folder in folders]
    if len(experiments) == 1:
        return experiments[0].translator()
    for side in ("source", "target"):
        held = [_text_files(folder / side) for folder in folders]
        for folder, files in zip(folders, held, strict=True):
            if files != held[0]:
                raise ValueError(
                    f"paths: expected runs with one {side} vocabulary, received {folder / side}, which differs from "
                    f"{folders[0] / side}. Train them on the same corpus with the same text configuration."
                )
    translators = [experiment.translator() for experiment in experiments]
    first = translators[0]
    model = Ensemble([translator.model for translator in translators])
    texts = first.source_tokenizer, first.target_tokenizer
    return ModelTranslator(*texts, model, first.search, first.unknown_words, first.shortlist)


def _evenly(pairs: Sequence[Pair], count: int) -> Sequence[Pair]:
    """``count`` of the pairs at the most, evenly from all of them."""
    return pairs[:: max(1, -(-len(pairs) // count))]


def _text_files(folder: Path) -> dict[str, bytes]:
    """The files of the text in ``folder`` and their contents."""
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.suffix != PARTIAL}


def _refuse_changes(where: Path, stored: Recipe, asked: Recipe) -> None:
    """Raises ValueError naming every field in which ``asked`` differs from the stored recipe."""
    before, now = (_flat(dataclasses.asdict(recipe)) for recipe in (stored, asked))
    changed = [f"{field} {before[field]!r} -> {now[field]!r}" for field in before if before[field] != now[field]]
    if changed:
        raise ValueError(
            f"{where}: the run has another recipe: {', '.join(changed)}. "
            f"Ask for the recipe it has, train in a new run directory, or remove {where.parent}."
        )


def _flat(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in record.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]
