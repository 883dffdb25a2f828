"""The command line: ``nmt`` and ``python -m nmt_keras``. TensorFlow is imported only by commands that compute."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Annotated

import tyro

from nmt_keras.config import CorpusConfig, Recipe
from nmt_keras.corpus import (
    SPANISH_ENGLISH_SHA256,
    SPANISH_ENGLISH_URL,
    CorpusUnavailable,
    Pair,
    SplitCorpus,
    fetch_corpus,
    read_pairs,
    shuffle_pairs,
    split_pairs,
    text_sha256,
)
from nmt_keras.recipes import RECIPES, SAMPLE, SPANISH_ENGLISH, find_recipe
from nmt_keras.sample import SAMPLE_NAME, sample_pairs

SPANISH_ENGLISH_NAME = "spa-eng"
WHOLE = CorpusConfig()
FALLING_BACK = (
    "Going on with the built-in sample: sentences that a small phrase grammar makes. It shows that everything works; "
    "its translator knows some 400 words and measures nothing. For the real one, run again with a network, or with "
    "CORPUS=path/to/spa-eng.zip."
)


@dataclass(frozen=True)
class CorpusOptions:
    """Which corpus, and how its file is read."""

    corpus: str | None = None
    """TSV, plain, .gz or .zip; "sample" for the built-in corpus; Spanish-English is downloaded by default."""
    source_column: int = 1
    """The column to translate from, counted from 0; by default as in the Spanish-English file."""
    target_column: int = 0
    """The column to translate to, counted from 0."""
    max_malformed: float = 0.01
    """The share of malformed lines, which are left out, that is allowed."""

    def load(self, config: CorpusConfig, folder: Path, say: Callable[[str], None]) -> SplitCorpus:
        """Reads and splits the corpus.

        Args:
            config: what of it is taken, and how it is split.
            folder: where a download is kept.
            say: told what happens.

        Raises:
            CorpusUnavailable: nothing could be downloaded.
            FileNotFoundError, ValueError: the file cannot be read.
        """
        if self.corpus == SAMPLE_NAME:
            return built_in_sample(config)
        file = self.corpus or fetch_corpus(SPANISH_ENGLISH_URL, folder, SPANISH_ENGLISH_SHA256)
        name = corpus_name(file)
        pairs, report = read_pairs(
            file,
            source_column=self.source_column,
            target_column=self.target_column,
            max_malformed=self.max_malformed,
        )
        say(f"{file}: {len(pairs):,} pairs; {report}")
        if self.corpus and name == SPANISH_ENGLISH_NAME and text_sha256(file) != SPANISH_ENGLISH_SHA256:
            say(f"{file} is another version of the Spanish-English corpus: scores may not compare with published ones.")
        return _split(name, pairs, config)


def corpus_name(path: str | PathLike[str]) -> str:
    """What a corpus file's runs and models are called: its name without .tsv, .txt, .gz and .zip, fit for a URL.

    Raises:
        ValueError: nothing is left of the name.
    """
    name = Path(path).name
    while name.lower().endswith((".gz", ".zip", ".tsv", ".txt")):
        name = name[: name.rindex(".")]
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", name).strip("._-")
    if not name:
        raise ValueError(f"corpus: expected a file with a name for its run and model, received {path}. Rename it.")
    return "sample-file" if name == SAMPLE_NAME else name  # the built-in sample's name is its own


def built_in_sample(config: CorpusConfig = WHOLE) -> SplitCorpus:
    """The sample corpus, Spanish to English."""
    return _split(SAMPLE_NAME, [Pair(source=spanish, target=english) for english, spanish in sample_pairs()], config)


def _split(name: str, pairs: Sequence[Pair], config: CorpusConfig) -> SplitCorpus:
    taken = pairs[: config.first]
    by_hash = config.split == "hashed-groups"
    parts = split_pairs(taken, key_side="target") if by_hash else shuffle_pairs(taken, seed=config.seed)
    for part in ("train", "valid", "test"):
        if not parts[part]:
            raise ValueError(
                f"{name}: expected pairs for every part, the split gives none for {part}. Use a larger corpus."
            )
    return SplitCorpus(name, parts["train"], parts["valid"], parts["test"])


def named_corpus(recipe: str | None) -> CorpusConfig:
    """What the recipe called ``recipe`` takes of a corpus; all of it if none is named."""
    return find_recipe(recipe).corpus if recipe else WHOLE


def choose_recipe(name: str | None, corpus: str, minutes: float | None, width: float = 1.0) -> Recipe:
    """The recipe called ``name``, or the corpus's own, ``width`` times as wide; trained for ``minutes`` if given."""
    recipe = find_recipe(name) if name else SAMPLE if corpus == SAMPLE_NAME else SPANISH_ENGLISH
    if width != 1.0:
        recipe = recipe.scaled(width)
    if minutes is None:
        return recipe
    return replace(recipe, train=replace(recipe.train, minutes=minutes, steps=None, epochs=None))


