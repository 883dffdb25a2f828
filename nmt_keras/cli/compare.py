"""``nmt compare``: trains recipes by the same protocol, with several seeds, and compares their scores."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from nmt_keras.cli.command import RARE, Command, Console, Flag
from nmt_keras.config import Recipe, require, require_choice
from nmt_keras.corpus import CorpusOptions
from nmt_keras.markdown import latex_tables
from nmt_keras.recipes import find_recipe


@dataclass(frozen=True)
class Compare(Command):
    """Train recipes with several seeds by the same protocol, score them on the test set, and print a table.

    Pilots, the beginnings of runs, choose each recipe's learning rate. All runs then make the same number of updates.
    Training pairs are not varied (``TrainConfig.augmentation``).
    To resume a stopped comparison, run the same command again.
    """

    rare: ClassVar[Collection[str]] = [name for name in RARE if name != "width"]

    recipes: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE ...")]
    """Names or files (YAML, JSON) of recipes, in the order of the table."""
    to: Path
    """Folder of the results: a table, a JSON file per run, translations and run directories."""
    updates: int
    """Number of updates of each run. The recipes' own training times are ignored."""
    data: Annotated[CorpusOptions, tyro.conf.arg(name="")] = field(default_factory=CorpusOptions)
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of each recipe's runs."""
    rates: tuple[float, ...] = (0.5, 1.0, 2.0)
    """Candidate learning rates, as factors of the recipe's rate. A single factor needs no pilot."""
    baseline: str | None = None
    """The recipe that all others are compared with. Default: each recipe is compared with the row above."""
    jobs: int = 1
    """Number of runs trained at the same time. If there are several, each process has its share of the cores."""
    width: float = 1.0
    """Factor of the size of every layer. With 0.25, a paper's model fits on a laptop."""
    gold: Path | None = None
    """A file of sentence pairs with word alignments, in three columns: source words, target words, and links such as
    0-0 (sure) and 1p2 (possible). Adds the alignment error rate."""
    latex: Flag = False
    """Print the table in LaTeX instead of Markdown. Finished runs are not trained again."""

    def check(self) -> None:
        """Raises ValueError if a recipe or an option is invalid."""
        require(bool(self.recipes), "RECIPE", "at least one recipe", self.recipes)
        found = {(recipe.corpus, recipe.filters) for recipe in self.systems}
        require(len(found) == 1, "RECIPE", "recipes with the same selection, split and filters", self.recipes)
        for name, value in {"--updates": self.updates, "--jobs": self.jobs}.items():
            require(value > 0, name, "1 or more", value)
        require(bool(self.rates) and min(self.rates) > 0, "--rates", "at least one factor, all positive", self.rates)
        distinct = 0 < len(self.seeds) == len({*self.seeds}) and min(self.seeds) >= 0
        require(distinct, "--seeds", "at least one seed, all different and not negative", self.seeds)
        if self.baseline is not None:
            require_choice("--baseline", self.recipes, self.baseline)

    @property
    def systems(self) -> list[Recipe]:
        """The recipes without augmentation, with their layer sizes multiplied by ``width``."""
        found = [replace(each, train=replace(each.train, augmentation=0.0)) for each in map(find_recipe, self.recipes)]
        return found if self.width == 1.0 else [recipe.scaled(self.width) for recipe in found]

    @property
    def baselines(self) -> dict[str, str | None]:
        """The baseline of each system, by name, if there is one for all. It is itself not compared."""
        if self.baseline is None:
            return {}
        systems = self.systems
        baseline = systems[self.recipes.index(self.baseline)].name
        return {system.name: None if system.name == baseline else baseline for system in systems}

    def __call__(self, console: Console) -> None:
        """Trains the missing runs and prints the table."""
        from nmt_keras.corpus.loading import load_corpus
        from nmt_keras.evaluation.gold import read_gold
        from nmt_keras.evaluation.metrics import require_tokenizer
        from nmt_keras.runs.protocol import Study, run_study

        language = self.data.language_tags[1]
        require_tokenizer(language, self.data.bleu_tokenizer)
        systems = self.systems
        study = Study(
            folder=self.to,
            systems=systems,
            corpus=load_corpus(
                self.data,
                systems[0].corpus,
                Path("data"),
                console.say,
                with_alignments=True,
                filters=systems[0].filters,
            ),
            updates=self.updates,
            rates=self.rates,
            seeds=self.seeds,
            language=language,
            tokenizer=self.data.bleu_tokenizer,
            gold=read_gold(self.gold) if self.gold else (),
            origin=self.data,
            baselines=self.baselines,
        )
        run_study(study, self.jobs, console.say)
        table = (self.to / "table.md").read_text("utf-8")
        print(latex_tables(table) if self.latex else table, end="")
        console.say(f"written: {self.to / 'table.md'}")
