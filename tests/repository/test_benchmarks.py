"""The benchmarks can start: their options parse, and names of the package in their strings exist."""

import importlib
import io
import json
import os
import re
import shlex
import struct
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tyro

from benchmarks import corpus_cost, small_corpora
from benchmarks.ablations import VARIANTS, recipe_of
from benchmarks.catalogues import packages_with, pairs_of
from benchmarks.log_cost import timed
from benchmarks.machine import ProcessorTime, machine, stolen_percent
from benchmarks.measured import MEASURED
from benchmarks.minutes import loaded
from benchmarks.padding import padded_share, two_sided_buckets
from benchmarks.quality import PLANS, RECIPE, plan_recipe, require_plan, require_seeds
from benchmarks.train_speed import earlier_rounds
from nmt_keras import cli
from nmt_keras.corpus.batches import TokenLists, choose_buckets
from nmt_keras.corpus.sample import sample_pairs


def read_if_there(path: Path) -> str:
    """Returns the contents of a file below /proc, "" if its process or thread has ended."""
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def commands() -> list[str]:
    """Returns the command lines of this process's children."""
    children = [read_if_there(file) for file in Path(f"/proc/{os.getpid()}/task").glob("*/children")]
    return [read_if_there(Path(f"/proc/{number}/cmdline")) for numbers in children for number in numbers.split()]


MEASUREMENTS = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(MEASURED.glob("*.json"))}


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_the_command_of_a_measurement_parses(name):
    _, _, module, *options = shlex.split(MEASUREMENTS[name]["command"])
    benchmark = importlib.import_module(module)
    tyro.cli(getattr(benchmark, "Settings", None) or benchmark.Commands, args=options)


@pytest.mark.parametrize("plan", [*PLANS.values(), *(each["plan"] for each in MEASUREMENTS.values() if "plan" in each)])
def test_the_options_of_a_training_plan_parse(plan):
    options = [word for name, value in plan.items() for word in (f"--{name}", str(value))]
    train = cli.parse(["train", RECIPE, "--corpus", "sample", *options])
    assert train.chosen().train.minutes == plan["minutes"]


def test_a_run_of_another_recipe_or_plan_is_not_evaluated(tmp_path):
    def check(recipe):
        (tmp_path / "recipe.json").write_text(recipe.to_json(), encoding="utf-8")
        require_plan(tmp_path, PLANS["ten-minutes"])

    planned = plan_recipe("ten-minutes")
    check(planned)
    with pytest.raises(SystemExit, match=f"expected the recipe {RECIPE}, received rnnsearch-small"):
        check(replace(planned, name="rnnsearch-small"))
    with pytest.raises(SystemExit, match=r"expected the plan's minutes 10, received 9\.0"):
        check(replace(planned, train=replace(planned.train, minutes=9.0)))


def test_the_runs_of_an_ensemble_have_different_seeds(tmp_path):
    runs = [tmp_path / str(seed) for seed in (1, 2)]
    for seed, run in enumerate(runs, 1):
        run.mkdir()
        recipe = plan_recipe("hour")
        seeded = replace(recipe, train=replace(recipe.train, seed=seed))
        (run / "recipe.json").write_text(seeded.to_json(), encoding="utf-8")
    require_seeds(runs, 1)
    for wrong, seed in ((runs, 2), ([runs[0], runs[0]], 1)):
        with pytest.raises(SystemExit, match="the runs must have different seeds"):
            require_seeds(wrong, seed)


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_variant_of_a_plan_is_a_recipe_that_differs_from_the_plan(variant):
    recipe, base = recipe_of(variant), recipe_of("plan")
    assert recipe.name == variant
    same = (recipe.source, recipe.model, recipe.train) == (base.source, base.model, base.train)
    assert same == (variant == "plan")


@pytest.mark.parametrize("variant", small_corpora.VARIANTS)
def test_the_options_of_a_small_corpus_parse_and_a_variant_differs_from_the_recipe(variant):
    def chosen_by(options):
        return cli.parse(["train", small_corpora.RECIPE, "--corpus", "sample", *options]).chosen()

    is_recipe = chosen_by(small_corpora.options_of(variant)) == chosen_by([])
    assert is_recipe == (variant == small_corpora.RECIPE)


@pytest.fixture
def english_spanish(tmp_path):
    """A file of the sample pairs, English first."""
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{pair.target}\t{pair.source}\n" for pair in sample_pairs()), encoding="utf-8")
    return path


