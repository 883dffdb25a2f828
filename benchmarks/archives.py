"""Reads and writes the results of the groups in docs/results, and computes their figures again.

    docs/results/GROUP.json       metrics of the systems, with the protocol
    docs/results/GROUP.tar.xz     all other files: metrics and translations of each run, links of some, and pilots

    python -m benchmarks.archives --corpus spa-eng.zip         computes the figures of all groups again
    python -m benchmarks.archives ladder --add runs/ladder     adds the files of runs/ladder to a group
    tar -xf docs/results/ladder.tar.xz -C runs/ladder          restores the runs of a group, to train more of them

BLEU, chrF, exact matches and the p-values of GROUP.json are computed from the translations, and alignment error rates
from the links. A difference from a stored figure is an error. The command prints which runs have no translations or
links: their figures are not computed again. Neither are perplexities, which need the model, and the intervals of single
runs, which older versions computed in another way.
"""

from __future__ import annotations

import io
import json
import lzma
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import tyro

from benchmarks.alignment import figures, gold_pairs
from benchmarks.results import RESULTS, binned, bleu_by_length, long_pairs, normalized, pairs_of, parts_of
from nmt_keras.config import CorpusConfig, require
from nmt_keras.corpus import Pair, evaluation_pairs
from nmt_keras.corpus.alignments import from_pharaoh
from nmt_keras.evaluation.metrics import bleu, chrf, exact_match
from nmt_keras.evaluation.seeds import RunResult, summarise
from nmt_keras.io.files import write_whole

TABLE = "table.json"
"""File of a folder that a group has as GROUP.json, outside of its archive."""
RUN = re.compile(r".+-\d+\.json")
"""Name of the metrics of a run. The file of its translations has the suffix ``.txt``."""
Compared = Iterator[tuple[str, Any, Any]]
"""Names of figures, with their stored and their computed values."""


def archived() -> list[Path]:
    """Returns the groups in docs/results, without suffixes, as ``files_of`` reads them."""
    return sorted(path.with_name(path.name.removesuffix(".tar.xz")) for path in RESULTS.glob("*.tar.xz"))


@cache
def files_of(group: Path) -> Mapping[str, str]:
    """Returns the text of each file of a group by name, from the folder ``group`` or from its JSON and its archive."""
    if group.is_dir():
        return {path.name: path.read_bytes().decode() for path in sorted(group.iterdir()) if path.is_file()}
    table, archive = (group.with_suffix(suffix) for suffix in (".json", ".tar.xz"))
    found = {TABLE: table.read_bytes().decode()} if table.exists() else {}
    if archive.exists():
        with tarfile.open(archive) as opened:
            contents = ((member.name, opened.extractfile(member)) for member in opened)
            found |= {name: content.read().decode() for name, content in contents if content}
    return found


