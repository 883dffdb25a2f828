"""Writes docs/results.md and its figures from the files in docs/results. All numbers come from these files.

python -m benchmarks.results_page
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import bahdanau_page, local_p_page, luong_page
from benchmarks.results import RESULTS, VOCABULARY, WINDOW, Group, groups
from nmt_keras.plotting import (
    bleu_by_length,
    save_figure,
    score_intervals,
)

Result = Mapping[str, Any]

TITLES = {
    "ladder": "The ladder of Luong, Pham, Manning 2015",
    "sample": "Attention on the sample corpus",
    "general-rate": "The general score with a lower learning rate",
    "general-longer": "The general score with three times as many updates",
    "bahdanau-8": "RNNencdec and RNNsearch, up to 8 words",
    "bahdanau-16": "RNNencdec and RNNsearch, up to 16 words",
    "bahdanau-16-longer": "RNNsearch, up to 16 words, four times as many updates",
    "lecture": "The lecture's systems",
    "tutorial": "The tutorial's system",
    "sampling": "Teacher forcing, scheduled sampling and free running",
    "units": "Words, subwords and characters",
    "self-attention": "Recurrence and self-attention at equal size",
    "order": "Additive attention before, within and after the update of the decoder's state",
    "guided-alignment": "Attention trained with word alignments",
    "fixed-context": "Fixed contexts: the last state and the mean of the annotations",
    "small-corpus": "30,000 training pairs",
    "ensemble": "RNNsearch with replaced unknown words, and ensembles of it",
    "rnnsearch-50-as-published": "RNNsearch with the paper's training",
    "luong-feed-as-published": "Luong's input feeding with the paper's training",
}
"""Titles of the sections on groups, by group."""

NOTES = {
    "tutorial": """The tutorial's own pairs, the first 30,000 of the corpus. Its split keeps equal English sentences
together. Of {test_pairs:,} test pairs, 311 have a Spanish sentence that is also in the training set. The pairs are
shorter than those of the other groups, so the scores are not comparable. The checkpoint after {best_step:,} updates has
the lowest validation loss and is scored.""",
    "guided-alignment": """The alignments are the links between lower-case words that eflomal 2.0.0 found in both
directions; see [Guided alignment](guides/guided-alignment.md). `attend-then-update` in the group above has the
same training without them.""",
    "self-attention": """`attend-then-update` is `rnnsearch-small` in the small setting. Neither system has
dropout.""",
    "order": """`attend-then-update` is `rnnsearch-small` in the small setting. The other orders change the decoder:
`conditional` has a conditional GRU. `update-then-attend` has Luong's order, input feeding and attentional output layer,
and half the learning rate.""",
    "small-corpus": """The systems are `conditional-gru` with 4,000 subwords per side and a learning rate of 0.003. The
second has dropout 0.3. The third also has recurrent dropout 0.2. The last two have 2,000 and 8,000 subwords
instead. The recipe `small-corpus` has the options of the third, layer normalisation, and 17 epochs. The pairs are drawn
at random from the training set.""",
    "sample": """A grammar generates the sample corpus, so the gold alignments of its {test_pairs:,} test
pairs follow from a lexicon.""",
}
"""Text below the tables of groups, with fields of the first run."""

INTRODUCTION = """# Results

This page compares the systems of the papers in one small setting, on the Spanish-English benchmark split.
`python -m benchmarks.results_page` writes it from the JSON files in `docs/results/`. [Papers and code](papers.md) lists
the recipe, field and test of each equation.

