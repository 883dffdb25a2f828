"""Translators: strings in, translations with their alignments out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf

from nmt_keras.cells import rounded_matrices
from nmt_keras.config import BATCHES_AT_ONCE, END, PAD, SearchConfig
from nmt_keras.ensemble import Predictor
from nmt_keras.lexicon import AlignedPair
from nmt_keras.search import (
    Constraints,
    Coverage,
    Forced,
    Hypotheses,
    Ranking,
    StepFunction,
    StepLike,
    beam_search,
    force,
    gnmt_length,
    greedy,
    plain_length,
    sample,
    uniform,
)
from nmt_keras.shortlist import Narrowed, Shortlist
from nmt_keras.text import Text, Tokens
from nmt_keras.unknown_words import UnknownWords

Answer = TypeVar("Answer")


class Translation(NamedTuple):
    """One translation of a sentence."""

    text: str
    tokens: list[str]  # T target tokens as they are displayed; the last is END's "" unless the length limit came first
    score: float  # what hypotheses are ranked by, higher is better: log_prob, normalised as the search says
    log_prob: float  # nats: log p(tokens | source), END included
    alignment: np.ndarray  # [T, S] float32; row i says where target token i looked, and sums to 1
    source_tokens: list[str]  # S source tokens as the user wrote them; the last is END's ""
    truncated: bool  # whether the source was longer than the model reads, so that its rest is not translated


class Score(NamedTuple):
    """What the model says of a given translation."""

    log_prob: float  # nats: log p(tokens | source), END included
    tokens: list[str]  # T target tokens as they are displayed; the last is END's ""
    token_log_probs: list[float]  # T, nats; their sum is log_prob
    truncated: bool  # whether source or target was longer than the model reads, so that its rest is not scored


class Decoded(NamedTuple):
    """A batch of translations as tensors: the outputs of an export's ``align`` signature, by name."""

    translation: tf.Tensor  # [B] string
    score: tf.Tensor  # [B] float32
    log_prob: tf.Tensor  # [B] float32, nats
    truncated: tf.Tensor  # [B] bool
    source_tokens: tf.Tensor  # [B, S] string
    source_lengths: tf.Tensor  # [B] int32, END included
    target_tokens: tf.Tensor  # [B, T] string
    target_lengths: tf.Tensor  # [B] int32, END included
    alignment: tf.Tensor  # [B, T, S] float32


class NBest(NamedTuple):
    """A batch of n-best lists as tensors, best first; where fewer than K translations exist, the last have length 0."""

    translations: tf.Tensor  # [B, K] string
    scores: tf.Tensor  # [B, K] float32; -infinity where there is none
    log_probs: tf.Tensor  # [B, K] float32, nats; -infinity where there is none
    lengths: tf.Tensor  # [B, K] int32 target tokens, END included
    tokens: tf.Tensor  # [B, K, T] string
    alignment: tf.Tensor  # [B, K, T, S] float32
    source_tokens: tf.Tensor  # [B, S] string
    source_lengths: tf.Tensor  # [B] int32, END included
    truncated: tf.Tensor  # [B] bool


class Aligned(NamedTuple):
    """A batch of given translations with their alignments, as tensors."""

    source_tokens: tf.Tensor  # [B, S] string, as written
    source_lengths: tf.Tensor  # [B] int32, END included
    target_tokens: tf.Tensor  # [B, T] string, as written
    target_lengths: tf.Tensor  # [B] int32, END included
    alignment: tf.Tensor  # [B, T, S] float32


class Scored(NamedTuple):
    """A batch of given translations with their probabilities, as tensors."""

    log_prob: tf.Tensor  # [B] float32, nats
    token_log_probs: tf.Tensor  # [B, T] float32, nats; 0 at padding
    tokens: tf.Tensor  # [B, T] string
    lengths: tf.Tensor  # [B] int32 target tokens, END included
    truncated: tf.Tensor  # [B] bool: source or target


UNEQUAL = "source, target: expected as many sentences of the one as of the other."

TEXT = tf.TensorSpec([None], tf.string, name="text")
SOURCE = tf.TensorSpec([None], tf.string, name="source")
TARGET = tf.TensorSpec([None], tf.string, name="target")


