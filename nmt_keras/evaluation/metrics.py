"""Scores of translations, by sacreBLEU on raw, cased, detokenised text; the signature says how, so scores compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, NamedTuple

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest


class Score(NamedTuple):
    """A corpus score and the sacreBLEU signature to publish with it."""

    value: float
    """0 to 100."""
    signature: str


def bleu(hypotheses: Sequence[str], references: Sequence[str], language: str | None = None) -> Score:
    """Computes corpus BLEU (Papineni et al. 2002): up to 4-grams, cased, one reference per hypothesis.

    Args:
        hypotheses: detokenised translations; an empty one is a translation of no tokens.
        references: detokenised references, in the same order.
        language: the code of their language, such as "ja". Chinese, Japanese and Korean have tokenizers of their own;
            all others, and None, are cut by sacreBLEU's standard one, 13a.

    Raises:
        ValueError: the lists are empty, differ in length, or are a string instead of a list; or the language's
            tokenizer is not installed.
    """
    return _score(_bleu(language), hypotheses, references)


def require_tokenizer(language: str | None) -> None:
    """Raises ValueError if a language's BLEU needs a tokenizer that is not installed; says what to install."""
    _bleu(language)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Computes corpus chrF2 (Popovic 2015): character 6-grams, cased, no spaces; arguments and errors as ``bleu``."""
    return _score(CHRF(), hypotheses, references)


def sentence_chrf(hypothesis: str, reference: str) -> float:
    """Computes chrF2 of one sentence, 0 to 100; unlike BLEU it is defined for short ones."""
    return float(CHRF().sentence_score(hypothesis, [reference]).score)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Computes the percentage (0 to 100) of hypotheses equal to their reference, character by character."""
    _require_corresponding(hypotheses, references)
    equal = sum(hypothesis == reference for hypothesis, reference in zip(hypotheses, references, strict=True))
    return 100 * equal / len(references)


class Estimate(NamedTuple):
    """A corpus score, and how far it would move with other sentences of the same kind."""

    value: float
    """0 to 100."""
    low: float
    """The lower end of the 95 % interval of the bootstrap."""
    high: float
    p: float | None
    """How probable so large a difference from the baseline would be if there were none; None for the baseline."""


class Estimates(NamedTuple):
    """What ``bootstrap`` found, by system in the order given, with the signatures to publish."""

    bleu: dict[str, Estimate]
    chrf: dict[str, Estimate]
    bleu_signature: str
    chrf_signature: str


def bootstrap(
    systems: Mapping[str, Sequence[str]], references: Sequence[str], language: str | None = None, samples: int = 1000
) -> Estimates:
    """Computes BLEU and chrF of one system or several with 95 % intervals, and which of them differ (Koehn 2004).

    All systems are scored on the same ``samples`` draws, with replacement, of as many sentences as there are; every
    system is compared with the first, the baseline. The implementation is sacreBLEU's paired bootstrap test.

    Args:
        systems: detokenised translations by the system's name.
        references: detokenised references, in the same order.
        language: as for ``bleu``.
        samples: draws.

    Raises:
        ValueError: as for ``bleu``, or there is no system.
    """
    if not systems:
        raise ValueError("systems: expected at least one, received none.")
    for hypotheses in systems.values():
        _require_corresponding(hypotheses, references)
    metrics = {"BLEU": _bleu(language), "chrF": CHRF()}
    named: list[tuple[str, Sequence[str]]] = [(name, list(hypotheses)) for name, hypotheses in systems.items()]
    signatures, results = PairedTest(named, metrics, [list(references)], test_type="bs", n_samples=samples)()
    bleu_name, chrf_name = signatures  # in the order of ``metrics``, under names that carry their parameters
    by_name = {metric: dict(zip(systems, results[metric], strict=True)) for metric in signatures}
    return Estimates(
        _estimates(by_name[bleu_name]),
        _estimates(by_name[chrf_name]),
        str(signatures[bleu_name]),
        str(signatures[chrf_name]),
    )


def _estimates(found: Mapping[str, Any]) -> dict[str, Estimate]:
    """sacreBLEU's ``Result`` of each system as a record; its type would have every figure optional.

    It counts the draws that differ by more than the systems do, and so finds the least p of all where they do not
    differ; there p is 1.
    """
    baseline = next(iter(found.values()))
    return {
        name: Estimate(
            float(result.score),
            float(result.mean - result.ci),
            float(result.mean + result.ci),
            None if result is baseline else 1.0 if result.score == baseline.score else float(result.p_value),
        )
        for name, result in found.items()
    }


