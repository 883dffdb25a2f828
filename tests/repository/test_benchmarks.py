"""The benchmarks can start: their options parse, and names of the package in their strings exist."""

import importlib
import json
import shlex
from dataclasses import replace

import pytest
import tyro

from benchmarks.machine import ProcessorTime, stolen_percent
from benchmarks.measured import MEASURED
from benchmarks.quality import PLANS, RECIPE, plan_recipe, require_plan, require_seeds
from benchmarks.train_speed import earlier_rounds
from nmt_keras import cli

MEASUREMENTS = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(MEASURED.glob("*.json"))}


@pytest.mark.parametrize("name", [name for name, found in MEASUREMENTS.items() if not found.get("removed")])
def test_the_command_of_a_measurement_parses(name):
    _, _, module, *options = shlex.split(MEASUREMENTS[name]["command"])
    benchmark = importlib.import_module(module)
    tyro.cli(benchmark.Settings, args=options)


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
