"""Writes docs/results.md and its figures from the template and the archives in docs/results.

    python -m benchmarks.results_page

The template, docs/results/results.template, contains the text. Its fields are filled in from the results:

    {bleu[NAME]}, {aer[NAME]}, {millions[NAME]}  mean BLEU, alignment error rate and parameters of a system. A second
                                         word names the group, if the system is in several; default: the most runs
    {gain[A B]}, {loss[A B]}             mean BLEU of B minus that of A, and its negative
    {welch[A B]}, {aer_welch[A B]}       p-value of Welch's test of the BLEU, or error rates, of their runs. A third
                                         word names the group of both. See ``p_values``
    {tests}                              number of these tests
    {runs[A]}, {by_seed[A B]}            BLEU of each run; that of B minus that of A for each seed
    {run[NAME-SEED]}, {run_gain[A B]}    result of one run, and the BLEU of run B minus that of run A
    {quarter[NAME]}                      validation BLEU of the first seed after a quarter of the updates
    {in_table[NAME PART]}                mean BLEU over the runs on all pairs of a part of table 1
    {bin[NAME PART LABEL]}               mean BLEU over the runs by length; figure 2 has the first seed
    {length[GROUP NAME LABEL]}           mean BLEU of a system by length; "over_15" is the last label
    {length_gain[GROUP A B LABEL]}, {sentences[GROUP LABEL]}
    {influenced[NAME]}                   translation of the long sentence by the first run
    {gradient[A T]}                      norm of the gradient T positions before the end, mean over the runs
    {group[G]}, {combined[G]}, {rungs[G]}, {lengths[G]}, {table_1}, {error_rates}, {local_p[T]}, {versions}   tables
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from statistics import fmean, geometric_mean, stdev
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import ttest_ind_from_stats

from benchmarks.archives import RESULTS, TABLE, archived, files_of
from benchmarks.measured import rows_table
from benchmarks.results import COMBINED, CONVERGED, LADDER, VOCABULARY, WINDOW, groups
from nmt_keras.evaluation.metrics import Estimate, Spread
from nmt_keras.evaluation.seeds import SystemFigures, to_markdown
from nmt_keras.markdown import table
from nmt_keras.plotting import (
    Panel,
    alignment_grid,
    bleu_by_length,
    compare_training,
    save_figure,
    score_intervals,
)
from nmt_keras.plotting.style import SCREEN_DPI, add_legend, finish, looks

Result = Mapping[str, Any]

RUNGS = {
    "luong-base": ("base", 11.3, 10.6),
    "luong-reverse": ("+ source reversed", 12.6, 9.9),
    "luong-dropout": ("+ dropout", 14.0, 8.1),
    "luong-location": ("+ global attention (location)", 16.8, 7.3),
    "luong-feed": ("+ input feeding", 18.1, 6.4),
    "luong-local-p": ("local-p attention (general) + feeding", 19.0, 5.9),
    "luong-replace": ("+ unknown words replaced (first seed)", 20.9, 5.9),
    "luong-ensemble": ("+ ensemble (of 4, first seeds; paper: of 8)", 23.0, None),
}
"""System name, BLEU and perplexity in table 1 of Luong, Pham, Manning 2015 (WMT14 English-German), by run."""
LADDER_LEGEND = {
    "base": "no attention",
    "reverse": "+ source reversed",
    "dropout": "+ dropout",
    "location": "+ location attention",
    "feed": "+ input feeding",
    **{name: f"{name} attention, input feeding" for name in ("dot", "general", "concat", "local-m", "local-p")},
}
"""Names in the figure of the ladder, by rung."""
PUBLISHED = {
    "rnnencdec-8": ("RNNencdec-30", 13.93, 24.19),
    "rnnsearch-8": ("RNNsearch-30", 21.50, 31.44),
    "rnnencdec-16": ("RNNencdec-50", 17.82, 26.71),
    "rnnsearch-16": ("RNNsearch-50", 26.75, 34.16),
    "rnnsearch-16-longer": ("RNNsearch-50, trained longer", 28.45, 36.15),
}
"""Model and BLEU (all, no UNK) in table 1 of Bahdanau, Cho, Bengio 2014 (WMT14 English-French), by run."""
LEGEND = {
    "rnnencdec-8": "encoder-decoder, up to 8 words",
    "rnnsearch-8": "with attention, up to 8 words",
    "rnnencdec-16": "encoder-decoder, up to 16 words",
    "rnnsearch-16": "with attention, up to 16 words",
    "rnnsearch-16-longer": "with attention, up to 16 words, trained longer",
}
"""Names in figure 2, by run: model and length of its training pairs."""
TEST = re.compile(r"\{(\w*)welch\[([^]]+)\]\}")
TESTED = {"": "bleu", "aer_": "error_rate"}
"""Field of a test in the template, and the score that is tested by the beginning of the field's name."""
FEWEST = 20
"""Smallest number of sentences of a point of figure 2. BLEU of fewer sentences is not reliable."""


