"""``nmt compare``: the choice of learning rates, and a small comparison that is stopped and resumed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace

import pytest
from tiny import TINY_RECIPE

from nmt_keras import cli
from nmt_keras.cli.compare import Compare
from nmt_keras.corpus import SplitCorpus
from nmt_keras.evaluation.gold import GoldPair
from nmt_keras.evaluation.metrics import GoldLinks
from nmt_keras.io.files import sole_writer
from nmt_keras.recipes import find_recipe
from nmt_keras.runs import Run
from nmt_keras.runs.directory import imports, read_origin
from nmt_keras.runs.protocol import Study, chosen_rate, pilot_loss, run_study, write_table
from nmt_keras.training import is_finished, read_log


def pilots(*losses):
    return [{"learning_rate": rate, "valid_loss": loss} for rate, loss in zip((0.1, 0.2, 0.4), losses, strict=True)]


@pytest.mark.parametrize(
    ("losses", "rate"),
    [((3.0, 2.0, 2.5), 0.2), ((3.0, 2.0, None), 0.2), ((2.0, 2.0, 2.1), 0.1), ((None, None, 5.0), 0.4)],
)
def test_the_rate_is_that_of_the_pilot_with_the_lowest_finite_loss(losses, rate):
    assert chosen_rate("a", pilots(*losses)) == rate


def test_a_system_that_trains_at_no_rate_is_named():
    with pytest.raises(ValueError, match="luong-dot"):
        chosen_rate("luong-dot", pilots(None, None, None))


def test_after_pilots_that_all_diverge_other_rates_can_be_tried(tmp_path, corpus, monkeypatch):
    monkeypatch.setattr("nmt_keras.runs.protocol.pilot_loss", lambda run, *_: run.folder.mkdir(parents=True))
    said = []
    for rates in ((1.0, 2.0), (0.1, 0.2)):
        with pytest.raises(ChildProcessError):
            run_study(study(tmp_path, corpus, rates=rates, seeds=(1,)), 1, said.append)
    assert [len(message.split("Pass lower factors.")) for message in said] == [2, 2]
    assert [path.name for path in tmp_path.rglob("*")] == ["runs"]


def study(folder, parts, **changes):
    return Study(**{"folder": folder, "systems": [TINY_RECIPE], "corpus": parts, "updates": 60, **changes})


def test_runs_have_equal_updates_and_never_stop_early_and_a_pilot_is_the_beginning_of_a_run(tmp_path, corpus):
    system = replace(TINY_RECIPE, train=replace(TINY_RECIPE.train, steps=None, minutes=5.0, validations=4, patience=1))
    made = study(tmp_path, corpus, systems=[system], seeds=(5, 6))
    made.pilot_path(system).write_text(json.dumps({"pilots": pilots(3.0, 2.0, 2.5)}))
    run = made.run_recipe(system, 6).train
    assert (run.steps, run.minutes, run.seed, run.learning_rate) == (60, None, 6, 0.2)
    assert run.patience >= run.validations == 4
    assert made.pilot_recipe(system, 0.2 / system.train.learning_rate) == made.run_recipe(system, 5)
    assert {updates: replace(made, updates=updates).pilot_end(system) for updates in (60, 61, 3)} == {
        60: 15,
        61: 16,
        3: 1,
    }
    for count in (4, 8, 10):  # a pilot ends with a validation
        many = replace(system, train=replace(system.train, validations=count))
        for updates in range(1, 300):
            end = replace(made, updates=updates).pilot_end(many)
            assert int(end * count / updates + 1e-9) > int((end - 1) * count / updates + 1e-9)
    without = study(tmp_path / "none", corpus, rates=(0.5,))
    assert without.run_recipe(TINY_RECIPE, 1).train.learning_rate == 0.01


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"systems": []}, "systems"),
        ({"systems": [TINY_RECIPE, TINY_RECIPE]}, "systems"),
        ({"systems": [replace(TINY_RECIPE, name="a b")]}, "a b"),
        ({"corpus": SplitCorpus("own", [], [], [])}, "own"),
        ({"baselines": {"tiny": "luong-dot"}}, "baselines: .*of tiny, received {'tiny': 'luong-dot'}"),
        ({"baselines": {"tiny": "tiny"}}, "baselines: .*of tiny, received {'tiny': 'tiny'}"),
        ({"baselines": {"luong-dot": "tiny"}}, "baselines: .*of tiny, received {'luong-dot': 'tiny'}"),
    ],
)
def test_a_study_that_cannot_be_compared_is_refused(changes, named, tmp_path, corpus):
    with pytest.raises(ValueError, match=named):
        study(tmp_path, corpus, **changes)


def write_result(made, system, texts, seed=1):
    """Writes the result of a run with given translations."""
    figures = {
        "seed": seed,
        "parameters": 1000,
        "perplexity": 4.0,
        "validations": [{"valid_loss": 2.0}],
        "alignment": None,
        "test_pairs": len(texts),
        "signature": "",
        "chrf_signature": "",
        "recipe": asdict(made.run_recipe(system, seed)),
        "corpus": dict(made.corpus_facts),
    }
    made.path(system, seed).write_text(json.dumps(figures))
    made.path(system, seed).with_suffix(".txt").write_text("".join(f"{text}\n" for text in texts))


def test_a_folder_that_another_comparison_writes_is_refused(tmp_path, corpus):
    with sole_writer(tmp_path), pytest.raises(ValueError, match="another process"):
        run_study(study(tmp_path, corpus), 1, print)


@pytest.mark.parametrize(("before", "now"), [(None, [""] * 80), ([""] * 80, None), ([""] * 80, ["0-0"] * 80)])
def test_results_with_other_alignments_of_the_training_pairs_are_refused(before, now, tmp_path, corpus):
    begun, resumed = (study(tmp_path, corpus._replace(alignments=each), rates=(1.0,)) for each in (before, now))
    write_result(begun, TINY_RECIPE, ["No."])
    with pytest.raises(ValueError, match=r"corpus\.sha256\.alignments"):
        run_study(resumed, 1, print)


def test_a_result_without_its_run_keeps_no_error_of_other_gold_alignments(tmp_path, corpus):
    made = study(
        tmp_path, corpus, rates=(1.0,), seeds=(1,), gold=[GoldPair("Ana", "Ana", GoldLinks({(0, 0)}, {(0, 0)}))]
    )
    write_result(made, TINY_RECIPE, ["No."])
    told = []
    with pytest.raises(ChildProcessError, match="tiny-1: failed"):
        run_study(made, 1, told.append)
    assert re.search(r"gold: expected the run .*tiny-1, .*Delete .*tiny-1\.json", told[0])


def test_a_table_compares_a_system_with_its_baseline_once_that_has_a_result(tmp_path, corpus):
    systems = [replace(TINY_RECIPE, name=name) for name in ("plain", "dot", "general")]
    made = study(tmp_path, corpus, systems=systems, rates=(1.0,), baselines=dict.fromkeys(("dot", "general"), "plain"))
    references = [pair.target for pair in made.pairs]

    def written():
        write_table(made)
        rows = json.loads((tmp_path / "table.json").read_text())["systems"]
        return [(row["name"], row["baseline"], row["bleu"]["p"] is not None) for row in rows]

    write_result(made, systems[1], ["No."] * 2 + references[2:])
    write_result(made, systems[2], ["No."] * 9 + references[9:])
    assert written() == [("dot", None, False), ("general", None, False)]
    write_result(made, systems[0], ["No."] * 12 + references[12:])
    assert written() == [("plain", None, False), ("dot", "plain", False), ("general", "plain", False)]  # single runs
    for count, system in zip((12, 2, 9), systems, strict=True):
        write_result(made, system, ["No."] * count + references[count:], seed=2)
    assert written() == [("plain", None, False), ("dot", "plain", True), ("general", "plain", True)]

    assert "| against |" in (tmp_path / "table.md").read_text()

    together, alone = write_table(made), write_table(replace(made, systems=systems[::2], baselines={}))
    assert together[::2] == alone


@pytest.mark.parametrize(
    ("baseline", "wanted"),
    [
        (None, {}),
        ("luong-dot", {"luong-dot": None, "luong-general": "luong-dot", "mine": "luong-dot"}),
        ("FILE.json", {"luong-dot": "mine", "luong-general": "mine", "mine": None}),
    ],
)
def test_a_baseline_is_a_recipe_of_the_command_and_all_others_are_compared_with_it(baseline, wanted, tmp_path):
    file = tmp_path / "FILE.json"
    file.write_text(replace(find_recipe("luong-concat"), name="mine").to_json())
    recipes = ("luong-dot", "luong-general", str(file))
    given = str(file) if baseline == file.name else baseline
    command = Compare(recipes=recipes, to=tmp_path, updates=1, baseline=given)
    command.check()
    assert command.baselines == wanted
    scaled = replace(command, recipes=("luong-dot", "luong-general"), baseline="luong-dot", width=0.25)
    assert [system.name for system in scaled.systems] == ["luong-dot-x0.25", "luong-general-x0.25"]
    assert scaled.baselines == {"luong-dot-x0.25": None, "luong-general-x0.25": "luong-dot-x0.25"}
    with pytest.raises(ValueError, match=r"--baseline: expected one of luong-dot, .*; received 'luong-feed'"):
        replace(command, baseline="luong-feed").check()


@pytest.fixture
def command(tmp_path, own_layers):
    """The arguments of a comparison of two tiny recipes, with two seeds and pilots for two learning rates.

    The encoder's cell of the first one is in a module of the user.
    """
    files = []
    for name, attention, output, cell in (
        ("first", "none", "state", "own"),
        ("second", "general", "attentional", "gru"),
    ):
        fields = asdict(replace(TINY_RECIPE, name=name))
        fields["model"]["encoder"]["cell"] = cell
        fields["model"]["attention"]["kind"] = attention
        fields["model"]["decoder"] |= {"order": "update-then-attend", "output": output}
        fields["train"] |= {"checkpoint_every": 5, "validations": 2}
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps(fields))
    gold = tmp_path / "gold.tsv"
    gold.write_text("Ana lee .\tAna reads .\t0-0 1-1 2-2\n", "utf-8")
    options = "--import own_layers --corpus sample --updates 300 --rates 0.5 1 --seeds 1 2 --jobs 2"
    return ["compare", *map(str, files), *options.split(), "--to", str(tmp_path / "out"), "--gold", str(gold)]


def wait_for(condition, process, seconds=240):
    """Waits until ``condition`` is true, while a process runs."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "the process has ended"
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)


