"""What one system or several score on the same sentences: a record, as JSON, as Markdown, and as pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from nmt_keras.corpus import Pair
from nmt_keras.evaluation.metrics import (
    AlignmentError,
    Estimate,
    bootstrap,
    length_bins,
    length_unit,
    sentence_chrf,
    sentence_length,
)
from nmt_keras.evaluation.report import Report
from nmt_keras.markdown import escaped, table
from nmt_keras.plotting import Panel, alignment_grid, bleu_by_length, save_figure, score_intervals
from nmt_keras.translation.word_alignment import align_words

HEATMAPS = 4
"""The worst sentences whose alignments are drawn, at the most."""

LONGEST_DRAWN = 40
"""Tokens of a sentence whose alignment is drawn, at the most."""

TITLES = {
    "scores": "BLEU and chrF of each system, with 95 % intervals",
    "bleu-by-length": "BLEU of each system by length of the source",
    "worst-alignments": "What the words of the worst translations looked at",
}
"""What pictures show, by file name without its suffix: their text where they cannot be seen."""

COLUMNS = ("system", "search", "BLEU", "chrF", "exact %", "UNK %", "sentences/s", "tokens/s")


class SystemScores(NamedTuple):
    """What one system scores."""

    name: str
    search: str  # how translations were searched for
    bleu: Estimate
    chrf: Estimate
    exact: float  # percent of sentences that equal their reference
    unknown: float  # percent of target tokens that are the unknown word's sign
    sentences_per_s: float
    tokens_per_s: float  # target tokens, END not counted
    alignment: AlignmentError | None  # where there are gold links


class BinScores(NamedTuple):
    """The systems' scores on the sentences of a range of lengths."""

    label: str
    sentences: int
    bleu: dict[str, Estimate]  # by system


class Sentence(NamedTuple):
    """One sentence, and what the systems made of it."""

    number: int  # from 1
    source: str
    reference: str
    translations: dict[str, str]  # by system
    chrf: dict[str, float]  # by system


class Comparison(NamedTuple):
    """All of it. The first system is the baseline of every p."""

    title: str
    sentences: int
    length_unit: str  # words or characters
    systems: list[SystemScores]
    by_length: list[BinScores]
    worst: list[Sentence]  # by the mean of the systems' chrF, the worst first
    bleu_signature: str
    chrf_signature: str


def compare(
    title: str,
    pairs: Sequence[Pair],
    reports: Mapping[str, Report],
    searches: Mapping[str, str],
    *,
    errors: Mapping[str, AlignmentError] | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    worst: int = 10,
) -> Comparison:
    """Compares systems that translated the same sentences.

    Args:
        title: what was translated.
        pairs: the sentences and their references.
        reports: what ``evaluation.evaluate`` found of each system, by its name; the first is the baseline.
        searches: how each system searched.
        errors: the alignment error of the systems that have one.
        source_language: a code; says whether length is counted in words or characters.
        target_language: a code; see ``metrics.bleu``.
        worst: sentences to show.

    Raises:
        ValueError: there is no system, or a report is of other sentences.
    """
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    texts = {name: [translation.text for translation in report.translations] for name, report in reports.items()}
    found = bootstrap(texts, references, target_language)
    systems = [
        SystemScores(
            name=name,
            search=searches[name],
            bleu=found.bleu[name],
            chrf=found.chrf[name],
            exact=report.exact,
            unknown=report.unknown,
            sentences_per_s=report.sentences / report.seconds,
            tokens_per_s=report.tokens / report.seconds,
            alignment=(errors or {}).get(name),
        )
        for name, report in reports.items()
    ]
    by_length = []
    for each in length_bins([sentence_length(source, source_language) for source in sources]):
        inside = {name: [text[i] for i in each.sentences] for name, text in texts.items()}
        scores = bootstrap(inside, [references[i] for i in each.sentences], target_language).bleu
        by_length.append(BinScores(str(each), len(each.sentences), scores))
    return Comparison(
        title=title,
        sentences=len(pairs),
        length_unit=length_unit(source_language),
        systems=systems,
        by_length=by_length,
        worst=_worst(pairs, texts, worst),
        bleu_signature=found.bleu_signature,
        chrf_signature=found.chrf_signature,
    )


def _worst(pairs: Sequence[Pair], texts: Mapping[str, Sequence[str]], count: int) -> list[Sentence]:
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
    return sorted(sentences, key=lambda sentence: (sum(sentence.chrf.values()), sentence.number))[:count]


def to_json(comparison: Comparison) -> str:
    """The comparison as a JSON object, one key per field."""
    return json.dumps(_plain(comparison), indent=2, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    """Records as objects, all the way down."""
    if hasattr(value, "_asdict"):
        return {name: _plain(part) for name, part in value._asdict().items()}
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list) else value


def from_json(text: str, where: str = "report") -> Comparison:
    """The inverse of ``to_json``. Raises ValueError naming ``where`` if it is none."""
    try:
        found = json.loads(text)
        return Comparison(
            **{
                **found,
                "systems": [
                    SystemScores(
                        **{
                            **system,
                            "bleu": Estimate(**system["bleu"]),
                            "chrf": Estimate(**system["chrf"]),
                            "alignment": system["alignment"] and AlignmentError(**system["alignment"]),
                        }
                    )
                    for system in found["systems"]
                ],
                "by_length": [
                    BinScores(**{**each, "bleu": {name: Estimate(**score) for name, score in each["bleu"].items()}})
                    for each in found["by_length"]
                ],
                "worst": [Sentence(**sentence) for sentence in found["worst"]],
            }
        )
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{where}: expected a report that nmt evaluate wrote; {error!r}.") from error