def add_files(files: Mapping[str, str], group: Path) -> None:
    """Adds files to a group, or replaces them. Equal files give equal bytes."""
    kept = {**files_of(group), **files}
    table = kept.pop(TABLE, None)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in sorted(kept.items()):
            member, data = tarfile.TarInfo(name), text.encode()
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    write_whole(group.with_suffix(".tar.xz"), lzma.compress(packed.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    if table is not None:
        write_whole(group.with_suffix(".json"), table)
    files_of.cache_clear()


def compared(files: Mapping[str, str], pairs: Sequence[Pair]) -> Compared:
    """Compares the stored figures of a group with those of its translations and links.

    Args:
        files: Files of the group.
        pairs: Test set of the group. Without it, only links are compared.
    """
    table = json.loads(files.get(TABLE, "{}"))
    runs = {name: json.loads(text) for name, text in files.items() if RUN.fullmatch(name)}
    gold = gold_pairs(table.get("corpus", "spa-eng"))
    texts = {name: files.get(name.replace(".json", ".txt"), "").split("\n")[:-1] for name in runs}
    for name, run in runs.items():
        for rule, stored in links_of(run.get("alignment") or {}).items():
            found = [from_pharaoh(line).possible for line in stored["predicted"]]
            yield f"{name}, {rule}", stored, figures(found, gold)
        if texts[name] and pairs:
            yield from text_figures(name, run, texts[name], [pair.target for pair in pairs])
        if "by_length" in run and pairs:
            yield from beam_figures(name, run, files[name.replace(".json", ".beam.txt")].split("\n")[:-1], pairs)
    if pairs and "systems" in table:
        systems = {row["name"]: [f"{row['name']}-{seed}.json" for seed in row["seeds"]] for row in table["systems"]}
        results = {system: [RunResult(runs[name], texts[name]) for name in names] for system, names in systems.items()}
        baselines = {row["name"]: row["baseline"] for row in table["systems"]}
        rows = summarise(results, [pair.target for pair in pairs], "en", baselines)
        for row, stored in zip(rows.systems, table["systems"], strict=True):
            yield f"{TABLE}, {row.name}", stored, asdict(row)
        if "lengths.json" in files:
            by_system = {system: [texts[name] for name in names] for system, names in systems.items()}
            yield "lengths.json", json.loads(files["lengths.json"]), bleu_by_length(pairs, by_system)


def not_stored(files: Mapping[str, str]) -> dict[str, list[str]]:
    """Returns the runs of a group without translations, and those with an alignment error rate but without links."""
    runs = {name: json.loads(text) for name, text in files.items() if RUN.fullmatch(name)}
    return {
        "translations": [name for name in runs if name.replace(".json", ".txt") not in files],
        "links": [name for name, run in runs.items() if run.get("alignment") and not links_of(run["alignment"])],
    }


def links_of(alignment: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the figures of both rules of an alignment whose links are stored."""
    rules = {"alignment": alignment, "every word linked": alignment.get("every_word_linked", {})}
    names = ("error_rate", "precision", "recall", "interval", "links", "predicted")
    return {rule: {name: one[name] for name in names} for rule, one in rules.items() if "predicted" in one}


def text_figures(name: str, run: Mapping[str, Any], texts: Sequence[str], references: Sequence[str]) -> Compared:
    """Compares the figures of a run's translations."""
    scores = {"bleu": bleu(texts, references, "en").value, "chrf": chrf(texts, references).value}
    for metric, score in (scores | {"exact": exact_match(texts, references)}).items():
        if metric in run:
            yield f"{name}, {metric}", run[metric], round(score, 2)
    if "normalized" in run:
        yield f"{name}, normalized", run["normalized"], normalized(texts, references)


def beam_figures(name: str, run: Mapping[str, Any], texts: Sequence[str], pairs: Sequence[Pair]) -> Compared:
    """Compares the BLEU by length of a run's translations with beam search, of the test set and the long one."""
    parts = {"test": list(pairs), "long": long_pairs(pairs)}
    require(len(texts) == sum(map(len, parts.values())), name, "a translation per sentence", len(texts))
    for part, held in parts.items():
        translated, texts = list(zip(held, texts, strict=False)), texts[len(held) :]
        score = bleu([text for _, text in translated], [pair.target for pair in held]).value
        yield f"{name}, {part}", run["table"][part]["all"], round(score, 2)
        yield f"{name}, {part} by length", run["by_length"][part], binned(translated)


def rounded(value: Any) -> Any:
    """Returns a figure with fractions of nine digits, because the last digits depend on the order of sums."""
    return json.loads(json.dumps(value), parse_float=lambda digits: f"{float(digits):.9g}")


def held_out(files: Mapping[str, str], path: Path | None) -> Sequence[Pair]:
    """Returns the test set of a group; none if it is that of the Spanish-English corpus and ``path`` is ``None``."""
    corpus = json.loads(files.get(TABLE, "{}")).get("corpus", "spa-eng")
    if corpus == "spa-eng" and path is None:
        return ()
    recipes = (json.loads(text).get("recipe") for name, text in files.items() if RUN.fullmatch(name))
    config = CorpusConfig(**next(filter(None, recipes), {"corpus": {}})["corpus"])
    return evaluation_pairs(_held_out(corpus, config, path), key_side="target")


@cache
def _held_out(corpus: str, config: CorpusConfig, path: Path | None) -> Sequence[Pair]:
    return parts_of(config, pairs_of(corpus, path))["test"]


def main(
    groups: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="GROUP ...")] = (),
    corpus: Path | None = None,
    add: Path | None = None,
) -> None:
    """Adds files to a group, or computes the figures of groups again.

    Args:
        groups: Groups. Default: all.
        corpus: File of the Spanish-English corpus. Without it, only links are compared, and the group "sample".
        add: Folder whose files are added to the group, or replace those of the same name.
    """
    if add is not None:
        (name,) = groups
        add_files(files_of(add), RESULTS / name)
        return
    different = 0
    for group in [RESULTS / name for name in groups] or archived():
        files = files_of(group)
        rows = list(compared(files, held_out(files, corpus)))
        for name, stored, found in rows:
            if rounded(stored) != rounded(found):
                different += 1
                print(f"{group.name}: {name}: stored {stored}, computed {found}")
        print(f"{group.name}: {len(rows)} figures")
        for kind, runs in not_stored(files).items():
            if runs:
                print(f"{group.name}: no {kind} of {len(runs)} runs, whose figures are not computed: {', '.join(runs)}")
    if different:
        raise SystemExit(f"archives: {different} figures differ.")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
