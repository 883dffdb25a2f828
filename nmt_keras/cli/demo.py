"""``nmt demo``: see :mod:`nmt_keras.demo`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

from nmt_keras.cli.command import Command
from nmt_keras.cli.console import Console
from nmt_keras.cli.train import Train
from nmt_keras.config import Recipe
from nmt_keras.corpus.options import CorpusOptions
from nmt_keras.corpus.sample import SAMPLE_NAME
from nmt_keras.recipes import SAMPLE, SPANISH_ENGLISH, SPANISH_ENGLISH_BFLOAT16, find_recipe
from nmt_keras.runs.origin import with_languages_of

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
    """Name of a recipe, or a recipe file. Default: the recipe for the corpus and the processor."""

    def __call__(self, console: Console) -> None:
        """Runs the demo."""
        from nmt_keras.corpus import CorpusUnavailable
        from nmt_keras.corpus.loading import load_corpus
        from nmt_keras.demo import announce_steps, demonstrate

        steps, data = announce_steps(console.say), self.data
        recipe = find_recipe(self.recipe) if self.recipe else SPANISH_ENGLISH
        next(steps)
        try:
            corpus = load_corpus(data, recipe.corpus, Path("data"), console.say)
        except CorpusUnavailable as unavailable:
            console.say(f"{unavailable}\n{FALLING_BACK}")
            data = replace(data, corpus=(SAMPLE_NAME,), valid=(), test=())
            corpus = load_corpus(data, recipe.corpus, Path("data"), console.say)
        next(steps)
        name = self.recipe
        if name is None:
            recipe = choose_recipe(corpus.name, self.minutes)
            if recipe == SPANISH_ENGLISH_BFLOAT16:
                name = recipe.name
                console.say(f"The processor has bfloat16 instructions, so the demo trains the wider layers of {name}.")
        train = Train(name, data=data, minutes=self.minutes, settings=recipe)
        folder = train.train(console, train.chosen(), corpus)
        demonstrate(corpus, with_languages_of(folder, data).languages, folder, console.say, steps)


def choose_recipe(corpus_name: str, minutes: float | None) -> Recipe:
    """Returns the recipe for a corpus, a training time in minutes, and this machine.

    The wider layers of ``rnnsearch-small-bfloat16`` give a higher BLEU after at least ten minutes, on a processor on
    which its updates are faster.
    """
    from nmt_keras.training.execution import speeds_up_bfloat16

    if corpus_name == SAMPLE_NAME:
        return SAMPLE
    long_enough = minutes is None or minutes >= 10.0
    return SPANISH_ENGLISH_BFLOAT16 if long_enough and speeds_up_bfloat16() else SPANISH_ENGLISH
