"""Causes of bad translations in the output of any system, with its sources and references."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import log

import numpy as np
from scipy.sparse import csr_array

from nmt_keras.check.association import align_lines, word_matrix
from nmt_keras.check.corpus import FEWEST, Text, cut_off, shares_of, shifts, unrelated
from nmt_keras.check.findings import Finding, finding, worst_first
from nmt_keras.check.forms import FORMS, detokenised
from nmt_keras.check.language import frequent_words, main_language
from nmt_keras.config import require
from nmt_keras.evaluation.metrics import Score, bleu

_LOOP = re.compile(r"(?:\b(\w+(?:\W+\w+){0,3})(?:\W+\1\b){2,})|(?:(\S{1,8}?)\2{3,})")
_UNKNOWN = re.compile(r"⁇|<unk>|\[UNK\]|\bUNK\b", re.IGNORECASE)


def check_outputs(
    source: Sequence[str],
    reference: Sequence[str],
    output: Sequence[str],
    language: str | None = None,
    command: str = "nmt translate RUN < SOURCE > OUTPUT",
    tokenizer: str | None = None,
) -> list[Finding]:
    """Checks translations.

    Args:
        source, reference, output: Lines of the three files.
        language: Code of the target language, for BLEU.
        command: The command that translates, for remedies.
        tokenizer: Name of another BLEU tokenizer than that of the language.

    Returns:
        The findings, worst first.
    """
    counts = {"source": len(source), "reference": len(reference), "output": len(output)}
    size, longest = min(counts.values()), max(counts.values())
    require(longest > 0, "--source, --reference, --output", "files with lines", "empty files")
    found = finding(
        "uneven-files",
        1 - size / longest,
        f"The files have different numbers of lines: {counts}.",
        ["Lines after the first missing or additional line do not correspond."],
        f"Write one output line for each source line, also for an empty one: {command}",
    )
    text = Text(
        [*reference[:size]],
        [*output[:size]],
        [f"line {n:,}" for n in range(1, size + 1)],
        f"Translate again: {command}",
        "outputs: ",
    )
    if size:
        forms = partial(_forms, score=partial(bleu, language=language, tokenizer=tokenizer, force=True))
        for check in (_empty, _copies, _references, _few, _loops, _lengths, forms, _partners):
            found += check(text, [*source[:size]])
    return worst_first(found)


def _empty(text: Text, source: Sequence[str]) -> list[Finding]:
    rows = [row for row, line in enumerate(text.target) if not line.strip() and text.source[row].strip()]
    return text.found("empty-outputs", rows, "outputs are empty lines.", repair=text.drop)


def _copies(text: Text, source: Sequence[str]) -> list[Finding]:
    both = zip(source, text.source, text.target, strict=True)
    rows = [row for row, (s, r, o) in enumerate(both) if s == o != r and len(s.split()) > 1]
    mains = [main_language(frequent_words(lines)) for lines in (source, text.source, text.target)]
    if mains[0] == mains[2] != mains[1] and mains[0]:
        rows = rows if len(rows) * 2 > len(source) else [*range(len(source))]
    return text.found(
        "copied",
        rows,
        "outputs are copies of their source, or in its language.",
        repair=text.drop,
        remedy="Check the training pairs for untranslated text: nmt check RUN",
    )


def _references(text: Text, source: Sequence[str]) -> list[Finding]:
    rows = [row for row, (s, r) in enumerate(zip(source, text.source, strict=True)) if s == r and len(s.split()) > 1]
    words = word_matrix([*source, *text.source, *text.target])
    rare = words.sum(axis=0) < len(source) / 2  # signs are in most lines of each language
    sums = [words[at * len(source) : (at + 1) * len(source)].sum(axis=0) * rare for at in range(3)]
    norms = [max(1e-9, float(np.linalg.norm(each))) for each in sums]
    of_source, of_output = (float(sums[1] @ sums[at]) / norms[1] / norms[at] for at in (0, 2))
    alike = of_source > of_output and of_source > 0.5
    return text.found(
        "references-are-sources",
        [*range(len(source))] if alike else rows,
        "references look like the sources.",
        remedy="Pass the translations as --reference",
        values={"references and sources": of_source, "references and outputs": of_output},
        unit="similarity of the words",
    )


def _few(text: Text, source: Sequence[str]) -> list[Finding]:
    counts, wanted = Counter(filter(str.strip, text.target)) or Counter([""]), Counter(text.source)
    (most, count), *_ = counts.most_common(1)
    fewer = 1 - len(counts) / len(wanted)
    often = (count - wanted.most_common(1)[0][1] - 2) / len(source)
    return text.found(
        "few-outputs",
        [row for row, line in enumerate(text.target) if line == most],
        f'outputs are "{most:.60}". {len(wanted):,} different references have {len(counts):,} different outputs.',
        share=max(often, fewer - 0.2 if fewer > 0.3 else 0.0),
        repair=text.drop,
        remedy="Check whether the model reads its source, and its training pairs: nmt check RUN",
        values={"references": len(wanted), "outputs": len(counts)},
        unit="different lines",
    )


def _loops(text: Text, source: Sequence[str]) -> Iterator[Finding]:
    for name, pattern, what, remedy in (
        ("loops", _LOOP, "repeat words in a loop", "Train longer, or pass --search.no-repeat-ngram-size 3"),
        ("unknown-words", _UNKNOWN, "have signs of unknown words", "Train with subwords: nmt train conditional-gru"),
    ):
        rows, usual = (
            [row for row, x in enumerate(lines) if pattern.search(x)] for lines in (text.target, text.source)
        )
        share = (len(rows) - len(usual)) / len(source)
        yield from text.found(name, rows, f"outputs {what}.", share=share, remedy=remedy)


def _lengths(text: Text, source: Sequence[str]) -> list[Finding]:
    ours, theirs = (sum(map(len, lines)) for lines in (text.target, text.source))
    ratio = ours / max(1, theirs)
    found = finding(
        "length-ratio",
        abs(log(max(ratio, 1e-9))),
        f"outputs: they have {ratio:.0%} of the characters of the references.",
        [f"{ours:,} characters, and {theirs:,} in the references"],
        "Change the length normalisation: --search.length-alpha. Check that neither file is cut off or tokenised",
        {"references": theirs / len(source), "outputs": ours / len(source)},
        "characters per line",
    )
    return [*cut_off(text), *found]


def _forms(text: Text, source: Sequence[str], score: Callable[..., Score]) -> Iterator[Finding]:
    ours, theirs = shares_of(text.target), shares_of(text.source)
    variants: dict[str, Callable[[str], str]] = {"as it is": str, "lower-case": str.lower, "detokenised": detokenised}
    scores: dict[str, float] = {}
    for form in FORMS:
        difference = ours[form.what] - theirs[form.what]
        if abs(difference) < 0.08:
            continue
        scores = scores or {
            name: score([*map(change, text.target)], [*map(change, text.source)]).value
            for name, change in variants.items()
        }
        name, lines = ("outputs", text.target) if difference > 0 else ("references", text.source)
        yield from text.found(
            form.name,
            [row for row, line in enumerate(lines) if form.among(line) and form.test(line)],
            f"{name} have {form.what}. The other lines do not.",
            share=abs(difference),
            evidence=[f"BLEU {value:.1f} {variant}" for variant, value in scores.items()],
            remedy="Bring both files into the form of text that people write: nmt_keras scores detokenised, cased text",
            values=scores,
            unit="BLEU",
        )


def _partners(text: Text, source: Sequence[str]) -> Iterator[Finding]:
    if len(text.pairs()) < max(FEWEST, len(source) / 2):
        return
    both = csr_array(word_matrix([*text.source, *text.target]))
    found = align_lines(both[: len(source)], both[len(source) :], learn=False)
    others = [align_lines(word_matrix(source), word_matrix(lines)).gains[0] for lines in (text.source, text.target)]
    wrong = "references" if others[0] < others[1] else "outputs"
    gains = f"association with the sources: references {others[0]:.2f}, outputs {others[1]:.2f} nats per word"
    for each in [*shifts(text, found), *unrelated(text, found, "unrelated-outputs")]:
        yield replace(each, what=f"{each.what} The {wrong} are probably wrong.", evidence=[gains, *each.evidence])