class Translator(tf.Module):
    """Translates sentences. Subclasses work on tensors; the methods on lists are what people call.

    Those take any number of sentences and answer in the order given. Sentences of similar length are worked on
    together, ``batch_size`` at a time, which changes speed and nothing else. They raise TypeError where a list of
    strings is expected and something else comes, ValueError where ``batch_size`` is not positive.
    """

    @abstractmethod
    def decode(self, text: tf.Tensor) -> Decoded:
        """The best translations of a batch: text [B] string."""

    @abstractmethod
    def decode_nbest(self, text: tf.Tensor) -> NBest:
        """The n-best lists of a batch: text [B] string."""

    @abstractmethod
    def decode_forced(self, source: tf.Tensor, target: tf.Tensor) -> Scored:
        """The probabilities of given translations: source [B] string, target [B] string."""

    def translate(self, sentences: Sequence[str], batch_size: int = 64) -> list[Translation]:
        """The best translation of each sentence; none is too long or too strange: see ``Translation.truncated``."""
        return _in_batches(lambda text: _translations(self.decode(text)), [sentences], ["sentences"], batch_size)

    def translate_nbest(self, sentences: Sequence[str], batch_size: int = 64) -> list[list[Translation]]:
        """The best translations of each sentence, best first: ``SearchConfig.n_best`` of them if there are so many."""
        return _in_batches(lambda text: _nbest_lists(self.decode_nbest(text)), [sentences], ["sentences"], batch_size)

    def score(self, sources: Sequence[str], targets: Sequence[str], batch_size: int = 64) -> list[Score]:
        """How probable each target is as the translation of its source.

        Raises:
            ValueError: there are more of the one than of the other.
        """
        return _in_batches(
            lambda source, target: _scores(self.decode_forced(source, target)),
            [sources, targets],
            ["sources", "targets"],
            batch_size,
        )


def _in_batches(
    answer: Callable[..., list[Answer]], columns: Sequence[Sequence[str]], names: Sequence[str], batch_size: int
) -> list[Answer]:
    """What ``answer`` says of each row of ``columns`` (lists of sentences), which it is given as [B] string tensors."""
    for name, column in zip(names, columns, strict=True):
        is_list = isinstance(column, Sequence) and not isinstance(column, str | bytes)
        if not is_list or not all(isinstance(s, str) for s in column):
            raise TypeError(f"{name}: expected a list of strings, received {column!r:.80}. Pass [sentence].")
    if batch_size < 1:
        raise ValueError(f"batch_size: expected at least 1, received {batch_size}.")
    counts = [len(column) for column in columns]
    if len(set(counts)) > 1:
        raise ValueError(f"{', '.join(names)}: expected one of each for a pair, received {counts}. Pair them.")
    # the longest first: what is worked on last, when some threads have nothing left to do, takes least
    order = sorted(range(counts[0]), key=lambda i: [-len(column[i]) for column in columns])
    batches = [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]

    def answer_rows(rows: Sequence[int]) -> list[Answer]:
        texts = [tf.constant([column[i].encode("utf-8", "replace") for i in rows]) for column in columns]
        return answer(*texts)

    pool = ThreadPoolExecutor(BATCHES_AT_ONCE)
    try:
        answers = [one for batch in pool.map(answer_rows, batches) for one in batch]
    finally:
        pool.shutdown(cancel_futures=True)  # so that an interruption need not wait for the rest
    found = dict(zip(order, answers, strict=True))
    return [found[i] for i in range(len(order))]


def _translations(decoded: Decoded) -> list[Translation]:
    """The rows of a batch, without their padding."""
    columns = Decoded(*(column.numpy() for column in decoded))
    return [_translation(Decoded(*row)) for row in zip(*columns, strict=True)]


def _translation(one: Decoded) -> Translation:
    """One row of a batch, as arrays, without its padding."""
    source, target = int(one.source_lengths), int(one.target_lengths)
    return Translation(
        text=one.translation.decode(),
        tokens=[token.decode() for token in one.target_tokens[:target]],
        score=float(one.score),
        log_prob=float(one.log_prob),
        alignment=one.alignment[:target, :source],
        source_tokens=[token.decode() for token in one.source_tokens[:source]],
        truncated=bool(one.truncated),
    )


