"""A translator that runs an exported SavedModel."""

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self

import tensorflow as tf

from nmt_keras.config import SearchConfig, require
from nmt_keras.io.files import literal
from nmt_keras.translation.records import Decoded, NBest, Scored, best_of
from nmt_keras.translation.translator import GREEDY, Translator

# A graph: eager operations of several threads fail on a GPU (https://github.com/tensorflow/tensorflow/issues/123980).
_best_of = tf.function(best_of, autograph=False, reduce_retracing=True)


class ServedTranslator(Translator):
    """Translates with the signatures of an exported version, without the code that trained it.

    ``decode`` calls ``beam`` if the beam size of ``search`` exceeds 1, else ``align``, so that it answers like
    ``serving_default``, with tokens and alignment. ``decode_nbest`` calls ``beam``; ``decode_scored`` calls ``score``.

    Args:
        path: Folder of the version, ``saved_models/NAME/VERSION``.
        search: Search of ``serving_default``; greedy by default.

    Raises:
        ValueError: The SavedModel has no signature ``align``. Methods raise ValueError if their signature is missing.
    """

    def __init__(self, path: str | Path, search: SearchConfig = GREEDY):
        super().__init__(name="translator")
        self.path, self.search, self._exported_search = Path(path), search, search
        self.loaded = tf.saved_model.load(str(literal(self.path)))
        self._signature("align")

    @property
    def searches(self) -> Sequence[SearchConfig]:
        """The search of ``serving_default``, and the same with beam size 1."""
        return self._exported_search, self._exported_search.greedy

    def with_search(self, search: SearchConfig) -> Self:
        """Returns a translator that runs the same loaded export with another of its searches.

        Args:
            search: One of ``searches``.

        Raises:
            ValueError: the export has no such search.
        """
        require(search in self.searches, "search", " or ".join(map(str, self.searches)), str(search))
        other = copy(self)
        other.search = search
        return other

    @property
    def hypotheses(self) -> int:
        """Number of hypotheses of each n-best list."""
        return int(self._signature("beam").structured_outputs["scores"].shape[1])

    def decode(self, text: tf.Tensor) -> Decoded:
        """Returns the best translation of each sentence.

        Args:
            text: [B] string. Sentences.
        """
        if self.search.beam_size > 1:
            return _best_of(self.decode_nbest(text))
        return Decoded(**self._signature("align")(text=text))

    def decode_nbest(self, text: tf.Tensor) -> NBest:
        """Returns the n-best list of each sentence.

        Args:
            text: [B] string. Sentences.
        """
        return NBest(**self._signature("beam")(text=text))

    def decode_scored(self, source: tf.Tensor, target: tf.Tensor) -> Scored:
        """Returns the log-probability of each target as a translation of its source.

        Args:
            source: [B] string. Sentences.
            target: [B] string. A translation of each sentence.
        """
        return Scored(**self._signature("score")(source=source, target=target))

    def _signature(self, name: str) -> Any:
        require(
            name in self.loaded.signatures,
            str(self.path),
            f"a SavedModel with signature {name!r}",
            sorted(self.loaded.signatures),
            "Export a translator with nmt_keras.export.",
        )
        return self.loaded.signatures[name]
