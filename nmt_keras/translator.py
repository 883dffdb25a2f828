"""Translators: strings in, translations with their alignments out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from nmt_keras.config import PAD, SearchConfig
from nmt_keras.model import Seq2Seq
from nmt_keras.search import Hypotheses, greedy, sample
from nmt_keras.text import Text


class Translation(NamedTuple):
    """One translated sentence."""

    text: str
    tokens: list[str]  # T target tokens as they are displayed; the last is END's "" unless the length limit came first
    score: float  # nats per token: what hypotheses are ranked by, higher is better
    log_prob: float  # nats: log p(tokens | source), END included
    alignment: np.ndarray  # [T, S] float32; row i says where target token i looked, and sums to 1
    source_tokens: list[str]  # S source tokens as the user wrote them; the last is END's ""
    truncated: bool  # whether the source was longer than the model reads, so that its rest is not translated


class Decoded(NamedTuple):
    """A batch of translations as tensors: the outputs of an export's ``align`` signature, by name."""

    translation: tf.Tensor  # [B] string
    score: tf.Tensor  # [B] float32, nats per token
    log_prob: tf.Tensor  # [B] float32, nats
    truncated: tf.Tensor  # [B] bool
    source_tokens: tf.Tensor  # [B, S] string
    source_lengths: tf.Tensor  # [B] int32, END included
    target_tokens: tf.Tensor  # [B, T] string
    target_lengths: tf.Tensor  # [B] int32, END included
    alignment: tf.Tensor  # [B, T, S] float32


TEXT = tf.TensorSpec([None], tf.string, name="text")


class Translator(tf.Module):
    """Translates sentences. Subclasses give ``decode``; ``translate`` is what people call."""

    @abstractmethod
    def decode(self, text: tf.Tensor) -> Decoded:
        """Translates a batch: text [B] string."""

    def translate(self, sentences: Sequence[str], batch_size: int = 64) -> list[Translation]:
        """Translates sentences, any number of them, in the order given.

        Args:
            sentences: a list of strings; none is too long or too strange: see ``Translation.truncated``.
            batch_size: sentences of similar length that are translated together. It changes speed, not translations,
                except those that are drawn at a temperature: a draw depends on the sentence's place in its batch.

        Raises:
            TypeError: ``sentences`` is no list, or holds something else than strings.
            ValueError: ``batch_size`` is not positive.
        """
        is_list = isinstance(sentences, Sequence) and not isinstance(sentences, str | bytes)
        if not is_list or not all(isinstance(s, str) for s in sentences):
            raise TypeError(f"sentences: expected a list of strings, received {sentences!r:.80}. Pass [sentence].")
        if batch_size < 1:
            raise ValueError(f"batch_size: expected at least 1, received {batch_size}.")
        order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
        found: dict[int, Translation] = {}
        for begin in range(0, len(order), batch_size):
            rows = order[begin : begin + batch_size]
            texts = [sentences[i].encode("utf-8", "replace") for i in rows]
            found |= zip(rows, _translations(self.decode(tf.constant(texts))), strict=True)
        return [found[i] for i in range(len(sentences))]


def _translations(decoded: Decoded) -> list[Translation]:
    """The rows of a batch, without their padding."""
    columns = Decoded(*(column.numpy() for column in decoded))
    result = []
    for row in zip(*columns, strict=True):
        one = Decoded(*row)
        source, target = int(one.source_lengths), int(one.target_lengths)
        result.append(
            Translation(
                text=one.translation.decode(),
                tokens=[token.decode() for token in one.target_tokens[:target]],
                score=float(one.score),
                log_prob=float(one.log_prob),
                alignment=one.alignment[:target, :source],
                source_tokens=[token.decode() for token in one.source_tokens[:source]],
                truncated=bool(one.truncated),
            )
        )
    return result


class ModelTranslator(Translator):
    """Translates with a model and the texts of its two sides.

    A hypothesis ends at END, at ``search.max_tokens``, or at 2 x source tokens + 10, whichever comes first: a limit
    that depends on the sentence alone, never on its batch-mates.
    """

    def __init__(self, source_text: Text, target_text: Text, model: Seq2Seq, search: SearchConfig):
        super().__init__(name="translator")
        self.source_text, self.target_text, self.model, self.search = source_text, target_text, model, search

    @tf.function(input_signature=[TEXT], autograph=False)
    def decode(self, text: tf.Tensor) -> Decoded:
        """Translates a batch: text [B] string."""
        source = self.source_text.encode(text)
        ids = _at_least_one_column(source.ids, PAD)
        encoding = self.model.encoder(ids, tf.not_equal(ids, PAD))
        hypotheses = self._search(encoding)
        target, lengths = hypotheses.ids[:, 0], hypotheses.lengths[:, 0]
        return Decoded(
            translation=self.target_text.decode(target, lengths),
            score=hypotheses.scores[:, 0],
            log_prob=hypotheses.log_probs[:, 0],
            truncated=source.truncated,
            source_tokens=_at_least_one_column(source.surface, ""),
            source_lengths=source.lengths,
            target_tokens=self.target_text.surfaces(target),
            target_lengths=lengths,
            alignment=hypotheses.alignments[:, 0],
        )

    def _search(self, encoding: tf.Tensor) -> Hypotheses:
        decoder = self.model.decoder
        memory = decoder.remember(encoding)
        limits = tf.minimum(self.search.max_tokens, 2 * encoding.lengths + 10)
        if self.search.temperature > 0.0:
            return sample(
                decoder.step,
                decoder.start(memory),
                memory,
                limits,
                temperature=self.search.temperature,
                seed=self.search.seed,
            )
        return greedy(decoder.step, decoder.start(memory), memory, limits)


def _at_least_one_column(x: tf.Tensor, filler: int | str) -> tf.Tensor:
    """``x`` [B, S]; an empty batch, which has no column, gets one, so that loops over S have a step to take."""
    return tf.pad(x, [[0, 0], [0, tf.maximum(0, 1 - tf.shape(x)[1])]], constant_values=filler)


class ServedTranslator(Translator):
    """Translates with an exported version, through its ``align`` signature; needs none of the code that made it.

    Args:
        path: saved_models/NAME/VERSION.

    Raises:
        ValueError: the SavedModel has no ``align`` signature.
    """

    def __init__(self, path: str | PathLike[str]):
        super().__init__(name="translator")
        self.loaded = tf.saved_model.load(str(Path(path)))
        if "align" not in self.loaded.signatures:
            raise ValueError(
                f"{path}: expected a SavedModel with the signature 'align', received one with "
                f"{sorted(self.loaded.signatures)}. Export a translator with nmt_keras.export."
            )

    def decode(self, text: tf.Tensor) -> Decoded:
        """Translates a batch: text [B] string."""
        return Decoded(**self.loaded.signatures["align"](text=text))
