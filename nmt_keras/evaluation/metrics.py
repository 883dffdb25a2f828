"""Scores of raw, cased, detokenised translations by sacreBLEU. Publish a score with its signature.

Translations and references are compared in NFC, so canonically equivalent text is equal.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER

from nmt_keras.config import require, require_choice
from nmt_keras.corpus.alignments import GoldLinks, Link
from nmt_keras.languages import bleu_tokenizer, has_spaces, spaced


class Score(NamedTuple):
    """A corpus score and the sacreBLEU signature to publish with it."""

    value: float  # 0 to 100
    signature: str


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: str | None = None,
    tokenizer: str | None = None,
    *,
    force: bool = False,
) -> Score:
    """Returns corpus BLEU (Papineni et al. 2002): up to 4-grams, cased, one reference per hypothesis.

    Args:
        hypotheses: Detokenised translations, which may be empty strings.
        references: Detokenised references, in the same order.
        language: Language code, such as "ja"; see ``languages.bleu_tokenizer``.
        tokenizer: Name of another tokenizer of sacreBLEU; "none" for text that is already tokenised.
        force: If ``True``, sacreBLEU does not warn about text that looks tokenised.

    If no hypothesis, or no reference, has a 4-gram, only the n-grams that occur are counted: sacreBLEU's effective
    order, "eff:yes" in the signature.

    Raises:
        ValueError: a list is empty or a string, the lengths differ, there is no such language, or its tokenizer is not
            installed.
    """
    texts = _corresponding(hypotheses, references)
    return _score(_bleu(language, tokenizer, *texts, force=force), *texts)


def require_tokenizer(language: str | None, tokenizer: str | None = None) -> None:
    """Raises ValueError if there is no such language or BLEU tokenizer, or if the tokenizer is not installed."""
    _bleu(language, tokenizer)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Returns corpus chrF2 (Popovic 2015): up to character 6-grams, cased, without spaces.

    Arguments and errors are those of ``bleu``, without ``language``.
    """
    return _score(CHRF(), *_corresponding(hypotheses, references))


def ter(hypotheses: Sequence[str], references: Sequence[str], language: str | None = None) -> Score:
    """Returns the corpus translation edit rate (Snover et al. 2006): edits in percent of the reference words, cased.

    Lower is better, and it can exceed 100. In Chinese and Japanese, each character is a word; TER has no words in other
    languages without spaces. Arguments and errors are those of ``bleu``.
    """
    splits = not has_spaces(language)
    metric = TER(case_sensitive=True, normalized=splits, asian_support=splits)
    return _score(metric, *_corresponding(hypotheses, references))


def sentence_chrf(hypothesis: str, reference: str) -> float:
    """Returns chrF2 of one sentence, 0 to 100. Unlike BLEU, it is defined for short sentences."""
    (hypothesis,), (reference,) = _corresponding([hypothesis], [reference])
    return float(CHRF().sentence_score(hypothesis, [reference]).score)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Returns the percentage (0 to 100) of hypotheses that equal their reference, except for white space."""
    hypotheses, references = (
        [" ".join(text.split()) for text in texts] for texts in _corresponding(hypotheses, references)
    )
    return 100 * sum(map(str.__eq__, hypotheses, references)) / len(references)


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of a metric over the runs of a system."""

    mean: float
    deviation: float | None  # sample standard deviation; None if there is only one run

    def text(self, digits: int) -> str:
        """Returns the mean and, if there are several runs, the deviation."""
        deviation = "" if self.deviation is None else f" ± {self.deviation:.{digits}f}"
        return f"{self.mean:.{digits}f}{deviation}"


@dataclass(frozen=True)
class Estimate(Spread):
    """Corpus score of a system, 0 to 100, with its confidence interval."""

    low: float  # 95 % interval of the mean
    high: float
    p: float | None  # probability of a difference this large from the baseline by chance; None if there is no test

    @property
    def interval(self) -> str:
        """The interval as text. Its decimals are those of the tables' scores."""
        return f"({self.low:.2f} to {self.high:.2f})"

    @property
    def with_interval(self) -> str:
        """The score and its interval as text."""
        return f"{self.text(2)} {self.interval}"

    @property
    def significance(self) -> str:
        """The p-value as text, empty if there is none."""
        return "" if self.p is None else f"{self.p:.3f}" if self.p >= 0.001 else "< 0.001"