def test_both_directions_of_a_small_corpus_have_the_same_pairs(english_spanish, tmp_path):
    def sets(languages, source, target):
        settings = small_corpora.Train(english_spanish, languages, 50, tmp_path, source=source, target=target)
        files = small_corpora.write_corpus(settings, tmp_path / languages[0])
        assert files[::2] == ["--corpus", "--valid", "--test"]
        return [[line.split("\t") for line in Path(path).read_text("utf-8").splitlines()] for path in files[1::2]]

    forward, back = sets(("en", "es"), 0, 1), sets(("es", "en"), 1, 0)
    assert len(forward[0]) == 50
    assert forward == [[pair[::-1] for pair in part] for part in back]


def test_a_small_corpus_needs_enough_pairs(english_spanish, tmp_path):
    settings = small_corpora.Train(english_spanish, ("en", "es"), 1_000_000, tmp_path)
    with pytest.raises(SystemExit, match=r"--pairs: the training set has [\d,]+ pairs"):
        small_corpora.write_corpus(settings, tmp_path / "run")


def test_a_small_corpus_is_trained_once_for_each_file_and_variant(english_spanish, tmp_path, monkeypatch):
    other = english_spanish.with_name("other.tsv")
    other.write_text(english_spanish.read_text("utf-8"), encoding="utf-8")
    commands = []
    monkeypatch.setattr(small_corpora, "nmt", commands.append)
    monkeypatch.setattr(small_corpora, "scores", lambda options: {"bleu": options[2]})
    monkeypatch.setattr(
        small_corpora, "read_log", lambda _: [{"step": 9, "epoch": 1, "tokens_per_s": 5.0}, {"step": 9}]
    )
    for corpus in (english_spanish, other, english_spanish):
        variants = ("small-corpus", "without-layer-norm")
        small_corpora.train(small_corpora.Train(corpus, ("en", "es"), 50, tmp_path / "to", variants=variants))
    assert ["--model.encoder.cell" in command for command in commands] == [False, True] * 2
    found = small_corpora.found_in(tmp_path / "to")["results"]
    assert [(one["corpus"], one["variant"]) for one in found] == [
        (corpus.name, variant) for corpus in (other, english_spanish) for variant in small_corpora.VARIANTS
    ]
    assert (found[0]["updates"], found[0]["epochs"], found[0]["bleu"]["test"]) == (9, 2, {"bleu": "test"})


def test_results_of_small_corpora_are_listed_by_language_corpus_size_and_variant(tmp_path):
    with pytest.raises(SystemExit, match="contains no results"):
        small_corpora.found_in(tmp_path)
    listed = [
        ("en", "de", "b.tsv", 50, "small-corpus"),
        ("en", "es", "a.tsv", 30, "without-layer-norm"),
        ("en", "es", "a.tsv", 200, "small-corpus"),
        ("en", "es", "b.tsv", 20, "small-corpus"),
        ("en", "es", "b.tsv", 20, "without-layer-norm"),
        ("es", "en", "a.tsv", 10, "small-corpus"),
    ]
    names = ("source", "target", "corpus", "pairs", "variant")
    for number, row in enumerate(listed):
        path = tmp_path / f"{5 - number}" / "result.json"
        path.parent.mkdir()
        facts = {**machine(), "date": "2026-01-09" if number == 2 else "2026-01-08", "load_before": number}
        path.write_text(json.dumps(facts | dict(zip(names, row, strict=True))))
    found = small_corpora.found_in(tmp_path)
    assert [tuple(one.values()) for one in found["results"]] == listed
    assert (found["date"], found["load_before"]) == ("2026-01-09", 2)


def test_the_log_s_functions_can_be_timed():
    with timed(defaultdict(float)):
        pass


@pytest.mark.parametrize(("buckets", "batch_size", "share"), [(1, 1, 33.3), (2, 1, 6.7), (2, 2, 36.4)])
def test_padding_is_the_share_of_positions_without_a_token(buckets, batch_size, share):
    # 14 tokens in 3 x 7 positions, in 2 x 4 + 7, and in a batch of two of each bucket: 2 x 4 + 2 x 7, of which
    # the second has a masked row
    source = TokenLists(np.zeros(6), np.array([2, 1, 3]))
    target = TokenLists(np.zeros(8), np.array([2, 2, 4]))
    chosen = choose_buckets(source.lengths, target.lengths, buckets)
    assert padded_share(source, target, chosen, 8, batch_size) == share


def test_buckets_by_both_sides_separate_long_sources_from_long_targets():
    source, target = np.repeat([[1, 4], [4, 1], [4, 4], [2, 4]], [9, 8, 1, 2], axis=0).T
    assert two_sided_buckets(source, target, 3) == [(1, 4), (4, 1), (4, 4)]
    assert two_sided_buckets(source, target, 4) == [(1, 4), (4, 1), (2, 4), (4, 4)]


