"""Encodes the sentences of a pair, and decodes translations: tokenizers, placeholders and capitals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from nmt_keras.config import UNK, require
from nmt_keras.text.capitals import in_capitals, to_lower, to_upper
from nmt_keras.text.normalisation import in_blocks, normalise
from nmt_keras.text.placeholders import (
    Copies,
    Placeholders,
    Words,
    copied_words,
    has_letters,
    in_order,
    joined,
    uncopied,
)
from nmt_keras.text.tokens import Tokenizer, Tokens, decoder_inputs, replaced


class Source(NamedTuple):
    """Encoded source sentences, with what is needed to write their translations."""

    tokens: Tokens
    copies: Copies | None  # None if the vocabularies have no placeholders
    capitals: tf.Tensor  # [B] bool, True for sentences in capitals
    has_words: tf.Tensor  # [B] bool, False for sentences without letters of the language, apart from copied words


class Codec(tf.Module):
    """The two tokenizers of a system.

    A source in capitals is read in lower case, and its translation is written in capitals. If the vocabularies have
    placeholders, some words are copied (``text.placeholders``). ``Tokens.surface`` and ``Tokens.text`` are as the user
    wrote them.
    """

    def __init__(self, source: Tokenizer, target: Tokenizer):
        super().__init__(name="codec")
        self.source_tokenizer, self.target_tokenizer = source, target
        known = source.known_words if target.known_words else None
        self._placeholders = None if known is None else Placeholders(known)

    def encode_source(self, text: tf.Tensor) -> Source:
        """Encodes sentences to translate.

        Args:
            text: [B] string.
        """
        sentences = _Sentences(text, self.source_tokenizer)
        copies = None if self._placeholders is None else self._placeholders.find(sentences.words)
        foreign = "" if self._placeholders is None else self._placeholders.foreign
        marked = sentences.marked(copies, keeps_uncertain=True)
        has_words = tf.strings.regex_full_match(marked, has_letters(foreign))
        return Source(sentences.encoded(copies, keeps_uncertain=True), copies, sentences.capitals, has_words)

    def encode_target(self, text: tf.Tensor, source: Source) -> Tokens:
        """Encodes translations of ``source``, or their beginnings.

        Args:
            text: [B] string.
            source: Their source sentences.
        """
        return _Sentences(text, self.target_tokenizer, source.capitals).encoded(source.copies)

    def encode_pairs(self, source: tf.Tensor, target: tf.Tensor) -> tuple[Tokens, Tokens]:
        """Encodes training pairs. The copied words are those of the sources, as in translation.

        Runs on the CPU. Operations that a GPU runs would wait for the training steps that it runs at the same time.

        Args:
            source, target: [B] string.
        """
        with tf.device("/CPU:0"):
            sources, targets = self._sentences(source, target)
            placeholders = self._placeholders
            copies = None if placeholders is None else placeholders.find_for_training(sources.words, targets.words)
            return sources.encoded(copies, keeps_uncertain=True), targets.encoded(copies)

    def learn_copying(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Stores which words training pairs often do not copy with the tokenizer of the source.

        Without placeholders, does nothing.

        Args:
            pairs: Source sentences with their translations.
        """
        if self._placeholders is None or self.source_tokenizer.known_words is None:
            return
        counts, copied = Counter[str](), Counter[str]()
        for block in in_blocks(pairs):
            sources, targets = self._sentences(*map(tf.constant, zip(*block, strict=True)))
            copies = self._placeholders.find(sources.words)
            found = copies.certain.numpy(), targets.words.contain(copies).numpy()
            for words, certain, contained in zip(copies.words.numpy(), *found, strict=True):
                counts.update(word.decode() for word in words[certain])
                copied.update(word.decode() for word in words[certain & contained])
        self.source_tokenizer.known_words = uncopied(counts, copied, self.source_tokenizer.known_words)
        self._placeholders = Placeholders(self.source_tokenizer.known_words)

    def examples(self, source: Sequence[str], target: Sequence[str], batch_size: int = 64) -> tf.data.Dataset:
        """Returns batches for ``Seq2Seq.fit``: sentences of similar lengths, in another order in every epoch.

        Args:
            source: Sentences.
            target: Their translations.
            batch_size: Number of pairs of a batch.

        Returns:
            Batches ((source ids [B, S], target inputs [B, T]), target ids [B, T]), all int32, padded with PAD. See
            ``decoder_inputs``.

        Raises:
            ValueError: the numbers of sentences differ.

        Example:
            >>> codec = Codec(source_tokenizer, target_tokenizer)
            >>> model.fit(codec.examples(spanish, english), shuffle=False, epochs=10)
        """
        counts = len(source), len(target)
        require(counts[0] == counts[1], "source, target", "as many sentences as translations", counts)
        sources, targets = self.encode_pairs(*(tf.constant(list(side), tf.string) for side in (source, target)))
        inputs = decoder_inputs(targets.ids)
        pairs = tf.data.Dataset.from_tensor_slices((sources.ids, sources.lengths, inputs, targets.ids, targets.lengths))
        lengths = [8, 12, 16, 24, 32, 48, 64]
        in_buckets = np.bincount(np.digitize(np.maximum(sources.lengths, targets.lengths), lengths))
        return (
            pairs.shuffle(max(1, counts[0]))
            .map(lambda ids, width, read, labels, length: ((ids[:width], read[:length]), labels[:length]))
            .bucket_by_sequence_length(
                lambda x, labels: tf.maximum(tf.size(x[0]), tf.size(labels)),
                lengths,
                [batch_size] * (len(lengths) + 1),
            )
            .apply(tf.data.experimental.assert_cardinality(int(np.ceil(in_buckets / batch_size).sum())))
        )

    def decode(
        self, ids: tf.Tensor, lengths: tf.Tensor, source: Source, unknown: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Decodes translations.

        Args:
            ids: [B, K, T] int32. K translations of each source sentence.
            lengths: [B, K] int32.
            source: The source sentences.
            unknown: [B, K, T] string. Replaces UNK; "" keeps it.

        Returns:
            Sentences [B, K] string, and surfaces of their tokens [B, K, T] string.
        """
        shape = tf.shape(ids)
        flat = tf.reshape(ids, [-1, shape[2]])
        replacements = (
            None if unknown is None else tf.reshape(tf.where(tf.equal(ids, UNK), unknown, ""), [-1, shape[2]])
        )
        in_text = replacements
        if source.copies is not None:  # a vocabulary with placeholders has no UNK
            first = self.target_tokenizer.first_placeholder
            words, written = (tf.repeat(each, shape[1], axis=0) for each in source.copies[:2])
            ordered = in_order(flat, first, words)
            replacements = copied_words(ordered, first, words)
            in_text = copied_words(ordered, first, written)
        texts = joined(self.target_tokenizer.decode(flat, tf.reshape(lengths, [-1]), in_text))
        surfaces = self.target_tokenizer.surfaces(flat, replacements)
        capitals = source.capitals[:, tf.newaxis]
        return (
            _written(tf.reshape(texts, shape[:2]), capitals),
            _written(tf.reshape(surfaces, shape), capitals[:, tf.newaxis]),
        )

    def _sentences(self, source: tf.Tensor, target: tf.Tensor) -> tuple[_Sentences, _Sentences]:
        sources = _Sentences(source, self.source_tokenizer)
        return sources, _Sentences(target, self.target_tokenizer, sources.capitals)


class _Sentences:
    """Normalised sentences of one side, as written and in the case in which the model reads them.

    Args:
        text: [B] string.
        tokenizer: Tokenizer of the side.
        capitals: [B] bool. Targets in capitals are read in lower case if their sources are in capitals; ``None`` for
            sources.
    """

    def __init__(self, text: tf.Tensor, tokenizer: Tokenizer, capitals: tf.Tensor | None = None):
        self.tokenizer = tokenizer
        self.normalised = normalise(text, tokenizer.config.max_tokens)
        self.text = self.normalised.text
        self.capitals = in_capitals(self.text) if capitals is None else capitals & in_capitals(self.text)
        self.lower = tf.where(self.capitals, to_lower(self.text), self.text)

    @cached_property
    def words(self) -> Words:
        """The sentences, divided into words."""
        return Words(self.lower, self.tokenizer.config.max_tokens)

    def marked(self, copies: Copies | None, keeps_uncertain: bool = False) -> tf.Tensor:
        """Returns the sentences with placeholders; see ``Words.marked``."""
        return self.lower if copies is None else self.words.marked(copies, keeps_uncertain)

    def encoded(self, copies: Copies | None, keeps_uncertain: bool = False) -> Tokens:
        """Encodes the sentences with placeholders, whose surfaces are the copied words.

        A kept word has tokens of its own, so the surface of its placeholder is "". For the arguments, see ``marked``.
        """
        marked = self.marked(copies, keeps_uncertain)
        tokens = self.tokenizer.encode_normalised(self.normalised._replace(text=marked))
        surface = tokens.surface
        if copies is not None:
            words = tf.where(copies.certain, copies.words, "") if keeps_uncertain else copies.words
            surface = replaced(surface, copied_words(tokens.ids, self.tokenizer.first_placeholder, words))
        capitals, like = self.capitals[:, tf.newaxis], self.text[:, tf.newaxis]
        return tokens._replace(text=self.text, surface=_written(surface, capitals, like))


def _written(text: tf.Tensor, capitals: tf.Tensor, like: tf.Tensor | None = None) -> tf.Tensor:
    """Returns ``text`` in capitals where ``capitals``, of the same rank, is True. For ``like``, see ``to_upper``."""
    return tf.where(capitals, to_upper(text, like), text)