class Estimates(NamedTuple):
    """Result of ``compare_runs``: estimates by system, in the given order, and the signatures to publish."""

    bleu: dict[str, Estimate]
    chrf: dict[str, Estimate]
    bleu_signature: str
    chrf_signature: str


def all_baselines(systems: Sequence[str], baselines: Mapping[str, str | None]) -> dict[str, str | None]:
    """Returns the baseline of each system, with which it is compared. The default is the previous system.

    Args:
        systems: Names of the systems, in the order of the table.
        baselines: Baselines other than the previous system, by system name. A system with ``None`` is not compared.

    Raises:
        ValueError: a name in ``baselines`` is not in ``systems``, or a system is its own baseline.
    """
    for name, baseline in baselines.items():
        ok = name in systems and baseline in {None, *systems} - {name}
        require(ok, "baselines", f"two different systems of {', '.join(systems)}", {name: baseline})
    return {name: baselines.get(name, previous) for name, previous in zip(systems, [None, *systems], strict=False)}


LEAST_BLEU = 1.0
"""Minimum BLEU of one of two systems that are compared. Below it, a difference tells nothing about translation."""

SAMPLES, SEED = 1000, 12345  # of the bootstrap; sacreBLEU's

FEWEST_RUNS = 3
"""Minimum number of runs per system of intervals and p-values that are computed from the scores of the runs."""


def compare_runs(
    systems: Mapping[str, Sequence[Sequence[str]]],
    references: Sequence[str],
    language: str | None = None,
    samples: int = SAMPLES,
    baselines: Mapping[str, str | None] = {},
    tokenizer: str | None = None,
) -> Estimates:
    """Returns mean BLEU and chrF of systems, with 95 % intervals and two-sided p-values (Koehn 2004).

    If each system has at least ``FEWEST_RUNS`` runs, an interval is the t-interval of the mean of the runs, and p is
    that of Welch's t-test over the runs (Welch 1947). Both hold for these sentences: the variation between sentences is
    not included. With fewer runs, both are from a paired bootstrap: each sample draws sentences and runs with
    replacement, and all systems have the same sentences. This understates the variation over seeds. If BLEU of both
    systems is below ``LEAST_BLEU``, there is no p-value.

    Args:
        systems: Detokenised translations of each run, by system name.
        references: Detokenised references, in the same order.
        language: As in ``bleu``.
        samples: Number of bootstrap samples.
        baselines: As in ``all_baselines``.
        tokenizer: As in ``bleu``.

    Raises:
        ValueError: as in ``bleu`` and ``all_baselines``, there is no system, or a system has no run.
    """
    require(bool(systems), "systems", "at least one", dict(systems))
    compared = all_baselines(list(systems), baselines)
    for name, runs in systems.items():
        require(len(runs) > 0, "systems", f"at least one run of {name}", runs)
    pairs = {name: [_corresponding(hypotheses, references) for hypotheses in runs] for name, runs in systems.items()}
    systems = {name: [hypotheses for hypotheses, _ in runs] for name, runs in pairs.items()}
    references = next(iter(pairs.values()))[0][1]
    texts = [references, *(texts for runs in systems.values() for texts in runs)]
    metrics = _bleu(language, tokenizer, *texts), CHRF()
    bleu_, chrf_ = (_over_seeds(metric, systems, references, samples, compared) for metric in metrics)
    for name, baseline in compared.items():
        if baseline is not None and max(bleu_[name].mean, bleu_[baseline].mean) < LEAST_BLEU:
            bleu_[name], chrf_[name] = (replace(scores[name], p=None) for scores in (bleu_, chrf_))
    return Estimates(bleu_, chrf_, *(str(metric.get_signature()) for metric in metrics))