@cache
def read(group: Path, name: str) -> Any:
    """Returns the content of a JSON file of a group."""
    return json.loads(files_of(group)[name])


class Field:
    """Function of the words of a template's field: ``{gain[A B]}`` is ``gain("A", "B")``."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __getitem__(self, words: str) -> Any:
        return self._function(*words.split())


# Figures in the text


def system(name: str, group: str | None = None) -> Result:
    """Returns the row of a system in the table of a group, by default of that with the most runs of the system."""
    tables = [read(one, TABLE) for one in archived() if group in (None, one.name)]
    rows = (row for one in tables for row in one.get("systems", ()) if row["name"] == name)
    return max(rows, key=lambda row: len(row["seeds"]))


def runs_of(name: str) -> list[Result]:
    """Returns the results of a system's runs in the first group that has them, in the order of their seeds."""
    names = [f"{name}-{seed}.json" for seed in range(10)]
    found = ([read(group, one) for one in names if one in files_of(group)] for group in archived())
    return next(filter(None, found))


def run(name: str) -> Result:
    """Returns the result of a run."""
    return next(read(group, f"{name}.json") for group in archived() if f"{name}.json" in files_of(group))


def listed(values: Sequence[float]) -> str:
    """Returns values with one decimal: "1.2, 3.4 and 5.6"."""
    *others, last = [f"{value:.1f}" for value in values]
    return f"{', '.join(others)} and {last}" if others else last


def gain(before: str, after: str) -> float:
    return float(system(after)["bleu"]["mean"] - system(before)["bleu"]["mean"])


def by_seed(before: str, after: str) -> list[float]:
    return [b["bleu"] - a["bleu"] for a, b in zip(runs_of(before), runs_of(after), strict=True)]


def welch(score: str, before: str, after: str, group: str | None = None) -> float:
    """Returns the p-value of Welch's test of two systems' runs."""
    rows = [system(name, group) for name in (before, after)]
    first, second = ((row[score]["mean"], row[score]["deviation"], len(row["seeds"])) for row in rows)
    return float(ttest_ind_from_stats(*first, *second, equal_var=False).pvalue)


def p_values(template: str) -> dict[tuple[str, ...], str]:
    """Returns the p-value of each test of a template as text, by score and words.

    A p-value below 0.05 is followed by the one with Holm's correction for all these tests if that is not below 0.05.
    """
    tests = {(TESTED[kind], *words.split()) for kind, words in TEST.findall(template)}
    values = sorted((welch(*test), test) for test in tests)
    products = ((len(values) - rank) * p for rank, (p, _) in enumerate(values))
    return {
        test: ("Welch p < 0.001" if p < 0.001 else f"Welch p = {p:.3f}")
        + (f", corrected {min(1.0, corrected):.3f}" if p < 0.05 <= corrected else "")
        for (p, test), corrected in zip(values, accumulate(products, max), strict=True)
    }


