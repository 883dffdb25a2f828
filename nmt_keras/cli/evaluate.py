"""``nmt evaluate``: what runs score, with intervals, and which of them differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import tyro

from nmt_keras.cli.command import SIDE_BY_SIDE, Command, Flag, load_translator
from nmt_keras.cli.console import Console
from nmt_keras.config import SearchConfig, require
from nmt_keras.corpus.options import CorpusOptions
from nmt_keras.runs.directory import is_run, read_recipe

if TYPE_CHECKING:
    from nmt_keras.corpus import Pair
    from nmt_keras.corpus.alignments import GoldLinks
    from nmt_keras.evaluation.report import Report


@dataclass(frozen=True)
class Evaluate(Command):
    """Score runs by BLEU and chrF with 95 % intervals, by length, with unknown words and speed; compare them.

    Prints Markdown. On the runs' test part, or on pairs of your own. Each run is compared with the first.
    """

    threads: ClassVar[int | None] = SIDE_BY_SIDE

    paths: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")]
    """Run directories, or exported versions, which need --pairs."""
    part: Literal["test", "valid"] = "test"
    """The part of the first run's corpus to translate."""
    pairs: tuple[str, ...] = ()
    """Instead: a TSV (see --source-column), or a source and a target file, of which every pair is translated."""
    gold: Path | None = None
    """Links of each of these pairs, a line each: 0-0 is sure, 1p2 possible. Adds runs' alignment error rate."""
    to: Path | None = None
    """Folder for report.md, report.json and pictures."""
    json: Flag = False
    """Print JSON rather than Markdown."""
    worst: int = 10
    """Sentences to show, those of the lowest chrF first."""
    ensemble: tuple[Path, ...] = ()
    """More runs, of the same vocabularies, which translate together with RUN: one system."""
    data: Annotated[CorpusOptions, tyro.conf.arg(name="")] = field(default_factory=CorpusOptions)
    search: SearchConfig = field(default_factory=SearchConfig)
    """How all runs search for translations; by default as the first one's recipe says. An exported version searches
    greedily, whatever it was exported with, and is refused where a search is asked for here."""

    def check(self) -> None:
        """Looks at what is compared, and whether gold links have their pairs."""
        require(bool(self.paths), "RUN", "at least one run directory", self.paths)
        paths = [str(path) for path in self.paths]
        require(not self.ensemble or len(paths) == 1, "--ensemble", "exactly one RUN, which it joins", paths)
        require(self.worst >= 0, "--worst", "0 or more sentences to show", self.worst)
        require(
            self.gold is None or bool(self.pairs), "--gold", "--pairs beside it, a pair a line of links", self.pairs
        )

    def __call__(self, console: Console) -> None:
        """Prints the report."""
        from nmt_keras.evaluation.comparison import (
            compare,
            to_json,
            to_markdown,
            write_report,
        )
        from nmt_keras.evaluation.metrics import require_tokenizer
        from nmt_keras.evaluation.report import evaluate, gold_error
        from nmt_keras.translation.model_translator import ModelTranslator

        require_tokenizer(self.data.languages[1])
        title, pairs = self._sentences(console)
        gold = self._gold_links(pairs)
        reports: dict[str, Report] = {}
        searches, errors = {}, {}
        for name, (path, *others) in self._systems().items():
            translator = load_translator(path, others, self._search_of(path))
            searches[name] = str(translator.search) if isinstance(translator, ModelTranslator) else "greedy"
            told = " and ".join(map(str, (path, *others)))
            console.say(f"{told}: translating {title}, {len(pairs):,} sentences, {searches[name]}")
            reports[name] = evaluate(translator, pairs, self.data.languages[1])
            if gold is not None and isinstance(translator, ModelTranslator):
                errors[name] = gold_error(translator, pairs, gold)
        found = compare(
            title,
            pairs,
            reports,
            searches,
            errors=errors,
            source_language=self.data.languages[0],
            target_language=self.data.languages[1],
            worst=self.worst,
        )
        print(to_json(found) if self.json else to_markdown(found), end="")
        if self.to is not None:
            console.say(f"written: {write_report(found, next(iter(reports.values())), self.to)}")

    def _systems(self) -> dict[str, tuple[Path, ...]]:
        """What is compared, by its name: each path, or the runs of an ensemble together."""
        runs = (*self.paths, *self.ensemble)
        names = _names(runs)
        if self.ensemble:
            return {"+".join(names): runs}
        return {name: (path,) for name, path in zip(names, runs, strict=True)}

    def _search_of(self, path: Path) -> SearchConfig:
        """How a run searches, or what the command line asks of an exported version, which is nothing else by default.

        The options start from the recipe of the first run, which says nothing of an exported version.
        """
        first = next((run for run in self.paths if is_run(run)), None)
        unasked = first is not None and self.search == read_recipe(first).search
        return SearchConfig() if unasked and not is_run(path) else self.search

    def _sentences(self, console: Console) -> tuple[str, Sequence[Pair]]:
        """What is translated, and what it is called."""
        from nmt_keras.corpus import part_sha256
        from nmt_keras.corpus.loading import load_corpus, load_pairs

        if self.pairs:
            return ", ".join(self.pairs), load_pairs(self.data, self.pairs, console.say)
        run = self.paths[0]
        if not is_run(run):
            raise ValueError(f"--pairs: expected a file of pairs, as {run} is no run, which knows its corpus.")
        title = f"{self.data.name}, {self.part}"
        if self.data.valid:
            files = self.data.test if self.part == "test" else self.data.valid
            if not files:
                raise ValueError(
                    f"--pairs: expected a file of pairs, as {run} was trained without --test and has no test part. "
                    "--part valid evaluates the pairs it was validated on."
                )
            pairs: Sequence[Pair] = load_pairs(self.data, files, console.say)
        else:
            corpus = load_corpus(self.data, read_recipe(run).corpus, Path("data"), console.say)
            pairs = corpus.test if self.part == "test" else corpus.valid
        told = f"the {self.part} part of {self.data.name}"
        self._require_held_out(told, part_sha256(pairs, key_side=self.data.key_side), console)
        return title, pairs

    def _require_held_out(self, told: str, sha256: str, console: Console) -> None:
        """Raises ValueError unless the first run keeps pairs of that checksum as its own part; of more, says so."""
        for path in (*self.paths, *self.ensemble):
            if not _was_held_out(path, self.part, sha256, self.data.key_side):
                wrong = f"{told} is not the one that {path} was trained without"
                if path == self.paths[0]:
                    raise ValueError(
                        f"--corpus: {wrong}. Say which corpus it was, and which its columns, or evaluate --pairs of "
                        "your own."
                    )
                console.say(f"{wrong}: its scores may be those of sentences it has seen.")

    def _gold_links(self, pairs: Sequence[Pair]) -> list[GoldLinks] | None:
        from nmt_keras.corpus.alignments import from_pharaoh

        if self.gold is None:
            return None
        runs = (*self.paths, *self.ensemble)
        if exported := [str(path) for path in runs if path.exists() and not is_run(path)]:
            raise ValueError(
                f"--gold: expected runs alone, received the exported {', '.join(exported)}, which align no "
                "given pairs. Name the runs that they were exported from."
            )
        lines = self.gold.read_text(encoding="utf-8").splitlines()
        if len(lines) != len(pairs):
            raise ValueError(f"--gold: expected {len(pairs)} lines, one a pair, received {len(lines)} in {self.gold}.")
        return [from_pharaoh(line, f"{self.gold}:{number}") for number, line in enumerate(lines, start=1)]


def _was_held_out(path: Path, part: str, sha256: str, key_side: str) -> bool:
    """Whether pairs of that checksum are what a run keeps as its own part; an exported version says nothing of it."""
    recorded = path / "corpus.json"
    if not recorded.exists():
        return True
    facts = json.loads(recorded.read_text(encoding="utf-8"))
    found: str | None = facts.get("sha256", {}).get(part)
    return found == sha256 and facts.get("key_side", key_side) == key_side


def _names(paths: Sequence[Path]) -> list[str]:
    """What systems are called: their folders' names, or whole paths where these are alike."""
    short = [path.resolve().name for path in paths]
    names = short if len(set(short)) == len(short) else [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise ValueError(f"RUN: expected different runs, received {', '.join(names)}.")
    return names