class Console:
    """Says on standard error what happens; progress is a bar on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        from tqdm import tqdm

        self._tqdm = tqdm
        self._bar: tqdm | None = None

    def say(self, sentence: str) -> None:
        """Prints a sentence without disturbing the bar."""
        self._tqdm.write(sentence, file=sys.stderr)
        sys.stderr.flush()

    def show(self, step: int, total: int, row: Mapping[str, float]) -> None:
        """Shows where training stands."""
        terminal = sys.stderr.isatty()
        if self._bar is None:
            self._bar = self._tqdm(disable=not terminal, initial=step - 1, total=total, unit="step", dynamic_ncols=True)
        loss, speed = row["loss"], row["tokens_per_s"]
        if math.isfinite(loss):
            self._bar.set_postfix_str(f"loss {loss:.3f} nats/token, {speed:,.0f} target tokens/s", refresh=False)
        self._bar.update()
        if not terminal and row.get("step") == step:
            left = row["seconds_left"] / 60
            self.say(
                f"step {step:,} of {total:,}: loss {loss:.3f} nats/token, {speed:,.0f} target tokens/s, "
                f"{left:.1f} min left"
            )

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()


@dataclass(frozen=True)
class Train:
    """Train a translator in a run directory, or go on where it stopped."""

    run: Path | None = None
    """The run directory; runs/CORPUS by default, runs/CORPUS-RECIPE if a recipe is named."""
    data: Annotated[CorpusOptions, tyro.conf.arg(name="")] = CorpusOptions()
    recipe: str | None = None
    """A recipe's name; by default the corpus's own."""
    minutes: float | None = None
    """Training time, compilation included; the recipe's own by default."""
    width: float = 1.0
    """Times the recipe's size in every layer: 0.25 brings a paper's model onto a laptop."""

    def __call__(self, console: Console) -> None:
        """Trains and evaluates."""
        self.train(console, self.data.load(named_corpus(self.recipe), Path("data"), console.say))

    def train(self, console: Console, corpus: SplitCorpus) -> Path:
        """Trains and evaluates on a corpus that is loaded already."""
        from nmt_keras.experiment import Experiment

        recipe = choose_recipe(self.recipe, corpus.name, self.minutes, self.width)
        own = self.recipe is None and self.width == 1.0
        default = corpus.name if own else f"{corpus.name}-{recipe.name}"
        folder = self.run or Path("runs") / default
        if self.minutes is None and (folder / "recipe.json").exists():
            stored = Experiment(folder).recipe.train  # how long it is trained was said when it was begun
            recipe = replace(
                recipe, train=replace(recipe.train, minutes=stored.minutes, steps=stored.steps, epochs=stored.epochs)
            )
        experiment = Experiment(folder, recipe)
        console.say(
            f"{corpus.name}: {len(corpus.train):,} pairs to train on, {len(corpus.valid):,} to validate, "
            f"{len(corpus.test):,} to test. Run directory: {folder}"
        )
        experiment.train(corpus, console.say, console.show)
        console.close()
        scores = experiment.scores()
        parts = {"valid": corpus.valid, "test": corpus.test}
        if wanting := [part for part in parts if part not in scores]:
            translator = experiment.translator()
            for part in wanting:
                console.say(f"translating {part}, {len(parts[part]):,} sentences")
                experiment.evaluate(translator, part, parts[part])
        for part, score in experiment.scores().items():
            console.say(
                f"{part}: BLEU {score['bleu']}, chrF {score['chrf']}, exact {score['exact']} % "
                f"({score['search']}, {score['sentences_per_s']} sentences/s; {score['signature']})"
            )
        return folder


