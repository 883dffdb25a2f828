#!/usr/bin/env python3
"""Writes the tables of measurements in the documentation, from the JSON printed by the benchmarks.

    python -m benchmarks.train_speed ... > docs/measured/train-speed-256.json
    python -m benchmarks.measured

The table of docs/measured/NAME.json is written between ``<!-- measured: NAME -->`` and ``<!-- end -->``. The command in
the JSON file determines the layout of the table. Command, machine and date are written below each table. ``NAME.said``
inserts the output of the demo, and ``NAME.answer`` inserts the server's answer of benchmarks.first_answer, on one line.
``overview`` inserts a table of the main results, and ``bleu`` a table of the models of the README.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from nmt_keras.markdown import table

DOCS = Path(__file__).parents[1] / "docs"
MEASURED = DOCS / "measured"
PAGES = (
    *(DOCS.parent / name for name in ("README.md", "serve/README.md")),
    *(
        DOCS / name
        for name in (
            "tutorial.md",
            "speed.md",
            "speed-history.md",
            "guides/own-corpus.md",
            "guides/train-on-a-gpu.md",
            "guides/wmt14.md",
        )
    ),
)
BLOCK = re.compile(r"(?P<begin><!-- measured: (?P<name>[\w.-]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)

Result = Mapping[str, Any]
PEERS = {
    "matched": "nmt_keras",
    "matched-bfloat16": "nmt_keras, bfloat16",
    "flagship": "nmt_keras, rnnsearch-small",
    "flagship-bfloat16": "nmt_keras, rnnsearch-small, bfloat16",
    "plain": "nmt_keras, without XLA",
    "onmt": "OpenNMT-py 3.5.1",
    "joey": "Joey NMT 2.3.0",
}


def train_speed(found: Result) -> list[str]:
    """Returns the table of target tokens per second in each round, with this package's ratios to the peers."""
    rounds = found["rounds"]
    others = next(iter(rounds[0]["ratios"].values()))
    heads = "".join(f" ratio to {PEERS[other]} |" for other in others)
    lines = [f"| | parameters | tokens/s |{heads}", "|---|---|---|" + "---|" * len(others)]
    for name, runs in rounds[0]["runs"].items():
        rates = " · ".join(f"{each['median'][name]:,.0f}" for each in rounds)
        parameters = f"{runs[0]['parameters']:,}" if runs[0]["parameters"] else "not reported"
        lines.append(
            f"| {PEERS[name]} | {parameters} | {rates} |" + "".join(_ratios(rounds, name, other) for other in others)
        )
    compiling = {
        PEERS[name]: [run["compile_s"] for each in rounds for run in each["runs"][name]]
        for name, runs in rounds[0]["runs"].items()
        if "compile_s" in runs[0]
    }
    told = ", ".join(f"{min(each):.0f} to {max(each):.0f} s ({name})" for name, each in compiling.items())
    shapes = next(iter(rounds[0]["runs"].values()))[0]["shapes"]
    processes = len(next(iter(rounds[0]["runs"].values())))
    stolen = " · ".join(f"{each['stolen_percent']} %" for each in rounds if "stolen_percent" in each)
    return [
        *lines,
        "",
        f"Rounds: {len(rounds)}, each with the median of {processes} processes of each system."
        + (f" Time that other virtual machines took in each round: {stolen}." if stolen else ""),
        f"Compilation for {shapes} length buckets is not included. It took {told}.",
    ]


def _ratios(rounds: list[Result], name: str, other: str) -> str:
    """Returns a cell with the ratio of each round; empty for a system without ratios."""
    ratios = [each["ratios"][name][other] for each in rounds if name in each["ratios"]]
    return f" {' · '.join(f'{ratio:.2f}x' for ratio in ratios)} |" if ratios else " |"


def train_cost(found: Result) -> list[str]:
    """Returns a table for each measured axis."""
    heads = {
        "corpus": "shards of 100,000 pairs",
        "length": "tokens of each side",
        "width": "units",
    }
    columns = {
        "target_tokens_per_s": "target tokens/s",
        "peak_megabytes": "peak memory, MB",
        "seconds_to_first_batch": "seconds to the first batch",
        "reader_pairs_per_s": "pairs/s of the reader alone",
    }
    lines = []
    for axis, head in heads.items():
        points = found.get(axis)
        if points:
            told = [column for column in columns if column in next(iter(points.values()))]
            lines += [f"| {head} | {' | '.join(columns[column] for column in told)} |", "|---" * (1 + len(told)) + "|"]
            for point, one in points.items():
                cells = [f"{one[column]:,}" for column in told]
                if len(each := one["target_tokens_per_s_of_each"]) > 1:
                    cells[0] += f", median of {' · '.join(f'{rate:,}' for rate in each)}"
                lines.append(f"| {point} | {' | '.join(cells)} |")
            lines.append("")
    return lines[:-1]