def _over_seeds(
    metric: BLEU | CHRF | TER,
    systems: Mapping[str, Sequence[Sequence[str]]],
    references: Sequence[str],
    samples: int,
    baselines: Mapping[str, str | None],
) -> dict[str, Estimate]:
    """Returns the estimates of one metric.

    Args:
        metric: The metric.
        systems: Translations of the runs of each system, by system name.
        references: Reference of each sentence.
        samples: Number of bootstrap samples.
        baselines: Baseline of each system, or ``None``.
    """
    sums = {  # [sentences, statistics] of each run; private, but sacreBLEU's own significance tests also use them
        name: [np.array(metric._extract_corpus_statistics(list(run), [list(references)])) for run in runs]
        for name, runs in systems.items()
    }
    values = {name: [_of_statistics(metric, each.sum(axis=0)) for each in runs] for name, runs in sums.items()}
    if min(map(len, systems.values())) >= FEWEST_RUNS:
        return _of_runs(values, baselines)
    drawn_values = [  # of each sample, system and run
        [[_of_statistics(metric, draw @ one) for one in each] for each in sums.values()]
        for draw in _draws(len(references), samples)
    ]
    random = np.random.default_rng(SEED)
    means: dict[str, np.ndarray] = {}  # [samples] float: mean over the drawn runs of each system
    for name, *of_samples in zip(sums, *drawn_values, strict=True):
        drawn = np.array(of_samples).T  # [runs, samples]
        runs_drawn = random.integers(len(drawn), size=drawn.shape)
        means[name] = np.take_along_axis(drawn, runs_drawn, axis=0).mean(axis=0)
    found: dict[str, Estimate] = {}
    for name, baseline in baselines.items():
        mean, p = float(np.mean(values[name])), None
        if baseline is not None:
            difference = means[name] - means[baseline]
            as_large = np.abs(difference - difference.mean()) >= abs(mean - float(np.mean(values[baseline])))
            p = float((1 + as_large.sum()) / (1 + samples))
        deviation = float(np.std(values[name], ddof=1)) if len(values[name]) > 1 else None
        low, high = map(float, np.percentile(means[name], [2.5, 97.5]))
        found[name] = Estimate(mean, deviation, low, high, p)
    return found


def _draws(sentences: int, samples: int) -> Iterator[np.ndarray]:
    """Yields how often each sentence is drawn, [sentences] int, for each sample."""
    random = np.random.default_rng(SEED)
    for _ in range(samples):
        yield random.multinomial(sentences, np.full(sentences, 1.0 / sentences))


def _of_runs(values: Mapping[str, Sequence[float]], baselines: Mapping[str, str | None]) -> dict[str, Estimate]:
    """Returns the estimates from the scores of the runs of each system: t-intervals, and p of Welch's t-test."""
    from scipy.stats import t, ttest_ind

    found = {}
    for name, baseline in baselines.items():
        scores, p = values[name], None
        mean, deviation = float(np.mean(scores)), float(np.std(scores, ddof=1))
        half = float(t.ppf(0.975, len(scores) - 1)) * deviation / len(scores) ** 0.5
        if baseline is not None:
            varied = max(map(np.ptp, (scores, values[baseline]))) > 0  # else the statistic is 0 / 0 or infinite
            welch = ttest_ind(scores, values[baseline], equal_var=False) if varied else None
            p = float(welch.pvalue) if welch else float(scores[0] == values[baseline][0])
        found[name] = Estimate(mean, deviation, mean - half, mean + half, p)
    return found


def _of_statistics(metric: BLEU | CHRF | TER, statistics: np.ndarray) -> float:
    return min(100.0, float(metric._compute_score_from_stats(statistics.astype(int).tolist()).score))


LENGTH_EDGES = (5, 10, 15, 20, 30, 40, 50)
"""Maximum length of each bin except the last."""


def length_bins(lengths: Sequence[int], edges: Sequence[int] = LENGTH_EDGES) -> dict[str, list[int]]:
    """Sorts sentences into bins by length.

    Args:
        lengths: Length of each sentence. An empty sentence belongs to the first bin.
        edges: Maximum length of each bin except the last, ascending.

    Returns:
        The indices of the sentences by bin name, such as "6-10" or "over 50". Empty bins are omitted.
    """
    starts = [1, *(edge + 1 for edge in edges)]
    names = [f"{start}-{edge}" for start, edge in zip(starts, edges, strict=False)] + [f"over {edges[-1]}"]
    bins = np.searchsorted(edges, lengths)
    return {names[at]: np.flatnonzero(bins == at).tolist() for at in np.unique(bins)}


