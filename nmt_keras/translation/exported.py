"""A translator that runs an exported SavedModel."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path

import tensorflow as tf

from nmt_keras.translation.records import Decoded, NBest, Scored
from nmt_keras.translation.translator import Translator


class ServedTranslator(Translator):
    """Translates with an exported version, through its signatures; needs none of the code that made it.

    ``decode`` asks ``align``, a greedy search; ``decode_nbest`` asks ``beam``; ``decode_scored`` asks ``score``.

    Args:
        path: saved_models/NAME/VERSION.

    Raises:
        ValueError: the SavedModel has no ``align`` signature; later, it has none for what is asked.
    """

    def __init__(self, path: str | PathLike[str]):
        super().__init__(name="translator")
        self.path = Path(path)
        self.loaded = tf.saved_model.load(str(self.path))
        self._ask("align")

    def decode(self, text: tf.Tensor) -> Decoded:
        """The best translations of a batch: text [B] string."""
        return Decoded(**self._ask("align")(text=text))

    def decode_nbest(self, text: tf.Tensor) -> NBest:
        """The n-best lists of a batch: text [B] string."""
        return NBest(**self._ask("beam")(text=text))

    def decode_scored(self, source: tf.Tensor, target: tf.Tensor) -> Scored:
        """The probabilities of given translations: source [B] string, target [B] string."""
        return Scored(**self._ask("score")(source=source, target=target))

    def _ask(self, signature: str) -> Callable[..., dict[str, tf.Tensor]]:
        if signature not in self.loaded.signatures:
            raise ValueError(
                f"{self.path}: expected a SavedModel with the signature {signature!r}, received one with "
                f"{sorted(self.loaded.signatures)}. Export a translator with nmt_keras.export."
            )
        return self.loaded.signatures[signature]
