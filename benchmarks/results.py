"""Trains and scores the papers' systems at a small size by the protocol of ``nmt compare``.

    python -m benchmarks.results ladder --corpus spa-eng.zip --to runs/ladder --jobs 2
    python -m benchmarks.results bahdanau-16 --corpus spa-eng.zip --to runs/bahdanau-16 --jobs 2

Most recipes are trained for minutes on one core in the same small setting, ``in_small``, instead of days on a GPU.
Cells, order, attention, output layer, reversal, dropout and tokenizer are those of the paper. The two groups
"as-published" also have the optimizer, schedule and initial weights of the paper, and train for up to two hours.
Systems of one group have the same training pairs, number of updates and seeds; ``nmt_keras.runs.protocol`` describes
the protocol and the files. Repeat the command to resume an interrupted group. The groups sampling, units and ensemble
share the system ``rnnsearch``: to train it once, copy its files to the folder of the next group.
"""

import functools
import itertools
import json
import math
import operator
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
import tensorflow as tf
import tyro
from sacrebleu.metrics import BLEU

import nmt_keras
from benchmarks.alignment import gold_pairs, weight_figures
from benchmarks.erasure import influence
from benchmarks.gradients import state_gradients
from nmt_keras.config import UNK, CorpusConfig, Recipe, require, require_choice
from nmt_keras.corpus import Pair, SplitCorpus, read_pairs, shuffle_pairs, split_pairs
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.corpus.split import Part
from nmt_keras.evaluation.metrics import bleu, compare_runs, length_bins
from nmt_keras.evaluation.seeds import cross_entropy, run_figures, to_markdown
from nmt_keras.io.files import read_json, write_whole
from nmt_keras.io.startup import keep_freed_memory
from nmt_keras.languages import without_accents
from nmt_keras.recipes import CONDITIONAL_GRU, SPANISH_ENGLISH, find_recipe
from nmt_keras.runs import Run
from nmt_keras.runs.protocol import Study, run_study, write_table
from nmt_keras.translation.model_translator import ModelTranslator

RESULTS = Path(__file__).parents[1] / "docs" / "results"
UPDATES = 5_000
"""Number of updates of each run, three epochs.

The slowest system should take about 12 minutes on one core. Concat takes about 9 minutes, without the evaluation, on a
core of an AMD EPYC without AVX-512, if another run is trained on the second core."""
VOCABULARY = 5_000
WINDOW = 3
"""Half-width D of local attention. A window covers 7 of 8 tokens on average. In the paper, it covers 21 of 25."""
BEAM = 12
NO_PILOTS, RATES = (1.0,), (0.5, 1.0, 2.0, 4.0)
"""Factors of the base rate in the pilots. Most of the results in docs/results have the first three."""
LONG_WORDS = 36
"""Number of words of the source that is shown with and without attention: the first of the long test set."""
FIGURE_3 = (
    "No creo que Tom sepa nadar.",
    "Mi hermana mayor trabaja en un hospital.",
    "Si hubiera tenido dinero suficiente, habría comprado la casa blanca.",
    "Ayer le dije que no podía ayudarle con el trabajo que tenía que hacer.",
)


@dataclass(frozen=True)
class Combined:
    """System that combines finished runs of a group, or replaces their unknown words."""

    name: str
    systems: tuple[str, ...]
    runs_each: int = 1
    """Number of runs of each system: those with the group's first seeds."""
    replaces_unknown: bool = True
    """If ``True``, the lexicon of the first run replaces unknown words."""