def _nbest_lists(nbest: NBest) -> list[list[Translation]]:
    """The rows of a batch, without their padding and without the hypotheses that do not exist."""
    columns = NBest(*(column.numpy() for column in nbest))
    result = []
    for row in zip(*columns, strict=True):
        one = NBest(*row)
        whole = (one.truncated, one.source_tokens, one.source_lengths)
        hypotheses = zip(
            one.translations, one.scores, one.log_probs, one.tokens, one.lengths, one.alignment, strict=True
        )
        result.append(
            [
                _translation(Decoded(text, score, log_prob, *whole, tokens, length, alignment))
                for text, score, log_prob, tokens, length, alignment in hypotheses
                if length > 0
            ]
        )
    return result


def _scores(scored: Scored) -> list[Score]:
    """The rows of a batch, without their padding."""
    columns = Scored(*(column.numpy() for column in scored))
    return [
        Score(
            log_prob=float(log_prob),
            tokens=[token.decode() for token in tokens[:length]],
            token_log_probs=token_log_probs[:length].tolist(),
            truncated=bool(truncated),
        )
        for log_prob, token_log_probs, tokens, length, truncated in zip(*columns, strict=True)
    ]


def _aligned_pairs(aligned: Aligned) -> list[AlignedPair]:
    """The rows of a batch, without their padding."""
    columns = Aligned(*(column.numpy() for column in aligned))
    result = []
    for row in zip(*columns, strict=True):
        one = Aligned(*row)
        source, target = int(one.source_lengths), int(one.target_lengths)
        result.append(
            AlignedPair(
                source=[token.decode() for token in one.source_tokens[:source]],
                target=[token.decode() for token in one.target_tokens[:target]],
                alignment=one.alignment[:target, :source],
            )
        )
    return result


class _Given(NamedTuple):
    """Given translations, and what a model makes of them."""

    source: Tokens
    target: Tokens
    found: Forced