def corpus_cost(found: Result) -> list[str]:
    """Returns the table of processor time and memory (10^9 bytes) of each command."""
    lines = ["| command | processor time | peak memory |", "|---|---|---|"]
    lines += [
        f"| `nmt {name}` | {found[name]['processor_s']} s | {found[name]['peak_megabytes'] / 1000:.1f} GB |"
        for name in ("prepare", "select")
    ]
    return [*lines, "", f"{found['pairs']:,} generated pairs with {found['words']:,} words on each side."]


def attention_cost(found: Result) -> list[str]:
    """Returns the table of milliseconds at the shortest and the longest source."""
    kinds = {name: one for name, one in found.items() if isinstance(one, dict) and "ratio" in one}
    shortest, *_, longest = next(iter(kinds.values()))["ms"]
    lines = [f"| attention, measurement | {shortest} tokens | {longest} tokens | ratio |", "|---|---|---|---|"]
    for name, one in kinds.items():
        lines.append(f"| {name} | {one['ms'][shortest]:.2f} ms | {one['ms'][longest]:.2f} ms | {one['ratio']:.2f} |")
    return lines


def demo(found: Result) -> list[str]:
    """Returns the table of the demo's results."""
    test, seconds = found["test"], found["training_minutes"]
    rows = {
        "test BLEU / chrF (greedy, raw, cased)": f"{test['bleu']:.2f} / {test['chrf']:.2f}",
        "test sentences translated exactly": f"{test['exact']:.1f} %",
        "updates (epochs)": f"{test['step']:,} ({found['epochs']:.1f})",
        "target tokens per second (median of the log's rows)": f"{found['tokens_per_s']:,}",
        "padding": f"{100.0 * found['padding']:.0f} %",
        "length buckets": f"{found['shapes']}",
        "compilation": f"{found['compile_s']:.0f} s",
        "peak memory of the process": f"{found['peak_megabytes']:,} MB",
        "training / whole command, without installation": f"{seconds:.1f} min / {found['command_minutes']:.1f} min",
    }
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]


def log_cost(found: Result) -> list[str]:
    """Returns the table of shares of training time."""
    rows = [f"| {name} | {share:.2f} % |" for name, share in found["percent"].items()]
    together = f"| all without translations and pictures | {found['percent_without_pictures']:.2f} % |"
    return ["| output | share of training time |", "|---|---|", *rows, together]


def ablations(found: Result) -> list[str]:
    """Returns the table of the variants of a plan: time of an update, updates, BLEU and alignment error rate."""
    heads = ["variant", "changed options", "time of an update", "updates", "valid BLEU", "test BLEU", "AER"]
    rows = []
    for one in found["variants"]:
        options = {f"--{name.replace('_', '-')}": value for name, value in one["changes"].items()}
        changed = ", ".join(f"`{name}`" if value is True else f"`{name} {value}`" for name, value in options.items())
        scores = [f"{one['valid']:.2f}", f"{one['test']:.2f}", f"{one['error_rate']:.3f}"]
        rows.append([one["name"], changed, f"{one['time_ratio']:.2f}", f"{one['updates']:,}", *scores])
    told = f"{found['minutes']:g} minutes, one run each, beam 5."
    return [*table(heads, rows).splitlines(), "", told]


def padding(found: Result) -> list[str]:
    """Returns the table of padded shares."""
    counts = next(iter(found["percent"].values()))
    lines = [f"| buckets | {' | '.join(counts)} |", "|---" * (len(counts) + 1) + "|"]
    for key, chosen in (("percent", ""), ("percent_two_sided", ", buckets by both sides")):
        for pool, shares in found[key].items():
            values = " | ".join(map(str, shares.values()))
            lines.append(f"| padding with pools of {int(pool):,} pairs{chosen}, % | {values} |")
    return lines


