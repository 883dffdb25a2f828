"""Association of source and target lines, learnt from the lines themselves: word translations by IBM model 1.

Half of the lines is scored with translations learnt from the other half, so a line whose partner is elsewhere scores as
by chance. Letters of scripts without spaces count as words. The gain of source line x and target line y, in nats:

    gain(x, y) = SUM over words t of y: log(k + (1 - k) / |x| SUM over words s of x: p(t | s) / q(t))

p(t | s): word translations (Brown et al. 1993). q(t): share of t among the target words. k: ``KEPT``.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from sklearn.feature_extraction.text import CountVectorizer

from nmt_keras.languages import split_words

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OFFSETS = np.arange(-10, 11)  # offsets between a source line and its target line

SCANNED = 20_000
"""Maximum number of lines that translations are learnt from at each offset: stretches from the whole corpus."""

WORDS = 20_000  # maximum number of different words per side, the most frequent

STRETCH = 500  # lines of a stretch, and about the number of lines that are scored at once

LINKS = 10_000_000  # about the maximum number of links between words that translations are learnt from; 100 bytes each

KEPT, ROUNDS, NEGLIGIBLE = 0.2, 4, 0.005
CHANGE = 40.0  # nats that a stretch with another offset must gain at each end

NONE = len(OFFSETS)  # index after those of ``OFFSETS``: the line has no partner at any offset


words_of = lru_cache(2**18)(split_words)
"""``split_words`` of the lines that are checked, each of them several times."""


def word_matrix(lines: Sequence[str], words: int = WORDS) -> csr_array:
    """Returns the words of each line, [N, V]: 1 for each different word. Words of a single line are omitted."""
    counter = CountVectorizer(analyzer=words_of, binary=True, min_df=2, max_features=words, dtype=np.float64)
    try:
        return csr_array(counter.fit_transform(lines))
    except ValueError:  # no word occurs in two lines
        return csr_array((len(lines), 1))


def learn_translations(source: csr_array, target: csr_array) -> csr_array:
    """Returns p(t | s), [V, V'], from the words of corresponding lines, [N, V] and [N, V'], evenly spaced ones of many.

    Their number is limited by ``LINKS``.
    """
    step = 1 + int((np.diff(source.indptr) * np.diff(target.indptr)).sum()) // LINKS
    source, target = source[::step], target[::step]
    line = np.repeat(np.arange(target.shape[0]), np.diff(target.indptr))  # of each target word
    wide = np.diff(source.indptr)[line]
    word = np.repeat(np.arange(len(line)), wide)  # target word of each link; all words of a line are linked
    within = np.arange(len(word)) - np.repeat(np.cumsum(wide) - wide, wide)
    linked = source.indices[source.indptr[line[word]] + within].astype(np.int64) * target.shape[1]
    links, link = np.unique(linked + target.indices[word], return_inverse=True)
    row, column = np.divmod(links, target.shape[1])
    value: Floats = np.ones(len(links))
    for _ in range(ROUNDS):
        share = value[link] / np.bincount(word, value[link], len(line))[word]
        count = np.bincount(link, share, len(links))
        value = count / np.bincount(row, count, source.shape[1])[row]
    kept = value > NEGLIGIBLE
    return csr_array((value[kept], (row[kept], column[kept])), (source.shape[1], target.shape[1]))


class Alignment(NamedTuple):
    """Partner of each source line.

    Attributes:
        offset: [N] int. Offset of the partner. The lines of a stretch have the same offset.
        alone: [N] bool. The line is in a stretch without partners at any offset.
        unrelated: [N] bool. The line and its partner gain at most the median of random pairs.
        compared: Number of pairs with words that occur elsewhere.
        gains: Mean gain per target word at each offset, in nats.
        chance: The same for random pairs.
    """

    offset: Ints
    alone: NDArray[np.bool_]
    unrelated: NDArray[np.bool_]
    compared: int
    gains: dict[int, float]
    chance: float

    @property
    def unrelated_share(self) -> float:
        """Estimated share of pairs that belong to no line nearby. Half of them gain more than the median."""
        return float(self.alone.sum() + 2 * (self.unrelated & ~self.alone).sum()) / max(1, self.compared)


def gains(expected: csr_array, target: csr_array) -> Floats:
    """Returns the gain of each line, [N], from the expected words [N, V'] of ``expect`` and the words [N, V']."""
    hits = csr_array(expected.multiply(target))
    hits.data = np.log1p(hits.data)
    return np.asarray(hits.sum(axis=1)).ravel() + np.log(KEPT) * np.diff(target.indptr)


def expect(source: csr_array, learnt: csr_array, share: Floats) -> csr_array:
    """Returns (1 - k) / k / |x| SUM p(t | s) / q(t) for each line and word, [N, V']. ``share`` is q, [V']."""
    mean = diags_array(1 / np.maximum(1, np.diff(source.indptr))) @ source
    return csr_array((mean @ learnt) @ diags_array((1 - KEPT) / KEPT / np.maximum(share, 1e-9)))


def align_lines(source: csr_array, target: csr_array, *, learn: bool = True) -> Alignment:
    """Finds the partner of each source line at one of ``OFFSETS``.

    Args:
        source, target: [N, V] and [N, V']. Words of each line; see ``word_matrix``.
        learn: If ``False``, both sides have the same words, and each is its own translation.
    """
    size, reach = source.shape[0], int(OFFSETS[-1])
    lines, words = np.arange(size), np.diff(target.indptr)
    share = np.asarray(target.sum(axis=0)).ravel() / max(1.0, target.sum())
    same = csr_array(diags_array(np.ones(source.shape[1])))
    starts = np.linspace(reach, max(reach, size - reach - STRETCH), max(1, SCANNED // STRETCH)).astype(int)
    scanned = np.unique((starts[:, np.newaxis] + np.arange(STRETCH)).ravel())
    inner, scanned = lines[reach : size - reach], scanned[scanned < size - reach]

    def expected(offset: int, learnt_from: Ints, scored: Ints) -> Iterator[tuple[Ints, csr_array]]:
        learnt = learn_translations(source[learnt_from], target[learnt_from + offset]) if learn else same
        for block in np.array_split(scored, 1 + len(scored) // STRETCH):
            yield block, expect(source[block], learnt, share)

    def mean(offset: int) -> float:
        scored, others = scanned[scanned // 7 % 2 == 0], scanned[scanned // 7 % 2 == 1]
        gain = sum(gains(found, target[block + offset]).sum() for block, found in expected(offset, others, scored))
        return float(gain / max(1, words[scored + offset].sum()))

    scores = {int(offset): mean(int(offset)) for offset in OFFSETS}
    best = max(scores, key=lambda each: (scores[each], -abs(each)))
    reward, chance, partner = np.zeros((size, NONE + 1)), np.zeros(size), lines.copy()
    for part in (0, 1):  # neighbours are alike, so stretches of seven lines are in one half
        scored = lines[lines // 7 % 2 == part]
        partner[scored] = np.random.default_rng(1).permutation(scored)
        for block, found in expected(best, inner[inner // 7 % 2 != part], scored):
            for column, each in enumerate(OFFSETS):
                exists = (block + each >= 0) & (block + each < size)
                reward[block[exists], column] = gains(found[exists], target[block[exists] + each])
            chance[block] = gains(found, target[partner[block]]) / np.maximum(1, words[partner[block]])
    reward[:, NONE] = np.median(chance) / 2 * words
    path = best_path(reward)
    alone, offset = path == NONE, np.append(OFFSETS, best)[path]
    count = words[np.clip(lines + offset, 0, size - 1)]
    comparable = (np.diff(source.indptr) > 0) & (count > 0)
    unrelated = comparable & (alone | (reward[lines, path] / np.maximum(1, count) <= np.median(chance)))
    return Alignment(offset, alone, unrelated, int(comparable.sum()), scores, float(chance.mean()))


def best_path(reward: Floats) -> Ints:
    """Returns the column of each row, [N], with the largest sum of ``reward`` [N, C] less ``CHANGE`` per change."""
    total, back = np.zeros(reward.shape[1]), np.zeros(reward.shape, np.int64)
    for row, values in enumerate(reward):
        from_best = int(total.argmax())
        stays = total >= total[from_best] - CHANGE
        back[row] = np.where(stays, np.arange(len(total)), from_best)
        total = np.maximum(total, total[from_best] - CHANGE) + values
    path = np.empty(len(reward), np.int64)
    column = int(total.argmax()) if len(reward) else 0
    for row in range(len(reward) - 1, -1, -1):
        path[row] = column
        column = back[row, column]
    return path