**Data.** 112,047 pairs for training, 3,502 for validation and 3,415 for testing, from Tatoeba through
[manythings.org/anki](https://www.manythings.org/anki/). No sentence of the test set, and no other translation of one,
is in the training set. The groups `tutorial` and `sample` have other pairs. The groups of Bahdanau et al. and the group
of 30,000 pairs have other training pairs and the same test set.

**Protocol.** Systems of one group have equal numbers of updates and the same training pairs. The learning rate of a
system is the one whose pilot, a quarter of a run with the first seed, has the lowest validation loss. Pilots have 0.5,
1 and 2 times the base rate. The base rate is 0.006; it is 0.003 for `update-then-attend`, and 0.002 for the lecture's
systems and self-attention. Groups without pilots say so. The checkpoint with the lowest validation loss is scored.
[Compare attention variants](guides/compare-attention.md) describes the protocol.

**Small setting.** The groups `as-published` have the papers' optimizers, initial weights and layers; all layer sizes
are a quarter of the paper's. Their alignment error was not measured. All other groups differ from the papers:

- narrower layers, and at most two of them
- local attention with D = {window}, because sentences have 8 tokens on average instead of 25
- {vocabulary:,} words per side; `characters` has characters, `subwords` {vocabulary:,} subwords, and variants of
  `rnnsearch-small` 4,000 subwords; an unknown word is translated as UNK and counts as an error
- Adam with a rate that falls linearly to 0, Glorot and orthogonal initial weights, label smoothing 0.1 and batches of
  64, for short trainings
- a loss per token instead of per sentence, and gradients of a norm of at most 1 (Luong et al.: 5)
- pairs of up to 40 tokens (`characters`: 120) instead of 50 words, and greedy search
- in local-p, the logit of the position is a [mean over the units](#local-p-sum-or-mean-over-the-units), not a sum

**Tables.** Scores are sacreBLEU (`{bleu}`) and chrF (`{chrf}`) on raw, cased text, with 95 % intervals. If a system
has several runs, which differ in their seeds, a row is their mean ± standard deviation, and the interval is from a
bootstrap over sentences and runs. With one run, it does not include the variation between seeds. p is the two-sided
p-value of the difference from the row above, from a paired bootstrap; the smallest possible value is 0.001. It
understates the variation between seeds, so read the limits below before you quote it. If some rows are alternatives,
not steps, the column "against" names the system that each row is compared with. Perplexity is per token of the
reference, so systems with different tokens cannot be compared by it. An unknown word is one token, so neither can
systems with vocabularies of different sizes. AER is the alignment error rate on [100 sentence
pairs](results/alignments/README.md), 0 to 1, lower is better. A language model wrote their gold alignments. A word
that attends most to the end of the sentence has no link. AER has no interval.
"""

BLEU = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
"""Signature of sacreBLEU, the same in all results."""
CHRF = "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0"
"""Signature of chrF, the same in all results."""

PROSE = "findings.md"
"""Name of the file with the findings, in the folder of the results."""


def first_runs(source: Path) -> dict[str, Result]:
    """Returns the result of each system's first seed, by system. A system of several groups has that of the first."""
    found: dict[str, Result] = {}
    for name, group in groups().items():
        for system in group.systems:
            path = source / name / f"{system.name}-1.json"
            if system.name not in found and path.exists():
                found[system.name] = json.loads(path.read_text("utf-8"))
    return found


def table_of(folder: Path) -> Result | None:
    """Returns the table of the group with the folder ``folder``, or ``None`` if the group has no result."""
    path = folder / "table.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def group_sections(source: Path, figures: Path) -> list[str]:
    """Returns one section for each group with results in ``source``, and draws the figures into ``figures``."""
    lines, found = [], first_runs(source)
    for name, group in groups().items():
        folder = source / name
        if (protocol := table_of(folder)) is None:
            continue
        rows = [line for line in (folder / "table.md").read_text("utf-8").splitlines() if line.startswith("|")]
        run = json.loads((folder / f"{protocol['systems'][0]['name']}-{protocol['seeds'][0]}.json").read_text("utf-8"))
        pilots = "no pilots" if protocol["pilot_updates"] is None else "rates from pilots"
        corpus = "" if group.corpus == "sample" else " --corpus spa-eng.zip"
        corpus += " --alignments spa-eng.align" if group.guided else ""
        seeds = " ".join(map(str, protocol["seeds"]))
        told = [
            f"{protocol['updates']:,} updates on {run['train_pairs']:,} pairs, {run['search']}; {pilots}. Command:",
            "",
            f"    python -m benchmarks.results {name}{corpus} --to runs/{name} --seeds {seeds}",
        ]
        lines += [f"## {TITLES[name]}", "", *rows, "", *told, ""]
        if name in NOTES:
            lines += [NOTES[name].format(**run), ""]
        if name == "ladder":
            lines += [*luong_page.curves(found, figures), *luong_page.against_paper(folder)]
        lines += [*_combined(group, folder), *_normalized(group, folder)]
    return lines


def _combined(group: Group, folder: Path) -> list[str]:
    """Returns the table of a group's combined systems, each after the runs that it is made of."""
    rows: dict[str, Result] = {}
    for combined in group.combined:
        for path in folder.glob(f"{combined.name}-*.json"):
            result = json.loads(path.read_text("utf-8"))
            paths = [path for run in result["runs"] if (path := folder / f"{run}.json").exists()]
            members = {path.stem: json.loads(path.read_text("utf-8")) for path in paths}
            rows |= {**members, combined.name: result}
    if not rows:
        return []
    lines = ["| run | BLEU | chrF | perplexity | unknown, % |", "|---|---|---|---|---|"]
    for name, row in rows.items():
        scores = " | ".join(
            f"{row[score]:.2f} ({row[f'{score}_interval'][0]:.1f} to {row[f'{score}_interval'][1]:.1f})"
            for score in ("bleu", "chrf")
        )
        lines.append(f"| `{name}` | {scores} | {row['perplexity']:.2f} | {row['unknown']:.2f} |")
    note = "Runs and the systems made of them. Unknown: share of the translations' tokens that are unknown words."
    return [*lines, "", note, ""]


def _normalized(group: Group, folder: Path) -> list[str]:
    """Returns the table of the runs that are also scored without case or accents."""
    paths = sorted(path for system in group.systems for path in folder.glob(f"{system.name}-*.json"))
    runs = {path.stem: json.loads(path.read_text("utf-8")) for path in paths}
    rows = {name: run for name, run in runs.items() if "normalized" in run}
    if not rows:
        return []
    lines = ["| run | BLEU, raw text | BLEU, lower case without accents |", "|---|---|---|"]
    lines += [f"| `{name}` | {run['bleu']:.2f} | {run['normalized']['bleu']:.2f} |" for name, run in rows.items()]
    signatures = {(run["signature"], run["normalized"]["signature"]) for run in rows.values()}
    lines.append("")
    for raw, simple in sorted(signatures):
        lines += [f"Raw text: `{raw}`. Lower case, accents removed from both sides: `{simple}`.", ""]
    return lines


def error_rates(source: Path) -> list[str]:
    """Returns the table of alignment error rates on Spanish-English, lowest first, ensembles included.

    A system of several groups has the row of the group with the most runs of it.
    """
    rows: dict[str, tuple[float, str]] = {}
    runs: dict[str, int] = {}
    for name, group in groups().items():
        if group.corpus == "sample":
            continue
        for row in (table_of(source / name) or {"systems": []})["systems"]:
            if (rate := row["error_rate"]) and len(row["seeds"]) > runs.get(row["name"], 0):
                runs[row["name"]] = len(row["seeds"])
                path = source / name / f"{row['name']}-{row['seeds'][0]}.json"
                model = json.loads(path.read_text("utf-8"))["recipe"]["model"]
                spread = "" if rate["deviation"] is None else f" ± {rate['deviation']:.3f}"
                cells = f"{_attention(model)} | {rate['mean']:.3f}{spread} | {len(row['seeds'])}"
                rows[row["name"]] = rate["mean"], f"`{row['name']}` | {cells}"
        for combined in group.combined:
            path = source / name / f"{combined.name}-1.json"
            run: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"alignment": None}
            if run["alignment"] and len(run["runs"]) > 1:
                rate = run["alignment"]["error_rate"]
                told = f"mean over {len(run['runs'])} runs"
                rows[combined.name] = rate, f"`{combined.name}` | {told} | {rate:.3f} | 1"
    if not rows:
        return []
    told = "Systems above, Spanish-English. [Gold alignments](results/alignments/README.md) has longer trainings."
    lines = ["## Alignment error rates", "", told, "", "| system | attention | AER | runs |", "|---|---|---|---|"]
    return [*lines, *(f"| {cells} |" for _, cells in sorted(rows.values())), ""]


def _attention(model: Result) -> str:
    """Returns the kind of attention of a model, in words."""
    attention = model["attention"]
    if model["decoder"]["order"] == "self-attention":
        return f"scaled dot, {model['decoder']['heads']} heads"
    local = "" if attention["span"] == "global" else f", {attention['span']}"
    return f"{attention['kind']}{local}{', input feeding' if model['decoder']['input_feeding'] else ''}"


def reports(folder: Path, figures: Path) -> None:
    """Draws the example figures of the guide on evaluation from the file in ``folder``."""
    if (path := folder / "hour.json").exists():
        report = json.loads(path.read_text(encoding="utf-8"))
        lengths = bleu_by_length(report["bins"], report["sentences"], report["bleu_by_length"])
        save_figure(lengths, figures / "report-bleu-by-length.svg")
        save_figure(score_intervals(report["scores"]), figures / "report-scores.svg")


def findings(prose: Path) -> list[str]:
    """Returns the section on findings: the text of ``prose`` without the expressions that check it."""
    if not prose.exists():
        return []
    text = re.sub(r"\s*<!--.*?-->", "", prose.read_text(encoding="utf-8"), flags=re.DOTALL)
    return ["## Findings", "", text.strip(), ""]


def circumstances(source: Path) -> list[str]:
    """Returns the versions, cores and dates of the runs in ``source``."""
    runs = [json.loads(path.read_text("utf-8")) for path in sorted(source.glob("*/*-*.json"))]
    told = {
        json.dumps(run["circumstances"], sort_keys=True)
        for run in runs
        if isinstance(run, dict) and "circumstances" in run
    }
    return [
        "## Versions",
        "",
        *(f"- {', '.join(f'{name} {value}' for name, value in json.loads(one).items())}" for one in sorted(told)),
        "",
    ]


def page(source: Path, figures: Path) -> str:
    """Returns the page on the results in the folder ``source``, and draws its figures into the folder ``figures``."""
    found = first_runs(source)
    sections: Sequence[list[str]] = (
        findings(source / PROSE),
        group_sections(source, figures) or ["No system has been run.", ""],
        bahdanau_page.table_1(found),
        bahdanau_page.pictures(found, figures),
        error_rates(source),
        local_p_page.section(source / "diagnostics" / "local-p.json", figures),
        circumstances(source),
    )
    reports(source / "reports", figures)
    introduction = INTRODUCTION.format(vocabulary=VOCABULARY, window=WINDOW, bleu=BLEU, chrf=CHRF)
    return introduction + "\n" + "\n".join(line for section in sections for line in section)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=RESULTS.parent / "results.md")
    arguments = parser.parse_args()
    arguments.page.write_text(page(arguments.results, arguments.page.parent), encoding="utf-8")
    print(arguments.page)


if __name__ == "__main__":
    main()