def typed_text(found: Result) -> list[str]:
    """Returns the table of BLEU by form of the text, and the share of copied words."""
    forms = found["bleu_without_case_and_punctuation"]
    rows = [[name, f"{bleu:.1f}", f"{bleu - forms['as written']:+.1f}"] for name, bleu in forms.items()]
    lines = table(["Spanish test set", "BLEU without case and punctuation", "difference"], rows).splitlines()
    share = found["copied"] / found["sentences"]
    told = f"{found['copied']} of {found['sentences']} sentences with names, numbers and addresses: {share:.1%} copied."
    return [*lines, "", told]


def small_corpora(found: Result) -> list[str]:
    """Returns the table of small corpora: languages, size, variant of the recipe, training and BLEU."""
    heads = ["languages", "training pairs", "recipe", "updates", "epochs", "valid BLEU", "test BLEU"]
    told = {"small-corpus": "`small-corpus`", "without-layer-norm": "without layer normalisation"}
    rows = []
    for one in found["results"]:
        sizes = [f"{one['pairs']:,}", told[one["variant"]], f"{one['updates']:,}", f"{one['epochs']}"]
        scores = [f"{one['bleu'][part]['bleu']:.2f}" for part in ("valid", "test")]
        rows.append([f"{one['source']} to {one['target']}", *sizes, *scores])
    return [*table(heads, rows).splitlines(), "", "One run each, beam 5."]


def minutes(found: Result) -> list[str]:
    """Returns the table of training times under a load."""
    lines = ["| load | minutes of training | updates |", "|---|---|---|"]
    return [*lines, *(f"| {when} | {one['minutes']} | {one['updates']:,} |" for when, one in found["load"].items())]


def first_answer(found: Result) -> list[str]:
    """Returns the table of the time from a fresh clone to the first answer."""
    seconds = found["seconds"]
    steps = {"clone": "`git clone`", "install": "installation of all packages", "start": "`make serve`, first answer"}
    rows = [f"| {text} | {seconds[step]:.1f} |" for step, text in steps.items()]
    return ["| step | seconds |", "|---|---|", *rows, f"| together | {sum(seconds.values()):.1f} |"]


def startup(found: Result) -> list[str]:
    """Returns the table of milliseconds of whole processes."""
    lines = ["| command | each process | median |", "|---|---|---|"]
    for command, each in found["ms"].items():
        told = " · ".join(f"{one:,}" for one in each)
        typed, _, rest = command.partition(", ")
        name = f"`{typed}`" + (f", {rest}" if rest else "")
        lines.append(f"| {name} | {told} ms | {found['median_ms'][command]:,} ms |")
    return lines


def update_parts(found: Result) -> list[str]:
    """Returns the table of milliseconds of each component, and the speed of the matrix products."""
    rows = [f"| {name} | {value:.1f} ms |" for name, value in found["milliseconds"].items()]
    factors = "bfloat16" if "bfloat16" in found["command"] else "float32"
    said = (
        f"The matrix products take {found['gigaflop']:.1f} GFLOP, at "
        f"{found['gigaflop_per_s_of_the_passes']} GFLOP/s. A single large product with {factors} factors reaches "
        f"{found['gigaflop_per_s_of_one_large_product']} GFLOP/s."
    )
    return ["| component, forward and backward | time |", "|---|---|", *rows, "", said]


def quality(found: Result) -> list[str]:
    """Returns the table of BLEU on the validation and the test set, and the training time of each run."""
    runs = found.get("members", [found])
    systems = {"BLEU": found} if runs == [found] else {f"seed {run['seed']}": run for run in runs} | {"ensemble": found}
    parts = list(dict.fromkeys(name.partition(", ")[0] for name in found["bleu"]))
    searches = list(dict.fromkeys(name.partition(", ")[2] for name in found["bleu"]))
    lines = [f"| | {' | '.join(searches)} |", f"|---|{'---|' * len(searches)}"]
    for part in parts:
        for name, system in systems.items():
            told = " | ".join(f"{system['bleu'][f'{part}, {search}']['bleu']:.2f}" for search in searches)
            lines.append(f"| {part}, {name} | {told} |")
    changed = ", ".join(f"`--{name} {value}`" for name, value in found["plan"].items())
    times = [
        f"{run['training_minutes']} minutes of training, including {run['compile_s']:.0f} s of compilation: "
        f"{run['updates']:,} updates, {run['epochs']} epochs, {run['target_tokens_per_s']:,} target tokens/s."
        for run in runs
    ]
    if len(runs) > 1:
        times = [f"Seed {run['seed']}: {told}" for run, told in zip(runs, times, strict=True)]
    return [*lines, "", f"{' '.join(times)} `{found.get('recipe', 'rnnsearch-small')}` with {changed}."]


