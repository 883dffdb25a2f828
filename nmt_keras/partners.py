"""Partners: which target tokens belong to which source tokens, learnt from what occurs together.

A dictionary for vocabulary shortlists (Jean, Cho, Memisevic, Bengio 2015, section 3.3): no model and no iteration, one
product of two sparse matrices.
"""

from __future__ import annotations

import io
import zipfile
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse

from nmt_keras.config import END, MAX_SHORTLIST, PAD
from nmt_keras.corpus.batches import TokenLists
from nmt_keras.files import write_whole

SPECIALS = END + 1
"""Special ids; they are the first of every vocabulary."""
COMMON = 1000
"""Most frequent target tokens, which compete for every sentence."""
ROWS_AT_ONCE = 64
"""Source tokens that are counted at a time: memory holds so many rows of all that occurs together."""


class Partners(NamedTuple):
    """What a training part says of target tokens."""

    by_source: np.ndarray  # [source V, MAX_SHORTLIST] int32: for each source token, best first; PAD where there is none
    common: np.ndarray  # [COMMON or fewer] int32: the special ids, then the most frequent others


def learn_partners(
    source: TokenLists, target: TokenLists, source_size: int, target_size: int, common: int = COMMON
) -> Partners:
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
    return Partners(by_source, np.array(always, np.int32))


def _occurrences(tokens: TokenLists, size: int) -> scipy.sparse.csr_matrix:
    """Whether a sentence holds a token, [sentences, size] float64, 1 or 0."""
    ones = np.ones(len(tokens.flat))
    found = scipy.sparse.csr_matrix((ones, tokens.flat.copy(), tokens.offsets.copy()), shape=(len(tokens), size))
    found.sum_duplicates()  # in place, so that the lists must not be shared
    found.data[:] = 1.0
    return found


def save_partners(partners: Partners, path: str | PathLike[str]) -> None:
    """Writes the tables, whole or not at all."""
    content = io.BytesIO()
    np.savez_compressed(content, **partners._asdict())
    write_whole(Path(path), content.getvalue())


def load_partners(path: str | PathLike[str]) -> Partners:
    """The tables that ``save_partners`` wrote.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it holds something else.
    """
    content = Path(path).read_bytes()
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return Partners(**{name: file[name] for name in Partners._fields})
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: expected a run's shortlist, received a file that is none ({error}).") from error
