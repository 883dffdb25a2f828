"""Vocabulary shortlists: the few target tokens that a sentence's own tokens may become, instead of all V.

The softmax is the largest product of a search's step. Jean, Cho, Memisevic, Bengio 2015 (section 3.3) let the most
frequent target words compete, and those that a dictionary has for the source's words. See ``LexicalTable`` for ours.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse
import tensorflow as tf

from nmt_keras.config import END, MAX_SHORTLIST, PAD
from nmt_keras.files import write_whole
from nmt_keras.layers.matmul import Precision, Weight, full_precision
from nmt_keras.models.ensemble import Ensemble, Predictor, average
from nmt_keras.models.step import Step
from nmt_keras.search.contract import Hypotheses

if TYPE_CHECKING:  # an exported version loads without the corpus package
    from nmt_keras.corpus.batches import TokenLists


class NarrowedMemory(NamedTuple):
    """The memory of a search among a shortlist's tokens."""

    memory: Any  # nest of [B, ...]: the model's own
    logit_bias: tf.Tensor  # [B, C] float32: see ``BatchShortlist``


class BatchShortlist(NamedTuple):
    """The C target tokens that compete in a batch: those of all its sentences' shortlists.

    A search takes the narrowed step for a model of C tokens, whose ids are places in ``ids``. Its probabilities are the
    model's own, renormalised over each sentence's shortlist.
    """

    ids: tf.Tensor  # [C] int32, ascending; the special ids first, at their own places
    logit_bias: tf.Tensor  # [B, C] float32: 0 for the tokens of a sentence's own shortlist, -infinity for the others

    def step_function(
        self, model: Predictor, precision: Precision = full_precision
    ) -> Callable[[tf.Tensor, Any, NarrowedMemory], Step]:
        """Returns the step of ``model`` with logits [B, Q, C]. It reads a ``NarrowedMemory``.

        Call it outside the loop of the search: it gathers the shortlist's rows of the softmax's matrix.
        """
        narrowed = self._narrowed(model, precision)

        def step(ids: tf.Tensor, state: Any, memory: NarrowedMemory) -> Step:
            found = narrowed(tf.gather(self.ids, ids), state, memory.memory)
            return found._replace(logits=found.logits + tf.cast(memory.logit_bias, found.logits.dtype)[:, tf.newaxis])

        return step

    def _narrowed(self, model: Predictor, precision: Precision) -> Callable[[tf.Tensor, Any, Any], Step]:
        """Returns the step of ``model`` with the rows of the shortlist alone."""
        if isinstance(model, Ensemble):
            return average([self._narrowed(one, precision) for one in model.models])
        from nmt_keras.models.seq2seq import Seq2Seq  # here, because an exported version loads without it

        if not isinstance(model, Seq2Seq):
            raise TypeError(f"model: expected a Seq2Seq or an Ensemble of them, received {type(model).__name__}.")
        weights = model.decoder.read_weights(precision)
        layer = weights.output_layer
        layer.rows = Weight(tf.gather(layer.rows.value, self.ids))
        layer.output_bias = tf.gather(layer.output_bias, self.ids)
        return model.step_with(weights)

    def places(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the places of tokens of the vocabulary, all of which must compete."""
        return tf.reshape(tf.searchsorted(self.ids, tf.reshape(ids, [-1])), tf.shape(ids))

    def in_vocabulary(self, found: Hypotheses) -> Hypotheses:
        """Returns ``found`` with ids of the vocabulary."""
        return found._replace(ids=tf.gather(self.ids, found.ids))


class Shortlist(tf.Module):
    """Selects the target tokens that compete in a batch.

    Args:
        table: learnt from the training part.
        vocabulary_size: V of the target.
    """

    def __init__(self, table: LexicalTable, vocabulary_size: int):
        super().__init__(name="shortlist")
        self.vocabulary_size = vocabulary_size
        self.narrows = len(table.common) < vocabulary_size  # whether there is anything to leave out
        self._by_source = tf.Variable(table.by_source, trainable=False, name="by_source")
        is_common = np.isin(np.arange(vocabulary_size), table.common)
        self._is_common = tf.Variable(is_common, trainable=False, name="is_common")

    def of_batch(self, ids: tf.Tensor, size: int, also: tf.Tensor | None = None) -> BatchShortlist:
        """Selects the tokens for sources ids [B, S].

        Args:
            ids: padding brings nothing.
            size: N, target tokens that each source token brings, 1 to MAX_SHORTLIST.
            also: [B, P] int32, target tokens that each sentence's shortlist holds in any case; PAD brings nothing.
        """
        batch = tf.shape(ids)[0]
        brought = tf.reshape(tf.gather(self._by_source[:, :size], ids), [batch, -1])
        if also is not None:
            brought = tf.concat([brought, also], axis=1)
        rows = tf.broadcast_to(tf.range(batch)[:, tf.newaxis], tf.shape(brought))
        places = tf.stack([rows, brought], axis=-1)
        # a maximum, not a sum or an assignment: places repeat
        own = tf.tensor_scatter_nd_max(
            tf.zeros([batch, self.vocabulary_size]), places, tf.ones_like(brought, tf.float32)
        )
        holds = (own > 0.0) | self._is_common  # [B, V]
        # the common ones in an empty batch, too: a search counts on them
        competing = tf.cast(tf.where(tf.reduce_any(holds, axis=0) | self._is_common)[:, 0], tf.int32)
        return BatchShortlist(competing, tf.where(tf.gather(holds, competing, axis=1), 0.0, float("-inf")))


SPECIALS = END + 1
"""Special ids; they are the first of every vocabulary."""

COMMON = 1000
"""Most frequent target tokens, which compete for every sentence."""

ROWS_AT_ONCE = 64
"""Source tokens that are counted at a time: memory holds so many rows of all that occurs together."""


class LexicalTable(NamedTuple):
    """What a training part says of target tokens."""

    by_source: np.ndarray  # [source V, MAX_SHORTLIST] int32: for each source token, best first; PAD where there is none
    common: np.ndarray  # [COMMON or fewer] int32: the special ids, then the most frequent others


def learn_lexical_table(
    source: TokenLists, target: TokenLists, source_size: int, target_size: int, common: int = COMMON
) -> LexicalTable:
    """Which target tokens occur beside which source tokens more than chance would have it.

    Ranked by their part of the mutual information, n(s, t) · log(N n(s, t) / (n(s) n(t))), where n counts the pairs of
    sentences, N in all, that hold the tokens.

    Args:
        source, target: the two sides of N pairs, as token ids.
        source_size, target_size: entries of the vocabularies.
        common: how many of the most frequent target tokens compete in any case, the special ones among them.
    """
    beside_source, beside_target = _occurrences(source, source_size), _occurrences(target, target_size)
    alone = [np.asarray(counts.sum(axis=0))[0] for counts in (beside_source, beside_target)]
    by_row = beside_source.T.tocsr()
    by_source = np.full([source_size, MAX_SHORTLIST], PAD, np.int32)
    for begin in range(0, source_size, ROWS_AT_ONCE):
        together = (by_row[begin : begin + ROWS_AT_ONCE] @ beside_target).tocoo()
        expected = alone[0][begin + together.row] * alone[1][together.col] / max(1, len(source))
        information = together.data * np.log(together.data / expected)
        better = information > 0.0
        rows, columns = together.row[better], together.col[better]
        order = np.lexsort((columns, -information[better], rows))
        rows, columns = rows[order], columns[order]
        rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
        kept = rank < MAX_SHORTLIST
        by_source[begin + rows[kept], rank[kept]] = columns[kept]
    frequent = np.argsort(-alone[1], kind="stable")
    always = [*range(SPECIALS), *frequent[frequent >= SPECIALS][: common - SPECIALS]]
    return LexicalTable(by_source, np.array(always, np.int32))


def _occurrences(tokens: TokenLists, size: int) -> scipy.sparse.csr_matrix:
    """Whether a sentence holds a token, [sentences, size] float64, 1 or 0."""
    ones = np.ones(len(tokens.flat))
    found = scipy.sparse.csr_matrix((ones, tokens.flat.copy(), tokens.offsets.copy()), shape=(len(tokens), size))
    found.sum_duplicates()  # in place, so that the lists must not be shared
    found.data[:] = 1.0
    return found


def save_lexical_table(table: LexicalTable, path: str | PathLike[str]) -> None:
    """Writes the tables, whole or not at all."""
    content = io.BytesIO()
    np.savez_compressed(content, **table._asdict())
    write_whole(Path(path), content.getvalue())


def load_lexical_table(path: str | PathLike[str]) -> LexicalTable:
    """The tables that ``save_lexical_table`` wrote.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it holds something else.
    """
    content = Path(path).read_bytes()
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return LexicalTable(**{name: file[name] for name in LexicalTable._fields})
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: expected a run's shortlist, received a file that is none ({error}).") from error