def test_a_bucket_by_both_sides_is_replaced_if_a_later_one_makes_another_better():
    lengths = np.repeat([1, 2, 3, 4, 5], [1, 2, 2, 3, 1])
    assert two_sided_buckets(lengths, lengths, 3) == [(2, 2), (4, 4), (5, 5)]  # (3, 3) is chosen first


def test_generated_pairs_have_as_many_words_on_both_sides(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_cost, "WORDS", 1000)
    monkeypatch.setattr(corpus_cost, "CHUNK", 40)
    monkeypatch.setattr(corpus_cost, "DOMAIN", 10)
    corpus, domain = ([tmp_path / f"{name}.{side}" for side in ("en", "de")] for name in ("corpus", "domain"))
    words = corpus_cost.generate(corpus, domain, 100)
    english, german = ([line.split() for line in path.read_text("utf-8").splitlines()] for path in corpus)
    assert len(english) == len(german) == 100
    assert [*map(len, english)] == [*map(len, german)]
    assert sum(map(len, english)) == words
    assert {
        first: second for pair in zip(english, german, strict=True) for first, second in zip(*pair, strict=True)
    } == {word: word if word == "." else f"k{word}" for line in english for word in line}
    for own, path in zip(domain, corpus, strict=True):
        assert own.read_text("utf-8").splitlines() == path.read_text("utf-8").splitlines()[:10]


@pytest.mark.slow
def test_a_command_s_cost_is_measured(tmp_path):
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text("".join(f"{source}\t{target}\n" for source, target in sample_pairs()), "utf-8")
    found = corpus_cost.cost(["prepare", str(corpus), "--to", str(tmp_path / "prepared")])
    assert found["processor_s"] > 0
    assert found["peak_megabytes"] > 100
    with pytest.raises(SystemExit, match="nmt prepare --corpus nowhere failed"):
        corpus_cost.cost(["prepare", "--corpus", "nowhere"])


def test_stolen_time_is_a_share_of_all_cores_time(monkeypatch):
    began = ProcessorTime.now()
    assert 0.0 <= began.stolen <= began.total
    later = ProcessorTime(began.total + 40.0, began.stolen + 3.0)
    monkeypatch.setattr(ProcessorTime, "now", lambda: later)
    assert stolen_percent(began) == pytest.approx(7.5)


def test_rounds_of_other_systems_are_not_continued(tmp_path):
    path = tmp_path / "first.json"
    path.write_text(json.dumps({"rounds": [{"runs": {"matched": [], "onmt": []}}]}))
    assert len(earlier_rounds(path, ["matched", "onmt"])) == 1
    with pytest.raises(SystemExit, match=r"expected rounds of matched, joey\. Received: matched, onmt"):
        earlier_rounds(path, ["matched", "joey"])


def test_a_load_begins_and_ends():
    def running() -> int:
        return sum("while True: pass" in command for command in commands())

    def wait(is_loaded: bool) -> None:
        give_up = time.monotonic() + 30
        while (running() > 0) != is_loaded:
            assert time.monotonic() < give_up
            time.sleep(0.05)

    with loaded(0.0, 5.0):
        wait(True)
        wait(False)
    with loaded(60.0, 120.0):
        pass
    assert running() == 0


def catalogue(messages):
    """Returns a .mo file with these messages and translations."""
    texts = [key.encode() + b"\0" for key in messages] + [value.encode() + b"\0" for value in messages.values()]
    count = len(messages)
    places = [28 + 16 * count + sum(map(len, texts[:i])) for i in range(2 * count)]
    entries = [number for text, place in zip(texts, places, strict=True) for number in (len(text) - 1, place)]
    header = [0x950412DE, 0, count, 28, 28 + 8 * count, 0, 0]
    return struct.pack(f"<{7 + 4 * count}I", *header, *entries) + b"".join(texts)


def test_short_messages_of_a_catalogue_become_pairs():
    messages = {
        "": "Content-Type: text/plain; charset=UTF-8\n",
        "_File": "_ملف",
        "Save &As": "احفظ &باسم",
        "menu\x04Rock &amp; Roll": "روك (_R)",
        "two\nlines": "سطر",
        "same": "same",
        "word " * 31: "كلمة",
    }
    assert [*pairs_of(catalogue(messages))] == [("File", "ملف"), ("Save As", "احفظ باسم"), ("Rock & Roll", "روك")]


def test_packages_are_found_by_their_files():
    listed = b"usr/share/locale/ar/LC_MESSAGES/a.mo   net/a,web/b\nusr/share/locale/arn/LC_MESSAGES/a.mo   net/c\n"
    pattern = re.compile(r"usr/share/locale/ar/LC_MESSAGES/[^/]*\.mo$")
    assert packages_with(pattern, io.BytesIO(listed)) == ["a", "b"]
