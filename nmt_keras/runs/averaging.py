"""Makes a run whose weights are the mean of another run's last checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path

from nmt_keras.config import Recipe
from nmt_keras.files import make_folder, settle_below
from nmt_keras.models.seq2seq import build_model
from nmt_keras.runs.directory import CHECKPOINTS, CORPUS, LEXICON, RECIPE, SHORTLIST, write_recipe
from nmt_keras.runs.origin import ORIGIN
from nmt_keras.runs.training import load_tokenizers
from nmt_keras.training import average_weights, save_weights


def average_run(folder: Path, recipe: Recipe, count: int, made: Path) -> None:
    """Makes ``made`` a finished run with the mean of the last ``count`` checkpoints in ``folder``.

    Raises:
        FileExistsError: ``made`` holds a run.
        ValueError: ``folder`` holds fewer checkpoints.
    """
    if (made / RECIPE).exists():
        raise FileExistsError(f"{made}: expected a new run directory, received one that holds a run. Name another.")
    source, target = load_tokenizers(folder)
    model = build_model(recipe.model, source.vocabulary_size, target.vocabulary_size)
    make_folder(made)
    steps = average_weights(model, folder / CHECKPOINTS, count)
    save_weights(model, made / CHECKPOINTS, steps[-1])
    for side in ("source", "target"):
        shutil.copytree(folder / side, made / side, dirs_exist_ok=True)
    for name in (CORPUS, ORIGIN, LEXICON, SHORTLIST):
        if (folder / name).exists():
            shutil.copyfile(folder / name, made / name)
    settle_below(made)
    write_recipe(made, recipe)