def decode_speed(found: Result) -> list[str]:
    """Returns the table of sentences per second in batches and milliseconds per single sentence."""
    model, scored = found["model"], "bleu" in found["results"][0]
    lines = [
        f"{model['decoder_units']} units, {model['target_vocabulary']:,} target tokens in the vocabulary, "
        f"{model['parameters']:,} parameters; {found['sentences']:,} sentences.",
        "",
        f"| search | {'BLEU | ' * scored}sentences/s in batches | one sentence alone, median | 95th percentile |",
        f"|---|---|---|---|{'---|' * scored}",
    ]
    for row in found["results"]:
        name = "greedy" if row["beam"] == 1 else f"beam {row['beam']}"
        name += f", shortlist {row['shortlist']}" if row["shortlist"] else ""
        alone, bleu = row["single_sentence_ms"], f"{row['bleu']:.2f} | " if scored else ""
        rate = row["sentences_per_s"]["median"]
        lines.append(f"| {name} | {bleu}{rate:,.0f} | {alone['median']:.1f} ms | {alone['p95']:.1f} ms |")
    lines += ["", "| export | size | to export | to load |", "|---|---|---|---|"]
    for name, one in found["export"].items():
        lines.append(f"| {name} | {one['megabytes']} MB | {one['seconds_to_export']} s | {one['seconds_to_load']} s |")
    return lines


def decode_peers(found: Result) -> list[str]:
    """Returns the table of whole processes and of their speed after start-up."""
    lines = [
        "| | BLEU | test set, whole process | sentences/s | sentences/s after start-up |",
        "|---|---|---|---|---|",
    ]
    quick = f"nmt_keras, `{found['quick']}`"
    names = {"ours": "nmt_keras", "ours, quick": quick, "opennmt": PEERS["onmt"]}
    for name, title in names.items():
        one = found["tools"][name]
        each = " · ".join(f"{seconds:.1f}" for seconds in one["test"])
        lines.append(
            f"| {title} | {one['bleu']:.2f} | {each} s | {one['whole_process_per_s']} | {one['after_start_up_per_s']} |"
        )
    for name, title in names.items():
        if ratios := found.get(f"{name} / opennmt"):
            each = f"{ratios['whole_process_per_s']:.2f}x | {ratios['after_start_up_per_s']:.2f}x"
            lines.append(f"| {title}, ratio to {PEERS['onmt']} | | | {each} |")
    if other := found["tools"].get("ctranslate2"):
        lines += [
            "",
            f"CTranslate2 {other['version']} with a transformer of 3 + 3 layers and 256 units, after start-up: "
            f"{other['beam5_sentences_per_s']} sentences/s with beam 5, {other['greedy_sentences_per_s']} with greedy "
            f"search, and {other['batch1_beam5_median_ms']} ms for one sentence with beam 5.",
        ]
    return lines


def single_sentence(found: Result) -> list[str]:
    """Returns the table of the latency of one sentence, with the ratio of CTranslate2's median to this package's."""
    lines = ["| search | nmt_keras | CTranslate2 4.8.5 | ratio |", "|---|---|---|---|"]
    for search, tools in found["median_ms"].items():
        each = " | ".join(" · ".join(f"{ms:.1f}" for ms in tools[name]) + " ms" for name in ("ours", "ctranslate2"))
        lines.append(f"| {search} | {each} | {found['ratios'][search]:.2f}x |")
    return [*lines, "", f"{found['sentences']} sentences; the median of each process."]


