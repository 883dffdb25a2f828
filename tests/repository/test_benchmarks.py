"""The benchmarks can start: their options parse, and names of the package in their strings exist."""

import functools
import importlib
import json
import shlex

import pytest
import tyro

from benchmarks.measured import MEASURED
from benchmarks.quality import PLANS, RECIPE
from nmt_keras import cli

MEASUREMENTS = {
    path.stem: found
    for path in sorted(MEASURED.glob("*.json"))
    if "command" in (found := json.loads(path.read_text("utf-8"))) and not found.get("removed")
}


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_the_command_of_a_measurement_parses(name):
    program, *words = shlex.split(MEASUREMENTS[name]["command"].removeprefix("XLA_FLAGS=--xla_gpu_autotune_level=0 "))
    if program == "nmt":
        cli.parse(words)
    else:
        _, module, *options = words
        parsed = functools.wraps(importlib.import_module(module).main)(lambda *_, **__: None)
        tyro.cli(parsed, args=options)


@pytest.mark.parametrize("plan", [*PLANS.values(), *(each["plan"] for each in MEASUREMENTS.values() if "plan" in each)])
def test_the_options_of_a_training_plan_parse(plan):
    options = [word for name, value in plan.items() for word in (f"--{name}", str(value))]
    train = cli.parse(["train", RECIPE, "--corpus", "sample", *options])
    assert train.chosen().train.minutes == plan["minutes"]