LENGTH_EDGES = (5, 10, 15, 20, 30, 40, 50)
"""The longest sentences of all bins but the last."""


class LengthBin(NamedTuple):
    """The sentences of a range of lengths."""

    shortest: int
    longest: int | None
    """None in the last bin, which has no end."""
    sentences: list[int]
    """Their positions in the corpus, at least one."""

    def __str__(self) -> str:
        return f"over {self.shortest - 1}" if self.longest is None else f"{self.shortest}-{self.longest}"


def length_bins(lengths: Sequence[int], edges: Sequence[int] = LENGTH_EDGES) -> list[LengthBin]:
    """Sorts sentences into bins by length; empty bins are left out.

    Args:
        lengths: of each sentence of the corpus; an empty one counts among the shortest.
        edges: the longest lengths of all bins but the last, ascending.
    """
    starts = [1, *(edge + 1 for edge in edges)]
    bins = []
    for shortest, longest in zip(starts, [*edges, None], strict=True):
        inside = [i for i, n in enumerate(lengths) if max(1, n) >= shortest and (longest is None or n <= longest)]
        if inside:
            bins.append(LengthBin(shortest, longest, inside))
    return bins


WRITTEN_WITHOUT_SPACES = ("zh", "ja", "th", "lo", "km", "my", "bo")


def length_unit(language: str | None) -> Literal["words", "characters"]:
    """What the length of a sentence is counted in: words, or characters in a language written without spaces."""
    return "characters" if _primary(language) in WRITTEN_WITHOUT_SPACES else "words"


def sentence_length(sentence: str, language: str | None = None) -> int:
    """Counts a sentence's words, which are what spaces separate, or its characters: see ``length_unit``."""
    words = sentence.split()
    return len(words) if length_unit(language) == "words" else len("".join(words))


class AlignmentError(NamedTuple):
    """How well links agree with those of annotators, over a corpus."""

    error_rate: float  # 0 to 1, lower is better
    precision: float  # 0 to 1: the share of the links found that are possible
    recall: float  # 0 to 1: the share of the sure links that were found


def alignment_error(
    found: Sequence[AbstractSet[tuple[int, int]]],
    sure: Sequence[AbstractSet[tuple[int, int]]],
    possible: Sequence[AbstractSet[tuple[int, int]]],
) -> AlignmentError:
    """Computes the alignment error rate (Och and Ney 2003, equation 22).

        AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)

    with the links found A, the sure ones S and the possible ones P, which include S; counted over all sentences.

    Args:
        found: A of each sentence pair, (source word, target word).
        sure: S of each.
        possible: P of each.

    Raises:
        ValueError: the lists differ in length, or there is neither a link found nor a sure one.
    """
    counts = len(found), len(sure), len(possible)
    if len(set(counts)) > 1:
        raise ValueError(f"found, sure, possible: expected one of each for a sentence pair, received {counts}.")
    a, s = sum(map(len, found)), sum(map(len, sure))
    if a + s == 0:
        raise ValueError("found, sure: expected at least one link, received none.")
    in_sure = sum(len(links & gold) for links, gold in zip(found, sure, strict=True))
    in_possible = sum(
        len(links & (gold | sure_ones)) for links, gold, sure_ones in zip(found, possible, sure, strict=True)
    )
    return AlignmentError(
        error_rate=1 - (in_sure + in_possible) / (a + s),
        precision=in_possible / a if a else 1.0,
        recall=in_sure / s if s else 1.0,
    )


def _bleu(language: str | None) -> BLEU:
    try:
        return BLEU(trg_lang=_primary(language))
    except RuntimeError as error:  # sacreBLEU's way to say that a tokenizer is not installed
        raise ValueError(
            f'language: BLEU of {language!r} needs a tokenizer: pip install "sacrebleu[{_primary(language)}]".'
        ) from error


def _primary(language: str | None) -> str:
    """The language of a code that may name a script or region too: "zh" of "zh-TW"."""
    return (language or "").partition("-")[0].lower()


def _score(metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    _require_corresponding(hypotheses, references)
    value = metric.corpus_score(hypotheses, [references]).score
    return Score(value, str(metric.get_signature()))  # the signature counts references, so it is asked for last


def _require_corresponding(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise ValueError("hypotheses, references: expected two lists of sentences, received a string. Pass [sentence].")
    if not hypotheses or len(hypotheses) != len(references):
        raise ValueError(
            "hypotheses, references: expected two lists of one length, at least 1; received "
            f"{len(hypotheses):,} hypotheses and {len(references):,} references."
        )