@dataclass(frozen=True)
class Group:
    """Systems that are compared, and their training pairs."""

    systems: tuple[Recipe, ...]
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of each system's runs."""
    combined: tuple[Combined, ...] = ()
    """Systems that are made of the finished runs."""
    corpus: Literal["spa-eng", "sample"] = "spa-eng"
    """Corpus: the Spanish-English one, or the built-in sample, whose alignments follow from its grammar."""
    pairs: int | None = None
    """Number of training pairs, drawn at random; ``None`` for all."""
    words: int | None = None
    """Maximum number of words on each side of a training pair; ``None`` for no limit. With a limit, also trains on
    concatenations of pairs up to it, and scores concatenated test pairs, for the figures and table of Bahdanau et al.
    """
    guided: bool = False
    """If ``True``, attention is trained with the word alignments of ``--alignments``."""
    gradients: bool = False
    """If ``True``, also stores the norms of the gradients of the encoder's states, for the figure about gates."""
    updates: int = UPDATES
    """Number of updates of each run."""
    rates: tuple[float, ...] = RATES
    """Factors of the learning rates from which pilots choose; ``NO_PILOTS`` for the rates of the recipes."""
    baselines: Mapping[str, str] = field(default_factory=dict)
    """Systems that are alternatives, and the system that each of them is compared with. All other systems are compared
    with the row above."""


COMBINED = (
    Combined("luong-replace", ("luong-local-p",)),
    Combined("luong-general-replace", ("luong-general",)),
    Combined("luong-ensemble", ("luong-local-p", "luong-local-m", "luong-general", "luong-feed")),
)
"""Systems of the ladder that replace unknown words. ``luong-replace`` and ``luong-ensemble`` are the last two systems
of Luong et al. The ensemble combines several kinds of attention."""

ENSEMBLES = (
    *(Combined(f"rnnsearch-ensemble-{runs}", ("rnnsearch",), runs, replaces_unknown=False) for runs in (2, 4, 8)),
    Combined("rnnsearch-replace", ("rnnsearch",)),
)
"""Ensembles of runs of one system, which differ in their seeds alone, and the first run with unknown words replaced."""


def in_small(recipe: Recipe, width: float, rate: float = 6e-3) -> Recipe:
    """Returns a small recipe: at most two layers, sizes times ``width``, 5,000 words, ``UPDATES`` of Adam."""
    model = recipe.model
    low = replace(
        recipe,
        model=replace(
            model,
            encoder=replace(model.encoder, layers=min(2, model.encoder.layers)),
            decoder=replace(model.decoder, layers=min(2, model.decoder.layers)),
            attention=replace(model.attention, window=min(WINDOW, model.attention.window), position_logit="mean"),
        ),
    )
    few = min(VOCABULARY, recipe.source.vocabulary_size)
    return replace(
        recipe,
        source=replace(recipe.source, vocabulary_size=few),
        target=replace(recipe.target, vocabulary_size=few),
        model=replace(low.scaled(width).model, initializer="glorot"),
        train=replace(
            recipe.train,
            minutes=None,
            epochs=None,
            steps=UPDATES,
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
            augmentation=0.0,
            validations=8,
        ),
        search=replace(recipe.search, beam_size=1),
    )


def changed(recipe: Recipe, name: str, fields: Mapping[str, Any] = MappingProxyType({})) -> Recipe:
    """Returns a recipe with another name and changed fields, which are named as in ``model.encoder.units``."""
    record = json.loads(recipe.to_json())
    for path, value in {"name": name, **fields}.items():
        *outer, last = path.split(".")
        functools.reduce(operator.getitem, outer, record)[last] = value
    return Recipe.from_json(json.dumps(record), name)


LADDER = ("base", "reverse", "dropout", "location", "feed", "dot", "general", "concat", "local-m", "local-p")
"""Systems of the ladder. The systems after "location" have input feeding; "feed" is "location" with input feeding."""
SCORES = LADDER[LADDER.index("feed") + 1 :]
"""Systems of the ladder that replace the location score of "feed"."""
CONVERGED = tuple(name for name in LADDER if name != "concat")
"""Systems of the ladder that are trained to convergence."""


SEGMENTED = (2000, 8000)
"""Vocabulary sizes for a small corpus, compared with 4,000."""


