"""Run directories: creating, training, validating, averaging, loading and exporting them.

    runs/NAME/
      recipe.json      the recipe, with the format number of the directory
      corpus.json      the corpus: name, number of pairs and sha256 of each part
      origin.json      the corpus options of ``nmt train``
      source/ target/  the two tokenizers
      checkpoints/     last/ and best/
      initial/         the checkpoint whose weights a fine-tuned run begins with (``RunOptions.init_from``)
      lexicon.tsv      replacements of unknown words: source word, tab, target word (``Run.learn_lexicon``)
      shortlist.npz    lexical table of ``SearchConfig.shortlist`` (``nmt shortlist``)
      lock             locked by the process that trains
      log.jsonl        one row per log interval and per validation
      scores.json      BLEU and chrF of valid and test
      tensorboard/     scalars, alignments, translations and profiles (``RunOptions.tensorboard``)

directory       the files of a run, and which changes to a run are refused
origin          origin.json
training_data   corpus in memory or prepared corpus -> tokenizers and batches
training        trains a run
protocol        trains several systems with several seeds by one protocol, and compares them
validation      loss and BLEU during training
run             ``Run`` and ``load_runs``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt_keras.runs.run import Run, load_runs

__all__ = ["Run", "load_runs"]


def __getattr__(name: str) -> Any:
    """Imports ``Run`` and ``load_runs`` on first use: the command line reads recipes without TensorFlow."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nmt_keras.runs import run

    return getattr(run, name)
