"""Causes of a bad model in a corpus.

Each check repairs the lines that it finds, so a later check does not report the same lines for another reason.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt_keras.check.association import Alignment, align_lines, word_matrix, words_of
from nmt_keras.check.findings import Finding, finding, worst_first
from nmt_keras.check.forms import FORMS, Form, is_sentence
from nmt_keras.check.language import foreign, frequent_words, main_language, script_of, unexpected
from nmt_keras.config import TrainConfig
from nmt_keras.corpus.reading import Corpus, Pair, ReadReport
from nmt_keras.corpus.split import repetitions
from nmt_keras.languages import spaced

FEWEST = 100  # minimum number of pairs of checks that learn from the pairs

EXAMPLES = 3  # number of lines that a finding quotes

TOKENS_PER_WORD = 1.3  # tokens per word of Spanish and English with 8,000 subwords
LETTERS_PER_TOKEN = 2  # of scripts without spaces: 1.5 in Chinese, 3 in Thai
MIN_ENDING = 0.3  # share of the longest sentences with final punctuation, below which its lack means nothing

_WORD = re.compile(r"[^\W\d_]{2,}")

SIDES = ("source", "target")

Languages = tuple[str | None, str | None]
Rows = Sequence[int] | NDArray[np.int64]


@dataclass
class Text:
    """Pairs that are checked and repaired. Both sides of a dropped pair are empty."""

    source: list[str]
    target: list[str]
    places: Sequence[str]  # where each pair is found, such as "line 7"
    again: str  # the remedy that writes the repaired pairs
    where: str = ""  # beginning of descriptions

    @classmethod
    def of(cls, corpus: Corpus, again: str, where: str = "") -> "Text":
        """Returns the text of the pairs of ``corpus``. Without their places, pairs are counted."""
        source, target = ([pair[side] for pair in corpus.pairs] for side in (0, 1))
        several = len({file for _, file, _ in corpus.report.places}) > 1
        places = [f"{file}:{line}" if several else f"line {line:,}" for _, file, line in corpus.report.places]
        return cls(source, target, places or [f"pair {n:,}" for n in range(1, len(source) + 1)], again, where)

    @property
    def sides(self) -> tuple[tuple[str, list[str]], tuple[str, list[str]]]:
        """Both sides with their names."""
        return ("source", self.source), ("target", self.target)

    def found(
        self,
        name: str,
        rows: Rows,
        what: str,
        *,
        among: int | None = None,
        share: float | None = None,
        repair: Callable[[int], None] | None = None,
        remedy: str | None = None,
        evidence: Sequence[str] = (),
        values: Mapping[str, float] | None = None,
        unit: str = "",
    ) -> list[Finding]:
        """Returns the finding ``name`` about ``rows`` in a list, empty if there is none. Repairs the rows of a finding.

        Args:
            name: Name in ``LIMITS``.
            rows: Indices of the pairs.
            what: Description, after the number of pairs.
            among: Number of pairs that could be concerned. Default: all.
            share: The statistic. Default: the share of ``rows``.
            repair: Repairs a row.
            remedy: The remedy; by default, to write the repaired pairs.
            evidence: Lines of evidence before the quoted pairs.
            values, unit: See ``Finding``.
        """
        among = len(self.source) if among is None else among
        quoted = [
            f'{self.places[row]}: "{self.source[row]:.70}" -> "{self.target[row]:.70}"' for row in rows[:EXAMPLES]
        ]
        share = len(rows) / max(1, among) if share is None else share
        what = f"{self.where}{len(rows):,} of {among:,} {what}"
        found = finding(name, share, what, [*evidence, *quoted], remedy or self.again, values, unit)
        if found and repair is not None:
            for row in rows:
                repair(int(row))
        return found

    def drop(self, row: int) -> None:
        """Drops a pair."""
        self.source[row] = self.target[row] = ""

    def swap(self, row: int) -> None:
        """Exchanges the sides of a pair."""
        self.source[row], self.target[row] = self.target[row], self.source[row]

    def pairs(self) -> list[Pair]:
        """Returns the pairs that are not dropped."""
        return [Pair(*pair) for pair in zip(self.source, self.target, strict=True) if all(pair)]


class Checked(NamedTuple):
    """Findings about a corpus, and its repaired pairs."""

    findings: list[Finding]
    pairs: list[Pair]


def check_corpus(
    corpus: Corpus,
    held_out: Mapping[str, Corpus],
    languages: Languages,
    again: str,
    uneven: Sequence[str] = (),
    max_tokens: int = TrainConfig.max_tokens,
) -> Checked:
    """Checks training pairs and held-out pairs.

    Args:
        corpus: The training pairs, in the order of their files.
        held_out: Held-out pairs, by the name of their option.
        languages: Declared languages of source and target.
        again: The remedy that writes the repaired pairs.
        uneven: Error about the numbers of lines, if one file has more than the other.
        max_tokens: Maximum number of tokens of a training pair.
    """
    text, pairs = Text.of(corpus, again), corpus.pairs
    found = _malformed(text, corpus.report)
    for error in uneven:
        found += finding(
            "uneven-files", 0.1, "The two files have different numbers of lines.", [error], "Align the files again"
        )
    for option, held in held_out.items():
        other = Text.of(held, f"Replace the files of {option}", f"{option}: ")
        found += other.found(
            "overlap",
            repetitions(held.pairs, pairs),
            "pairs share a sentence with the training pairs. Scores are too high.",
            remedy="Train without --valid and --test: nmt train then splits the corpus by sentences",
        )
        found += [
            *_malformed(other, held.report),
            *other_forms(option, held.pairs, pairs),
            *check_text(other, languages),
        ]
    found += [*check_text(text, languages), *_sizes(text, max_tokens)]
    return Checked(worst_first(found), text.pairs())


def _malformed(text: Text, report: ReadReport) -> list[Finding]:
    return finding(
        "malformed",
        report.malformed / max(1, report.lines),
        f"{text.where}{report.malformed:,} of {report.lines:,} lines have no two sentences.",
        [f"{count:,} lines: {fault}" for fault, count in report.faults.items()] + [*map(str, report.first_faults[:3])],
        text.again,
    )


def check_text(text: Text, languages: Languages) -> list[Finding]:
    """Checks and repairs pairs."""
    found = [*_forms(text), *_languages(text, languages), *_repeated(text)]
    if len(text.pairs()) >= max(FEWEST, len(text.source) / 2):
        found += _alignment(text)
    return [*found, *cut_off(text)]


def _forms(text: Text) -> Iterator[Finding]:
    for side, lines in text.sides:
        for form in FORMS:
            among = [row for row, line in enumerate(lines) if line and form.among(line)]
            rows = [row for row in among if form.test(lines[row])]
            if len(among) < len(lines) / 20:
                continue

            def repair(row: int, lines: list[str] = lines, form: Form = form) -> None:
                lines[row] = " ".join(form.repair(lines[row]).split())

            kept = all(form.repair(lines[row]) == lines[row] for row in rows)
            yield from text.found(
                form.name,
                rows,
                f"{side} lines have {form.what}.",
                among=len(among),
                repair=repair,
                remedy="Use the text from before this step, or apply the step to all text that is translated" * kept,
                values={name: _share(form.test, each) for name, each in text.sides},
                unit=f"share of lines: {form.name}",
            )


def _languages(text: Text, declared: Languages) -> Iterator[Finding]:
    mains = [main_language(frequent_words(lines)) for _, lines in text.sides]
    names = [code and code.partition("-")[0] for code in declared]
    turned = [main is not None and main == name for main, name in zip(mains, reversed(names), strict=True)]
    right = [main == name for main, name in zip(mains, names, strict=True)]
    if any(turned) and not any(right) and None not in names:
        yield from text.found(
            "swapped",
            range(len(text.source)),
            f"pairs have swapped sides: {names[0]} -> {names[1]} is declared, and the lines look like "
            f"{mains[0] or names[1]} -> {mains[1] or names[0]}.",
            remedy="Pass --reverse, or the files in the other order",
        )
        return
    if len(text.source) >= FEWEST:
        swapped, same = unexpected(text.source, text.target)
        yield from text.found(
            "swapped",
            np.flatnonzero(swapped),
            "pairs have swapped sides: each side looks like the other side of the other pairs.",
            repair=text.swap,
        )
        copied = [s == t and len(_WORD.findall(s)) > 2 for s, t in zip(text.source, text.target, strict=True)]
        yield from text.found(
            "untranslated",
            np.flatnonzero(same | np.array(copied)),
            "pairs are not translated: both sides have the same language.",
            repair=text.drop,
            evidence=[f"{sum(copied):,} pairs have the same text on both sides"],
        )
    for side, lines in text.sides:
        name, flags = foreign(lines, frequent_words(lines))
        yield from text.found(
            "foreign", np.flatnonzero(flags), f"{side} lines have another language ({name}).", repair=text.drop
        )


def _repeated(text: Text) -> Iterator[Finding]:
    kept = {*text.pairs()}
    for (side, lines), at in zip(text.sides, (0, 1), strict=True):
        for sentence, count in Counter(pair[at] for pair in kept).most_common(1):
            yield from text.found(
                "stand-in",
                [row for row, line in enumerate(lines) if line == sentence],
                f'pairs have the {side} "{sentence:.60}", with {count:,} different partners. It stands for other text.',
                share=(count - 10) / len(lines),
                repair=text.drop,
            )
    first: dict[tuple[str, str], int] = {}  # row of each pair
    rows = [
        row
        for row, pair in enumerate(zip(text.source, text.target, strict=True))
        if all(pair) and first.setdefault(pair, row) < row
    ]
    yield from text.found("duplicates", rows, "pairs are repetitions of other pairs.", repair=text.drop)


def _alignment(text: Text) -> Iterator[Finding]:
    found = align_lines(*(word_matrix(lines) for _, lines in text.sides))
    yield from (moved := shifts(text, found))
    if moved:  # repaired: the other pairs are compared with all pairs
        found = align_lines(*(word_matrix(lines) for _, lines in text.sides))
    remedy = "Align the files again, from their documents" if found.unrelated_share > 0.9 else None
    yield from unrelated(text, found, "unrelated", remedy)


def shifts(text: Text, found: Alignment) -> list[Finding]:
    """Returns the finding about lines whose partner is another line, and moves the targets to their sources."""
    size = len(text.source)
    stretches = [each for each in stretches_of(found) if each[2] and each[1] - each[0] > max(20, size // 100)]
    rows = np.concatenate([np.arange(begin, end) for begin, end, _ in stretches] or [np.arange(0)])
    moved = [text.target[row + offset] if 0 <= row + offset < size else "" for row, offset in enumerate(found.offset)]

    def move(row: int) -> None:
        text.target[row] = moved[row]
        text.source[row] *= bool(moved[row])

    return text.found(
        "shifted",
        rows,
        "lines are shifted: their partner is on another line.",
        repair=move,
        evidence=[
            f"{text.places[each[0]]} to {text.places[each[1] - 1]}: by {each[2]:+}. {_example(text, *each)}"
            for each in stretches[:EXAMPLES]
        ],
        values={f"{offset:+}": gain for offset, gain in found.gains.items()},
        unit="association of line n with line n + offset (nats per word)",
    )


def unrelated(text: Text, found: Alignment, name: str, remedy: str | None = None) -> list[Finding]:
    """Returns the finding ``name`` about pairs that do not belong together."""
    return text.found(
        name,
        np.flatnonzero(found.unrelated),
        "pairs do not belong together: their words are associated no more than those of random pairs. Estimate for all "
        f"pairs: {min(1.0, found.unrelated_share):.0%}.",
        share=found.unrelated_share - 20 / len(text.source),
        repair=text.drop,
        values={"these pairs": found.gains[0], "random pairs": found.chance},
        unit="association (nats per word)",
        remedy=remedy,
    )


def stretches_of(found: Alignment) -> list[tuple[int, int, int]]:
    """Returns begin, end and offset of each stretch of lines with partners at one offset."""
    state = np.where(found.alone, 99, found.offset)
    edges = [0, *(np.flatnonzero(np.diff(state)) + 1).tolist(), len(state)]
    return [(begin, end, int(state[begin])) for begin, end in pairwise(edges) if state[begin] != 99]


def _example(text: Text, begin: int, end: int, offset: int) -> str:
    here = (begin + end) // 2
    there = min(max(0, here + offset), len(text.target) - 1)
    source, target = f'"{text.source[here]:.60}"', f'"{text.target[there]:.60}"'
    return f"For example, {source} ({text.places[here]}) belongs to {target} ({text.places[there]})"


def cut_off(text: Text) -> Iterator[Finding]:
    """Yields the findings about sentences that are shorter than their other side and lack its final punctuation.

    In some languages, such as Thai, most sentences end without a mark.
    """
    ends = [np.array([is_sentence(line) for line in lines]) for _, lines in text.sides]
    lengths = [np.array([max(1, len(line)) for line in lines]) for _, lines in text.sides]
    for (side, _), at in zip(text.sides, (0, 1), strict=True):
        ratio = np.log(lengths[at] / lengths[1 - at])
        longest = ends[1 - at] & (ratio >= np.quantile(ratio, 0.85))
        if not longest.any() or ends[at][longest].mean() < MIN_ENDING:
            continue
        rows = np.flatnonzero(ends[1 - at] & ~ends[at] & (ratio < np.median(ratio) - 0.3))
        yield from text.found(
            "cut-off",
            rows,
            f"{side} sentences are cut off: they are short and end without punctuation, unlike their other side.",
            among=int(ends[1 - at].sum()),
            repair=text.drop,
        )


def _token_count(line: str) -> float:
    """Returns about how many subwords a line has."""
    parts = len(line.split())
    return TOKENS_PER_WORD * parts + (len(spaced(line).split()) - parts) / LETTERS_PER_TOKEN


def _sizes(text: Text, max_tokens: int) -> Iterator[Finding]:
    tokens = [[_token_count(line) for line in lines] for _, lines in text.sides]
    longer = [row for row, pair in enumerate(zip(*tokens, strict=True)) if max(pair) > max_tokens]
    yield from text.found(
        "too-long",
        longer,
        f"pairs have more than about {max_tokens} tokens. Training skips them.",
        remedy=f"Split them into sentences, or train with --train.max-tokens {2 * max_tokens}",
    )
    counts = [Counter(word for line in lines for word in words_of(line)) for _, lines in text.sides]
    once = [sum(number == 1 for number in count.values()) / max(1, count.total()) for count in counts]
    yield from finding(
        "too-few",
        max(once),
        f"{len(text.source):,} pairs are too few: {max(once):.0%} of the words occur once.",
        [
            f"{side}: {count.total():,} words, {len(count):,} different"
            for side, count in zip(SIDES, counts, strict=True)
        ],
        "Train the recipe small-corpus, with more pairs or from another run (--init-from)",
    )


def other_forms(option: str, held: Sequence[Pair], train: Sequence[Pair]) -> list[Finding]:
    """Returns the findings about forms of text that differ between training and held-out pairs."""
    found = []
    for at, side in enumerate(SIDES):
        shares = [shares_of([pair[at] for pair in pairs[:: max(1, len(pairs) // 5000)]]) for pairs in (train, held)]
        differences = {name: shares[0].get(name, 0.0) - shares[1].get(name, 0.0) for name in shares[0] | shares[1]}
        name = max(differences, key=lambda each: abs(differences[each]))
        ours, theirs = (share.get(name, 0.0) for share in shares)
        found += finding(
            "other-form",
            abs(ours - theirs) if len(held) >= FEWEST else 0.0,
            f"The {side} lines of {option} have another form than the training lines: {theirs:.0%} have {name}, and "
            f"{ours:.0%} of the training lines.",
            [
                f'{where}: "{each[at]:.70}"'
                for where, pairs in (("training", train), (option, held))
                for each in pairs[:2]
            ],
            f"Prepare the training lines and the lines of {option} with the same tools",
            {"training": ours, option: theirs},
            f"share of lines: {name}",
        )
    return found


def shares_of(lines: Sequence[str]) -> dict[str, float]:
    """Returns the share of lines in each form, from 0 to 1, by the form's description."""
    scripts = Counter(map(script_of, lines))
    return {
        **{form.what: _share(form.test, [line for line in lines if form.among(line)]) for form in FORMS},
        "punctuation at the end": _share(is_sentence, lines),
        "a first letter in lower case": _share(lambda line: line[:1].islower(), lines),
        **{f"script {name}": count / len(lines) for name, count in scripts.items() if name},
    }


def _share(test: Callable[[str], bool], lines: Sequence[str]) -> float:
    return sum(map(test, lines)) / max(1, len(lines))
