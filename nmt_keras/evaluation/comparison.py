"""Comparison of systems on the same sentences, as a record, JSON, Markdown and pictures."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure

from nmt_keras.corpus import Pair
from nmt_keras.evaluation.metrics import (
    AlignmentError,
    Estimate,
    Estimates,
    compare_runs,
    length_bins,
    length_unit,
    sentence_chrf,
    sentence_length,
    ter,
)
from nmt_keras.evaluation.report import Report
from nmt_keras.io.files import locked, make_folder, write_whole
from nmt_keras.io.lines import one_line
from nmt_keras.languages import bleu_tokenizer
from nmt_keras.markdown import escaped, table
from nmt_keras.plotting import bleu_by_length, save_figure, score_intervals

EFFECTIVE, NO_4_GRAM = "eff:yes", "(without 4-grams)"
"""Part of sacreBLEU's signature if no translation or no reference has a 4-gram, and the mark of such a length bin."""

TITLES = {
    "scores": "BLEU and chrF of each system, with 95 % intervals",
    "bleu-by-length": "BLEU of each system by length of the source",
}
"""Captions of the pictures, by file name without suffix."""


@dataclass(frozen=True)
class SystemScores:
    """Scores of one system."""

    name: str
    search: str  # description of the search
    bleu: Estimate
    chrf: Estimate
    ter: (
        float | None
    )  # percent of the reference words, lower is better; None in Thai and other languages without spaces
    exact: float  # percentage of sentences that equal their reference
    unknown: float  # percentage of target tokens that are UNK
    sentences_per_s: float
    tokens_per_s: float  # target tokens, without END
    alignment: AlignmentError | None  # None without gold alignments


@dataclass(frozen=True)
class BinScores:
    """Scores of all systems on the sentences of one length bin."""

    label: str
    sentences: int
    bleu: dict[str, Estimate]  # by system


@dataclass(frozen=True)
class Sentence:
    """One sentence and its translations."""

    number: int  # from 1
    source: str
    reference: str
    translations: dict[str, str]  # by system
    chrf: dict[str, float]  # by system


@dataclass(frozen=True)
class Comparison:
    """Scores of all systems. The p-values compare each system with the first one, the baseline."""

    title: str
    sentences: int
    length_unit: str  # words or characters
    systems: list[SystemScores]
    by_length: list[BinScores]
    worst: list[Sentence]  # in ascending order of the mean chrF over the systems
    bleu_signature: str
    chrf_signature: str
    ter_signature: str


def compare(
    title: str,
    pairs: Sequence[Pair],
    reports: Mapping[str, Report],
    searches: Mapping[str, str],
    *,
    errors: Mapping[str, AlignmentError] | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    tokenizer: str | None = None,
    worst: int = 10,
) -> Comparison:
    """Compares systems that translated the same sentences.

    Args:
        title: Name of the set of sentences.
        pairs: The sentences and their references.
        reports: Result of ``evaluate`` for each system, by name; the first is the baseline.
        searches: Description of each system's search.
        errors: Alignment error by system. Systems may be missing.
        source_language: Language code. Sets the unit of length; see ``metrics.length_unit``.
        target_language: Language code; see ``metrics.bleu``.
        tokenizer: Tokenizer of BLEU; see ``metrics.bleu``.
        worst: Number of sentences to list, those with the lowest chrF.

    Raises:
        ValueError: there is no system, or the number of sentences in a report differs from ``pairs``.
    """
    references = [pair.target for pair in pairs]
    texts = {name: [translation.text for translation in report.translations] for name, report in reports.items()}
    names = list(texts)
    baselines = dict.fromkeys(names[1:], *names[:1])

    def scored(inside: Sequence[int]) -> Estimates:
        return compare_runs(
            {name: [[text[i] for i in inside]] for name, text in texts.items()},
            [references[i] for i in inside],
            target_language,
            baselines=baselines,
            tokenizer=tokenizer,
        )

    found = scored(range(len(pairs)))
    has_words = bleu_tokenizer(target_language) != "char"
    edits = {name: ter(text, references, target_language) for name, text in texts.items() if has_words}
    systems = [
        SystemScores(
            name=name,
            search=searches[name],
            bleu=found.bleu[name],
            chrf=found.chrf[name],
            ter=edits[name].value if has_words else None,
            exact=report.exact,
            unknown=report.unknown,
            sentences_per_s=report.sentences / report.seconds,
            tokens_per_s=report.tokens / report.seconds,
            alignment=(errors or {}).get(name),
        )
        for name, report in reports.items()
    ]
    by_length = []
    for label, inside in length_bins([sentence_length(pair.source, source_language) for pair in pairs]).items():
        scores = scored(inside)
        mark = f" {NO_4_GRAM}" if EFFECTIVE in scores.bleu_signature else ""
        by_length.append(BinScores(label + mark, len(inside), scores.bleu))
    sentences = [
        Sentence(
            number=i + 1,
            source=pair.source,
            reference=pair.target,
            translations={name: text[i] for name, text in texts.items()},
            chrf={name: sentence_chrf(text[i], pair.target) for name, text in texts.items()},
        )
        for i, pair in enumerate(pairs)
    ]
    return Comparison(
        title=title,
        sentences=len(pairs),
        length_unit=length_unit(source_language),
        systems=systems,
        by_length=by_length,
        worst=sorted(sentences, key=lambda sentence: sum(sentence.chrf.values()))[:worst],
        bleu_signature=found.bleu_signature,
        chrf_signature=found.chrf_signature,
        ter_signature=next((each.signature for each in edits.values()), ""),
    )


