"""Vocabulary shortlists: each sentence is decoded with its likely target tokens only, instead of all V.

The softmax is the largest product of a decoding step. Jean, Cho, Memisevic, Bengio 2015 (section 3.3) restrict it to
the most frequent target words and a dictionary's translations of the source words. ``LexicalTable`` is our dictionary.
"""

from __future__ import annotations

import io
import zipfile
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse
import tensorflow as tf

from nmt_keras.config import END, MAX_SHORTLIST, PAD
from nmt_keras.files import write_whole
from nmt_keras.layers.matmul import Weight, weight_of
from nmt_keras.models.ensemble import Ensemble, average
from nmt_keras.models.predictor import Prediction, Predictor, StepFunction
from nmt_keras.search.hypotheses import Hypotheses

if TYPE_CHECKING:  # an exported version is loaded without the corpus package
    from nmt_keras.corpus.batches import TokenLists


class ShortlistMemory(NamedTuple):
    """Memory of a search over the tokens of a ``BatchShortlist``."""

    memory: Any  # nest of [B, ...]: the model's memory
    logit_bias: tf.Tensor  # [B, C] float32: see ``BatchShortlist``


class BatchShortlist(NamedTuple):
    """The C target tokens that compete in a batch: the union of its sentences' shortlists.

    A search with the narrowed step function has a vocabulary of C tokens. Its token ids are indices into ``ids``. The
    probabilities are the model's own, renormalised over each sentence's shortlist.
    """

    ids: tf.Tensor  # [C] int32, ascending; the special ids come first, so each is equal to its index
    logit_bias: tf.Tensor  # [B, C] float32: 0 for the tokens of a sentence's own shortlist, -infinity for the others

    def step_function(self, model: Predictor) -> StepFunction:
        """Returns the narrowed step function of ``model``, with logits [B, Q, C]. Its memory is a ``ShortlistMemory``.

        Call this method before the search loop, because it gathers the shortlist's part of the output matrix.
        """
        if isinstance(model, Ensemble):
            together = average([self.step_function(one) for one in model.models])

            def step_together(ids: tf.Tensor, state: Any, memory: ShortlistMemory) -> Prediction:
                return together(ids, state, tuple(memory._replace(memory=own) for own in memory.memory))

            return step_together
        from nmt_keras.models.seq2seq import Seq2Seq  # imported here: an exported version is loaded without this module

        if not isinstance(model, Seq2Seq):
            raise TypeError(f"model: expected a Seq2Seq or an Ensemble of them, received {type(model).__name__}.")
        decoder = model.decoder
        kernel, bias = decoder.classifier
        axis = 0 if decoder.output_layer.tie_embeddings else 1
        rows = tf.gather(weight_of(kernel, tf.float32).value, self.ids, axis=axis)
        classifier = Weight(rows), tf.gather(bias, self.ids)

        def step(ids: tf.Tensor, state: Any, memory: ShortlistMemory) -> Prediction:
            predicted = decoder.step(tf.gather(self.ids, ids), state, memory.memory, classifier)
            logit_bias = tf.cast(memory.logit_bias, predicted.logits.dtype)[:, tf.newaxis]
            return predicted._replace(logits=predicted.logits + logit_bias)

        return step

    def places(self, ids: tf.Tensor) -> tf.Tensor:
        """Converts ids of the vocabulary to indices into ``self.ids``, which must contain all of them."""
        return tf.reshape(tf.searchsorted(self.ids, tf.reshape(ids, [-1])), tf.shape(ids))

    def in_vocabulary(self, hypotheses: Hypotheses) -> Hypotheses:
        """Returns ``hypotheses`` with indices into ``self.ids`` converted to ids of the vocabulary."""
        return hypotheses._replace(ids=tf.gather(self.ids, hypotheses.ids))