def by_length(group: str, name: str, label: str) -> list[float]:
    """Returns the BLEU of each run on the sentences of a length."""
    return read(RESULTS / group, "lengths.json")[label.replace("_", " ")]["bleu"][name]


def bin_of(name: str, part: str, label: str) -> float:
    """Returns the BLEU by length, the mean over the runs. Figure 2 has the first seed."""
    return fmean(row["bleu"][0] for one in runs_of(name) for row in one["by_length"][part] if row["label"] == label)


def in_table(name: str, part: str) -> float:
    """Returns a value of the column "all" of table 1, the mean over the runs."""
    return fmean(one["table"][part]["all"] for one in runs_of(name))


def quarter(found: Result) -> float:
    """Returns the validation BLEU of a run after a quarter of its updates."""
    return float(next(one["valid_bleu"] for one in found["validations"] if 4 * one["step"] >= found["steps"]))


def gradients(name: str) -> list[float]:
    """Returns the norms of a system's ``state_gradients``, the geometric mean over the runs."""
    return [
        geometric_mean(values) for values in zip(*(one["gradients"]["norms"] for one in runs_of(name)), strict=True)
    ]


# Tables


def group_section(folder: Path) -> str:
    """Returns the table of the group in ``folder``, and the command that trains it."""
    protocol, group = read(folder, TABLE), groups()[folder.name]
    kinds = {"bleu": Estimate, "chrf": Estimate, "perplexity": Spread, "valid_loss": Spread, "error_rate": Spread}
    systems = [
        SystemFigures(**row | {name: kind(**row[name]) for name, kind in kinds.items() if row[name]})
        for row in protocol["systems"]
    ]
    rows = [line for line in to_markdown(systems).splitlines() if line.startswith("|")]
    first = read(folder, f"{systems[0].name}-{protocol['seeds'][0]}.json")
    pilots, rates = "no pilots", ""
    if protocol["pilot_updates"] is not None:
        pilots, rates = "rates from pilots", " --rates " + " ".join(f"{rate:g}" for rate in protocol["rates"])
    if protocol.get("core_hours") is not None:
        pilots += f"; {protocol['core_hours']:.1f} core hours of training"
    corpus = "" if group.corpus == "sample" else " --corpus spa-eng.zip"
    corpus += " --alignments spa-eng.align" if group.guided else ""
    seeds = " ".join(map(str, protocol["seeds"]))
    return "\n".join(
        [
            *rows,
            "",
            f"{protocol['updates']:,} updates on {first['train_pairs']:,} pairs, {first['search']}; {pilots}. Command:",
            "",
            f"    python -m benchmarks.results {folder.name}{corpus} --to runs/{folder.name} --seeds {seeds}{rates}",
        ]
    )


def combined_section(folder: Path) -> str:
    """Returns the table of a group's combined systems, each after the runs that it is made of."""
    rows: dict[str, Result] = {}
    for combined in groups()[folder.name].combined:
        result = read(folder, f"{combined.name}-1.json")
        rows |= {one: run(one) for one in result["runs"]} | {combined.name: result}
    cells = []
    for name, row in rows.items():
        scores = [
            f"{row[score]:.2f} ({row[f'{score}_interval'][0]:.1f} to {row[f'{score}_interval'][1]:.1f})"
            for score in ("bleu", "chrf")
        ]
        cells.append([f"`{name}`", *scores, f"{row['perplexity']:.2f}", f"{row['unknown']:.2f}"])
    note = "Runs and the systems made of them. Unknown: share of the translations' tokens that are unknown words."
    return f"{table(['run', 'BLEU', 'chrF', 'perplexity', 'unknown, %'], cells)}\n\n{note}"


