"""``nmt evaluate``: scores runs with confidence intervals, and compares them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

import tyro

from nmt_keras.cli.command import (
    RARE,
    SIDE_BY_SIDE,
    Command,
    Console,
    Flag,
    load_translator,
    named_corpus,
    named_model,
    own_search,
    values_of,
)
from nmt_keras.config import SearchConfig, require
from nmt_keras.corpus import SET_NAMES, CorpusOptions, Pair, evaluation_pairs, part_sha256
from nmt_keras.io.files import make_writable_folder, read_json
from nmt_keras.io.lines import CUT, tell_lines
from nmt_keras.markdown import latex_tables
from nmt_keras.runs.directory import CORPUS, is_run, read_recipe, require_corpus, with_languages_of


@dataclass(frozen=True)
class Evaluate(Command):
    """Score and compare runs: BLEU and chrF with 95 % intervals, scores by sentence length, unknown words, speed.

    Translates the test set of the corpus, or --pairs, and prints Markdown. Each run is compared with the first one.
    """

    rare: ClassVar[Collection[str]] = (*RARE, "corpus", "valid", "test")
    threads: ClassVar[int | None] = SIDE_BY_SIDE
    idle: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "--pairs": ("--part", "--all-pairs", "--corpus", "--valid", "--test")
    }

    paths: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")]
    """Run directories, or exported versions. Exported versions require --pairs."""
    part: Literal["test", "valid"] = "test"
    """Set of the first run's corpus to translate. "test": test set. "valid": validation set."""
    all_pairs: Flag = False
    """Translate the whole set. By default, at most 5,000 pairs are translated: those with the smallest hashes."""
    pairs: tuple[str, ...] = ()
    """Pairs to translate instead: a TSV file with the source first, or a source and a target file."""
    gold: Path | None = None
    """A file of sentence pairs with word alignments, in three columns: source words, target words, and links such as
    0-0 (sure) and 1p2 (possible). Adds the alignment error rate of each run on these pairs."""
    to: Path | None = None
    """Folder for report.md and pictures."""
    json: Flag = False
    """Print JSON instead of Markdown."""
    latex: Flag = False
    """Print the tables in LaTeX instead of Markdown."""
    worst: int = 10
    """Number of sentences to show: those with the lowest chrF."""
    ensemble: tuple[Path, ...] = ()
    """More runs with the same vocabularies. They are evaluated together with RUN as one system."""
    data: Annotated[CorpusOptions, tyro.conf.arg(name="")] = field(default_factory=CorpusOptions)
    search: SearchConfig = field(default_factory=SearchConfig)
    """Search options of all runs. Default: those of the first run's recipe. Each exported version uses its own search,
    or greedy search with --search.beam-size 1."""

    @classmethod
    def defaults(cls, arguments: Sequence[str]) -> Any:
        """Returns a command with the search options and the corpus of the first run or export in ``arguments``.

        Of the corpus options of the run, only the languages and the limits apply to ``--pairs``.
        """
        model, data = named_model(arguments), named_corpus(arguments)
        if model is None:
            return tyro.MISSING_NONPROP
        if values_of("--pairs", arguments):
            data = replace(with_languages_of(model, data), languages=None)
            data = replace(data, source_column=None, target_column=None, reverse=False)
        return cls(paths=tyro.MISSING, data=data, search=own_search(model))

    def check(self) -> None:
        """Raises ValueError if the options contradict each other."""
        paths = [str(path) for path in self.paths]
        require(bool(paths), "RUN", "at least one run directory", paths)
        require(not self.ensemble or len(paths) == 1, "--ensemble", "exactly one RUN", paths)
        self.data.require_readable(self.pairs)
        require(
            len(self.pairs) <= 2,
            "--pairs",
            "one table, or a source and a target file",
            self.pairs,
            "For several references, evaluate with each of them.",
        )
        require(self.worst >= 0, "--worst", "0 or more", self.worst)
        require(not (self.json and self.latex), "--latex", "either --json or --latex", "both")
        if self.to is not None:
            make_writable_folder(self.to)

    def __call__(self, console: Console) -> None:
        """Prints the report."""
        from nmt_keras.evaluation import comparison
        from nmt_keras.evaluation.gold import read_gold
        from nmt_keras.evaluation.metrics import require_tokenizer
        from nmt_keras.evaluation.report import Report, evaluate, gold_error
        from nmt_keras.translation.exported import ServedTranslator
        from nmt_keras.translation.model_translator import ModelTranslator

        source_language, target_language = self.data.language_tags
        require_tokenizer(target_language, self.data.bleu_tokenizer)
        title, pairs = self._title_and_pairs(console)
        gold = read_gold(self.gold) if self.gold else []
        reports: dict[str, Report] = {}
        searches, errors, beside_run = {}, {}, any(map(is_run, self.paths))
        greedy = "1" in values_of("--search.beam-size", self.typed)
        for name, (path, *others) in self._systems().items():
            takes_options = is_run(path) or (path == self.paths[0] and not beside_run)
            translator = load_translator(path, others, self.search if takes_options else None)
            if greedy and not takes_options:
                translator = cast(ServedTranslator, translator).with_search(translator.search.greedy)
            searches[name] = str(translator.search)
            if gold:
                expected = "run directories, because exports do not align given pairs"
                require(isinstance(translator, ModelTranslator), "--gold", expected, str(path))
                if (model := cast(ModelTranslator, translator)).has_attention:
                    errors[name] = gold_error(model, gold)
            system = " and ".join(map(str, (path, *others)))
            console.say(f"{system}: translating {title}, {len(pairs):,} sentences, {searches[name]}")
            reports[name] = evaluate(translator, pairs, target_language, self.data.bleu_tokenizer)
            tell_lines(console.say, CUT, reports[name].cut, title, "pair")
        found = comparison.compare(
            title,
            pairs,
            reports,
            searches,
            errors=errors,
            source_language=source_language,
            target_language=target_language,
            tokenizer=self.data.bleu_tokenizer,
            worst=self.worst,
        )
        markdown = comparison.to_markdown(found)
        print(comparison.to_json(found) if self.json else latex_tables(markdown) if self.latex else markdown, end="")
        if self.to is not None:
            console.say(f"report written to {comparison.write_report(found, reports, self.to)}")

    def _systems(self) -> dict[str, tuple[Path, ...]]:
        """Returns the runs of each system, by folder name, or by path if two folder names are equal."""
        runs = (*self.paths, *self.ensemble)
        names = [path.resolve().name for path in runs]
        if len(set(names)) < len(names):
            names = list(map(str, runs))
        require(len(set(names)) == len(names), "RUN", "different runs", names)
        if self.ensemble:
            return {"+".join(names): runs}
        return {name: (path,) for name, path in zip(names, runs, strict=True)}

    def _title_and_pairs(self, console: Console) -> tuple[str, Sequence[Pair]]:
        """Returns the title of the report, and the pairs to translate.

        Raises:
            OSError: a file or the first run does not exist.
            ValueError: the first run may have been trained on these pairs.
        """
        from nmt_keras.corpus.loading import load_corpus, load_pairs

        if self.pairs:
            return ", ".join(self.pairs), load_pairs(self.data, self.pairs, console.say)
        run = self.paths[0]
        if not is_run(run):
            remedy = "is none. Exports require --pairs" if run.exists() else "does not exist. Train a run first"
            raise FileNotFoundError(f"RUN: expected a run directory; {run} {remedy}.")
        try:
            if not self.data.valid:
                recipe = read_recipe(run)
                corpus = load_corpus(self.data, recipe.corpus, Path("data"), console.say, filters=recipe.filters)
                pairs: Sequence[Pair] = corpus.test if self.part == "test" else corpus.valid
            elif files := self.data.test if self.part == "test" else self.data.valid:
                pairs = load_pairs(self.data, files, console.say)
            else:
                raise ValueError(f"--part: {run} was trained without --test and has no test set. Pass --part valid.")
        except FileNotFoundError:
            require_corpus(run, self.data)
            raise
        for path in filter(is_run, (*self.paths, *self.ensemble)):
            facts = read_json(path / CORPUS)
            if facts["sha256"].get(self.part) != part_sha256(pairs, key_side=facts.get("key_side", "target")):
                problem = f"{path} may have been trained on pairs of the {SET_NAMES[self.part]} of {self.data.name}"
                require(path != run, "--corpus", "the run's corpus and columns, or --pairs", problem)
                console.say(f"Warning: {problem}, which inflates its scores.")
        if not self.all_pairs:
            pairs = evaluation_pairs(pairs, key_side=read_json(run / CORPUS).get("key_side", "target"))
        licence = f" ({self.data.licence})" if self.data.licence else ""
        return f"{self.data.name}{licence}, {self.part}", pairs