def regularised() -> tuple[Recipe, ...]:
    """Returns ``conditional-gru`` with more and more regularisation, then also with other vocabulary sizes."""
    plain = {"train.learning_rate": 3e-3, "train.augmentation": 0.0, "train.validations": 16}
    dropout = plain | {"model.dropout": 0.3}
    recurrent = dropout | {"model.recurrent_dropout": 0.2}
    systems: dict[str, dict[str, Any]] = {
        "plain": plain,
        "dropout": dropout,
        "recurrent-dropout": recurrent,
        **{
            f"{size}-pieces": recurrent | {"source.vocabulary_size": size, "target.vocabulary_size": size}
            for size in SEGMENTED
        },
    }
    return tuple(changed(CONDITIONAL_GRU, f"small-corpus-{name}", fields) for name, fields in systems.items())


def with_tokens(recipe: Recipe, kind: str, limit: int) -> Recipe:
    """Returns a recipe with tokens of a kind, and at most ``limit`` of them on each side of a training pair."""
    most = {
        f"{part}.max_tokens": max(getattr(recipe, part).max_tokens, limit) for part in ("source", "target", "search")
    }
    kinds = {"source.kind": kind, "target.kind": kind, "train.max_tokens": limit}
    return changed(recipe, f"{kind}s", kinds | most)