@dataclass(frozen=True)
class Translate:
    """Translate sentences, or the lines of standard input."""

    path: Annotated[Path, tyro.conf.Positional]
    """A run directory, or an exported version."""
    sentences: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """What to translate; none reads lines from standard input."""
    beam: int | None = None
    """Hypotheses to keep of a sentence, for a run; by default its recipe's. An exported version keeps its own."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print one JSON object per sentence, with tokens, score and alignment."""

    def __call__(self, console: Console) -> None:
        """Prints one line per sentence."""
        import nmt_keras
        from nmt_keras.translator import ModelTranslator

        translator = nmt_keras.load(self.path)
        if self.beam is not None:
            if not isinstance(translator, ModelTranslator):
                raise ValueError(
                    f"--beam: expected a run, received {self.path}. An exported version keeps its own search."
                )
            translator = translator.with_search(replace(translator.search, beam_size=self.beam))
        sentences = list(self.sentences) or [line.rstrip("\r\n") for line in sys.stdin]
        for translation in translator.translate(sentences):
            if self.json:
                row = {**translation._asdict(), "alignment": translation.alignment.round(4).tolist()}
                print(json.dumps(row, ensure_ascii=False))
            else:
                print(translation.text)


@dataclass(frozen=True)
class Export:
    """Export a run's best model as the next SavedModel version."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run directory."""
    to: Path | None = None
    """The model's folder; saved_models/RUN by default."""
    beam: int | None = None
    """Hypotheses that serving_default and align keep of a sentence; by default the recipe's."""

    def __call__(self, console: Console) -> None:
        """Prints the version's folder."""
        from nmt_keras.experiment import Experiment

        experiment = Experiment(self.run)
        translator = experiment.translator()
        if self.beam is not None:
            translator = translator.with_search(replace(translator.search, beam_size=self.beam))
        print(experiment.export(translator, self.to or Path("saved_models") / self.run.resolve().name))


@dataclass(frozen=True)
class Recipes:
    """List the recipes."""

    def __call__(self, console: Console) -> None:
        """Prints a line per recipe."""
        for recipe in RECIPES.values():
            print(f"{recipe.name:20} {recipe.source.kind} to {recipe.target.kind}, {recipe.model.decoder.units} units")


@dataclass(frozen=True)
class Demo:
    """Everything, from the corpus to a REST answer: train, evaluate, translate, draw, export, serve, ask."""

    data: Annotated[CorpusOptions, tyro.conf.arg(name="")] = CorpusOptions()
    minutes: float | None = None
    """Training time, compilation included; the recipe's own by default."""
    recipe: str | None = None
    """A recipe's name; by default the corpus's own."""

    def __call__(self, console: Console) -> None:
        """Runs the demo."""
        from nmt_keras.demo import Announcer, demonstrate

        announcer = Announcer(console.say)
        announcer.next_step()
        try:
            corpus = self.data.load(named_corpus(self.recipe), Path("data"), console.say)
        except CorpusUnavailable as unavailable:
            console.say(f"{unavailable}\n{FALLING_BACK}")
            corpus = built_in_sample(named_corpus(self.recipe))
        announcer.next_step()
        run = Train(recipe=self.recipe, minutes=self.minutes).train(console, corpus)
        demonstrate(corpus, run, announcer)


Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Translate, tyro.conf.subcommand("translate")]
    | Annotated[Export, tyro.conf.subcommand("export")]
    | Annotated[Recipes, tyro.conf.subcommand("recipes")]
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command. Exit code 0; 1 after an error, told in one line; 128 + N after signal N."""
    command = tyro.cli(Command, prog="nmt", description="Neural machine translation with attention.", args=arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if arguments is None and isinstance(command, Train | Demo):
        _keep_memory()
    console = Console()
    try:
        command(console)
    except (OSError, ValueError, FloatingPointError) as error:
        console.close()
        raise SystemExit(f"nmt: {error}") from error
    except KeyboardInterrupt as error:
        console.close()
        number = getattr(error, "signal_number", signal.SIGINT)
        console.say(f"nmt: {str(error) or 'interrupted'}. The same command goes on from what is saved.")
        raise SystemExit(128 + number) from error


MALLOC = (
    "glibc.malloc.hugetlb=1:"  # pages of 2 MiB
    "glibc.malloc.mmap_threshold=1073741824:"  # large blocks from the heap too ...
    "glibc.malloc.trim_threshold=8589934592:"  # ... which is kept ...
    "glibc.malloc.arena_max=1"  # ... and of which there is one
)


def _keep_memory() -> None:
    """Starts this process anew with a malloc that keeps what is freed, which glibc can be told only before it starts.

    A training step takes and frees hundreds of megabytes: given back to the system each time, and in pages of 4 KiB,
    a third of its time goes into page faults. Whoever has set GLIBC_TUNABLES already is left alone, and so is every
    other C library.
    """
    if platform.libc_ver()[0] == "glibc" and "GLIBC_TUNABLES" not in os.environ:
        os.environ["GLIBC_TUNABLES"] = MALLOC
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
