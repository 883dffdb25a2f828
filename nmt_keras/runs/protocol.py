"""Trains several systems by the same protocol and scores them, so that their metrics can be compared.

1. Pilots choose each system's learning rate. A pilot is the beginning of a run with the first seed: it has the same
   learning-rate schedule, and stops early. There is one pilot per candidate rate, and the rate with the lowest
   validation loss is chosen. This pilot is later continued as the run with the first seed.
2. Each system is trained with several seeds, always for the same number of updates, without early stopping.
3. The best checkpoint (``TrainConfig.select_by``) is scored on the test set.

Pilots and runs are limited by updates, not by time, so a busy machine does not change the metrics. A stopped study can
be resumed: existing results are kept, and a stopped run continues from its last checkpoint.

    FOLDER/
      NAME-pilot.json   learning rates and validation losses of the pilots
      NAME-SEED.json    metrics of a finished run
      NAME-SEED.txt     translations of the test set by this run
      table.json        metrics of the systems, with the protocol
      table.md          these metrics as a Markdown table
      runs/             run directories; pilots that diverge or are not continued are removed
"""

import hashlib
import json
import math
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tensorflow as tf
from joblib import Parallel, delayed

from nmt_keras.config import Recipe, require
from nmt_keras.cores import available_cores
from nmt_keras.corpus import CorpusOptions, Pair, SplitCorpus, evaluation_pairs
from nmt_keras.evaluation.gold import GoldPair
from nmt_keras.evaluation.metrics import all_baselines
from nmt_keras.evaluation.report import gold_error
from nmt_keras.evaluation.seeds import RunResult, SystemFigures, rounded, run_figures, summarise, to_markdown
from nmt_keras.io.files import make_folder, read_json, sole_writer, write_whole
from nmt_keras.io.modules import IMPORTED, import_modules
from nmt_keras.io.startup import import_quietly
from nmt_keras.runs.directory import LOG, changes
from nmt_keras.runs.run import Run
from nmt_keras.runs.training_data import training_data
from nmt_keras.training import read_log
from nmt_keras.version import VERSION

THREADS = "TF_NUM_INTRAOP_THREADS"  # environment variable of TensorFlow
RATES = (0.5, 1.0, 2.0)
PILOT_SHARE = 1 / 6
"""Minimum number of updates of a pilot, as a share of the updates of a run. Pilots end with the next validation: with
two validations per run, after half of a run."""