class ModelTranslator(Translator):
    """Translates with a model, or an ensemble, and the texts of its two sides.

    What comes out depends on the sentence alone, never on its batch-mates: its ``limits``, and, where tokens are drawn,
    each draw, which is a function of the sentence, the position and the seed.
    """

    def __init__(
        self,
        source_text: Text,
        target_text: Text,
        model: Predictor,
        search: SearchConfig,
        unknown_words: UnknownWords | None = None,
        shortlist: Shortlist | None = None,
    ):
        super().__init__(name="translator")
        if search.shortlist and shortlist is None:
            raise ValueError(
                f"SearchConfig.shortlist: expected 0 where no shortlist was learnt, received {search.shortlist}. A run "
                "learns one when it is trained: give its `nmt train` again, which adds what is missing."
            )
        self.source_text, self.target_text, self.model, self.search = source_text, target_text, model, search
        self.unknown_words, self.shortlist = unknown_words or UnknownWords({}), shortlist

    def with_search(self, search: SearchConfig) -> ModelTranslator:
        """A translator with the same weights and texts that searches otherwise."""
        return type(self)(self.source_text, self.target_text, self.model, search, self.unknown_words, self.shortlist)

    def limits(self, source_lengths: tf.Tensor) -> tf.Tensor:
        """Tokens of a translation at the most, END included, [B] int32: 2 x source tokens + 10, within the search's.

        A beginning that is given may be longer: see ``complete``.
        """
        return tf.clip_by_value(2 * source_lengths + 10, self.search.min_tokens, self.search.max_tokens)

    def complete(self, sentences: Sequence[str], beginnings: Sequence[str], batch_size: int = 64) -> list[Translation]:
        """The best translation of each sentence among those that begin with the tokens of its beginning.

        A beginning is read as far as the model reads a translation; ``truncated`` tells of one that is longer, too.

        Raises:
            ValueError: there are more of the one than of the other.
        """
        return _in_batches(
            lambda text, beginning: _translations(self.decode_completed(text, beginning)),
            [sentences, beginnings],
            ["sentences", "beginnings"],
            batch_size,
        )

    def align(self, sources: Sequence[str], targets: Sequence[str], batch_size: int = 64) -> list[AlignedPair]:
        """What each token of a given translation looks at, END included.

        Raises:
            ValueError: there are more of the one than of the other.
        """
        return _in_batches(
            lambda source, target: _aligned_pairs(self.decode_aligned(source, target)),
            [sources, targets],
            ["sources", "targets"],
            batch_size,
        )

    @tf.function(input_signature=[TEXT], autograph=False)
    def decode(self, text: tf.Tensor) -> Decoded:
        """The best translations of a batch: text [B] string."""
        source = _at_least_one_column(self.source_text.encode(text))
        return self._decoded(source, self._search(source.ids, text))

    @tf.function(input_signature=[TEXT, tf.TensorSpec([None], tf.string, name="beginning")], autograph=False)
    def decode_completed(self, text: tf.Tensor, beginning: tf.Tensor) -> Decoded:
        """The best translations of a batch, text [B] string, that begin with ``beginning`` [B] string."""
        source, begun = _at_least_one_column(self.source_text.encode(text)), self.target_text.encode(beginning)
        prefix = tf.where(tf.equal(begun.ids, END), PAD, begun.ids)
        decoded = self._decoded(source, self._search(source.ids, text, prefix=prefix))
        return decoded._replace(truncated=source.truncated | begun.truncated)

    @tf.function(input_signature=[TEXT], autograph=False)
    def decode_nbest(self, text: tf.Tensor) -> NBest:
        """The n-best lists of a batch: text [B] string."""
        source = _at_least_one_column(self.source_text.encode(text))
        found = self._search(source.ids, text, n_best=self.search.n_best or self.search.beam_size)
        shape = tf.shape(found.ids)
        ids = tf.reshape(found.ids, [-1, shape[2]])  # [B * K, T]
        unknown = self._unknown(source, found)
        translations = self.target_text.decode(ids, tf.reshape(found.lengths, [-1]), unknown)
        return NBest(
            translations=tf.reshape(translations, shape[:2]),
            scores=found.scores,
            log_probs=found.log_probs,
            lengths=found.lengths,
            tokens=tf.reshape(self.target_text.surfaces(ids, unknown), shape),
            alignment=found.alignments,
            source_tokens=source.surface,
            source_lengths=source.lengths,
            truncated=source.truncated,
        )

    @tf.function(input_signature=[SOURCE, TARGET], autograph=False)
    def decode_forced(self, source: tf.Tensor, target: tf.Tensor) -> Scored:
        """The probabilities of given translations: source [B] string, target [B] string."""
        tokens, wanted, found = self._force(source, target)
        return Scored(
            log_prob=found.log_probs,
            token_log_probs=found.token_log_probs,
            tokens=self.target_text.surfaces(wanted.ids),
            lengths=wanted.lengths,
            truncated=tokens.truncated | wanted.truncated,
        )

    @tf.function(input_signature=[SOURCE, TARGET], autograph=False)
    def decode_aligned(self, source: tf.Tensor, target: tf.Tensor) -> Aligned:
        """The alignments of given translations: source [B] string, target [B] string."""
        tokens, wanted, found = self._force(source, target)
        return Aligned(tokens.surface, tokens.lengths, wanted.surface, wanted.lengths, found.alignments)

    def _force(self, source: tf.Tensor, target: tf.Tensor) -> _Given:
        """What the model makes of given translations: source [B] string, target [B] string."""
        with tf.control_dependencies([tf.debugging.assert_equal(tf.size(source), tf.size(target), UNEQUAL)]):
            source = tf.identity(source)
        tokens = _at_least_one_column(self.source_text.encode(source))
        wanted = _at_least_one_column(self.target_text.encode(target))
        memory = self.model.remember(tokens.ids)
        found = force(self._step(tf.size(source)), self.model.start(memory), memory, wanted.ids, wanted.lengths)
        return _Given(tokens, wanted, found)

    def _unknown(self, source: Tokens, hypotheses: Hypotheses) -> tf.Tensor | None:
        """What is written in place of each UNK of the hypotheses, [B * K, T] string; None writes its sign."""
        if not self.search.replaces_unknown:
            return None
        words = self.unknown_words.replacements(source, hypotheses.alignments)
        return tf.reshape(words, [-1, tf.shape(words)[2]])

    def _decoded(self, source: Tokens, hypotheses: Hypotheses) -> Decoded:
        best = Hypotheses(*(part[:, :1] for part in hypotheses))
        target, lengths = best.ids[:, 0], best.lengths[:, 0]
        unknown = self._unknown(source, best)
        return Decoded(
            translation=self.target_text.decode(target, lengths, unknown),
            score=hypotheses.scores[:, 0],
            log_prob=hypotheses.log_probs[:, 0],
            truncated=source.truncated,
            source_tokens=source.surface,
            source_lengths=source.lengths,
            target_tokens=self.target_text.surfaces(target, unknown),
            target_lengths=lengths,
            alignment=hypotheses.alignments[:, 0],
        )

    def _search(self, ids: tf.Tensor, text: tf.Tensor, n_best: int = 1, prefix: tf.Tensor | None = None) -> Hypotheses:
        """The search that ``SearchConfig`` declares."""
        config = self.search
        precision = nullcontext() if config.precision == "float32" else rounded_matrices(config.precision)
        words = None
        if config.shortlist and self.shortlist is not None and self.shortlist.narrows:
            words = self.shortlist.words(ids, config.shortlist, prefix)
        memory = self.model.remember(ids, () if words is None else words.price)
        start = self.model.start(memory)
        with precision:
            if words is None:
                step = self._step(tf.shape(ids)[0] * config.beam_size)
                return self._search_with(step, start, memory, text, n_best, prefix)
            model = Narrowed(self.model, words)
            wanted = None if prefix is None else model.places(prefix)
            return model.in_vocabulary(self._search_with(model.step, start, memory, text, n_best, wanted))

    def _step(self, count: tf.Tensor) -> StepFunction:
        """The model's step over its whole vocabulary, laid out for ``count`` hypotheses, [] int32, at a time."""
        softmax = self.model.whole_softmax(count)

        def step(last: tf.Tensor, carry: Any, memory: Any) -> StepLike:
            return self.model.step(last, carry, memory, softmax)

        return step

    def _search_with(
        self, step: StepFunction, start: Any, memory: Any, text: tf.Tensor, n_best: int, prefix: tf.Tensor | None
    ) -> Hypotheses:
        config = self.search
        normaliser = {"plain": plain_length, "gnmt": gnmt_length}[config.length_normalisation]
        coverage = Coverage(config.coverage_beta, memory.mask) if config.coverage_beta else None
        ranking = Ranking(normaliser(config.length_alpha), coverage)
        constraints = Constraints(config.min_tokens, config.unk_allowed, prefix)
        limits = self.limits(memory.lengths)
        if prefix is not None:
            limits = tf.maximum(limits, tf.math.count_nonzero(prefix, axis=1, dtype=tf.int32) + 1)
        given = (step, start, memory, limits)
        if config.temperature > 0.0:
            return sample(
                *given,
                noise=uniform(text, tf.maximum(config.max_tokens, tf.reduce_max(limits)), config.seed),
                temperature=config.temperature,
                top_k=config.top_k,
                top_p=config.top_p,
                ranking=ranking,
                constraints=constraints,
            )
        if config.beam_size == 1:
            return greedy(*given, ranking=ranking, constraints=constraints)
        return beam_search(*given, width=config.beam_size, n_best=n_best, ranking=ranking, constraints=constraints)


