"""Trains and scores every recipe at a small size, and writes one JSON file per run: docs/results/NAME.json.

    python -m benchmarks.results --corpus spa-eng.zip              all runs without a file
    python -m benchmarks.results --corpus spa-eng.zip --only luong-feed
    python -m benchmarks.results --list

Every recipe is trained for minutes on one core in the same small setting, ``in_small``, instead of days on a GPU.
Cells, order, attention, output layer, reversal, dropout and tokenizer stay as in the paper. Two runs are trained at a
time, each in its own process and on its own core. The machine should be idle otherwise, because the first updates are
timed to convert minutes to a number of updates. Runs are kept under ``--runs``. A stopped run is resumed; a run with a
JSON file is skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import date
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.machine import processor
from nmt_keras.config import Recipe
from nmt_keras.corpus import Pair, SplitCorpus, read_pairs, shuffle_pairs, split_pairs
from nmt_keras.recipes import find_recipe

if TYPE_CHECKING:
    from nmt_keras.translation.model_translator import ModelTranslator

RESULTS = Path(__file__).parents[1] / "docs" / "results"
MINUTES = 7.5
"""Training time in minutes on one core, enough for the updates of five minutes on two cores."""
VOCABULARY = 5_000
WINDOW = 3
"""Half-width D of local attention. Windows cover 7 of 8 tokens on average; in the paper, 21 of 25."""
BEAM = 12
LENGTHS = (5, 10, 15, 20, 25, 30, 40, 50)
"""Upper limits of the bins of source lengths, in words. The last bin is open."""
FIGURE_3 = (
    "No creo que Tom sepa nadar.",
    "Mi hermana mayor trabaja en un hospital.",
    "Si hubiera tenido dinero suficiente, habría comprado la casa blanca.",
    "Ayer le dije que no podía ayudarle con el trabajo que tenía que hacer.",
)


@dataclass(frozen=True)
class Run:
    """System to train."""

    name: str
    recipe: Recipe
    words: int | None = None
    """Maximum number of words on each side of a training pair; ``None`` for no limit."""
    joined: bool = False
    """If ``True``, also trains on concatenations of pairs up to ``words``."""
    by_length: bool = False
    """If ``True``, also scores concatenated test pairs, for the figures and the table of Bahdanau et al."""

    def seeded(self, seed: int) -> Run:
        """Returns the run with another seed, so that models of an ensemble differ in initial weights and order."""
        return replace(self, recipe=replace(self.recipe, train=replace(self.recipe.train, seed=seed)))


@dataclass(frozen=True)
class Combined:
    """System that combines finished runs."""

    name: str
    runs: tuple[str, ...]
    replaces_unknown: bool = False


COMBINED = (
    Combined("luong-replace", ("luong-local-p",), replaces_unknown=True),
    Combined(
        "luong-ensemble", ("luong-local-p", "luong-local-m", "luong-general", "luong-feed"), replaces_unknown=True
    ),
)
"""Last two systems of Luong et al., whose ensemble also combines several kinds of attention."""


def in_small(recipe: Recipe, width: float, rate: float = 6e-3) -> Recipe:
    """Returns a small recipe: at most two layers, sizes times ``width``, 5,000 words, ``MINUTES`` of Adam."""
    model = recipe.model
    recipe = replace(
        recipe,
        model=replace(
            model,
            encoder=replace(model.encoder, layers=min(2, model.encoder.layers)),
            decoder=replace(model.decoder, layers=min(2, model.decoder.layers)),
            attention=replace(model.attention, window=min(WINDOW, model.attention.window)),
        ),
    )
    small = recipe.scaled(width)
    few = min(VOCABULARY, recipe.source.vocabulary_size)
    return replace(
        small,
        source=replace(recipe.source, vocabulary_size=few),
        target=replace(recipe.target, vocabulary_size=few),
        model=replace(small.model, initializer="glorot"),
        train=replace(
            recipe.train,
            minutes=MINUTES,
            epochs=None,
            steps=None,
            batch_size=64,
            length_buckets=6,
            max_tokens=40,
            pool_size=16384,
            optimizer="adam",
            learning_rate=rate,
            warmup_steps=100,
            decay="linear",
            beta_2=0.98,
            epsilon=1e-8,
            clip_norm=1.0,
            label_smoothing=0.1,
            denominator="tokens",
            validations=2,
        ),
        search=replace(recipe.search, beam_size=1),
    )


def all_runs() -> list[Run]:
    """Returns all runs."""
    bahdanau = [
        Run("rnnencdec-8", in_small(find_recipe("rnnencdec-30"), 0.15), words=8, by_length=True),
        Run("rnnsearch-8", in_small(find_recipe("rnnsearch-30"), 0.15), words=8, by_length=True),
        Run("rnnencdec-16", in_small(find_recipe("rnnencdec-50"), 0.15), words=16, joined=True, by_length=True),
        Run("rnnsearch-16", in_small(find_recipe("rnnsearch-50"), 0.15), words=16, joined=True, by_length=True),
    ]
    ladder = enumerate(("base", "reverse", "dropout", "location", "feed", "general", "local-m", "local-p"), start=1)
    luong = [Run(f"luong-{rung}", in_small(find_recipe(f"luong-{rung}"), 0.128)).seeded(i) for i, rung in ladder]
    lecture = [
        Run(f"lecture-{name}", in_small(find_recipe(f"lecture-{name}"), 0.25, 2e-3))
        for name in ("rnn", "separate", "fed", "deep", "bidirectional", "reversed")
    ]
    flagship = find_recipe("rnnsearch-small")
    return [
        Run("rnnsearch-small", replace(flagship, train=replace(flagship.train, minutes=MINUTES))),
        *bahdanau,
        *luong,
        Run("tutorial", in_small(find_recipe("tutorial"), 0.2)),
        *lecture,
    ]


def words(sentence: str) -> int:
    """Returns the number of words of a sentence, separated by white space."""
    return len(sentence.split())


def fits(pair: Pair, limit: int) -> bool:
    """Returns ``True`` if both sides have at most ``limit`` words."""
    return max(words(pair.source), words(pair.target)) <= limit


def joined_up_to(pairs: Sequence[Pair], limit: int, seed: int = 1) -> list[Pair]:
    """Returns concatenations of at least two shuffled pairs, with at most ``limit`` words on each side."""
    order = [pair for pair in pairs if fits(pair, limit)]
    random.Random(seed).shuffle(order)
    result, group = [], order[:1]
    for pair in order[1:]:
        longer = joined([*group, pair])
        if fits(longer, limit):
            group.append(pair)
            continue
        if len(group) > 1:
            result.append(joined(group))
        group = [pair]
    return result


def joined(group: Sequence[Pair]) -> Pair:
    """Returns the concatenation of several pairs."""
    return Pair(" ".join(pair.source for pair in group), " ".join(pair.target for pair in group))


def long_pairs(pairs: Sequence[Pair], each: int = 300, seed: int = 1) -> list[Pair]:
    """Returns the long test set: ``each`` concatenations of k drawn pairs for k = 2 .. 6."""
    draw = random.Random(seed)
    return [joined(draw.sample(list(pairs), k)) for k in range(2, 7) for _ in range(each)]


def corpus_of(run: Run, pairs: Sequence[Pair]) -> SplitCorpus:
    """Returns the benchmark split or the recipe's own, with the run's limits on the training part."""
    config = run.recipe.corpus
    taken = list(pairs[: config.first])
    parts = (
        split_pairs(taken, key_side="target")
        if config.split == "hashed-groups"
        else shuffle_pairs(taken, seed=config.seed)
    )
    train = parts["train"]
    if run.words is not None:
        short = [pair for pair in train if fits(pair, run.words)]
        train = short + (joined_up_to(short, run.words) if run.joined else [])
    return SplitCorpus("spa-eng", train, parts["valid"], parts["test"])


def measured(run: Run, corpus: SplitCorpus, folder: Path) -> dict[str, Any]:
    """Trains or resumes the run, and scores it on the test part."""
    from nmt_keras import runs

    trained = runs.Run(folder, run.recipe)
    trained.train(corpus, lambda sentence: print(sentence, flush=True), lambda *_: None)
    translator = trained.translator()
    found = {
        "recipe": asdict(run.recipe),
        "train_pairs": len(corpus.train),
        "steps": trained.step(),
        "minutes": trained_minutes(folder),
        **scores(run.name, translator, corpus.test),
    }
    if run.by_length:
        found |= by_length(translator, corpus)
    return found


def trained_minutes(folder: Path) -> float:
    """Returns the training time of a run in minutes, over all its processes."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(folder / "checkpoints" / "last"))
    (name,) = (name for name in reader.get_variable_to_shape_map() if name.startswith("progress/seconds/"))
    return round(float(reader.get_tensor(name)) / 60.0, 2)


