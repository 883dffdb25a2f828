"""Metrics of systems with several runs, which differ in their seeds: per run, and averaged over the runs."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from nmt_keras.corpus import Pair
from nmt_keras.evaluation.gold import GoldPair
from nmt_keras.evaluation.metrics import (
    FEWEST_RUNS,
    LEAST_BLEU,
    SAMPLES,
    SEED,
    AlignmentError,
    Estimate,
    Spread,
    all_baselines,
    compare_runs,
)
from nmt_keras.evaluation.report import evaluate, gold_error
from nmt_keras.markdown import escaped, table
from nmt_keras.translation.model_translator import ModelTranslator


class RunResult(NamedTuple):
    """Result of one run."""

    figures: Mapping[str, Any]  # a JSON object; see ``run_figures``
    translations: Sequence[str]  # of the test set


def cross_entropy(translator: ModelTranslator, pairs: Sequence[Pair]) -> float:
    """Returns the cross-entropy of the references of ``pairs``, in nats per token, END included."""
    scored = translator.score([pair.source for pair in pairs], [pair.target for pair in pairs])
    return -sum(each.log_prob for each in scored) / sum(len(each.tokens) for each in scored)


def run_figures(
    translator: ModelTranslator,
    pairs: Sequence[Pair],
    language: str | None = None,
    gold: Sequence[GoldPair] = (),
    tokenizer: str | None = None,
) -> RunResult:
    """Translates ``pairs`` and returns the translations and the metrics of the translator.

    The metrics are rounded and form a JSON object:

    bleu, chrf                      corpus scores, 0 to 100
    bleu_interval, chrf_interval    their 95 % bootstrap intervals
    exact                           percentage of translations that equal their reference
    unknown                         percentage of the target tokens that are UNK
    loss, perplexity                cross-entropy of the references in nats per token, END included, and its exponential
    alignment                       error rate, precision and recall of the attention; ``None`` without ``gold``
    signature, chrf_signature, search, parameters, test_pairs

    Args:
        translator: The translator.
        pairs: Sentences and their references.
        language: Code of the target language; see ``metrics.bleu``.
        gold: Pairs with gold alignments.
        tokenizer: Tokenizer of BLEU; see ``metrics.bleu``.
    """
    report = evaluate(translator, pairs, language, tokenizer)
    texts = [translation.text for translation in report.translations]
    estimates = compare_runs({"run": [texts]}, [pair.target for pair in pairs], language, tokenizer=tokenizer)
    loss = cross_entropy(translator, pairs)
    bleu, chrf = estimates.bleu["run"], estimates.chrf["run"]
    figures = {
        "bleu": round(report.bleu, 2),
        "bleu_interval": [round(bleu.low, 2), round(bleu.high, 2)],
        "chrf": round(report.chrf, 2),
        "chrf_interval": [round(chrf.low, 2), round(chrf.high, 2)],
        "exact": round(report.exact, 2),
        "unknown": round(report.unknown, 2),
        "loss": round(loss, 4),
        "perplexity": round(math.exp(min(loss, 700.0)), 3),
        "alignment": rounded(gold_error(translator, gold)) if gold else None,
        "signature": report.signature,
        "chrf_signature": report.chrf_signature,
        "search": str(translator.search),
        "parameters": sum(math.prod(variable.shape) for variable in translator.model.variables),
        "test_pairs": len(pairs),
    }
    return RunResult(figures, texts)


def rounded(error: AlignmentError) -> dict[str, float]:
    """Returns error rate, precision and recall as a JSON object."""
    return {name: round(value, 4) for name, value in asdict(error).items()}


@dataclass(frozen=True)
class SystemFigures:
    """Metrics of a system over its runs. Each instance is one row of the table."""

    name: str
    baseline: str | None  # name of the system that p refers to; None without a comparison, as for the first row
    seeds: list[int]
    learning_rate: float
    parameters: int
    bleu: Estimate
    chrf: Estimate
    perplexity: Spread  # of the test set
    valid_loss: Spread  # lowest validation loss of each run, nats per token
    error_rate: Spread | None  # alignment error rate, 0 to 1


class Summary(NamedTuple):
    """Rows of the table, and the signatures of their scores."""

    systems: list[SystemFigures]
    signature: str
    chrf_signature: str


def summarise(
    systems: Mapping[str, Sequence[RunResult]],
    references: Sequence[str],
    language: str | None = None,
    baselines: Mapping[str, str | None] = {},
    tokenizer: str | None = None,
) -> Summary:
    """Returns the rows of the table, in the order of ``systems``.

    Args:
        systems: Results of the runs of each system, by system name. The ``figures`` of each result also contain
            ``seed``, ``recipe`` and ``validations``; see ``nmt_keras.runs.protocol``.
        references: References of the test set.
        language: Code of the target language; see ``metrics.bleu``.
        baselines: Systems that are not compared with the row above; see ``metrics.all_baselines``.
        tokenizer: Tokenizer of BLEU; see ``metrics.bleu``.

    Raises:
        ValueError: as in ``metrics.compare_runs``.
    """
    compared = all_baselines(list(systems), baselines)
    texts = {name: [run.translations for run in runs] for name, runs in systems.items()}
    tested = {  # the variation between the seeds of a single run is unknown
        name: baseline if baseline and min(len(systems[name]), len(systems[baseline])) > 1 else None
        for name, baseline in compared.items()
    }
    scores = compare_runs(texts, references, language, baselines=tested, tokenizer=tokenizer)
    found = []
    for name, runs in systems.items():
        figures = [run.figures for run in runs]
        errors = [each["alignment"]["error_rate"] for each in figures if each["alignment"]]
        found.append(
            SystemFigures(
                name=name,
                baseline=compared[name],
                seeds=[each["seed"] for each in figures],
                learning_rate=figures[0]["recipe"]["train"]["learning_rate"],
                parameters=figures[0]["parameters"],
                bleu=scores.bleu[name],
                chrf=scores.chrf[name],
                perplexity=_spread([each["perplexity"] for each in figures]),
                valid_loss=_spread([min(row["valid_loss"] for row in each["validations"]) for each in figures]),
                error_rate=_spread(errors) if errors else None,
            )
        )
    return Summary(found, scores.bleu_signature, scores.chrf_signature)


def to_markdown(systems: Sequence[SystemFigures]) -> str:
    """Returns the table of the systems, with a line that explains it.

    The column "against" names the baselines. It is omitted if each system is compared with the row above.
    """
    aligned = any(system.error_rate for system in systems)
    above = [None, *(system.name for system in systems)]
    against = any(system.baseline != name for system, name in zip(systems, above, strict=False))
    heads = [
        *("system", "rate", "runs", *["against"] * against),
        *("BLEU", "p", "chrF", "p", "perplexity", *["AER"] * aligned, "parameters"),
    ]
    rows = [
        [
            escaped(one.name),
            f"{one.learning_rate:g}",
            str(len(one.seeds)),
            *[escaped(one.baseline or "")] * against,
            *(one.bleu.with_interval, one.bleu.significance),
            *(one.chrf.with_interval, one.chrf.significance),
            one.perplexity.text(2),
            *[one.error_rate.text(3) if one.error_rate else "-"] * aligned,
            f"{one.parameters / 1e6:.1f} M",
        ]
        for one in systems
    ]
    shown, drawn = (
        ("One run per system", "sentences")
        if all(len(one.seeds) == 1 for one in systems)
        else ("Mean ± standard deviation over the runs", "sentences and runs")
    )
    source = (
        "t-interval and Welch's test"
        if all(len(one.seeds) >= FEWEST_RUNS for one in systems)
        else f"a paired bootstrap of {SAMPLES:,} samples over {drawn} (seed {SEED})"
    )
    baseline = "the system in the column against" if against else "the row above"
    note = (
        f"{shown}, with a 95 % interval. p: two-sided p-value of the difference from {baseline}. Both are from the "
        f"runs' scores on this test set, by {source}. There is no p-value for a single run, whose variation between "
        f"seeds is unknown, and for two systems with BLEU below {LEAST_BLEU:g}."
    )
    return f"{table(heads, rows)}\n\n{note}\n"


def _spread(values: Sequence[float]) -> Spread:
    return Spread(round(statistics.fmean(values), 4), round(statistics.stdev(values), 4) if values[1:] else None)