@dataclass(frozen=True)
class Study:
    """Systems, their corpus, and the protocol of their training.

    Raises:
        ValueError: there is no system, two names are equal, a name is not allowed, the test set is empty, or a baseline
            is not another system of the study.
    """

    folder: Path
    """Folder of the results."""
    systems: Sequence[Recipe]
    """Systems in the order of the table, with the same filters. The name of a recipe is the name of the system."""
    corpus: SplitCorpus
    """The corpus. At most 5,000 pairs of its test set are translated."""
    updates: int
    """Number of updates of each run."""
    rates: Sequence[float] = RATES
    """Candidate learning rates, as factors of the recipe's rate. A single factor needs no pilot."""
    seeds: Sequence[int] = (1, 2, 3)
    """Seeds. The pilots use the first one."""
    language: str | None = None
    """Code of the target language; see ``evaluation.metrics.bleu``."""
    tokenizer: str | None = None
    """Tokenizer of BLEU; see ``evaluation.metrics.bleu``."""
    gold: Sequence[GoldPair] = ()
    """Pairs with gold alignments, for the alignment error rate of systems with attention."""
    origin: CorpusOptions | None = None
    """Corpus options. They are stored in each run directory, so that other commands find the corpus."""
    baselines: Mapping[str, str | None] = field(default_factory=dict)
    """Systems that are not compared with the row above, and the system that each of them is compared with, by name.
    ``None`` for no comparison."""

    def __post_init__(self) -> None:
        names = [system.name for system in self.systems]
        require(0 < len(names) == len(set(names)), "systems", "at least one system, with different names", names)
        is_valid = all(re.fullmatch(r"[\w.+-]+", name) for name in names)
        require(is_valid, "systems", "names of letters, digits, and the characters _ . + -", names)
        require(bool(self.corpus.test), "corpus", "a corpus with test pairs", self.corpus.name)
        all_baselines(names, self.baselines)

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        """The pairs on which runs are scored."""
        return evaluation_pairs(self.corpus.test, key_side=self.corpus.key_side)

    @cached_property
    def gold_sum(self) -> str | None:
        """Checksum of the pairs with gold alignments; None without such pairs."""
        return hashlib.sha256(repr(self.gold).encode()).hexdigest() if self.gold else None

    @cached_property
    def corpus_facts(self) -> Mapping[str, Any]:
        """Name, sizes and checksums of the corpus."""
        return training_data(self.corpus, self.systems[0], lambda _: None).facts

    @property
    def needs_pilots(self) -> bool:
        """``True`` if there are several rates to choose from."""
        return len(self.rates) > 1

    def pilot_recipe(self, system: Recipe, factor: float = 1.0) -> Recipe:
        """Returns the recipe of a pilot: that of a run with the first seed and the learning rate of the pilot."""
        return _timed(system, self.updates, self.seeds[0], factor * system.train.learning_rate)

    def pilot_end(self, system: Recipe) -> int:
        """Returns the step after which a system's pilots stop: that of a validation."""
        count = system.train.validations
        return math.ceil(math.ceil(PILOT_SHARE * count) * self.updates / count)

    def run_recipe(self, system: Recipe, seed: int) -> Recipe:
        """Returns the recipe of a run.

        Raises:
            FileNotFoundError: the system's pilots have no result.
            ValueError: no pilot has a finite loss.
        """
        rate = (
            chosen_rate(system.name, read_json(self.pilot_path(system))["pilots"])
            if self.needs_pilots
            else self.rates[0] * system.train.learning_rate
        )
        return _timed(system, self.updates, seed, rate)

    def pilot_path(self, system: Recipe) -> Path:
        """Returns the path of the result of a system's pilots."""
        return self.folder / f"{system.name}-pilot.json"

    def path(self, system: Recipe, seed: int) -> Path:
        """Returns the path of a run's metrics. The file of its translations has the suffix ``.txt``."""
        return self.folder / f"{system.name}-{seed}.json"

    def run_folder(self, system: Recipe, seed: int) -> Path:
        """Returns the run directory of a system and a seed."""
        return self.folder / "runs" / f"{system.name}-{seed}"

    def pilot_folder(self, pilot: Recipe) -> Path:
        """Returns the run directory of a pilot, from the pilot's recipe."""
        return self.folder / "runs" / f"{pilot.name}-pilot-{pilot.train.learning_rate:g}"


def chosen_rate(system: str, pilots: Sequence[Mapping[str, Any]]) -> float:
    """Returns the learning rate of the pilot with the lowest validation loss; the first pilot if losses are equal.

    Args:
        system: Name of the system, for the message.
        pilots: ``learning_rate`` and ``valid_loss`` of each pilot; the loss is ``None`` if it was not finite.

    Raises:
        ValueError: no pilot has a finite loss.
    """
    finite = [row for row in pilots if row["valid_loss"] is not None]
    require(bool(finite), "rates", f"a pilot of {system} with a finite loss", pilots, "Pass lower factors.")
    return float(min(finite, key=lambda row: row["valid_loss"])["learning_rate"])