@pytest.mark.slow
def test_a_comparison_that_was_stopped_resumes_and_writes_its_table(command, tmp_path, capfd):
    out = tmp_path / "out"
    log = out / "runs" / "first-1" / "log.jsonl"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    begun = subprocess.Popen(
        [sys.executable, "-m", "nmt_keras", *command], env=environment, stderr=subprocess.PIPE, text=True
    )
    wait_for(lambda: log.exists() and '"step": 160' in log.read_text(), begun)
    begun.send_signal(signal.SIGTERM)
    _, told = begun.communicate(timeout=120)
    assert begun.returncode == 128 + signal.SIGTERM, told
    assert not (out / "first-1.json").exists()
    assert "first-1: resuming at step 150 of 300" in told, "the pilot is continued"
    pilot = (out / "first-pilot.json").stat().st_mtime_ns

    cli.main(command)

    printed, messages = capfd.readouterr()
    assert "InitializeLog" not in messages  # of lines such as "Could not find cuda drivers"
    (step,) = map(int, re.findall(r"first-1: resuming at step (\d+) of 300", messages))
    assert step >= 155
    assert (out / "first-pilot.json").stat().st_mtime_ns == pilot
    results = {path.stem: json.loads(path.read_text()) for path in out.glob("*-[12].json")}
    assert results.keys() == {"first-1", "first-2", "second-1", "second-2"}
    for result in results.values():
        assert result["steps"] == result["recipe"]["train"]["steps"] == 300
        best = min(result["validations"], key=lambda row: row["valid_loss"])
        assert result["best_step"] == best["step"]
        assert [row["step"] for row in result["validations"]] == [150, 300]
        assert [row["learning_rate"] for row in result["pilots"]] == [0.01, 0.02]
        assert result["recipe"]["train"]["learning_rate"] == chosen_rate("", result["pilots"])
        if result["seed"] == 1:
            assert result["validations"][0]["valid_loss"] == min(row["valid_loss"] for row in result["pilots"])
            assert 0 < sum(row["seconds"] for row in result["pilots"]) < 3600 * result["core_hours"] + 1
        assert (result["alignment"] is None) == (result["name"] == "first")
    table = json.loads((out / "table.json").read_text())
    assert (table["runs"], table["finished"]) == (4, 4)
    assert table["core_hours"] == pytest.approx(sum(result["core_hours"] for result in results.values()), abs=0.01)
    assert [row["name"] for row in table["systems"]] == ["first", "second"]
    assert (out / "table.md").read_text().startswith(printed)
    assert len((out / "first-1.txt").read_text().splitlines()) == results["first-1"]["test_pairs"]
    assert {path.name for path in (out / "runs").iterdir()} == set(results)
    assert read_origin(out / "runs" / "first-1").corpus == ("sample",)
    assert imports(out / "runs" / "first-1") == ["own_layers"]

    written = {path: path.stat().st_mtime_ns for path in out.glob("*-[12].json")}
    cli.main([*command, "--baseline", command[2]])
    assert {path: path.stat().st_mtime_ns for path in out.glob("*-[12].json")} == written
    assert "| against |" in capfd.readouterr().out

    refusals = {
        ("--updates", "301"): "train.steps",
        ("--rates", "0.5", "2"): "rates: expected factors for the learning rates [0.01, 0.02]",
    }
    for options, message in refusals.items():
        with pytest.raises(SystemExit, match="1"):
            cli.main([*command, *options])
        assert message in capfd.readouterr().err


@pytest.mark.long
def test_pilots_stop_without_being_finished_and_are_compared_at_the_same_step(tmp_path, corpus):
    system = replace(TINY_RECIPE, train=replace(TINY_RECIPE.train, validations=4))
    made = study(tmp_path, corpus, systems=[system])
    run = Run(made.pilot_folder(made.pilot_recipe(system)), made.pilot_recipe(system))
    later = pilot_loss(run, made, 30)
    assert not is_finished(run.folder)
    log = read_log(run.folder / "log.jsonl")
    assert [(row["step"], row["valid_loss"]) for row in log if "valid_loss" in row][-1] == (30, later)
    assert max(row["step"] for row in log) == 30
    earlier = pilot_loss(run, made, 15)
    assert earlier != later
    assert earlier == next(row["valid_loss"] for row in log if row["step"] == 15 and "valid_loss" in row)
    assert read_log(run.folder / "log.jsonl") == log, "nothing is trained again"
