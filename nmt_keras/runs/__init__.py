"""Run directories: create, train, validate, load and export runs.

    runs/NAME/
      recipe.json      the recipe, with the format number of the directory
      corpus.json      the corpus: name, number of pairs and sha256 of each set
      origin.json      the corpus options of ``nmt train``
      source/ target/  the two tokenizers
      checkpoints/     last/ and best/
      initial/         initial weights of a fine-tuned run, as a checkpoint (``RunOptions.init_from``)
      lexicon.tsv      replacements of unknown words: source word, tab, target word (``Run.learn_lexicon``)
      lock             lock file of the process that trains, removed at the end
      log.jsonl        one row per log interval and per validation
      scores.json      BLEU and chrF of the validation and test set
      tensorboard/     scalars and profiles (``RunOptions.tensorboard``, ``RunOptions.profile``)

directory       names and formats of a run's files; checks that recipe and corpus of a run have not changed
training_data   tokenizers and batches of a corpus in memory or of a prepared corpus
training        trains and validates a run
protocol        trains several systems with several seeds by the same protocol, and compares them
run             ``Run`` and ``load_runs``
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt_keras.runs.run import Run, load_runs

__all__ = ["Run", "load_runs"]


def __getattr__(name: str) -> Any:
    """Imports ``Run`` and ``load_runs`` on first use, because the command line reads recipes without TensorFlow."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nmt_keras.runs import run

    return getattr(run, name)