def to_json(comparison: Comparison) -> str:
    """Returns the comparison as a JSON object, with a key for each field."""
    return json.dumps(asdict(comparison), indent=2, ensure_ascii=False) + "\n"


def to_markdown(comparison: Comparison, pictures: Sequence[str] = ()) -> str:
    """Returns the comparison as Markdown with the images ``pictures``, given by file name."""
    names = [escaped(system.name) for system in comparison.systems]
    heads = ["system", "search", "BLEU", "chrF", "TER", "exact %", "UNK %", "sentences/s", "tokens/s"]
    rows = [
        [
            escaped(system.name),
            escaped(system.search),
            system.bleu.with_interval,
            system.chrf.with_interval,
            "-" if system.ter is None else f"{system.ter:.1f}",
            f"{system.exact:.1f}",
            f"{system.unknown:.2f}",
            f"{system.sentences_per_s:,.0f}",
            f"{system.tokens_per_s:,.0f}",
        ]
        for system in comparison.systems
    ]
    if any(system.alignment for system in comparison.systems):
        heads += ["AER", "precision", "recall"]
        for row, system in zip(rows, comparison.systems, strict=True):
            row += [f"{value:.3f}" for value in asdict(system.alignment).values()] if system.alignment else ["-"] * 3
    parts = [
        f"# {escaped(comparison.title)}: {comparison.sentences:,} sentences",
        table(heads, rows),
        f"With 95 % intervals. BLEU: `{comparison.bleu_signature}`, chrF: `{comparison.chrf_signature}`"
        + (f", TER (lower is better): `{comparison.ter_signature}`." if comparison.ter_signature else "."),
    ]
    if EFFECTIVE in comparison.bleu_signature or any(NO_4_GRAM in each.label for each in comparison.by_length):
        parts.append(f"{NO_4_GRAM}: BLEU counts only the n-grams that occur (effective order, {EFFECTIVE}).")
    if len(names) > 1:
        parts += [
            f"p: two-sided p-value of the difference from {names[0]} (paired bootstrap).",
            table(
                ["system", "p of BLEU", "p of chrF"],
                [[escaped(s.name), s.bleu.significance, s.chrf.significance] for s in comparison.systems[1:]],
            ),
        ]
    parts += [
        "## By length of the source",
        table(
            [comparison.length_unit, "sentences", *(f"{name}: BLEU" for name in names)],
            [
                [each.label, f"{each.sentences:,}", *(score.with_interval for score in each.bleu.values())]
                for each in comparison.by_length
            ],
        ),
        *(f"![{TITLES[Path(picture).stem]}]({picture})" for picture in pictures),
    ]
    if comparison.worst:
        parts.append("## The worst sentences, by chrF")
    for sentence in comparison.worst:
        rows = [["source", escaped(sentence.source), ""], ["reference", escaped(sentence.reference), ""]]
        rows += [
            [escaped(name), escaped(text), f"{sentence.chrf[name]:.1f}"] for name, text in sentence.translations.items()
        ]
        parts.append(table([f"{sentence.number}", "", "chrF"], rows))
    return "\n\n".join(parts) + "\n"


def _interval(score: Estimate) -> tuple[float, float, float]:
    return score.mean, score.low, score.high


def length_picture(comparison: Comparison) -> Figure:
    """Draws BLEU of the systems by length of the source."""
    bins = comparison.by_length
    return bleu_by_length(
        [each.label for each in bins],
        [each.sentences for each in bins],
        {system.name: [_interval(each.bleu[system.name]) for each in bins] for system in comparison.systems},
        comparison.length_unit,
    )


@style.context("default")  # a user's matplotlibrc may need LaTeX
def write_report(comparison: Comparison, reports: Mapping[str, Report], folder: Path) -> Path:
    """Writes ``report.md``, its pictures as SVG, PDF and PNG, and the translations of each system into ``folder``.

    Line n of translations-SYSTEM.txt translates sentence n.

    Args:
        comparison: The comparison.
        reports: Reports of the systems, by name.
        folder: Output folder, created if missing. An earlier report is replaced.

    Returns:
        The path of ``report.md``, which is written last.
    """
    make_folder(folder)
    systems = comparison.systems
    figures = {
        "scores": score_intervals(
            {
                "BLEU": {system.name: _interval(system.bleu) for system in systems},
                "chrF": {system.name: _interval(system.chrf) for system in systems},
            }
        ),
        "bleu-by-length": length_picture(comparison),
    }
    written = folder / "report.md"
    with locked(written):  # another process may write its report, and the files belong together
        for name, figure in figures.items():
            for suffix in ("svg", "pdf", "png"):
                save_figure(figure, folder / f"{name}.{suffix}")
        taken: set[str] = set()
        for name, report in reports.items():
            safe = re.sub(r"[^\w.+-]+", "_", name)
            while safe in taken:  # "a/b" and "a_b"
                safe += "_"
            taken.add(safe)
            lines = "".join(one_line(translation.text) + "\n" for translation in report.translations)
            write_whole(folder / f"translations-{safe}.txt", lines)
        write_whole(written, to_markdown(comparison, [f"{name}.svg" for name in figures]))
    return written