def length_unit(language: str | None) -> Literal["words", "characters"]:
    """Returns the unit of sentence length: characters for languages without spaces between words, else words.

    Raises:
        ValueError: there is no such language.
    """
    return "words" if has_spaces(language) else "characters"


def sentence_length(sentence: str, language: str | None = None) -> int:
    """Returns the number of words, or of characters without white space; see ``length_unit``.

    Each letter of a script without spaces is a word.
    """
    words = spaced(sentence).split()
    return len(words) if length_unit(language) == "words" else len("".join(words))


@dataclass(frozen=True)
class AlignmentError:
    """Agreement of predicted links with gold links over a corpus."""

    error_rate: float  # 0 to 1, lower is better
    precision: float  # 0 to 1: share of the predicted links that are possible
    recall: float  # 0 to 1: share of the sure links that are predicted


def alignment_error(found: Sequence[AbstractSet[Link]], gold: Sequence[GoldLinks]) -> AlignmentError:
    """Returns the alignment error rate (Och and Ney 2003, equation 22).

        AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)

    A: predicted links. S: sure gold links. P: possible gold links, which include S. Links are counted over all
    sentences.

    Args:
        found: Predicted links A of each sentence pair.
        gold: Gold links S and P of each sentence pair.

    Raises:
        ValueError: the lists differ in length, or there are neither predicted nor sure links.
    """
    require(len(found) == len(gold), "found, gold", "lists of the same length", (len(found), len(gold)))
    a, s = sum(map(len, found)), sum(len(one.sure) for one in gold)
    require(a + s > 0, "found, gold", "at least one link", "none")
    in_sure = sum(len(links & one.sure) for links, one in zip(found, gold, strict=True))
    in_possible = sum(len(links & one.possible) for links, one in zip(found, gold, strict=True))
    return AlignmentError(
        error_rate=1 - (in_sure + in_possible) / (a + s),
        precision=in_possible / a if a else 1.0,
        recall=in_sure / s if s else 1.0,
    )


def _bleu(language: str | None, tokenizer: str | None = None, *systems: Sequence[str], force: bool = False) -> BLEU:
    """Returns the metric of a language. It has the effective order if one of ``systems`` has no 4-gram."""
    if tokenizer is not None:
        require_choice("--bleu-tokenizer", tuple(BLEU.TOKENIZERS), tokenizer)
    chosen = tokenizer or bleu_tokenizer(language)
    try:
        metric = BLEU(tokenize=chosen, force=force or tokenizer == "none")
    except RuntimeError as error:
        raise ValueError(
            f"language: the BLEU tokenizer of {tokenizer or language!r} is not installed. Run "
            f'pip install "sacrebleu[{chosen[:2]}]".'
        ) from error
    except OSError as error:
        raise ValueError(
            f"--bleu-tokenizer {chosen}: its model cannot be downloaded ({error}). Pass another tokenizer."
        ) from error
    metric.effective_order = not all(
        any(len(metric.tokenizer(text).split()) >= metric.max_ngram_order for text in texts) for texts in systems
    )
    return metric


def _score(metric: BLEU | CHRF | TER, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    value = min(100.0, metric.corpus_score(hypotheses, [references]).score)  # sacreBLEU rounds up to 100.00000000000004
    return Score(value, str(metric.get_signature()))  # after scoring, because it contains the number of references


def _corresponding(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns both lists in NFC. Raises ValueError if they are not lists of the same length."""
    are_lists = not isinstance(hypotheses, str) and not isinstance(references, str)
    require(are_lists, "hypotheses, references", "two lists of sentences", "a string")
    counts = len(hypotheses), len(references)
    require(0 < counts[0] == counts[1], "hypotheses, references", "two non-empty lists of the same length", counts)
    composed = [[unicodedata.normalize("NFC", text) for text in texts] for texts in (hypotheses, references)]
    return composed[0], composed[1]