def groups() -> dict[str, Group]:
    """Returns the groups of systems by name."""
    ladder = tuple(in_small(find_recipe(f"luong-{rung}"), 0.128) for rung in LADDER)
    lecture = tuple(
        in_small(find_recipe(f"lecture-{name}"), 0.25, 2e-3)
        for name in ("rnn", "separate", "fed", "deep", "bidirectional", "reversed")
    )
    rnnsearch = changed(in_small(find_recipe("rnnsearch-50"), 0.15), "rnnsearch")
    rnnencdec = in_small(find_recipe("rnnencdec-50"), 0.15)
    attentive = (*ladder[LADDER.index("location") :], in_small(find_recipe("rnnsearch-50"), 0.15))
    attend_first = changed(in_small(SPANISH_ENGLISH, 1.0), "attend-then-update")
    luong_order: dict[str, Any] = {
        "model.decoder.order": "update-then-attend",
        "model.decoder.output": "attentional",
        "model.decoder.input_feeding": True,
        "train.learning_rate": 3e-3,  # with 0.006 and more, its validation loss is higher
    }

    def bahdanau(limit: int, paper: int) -> tuple[Recipe, ...]:
        return tuple(
            changed(in_small(find_recipe(f"{kind}-{paper}"), 0.15), f"{kind}-{limit}")
            for kind in ("rnnencdec", "rnnsearch")
        )

    return {
        "ladder": Group(
            ladder,
            combined=COMBINED,
            baselines={f"luong-{name}": "luong-feed" for name in SCORES},
        ),
        "sample": Group(
            tuple(changed(system, f"{system.name}-sample") for system in attentive),
            corpus="sample",
            baselines={
                f"{name}-sample": "luong-feed-sample" for name in (*map("luong-{}".format, SCORES), "rnnsearch-50")
            },
            updates=1_500,
            rates=NO_PILOTS,
        ),
        "ladder-converged": Group(
            # at the base rate, which five of the ladder's ten pilots chose; the others chose twice this rate
            tuple(
                changed(system, f"{system.name}-converged", {"train.validations": 16})
                for name, system in zip(LADDER, ladder, strict=True)
                if name in CONVERGED
            ),
            pairs=30_000,
            baselines={f"luong-{name}-converged": "luong-feed-converged" for name in SCORES if name in CONVERGED},
            updates=8_000,
            rates=NO_PILOTS,
        ),
        "bahdanau-8": Group(bahdanau(8, 30), words=8),
        "bahdanau-16": Group(bahdanau(16, 50), words=16),
        "bahdanau-16-longer": Group(
            # at the rate that the pilots of rnnsearch-16 chose
            (changed(in_small(find_recipe("rnnsearch-50"), 0.15, 12e-3), "rnnsearch-16-longer"),),
            seeds=(1,),
            words=16,
            updates=4 * UPDATES,
            rates=NO_PILOTS,
        ),
        "lecture": Group(
            lecture, baselines=dict.fromkeys(("lecture-bidirectional", "lecture-reversed"), "lecture-deep")
        ),
        "gates": Group(
            # three cells with 1.33 million parameters
            tuple(
                changed(
                    lecture[2],
                    f"fed-{cell}",
                    {f"model.{part}.cell": cell for part in ("encoder", "decoder")}
                    | {f"model.{part}.units": units for part in ("encoder", "decoder")},
                )
                for cell, units in (("tanh", 125), ("gru", 108), ("lstm", 102))
            ),
            gradients=True,
            baselines={"fed-lstm": "fed-tanh"},
        ),
        "tutorial": Group((in_small(find_recipe("tutorial"), 0.2),)),
        "sampling": Group(
            (
                rnnsearch,
                changed(rnnsearch, "scheduled-sampling", {"train.sampling_from": 0.0, "train.sampling_to": 0.25}),
                changed(rnnsearch, "free-running", {"train.sampling_from": 1.0, "train.sampling_to": 1.0}),
            ),
            baselines={"free-running": "rnnsearch"},
        ),
        "renditions": Group(
            # the same sizes, vocabularies and training; the parts in which a well-known implementation differs
            (
                rnnsearch,
                changed(
                    rnnsearch,
                    "rnnsearch-as-in-pytorch",
                    {
                        "model.decoder.output": "linear",
                        "model.decoder.output_state": "current",
                        "model.decoder.initial_state": "both",
                    },
                ),
                changed(
                    rnnsearch,
                    "rnnsearch-as-in-tutorial",
                    {
                        "model.encoder.direction": "forward",
                        "model.decoder.output": "state",
                        "model.decoder.initial_state": "last",
                    },
                ),
            ),
            baselines={"rnnsearch-as-in-tutorial": "rnnsearch"},
        ),
        "units": Group(
            # 0.1 % of the pairs have over 119 characters
            (rnnsearch, with_tokens(rnnsearch, "subword", 40), with_tokens(rnnsearch, "character", 120)),
            baselines={"characters": "rnnsearch"},
        ),
        "self-attention": Group(
            (
                attend_first,
                changed(in_small(find_recipe("self-attention"), 0.58, 2e-3), "self-attention", {"model.dropout": 0.0}),
            )
        ),
        "order": Group(
            (
                attend_first,
                changed(attend_first, "conditional", {"model.decoder.order": "conditional"}),
                changed(attend_first, "update-then-attend", luong_order),
            ),
            baselines={"update-then-attend": "attend-then-update"},
        ),
        "guided-alignment": Group((changed(attend_first, "attend-then-update-guided"),), guided=True),
        "fixed-context": Group(
            (
                changed(rnnencdec, "rnnencdec-last"),
                changed(
                    rnnencdec,
                    "rnnencdec-mean",
                    {"model.attention.kind": "mean", "model.decoder.initial_state": "mean"},
                ),
            )
        ),
        "small-corpus": Group(
            regularised(),
            pairs=30_000,
            updates=8_000,
            rates=NO_PILOTS,
            baselines={f"small-corpus-{size}-pieces": "small-corpus-recurrent-dropout" for size in SEGMENTED},
        ),
        "ensemble": Group((rnnsearch,), seeds=tuple(range(1, 9)), combined=ENSEMBLES),
        **{
            # a quarter of all sizes; 90 to 105 minutes on one core of an AMD EPYC
            f"{name}-as-published": Group(
                (changed(find_recipe(name).scaled(0.25), f"{name}-as-published"),),
                seeds=(1,),
                updates=updates,
                rates=NO_PILOTS,
            )
            for name, updates in (("rnnsearch-50", 18_000), ("luong-feed", 6_000))
        },
    }