def combined(system: Combined, corpus: SplitCorpus, runs: Path) -> dict[str, Any]:
    """Scores finished runs together. The lexicon of the first run, learnt if missing, replaces unknown words."""
    import nmt_keras
    import nmt_keras.runs

    first = runs / system.runs[0]
    if system.replaces_unknown and not (first / "lexicon.tsv").exists():
        nmt_keras.runs.Run(first).learn_lexicon(corpus.train)
    translator = nmt_keras.load(*(runs / name for name in system.runs))
    translator = translator.with_search(replace(translator.search, replaces_unknown=system.replaces_unknown))
    return {"runs": system.runs, **scores(system.name, translator, corpus.test)}


def scores(name: str, translator: ModelTranslator, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Returns the scores of a translator on ``pairs``."""
    from nmt_keras.evaluation.report import evaluate

    report = evaluate(translator, pairs)
    scored = translator.score([pair.source for pair in pairs], [pair.target for pair in pairs])
    return {
        "name": name,
        "bleu": round(report.bleu, 2),
        "chrf": round(report.chrf, 2),
        "exact": round(report.exact, 2),
        "loss": round(-sum(s.log_prob for s in scored) / sum(len(s.tokens) for s in scored), 4),
        "signature": report.signature,
        "search": str(translator.search),
        "parameters": sum(int(np.prod(v.shape)) for v in translator.model.variables),
        "test_pairs": len(pairs),
    }


def by_length(translator: ModelTranslator, corpus: SplitCorpus) -> dict[str, Any]:
    """Returns the figures for table 1 and figures 2 and 3 of Bahdanau et al., with beam search."""
    from nmt_keras.evaluation.metrics import bleu, bootstrap, length_bins

    beam = translator.with_search(replace(translator.search, beam_size=BEAM))
    known = beam.with_search(replace(beam.search, unk_allowed=False))
    parts = {"test": list(corpus.test), "long": long_pairs(corpus.test)}
    table, bins = {}, []
    translated: list[tuple[Pair, str]] = []
    for part, pairs in parts.items():
        all_words = [pair for pair in pairs if not has_unknown(translator, pair)]
        texts = [t.text for t in beam.translate([pair.source for pair in pairs], batch_size=16)]
        without = [t.text for t in known.translate([pair.source for pair in all_words], batch_size=16)]
        table[part] = {
            "all": round(bleu(texts, [pair.target for pair in pairs]).value, 2),
            "no_unk": round(bleu(without, [pair.target for pair in all_words]).value, 2),
            "pairs": len(pairs),
            "pairs_no_unk": len(all_words),
        }
        translated += zip(pairs, texts, strict=True)
    for label, inside in length_bins([words(pair.source) for pair, _ in translated], LENGTHS).items():
        held = [translated[i] for i in inside]
        scores = bootstrap({"model": [text for _, text in held]}, [pair.target for pair, _ in held]).bleu["model"]
        figures = [round(value, 2) for value in (scores.value, scores.low, scores.high)]
        bins.append({"label": label, "sentences": len(held), "bleu": figures})
    shown = [
        {
            "source": t.source_tokens,
            "target": t.tokens,
            "alignment": [[round(float(weight), 3) for weight in row] for row in t.alignment],
        }
        for t in beam.translate(list(FIGURE_3))
    ]
    return {"beam": str(beam.search), "table": table, "by_length": bins, "alignments": shown}


def has_unknown(translator: ModelTranslator, pair: Pair) -> bool:
    """Returns ``True`` if a word of either side is outside its vocabulary."""
    import tensorflow as tf

    from nmt_keras.config import UNK

    sides = ((translator.source_tokenizer, pair.source), (translator.target_tokenizer, pair.target))
    return any(bool(tf.reduce_any(text.encode(tf.constant([s])).ids == UNK)) for text, s in sides)


def circumstances() -> dict[str, str]:
    """Returns the date, machine and versions of a result."""
    return {
        "date": date.today().isoformat(),
        "machine": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} cores, {processor()}",
        "python": platform.python_version(),
        **{name: version(name) for name in ("tensorflow", "keras", "sacrebleu")},
    }


def write(path: Path, found: Mapping[str, Any]) -> None:
    """Writes a result atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(partial, path)


def train_each(names: Sequence[str], arguments: argparse.Namespace) -> None:
    """Trains and scores the runs, ``--at-once`` at a time, each in its own process and on its own core.

    Raises:
        SystemExit: A run failed. The others have their files.
    """
    free: SimpleQueue[int] = SimpleQueue()
    for core in sorted(os.sched_getaffinity(0))[: arguments.at_once]:
        free.put(core)

    def train(name: str) -> int:
        core = free.get()
        folders = ["--runs", str(arguments.runs), "--results", str(arguments.results)]
        command = [sys.executable, "-m", "benchmarks.results", "--corpus", str(arguments.corpus), *folders]
        try:
            return subprocess.run([*command, "--only", name, "--core", str(core)], check=False).returncode
        finally:
            free.put(core)

    with ThreadPoolExecutor(arguments.at_once) as processes:
        codes = dict(zip(names, processes.map(train, names), strict=True))
    if failed := [name for name, code in codes.items() if code]:
        raise SystemExit(f"results: {', '.join(failed)} failed. Repeat the command to train the missing runs.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help="file of the Spanish-English corpus")
    parser.add_argument("--runs", type=Path, default=Path("runs/results"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--only", nargs="*", help="names of runs; default: all")
    parser.add_argument("--at-once", type=int, default=2, help="number of runs trained at the same time")
    parser.add_argument("--core", type=int, help="core to train on, one run after the other; used internally")
    parser.add_argument("--list", action="store_true", help="list the runs and mark those that are done")
    arguments = parser.parse_args()
    systems: list[Run | Combined] = [*all_runs(), *COMBINED]
    known = {system.name: system for system in systems}
    if strange := [name for name in arguments.only or () if name not in known]:
        parser.error(f"--only: expected names of runs (see --list), received {', '.join(strange)}")
    wanted = [system for name, system in known.items() if not arguments.only or name in arguments.only]
    missing = [system for system in wanted if not (arguments.results / f"{system.name}.json").exists()]
    if arguments.list:
        for system in wanted:
            print(f"{system.name:24} {'' if system in missing else 'done'}")
        return
    if arguments.corpus is None:
        parser.error("--corpus is required. Pass the file of the Spanish-English corpus.")
    if arguments.core is None:
        train_each([system.name for system in missing if isinstance(system, Run)], arguments)
        missing = [system for system in missing if isinstance(system, Combined)]
    else:
        os.sched_setaffinity(0, {arguments.core})
    pairs = read_pairs(arguments.corpus, source_column=1, target_column=0).pairs
    for system in missing:
        began = time.perf_counter()
        print(f"== {system.name}", flush=True)
        if isinstance(system, Combined):
            found = combined(system, corpus_of(all_runs()[0], pairs), arguments.runs)
        else:
            found = measured(system, corpus_of(system, pairs), arguments.runs / system.name)
        write(arguments.results / f"{system.name}.json", found | {"circumstances": circumstances()})
        print(f"   BLEU {found['bleu']} after {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