def _at_least_one_column(tokens: Tokens) -> Tokens:
    """``tokens`` [B, S]; an empty batch, which has no column, gets one, so that loops over S have a step to take."""
    missing = [[0, 0], [0, tf.maximum(0, 1 - tf.shape(tokens.ids)[1])]]
    return tokens._replace(
        ids=tf.pad(tokens.ids, missing, constant_values=PAD),
        surface=tf.pad(tokens.surface, missing, constant_values=""),
    )


class ServedTranslator(Translator):
    """Translates with an exported version, through its signatures; needs none of the code that made it.

    ``decode`` asks ``align``, a greedy search; ``decode_nbest`` asks ``beam``; ``decode_forced`` asks ``score``.

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

    def decode_forced(self, source: tf.Tensor, target: tf.Tensor) -> Scored:
        """The probabilities of given translations: source [B] string, target [B] string."""
        return Scored(**self._ask("score")(source=source, target=target))

    def _ask(self, signature: str) -> Callable[..., dict[str, tf.Tensor]]:
        if signature not in self.loaded.signatures:
            raise ValueError(
                f"{self.path}: expected a SavedModel with the signature {signature!r}, received one with "
                f"{sorted(self.loaded.signatures)}. Export a translator with nmt_keras.export."
            )
        return self.loaded.signatures[signature]