def lengths_section(folder: Path) -> str:
    """Returns the table of BLEU by length of the source, the mean and standard deviation over the runs."""
    bins = read(folder, "lengths.json")
    names = next(iter(bins.values()))["bleu"]
    heads = ["system", *(f"{label} ({one['sentences']:,})" for label, one in bins.items())]
    cells = [[name, *(_spread(one["bleu"][name], 1) for one in bins.values())] for name in names]
    return f"{table(heads, cells)}\n\nIn parentheses: number of sentences."


def _spread(values: Sequence[float], digits: int) -> str:
    return f"{fmean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def rungs_section(folder: Path) -> str:
    """Returns the table of Luong's systems, with the paper's BLEU."""
    systems = read(folder, TABLE)["systems"]
    here = {row["name"]: (row["bleu"]["mean"], row["perplexity"]["mean"]) for row in systems}
    combined = {one.name: read(folder, f"{one.name}-1.json") for one in COMBINED}
    here |= {name: (result["bleu"], result["perplexity"]) for name, result in combined.items()}
    cells, before, before_there = [], None, None
    for name, (rung, there, perplexity_there) in RUNGS.items():
        bleu, perplexity = here[name]
        if name in combined and len(combined[name]["runs"]) == 1:
            before = run(combined[name]["runs"][0])["bleu"]
        gains = ["" if old is None else f"{new - old:+.1f}" for new, old in ((bleu, before), (there, before_there))]
        published = "-" if perplexity_there is None else f"{perplexity_there:.1f}"
        cells.append([rung, f"{bleu:.2f}", gains[0], f"{perplexity:.2f}", f"{there:.1f}", gains[1], published])
        before, before_there = bleu, there
    return table(["system", "BLEU", "gain", "perplexity", "paper's BLEU", "gain", "perplexity"], cells)


def table_1() -> str:
    """Returns table 1 of Bahdanau et al., the mean and standard deviation over the runs, with the paper's BLEU."""
    parts = ("test", "long")
    heads = [f"{part}, {column}" for part in parts for column in ("all", "no UNK", "perplexity")]
    cells = []
    for name, (there, every, known) in PUBLISHED.items():
        row = [f"`{name}`"]
        for found in ([one["table"][part] for one in runs_of(name) if "table" in one] for part in parts):
            for score, pairs in (("all", " ({pairs:,})"), ("no_unk", " ({pairs_no_unk:,})"), ("perplexity", "")):
                row.append(_spread([one[score] for one in found], 2) + pairs.format_map(found[0]))
        cells.append([*row, there, f"{every:.2f}", f"{known:.2f}"])
    cells.append(["not tested here", *[""] * 6, "Moses", "33.30", "35.63"])  # a phrase-based system
    return table(["model", *heads, "paper's model", "all", "no UNK"], cells)


def error_rates() -> str:
    """Returns the table of alignment error rates, precision and recall on Spanish-English, lowest error first.

    A system of several groups has the row of a group whose links are stored, among these of that with the most runs of
    it. The interval is that of the first run. Without links, there is no interval and no error rate of the second rule.
    """
    rows: dict[str, tuple[tuple[bool, int], float, list[str]]] = {}
    for name, group in groups().items():
        if group.corpus == "sample":
            continue
        source = RESULTS / name
        found = {
            row["name"]: [read(source, f"{row['name']}-{seed}.json") for seed in row["seeds"]]
            for row in read(source, TABLE)["systems"]
        }
        combined = {one.name: read(source, f"{one.name}-1.json") for one in group.combined}
        found |= {one: [result] for one, result in combined.items() if len(result["runs"]) > 1}
        for one, runs in found.items():
            measured = [each["alignment"] for each in runs if each["alignment"]]
            rank = any("interval" in each for each in measured), len(measured)
            if measured and (one not in rows or rank > rows[one][0]):
                figures = [
                    _spread([each[figure] for each in measured], 3) for figure in ("error_rate", "precision", "recall")
                ]
                first, interval = measured[0], "–"
                if "interval" in first:
                    interval = "{:.3f} ({:.3f} to {:.3f})".format(first["error_rate"], *first["interval"])
                linked = [each["every_word_linked"]["error_rate"] for each in measured if "every_word_linked" in each]
                figures = [figures[0], interval, *figures[1:], _spread(linked, 3) if linked else "–"]
                cells = [f"`{one}`", _attention(runs[0]), *figures, str(len(measured))]
                rows[one] = rank, fmean(each["error_rate"] for each in measured), cells
    heads = ["system", "attention", "AER", "first run", "precision", "recall", "AER, each word linked", "runs"]
    return table(heads, (cells for _, cells in sorted(row[1:] for row in rows.values())))