def run_study(study: Study, jobs: int, report: Callable[[str], None]) -> list[SystemFigures]:
    """Trains and scores all runs that have no result yet. Returns the rows of the table, which it also writes.

    All systems are trained with the first seed, then all with the second, and so on. Each run updates the table.

    Args:
        study: Systems and protocol.
        jobs: Number of runs trained at the same time. If there are several, each process has its share of the cores.
        report: Receives messages for the user.

    Raises:
        ValueError: a result in the folder belongs to another recipe or corpus, or another process writes the folder.
        ChildProcessError: runs failed. The results of all other runs are written.
        KeyboardInterrupt, SystemExit: a signal arrived. Processes are ended; their runs have their last checkpoints.
    """
    make_folder(study.folder / "runs")
    _require_same_study(study)
    _ = study.pairs, study.corpus_facts  # cached now, because each process gets a copy of the study
    failed = []
    processes = Parallel(
        jobs,
        return_as="generator_unordered",
        initializer=import_quietly,
        initargs=("tensorflow", "tensorflow_text"),
    )
    if jobs > 1:
        os.environ.setdefault(THREADS, str(max(1, available_cores() // jobs)))
    with sole_writer(study.folder):
        for seeds in (study.seeds[:1], study.seeds[1:]):  # the pilots of the first seed choose the rates of all
            works = [delayed(_work)(study, system, seed, IMPORTED) for seed in seeds for system in study.systems]
            for name, error in processes(works):
                if error is None:
                    rows = write_table(study)
                else:
                    failed.append(name)
                    report(f"{name}: {error}")
    if failed:
        raise ChildProcessError(f"{', '.join(sorted(failed))}: failed. Run the same command again to train them.")
    return rows


def _work(study: Study, system: Recipe, seed: int, modules: Sequence[str]) -> tuple[str, str | None]:
    """Trains and scores a run, and before it the pilots, unless they have results.

    Args:
        study: Systems and protocol.
        system: The system of the run.
        seed: The seed of the run.
        modules: Modules that register layers of the system.

    Returns:
        The name of the run, and the message of an expected error; ``None`` if there was none.
    """
    name = study.path(system, seed).stem
    try:
        import_modules(modules)
        if seed == study.seeds[0] and study.needs_pilots and not study.pilot_path(system).exists():
            _train_pilots(study, system)
        if not study.path(system, seed).exists():
            _train_and_score(study, system, seed)
            tf.keras.backend.clear_session()
        elif study.gold and system.model.attention.has_scores:
            _align_again(study, system, seed)
    except (OSError, ValueError, FloatingPointError, MemoryError, tf.errors.OpError) as error:
        return name, str(error)
    return name, None


def _train_pilots(study: Study, system: Recipe) -> None:
    """Trains a system's pilots one after another and writes their result, unless all losses are not finite."""
    rows: list[dict[str, Any]] = []
    for factor in study.rates:
        recipe = study.pilot_recipe(system, factor)
        run = Run(study.pilot_folder(recipe), recipe)
        loss = pilot_loss(run, study, study.pilot_end(system))
        rows.append({"learning_rate": recipe.train.learning_rate, "valid_loss": loss, "seconds": _seconds(run)})
        if loss is None:
            shutil.rmtree(run.folder)
        tf.keras.backend.clear_session()
    chosen, rates = chosen_rate(system.name, rows), [row["learning_rate"] for row in rows]
    found = {
        "name": system.name,
        "recipe": asdict(study.pilot_recipe(system)),
        "corpus": study.corpus_facts,
        "pilot_updates": study.pilot_end(system),
        "pilots": rows,
    }
    _write_json(study.pilot_path(system), found)
    if chosen in (min(rates), max(rates)):
        which = "lowest" if chosen == min(rates) else "highest"
        print(f"{system.name}: the pilots chose the {which} learning rate, {chosen:g}", file=sys.stderr, flush=True)


def pilot_loss(run: Run, study: Study, end: int) -> float | None:
    """Trains a pilot up to the step ``end``. Returns its validation loss, or ``None`` if it is not finite."""
    if all(row["step"] != end for row in _validations(run)):
        try:
            _train(run, study, stop_after=end)
        except FloatingPointError as error:  # the learning rate is too high
            _say(run, str(error))
            return None
    (loss,) = (row["valid_loss"] for row in _validations(run) if row["step"] == end)
    return loss


def _continue_pilot(study: Study, system: Recipe) -> None:
    """Makes the pilot of the chosen learning rate the run with the first seed. Removes the other pilots."""
    chosen = study.run_recipe(system, study.seeds[0])
    for factor in study.rates:
        recipe = study.pilot_recipe(system, factor)
        pilot = study.pilot_folder(recipe)
        if recipe == chosen and pilot.exists():
            pilot.rename(study.run_folder(system, study.seeds[0]))
        else:
            shutil.rmtree(pilot, ignore_errors=True)


def _train_and_score(study: Study, system: Recipe, seed: int) -> None:
    """Trains a run or resumes it, scores it, and writes its translations and then its metrics."""
    if study.needs_pilots and seed == study.seeds[0]:
        _continue_pilot(study, system)
    recipe, path = study.run_recipe(system, seed), study.path(system, seed)
    pilots = read_json(study.pilot_path(system))["pilots"] if study.needs_pilots else []
    run = Run(study.run_folder(system, seed), recipe)
    _train(run, study)
    seconds, cores = _seconds(run), int(os.environ.get(THREADS) or available_cores())
    if seed == study.seeds[0]:  # the pilot of the chosen rate is a part of the run
        seconds += sum(row["seconds"] for row in pilots if row["learning_rate"] != recipe.train.learning_rate)
    _say(run, f"translating {len(study.pairs):,} sentences")
    gold = study.gold if recipe.model.attention.has_scores else ()
    translator = run.translator()
    result = run_figures(translator, study.pairs, study.language, gold, study.tokenizer)
    found = {
        "name": system.name,
        "seed": seed,
        **result.figures,
        "train_pairs": len(study.corpus.train),
        "steps": recipe.train.steps,
        "best_step": translator.checkpoints[0].step,
        "validations": _validations(run),
        "core_hours": round(seconds * cores / 3600, 4),
        "pilots": pilots,
        "recipe": asdict(recipe),
        "corpus": study.corpus_facts,
        "gold": study.gold_sum,
        "circumstances": {
            "date": date.today().isoformat(),
            "cores": cores,
            "python": platform.python_version(),
            "nmt_keras": VERSION,
            **{
                name: version(name) for name in ("tensorflow", "tensorflow-text", "keras", "sentencepiece", "sacrebleu")
            },
        },
    }
    # Byte tokens can spell a carriage return, which would end the line when the file is read.
    lines = [re.sub(r"[\r\n]", " ", text) + "\n" for text in result.translations]
    write_whole(path.with_suffix(".txt"), "".join(lines))
    _write_json(path, found)


def _align_again(study: Study, system: Recipe, seed: int) -> None:
    """Measures the alignment error of a finished run, unless its result has that of these pairs."""
    path, folder = study.path(system, seed), study.run_folder(system, seed)
    found = read_json(path)
    if found.get("gold") != study.gold_sum:
        hint = f"Only the run can align these pairs. Delete {path} to train it again, or pass the pairs of its result."
        require(folder.exists(), "gold", f"the run {folder}", "no such folder", hint)
        alignment = rounded(gold_error(Run(folder).translator(), study.gold))
        _write_json(path, {**found, "alignment": alignment, "gold": study.gold_sum})


def _train(run: Run, study: Study, stop_after: int | None = None) -> None:
    """Trains a run or resumes it, up to the step ``stop_after`` or to the end."""
    run.train(
        study.corpus,
        lambda sentence: _say(run, sentence),
        lambda *_: None,
        stop_after=stop_after,
        origin=study.origin,
    )


def _validations(run: Run) -> list[dict[str, float]]:
    """Returns step, loss in nats per token and BLEU of each validation of a run."""
    rows = [row for row in read_log(run.folder / LOG) if "valid_loss" in row]
    return [{name: row[name] for name in ("step", "valid_loss", "valid_bleu")} for row in rows]


def _seconds(run: Run) -> float:
    """Returns the seconds of a run's training up to its last validation."""
    return max((row["seconds"] for row in read_log(run.folder / LOG) if "seconds" in row), default=0.0)


def _say(run: Run, sentence: str) -> None:
    print(f"{run.folder.name}: {sentence}", file=sys.stderr, flush=True)


def _require_same_study(study: Study) -> None:
    """Raises ValueError if a result in the folder belongs to another recipe or corpus."""
    for system in study.systems:
        if study.needs_pilots:
            _require_same_pilots(study, system)
        for seed in study.seeds:
            path = study.path(system, seed)
            if path.exists():
                _require_identity(study, path, study.run_recipe(system, seed))


def _require_same_pilots(study: Study, system: Recipe) -> None:
    """Raises ValueError if the folder holds other pilots of a system, or its run with the first seed but no pilot."""
    pilot, hint = study.pilot_path(system), "Use another folder."
    if not pilot.exists():
        for path in (study.path(system, study.seeds[0]), study.run_folder(system, study.seeds[0])):
            require(
                not path.exists(), "rates", f"a single one, as {path} was trained without pilots", study.rates, hint
            )
        return
    _require_identity(study, pilot, study.pilot_recipe(system))
    there = [row["learning_rate"] for row in read_json(pilot)["pilots"]]
    here = [study.pilot_recipe(system, factor).train.learning_rate for factor in study.rates]
    require(here == there, "rates", f"factors for the learning rates {there}, as in {pilot}", study.rates, hint)


def _require_identity(study: Study, path: Path, recipe: Recipe) -> None:
    stored = read_json(path)
    try:
        earlier = Recipe.from_json(json.dumps(stored["recipe"]), str(path))  # fields added since have their defaults
    except ValueError as error:
        raise ValueError(f"{error} If another version of nmt_keras wrote it, use that, or another folder.") from error
    here = {"recipe": asdict(recipe), "corpus": study.corpus_facts}
    changed = ", ".join(changes({"recipe": asdict(earlier), "corpus": stored["corpus"]}, here).values())
    require(not changed, str(path), "a result of the same recipe and corpus", changed, "Use another folder.")


def write_table(study: Study) -> list[SystemFigures]:
    """Writes the table of the runs that have results, and returns its rows."""
    results: dict[str, list[RunResult]] = {}
    for system in study.systems:
        for path in (study.path(system, seed) for seed in study.seeds):
            if path.exists():
                lines = path.with_suffix(".txt").read_text("utf-8").split("\n")[:-1]
                results.setdefault(system.name, []).append(RunResult(read_json(path), lines))
    # a system is not compared while its baseline has no result
    baselines = {name: base if base in results else None for name, base in study.baselines.items() if name in results}
    references = [pair.target for pair in study.pairs]
    rows, signature, chrf_signature = summarise(results, references, study.language, baselines, study.tokenizer)
    finished = sum(map(len, results.values()))
    hours = [run.figures["core_hours"] for runs in results.values() for run in runs if "core_hours" in run.figures]
    total = round(sum(hours), 2) if len(hours) == finished else None
    protocol = {
        "corpus": study.corpus.name,
        "updates": study.updates,
        "pilot_updates": {each.name: study.pilot_end(each) for each in study.systems} if study.needs_pilots else None,
        "rates": list(study.rates),
        "seeds": list(study.seeds),
        "runs": len(study.systems) * len(study.seeds),
        "finished": finished,
        "core_hours": total,
        "test_pairs": len(references),
        "signature": signature,
        "chrf_signature": chrf_signature,
    }
    _write_json(study.folder / "table.json", {**protocol, "systems": [asdict(row) for row in rows]})
    note = (
        f"{finished} of {protocol['runs']} runs are finished, with {study.updates:,} updates each. "
        f"{'' if total is None else f'Training took {total:.1f} core hours, pilots included. '}"
        f"Corpus: {study.corpus.name}, {len(references):,} test sentences. "
        f"BLEU: `{signature}`, chrF: `{chrf_signature}`."
    )
    write_whole(study.folder / "table.md", f"{to_markdown(rows)}\n{note}\n")
    return rows


def _write_json(path: Path, found: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def _timed(recipe: Recipe, updates: int, seed: int, rate: float) -> Recipe:
    """Returns a recipe that makes ``updates`` updates and never stops early."""
    return replace(
        recipe,
        train=replace(
            recipe.train,
            steps=updates,
            epochs=None,
            minutes=None,
            seed=seed,
            learning_rate=rate,
            patience=recipe.train.validations,
        ),
    )
