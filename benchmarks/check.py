"""Measures whether ``nmt check`` names the faults that are seeded into corpora and translations.

    python -m benchmarks.check --corpus spa-eng.zip > docs/measured/check.json

Seeds each fault at two strengths into three corpora: 5,000 pairs of Spanish-English, 5,000 of this machine's message
catalogues in one language (/usr/share/locale), and 1,500 pairs. A fault counts as found if the first finding names it.
Clean corpora must have no finding. Translations are references with changed words. Prints JSON.
"""

import html
import random
import re
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import tyro

from benchmarks.machine import machine, print_result
from benchmarks.model_data import entries
from nmt_keras.check.corpus import check_corpus
from nmt_keras.check.findings import Finding
from nmt_keras.check.outputs import check_outputs
from nmt_keras.corpus.reading import Corpus, Pair, ReadReport, read_pairs

Pairs = Sequence[Pair]
Change = Callable[[random.Random, Pair, Pairs], tuple[str, str]]


def _pieces(mark: str, text: str) -> str:
    return re.sub(r"(\w{3})(?=\w)", rf"\1{mark} ", text)


CHANGES: dict[str, tuple[tuple[float, float], Change]] = {
    "swapped": ((0.1, 0.5), lambda draw, pair, all_: (pair.target, pair.source)),
    "untranslated": ((0.1, 0.4), lambda draw, pair, all_: (pair.source, pair.source)),
    "stand-in": ((0.03, 0.2), lambda draw, pair, all_: (pair.source, all_[0].target)),
    "mojibake": (
        (0.1, 1.0),
        lambda draw, pair, all_: (str(f"{pair.source} é".encode(), "cp1252", "ignore"), pair.target),
    ),
    "entities": ((0.1, 1.0), lambda draw, pair, all_: (pair.source, html.escape(f'"{pair.target}"'))),
    "lost-letters": ((0.1, 1.0), lambda draw, pair, all_: (re.sub("[^ -~]|u", "\ufffd", pair.source), pair.target)),
    "subword-marks": ((0.1, 1.0), lambda draw, pair, all_: (_pieces("@@", pair.source), _pieces("@@", pair.target))),
    "tokenised": ((0.2, 1.0), lambda draw, pair, all_: (pair.source, re.sub(r"(\W)", r" \1", pair.target))),
    "lower-case": ((0.25, 1.0), lambda draw, pair, all_: (pair.source, pair.target.lower())),
    "unrelated": ((0.12, 0.5), lambda draw, pair, all_: (pair.source, draw.choice(all_).target)),
    "cut-off": ((0.15, 0.6), lambda draw, pair, all_: (pair.source, pair.target[: 1 + len(pair.target) // 2])),
    "decomposed": ((0.2, 1.0), lambda draw, pair, all_: (pair.source, unicodedata.normalize("NFD", f"é{pair.target}"))),
}
"""Faults of single pairs: the share of changed pairs at each strength, and the changed pair."""

OUTPUTS: dict[str, tuple[tuple[float, float], Change]] = {
    "few-outputs": ((0.1, 0.6), lambda draw, pair, all_: (pair.source, all_[0].target)),
    "copied": ((0.1, 0.6), lambda draw, pair, all_: (pair.source, pair.source)),
    "loops": ((0.1, 0.6), lambda draw, pair, all_: (pair.source, pair.target + " and so on" * 5)),
    "empty-outputs": ((0.02, 0.3), lambda draw, pair, all_: (pair.source, "")),
    "lower-case": ((0.3, 1.0), lambda draw, pair, all_: (pair.source, pair.target.lower())),
}
"""Faults of single translations. The targets are the translations."""
LANGUAGES = ("de", "fr", "ja", "ru", "zh_CN", "tr", "sv")
"""Languages of the catalogues. The first has faults, the second is the third language in other corpora."""


def changed(pairs: Pairs, share: float, change: Change, seed: int = 1) -> list[Pair]:
    """Returns ``pairs`` with a share of them changed."""
    draw = random.Random(seed)
    return [Pair(*change(draw, pair, pairs)) if draw.random() < share else pair for pair in pairs]


def shifted(pairs: Pairs, begin: float, offset: int) -> list[Pair]:
    """Returns ``pairs`` whose targets lack ``offset`` lines from a share of the pairs on."""
    first = int(begin * len(pairs))
    targets = [pair.target for at, pair in enumerate(pairs) if not first <= at < first + offset]
    return [Pair(pair.source, target) for pair, target in zip(pairs, targets, strict=False)]


def faulty_corpora(pairs: Pairs, foreign: Pairs) -> dict[tuple[str, int], list[Pair]]:
    """Returns a corpus for each fault and strength, 0 or 1."""

    def replaced(draw: random.Random, pair: Pair, _: Pairs) -> tuple[str, str]:
        return draw.choice(foreign).source, pair.target

    found = {(name, at): changed(pairs, shares[at], one) for name, (shares, one) in CHANGES.items() for at in (0, 1)}
    for at, (begin, offset, share, size) in enumerate(((0.7, 1, 0.05, 500), (0.0, 4, 0.4, 200))):
        found["shifted", at] = shifted(pairs, begin, offset)
        found["foreign", at] = changed(pairs, share, replaced)
        found["too-few", at] = random.Random(1).sample(pairs, size)
    return found


def translated(pairs: Pairs) -> list[Pair]:
    """Returns the pairs of sources and translations of a system that gets one word in seven wrong."""
    draw, words = random.Random(2), [word for pair in pairs for word in pair.target.split()]

    def translation(text: str) -> str:
        return " ".join(draw.choice(words) if draw.random() < 1 / 7 else word for word in text.split())

    return [Pair(pair.source, translation(pair.target)) for pair in pairs]


def faulty_outputs(pairs: Pairs) -> dict[tuple[str, int], list[Pair]]:
    """Returns sources and translations for each fault and strength, 0 or 1."""
    found = {(name, at): changed(pairs, shares[at], one) for name, (shares, one) in OUTPUTS.items() for at in (0, 1)}
    return found | {("shifted", 0): shifted(pairs, 0.6, 1), ("shifted", 1): shifted(pairs, 0.0, 1)}


def corpus_findings(pairs: Pairs) -> list[Finding]:
    """Returns the findings about a corpus."""
    report = ReadReport(lines=len(pairs), places=[(n, "pairs", n) for n in range(1, len(pairs) + 1)])
    return check_corpus(Corpus([*pairs], report), {}, (None, None), "nmt check").findings


def output_findings(pairs: Pairs, outputs: Pairs) -> list[Finding]:
    """Returns the findings about translations; ``pairs`` has the references."""
    both = [*zip(pairs, outputs, strict=False)]
    sources, references = ([pair[at] for pair, _ in both] for at in (0, 1))
    return check_outputs(sources, references, [out.target for _, out in both])


def catalogue(language: str) -> list[Pair]:
    """Returns the messages of two words or more of all UTF-8 catalogues in a language, with their English originals."""
    found: dict[Pair, None] = {}
    for path in sorted(Path("/usr/share/locale", language, "LC_MESSAGES").glob("*.mo")):
        with suppress(UnicodeError):
            for (english, *plural), (message, *_) in entries(path.read_bytes()):
                if " " in english and not plural:
                    found[Pair(" ".join(message.split()), " ".join(english.split()))] = None
    return [pair for pair in found if all(pair) and max(map(len, pair)) < 300]


def main(corpus: Path) -> None:
    """Checks and prints.

    Args:
        corpus: Path of the Spanish-English corpus file.
    """
    before, began = machine(), time.process_time()
    spanish = [*read_pairs(corpus, source_column=1, target_column=0).pairs]
    catalogues = {language: catalogue(language) for language in LANGUAGES}
    first, second, *_ = LANGUAGES
    corpora = {
        "Spanish-English": random.Random(1).sample(spanish, 5000),
        f"catalogues, {first}": catalogues[first][5000:10_000],
        "1,500 pairs": random.Random(2).sample(spanish, 1500),
    }
    named: dict[str, dict[str, str]] = {}
    for name, pairs in corpora.items():
        outputs = translated(pairs[:1500])
        found = {
            ("corpus", *key): corpus_findings(case) for key, case in faulty_corpora(pairs, catalogues[second]).items()
        }
        found |= {("output", *key): output_findings(pairs, case) for key, case in faulty_outputs(outputs).items()}
        for (kind, fault, at), findings in found.items():
            row = named.setdefault(f"{kind}: {fault}, {('weak', 'strong')[at]}", {})
            row[name] = findings[0].name if findings else "nothing"
    clean = {"Spanish-English, all": spanish, **corpora} | {
        f"catalogues, {name}": found for name, found in catalogues.items()
    }
    false = {name: [each.name for each in corpus_findings(pairs)] for name, pairs in clean.items()}
    print_result(
        before, {"named": named, "false": false, "cpu_seconds": time.process_time() - began}, *shown(named, false)
    )


def shown(
    named: Mapping[str, Mapping[str, str]], false: Mapping[str, Sequence[str]]
) -> tuple[str, list[dict[str, str]]]:
    """Returns the summary and the table: the corpora whose fault is named first, and the other first findings."""
    rows: dict[str, dict[str, str]] = {}
    hits = 0
    for case, first in named.items():
        fault, _, strength = case.partition(", ")
        others = [name for name in first.values() if name != fault.partition(": ")[2]]
        hits += len(first) - len(others)
        count = f"{len(first) - len(others)} of {len(first)}"
        rows.setdefault(fault, {"fault": fault})[strength] = " ".join([count, *(f"({name})" for name in others)])
    total = sum(map(len, named.values()))
    told = (
        f"{hits} of {total} seeded faults are named first ({hits / total:.0%}). {sum(map(bool, false.values()))} of "
        f"{len(false)} clean corpora have a finding."
    )
    return told, [*rows.values()]


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
