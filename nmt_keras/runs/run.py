"""``Run``, one run directory; ``load_runs``, a translator of one or several runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import tensorflow as tf

from nmt_keras.config import ExportConfig, Recipe, RunOptions
from nmt_keras.corpus import Pair, SplitCorpus
from nmt_keras.corpus.shards import PreparedCorpus
from nmt_keras.evaluation.report import Report, evaluate, read_scores, write_score
from nmt_keras.export import PLAIN
from nmt_keras.files import PARTIAL
from nmt_keras.models.ensemble import Ensemble
from nmt_keras.models.seq2seq import build_model
from nmt_keras.runs import training_data
from nmt_keras.runs.averaging import average_run
from nmt_keras.runs.directory import CHECKPOINTS, LEXICON, SCORES, SHORTLIST, settle_recipe
from nmt_keras.runs.exporting import Languages, export_run, manifest_facts
from nmt_keras.runs.lexical import learn_run_lexicon, learn_run_shortlist
from nmt_keras.runs.training import Show, load_tokenizers, train_run
from nmt_keras.search.shortlist import Shortlist, load_lexical_table
from nmt_keras.training import best_checkpoint, is_chief, load_weights
from nmt_keras.translation.model_translator import ModelTranslator
from nmt_keras.translation.unknown_words import UnknownWords, load_lexicon

DEFAULTS = RunOptions()


class Run:
    """One run directory, new or existing.

    Args:
        folder: The run directory.
        recipe: What to train; ``None`` takes the stored recipe.

    Raises:
        FileNotFoundError: no recipe is given and none is stored.
        ValueError: the stored recipe differs. Only the training time may differ, until the first checkpoint.
    """

    def __init__(self, folder: str | PathLike[str], recipe: Recipe | None = None):
        self.folder = Path(folder)
        self.recipe = settle_recipe(self.folder, recipe)

    def train(
        self,
        corpus: SplitCorpus,
        report: Callable[[str], None],
        show: Show,
        options: RunOptions = DEFAULTS,
        strategy: tf.distribute.Strategy | None = None,
    ) -> None:
        """Trains the run, or resumes it; returns at once if it is finished. See ``training.train``.

        Args:
            corpus: Training and validation pairs.
            report, show: See ``training.train``.
            options: See ``RunOptions``. ``deterministic`` holds for the rest of the process.
            strategy: From ``training.find_strategy``; ``None`` trains on one device. Every worker makes this call with
                the run directory on a shared disk; only the chief writes.

        Raises:
            ValueError: the corpus has alignments, but not one for each training pair, or the recipe cannot learn from
                them.
        """
        data = training_data.in_memory(corpus, self.recipe, report)
        self.recipe = train_run(self.folder, self.recipe, data, report, show, options, strategy)
        if is_chief(strategy):
            self._learn_shortlist_of_recipe(corpus.train, report)
            if self.recipe.search.replaces_unknown and not (self.folder / LEXICON).exists():
                report("learning the lexicon from the alignments of the training part")
                self.learn_lexicon(corpus.train)

    def train_prepared(
        self,
        corpus: PreparedCorpus,
        name: str,
        valid: Sequence[Pair],
        report: Callable[[str], None],
        show: Show,
        options: RunOptions = DEFAULTS,
        strategy: tf.distribute.Strategy | None = None,
    ) -> None:
        """Trains the run, or resumes it, on a corpus larger than memory.

        Args:
            corpus: Prepared with the recipe's tokenizers, which become the run's.
            name: Name of the corpus.
            valid: Validation pairs.
            report, show, options, strategy: See ``train``.

        Raises:
            ValueError: the corpus was prepared with other tokenizers or longer sentences than those of the recipe.
        """
        data = training_data.prepared(corpus, name, valid, self.recipe, report)
        self.recipe = train_run(self.folder, self.recipe, data, report, show, options, strategy)
        if is_chief(strategy):
            self._learn_shortlist_of_recipe(corpus, report)
            if self.recipe.search.replaces_unknown and not (self.folder / LEXICON).exists():
                report(
                    "unknown words are replaced by the source word: a prepared corpus holds no text to learn a lexicon "
                    "from. Pass sentence pairs to Run.learn_lexicon to learn one."
                )

    def _learn_shortlist_of_recipe(
        self, corpus: Sequence[Pair] | PreparedCorpus, report: Callable[[str], None]
    ) -> None:
        if self.recipe.search.shortlist and not (self.folder / SHORTLIST).exists():
            report("learning the lexical table of the recipe's shortlist")
            self.learn_shortlist(corpus)

    def learn_lexicon(self, pairs: Sequence[Pair]) -> int:
        """Learns the replacements of unknown words from the alignments of ``pairs``; returns their number."""
        return learn_run_lexicon(self.folder, self.translator(), pairs)

    def learn_shortlist(self, corpus: Sequence[Pair] | PreparedCorpus) -> None:
        """Learns the lexical table of ``SearchConfig.shortlist`` from training pairs, or from a prepared corpus."""
        learn_run_shortlist(self.folder, corpus)

    def average(self, count: int, folder: str | PathLike[str]) -> Run:
        """Makes ``folder`` a finished run whose weights are the mean of this run's last ``count`` checkpoints.

        Raises:
            FileExistsError: ``folder`` holds a run.
            ValueError: this run has kept fewer checkpoints.
        """
        average_run(self.folder, self.recipe, count, Path(folder))
        return Run(folder)

    def translator(self) -> ModelTranslator:
        """Returns a translator with the run's best weights."""
        source, target = load_tokenizers(self.folder)
        model = build_model(self.recipe.model, source.vocabulary_size, target.vocabulary_size)
        load_weights(model, self.folder / CHECKPOINTS)
        lexicon = load_lexicon(self.folder / LEXICON) if (self.folder / LEXICON).exists() else {}
        shortlist = None
        if (self.folder / SHORTLIST).exists():
            shortlist = Shortlist(load_lexical_table(self.folder / SHORTLIST), target.vocabulary_size)
        return ModelTranslator(
            source,
            target,
            model,
            search=self.recipe.search,
            unknown_words=UnknownWords(lexicon),
            shortlist=shortlist,
        )

    def evaluate(
        self, translator: ModelTranslator, part: str, pairs: Sequence[Pair], language: str | None = None
    ) -> Report:
        """Evaluates a part and writes its scores into ``scores.json``; ``language`` is the target language's code."""
        found = evaluate(translator, pairs, language)
        write_score(self.folder / SCORES, part, found, str(translator.search), self.step())
        return found

    def scores(self) -> dict[str, Any]:
        """Returns the scores in ``scores.json`` of the checkpoint that ``translator`` loads, by part."""
        found = read_scores(self.folder / SCORES)
        return {part: score for part, score in found.items() if score["step"] == self.step()}

    def step(self) -> int:
        """Returns the training step of the checkpoint that ``translator`` loads."""
        return int(best_checkpoint(self.folder / CHECKPOINTS).name.rpartition("-")[2])

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
        """Exports the run's best weights as the next version, or returns the newest version if it is the same export.

        Args:
            translator: From ``translator``, with any search.
            model_folder: ``saved_models/NAME``.
            config, max_to_keep, labelled: See ``nmt_keras.export.export``.
            languages: Codes of source and target language, for the model card.
        """
        return export_run(
            self.folder,
            {**self.facts(translator, languages), "scores": self.scores()},
            translator,
            model_folder,
            config,
            max_to_keep,
            labelled,
        )

    def facts(self, translator: ModelTranslator, languages: Languages) -> dict[str, Any]:
        """Returns the run's part of an export's manifest."""
        return manifest_facts(self.folder, self.recipe, translator, languages)


def load_runs(paths: Sequence[str | PathLike[str]]) -> ModelTranslator:
    """Returns a run's translator; of several runs, their ensemble, which searches like the first one.

    Raises:
        FileNotFoundError: there is no such run.
        ValueError: no run is given, or their vocabularies differ.
    """
    runs = [Run(path) for path in paths]
    if not runs:
        raise ValueError("paths: expected at least one run, received none.")
    for side in ("source", "target"):
        first, *others = [run.folder / side for run in runs]
        for other in others:
            if _files(other) != _files(first):
                raise ValueError(
                    f"paths: expected runs with one {side} vocabulary, received {other}, which differs from {first}. "
                    "Train them on the same corpus with the same tokenizer configuration."
                )
    translators = [run.translator() for run in runs]
    first_one = translators[0]
    if len(translators) == 1:
        return first_one
    return ModelTranslator(
        first_one.source_tokenizer,
        first_one.target_tokenizer,
        Ensemble([translator.model for translator in translators]),
        search=first_one.search,
        unknown_words=first_one.unknown_words,
        shortlist=first_one.shortlist,
    )


def _files(folder: Path) -> dict[str, bytes]:
    """Returns the files of a tokenizer's folder and their contents."""
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.suffix != PARTIAL}
