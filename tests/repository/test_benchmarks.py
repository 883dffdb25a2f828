"""The benchmarks can start: their options parse, and names of the package in their strings exist."""

import importlib
import json
import shlex
from collections import defaultdict

import pytest
import tyro

from benchmarks.ablations import VARIANTS, recipe_of
from benchmarks.log_cost import timed
from benchmarks.measured import MEASURED
from benchmarks.quality import PLANS
from nmt_keras import cli

MEASUREMENTS = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(MEASURED.glob("*.json"))}


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_the_command_of_a_measurement_parses(name):
    _, _, module, *options = shlex.split(MEASUREMENTS[name]["command"])
    benchmark = importlib.import_module(module)
    tyro.cli(getattr(benchmark, "Settings", None) or benchmark.Commands, args=options)


@pytest.mark.parametrize("plan", [*PLANS.values(), *(each["plan"] for each in MEASUREMENTS.values() if "plan" in each)])
def test_the_options_of_a_training_plan_parse(plan):
    options = [word for name, value in plan.items() for word in (f"--{name}", str(value))]
    train = cli.parse(["train", "rnnsearch-small", "--corpus", "sample", *options])
    assert train.chosen().train.minutes == plan["minutes"]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_each_variant_of_a_plan_is_a_recipe_that_differs_from_the_plan(plan, variant):
    recipe, base = recipe_of(plan, variant), recipe_of(plan, "plan")
    assert recipe.name == variant
    same = (recipe.source, recipe.model, recipe.train) == (base.source, base.model, base.train)
    assert same == (variant == "plan")


def test_the_log_s_functions_can_be_timed():
    with timed(defaultdict(float)):
        pass
