"""Trains a run and kills itself with SIGKILL after an update.

Arguments: the run directory, a file with a recipe (JSON), a file with a corpus (JSON), the number of the update (0 for
none) and, for sums in a fixed order, ``deterministic``.
"""

import json
import os
import signal
import sys
from pathlib import Path

from nmt_keras.config import Recipe, RunOptions
from nmt_keras.corpus import Pair, SplitCorpus
from nmt_keras.runs import Run

folder, recipe, corpus, last = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
options = RunOptions(deterministic="deterministic" in sys.argv)
name, *parts, key_side, _ = json.loads(corpus.read_text())


def kill(step, *_):
    if step == last:
        os.kill(os.getpid(), signal.SIGKILL)


Run(folder, Recipe.from_json(recipe.read_text())).train(
    SplitCorpus(name, *([Pair(*pair) for pair in part] for part in parts), key_side),
    report=print,
    show=kill,
    options=options,
)
