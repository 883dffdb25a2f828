"""``Run`` trains, evaluates and exports a run. ``load_runs`` loads a translator of one or several runs."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from nmt_keras.config import ExportConfig, Recipe, RunOptions
from nmt_keras.corpus import CorpusOptions, Pair, SplitCorpus
from nmt_keras.evaluation.report import Report, evaluate, read_scores, write_score
from nmt_keras.export import PLAIN, export
from nmt_keras.io.files import read_json
from nmt_keras.models.ensemble import Ensemble
from nmt_keras.models.seq2seq import build_model
from nmt_keras.recipes import train_command
from nmt_keras.runs.directory import (
    CHECKPOINTS,
    CORPUS,
    LEXICON,
    SCORES,
    imports,
    read_ancestors,
    read_origin,
    resolve_recipe,
)
from nmt_keras.runs.training import load_tokenizers, train_run
from nmt_keras.runs.training_data import PreparedSplit, training_data
from nmt_keras.training import Show, identify_best, is_chief, is_finished, load_weights
from nmt_keras.translation.model_translator import ModelTranslator
from nmt_keras.translation.records import Checkpoint
from nmt_keras.translation.unknown_words import UnknownWords, learn_lexicon, load_lexicon, save_lexicon

DEFAULTS = RunOptions()

Languages = tuple[str | None, str | None]
"""Codes of source and target language; ``None`` if unspecified."""

LEXICON_PAIRS = 40_000
"""Maximum number of pairs for learning the lexicon. This takes about two minutes on two cores."""


class Run:
    """One run directory, new or existing.

    Args:
        folder: The run directory.
        recipe: Recipe of the run; ``None`` for the stored recipe.

    Raises:
        FileNotFoundError: ``recipe`` is ``None`` and no recipe is stored.
        ValueError: the stored recipe differs from ``recipe``. Only the training time may differ, and only until the
            first checkpoint is written.
    """

    def __init__(self, folder: str | PathLike[str], recipe: Recipe | None = None):
        self.folder = Path(folder)
        self.recipe = resolve_recipe(self.folder, recipe)

    def train(
        self,
        corpus: SplitCorpus | PreparedSplit,
        report: Callable[[str], None],
        show: Show,
        options: RunOptions = DEFAULTS,
        strategy: tf.distribute.Strategy | None = None,
        stop_after: int | None = None,
        origin: CorpusOptions | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> None:
        """Trains the run or resumes its training. Returns at once if the run is finished.

        Args:
            corpus: Training and validation pairs, or a prepared corpus and validation pairs.
            report: Function that receives messages for the user.
            show: Function that receives the progress after each update; see ``training.Show``.
            options: See ``RunOptions``. ``deterministic`` holds for the rest of the process.
            strategy: Strategy from ``training.find_strategy``; ``None`` trains on one device. Every worker makes this
                call with the run directory on a shared disk. Only the chief writes.
            stop_after: Step after which training stops. The next call continues it. ``None`` trains to the end.
            origin: Options of the corpus, stored in ``origin.json``. ``None`` stores none.
            callbacks: Keras callbacks; see ``training.Trainer`` for their calls. Each worker calls its own.

        Raises:
            ValueError: the recipe cannot be trained on the corpus; see ``training_data``.
        """
        data = training_data(corpus, self.recipe, report)
        self.recipe = train_run(
            self.folder, self.recipe, data, report, show, options, strategy, stop_after, origin, callbacks
        )
        is_complete = is_chief(strategy) and is_finished(self.folder)
        if is_complete and self.recipe.search.replaces_unknown and not (self.folder / LEXICON).exists():
            if isinstance(corpus, PreparedSplit):
                report(
                    "unknown words are replaced by the source word, because a prepared corpus has no text to learn a "
                    "lexicon from. To learn one, pass sentence pairs to Run.learn_lexicon."
                )
            else:
                report("learning the lexicon from the alignments of the training set")
                self.learn_lexicon(corpus.train)

    def learn_lexicon(self, pairs: Sequence[Pair]) -> int:
        """Learns replacements of unknown words from the alignments of ``pairs``, or ``LEXICON_PAIRS`` of them.

        Returns the number of replacements.
        """
        taken = pairs[:: math.ceil(len(pairs) / LEXICON_PAIRS) or 1]
        aligned = self.translator().align([pair.source for pair in taken], [pair.target for pair in taken])
        lexicon = learn_lexicon(aligned)
        save_lexicon(lexicon, self.folder / LEXICON)
        return len(lexicon)

    def translator(self) -> ModelTranslator:
        """Returns a translator with the run's best weights."""
        source, target = load_tokenizers(self.folder)
        model = build_model(self.recipe.model, source.vocabulary_size, target.vocabulary_size)
        checkpoint = load_weights(model, self.folder / CHECKPOINTS)
        lexicon = load_lexicon(self.folder / LEXICON) if (self.folder / LEXICON).exists() else {}
        return ModelTranslator(
            source,
            target,
            model,
            search=self.recipe.search,
            unknown_words=UnknownWords(lexicon),
            checkpoints=[checkpoint],
        )

    def evaluate(
        self,
        translator: ModelTranslator,
        part: str,
        pairs: Sequence[Pair],
        language: str | None = None,
        tokenizer: str | None = None,
    ) -> Report:
        """Translates and scores the validation or test set, and writes the scores into ``scores.json``.

        Args:
            translator: Translator from ``translator``, with any search options. The scores are those of its checkpoint,
                even if training has written a better one meanwhile.
            part: Name of the set, "valid" or "test".
            pairs: Pairs of the set.
            language: Code of the target language; ``None`` if unspecified.
            tokenizer: Tokenizer of BLEU; see ``metrics.bleu``.
        """
        (checkpoint,) = translator.checkpoints
        found = evaluate(translator, pairs, language, tokenizer)
        write_score(self.folder / SCORES, part, found, str(translator.search), checkpoint)
        return found

    def scores(self, checkpoint: Checkpoint | None = None) -> dict[str, Any]:
        """Returns the scores of a checkpoint in ``scores.json``, by name of the set. Default: the best checkpoint."""
        wanted = checkpoint or identify_best(self.folder / CHECKPOINTS)
        found = read_scores(self.folder / SCORES)
        return {part: score for part, score in found.items() if score.get("checkpoint") == wanted.sha256}

    def export(
        self,
        translator: ModelTranslator,
        model_folder: str | Path,
        config: ExportConfig = PLAIN,
        *,
        languages: Languages = (None, None),
        max_to_keep: int | None = None,
    ) -> Path:
        """Exports the weights of ``translator`` as the next version; see ``nmt_keras.export.export``.

        Args:
            translator: Translator from ``translator``, with any search options.
            model_folder: Folder of the model's versions, such as ``saved_models/NAME``.
            config, max_to_keep: See ``nmt_keras.export.export``.
            languages: Codes of source and target language, for the model card.

        Returns:
            The folder of the version.
        """
        return export(translator, model_folder, self.facts(translator, languages), config, max_to_keep=max_to_keep)

    def facts(self, translator: ModelTranslator, languages: Languages) -> dict[str, Any]:
        """Returns facts for the manifest of an export. An ensemble has the facts of its first run, without scores."""
        checkpoint, *others = translator.checkpoints
        licence = read_origin(self.folder).licence
        return {
            "recipe": dataclasses.asdict(self.recipe),
            "command": train_command(self.recipe, imports(self.folder)),
            "corpus": read_json(self.folder / CORPUS) | ({"licence": licence} if licence else {}),
            "ancestors": [{**each, "run": _short_name(Path(each["run"]))} for each in read_ancestors(self.folder)],
            "languages": {
                side: code for side, code in zip(("source", "target"), languages, strict=True) if code is not None
            },
            "scores": {} if others else self.scores(checkpoint),
        }


