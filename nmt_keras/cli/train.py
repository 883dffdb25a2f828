"""``nmt train``: a recipe, single fields of it changed, and a corpus become a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from nmt_keras.cli.command import Command, named_run
from nmt_keras.cli.console import Console
from nmt_keras.config import Recipe, RunOptions, TrainConfig, require
from nmt_keras.corpus.options import CorpusOptions
from nmt_keras.corpus.sample import SAMPLE_NAME
from nmt_keras.files import make_run_folder
from nmt_keras.recipes import RECIPES, SAMPLE, SPANISH_ENGLISH, find_recipe
from nmt_keras.runs.directory import is_run, read_recipe
from nmt_keras.runs.origin import read_origin, with_languages_of, write_origin

if TYPE_CHECKING:
    from tensorflow.distribute import Strategy

    from nmt_keras.corpus import Pair, SplitCorpus
    from nmt_keras.runs import Run


@dataclass(frozen=True)
class Train(Command):
    """Train a translator in a run directory, or go on where it stopped; evaluate it, and print the directory.

    RECIPE comes first. Every field of it can be changed: --model.dropout 0.3, --train.learning-rate 0.001.
    """

    recipe: Annotated[str | None, tyro.conf.Positional] = None
    """A recipe's name (nmt recipes lists them); by default the run's own, or the corpus's."""
    run: Path | None = None
    """The run directory; runs/CORPUS by default, runs/CORPUS-RECIPE if a recipe is named."""
    data: Annotated[CorpusOptions, tyro.conf.arg(name="")] = field(default_factory=CorpusOptions)
    minutes: float | None = None
    """Training time, compilation included, in place of what the recipe says."""
    epochs: float | None = None
    """Times that every training pair is seen, in place of what the recipe says."""
    steps: int | None = None
    """Updates to make, in place of what the recipe says."""
    width: float = 1.0
    """Times the recipe's size in every layer: 0.25 brings a paper's model onto a laptop."""
    options: RunOptions = field(default_factory=RunOptions)
    settings: Annotated[Recipe, tyro.conf.arg(name="")] = SPANISH_ENGLISH

    def __call__(self, console: Console) -> None:
        """Trains, evaluates and prints the run directory: once, by the first of several workers."""
        from nmt_keras.corpus.loading import load_corpus
        from nmt_keras.training import is_first_worker

        recipe = self.chosen()
        if self.data.prepared is not None:
            folder = self.train_prepared(console, recipe, Path(self.data.prepared))
        else:
            corpus = load_corpus(self.data, recipe.corpus, Path("data"), console.say, with_alignments=True)
            folder = self.train(console, recipe, corpus)
        if is_first_worker():
            print(folder)

    def chosen(self) -> Recipe:
        """The recipe that this command asks for.

        Raises:
            ValueError: it cannot be trained so.
        """
        lengths = self.steps, self.epochs, self.minutes
        given = [length for length in lengths if length is not None]
        require(len(given) <= 1, "--steps, --epochs, --minutes", "one of them at the most", lengths)
        recipe = self.settings if self.width == 1.0 else self.settings.scaled(self.width)
        return _lasting(recipe, *lengths) if given else recipe

    def train(self, console: Console, recipe: Recipe, corpus: SplitCorpus) -> Path:
        """Trains and evaluates on a corpus that is loaded already; answers the run directory."""
        tested = f", {len(corpus.test):,} to test" if corpus.test else ""
        told = f"{corpus.name}: {len(corpus.train):,} pairs to train on, {len(corpus.valid):,} to validate{tested}."
        return self._train(
            console,
            recipe,
            corpus.name,
            told,
            {"valid": corpus.valid, "test": corpus.test} if corpus.test else {"valid": corpus.valid},
            lambda run, strategy: run.train(corpus, console.say, console.show, self.options, strategy),
        )

    def train_prepared(self, console: Console, recipe: Recipe, folder: Path) -> Path:
        """Trains on what ``nmt prepare`` made, with its texts, and evaluates on the pairs to validate on."""
        from nmt_keras.corpus.loading import load_pairs
        from nmt_keras.corpus.shards import PreparedCorpus
        from nmt_keras.text import read_config

        corpus = PreparedCorpus(folder)
        valid = load_pairs(self.data, self.data.valid, console.say)
        # the texts themselves would begin TensorFlow's work, before workers have found each other
        source, target = (read_config(folder / side) for side in ("source", "target"))
        longest = max(recipe.train.max_tokens, int(corpus.lengths[:, :2].max(initial=0)))
        if (source, target, longest) != (recipe.source, recipe.target, recipe.train.max_tokens):
            console.say(f"as the corpus was prepared: source {source}; target {target}; up to {longest} tokens a side")
        return self._train(
            console,
            replace(recipe, source=source, target=target, train=replace(recipe.train, max_tokens=longest)),
            self.data.name,
            f"{self.data.name}: {len(corpus):,} pairs to train on, {len(valid):,} to validate.",
            {"valid": valid},
            lambda run, strategy: run.train_prepared(
                corpus, self.data.name, valid, console.say, console.show, self.options, strategy
            ),
        )

    def _train(
        self,
        console: Console,
        recipe: Recipe,
        name: str,
        told: str,
        parts: Mapping[str, Sequence[Pair]],
        action: Callable[[Run, Strategy | None], None],
    ) -> Path:
        """Opens the run, carries training out and evaluates ``parts``.

        Training is spread over this machine's GPUs, or over the workers that ``TF_CONFIG`` names, of which the chief
        alone evaluates.
        """
        from nmt_keras.evaluation.metrics import require_tokenizer
        from nmt_keras.runs import Run
        from nmt_keras.training import find_strategy, is_chief, is_finished, is_first_worker

        own = self.recipe is None and self.width == 1.0
        folder = self.run or Path("runs") / (name if own else f"{name}-{recipe.name}")
        data = with_languages_of(folder, self.data)
        if is_first_worker():
            require_tokenizer(data.languages[1])  # which evaluation needs after training
        make_run_folder(folder)
        begun = is_run(folder)
        if self.minutes is self.epochs is self.steps is None and begun:
            recipe = _as_long_as_begun(recipe, read_recipe(folder))
        run = Run(folder, recipe)
        finished = is_finished(folder)
        if finished and not is_first_worker():
            return folder
        strategy = None if finished else find_strategy()  # workers that are done do not answer any more
        console.say(f"{told} Run directory: {folder}")
        if is_chief(strategy) and not begun:
            write_origin(folder, data)
        action(run, strategy)
        console.close()
        if not is_chief(strategy):
            return folder
        write_origin(folder, data)
        scores = run.scores()
        if wanting := [part for part in parts if part not in scores]:
            translator = run.translator()
            for part in wanting:
                console.say(f"translating {part}, {len(parts[part]):,} sentences")
                run.evaluate(translator, part, parts[part], data.languages[1])
        for part, score in run.scores().items():
            console.say(
                f"{part}: BLEU {score['bleu']}, chrF {score['chrf']}, exact {score['exact']} % "
                f"({score['search']}, {score['sentences_per_s']} sentences/s; {score['signature']})"
            )
        return folder


