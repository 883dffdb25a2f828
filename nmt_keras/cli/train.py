"""``nmt train`` trains a run and evaluates it. ``nmt demo`` then uses the run; see :mod:`nmt_keras.demo`."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

from nmt_keras.cli.command import RARE, SETTINGS, Command, Console, named_corpus, named_run, values_of
from nmt_keras.config import Recipe, RunOptions, require
from nmt_keras.corpus import SAMPLE_NAME, SET_NAMES, CorpusOptions, CorpusUnavailable, SplitCorpus, evaluation_pairs
from nmt_keras.io.files import read_rows
from nmt_keras.io.lines import CUT, message, tell_lines
from nmt_keras.io.usage import one_line_errors
from nmt_keras.languages import spaced
from nmt_keras.manifest import exported_version
from nmt_keras.recipes import CONDITIONAL_GRU, SAMPLE, SMALL_CORPUS, find_recipe
from nmt_keras.runs.directory import LOG, initial_recipe, is_run, require_corpus, with_languages_of

if TYPE_CHECKING:
    from nmt_keras.runs.training_data import PreparedSplit

SMALL_CORPUS_PAIRS = 60_000
"""Number of training pairs below which ``--languages`` takes the recipe ``small-corpus``."""

WORDS_PER_MINUTE = 150_000
"""Target words that ``small-corpus`` trains on per minute on two cores, AMD EPYC. 17 epochs of 29,000 pairs of 12.2
words took 24 minutes with layers of two thirds of the width, whose updates take 0.6 times as long."""

LOW_BLEU = 5.0  # BLEU below which ``nmt train`` names ``nmt check``

FALLING_BACK = (
    "The demo continues with the built-in sample corpus: sentences from a small grammar. Its scores "
    "cannot be compared with those of a real corpus. For the real corpus, run again with a network connection, or pass "
    "a copy: nmt demo --corpus path/to/spa-eng.zip (make demo CORPUS=path/to/spa-eng.zip)."
)


@dataclass(frozen=True)
class Train(Command):
    """Train a translator or resume its training, evaluate it, and print its run directory.

    RECIPE comes first. Every field of the recipe is an option: --model.dropout 0.3, --train.learning-rate 0.001.
    """

    rare: ClassVar[Collection[str]] = [name for name in RARE if name != "options"]

    idle: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "--prepared": ("--source.", "--target.", "--corpus.", "--train.augmentation", "--tables"),
        "--valid": ("--corpus.split", "--corpus.seed"),
    }

    recipe: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE")] = None
    """Recipe: a name from nmt recipes, or a file (YAML, JSON). Default: the recipe of the run or of --init-from, else
    the recipe for the corpus."""
    run: Path | None = None
    """Run directory. Default: runs/CORPUS, or runs/CORPUS-RECIPE with RECIPE or --width."""
    data: Annotated[CorpusOptions, tyro.conf.arg(name="")] = field(default_factory=CorpusOptions)
    minutes: float | None = None
    """Training time in minutes, including compilation. Replaces the recipe's training time."""
    epochs: float | None = None
    """Number of passes over the training pairs. Replaces the recipe's training time."""
    steps: int | None = None
    """Number of updates. Replaces the recipe's training time."""
    width: float = 1.0
    """Factor of the size of every layer of the recipe. With 0.25, a paper's model fits on a laptop."""
    options: Annotated[RunOptions, tyro.conf.arg(name="")] = field(default_factory=RunOptions)
    settings: Annotated[Recipe, tyro.conf.arg(name="")] = CONDITIONAL_GRU

    @classmethod
    def defaults(cls, arguments: Sequence[str]) -> Train:
        """Returns a command with the recipe to train and the corpus options of an existing run.

        The recipe is RECIPE, else the recipe of the run, else that of ``--init-from``, else the one for the corpus.

        Raises:
            ValueError: there is no such recipe.
        """
        name, run, tuned = recipe_name(arguments), named_run(arguments), named_run(arguments, "--init-from")
        data = named_corpus(arguments)
        if name is not None:
            return cls(name, data=data, settings=find_recipe(name))
        if copied := run or tuned:
            return cls(data=data, settings=initial_recipe(copied))
        return cls(settings=SAMPLE if SAMPLE_NAME in values_of("--corpus", arguments) else CONDITIONAL_GRU)

    def check(self) -> None:
        """Raises ValueError if a number is not positive, there is more than one length, or --init-from is wrong."""
        for name in ("steps", "epochs", "minutes", "width"):
            number = getattr(self, name)
            require(number is None or number > 0, f"--{name}", "a positive number", number)
        require(self.lengths.count(None) >= 2, "--steps, --epochs, --minutes", "at most one of them", self.lengths)
        if (tuned := self.options.init_from) is not None:
            found = is_run(Path(tuned)) or exported_version(Path(tuned))
            require(bool(found), "--init-from", "a run directory or an exported version", tuned)
            hint = "The recipe of the run or version in --init-from is used."
            require(self.recipe is None, "RECIPE", "none with --init-from", self.recipe, hint)
            require(self.data.prepared is None, "--prepared", "none with --init-from", self.data.prepared)

    @property
    def lengths(self) -> tuple[int | None, float | None, float | None]:
        """The options of the training time."""
        return self.steps, self.epochs, self.minutes

    def __call__(self, console: Console) -> None:
        """Trains, evaluates and prints the run directory. Of several workers, only the first prints it."""
        from nmt_keras.corpus.loading import load_corpus
        from nmt_keras.training import is_first_worker

        recipe = self.chosen()
        if self.run is not None:
            require_corpus(self.run, self.data)
        if self.data.prepared is None:
            corpus = load_corpus(
                self.data, recipe.corpus, Path("data"), console.say, with_alignments=True, filters=recipe.filters
            )
            folder = self.train(console, self._for_size(console, recipe, corpus), corpus)
        else:
            folder = self.train(console, *self._prepared(console, recipe, Path(self.data.prepared)))
        if is_first_worker():
            print(folder)

    def chosen(self) -> Recipe:
        """Returns the recipe with the width and the training time of the options.

        Raises:
            ValueError: the recipe is invalid.
        """
        is_scaled = self.recipe is None and self.settings.name.endswith(f"-x{self.width:g}")  # the recipe of a run
        recipe = self.settings if is_scaled or self.width == 1.0 else self.settings.scaled(self.width)
        if self.lengths != (None, None, None):
            train = replace(recipe.train, steps=self.steps, epochs=self.epochs, minutes=self.minutes)
            recipe = replace(recipe, train=train)
        return recipe

    def _for_size(self, console: Console, recipe: Recipe, corpus: SplitCorpus) -> Recipe:
        """Returns the recipe for the size of a corpus of ``--languages``, unless one is given or continued."""
        is_given = self.recipe is not None or self.width != 1.0 or self.options.init_from is not None
        if self.data.languages is None or is_given or (self.run is not None and is_run(self.run)):
            return recipe
        if len(corpus.train) < SMALL_CORPUS_PAIRS:  # the recipe's fields on the command line apply to this one
            with one_line_errors("nmt train"):
                small = tyro.cli(Train, args=self.typed, default=Train(settings=SMALL_CORPUS), config=SETTINGS)
            recipe = small.chosen()
        minutes = recipe.train.minutes
        if minutes is None and recipe.train.epochs is not None:
            words = sum(len(spaced(pair.target).split()) for pair in corpus.train)
            minutes = max(1, recipe.train.epochs * words / WORDS_PER_MINUTE)
        time = "" if minutes is None else f", about {minutes:.0f} minutes on two cores"
        console.say(f"{len(corpus.train):,} training pairs: recipe {recipe.name}{time}")
        return recipe

    def _prepared(self, console: Console, recipe: Recipe, folder: Path) -> tuple[Recipe, PreparedSplit]:
        """Returns the recipe with the tokenizers and length limit of a prepared corpus, and the corpus itself."""
        from nmt_keras.corpus.loading import load_pairs
        from nmt_keras.corpus.shards import PreparedCorpus
        from nmt_keras.runs.training_data import PreparedSplit
        from nmt_keras.text import read_config

        corpus = PreparedCorpus(folder)
        valid = load_pairs(self.data, self.data.valid, console.say)
        # loading the tokenizers would initialise TensorFlow before the workers have found each other
        source, target = (read_config(folder / side) for side in ("source", "target"))
        longest = max(recipe.train.max_tokens, int(corpus.lengths[:, :2].max(initial=0)))
        adapted = replace(recipe, source=source, target=target, train=replace(recipe.train, max_tokens=longest))
        if adapted != recipe:
            console.say(
                f"settings of the prepared corpus: source {source}; target {target}; at most {longest} tokens per side"
            )
        return adapted, PreparedSplit(self.data.name, corpus, valid)

    def train(self, console: Console, recipe: Recipe, corpus: SplitCorpus | PreparedSplit) -> Path:
        """Trains and evaluates on a corpus, and returns the run directory.

        Uses all GPUs of this machine, or the workers in ``TF_CONFIG``. Of several workers, only the chief evaluates.
        """
        from nmt_keras.check.run import check_log
        from nmt_keras.evaluation.metrics import require_tokenizer
        from nmt_keras.runs import Run
        from nmt_keras.training import find_strategy, is_chief, is_finished, is_first_worker

        own = self.recipe is None and self.width == 1.0
        folder = self.run or Path("runs") / (corpus.name if own else f"{corpus.name}-{recipe.name}")
        parent = self.options.init_from
        data = with_languages_of(folder if parent is None or is_run(folder) else Path(parent), self.data)
        if is_first_worker():
            require_tokenizer(data.target_language, data.bleu_tokenizer)  # for the evaluation after training
        require(is_run(folder) or not self.options.extends, "--run", "an existing run to train longer", str(folder))
        finished = is_finished(folder) and not self.options.extends
        run = Run(folder, recipe)
        if finished and not is_first_worker():
            return folder
        strategy = None if finished else find_strategy()  # finished workers no longer answer
        languages = f"{data.source_language or 'source'} -> {data.target_language or 'target'}"
        first = corpus.train[0] if isinstance(corpus, SplitCorpus) else corpus.train.first
        for name, pair in ((languages, first), ("validation", corpus.valid[0])):
            source, target = (message(side, 80) for side in pair)
            console.say(f'{name}: "{source}" -> "{target}"')
        tested = f", {len(corpus.test):,} to test" if corpus.test else ""
        console.say(
            f"{corpus.name}: {len(corpus.train):,} pairs to train on, {len(corpus.valid):,} to validate{tested}. "
            f"Run directory: {folder}"
        )
        run.train(corpus, console.say, console.show, self.options, strategy, origin=data)
        console.close()
        if not is_chief(strategy):
            return folder
        parts = {"valid": corpus.valid, "test": corpus.test}
        scored, quoted = run.scores(), shlex.quote(str(folder))
        if missing := [part for part, pairs in parts.items() if pairs and part not in scored]:
            translator = run.translator()
            for part in missing:
                pairs = evaluation_pairs(parts[part], key_side=corpus.key_side)
                few = f" of {len(parts[part]):,} (for all: nmt evaluate {quoted} --part {part} --all-pairs)"
                sentences = f"{len(pairs):,} sentences{few * (len(pairs) < len(parts[part]))}"
                console.say(f"translating the {SET_NAMES[part]}, {sentences}")
                found = run.evaluate(translator, part, pairs, data.target_language, data.bleu_tokenizer)
                tell_lines(console.say, CUT, found.cut, f"the {SET_NAMES[part]}", "pair")
        for part, score in run.scores().items():
            console.say(
                f"{part}: BLEU {score['bleu']}, chrF {score['chrf']}, exact {score['exact']} % "
                f"({score['search']}, {score['sentences_per_s']} sentences/s; {score['signature']})"
            )
        signs = [each.what for each in check_log(read_rows(folder / LOG)[0], recipe)]
        signs += [f"{part}: BLEU is low." for part, score in run.scores().items() if score["bleu"] < LOW_BLEU]
        if signs:
            console.say(f"Warning: {signs[0]} To find the cause: nmt check {quoted}")
        return folder