def _short_name(path: Path) -> str:
    """Returns the name of a run, or the name and number of an exported version, such as "spa-eng/1"."""
    return f"{path.parent.name}/{path.name}" if path.name.isdecimal() else path.name


def load_runs(paths: Sequence[str | PathLike[str]]) -> ModelTranslator:
    """Returns the translator of a run, or of an ensemble of runs, with the search options of the first run.

    Raises:
        FileNotFoundError: a path is not a run directory.
        ValueError: the vocabularies of the runs differ.
    """
    runs = [Run(path) for path in paths]
    for side in ("source", "target"):
        first, *others = [run.folder / side for run in runs]
        for other in others:
            if read_json(other / "text.json") != read_json(first / "text.json"):  # with checksums of the other files
                raise ValueError(
                    f"paths: expected runs with the same {side} vocabulary; those of {other} and {first} differ. Train "
                    "them on the same corpus with the same tokenizer configuration."
                )
    translator, *members = [run.translator() for run in runs]
    if not members:
        return translator
    return ModelTranslator(
        translator.source_tokenizer,
        translator.target_tokenizer,
        Ensemble([each.model for each in (translator, *members)]),
        search=translator.search,
        unknown_words=translator.unknown_words,
        checkpoints=[checkpoint for each in (translator, *members) for checkpoint in each.checkpoints],
    )
