"""``nmt demo``: see :mod:`nmt_keras.demo`."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

from nmt_keras.cli.command import Command, Console
from nmt_keras.cli.train import Train
from nmt_keras.corpus import SAMPLE_NAME, CorpusOptions, CorpusUnavailable
from nmt_keras.recipes import CONDITIONAL_GRU, SAMPLE, find_recipe
from nmt_keras.runs.directory import with_languages_of

FALLING_BACK = (
    "The demo continues with the built-in sample corpus: sentences from a small grammar of about 400 words. Its scores "
    "cannot be compared with those of a real corpus. For the real corpus, run again with a network connection, or pass "
    "a copy: nmt demo --corpus path/to/spa-eng.zip (make demo CORPUS=path/to/spa-eng.zip)."
)


@dataclass(frozen=True)
class Demo(Command):
    """Run all steps from the corpus to a REST answer: train, evaluate, translate, plot, export and serve."""

    data: Annotated[CorpusOptions, tyro.conf.arg(name="")] = field(default_factory=CorpusOptions)
    minutes: float | None = None
    """Training time in minutes, including compilation. Default: the training time of the recipe."""
    recipe: str | None = None
    """Name of a recipe, or a recipe file. Default: the recipe for the corpus."""

    def __call__(self, console: Console) -> None:
        """Runs the demo."""
        from nmt_keras.corpus.loading import load_corpus
        from nmt_keras.demo import announce_steps, demonstrate

        steps, data = announce_steps(console.say), self.data
        recipe = find_recipe(self.recipe) if self.recipe else CONDITIONAL_GRU
        next(steps)
        try:
            corpus = load_corpus(data, recipe.corpus, Path("data"), console.say)
        except CorpusUnavailable as unavailable:
            console.say(f"{unavailable}\n{FALLING_BACK}")
            data = replace(data, corpus=(SAMPLE_NAME,), valid=(), test=())
            corpus = load_corpus(data, recipe.corpus, Path("data"), console.say)
        next(steps)
        if self.recipe is None and corpus.name == SAMPLE_NAME:
            recipe = SAMPLE
        train = Train(self.recipe, data=data, minutes=self.minutes, settings=recipe)
        folder = train.train(console, train.chosen(), corpus)
        demonstrate(corpus, with_languages_of(folder, data).languages, folder, console.say, steps)