def _attention(found: Result) -> str:
    """Returns the kind of attention of a run, in words."""
    if "recipe" not in found:
        return f"mean over {len(found['runs'])} runs"
    model = found["recipe"]["model"]
    attention = model["attention"]
    if model["decoder"]["order"] == "self-attention":
        return f"scaled dot, {model['decoder']['heads']} heads"
    local = "" if attention["span"] == "global" else f", {attention['span']}"
    return f"{attention['kind']}{local}{', input feeding' if model['decoder']['input_feeding'] else ''}"


def versions() -> str:
    """Returns the versions, cores and dates of the runs."""
    found = [read(group, name) for group in archived() for name in files_of(group) if re.match(r".*-.*\.json", name)]
    told = {json.dumps(one["circumstances"], sort_keys=True) for one in found if "circumstances" in one}
    lines = (", ".join(f"{name} {value}" for name, value in json.loads(one).items()) for one in sorted(told))
    return "\n".join(f"- {line}" for line in lines)


# Pictures


def draw(folder: Path) -> None:
    """Draws the figures into ``folder``, from the results of first seeds."""
    for suffix, rungs in (("", LADDER), ("-converged", CONVERGED)):
        ladder = {LADDER_LEGEND[name]: run(f"luong-{name}{suffix}-1")["validations"] for name in rungs}
        save_figure(compare_training(ladder), folder / f"results-ladder{suffix}.svg")
    first = run("rnnsearch-16-1")
    for part, file in (("test", "results-by-length.svg"), ("long", "results-by-length-long.svg")):
        bins = first["by_length"][part]
        kept = [place for place, one in enumerate(bins) if one["sentences"] >= FEWEST]
        systems = {
            title: [run(f"{name}-1")["by_length"][part][i]["bleu"] for i in kept] for name, title in LEGEND.items()
        }
        figure = bleu_by_length([bins[i]["label"] for i in kept], [bins[i]["sentences"] for i in kept], systems)
        save_figure(figure, folder / file)
    panels = [Panel(np.array(shown["alignment"]), shown["source"], shown["target"]) for shown in first["alignments"]]
    save_figure(alignment_grid(panels, columns=2), folder / "results-alignments.png")
    influences = (run("rnnencdec-16-1")["influence"], first["influence"])
    save_figure(influence_figure(*influences), folder / "results-long-sentence.png")
    cells = {cell: gradients(f"fed-{cell}") for cell in ("tanh", "gru", "lstm")}
    save_figure(gradient_figure(cells), folder / "results-gradients.svg")
    report = read(RESULTS / "diagnostics", TABLE)["report"]  # the example figures of the guide on evaluation
    lengths = bleu_by_length(report["bins"], report["sentences"], report["bleu_by_length"])
    save_figure(lengths, folder / "report-bleu-by-length.svg")
    save_figure(score_intervals(report["scores"]), folder / "report-scores.svg")


def gradient_figure(norms: Mapping[str, Sequence[float]]) -> Figure:
    """Draws the norms of ``benchmarks.gradients`` by system."""
    figure = Figure(figsize=(7, 4), dpi=SCREEN_DPI, layout="constrained")
    axes = figure.subplots()
    lines, families = looks(list(norms))
    for line, values in zip(lines, norms.values(), strict=True):
        axes.plot(values, **line, markersize=5)
    axes.set_xlabel("positions before the end of the source")
    axes.set_ylabel("norm of the gradient, relative to the end")
    axes.set_ylim(bottom=0)
    finish(axes)
    add_legend(figure, families)
    return figure