@dataclass(frozen=True)
class Demo(Command):
    """Run all steps from the corpus to a REST answer: train, evaluate, translate, plot, export and serve."""

    data: Annotated[CorpusOptions, tyro.conf.arg(name="")] = field(default_factory=CorpusOptions)
    minutes: float | None = None
    """Training time in minutes, including compilation. Default: the training time of the recipe."""
    recipe: str | None = None
    """Name of a recipe, or a recipe file. Default: the recipe for the corpus."""

    def check(self) -> None:
        """Raises ValueError if the training time is not positive."""
        require(self.minutes is None or self.minutes > 0, "--minutes", "a positive number", self.minutes)

    def __call__(self, console: Console) -> None:
        """Runs the demo."""
        from nmt_keras.corpus.loading import load_corpus
        from nmt_keras.demo import announce_steps, demonstrate

        steps, data = announce_steps(console.say), self.data
        recipe = find_recipe(self.recipe) if self.recipe else CONDITIONAL_GRU
        next(steps)
        try:
            corpus = load_corpus(
                data, recipe.corpus, Path("data"), console.say, with_alignments=True, filters=recipe.filters
            )
        except CorpusUnavailable as unavailable:
            console.say(f"{unavailable}\n{FALLING_BACK}")
            data = replace(data, corpus=(SAMPLE_NAME,), languages=None, valid=(), test=(), alignments=None)
            corpus = load_corpus(data, recipe.corpus, Path("data"), console.say, filters=recipe.filters)
        next(steps)
        if self.recipe is None and corpus.name == SAMPLE_NAME:
            recipe = SAMPLE
        train = Train(self.recipe, data=data, minutes=self.minutes, settings=recipe)
        folder = train.train(console, train.chosen(), corpus)
        demonstrate(corpus, with_languages_of(folder, data).language_tags, folder, console.say, steps)


def recipe_name(arguments: Sequence[str]) -> str | None:
    """Returns the recipe name at the start of a command line; ``None`` if there is none."""
    return arguments[0] if arguments and not arguments[0].startswith("-") else None
