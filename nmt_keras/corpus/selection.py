"""Data selection: the pairs of a large corpus that resemble a domain (Axelrod, He, Gao 2011, section 4.1).

    score(x, y) = H_D(x) - H_G(x) + H_D(y) - H_G(y)

H_D and H_G are cross-entropies per word of one side, under a language model of the domain and one of the general
corpus. Pairs with low scores are selected. As in Moore, Lewis 2010, the general model is trained on a random sample of
the corpus, as large as the domain. The vocabulary of both models is the words that occur at least twice in the domain.

Difference from the papers: bigram models, not 4-gram models.
"""

import gzip
import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from nmt_keras.config import require
from nmt_keras.corpus.reading import Pair, ReadReport, require_usable, stream_parallel
from nmt_keras.io.files import make_writable_folder, replacing
from nmt_keras.io.lines import Place, require_files
from nmt_keras.languages import spaced, split_words

EDGE, UNKNOWN = "<s>", "<unk>"
"""EDGE stands before the first word and after the last word of a sentence. UNKNOWN replaces words outside the
vocabulary."""


class BigramModel:
    """Bigram language model with Witten-Bell smoothing.

        p(w | v) = (c(v, w) + t(v) p(w)) / (c(v) + t(v))            p(w) = (c(w) + 1) / (n + V)

    c: counts. t(v): number of different words after v. n: number of words. V: size of the vocabulary, including the two
    special words.

    Args:
        sentences: Words of the training sentences.
        vocabulary: Known words. All others are ``UNKNOWN``.
    """

    def __init__(self, sentences: Iterable[Sequence[str]], vocabulary: Collection[str]) -> None:
        self._known = {EDGE, UNKNOWN, *vocabulary}
        self._counts = Counter(bigram for sentence in sentences for bigram in self._bigrams(sentence))
        self._before = Counter(before for before, _ in self._counts.elements())
        self._followers = Counter(before for before, _ in self._counts)
        words = Counter(word for _, word in self._counts.elements())
        total = words.total() + len(self._known)
        self._unigram = {word: (words[word] + 1) / total for word in self._known}

    def probability(self, word: str, before: str) -> float:
        """Returns p(word | before). Both are in the vocabulary."""
        followers, unigram = self._followers[before], self._unigram[word]
        if not followers:
            return unigram
        return (self._counts.get((before, word), 0) + followers * unigram) / (self._before[before] + followers)

    def cross_entropy(self, sentence: Sequence[str]) -> float:
        """Returns the mean of -log p in nats over the words and the end of a sentence."""
        return -sum(math.log(self.probability(w, v)) for v, w in self._bigrams(sentence)) / (len(sentence) + 1)

    def _bigrams(self, sentence: Sequence[str]) -> Iterator[tuple[str, str]]:
        known = [word if word in self._known else UNKNOWN for word in sentence]
        return zip([EDGE, *known], [*known, EDGE], strict=True)


def difference(domain: Sequence[str], general: Sequence[str]) -> Callable[[str], float]:
    """Returns the function H_D - H_G of one side, from sentences of the domain and of the general corpus."""
    sides = [[split_words(sentence) for sentence in sentences] for sentences in (domain, general)]
    counts = Counter(word for words in sides[0] for word in words)
    vocabulary = {word for word, count in counts.items() if count >= 2}
    of_domain, of_general = (BigramModel(sentences, vocabulary) for sentences in sides)

    def score(sentence: str) -> float:
        words = split_words(sentence)
        return of_domain.cross_entropy(words) - of_general.cross_entropy(words)

    return score


def select(
    corpus: Sequence[tuple[Place, Place]],
    domain: Sequence[tuple[Place, Place]],
    to: Place,
    words: int,
    *,
    seed: int = 1,
    max_malformed: float = 0.01,
    report: Callable[[str], None] = lambda _: None,
) -> int:
    """Writes the pairs with the lowest scores as gzipped, tab-separated text, in the order of the corpus.

    Returns their number. The corpus is read three times. Memory holds the domain, a sample of the same size, and about
    40 bytes per pair of the corpus.

    Args:
        corpus: Source and target files of the general corpus, whose lines correspond.
        domain: Source and target files of the domain.
        to: Output file.
        words: Maximum number of target words to keep: parts between white space, and letters of scripts without spaces.
        seed: Seed of the sample.
        max_malformed: Maximum share (0 to 1) of malformed lines in a pair of files. Malformed lines are skipped.
        report: Receives messages for the user.

    Raises:
        FileNotFoundError: a file is missing.
        OSError: ``to`` cannot be written.
        ValueError: an argument is out of range, a file is a pipe or has no pair, too many lines are malformed, or files
            differ in their numbers of lines.
    """
    require(words > 0, "words", "1 or more", words)
    require_files(side for files in (*corpus, *domain) for side in files)
    make_writable_folder(Path(to).parent)
    inside = list(_pairs(domain, max_malformed, report))
    report(f"sampling {len(inside):,} pairs of the corpus for the general model")
    outside = _sample(_pairs(corpus, max_malformed, report), len(inside), random.Random(seed))
    source, target = (difference([pair[side] for pair in inside], [pair[side] for pair in outside]) for side in (0, 1))
    report("scoring")
    rows = ((source(pair.source) + target(pair.target), len(spaced(pair.target).split())) for pair in _pairs(corpus))
    scored = np.fromiter(rows, np.dtype([("score", np.float64), ("words", np.int64)]))
    order = np.argsort(scored["score"], kind="stable")
    kept = np.zeros(len(scored), bool)
    kept[order[np.cumsum(scored["words"][order]) <= words]] = True
    require(bool(kept.any()), "words", "at least the number of words of the pair with the lowest score", words)
    with (
        replacing(Path(to), "Nothing was selected.") as partial,
        partial.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as stream,  # the same bytes for the same selection
    ):
        for pair, keep in zip(_pairs(corpus), kept, strict=True):
            if keep:
                stream.write(("\t".join(side.replace("\t", " ") for side in pair) + "\n").encode())
    report(f"{kept.sum():,} of {len(kept):,} pairs, {scored['words'][kept].sum():,} target words, selected")
    return int(kept.sum())


def _pairs(
    files: Sequence[tuple[Place, Place]], max_malformed: float = 1.0, report: Callable[[str], None] = lambda _: None
) -> Iterator[Pair]:
    for source, target in files:
        found = ReadReport()
        yield from found.pairs(stream_parallel(source, target))
        require_usable(found, f"{source} and {target}", max_malformed)
        report(f"{source} and {target}: {found}")


def _sample(pairs: Iterable[Pair], size: int, draw: random.Random) -> list[Pair]:
    """Returns ``size`` random pairs, or all if there are fewer (algorithm R: Vitter 1985)."""
    kept: list[Pair] = []
    for number, pair in enumerate(pairs):
        if number < size:
            kept.append(pair)
        elif (place := draw.randrange(number + 1)) < size:
            kept[place] = pair
    return kept