def gpu(found: Result) -> list[str]:
    """Returns the tables of parity, training, search and export on a GPU. Raises ValueError for a dry run."""
    if found["dry"]:
        raise ValueError(
            f"A dry run has no measured values. Received: {found['command']!r}. Run the command without --dry."
        )
    parts = found["parts"]
    results = [result for part in parts.values() for result in part["results"]]
    (device,) = parts["device"]["results"]
    compared = [result for result in results if "gradient_difference" in result]
    equal = sum(result["passed"] for result in compared)
    largest = max((result["gradient_difference"] for result in compared), default=0.0)
    lines = [
        f"{device['gpu']}, driver {device['driver']}, CUDA {device['cuda']}, cuDNN {device['cudnn']}. Loss and "
        f"gradients equal those on the CPU in {equal} of {len(compared)} comparisons. The largest difference between "
        f"gradients is {largest:.1e}.",
        "",
        "| training | execution | precision | tokens/s | peak memory | compilation |",
        "|---|---|---|---|---|---|",
    ]
    for row in results:
        if "target_tokens_per_s" in row:
            lines.append(
                f"| {row['system']} | {row['execution']} | {row['precision']} | {row['target_tokens_per_s']:,} | "
                f"{row['peak_megabytes']:,} MB | {row['compile_s']} s |"
            )
    searches = [
        (part, where)
        for part, where in (("decode", "GPU"), ("decode-cpu", "CPU"))
        if parts.get(part, {"results": []})["results"]
    ]
    if searches:
        lines += ["", "| search | device | sentences/s | one sentence alone, median |", "|---|---|---|---|"]
    for part, where in searches:
        for row in parts[part]["results"]:
            name = "greedy" if row["beam"] == 1 else f"beam {row['beam']}"
            rate, alone = row["sentences_per_s"]["median"], row["single_sentence_ms"]["median"]
            lines.append(f"| {name} | {where} | {rate:,.0f} | {alone:.1f} ms |")
    for row in parts.get("export", {"results": []})["results"]:
        said = f"{row['equal_translations']} of {row['translations']} translations equal"
        lines += [
            "",
            f"Exported on the GPU, run on a CPU: {said}; the largest difference is "
            f"{row['largest_difference_in_nats']:.1e} nats.",
        ]
    failed = [
        f"{name} ({part['error']})" if "stopped" in part["error"] else name
        for name, part in parts.items()
        if part["error"]
    ]
    return lines + (["", f"Failed checks: {', '.join(failed)}."] if failed else [])


def serve_load(found: Result) -> list[str]:
    """Returns the table of a subcommand of the benchmark."""
    kind = found["benchmark"].split()[1]
    return {"latency": _latency, "swap": _swap, "hostile": _hostile}[kind](found)