def influence_figure(without: Result, with_attention: Result) -> Figure:
    """Draws the values of ``benchmarks.erasure`` for a translation without attention beside one with it."""
    figure = Figure(figsize=(13, 7), dpi=SCREEN_DPI, layout="constrained")
    both, titles = figure.subplots(1, 2), ("without attention", "with attention")
    for axes, shown, title in zip(both, (without, with_attention), titles, strict=True):
        image = axes.imshow(shown["falls"], vmin=0, vmax=1, aspect="auto")
        axes.set_title(title)
        axes.set_xticks(range(len(shown["source"])), shown["source"], rotation=90, fontsize=8)
        axes.set_yticks(range(len(shown["target"])), [token or "</s>" for token in shown["target"]], fontsize=8)
    figure.colorbar(image, ax=both, label="fall of the word's probability")
    return figure


def page() -> str:
    """Returns the page on the results."""
    template = (RESULTS / "results.template").read_text(encoding="utf-8")
    tests = p_values(template)
    functions: dict[str, Callable[..., Any]] = {
        "bleu": lambda *words: f"{system(*words)['bleu']['mean']:.1f}",
        "aer": lambda *words: f"{system(*words)['error_rate']['mean']:.3f}",
        "millions": lambda *words: f"{system(*words)['parameters'] / 1e6:.1f}",
        "gain": lambda *names: f"{gain(*names):.1f}",
        "loss": lambda *names: f"{-gain(*names):.1f}",
        **{f"{kind}welch": lambda *words, score=score: tests[score, *words] for kind, score in TESTED.items()},
        "runs": lambda name: listed([one["bleu"] for one in runs_of(name)]),
        "by_seed": lambda *names: listed(by_seed(*names)),
        "run": run,
        "run_gain": lambda before, after: f"{run(after)['bleu'] - run(before)['bleu']:.1f}",
        "quarter": lambda name: f"{quarter(run(f'{name}-1')):.1f}",
        "bin": lambda *words: f"{bin_of(*words):.1f}",
        "in_table": lambda *words: f"{in_table(*words):.1f}",
        "length": lambda *words: f"{fmean(by_length(*words)):.1f}",
        "length_gain": lambda group, before, after, label: (
            f"{fmean(by_length(group, after, label)) - fmean(by_length(group, before, label)):.1f}"
        ),
        "sentences": lambda group, label: read(RESULTS / group, "lengths.json")[label.replace("_", " ")]["sentences"],
        "influenced": lambda name: run(f"{name}-1")["influence"]["text"],
        "gradient": lambda name, distance: f"{gradients(name)[int(distance)]:.2g}",
        "group": lambda name: group_section(RESULTS / name),
        "combined": lambda name: combined_section(RESULTS / name),
        "rungs": lambda name: rungs_section(RESULTS / name),
        "lengths": lambda name: lengths_section(RESULTS / name),
        "local_p": lambda name: rows_table(read(RESULTS / "diagnostics", TABLE)["local-p-tables"][name]),
    }
    values = {
        "WINDOW": WINDOW,
        "VOCABULARY": VOCABULARY,
        "tests": len(tests),
        # the signatures of sacreBLEU, the same in all results
        "BLEU": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0",
        "CHRF": "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0",
        "table_1": table_1(),
        "error_rates": error_rates(),
        "versions": versions(),
    }
    fields = {name: Field(function) for name, function in functions.items()}
    return template.format_map({**fields, **values})


def main() -> None:
    (RESULTS.parent / "results.md").write_text(page(), encoding="utf-8")
    draw(RESULTS.parent)


if __name__ == "__main__":
    main()