def to_markdown(comparison: Comparison, pictures: Sequence[str] = ()) -> str:
    """The comparison as Markdown.

    Args:
        comparison: what is told.
        pictures: file names of pictures to show, beside the text.
    """
    names = [escaped(system.name) for system in comparison.systems]
    parts = [
        f"# {escaped(comparison.title)}: {comparison.sentences:,} sentences",
        table(
            [*COLUMNS, *_error_heads(comparison)],
            [_system_row(system, comparison) for system in comparison.systems],
        ),
        f"With 95 % intervals. BLEU: `{comparison.bleu_signature}`, chrF: `{comparison.chrf_signature}`.",
    ]
    if len(names) > 1:
        parts += [
            f"p: how probable so large a difference from {names[0]} would be by chance (paired bootstrap).",
            table(
                ["system", "p of BLEU", "p of chrF"],
                [[escaped(s.name), _probability(s.bleu.p), _probability(s.chrf.p)] for s in comparison.systems[1:]],
            ),
        ]
    parts += [
        "## By length of the source",
        table(
            [comparison.length_unit, "sentences", *(f"{name}: BLEU" for name in names)],
            [[each.label, f"{each.sentences:,}", *map(_estimate, each.bleu.values())] for each in comparison.by_length],
        ),
        *(f"![{TITLES.get(Path(picture).stem, Path(picture).stem)}]({picture})" for picture in pictures),
    ]
    if comparison.worst:
        parts.append("## The worst sentences, by chrF")
        for sentence in comparison.worst:
            rows = [["source", escaped(sentence.source), ""], ["reference", escaped(sentence.reference), ""]]
            rows += [
                [escaped(name), escaped(text), f"{sentence.chrf[name]:.1f}"]
                for name, text in sentence.translations.items()
            ]
            parts.append(table([f"{sentence.number}", "", "chrF"], rows))
    return "\n\n".join(parts) + "\n"


def _error_heads(comparison: Comparison) -> list[str]:
    return ["AER", "precision", "recall"] if any(system.alignment for system in comparison.systems) else []


def _system_row(system: SystemScores, comparison: Comparison) -> list[str]:
    row = [
        escaped(system.name),
        escaped(system.search),
        _estimate(system.bleu),
        _estimate(system.chrf),
        f"{system.exact:.1f}",
        f"{system.unknown:.2f}",
        f"{system.sentences_per_s:,.0f}",
        f"{system.tokens_per_s:,.0f}",
    ]
    if not _error_heads(comparison):
        return row
    return row + (["-"] * 3 if system.alignment is None else [f"{value:.3f}" for value in system.alignment])


def _estimate(score: Estimate) -> str:
    return f"{score.value:.2f} ({score.low:.1f} to {score.high:.1f})"


def _probability(p: float | None) -> str:
    return "-" if p is None else f"{p:.3f}"


def pictures(comparison: Comparison) -> dict[str, Figure]:
    """Draws the scores side by side and BLEU by length; keys are file names without a suffix."""
    return {"scores": score_picture(comparison), "bleu-by-length": length_picture(comparison)}


def score_picture(comparison: Comparison) -> Figure:
    """Draws BLEU and chrF of the systems."""
    systems = comparison.systems
    return score_intervals(
        {"BLEU": {s.name: s.bleu[:3] for s in systems}, "chrF": {s.name: s.chrf[:3] for s in systems}}
    )


def length_picture(comparison: Comparison) -> Figure:
    """BLEU by length."""
    bins = comparison.by_length
    return bleu_by_length(
        [each.label for each in bins],
        [each.sentences for each in bins],
        {system.name: [each.bleu[system.name][:3] for each in bins] for system in comparison.systems},
        comparison.length_unit,
    )


def worst_alignments(comparison: Comparison, name: str, report: Report) -> Figure | None:
    """What the system called ``name`` looked at in the worst sentences; None if all of them are too long to draw."""
    panels = []
    for sentence in comparison.worst:
        translation = report.translations[sentence.number - 1]
        aligned = align_words(translation.source_tokens, translation.tokens, translation.alignment)
        if max(len(aligned.source), len(aligned.target)) <= LONGEST_DRAWN:
            panels.append(Panel(aligned.alignment, aligned.source, aligned.target, f"sentence {sentence.number}"))
    return alignment_grid(panels[:HEATMAPS]) if panels else None


def write_report(comparison: Comparison, folder: Path, figures: Mapping[str, Figure]) -> Path:
    """Writes ``report.md``, ``report.json`` and each of ``figures`` as NAME.svg and NAME.png into ``folder``.

    Args:
        comparison: what is told.
        folder: made if need be; what an earlier report left there is replaced.
        figures: by file name without its suffix; see ``pictures``.

    Returns:
        The path of ``report.md``, which is written last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        for suffix in (".svg", ".png"):
            save_figure(figure, folder / f"{name}{suffix}")
    (folder / "report.json").write_text(to_json(comparison), encoding="utf-8")
    report = folder / "report.md"
    report.write_text(to_markdown(comparison, [f"{name}.svg" for name in figures]), encoding="utf-8")
    return report