def _latency(found: Result) -> list[str]:
    lines = [
        "| signature | clients | sentences/s | p50 / p95 / p99 | micro-batching: sentences/s | "
        "micro-batching: p50 / p95 / p99 | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    ratios = {(one["signature"], one["clients"]): one["times_as_many_sentences"] for one in found["ratios"]}
    for one, merged in zip(found["measurements"], found["with_micro_batching"], strict=True):
        cells = [
            f"{row['sentences_per_second']:,.0f} | {row['p50_ms']:.0f} / {row['p95_ms']:.0f} / {row['p99_ms']:.0f} ms"
            for row in (one, merged)
        ]
        ratio = ratios[one["signature"], one["clients"]]
        lines.append(f"| {one['signature']} | {one['clients']} | {' | '.join(cells)} | {ratio:.2f} |")
    return lines


def _swap(found: Result) -> list[str]:
    return [
        f"{found['clients']} clients sent {found['requests']:,} requests in {found['seconds']:.0f} s, while "
        f"{len(found['versions']) - 1} new versions were published: {sum(found['failures'].values())} requests failed. "
        f"Memory: {found['megabytes_before_first_publication']} MB before the first publication, "
        f"{found['megabytes_at_the_end']} MB in the last tenth of the time, at most {found['megabytes_at_most']} MB."
        + _broken(found)
    ]


def _hostile(found: Result) -> list[str]:
    statuses: Counter[str] = Counter()
    for kind, count in found["answers"].items():
        statuses[kind.rpartition(": ")[2]] += count
    rows = [f"| {OUTCOMES.get(status, status)} | {count:,} |" for status, count in statuses.most_common()]
    valid = ", ".join(f"{count:,} {status}" for status, count in found["honest_answers_meanwhile"].items())
    return [
        "| answer | requests |",
        "|---|---|",
        *rows,
        "",
        f"Answers to valid requests during the test: {valid}. The answer to a valid request after the test is "
        f"{'correct' if found['later_answer_is_right'] else 'wrong'}. Memory: {found['megabytes_after_a_tenth']} MB "
        f"after a tenth of the requests, {found['megabytes_after']} MB at the end." + _broken(found),
    ]


def attacks(found: Result) -> list[str]:
    """Returns the table of the honest clients, and the server's memory and descriptors."""
    lines = ["| honest client | requests | sent again | failed | p50 / p95 / p99 | longest |", "|---" * 6 + "|"]
    for name, one in found["honest"].items():
        failed = sum(one["failures"].values())
        times = f"{one['p50_ms']:.0f} / {one['p95_ms']:.0f} / {one['p99_ms']:.0f} ms"
        sizes = f"{one['requests']:,} | {one['repeated']:,} | {failed:,}"
        lines.append(f"| {name} | {sizes} | {times} | {one['longest_ms'] / 1000:.1f} s |")
    answers = ["| attack | rounds | answers |", "|---|---|---|"]
    before, after = found["before"], found["after"]
    growth = 100 * (after["megabytes"] / before["megabytes"] - 1)
    for name, outcomes in found["rounds"].items():
        told = ", ".join(f"{outcome} ({count:,})" for outcome, count in outcomes.items())
        answers.append(f"| {name.replace('_', ' ')} | {sum(outcomes.values()):,} | {told} |")
    facts = [
        f"Memory: {before['megabytes']:.0f} MB before, {after['megabytes']:.0f} MB after ({growth:+.1f} %).",
        f"Open descriptors: {before['descriptors']} before, {after['descriptors']} after.",
        f"Load average of the machine: {found['load_before']:.1f} before, {found['load_after']:.1f} after.",
    ]
    return [*lines, "", *answers, "", " ".join(facts) + _broken(found)]


OUTCOMES = {"left": "none: the client disconnected", "closed": "none: the server closed the connection"}
"""Descriptions of outcomes without a status."""


def _broken(found: Result) -> str:
    """Returns a sentence about the violated requirements, empty if there are none."""
    return f" Violated requirements: {', '.join(found['broken']).rstrip('.')}." if found["broken"] else ""


TABLES: dict[str, Callable[[Result], list[str]]] = {
    "train_speed": train_speed,
    "train_cost": train_cost,
    "corpus_cost": corpus_cost,
    "attention_cost": attention_cost,
    "demo": demo,
    "first_answer": first_answer,
    "log_cost": log_cost,
    "padding": padding,
    "typed_text": typed_text,
    "minutes": minutes,
    "small_corpora": small_corpora,
    "ablations": ablations,
    "startup": startup,
    "update_parts": update_parts,
    "quality": quality,
    "decode_speed": decode_speed,
    "decode_peers": decode_peers,
    "single_sentence": single_sentence,
    "gpu": gpu,
    "serve_load": serve_load,
    "attacks": attacks,
}


def overview(folder: Path) -> str:
    """Returns the table of the main results, each with a link to its section of docs/speed.md."""

    def read(name: str) -> Result:
        found: Result = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        return found

    rounds = [one for units in ("256", "512") for one in read(f"train-speed-{units}")["rounds"]]
    slow, fast = ([one["ratios"][name]["onmt"] for one in rounds] for name in ("matched", "matched-bfloat16"))
    plans = ("ten-minutes-float32", "hour", "hour-ensemble")
    short, long, together = (read(f"quality-{plan}")["bleu"] for plan in plans)
    peers, start = read("decode-peers"), read("startup")["median_ms"]
    alone = {search: median(tools["ours"]) for search, tools in read("single-sentence")["median_ms"].items()}
    served = {(one["signature"], one["clients"]): one for one in read("serve-load-latency")["with_micro_batching"]}
    (translate,) = (value for name, value in start.items() if name.startswith("nmt translate MODEL"))
    empty, filled = (
        start[f"nmt train conditional-gru, first update, {cache} cache"] / 1000 for cache in ("empty", "filled")
    )
    ours, quick = (peers[f"{name} / opennmt"]["whole_process_per_s"] for name in ("ours", "ours, quick"))
    rows = [
        (
            "[Training, compared with OpenNMT-py](#training-speed)",
            f"{min(slow):.2f} to {max(slow):.2f} times as fast; {min(fast):.2f} to {max(fast):.2f} times with bfloat16",
        ),
        (
            "[Test BLEU with beam 5](#bleu-after-ten-minutes-and-one-hour)",
            f"{short['test, beam 5']['bleu']:.1f} after ten minutes, "
            f"{long['test, beam 5']['bleu']:.1f} after one hour, "
            f"{together['test, beam 5']['bleu']:.1f} with two runs of one hour",
        ),
        (
            "[First update of a training](#start-up-time-of-commands)",
            f"{empty:.0f} s in a first start, {filled:.0f} s in later starts, with the compilation cache",
        ),
        (
            "[Translating a file, compared with OpenNMT-py](#translation-speed)",
            f"{ours:.2f} times as fast; {quick:.2f} times with a shortlist and bfloat16",
        ),
        (
            "[One sentence in a loaded model of 256 units](#translation-speed)",
            f"{alone['greedy']:.1f} ms with greedy search, {alone['beam 5']:.1f} ms with beam 5",
        ),
        (
            "[`nmt translate` of one sentence, whole process](#start-up-time-of-commands)",
            f"{translate / 1000:.1f} s",
        ),
        (
            "[Embedded server, 32 clients, micro-batching](#serving)",
            f"{served['greedy', 32]['sentences_per_second']:.0f} sentences/s with greedy search, "
            f"{served['serving_default', 32]['sentences_per_second']:.0f} with beam search",
        ),
    ]
    head = ["| task | result on two CPU cores |", "|---|---|"]
    return "".join(f"{line}\n" for line in [*head, *(f"| {what} | {value} |" for what, value in rows)])


def bleu(folder: Path) -> str:
    """Returns the table of the test BLEU, the minutes and the hardware of the demo and of two models of one hour."""
    names = ("demo-spa-eng", "quality-hour", "quality-hour-varied")
    demonstrated, hour, committed = (
        json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in names
    )
    beam = json.loads((folder / "quality-ten-minutes-float32.json").read_text(encoding="utf-8"))["bleu"]["test, beam 5"]
    demo = f"`make demo`, greedy (beam 5: {beam['bleu']:.1f})"
    rows = [
        (demo, demonstrated["test"]["bleu"], demonstrated["training_minutes"], demonstrated["cores"]),
        *(
            (f"{name}, beam 5", found["bleu"]["test, beam 5"]["bleu"], found["training_minutes"], found["cores"])
            for name, found in (("`conditional-gru`, wider layers", hour), ("`saved_models/spa-eng`", committed))
        ),
    ]
    lines = ["| Spanish-English, held-out sentences | BLEU | minutes of training | hardware |", "|---|---|---|---|"]
    lines += [f"| {name} | {score:.1f} | {minutes:.0f} | {cores} CPU cores |" for name, score, minutes, cores in rows]
    return "".join(f"{line}\n" for line in lines)


SUMMARIES = {"overview": overview, "bleu": bleu}
"""Tables with results of several files, by name."""


def block(name: str, folder: Path = MEASURED) -> str:
    """Returns the table of docs/measured/NAME.json, with command, machine and date.

    Raises:
        ValueError: The file is not from a benchmark of this module.
    """
    if name in SUMMARIES:
        return SUMMARIES[name](folder)
    stem, _, part = name.partition(".")
    found = json.loads((folder / f"{stem}.json").read_text(encoding="utf-8"))
    if part == "said":
        return "".join(f"    {line}".rstrip() + "\n" for line in found["said"])
    if part == "answer":
        return f"    {json.dumps(found['answer'], ensure_ascii=False)}\n"
    benchmark = re.search(r"benchmarks\.(\w+)", found["command"])
    if benchmark is None or benchmark.group(1) not in TABLES:
        raise ValueError(
            f"{name}.json: the command must run one of {', '.join(TABLES)}. Received: {found['command']!r}."
        )
    where = (
        f"{found['cores']} cores, {found['cpu']}, {found['date'][:10]}, TensorFlow {found['libraries']['tensorflow']}"
    )
    command = re.sub(r"(?<=\s)/\S*/(\S+)", r"\1", found["command"])  # without paths of the machine
    return "\n".join([*TABLES[benchmark.group(1)](found), "", f"`{command}`; {where}.", ""])


def written(page: str, folder: Path = MEASURED) -> str:
    """Returns a page with its tables updated."""
    return BLOCK.sub(lambda found: found["begin"] + "\n" + block(found["name"], folder) + found["end"], page)


def main() -> None:
    for page in PAGES:
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
