"""Findings of ``nmt check``, the table of their limits, and their reports."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from nmt_keras.io.files import locked, write_whole
from nmt_keras.markdown import escaped


class Limit(NamedTuple):
    """Value of a statistic from which on it is a finding."""

    value: float
    weight: float  # severity of a finding about all lines, 0 to 1
    statistic: str
    clean: str  # its largest value in clean data


LIMITS: Mapping[str, Limit] = {
    # corpus
    "malformed": Limit(0.01, 1.0, "share of malformed lines", "0"),
    "uneven-files": Limit(0.0, 0.5, "share of lines without a corresponding line", "0"),
    "swapped": Limit(0.04, 1.0, "share of pairs with swapped sides", "0.001"),
    "untranslated": Limit(0.06, 0.8, "share of pairs with both sides in one language", "0.018"),
    "foreign": Limit(0.02, 0.8, "share of lines in the most frequent third language or script", "0.002"),
    "stand-in": Limit(0.005, 1.0, "share of pairs with the most frequent sentence of a side, less ten", "0.0001"),
    "duplicates": Limit(0.25, 0.3, "share of repeated pairs", "0"),
    "overlap": Limit(0.02, 0.8, "share of held-out pairs that share a sentence with training pairs", "0"),
    "shifted": Limit(0.01, 1.0, "share of lines whose partner is another line", "0.002"),
    "unrelated": Limit(0.07, 0.9, "estimated share of pairs that are no translations", "0.033"),
    "cut-off": Limit(0.06, 0.7, "share of sentences whose other side ends early", "0.045"),
    "too-long": Limit(0.2, 0.5, "share of pairs beyond TrainConfig.max_tokens", "0.02"),
    "too-few": Limit(0.19, 0.3, "share of the words that occur once", "0.185 (2,000 pairs)"),
    "other-form": Limit(0.2, 0.9, "difference of a form's shares in training and held-out text", "0.02"),
    # forms of lines, in corpora and outputs
    "lost-letters": Limit(0.01, 0.9, "share of lines", "0.0001"),
    "mojibake": Limit(0.01, 1.0, "share of lines", "0.0003"),
    "entities": Limit(0.01, 0.8, "share of lines", "0.0006"),
    "escapes": Limit(0.01, 0.8, "share of lines", "0.0001"),
    "tags": Limit(0.06, 0.5, "share of lines", "0.025"),
    "subword-marks": Limit(0.01, 0.9, "share of lines", "0"),
    "tokenised": Limit(0.05, 0.6, "share of lines with full stops, commas or letters without spaces", "0.003"),
    "joined-words": Limit(0.02, 0.8, "share of lines of 30 letters or more", "0.002"),
    "decomposed": Limit(0.02, 0.4, "share of lines", "0.0024"),
    "lower-case": Limit(0.16, 0.5, "share of cased sentences", "0.13"),
    "upper-case": Limit(0.05, 0.6, "share of cased sentences", "0.001"),
    # outputs
    "empty-outputs": Limit(0.005, 1.0, "share of empty outputs", "0"),
    "copied": Limit(0.04, 0.9, "share of outputs that are copies of their source", "0"),
    "references-are-sources": Limit(0.04, 1.0, "share of references that are copies of their source", "0"),
    "few-outputs": Limit(
        0.03, 1.0, "share of the most frequent output, or of missing different outputs, less 0.2", "0"
    ),
    "loops": Limit(0.02, 0.9, "share of outputs with a loop, less that of references", "0"),
    "unknown-words": Limit(0.05, 0.7, "share of outputs with signs of unknown words", "0"),
    "length-ratio": Limit(0.2, 0.3, "logarithm of the ratio of lengths", "0.05"),
    "unrelated-outputs": Limit(0.3, 0.8, "estimated share of outputs that do not resemble their reference", "0.1"),
    # runs
    "rate-too-high": Limit(
        0.4, 0.99, "rise of the training loss in nats, ten times the share of skipped updates, or 1", "0.1"
    ),
    "rate-too-low": Limit(0.5, 0.98, "1 if BLEU is below 15 and the rate below the usual ones", "0"),
    "stopped-early": Limit(0.5, 0.86, "1 if BLEU is below 15 and the losses still fall", "0"),
    "overfitting": Limit(
        0.25,
        0.9,
        "rise of the validation loss, or its distance from the training loss less 0.8; or the share of BLEU lost",
        "0.1",
    ),
    "source-ignored": Limit(0.25, 0.85, "1 - loss gained by the right source / 0.6 nats", "0"),
    "not-better-than-unigram": Limit(0.2, 0.84, "(loss - loss of a unigram model + 0.3) / 0.6 nats", "0"),
    "search-errors": Limit(0.5, 0.3, "share of references that are more probable than the translation", "0.2"),
    "search-options": Limit(0.1, 1.0, "relative loss of BLEU to greedy search and beam 5", "0.05"),
}
"""All limits. "Clean" is the largest value in Spanish-English and in catalogues of twelve languages."""


@dataclass(frozen=True)
class Finding:
    """One cause of a bad model."""

    name: str
    severity: float  # 0 to 1
    what: str
    evidence: Sequence[str]
    remedy: str
    values: Mapping[str, float] = field(default_factory=dict)  # a figure of the report
    unit: str = ""  # of the values


def finding(
    name: str,
    share: float,
    what: str,
    evidence: Iterable[str],
    remedy: str,
    values: Mapping[str, float] | None = None,
    unit: str = "",
) -> list[Finding]:
    """Returns the finding ``name`` in a list, empty if ``share`` is below its limit."""
    limit = LIMITS[name]
    if not share > limit.value:
        return []
    return [Finding(name, round(limit.weight * min(1.0, share), 4), what, [*evidence], remedy, values or {}, unit)]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Returns the findings in descending order of severity."""
    return sorted(findings, key=lambda each: -each.severity)


def to_json(findings: Sequence[Finding]) -> str:
    """Returns the findings as a JSON list."""
    return json.dumps([asdict(each) for each in findings], indent=2, ensure_ascii=False) + "\n"


def to_text(findings: Sequence[Finding]) -> str:
    """Returns the findings for a terminal."""
    parts = [
        "\n".join([f"{number}. {each.what}", *(f"   {line}" for line in each.evidence), f"   To do: {each.remedy}."])
        for number, each in enumerate(findings, 1)
    ]
    return "\n\n".join(parts or ["No findings."]) + "\n"


def to_markdown(title: str, findings: Sequence[Finding]) -> str:
    """Returns a report in Markdown. The picture of a finding with values is named after its number and name."""
    parts = [f"# {escaped(title)}: {len(findings)} findings"]
    for number, each in enumerate(findings, 1):
        parts += [f"## {number}. {escaped(each.what)}", "\n".join(f"- {escaped(line)}" for line in each.evidence)]
        parts += [f"![{each.name}]({number}-{each.name}.svg)"] if each.values else []
        parts += [f"To do: {escaped(each.remedy)}"]
    return "\n\n".join(parts) + "\n"


def write_report(title: str, findings: Sequence[Finding], folder: Path) -> Path:
    """Writes ``report.md`` and its pictures into ``folder``, and returns the path of the report."""
    from matplotlib import style

    from nmt_keras.plotting import bars, save_figure

    written = folder / "report.md"
    with style.context("default"), locked(written):  # a user's matplotlibrc may need LaTeX
        for number, each in enumerate(findings, 1):
            if each.values:
                save_figure(bars(each.values, each.unit), folder / f"{number}-{each.name}.svg")
        write_whole(written, to_markdown(title, findings))
    return written
