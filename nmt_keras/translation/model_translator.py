"""A translator that consists of a model and its two tokenizers."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import tensorflow as tf

from nmt_keras.config import END, PAD, UNK, SearchConfig, require
from nmt_keras.layers.attention import FixedContext, NoAttention
from nmt_keras.layers.base import Nest
from nmt_keras.layers.matmul import Precision, weights_read_once
from nmt_keras.models.ensemble import Predictor, models_of
from nmt_keras.search import (
    Constraints,
    Hypotheses,
    LogLikelihood,
    Ranking,
    SearchInputs,
    beam_search,
    gnmt_length,
    log_likelihood,
    plain_length,
)
from nmt_keras.text import Codec, Source, Tokenizer, Tokens
from nmt_keras.text.capitals import to_lower
from nmt_keras.text.tokens import SPECIAL_SURFACES
from nmt_keras.translation.copying import copy_signs
from nmt_keras.translation.records import (
    AlignedPair,
    Checkpoint,
    Decoded,
    NBest,
    Scored,
    Translation,
    best_of,
)
from nmt_keras.translation.translator import (
    GREEDY,
    SOURCE,
    TARGET,
    TEXT,
    UNEQUAL,
    Translator,
    in_batches,
    translations,
)
from nmt_keras.translation.unknown_words import UnknownWords
from nmt_keras.translation.whole_texts import decode_texts


class _Encoded(NamedTuple):
    source: Source
    memory: Nest  # nest of [B, ...]; see ``Seq2Seq.encode``


class ModelTranslator(Translator):
    """Translates with a model, or an ensemble, and the tokenizers of its two sides.

    A translation and its length limit depend only on the sentence, not on the other sentences of the batch.

    Args:
        source_tokenizer: Tokenizer of the source.
        target_tokenizer: Tokenizer of the target.
        model: A model or an ensemble.
        search: Configuration of the search for translations; greedy by default.
        unknown_words: Lexicon used if ``search.replaces_unknown`` is True. If None, the source word is copied.
        checkpoints: Checkpoint of the model, or of each model of an ensemble. Empty if the weights were not read from
            a checkpoint.

    Raises:
        ValueError: the vocabulary sizes of model and tokenizers differ, or a self-attention decoder has fewer positions
            than a translation may have tokens.
    """

    def __init__(
        self,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        model: Predictor,
        *,
        search: SearchConfig = GREEDY,
        unknown_words: UnknownWords | None = None,
        checkpoints: Sequence[Checkpoint] = (),
    ):
        super().__init__(name="translator")
        sizes = model.source_vocabulary_size, model.target_vocabulary_size
        wanted = source_tokenizer.vocabulary_size, target_tokenizer.vocabulary_size
        require(sizes == wanted, "model", f"the vocabulary sizes of the tokenizers, {wanted}", sizes)
        positions = min(getattr(each.decoder, "max_positions", math.inf) for each in models_of(model))
        for name, limit in (("search", search.max_tokens), ("target_tokenizer", target_tokenizer.config.max_tokens)):
            require(limit <= positions, name, f"max_tokens of at most {positions}, the decoder's positions", limit)
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.codec = Codec(source_tokenizer, target_tokenizer)
        self.model = model
        self.search = search
        self.unknown_words = unknown_words or UnknownWords({})
        self.checkpoints = checkpoints
        self._encode = _encoder(self.codec, model)

    def with_search(self, search: SearchConfig) -> Self:
        """Returns a translator with the same weights and tokenizers and another search."""
        other = type(self)(
            self.source_tokenizer,
            self.target_tokenizer,
            self.model,
            search=search,
            unknown_words=self.unknown_words,
            checkpoints=self.checkpoints,
        )
        other.codec, other._encode = self.codec, self._encode  # shared, so that an export contains them once
        return other

    def limits(self, source_lengths: tf.Tensor) -> tf.Tensor:
        """Returns the maximum length of each translation in tokens, END included.

        The limit is 2 x source tokens + 10, but at least ``search.min_tokens`` and at most ``search.max_tokens``.
        ``complete`` raises the limit if the prefix is longer.

        Args:
            source_lengths: [B] int32. Number of source tokens, END included.

        Returns:
            [B] int32.
        """
        return tf.clip_by_value(2 * source_lengths + 10, self.search.min_tokens, self.search.max_tokens)

    def complete(self, sentences: Sequence[str], beginnings: Sequence[str], batch_size: int = 64) -> list[Translation]:
        """Translates sentences with prefix-constrained decoding.

        Each translation starts with the corresponding entry of ``beginnings``. A beginning is cut at the tokenizer's
        limit. ``truncated`` is ``True`` if the source or the beginning was cut.
        """
        return in_batches(
            lambda text, beginning: translations(self.decode_completed(text, beginning)),
            {"sentences": sentences, "beginnings": beginnings},
            batch_size,
        )

    @property
    def has_attention(self) -> bool:
        """``False`` if all weights are equal, because no model has attention."""
        attentions = [getattr(each.decoder, "attention", None) for each in models_of(self.model)]
        return not all(isinstance(each, NoAttention | FixedContext) for each in attentions)

    def align(self, sources: Sequence[str], targets: Sequence[str], batch_size: int = 64) -> list[AlignedPair]:
        """Returns the tokens of given translations with their alignments, END included.

        Raises:
            ValueError: the model has no attention.
        """
        require(self.has_attention, "model", "a model with attention", "a fixed context, or none")
        found = in_batches(
            lambda source, target: translations(self.decode_aligned(source, target)),
            {"sources": sources, "targets": targets},
            batch_size,
        )
        return [AlignedPair(each.source_tokens, each.tokens, each.alignment) for each in found]

    @tf.function(input_signature=[TEXT], autograph=False)
    def decode(self, text: tf.Tensor) -> Decoded:
        """Returns the best translation of each sentence.

        Args:
            text: [B] string. Sentences.
        """
        return best_of(self._n_best(self._encode(text)))

    @tf.function(input_signature=[TEXT], autograph=False)
    def decode_texts(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the translation of each text, sentence by sentence, as the outputs of an export's signature ``text``.

        Args:
            text: [B] string. Texts of at most ``MAX_SENTENCES`` sentences.
        """
        return decode_texts(self.decode, text)

    @tf.function(input_signature=[TEXT], autograph=False)
    def decode_sentences(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the outputs of an export's signature ``sentences``; see ``decode_texts``."""
        return decode_texts(self.decode, text, with_sentences=True)

    @tf.function(input_signature=[TEXT, tf.TensorSpec([None], tf.string, name="beginning")], autograph=False)
    def decode_completed(self, text: tf.Tensor, beginning: tf.Tensor) -> Decoded:
        """Translates each sentence. A translation starts with the tokens of its beginning.

        Args:
            text: [B] string. Sentences.
            beginning: [B] string. Beginning of each translation.
        """
        encoded = self._encode(text)
        tokens = self.codec.encode_target(beginning, encoded.source)
        prefix = tf.where(tf.equal(tokens.ids, END), PAD, tokens.ids)
        surface = tf.where(tf.equal(prefix, PAD), "", tokens.surface)
        decoded = best_of(self._n_best(encoded, prefix=prefix, beginning=surface))
        return decoded._replace(truncated=decoded.truncated | tokens.truncated)

    @tf.function(input_signature=[TEXT], autograph=False)
    def decode_nbest(self, text: tf.Tensor) -> NBest:
        """Returns the n-best list of each sentence.

        Args:
            text: [B] string. Sentences.
        """
        return self._n_best(self._encode(text), self.search.n_best or self.search.beam_size)

    @tf.function(input_signature=[SOURCE, TARGET], autograph=False)
    def decode_scored(self, source: tf.Tensor, target: tf.Tensor) -> Scored:
        """Returns the log-probability of each target as a translation of its source.

        Args:
            source: [B] string. Sentences.
            target: [B] string. A translation of each sentence.
        """
        encoded, target_tokens, likelihood = self._log_likelihood(source, target)
        source_tokens = encoded.tokens
        copies = ~encoded.has_words & tf.equal(source_tokens.text, target_tokens.text)
        return Scored(
            log_prob=tf.where(copies, 0.0, likelihood.log_probs),
            token_log_probs=tf.where(copies[:, tf.newaxis], 0.0, likelihood.token_log_probs),
            tokens=tf.where(tf.equal(target_tokens.ids, UNK), SPECIAL_SURFACES[UNK], target_tokens.surface),
            lengths=target_tokens.lengths,
            truncated=source_tokens.truncated | target_tokens.truncated,
        )

    @tf.function(input_signature=[SOURCE, TARGET], autograph=False)
    def decode_aligned(self, source: tf.Tensor, target: tf.Tensor) -> Decoded:
        """Returns each target, as a translation of its source, with their alignment.

        Args:
            source: [B] string. Sentences.
            target: [B] string. A translation of each sentence.
        """
        encoded, target_tokens, likelihood = self._log_likelihood(source, target)
        return Decoded(
            translation=target_tokens.text,
            score=likelihood.log_probs,
            log_prob=likelihood.log_probs,
            truncated=encoded.tokens.truncated | target_tokens.truncated,
            source_tokens=encoded.tokens.surface,
            source_lengths=encoded.tokens.lengths,
            target_tokens=target_tokens.surface,
            target_lengths=target_tokens.lengths,
            alignment=likelihood.alignments,
        )

    def _log_likelihood(self, source: tf.Tensor, target: tf.Tensor) -> tuple[Source, Tokens, LogLikelihood]:
        """Runs forced decoding of each target, given its source.

        Args:
            source: [B] string. Sentences.
            target: [B] string. A translation of each sentence.

        Returns:
            The encoded sources, the tokens of the targets, and the log-likelihoods.
        """
        with tf.control_dependencies([tf.debugging.assert_equal(tf.size(source), tf.size(target), UNEQUAL)]):
            source = tf.identity(source)
        encoded, memory = self._encode(source)
        target_tokens = _at_least_one_column(self.codec.encode_target(target, encoded))
        state = self.model.initial_state(memory)
        with weights_read_once(*models_of(self.model)):
            likelihood = log_likelihood(self.model.step, state, memory, target_tokens.ids, target_tokens.lengths)
        return encoded, target_tokens, likelihood

    def _n_best(
        self,
        encoded: _Encoded,
        n_best: int = 1,
        prefix: tf.Tensor | None = None,
        beginning: tf.Tensor | None = None,
    ) -> NBest:
        """Returns the ``n_best`` hypotheses of each sentence as texts.

        Args:
            encoded: The tokens and the memory of the sentences.
            n_best: K.
            prefix: [B, P] int32, first tokens of each hypothesis; see ``SearchInputs``.
            beginning: [B, P] string. Surfaces of these tokens, "" elsewhere. They replace UNK. Requires K = 1.
        """
        source = encoded.source.tokens
        precision: Precision = "bfloat16" if self.search.precision == "bfloat16" else None
        with weights_read_once(*models_of(self.model), precision=precision):
            hypotheses = self._search(encoded, n_best, prefix)
        width = tf.shape(hypotheses.ids)[2]
        unknown = None
        if self.search.replaces_unknown:
            capitals = encoded.source.capitals[:, tf.newaxis]
            read = source._replace(surface=tf.where(capitals, to_lower(source.surface), source.surface))
            unknown = self.unknown_words.replacements(read, hypotheses.alignments)
        if beginning is not None:
            given = tf.pad(beginning, [[0, 0], [0, width]], constant_values="")[:, tf.newaxis, :width]
            others = tf.fill(tf.shape(given), "") if unknown is None else unknown
            unknown = tf.where(tf.equal(given, ""), others, given)
        texts, tokens = self.codec.decode(hypotheses.ids, hypotheses.lengths, encoded.source, unknown)
        found = NBest(
            translations=texts,
            scores=hypotheses.scores,
            log_probs=hypotheses.log_probs,
            lengths=hypotheses.lengths,
            tokens=tokens,
            alignment=hypotheses.alignments,
            source_tokens=source.surface,
            source_lengths=source.lengths,
            truncated=source.truncated,
        )
        copied = ~encoded.source.has_words
        if prefix is not None:
            copied &= tf.reduce_all(tf.equal(prefix, PAD), axis=1)
        return copy_signs(found, source.text, copied)

    def _search(self, encoded: _Encoded, n_best: int = 1, prefix: tf.Tensor | None = None) -> Hypotheses:
        """Runs the search that ``SearchConfig`` declares.

        Args:
            encoded: The tokens and the memory of the sentences.
            n_best: Number of hypotheses to return.
            prefix: [B, P] int32, first tokens of each hypothesis; see ``SearchInputs``.
        """
        config, source = self.search, encoded.source.tokens
        limits = self.limits(source.lengths)
        if prefix is not None:
            limits = tf.maximum(limits, tf.math.count_nonzero(prefix, axis=1, dtype=tf.int32) + 1)
        inputs = SearchInputs(encoded.memory, tf.not_equal(source.ids, PAD), limits, prefix)
        length_penalty = {"plain": plain_length, "gnmt": gnmt_length}[config.length_normalisation](config.length_alpha)
        return beam_search(
            self.model.step,
            self.model.initial_state(encoded.memory),
            inputs,
            beam_size=config.beam_size,
            n_best=n_best,
            ranking=Ranking(length_penalty, config.coverage_beta),
            constraints=Constraints(
                config.min_tokens, config.unk_allowed, config.no_repeat_ngram_size, config.repetition_penalty
            ),
        )


def _encoder(codec: Codec, model: Predictor) -> Callable[[tf.Tensor], _Encoded]:
    """Returns a function that encodes sentences, [B] string.

    All functions of a translator, and of its copies made by ``with_search``, call the same encoding function. An export
    therefore contains the tokenizer and the encoder once instead of four times, and loads in four fifths of the CPU
    time.
    """

    @tf.function(input_signature=[TEXT], autograph=False)
    def encode(text: tf.Tensor) -> _Encoded:
        source = codec.encode_source(text)
        source = source._replace(tokens=_at_least_one_column(source.tokens))
        return _Encoded(source, model.encode(source.tokens.ids))

    return encode


def _at_least_one_column(tokens: Tokens) -> Tokens:
    """Returns ``tokens`` [B, S], padded to S >= 1.

    An empty batch has S = 0, but loops over S must run at least once.
    """
    missing = [[0, 0], [0, tf.maximum(0, 1 - tf.shape(tokens.ids)[1])]]
    return tokens._replace(
        ids=tf.pad(tokens.ids, missing, constant_values=PAD),
        surface=tf.pad(tokens.surface, missing, constant_values=""),
    )
