"""The GPU benchmark: a dry run on a CPU, its limits, and its comparison of results."""

import json

import numpy as np
import pytest

from benchmarks import gpu
from benchmarks.gpu import Computed, compare


def run(folder, **options):
    """Runs the benchmark. Returns the parts of the file that it wrote."""
    gpu.main(folder / "gpu.json", dry=True, **options)
    return json.loads((folder / "gpu.json").read_text())["parts"]


@pytest.mark.slow
def test_a_dry_run_trains_and_decodes_on_a_cpu(tmp_path):
    parts = run(tmp_path, parts=("train-luong-location-plain", "decode-cpu"))
    assert {name: part["error"] for name, part in parts.items()} == dict.fromkeys(parts)
    (device,), (trained,) = parts["device"]["results"], parts["train-luong-location-plain"]["results"]
    greedy, beam = parts["decode-cpu"]["results"]
    assert device["gpu"] is None
    assert (trained["system"], trained["execution"], trained["precision"]) == ("luong-location", "plain", "tf32")
    assert min(trained["target_tokens_per_s"], trained["peak_megabytes"]) > 0
    assert (greedy["beam"], beam["beam"]) == (1, 5)
    assert min(greedy["sentences_per_s"]["median"], greedy["single_sentence_ms"]["median"]) > 0


@pytest.mark.slow
def test_a_part_that_fails_is_recorded_and_the_others_go_on(tmp_path):
    parts = run(tmp_path, corpus=tmp_path / "missing.tsv", parts=("train-matched-256-plain", "parity-luong-reverse"))
    assert "missing.tsv" in parts["train-matched-256-plain"]["error"]
    assert not parts["train-matched-256-plain"]["results"]
    assert parts["parity-luong-reverse"]["error"] is None
    compared = {result["execution"]: result["passed"] for result in parts["parity-luong-reverse"]["results"]}
    assert compared == {"plain": True, "xla": True}


def test_a_part_is_stopped_at_its_time_limit(tmp_path):
    parts = run(tmp_path, part_seconds=0.05, parts=("decode",))
    assert all("stopped" in part["error"] for part in parts.values())
    assert list(parts) == ["device", "decode"]


def computed(*gradients, loss=2.0):
    return Computed(loss, [np.array(gradient) for gradient in gradients])


@pytest.mark.parametrize(
    ("found", "passed"),
    [
        (computed([3.0, 4.0], [0.0]), True),
        (computed([3.0, 4.004], [0.0]), True),
        (computed([3.0, 4.006], [0.0]), False),
        (computed([3.0, 4.0], [0.0009]), True),
        (computed([3.0, 4.0], [0.0011]), False),  # absolute, because the reference is 0
        (computed([3.0, float("nan")], [0.0]), False),
        (computed([3.0, 4.0], [float("nan")]), False),
        (computed([3.0, 4.0], [0.0], loss=2.00001), True),
        (computed([3.0, 4.0], [0.0], loss=2.00003), False),
        (computed([3.0, 4.0], [0.0], loss=float("nan")), False),
    ],
)
def test_a_loss_or_gradient_that_differs_too_much_or_is_not_a_number_fails(found, passed):
    assert compare(found, computed([3.0, 4.0], [0.0]))["passed"] is passed