def words(sentence: str) -> int:
    """Returns the number of words of a sentence, separated by white space."""
    return len(sentence.split())


def fits(pair: Pair, limit: int) -> bool:
    """Returns ``True`` if both sides have at most ``limit`` words."""
    return max(words(pair.source), words(pair.target)) <= limit


def joined_up_to(pairs: Sequence[Pair], limit: int) -> list[Pair]:
    """Returns concatenations of at least two shuffled pairs, with at most ``limit`` words on each side."""
    order = [*pairs]
    random.Random(1).shuffle(order)
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


def long_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Returns the long test set: for each k from 2 to 6, 300 concatenations of k randomly drawn pairs."""
    draw = random.Random(1)
    return [joined(draw.sample(list(pairs), k)) for k in range(2, 7) for _ in range(300)]


def pairs_of(corpus: str, path: Path | None) -> Sequence[Pair]:
    """Returns all pairs of a corpus. Those of the Spanish-English corpus are read from ``path``."""
    if corpus == "sample":
        return sample_pairs()
    require(path is not None, "--corpus", "the file of the Spanish-English corpus", path)
    assert path is not None
    return read_pairs(path, source_column=1, target_column=0).pairs


def parts_of(config: CorpusConfig, pairs: Sequence[Pair]) -> dict[Part, list[Pair]]:
    """Returns the sets of a corpus: the benchmark split, or another split that recipes have."""
    taken = list(pairs[: config.first])
    if config.split == "hashed-groups":
        return split_pairs(taken, key_side="target")
    return shuffle_pairs(taken, seed=config.seed)


def corpus_of(group: Group, pairs: Sequence[Pair]) -> SplitCorpus:
    """Returns the corpus of the group's recipes, with the group's limits on the training set."""
    parts = parts_of(group.systems[0].corpus, pairs)
    train = parts["train"]
    if group.pairs is not None:
        train = random.Random(1).sample(train, group.pairs)
    if group.words is not None:
        short = [pair for pair in train if fits(pair, group.words)]
        train = short + joined_up_to(short, group.words)
    return SplitCorpus(group.corpus, train, parts["valid"], parts["test"])


def with_alignments(corpus: SplitCorpus, pairs: Sequence[Pair], lines: Sequence[str]) -> SplitCorpus:
    """Returns a corpus with the alignments of its training pairs, from one line for each of all ``pairs``."""
    require(len(lines) == len(pairs), "--alignments", f"{len(pairs):,} lines, one per pair", f"{len(lines):,}")
    line_of = dict(zip(pairs, lines, strict=True))
    return corpus._replace(alignments=[line_of[pair] for pair in corpus.train])


def add_combined(group: Group, study: Study) -> None:
    """Writes the results of the group's combined systems. Those that need more seeds than the study has are skipped."""
    by_name = {system.name: system for system in study.systems}
    for combined in group.combined:
        path, seeds = study.folder / f"{combined.name}-{study.seeds[0]}.json", study.seeds[: combined.runs_each]
        if path.exists() or len(seeds) < combined.runs_each:
            continue
        folders = [study.run_folder(by_name[name], seed) for name in combined.systems for seed in seeds]
        if combined.replaces_unknown and not (folders[0] / "lexicon.tsv").exists():
            Run(folders[0]).learn_lexicon(study.corpus.train)
        translator = nmt_keras.load(*folders)
        translator = translator.with_search(replace(translator.search, replaces_unknown=combined.replaces_unknown))
        scores, texts = run_figures(translator, study.pairs, study.language)
        write_whole(path.with_suffix(".txt"), "".join(f"{' '.join(text.splitlines())}\n" for text in texts))
        runs, error = [folder.name for folder in folders], weight_figures(translator, gold_pairs(study.corpus.name))
        write(path, {"name": combined.name, "seed": study.seeds[0], "runs": runs, **scores, "alignment": error})