class Shortlist(tf.Module):
    """Selects the target tokens that compete in a batch.

    Args:
        table: The run's lexical table.
        vocabulary_size: V of the target.
    """

    def __init__(self, table: LexicalTable, vocabulary_size: int):
        super().__init__(name="shortlist")
        self.vocabulary_size = vocabulary_size
        self.narrows = len(table.common) < vocabulary_size  # False if every token competes anyway
        self._by_source = tf.Variable(table.by_source, trainable=False, name="by_source")
        is_common = np.isin(np.arange(vocabulary_size), table.common)
        self._is_common = tf.Variable(is_common, trainable=False, name="is_common")

    def of_batch(self, ids: tf.Tensor, size: int, prefix: tf.Tensor | None = None) -> BatchShortlist:
        """Selects the target tokens for a batch.

        Args:
            ids: [B, S] int32, source tokens; PAD adds nothing.
            size: Number of target tokens that each source token adds, 1 to MAX_SHORTLIST.
            prefix: [B, P] int32, target tokens to add to each sentence's shortlist; PAD adds nothing.
        """
        batch = tf.shape(ids)[0]
        added = tf.reshape(tf.gather(self._by_source[:, :size], ids), [batch, -1])
        if prefix is not None:
            added = tf.concat([added, prefix], axis=1)
        rows = tf.broadcast_to(tf.range(batch)[:, tf.newaxis], tf.shape(added))
        places = tf.stack([rows, added], axis=-1)
        # The update takes the maximum, because a token may be added more than once.
        own = tf.tensor_scatter_nd_max(tf.zeros([batch, self.vocabulary_size]), places, tf.ones_like(added, tf.float32))
        is_own = (own > 0.0) | self._is_common  # [B, V]
        # common tokens compete even in an empty batch, because a search needs candidates
        competing = tf.cast(tf.where(tf.reduce_any(is_own, axis=0) | self._is_common)[:, 0], tf.int32)
        return BatchShortlist(competing, tf.where(tf.gather(is_own, competing, axis=1), 0.0, float("-inf")))


COMMON = 1000  # number of most frequent target tokens, which compete for every sentence
ROWS_AT_ONCE = 64  # number of source tokens counted at a time, which limits the memory for co-occurrences


class LexicalTable(NamedTuple):
    """Likely target tokens of each source token, and the target tokens that compete for every sentence."""

    by_source: np.ndarray  # [source V, MAX_SHORTLIST] int32: target tokens of each source token, best first; then PAD
    common: np.ndarray  # [COMMON or fewer] int32: the special ids, then the most frequent others


def learn_lexical_table(
    source: TokenLists,
    target: TokenLists,
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    common: int = COMMON,
) -> LexicalTable:
    """Learns which target tokens co-occur with each source token more often than by chance.

    They are ranked by their contribution to the mutual information, n(s, t) · log(N n(s, t) / (n(s) n(t))). N is the
    number of sentence pairs, and n is the number of pairs that contain the given tokens.

    Args:
        source, target: The two sides of N pairs, as token ids.
        source_vocabulary_size, target_vocabulary_size: V of each side.
        common: Number of tokens that compete for every sentence: the special ids and the most frequent target tokens.
    """
    in_source, in_target = _occurrences(source, source_vocabulary_size), _occurrences(target, target_vocabulary_size)
    counts_alone = [np.asarray(counts.sum(axis=0))[0] for counts in (in_source, in_target)]
    by_row = in_source.T.tocsr()
    by_source = np.full([source_vocabulary_size, MAX_SHORTLIST], PAD, np.int32)
    for begin in range(0, source_vocabulary_size, ROWS_AT_ONCE):
        together = (by_row[begin : begin + ROWS_AT_ONCE] @ in_target).tocoo()
        expected = counts_alone[0][begin + together.row] * counts_alone[1][together.col] / max(1, len(source))
        information = together.data * np.log(together.data / expected)
        better = information > 0.0
        rows, columns = together.row[better], together.col[better]
        order = np.lexsort((columns, -information[better], rows))
        rows, columns = rows[order], columns[order]
        rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
        kept = rank < MAX_SHORTLIST
        by_source[begin + rows[kept], rank[kept]] = columns[kept]
    frequent = np.argsort(-counts_alone[1], kind="stable")
    specials = np.arange(END + 1)  # the first ids of every vocabulary
    always = [*specials, *frequent[frequent > END][: common - len(specials)]]
    return LexicalTable(by_source, np.array(always, np.int32))


def _occurrences(tokens: TokenLists, size: int) -> scipy.sparse.csr_matrix:
    """Returns a matrix [sentences, size] float64: 1 if the sentence contains the token, else 0."""
    ones = np.ones(len(tokens.flat))
    counts = scipy.sparse.csr_matrix((ones, tokens.flat, tokens.offsets), shape=(len(tokens), size), copy=True)
    return (counts > 0).astype(np.float64)


def save_lexical_table(table: LexicalTable, path: str | PathLike[str]) -> None:
    """Writes the table atomically."""
    content = io.BytesIO()
    np.savez_compressed(content, **table._asdict())
    write_whole(Path(path), content.getvalue())


def load_lexical_table(path: str | PathLike[str]) -> LexicalTable:
    """Reads a table that ``save_lexical_table`` wrote.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is not a lexical table.
    """
    content = Path(path).read_bytes()
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return LexicalTable(**{name: file[name] for name in LexicalTable._fields})
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path}: expected a lexical table, received another file ({error}). Run `nmt shortlist` to write one."
        ) from error