def training_defaults(arguments: Sequence[str]) -> Train:
    """What a command line of ``nmt train`` changes: the recipe it names, or its run's, or the corpus's own.

    A run that is named says which corpus, too.

    Args:
        arguments: what follows ``train``.

    Raises:
        ValueError: there is no such recipe.
    """
    name, run = recipe_name(arguments), named_run(arguments)
    data = CorpusOptions() if run is None else read_origin(run)
    if name is not None:
        return Train(name, data=data, settings=find_recipe(name))
    if run is not None:
        return Train(data=data, settings=read_recipe(run))
    of_sample = ("--corpus", SAMPLE_NAME) in pairwise(arguments) or f"--corpus={SAMPLE_NAME}" in arguments
    return Train(settings=SAMPLE if of_sample else SPANISH_ENGLISH)


def recipe_name(arguments: Sequence[str]) -> str | None:
    """The recipe that begins a command line, if one does."""
    return arguments[0] if arguments and not arguments[0].startswith("-") else None


def _as_long_as_begun(recipe: Recipe, stored: Recipe) -> Recipe:
    """``recipe``, trained as long as was said when its run was begun, unless its own fields say otherwise."""
    documented = RECIPES.get(recipe.name)
    if documented is None or _lengths(documented.train) != _lengths(recipe.train):
        return recipe
    return _lasting(recipe, *_lengths(stored.train))


def _lengths(train: TrainConfig) -> tuple[int | None, float | None, float | None]:
    return train.steps, train.epochs, train.minutes


def _lasting(recipe: Recipe, steps: int | None, epochs: float | None, minutes: float | None) -> Recipe:
    return replace(recipe, train=replace(recipe.train, steps=steps, epochs=epochs, minutes=minutes))