def add_to_runs(group: Group, study: Study) -> None:
    """Adds the values that the protocol does not measure to the results of runs that lack them.

    These are the alignment error and the values of ``state_gradients``, ``normalized`` and ``by_length``. Also writes
    the translations of both test sets.
    """
    for system, seed in itertools.product(study.systems, study.seeds):
        path, folder = study.path(system, seed), study.run_folder(system, seed)
        found = read_json(path)
        # words without accents are not those of the gold alignments
        is_aligned = system.model.attention.has_scores and not system.target.strip_accents and folder.exists()
        if is_aligned and found["alignment"] is None:
            found["alignment"] = weight_figures(Run(folder).translator(), gold_pairs(study.corpus.name))
        if group.gradients and "gradients" not in found:
            found["gradients"] = state_gradients(Run(folder).translator(), long_pairs(study.corpus.test))
        if system.target.strip_accents and "normalized" not in found:
            found["normalized"] = normalized(texts_of(path), [pair.target for pair in study.pairs])
        if group.words is not None and "table" not in found:
            values, texts = by_length(Run(folder).translator(), study.corpus)
            write_whole(path.with_suffix(".beam.txt"), "".join(f"{text}\n" for text in texts))
            found |= values
        write(path, found)


def texts_of(path: Path) -> list[str]:
    """Returns the translations of a run, from the path of its metrics."""
    return path.with_suffix(".txt").read_text("utf-8").split("\n")[:-1]


