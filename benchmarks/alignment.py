"""Measures the alignment error rate of runs: how far their attention is from reference word alignments.

    python -m benchmarks.alignment runs/flagship runs/hour > alignment.json
    python -m benchmarks.alignment runs/hour --links eflomal.align > alignment.json
    python -m benchmarks.alignment runs/sample --gold sample > alignment-sample.json

Each run aligns the given translations by forced decoding. The weights of tokens are combined into weights of the words
and punctuation marks in the gold file: they are summed over the tokens of a source word and averaged over the tokens of
a target word. Each target word is linked with the source word of its largest weight. A word whose largest weight is at
END has no link. The figures "every_word_linked" leave END out, so that each word has a link. Prints JSON.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

import nmt_keras
from benchmarks.machine import machine, print_result
from nmt_keras.config import require
from nmt_keras.corpus.alignments import SPACE, Link, from_pharaoh, split_words, to_pharaoh, words_of_tokens
from nmt_keras.evaluation.gold import GoldPair, read_gold
from nmt_keras.evaluation.metrics import alignment_error
from nmt_keras.text import normalise_lines
from nmt_keras.translation.model_translator import ModelTranslator
from nmt_keras.translation.records import AlignedPair

ALIGNMENTS = Path(__file__).parents[1] / "docs" / "results" / "alignments"


def main(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")],
    gold: str = "spa-eng",
    links: tuple[Path, ...] = (),
) -> None:
    """Measures and prints the result.

    Args:
        runs: Run directories.
        gold: Reference alignments. "spa-eng": the 100 pairs of docs/results/alignments. "sample": the 393 pairs of the
            test set of the sample corpus. Otherwise: a file of lines source words<TAB>target words<TAB>links.
        links: Files with the alignments of other systems, one line in Pharaoh's format for each pair of the gold file.
    """
    before, pairs = machine(), gold_pairs(gold)
    found = {str(run): weight_figures(nmt_keras.load(run), pairs) for run in runs}
    for path in links:
        lines = path.read_text("utf-8").splitlines()
        require(len(lines) == len(pairs), "--links", f"{len(pairs)} lines in {path}, one per pair", len(lines))
        linked = [from_pharaoh(line, f"{path}:{number}").possible for number, line in enumerate(lines, 1)]
        found[path.name] = figures(linked, pairs)
    print_result(
        before,
        {
            "gold": Path(gold).name,
            "pairs": len(pairs),
            "sure": sum(len(pair.links.sure) for pair in pairs),
            "possible": sum(len(pair.links.possible - pair.links.sure) for pair in pairs),
            "systems": found,
        },
    )


def gold_pairs(name: str) -> list[GoldPair]:
    """Returns the pairs of "spa-eng", of "sample", or of the file ``name``."""
    named = ALIGNMENTS / f"{name}.tsv"
    return read_gold(named if named.exists() else Path(name))


def as_written(words: str) -> str:
    """Joins words to a sentence, without a space before a punctuation mark or after an opening mark."""
    return re.sub(r" (?=[.,?!])|(?<=[¿¡]) ", "", words)


def weight_figures(translator: ModelTranslator, gold: Sequence[GoldPair]) -> dict[str, Any]:
    """Returns the results of ``figures`` with and without END, and the mean of the largest weight of each word.

    The weights are those of forced decoding. The translator receives the sentences as written.
    """
    sources, targets = ([as_written(words) for words in side] for side in list(zip(*gold, strict=True))[:2])
    aligned = zip(translator.align(sources, targets), gold, strict=True)
    weights = [word_weights(one, pair.source, pair.target) for one, pair in aligned]
    largest = np.concatenate([each[:-1].max(axis=1) for each in weights])
    return {
        **figures(list(map(hard_links, weights)), gold),
        "largest_weight": round(float(largest.mean()), 4),
        "every_word_linked": figures([hard_links(each[:, :-1], has_end=False) for each in weights], gold),
    }


def figures(found: Sequence[frozenset[Link]], gold: Sequence[GoldPair]) -> dict[str, Any]:
    """Returns the error rate with its 95 % bootstrap interval over pairs, precision, recall, and the links.

    "links" is their number. "predicted" has those of each pair in Pharaoh's format.
    """
    error = alignment_error(found, [pair.links for pair in gold])
    sure = [[len(pair.links.sure), len(links & pair.links.sure)] for links, pair in zip(found, gold, strict=True)]
    possible = [[len(links), len(links & pair.links.possible)] for links, pair in zip(found, gold, strict=True)]
    drawn = np.random.default_rng(1).multinomial(len(gold), np.full(len(gold), 1 / len(gold)), size=1000)
    (s, in_sure), (a, in_possible) = (drawn @ np.array(sure)).T, (drawn @ np.array(possible)).T
    low, high = np.percentile(1 - (in_sure + in_possible) / np.maximum(a + s, 1), [2.5, 97.5])
    return {
        **{name: round(value, 4) for name, value in asdict(error).items()},
        "interval": [round(float(low), 4), round(float(high), 4)],
        "links": sum(map(len, found)),
        "predicted": [to_pharaoh(sorted(links)) for links in found],
    }


def word_weights(aligned: AlignedPair, source: str, target: str) -> np.ndarray:
    """Combines the weights of a pair's tokens into weights [T, S] of its words, END included."""
    rows, columns = _tokens_of(target, aligned.target), _tokens_of(source, aligned.source)
    rows /= np.maximum(rows.sum(axis=1, keepdims=True), 1.0)
    return rows @ aligned.alignment @ columns.T


def hard_links(weights: np.ndarray, *, has_end: bool = True) -> frozenset[Link]:
    """Returns the link of each target word with the source word of its largest weight. END is never linked.

    Args:
        weights: Weights [T, S]. The last row is that of END.
        has_end: If ``True``, the last column is that of END.
    """
    best = [(int(np.argmax(row)), t) for t, row in enumerate(weights[:-1]) if row.any()]
    return frozenset((s, t) for s, t in best if s < weights.shape[1] - has_end)


def _tokens_of(words: str, tokens: Sequence[str]) -> np.ndarray:
    """Returns a matrix [words and END, tokens]: 1 if the token belongs to the word. The last token is END.

    A token outside all words, such as a single space, belongs to the word of the next token.
    """
    (normalised,) = normalise_lines([words])
    end = len(split_words(words))
    places = [*words_of_tokens(normalised, [token.strip(SPACE) for token in tokens[:-1]], words), end]
    for position in reversed(range(len(places))):
        if places[position] < 0:
            places[position] = places[position + 1]
    return (np.arange(end + 1)[:, np.newaxis] == places).astype(np.float64)


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