def normalized(texts: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Returns BLEU in lower case and without accents. No signature of sacreBLEU states that accents are removed."""
    metric = BLEU(lowercase=True)
    score = metric.corpus_score(list(map(without_accents, texts)), [list(map(without_accents, references))]).score
    return {"bleu": round(score, 2), "signature": str(metric.get_signature()), "strip_accents": True}


def write_lengths(study: Study) -> None:
    """Writes the BLEU of each run by length of the source to lengths.json."""
    texts = {each.name: [texts_of(study.path(each, seed)) for seed in study.seeds] for each in study.systems}
    write(study.folder / "lengths.json", bleu_by_length(study.pairs, texts))


def bleu_by_length(pairs: Sequence[Pair], texts: Mapping[str, Sequence[Sequence[str]]]) -> dict[str, Any]:
    """Returns the BLEU of each system's runs for each range of source lengths, from their translations."""

    def score(run: Sequence[str], inside: Sequence[int]) -> float:
        return round(bleu([run[i] for i in inside], [pairs[i].target for i in inside]).value, 2)

    bins = length_bins([words(pair.source) for pair in pairs], (5, 10, 15))
    return {
        label: {
            "sentences": len(inside),
            "bleu": {name: [score(run, inside) for run in runs] for name, runs in texts.items()},
        }
        for label, inside in bins.items()
    }


def by_length(translator: ModelTranslator, corpus: SplitCorpus) -> tuple[dict[str, Any], list[str]]:
    """Returns the values for table 1 and for figures 2 and 3 of Bahdanau et al., with beam search.

    Also returns the translations of the test set and then those of the long test set.
    """
    beam = translator.with_search(replace(translator.search, beam_size=BEAM))
    known = beam.with_search(replace(beam.search, unk_allowed=False))
    parts = {"test": list(corpus.test), "long": long_pairs(corpus.test)}
    table: dict[str, Any] = {}
    bins: dict[str, Any] = {}
    translated: list[str] = []
    for part, pairs in parts.items():
        all_words = [pair for pair in pairs if not has_unknown(translator, pair)]
        texts = [t.text for t in beam.translate([pair.source for pair in pairs], batch_size=16)]
        without = [t.text for t in known.translate([pair.source for pair in all_words], batch_size=16)]
        table[part] = {
            "all": round(bleu(texts, [pair.target for pair in pairs]).value, 2),
            "no_unk": round(bleu(without, [pair.target for pair in all_words]).value, 2),
            "perplexity": round(math.exp(cross_entropy(translator, pairs)), 2),
            "pairs": len(pairs),
            "pairs_no_unk": len(all_words),
        }
        bins[part] = binned(list(zip(pairs, texts, strict=True)))
        translated += texts
    shown = [
        {"source": t.source_tokens, "target": t.tokens, "alignment": np.array(t.alignment, float).round(3).tolist()}
        for t in beam.translate(list(FIGURE_3))
    ]
    place = next(place for place, pair in enumerate(parts["long"]) if words(pair.source) == LONG_WORDS)
    text = translated[place - len(parts["long"])]
    dependence = influence(translator, parts["long"][place].source, text)
    found = {"beam": str(beam.search), "table": table, "by_length": bins, "alignments": shown, "influence": dependence}
    return found, translated


def binned(translated: Sequence[tuple[Pair, str]]) -> list[dict[str, Any]]:
    """Returns BLEU with its interval for each range of source lengths, from pairs and their translations."""
    bins = []
    for label, inside in length_bins(
        [words(pair.source) for pair, _ in translated], (5, 10, 15, 20, 25, 30, 40)
    ).items():
        held = [translated[i] for i in inside]
        scores = compare_runs({"model": [[text for _, text in held]]}, [pair.target for pair, _ in held]).bleu["model"]
        figures = [round(value, 2) for value in (scores.mean, scores.low, scores.high)]
        bins.append({"label": label, "sentences": len(held), "bleu": figures})
    return bins


def has_unknown(translator: ModelTranslator, pair: Pair) -> bool:
    """Returns ``True`` if a word of either side is outside its vocabulary."""
    sides = ((translator.source_tokenizer, pair.source), (translator.target_tokenizer, pair.target))
    return any(bool(tf.reduce_any(text.encode(tf.constant([s])).ids == UNK)) for text, s in sides)


def write(path: Path, found: dict[str, Any]) -> None:
    """Writes a result atomically."""
    write_whole(path, json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def main(
    group: Annotated[str, tyro.conf.Positional],
    to: Path,
    corpus: Path | None = None,
    alignments: Path | None = None,
    jobs: int = 1,
    seeds: tuple[int, ...] | None = None,
    rates: tuple[float, ...] | None = None,
) -> None:
    """Trains and scores the runs of a group that have no result yet, and prints the table of its systems.

    Args:
        group: Group of systems. An unknown name prints all names.
        to: Folder of the results and the run directories.
        corpus: File of the Spanish-English corpus. Not needed for the group "sample".
        alignments: File of word alignments, one line for each line of the corpus, for the group "guided-alignment".
        jobs: Number of runs trained at the same time.
        seeds: Seeds of each system's runs; ``None`` for those of the group.
        rates: Factors of the pilots; ``None`` for those of the group. Most stored results have 0.5, 1 and 2.
    """
    keep_freed_memory()
    known = groups()
    require_choice("group", tuple(known), group)
    chosen = known[group]
    pairs = pairs_of(chosen.corpus, corpus)
    split = corpus_of(chosen, pairs)
    require(chosen.guided == (alignments is not None), "--alignments", "a file for guided alignment alone", alignments)
    if alignments is not None:
        split = with_alignments(split, pairs, alignments.read_text("utf-8").splitlines())
    study = Study(
        folder=to,
        systems=chosen.systems,
        corpus=split,
        updates=chosen.updates,
        rates=rates or chosen.rates,
        seeds=seeds or chosen.seeds,
        language="en",
        baselines=chosen.baselines,
    )
    run_study(study, jobs, print)
    add_to_runs(chosen, study)
    print(to_markdown(write_table(study)))
    write_lengths(study)
    add_combined(chosen, study)


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
