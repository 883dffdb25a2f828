"""Every notebook runs from top to bottom in a kernel of its own: on the built-in sample, small, without a network."""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from types import ModuleType, SimpleNamespace

import nbformat
import numpy as np
import pytest
import tensorflow as tf
from nbclient import NotebookClient

import nmt_keras
from nmt_keras import cli
from nmt_keras.corpus import split_corpus
from nmt_keras.corpus.options import CorpusOptions
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.runs import Run
from notebooks import colab

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NAMES = [path.stem for path in NOTEBOOKS]

SMALL = """
from dataclasses import replace

from nmt_keras.recipes import SAMPLE

CORPUS, ACCELERATOR, STEPS = "sample", None, 4
RECIPE = replace(
    SAMPLE.scaled(0.25),
    name="small",
    train=replace(
        SAMPLE.train, steps=20, length_buckets=1, xla=False, validations=1, validation_sentences=8, log_every=5
    ),
)
"""
"""What stands in the place of each notebook's own parameters, as papermill would put it: after the cell so tagged."""


def read(name):
    return nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)


def cells(name, kind):
    return [cell.source for cell in read(name).cells if cell.cell_type == kind]


def python(source):
    """A cell's Python, without what is IPython's alone."""
    return re.sub(r"^( *)[%!].*$", r"\1pass", source, flags=re.MULTILINE)


def run(name, folder):
    """The notebook as it looks after it has run in ``folder``, with small parameters."""
    notebook = read(name)
    (place,) = (i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", []))
    notebook.cells.insert(place + 1, nbformat.v4.new_code_cell(SMALL))
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    return client.execute(env={**os.environ, "PYTHONPATH": str(ROOT)})


def pictures(notebook):
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return sum("image/png" in output.get("data", {}) for output in outputs)


def printed(notebook):
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(output.text for output in outputs if output.get("name") == "stdout")


@pytest.fixture(scope="module")
def sample_run(tmp_path_factory):
    """The sample's run, as notebook 1 leaves it behind, small."""
    names = {}
    exec(SMALL, names)
    pairs = sample_pairs()
    corpus = split_corpus("sample", pairs, key_side="target")
    folder = tmp_path_factory.mktemp("notebooks") / "sample"
    Run(folder, names["RECIPE"]).train(corpus, report=lambda _: None, show=lambda *_: None)
    return folder


@pytest.fixture
def beside_the_run(sample_run, tmp_path):
    """A working directory that has the sample's run."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "sample").symlink_to(sample_run)
    return tmp_path


@pytest.mark.saved_model
def test_a_sentence_walks_through_the_first_notebook(beside_the_run):
    assert pictures(run("1-walk-of-a-sentence", beside_the_run)) == 4


@pytest.mark.saved_model
def test_the_second_notebook_trains_from_nothing_and_draws_its_curves(tmp_path):
    notebook = run("2-train", tmp_path)
    assert pictures(notebook) == 2
    assert "BLEU" in printed(notebook)
    assert Run(tmp_path / "runs" / "sample").step() == 20


@pytest.mark.saved_model
def test_the_third_notebook_compares_four_systems(beside_the_run):
    notebook = run("3-attention", beside_the_run)
    assert pictures(notebook) == 4
    assert {path.name for path in (beside_the_run / "runs").iterdir()} == {
        "sample",
        "sample-rnnencdec",
        "sample-local-m",
        "sample-local-p",
    }


@pytest.mark.saved_model
def test_the_fourth_notebook_exports_serves_and_asks(beside_the_run):
    notebook = run("4-export-and-serve", beside_the_run)
    assert (beside_the_run / "saved_models" / "sample" / "1" / "saved_model.pb").exists()
    assert pictures(notebook) == 1


@pytest.mark.saved_model
def test_the_fifth_notebook_trains_on_a_file_with_broken_lines_and_its_run_is_evaluated_by_command(
    tmp_path, monkeypatch, capsys
):
    notebook = run("5-your-own-corpus", tmp_path)
    assert "3 of 12,503 lines malformed: 1 missing column, 1 empty side, 1 invalid UTF-8" in printed(notebook)
    assert Run(tmp_path / "runs" / "mine").step() == 20
    told = re.search(r"^python -m nmt_keras (evaluate .+)$", printed(notebook), re.MULTILINE)[1]
    monkeypatch.chdir(tmp_path)
    cli.main([*shlex.split(told), "--part", "valid", "--worst", "0", "--json", "--search.max-tokens", "3"])
    assert json.loads(capsys.readouterr().out)["title"] == "mine, valid"


def test_the_fifth_notebook_calls_run_corpus_and_command_after_the_file(tmp_path, monkeypatch, capsys):
    opened = []

    class Opened:
        def __init__(self, folder, recipe):
            opened.append(folder)

        def train(self, corpus, **how):
            opened.append(corpus)

    monkeypatch.setattr("nmt_keras.runs.run.Run", Opened)
    monkeypatch.setattr("nmt_keras.training.read_log", lambda path: None)
    monkeypatch.setattr("nmt_keras.plotting.training_curves", lambda log: None)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "our pairs.tsv"
    file.write_text("".join(f"{pair.target}\t{pair.source}\n" for pair in sample_pairs()[:200]), "utf-8")
    names = {"Path": Path, "FILE": file, "SOURCE_COLUMN": 1, "TARGET_COLUMN": 0, "RECIPE": None}
    cell = {cell.id: cell.source for cell in read("5-your-own-corpus").cells}
    for each in ("example", "read", "split", "train", "command"):
        exec(cell[each], names)
    folder, corpus = opened
    assert (folder, corpus.name) == (Path("runs/our_pairs"), "our_pairs")
    command = cli.parse(shlex.split(capsys.readouterr().out.splitlines()[-1].removeprefix("python -m nmt_keras ")))
    assert command.paths == (folder,)
    assert command.data == CorpusOptions((str(file),), source_column=1, target_column=0)
    assert command.data.name == corpus.name


def test_the_fifth_notebook_writes_its_example_in_the_example_s_place_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cell = {cell.id: cell.source for cell in read("5-your-own-corpus").cells}
    for missing in (tmp_path / "uploaded.tsv", Path("data/mine.txt"), Path("data")):
        with pytest.raises(FileNotFoundError, match="FILE"):
            exec(cell["example"], {"Path": Path, "FILE": missing})
        assert not list(tmp_path.iterdir())
    names = {"Path": Path}
    exec(cell["file"], names)
    exec(cell["example"], names)
    assert names["FILE"].is_file()
    assert names["name"] == "mine"


@pytest.mark.saved_model
def test_the_sixth_notebook_says_what_it_could_not_check_without_a_gpu(tmp_path):
    run("6-gpu-self-check", tmp_path)
    summary = json.loads((tmp_path / "self-check.json").read_text())
    outcomes = {finding["what"]: finding["outcome"] for finding in summary["findings"]}
    assert summary["gpu"] is None
    assert summary["nmt_keras"] == nmt_keras.__version__
    assert (summary["commit"] or "").removesuffix("-dirty") == commit_of(ROOT)
    for what, outcome in outcomes.items():
        assert outcome.startswith("not checked") == ("GPU" in what or "with cuDNN" in what), what
    assert set(outcomes.values()) == {"passed", "measured", "not checked: no GPU here"}


def commit_of(clone):
    """The commit that is checked out; an empty string where there is no clone, or no git."""
    if not (clone / ".git").exists() or shutil.which("git") is None:
        return ""
    command = ["git", "-C", str(clone), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("outcome", ["passed", "FAILED"])
def test_the_self_check_is_offered_for_download_on_colab_whatever_it_found(outcome, self_check, tmp_path, monkeypatch):
    offered = []

    def download(path):
        offered.append(json.loads(Path(path).read_text())["findings"][0]["outcome"])

    monkeypatch.setitem(sys.modules, "google.colab", SimpleNamespace(files=SimpleNamespace(download=download)))
    monkeypatch.chdir(tmp_path)
    self_check.names["note"]("export", outcome)
    names = {**self_check.names, "Path": Path, "json": json, "machine": {}, "sys": sys}
    with nullcontext() if outcome == "passed" else pytest.raises(AssertionError):
        exec(self_check.cell["summary"], names)
    assert offered == [outcome]


@pytest.fixture
def self_check():
    """What the sixth notebook defines in order to measure, and its cells by name."""
    cell = {cell.id: cell.source for cell in read("6-gpu-self-check").cells}
    names = {"tf": tf, "ACCELERATOR": "/GPU:0"}
    exec(cell["findings"], names)
    kept = (ast.Import, ast.ImportFrom, ast.FunctionDef)
    definitions = [node for node in ast.parse(cell["parity"]).body if isinstance(node, kept)]
    exec(compile(ast.Module(definitions, []), "parity", "exec"), names)
    return SimpleNamespace(cell=cell, names=names, compare=names["compare"], findings=names["findings"])


def computed(*gradients, loss=2.0, operations=()):
    return SimpleNamespace(loss=loss, gradients=[np.array(gradient) for gradient in gradients], operations=operations)


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (computed([3.0, 4.0], [0.0]), "passed"),
        (computed([3.0, 4.004], [0.0]), "passed"),
        (computed([3.0, 4.006], [0.0]), "FAILED"),
        (computed([3.0, 4.0], [0.0009]), "passed"),
        (computed([3.0, 4.0], [0.0011]), "FAILED"),  # beside a gradient of 0, by itself
        (computed([3.0, float("nan")], [0.0]), "FAILED"),
        (computed([3.0, 4.0], [float("nan")]), "FAILED"),
        (computed([3.0, 4.0], [0.0], loss=2.00001), "passed"),
        (computed([3.0, 4.0], [0.0], loss=2.00003), "FAILED"),
        (computed([3.0, 4.0], [0.0], loss=float("nan")), "FAILED"),
    ],
)
def test_the_self_check_lets_nothing_pass_that_is_far_or_no_number(self_check, found, outcome):
    self_check.compare("GPU", found, computed([3.0, 4.0], [0.0]))
    assert [finding["outcome"] for finding in self_check.findings] == [outcome]


def test_the_self_check_reads_with_cudnn_what_a_gpu_reads_with_it_and_sees_whether_it_did(self_check):
    asked = []

    def compute(config, weights, device, fused=False):
        asked.append((config, device, fused))
        called = fused and config.encoder.cell == "lstm"
        return computed([1.0], operations={"MatMul", "CudnnRNNV3"} if called else {"While"})

    exec(self_check.cell["cudnn"], {**self_check.names, "compute": compute, "draw_weights": lambda config: None})
    assert [(device, fused) for _, device, fused in asked] == [("/CPU:0", False), ("/GPU:0", True)] * 3
    systems = [config for config, _, fused in asked if fused]
    assert [config.encoder.cell for config in systems] == ["lstm", "gru-reset-after", "gru-reset-after"]
    for config in systems[:2]:  # reversed beside padding, layer upon layer, from the encoder's last states
        encoder, decoder = config.encoder, config.decoder
        assert (encoder.direction, encoder.layers, decoder.layers, decoder.initial_state) == ("backward", 2, 2, "last")
        assert decoder.order == "update-then-attend"
        assert not decoder.input_feeding
    assert {finding["what"]: finding["outcome"] for finding in self_check.findings} == {
        "loss and gradients, luong-location with cuDNN": "passed",
        "read with cuDNN, luong-location": "passed",
        "loss and gradients, luong-location of GRUs with cuDNN": "passed",
        "read with cuDNN, luong-location of GRUs": "FAILED",
        "loss and gradients, tutorial with cuDNN": "passed",
        "read with cuDNN, tutorial": "FAILED",
    }


def test_colab_shows_the_page_of_the_model_that_was_exported(monkeypatch):
    shown = []
    output = SimpleNamespace(serve_kernel_port_as_iframe=lambda port, path, height: shown.append((port, path)))
    monkeypatch.setitem(sys.modules, "google.colab", SimpleNamespace(output=output))
    cell = {cell.id: cell.source for cell in read("4-export-and-serve").cells}
    (exported,) = re.findall(r'Path\("saved_models/(.+)"\)', "\n".join(cell.values()))
    (page,) = (source for source in cell.values() if "serve_kernel_port" in source)
    exec(page, {"sys": sys, "url": "http://127.0.0.1:8765"})
    assert shown == [(8765, f"/?model={exported}")]


@pytest.fixture
def start_server(tmp_path):
    """Runs the fourth notebook's cell that starts the server, with a script in Python's place; answers its names."""
    cell = {cell.id: cell.source for cell in read("4-export-and-serve").cells}
    names = {"os": os, "Path": Path, "sys": SimpleNamespace(executable=str(tmp_path / "python"))}

    def start(script):
        (tmp_path / "python").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "python").chmod(0o755)
        exec(cell["serve"], names)
        return names

    yield start
    names["server"].stdout.close()
    names["server"].wait(10)


def test_the_server_is_started_where_it_sees_no_gpu(start_server, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert start_server('echo "Listening on http://127.0.0.1:$CUDA_VISIBLE_DEVICES"')["url"] == "http://127.0.0.1:-1"


@pytest.mark.parametrize("said", ["", "echo usage: serve.server"])
def test_a_server_that_does_not_start_is_told_with_what_it_wrote(said, start_server):
    with pytest.raises(RuntimeError, match="no such folder: saved_models"):
        start_server(f"echo no such folder: saved_models >&2\n{said}")


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_holds_no_outputs(name):
    for cell in read(name).cells:
        if cell.cell_type == "code":
            assert not cell.outputs, f"{cell.id}: clear its outputs"
            assert cell.execution_count is None


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_begins_with_a_badge_that_opens_it_on_colab(name):
    place = f"https://colab.research.google.com/github/nmt-keras/nmt_keras/blob/main/notebooks/{name}.ipynb"
    assert f"]({place})" in cells(name, "markdown")[0]


@pytest.mark.parametrize("name", NAMES)
def test_all_are_set_up_alike_and_those_that_train_for_long_keep_their_runs_on_drive(name):
    lines, first = (cells(each, "code")[0].splitlines() for each in (name, NAMES[0]))
    assert [line for line in lines if "keep_runs_on_drive" not in line] == first
    assert (lines != first) == (name[0] in "2345")


@pytest.mark.parametrize("name", NAMES[1:5])
def test_training_passes_over_a_checkpoint_of_which_drive_has_half(name):
    code = "\n".join(cells(name, "code"))
    assert code.count(".train(") == code.count("RunOptions(previous=True)") == code.count("options=") > 0


@pytest.mark.parametrize("name", NAMES)
def test_what_a_notebook_links_to_is_there(name):
    for source in cells(name, "markdown"):
        for target in re.findall(r"\]\((?!https://)([^)]+)\)", source):
            assert (ROOT / "notebooks" / target).exists(), target


DEPENDENCIES = ["tensorflow>=2.20,<2.22", "tensorflow-text>=2.20,<2.22", "keras>=3.12,<4"]


def test_colab_keeps_a_tensorflow_that_the_package_can_work_with():
    assert colab.requirements(DEPENDENCIES, "2.20.1", has_gpu=True) == ["tensorflow==2.20.1", *DEPENDENCIES[1:]]


def test_colab_replaces_another_tensorflow_on_a_gpu_together_with_its_cuda_libraries():
    for other in ("2.19.0", "2.22.0", None):
        (tensorflow, *rest) = colab.requirements(DEPENDENCIES, other, has_gpu=True)
        assert tensorflow.startswith("tensorflow[and-cuda]")
        assert rest == DEPENDENCIES[1:]
        assert colab.requirements(DEPENDENCIES, other, has_gpu=False) == DEPENDENCIES


def test_pip_is_asked_for_what_the_package_declares_beside_the_tensorflow_that_is_there(monkeypatch):
    asked = []
    monkeypatch.setattr(colab.subprocess, "run", lambda command, check: asked.append(command))
    colab.install()
    (command,) = asked
    assert command[:5] == [sys.executable, "-m", "pip", "install", "--quiet"]
    assert command[5] == f"tensorflow=={version('tensorflow')}"
    assert command[6].startswith("tensorflow-text>=")


class ColabError(Exception):
    """In the place of google.colab.errors.Error, the class of the error that a declined dialogue raises."""


@pytest.fixture
def google_colab(monkeypatch):
    """A module in the place of google.colab, which has no drive yet."""
    module = ModuleType("google.colab")
    module.errors = SimpleNamespace(Error=ColabError)
    monkeypatch.setitem(sys.modules, "google.colab", module)
    return module


def test_the_first_cell_on_colab_installs_then_puts_runs_on_drive(google_colab, monkeypatch):
    done = []
    google_colab.drive = SimpleNamespace(mount=lambda path: done.append(f"mounted {path}"))
    monkeypatch.setattr(colab, "install", lambda: done.append("installed"))
    monkeypatch.setattr(colab, "move_and_link", lambda folder, home: done.append(f"{folder} is {home}"))
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.chdir(ROOT / "notebooks")
    exec(python(cells("2-train", "code")[0]).replace("/content/nmt_keras", str(ROOT)), {})
    assert done == [
        "installed",
        "mounted /content/drive",
        f"{ROOT}/runs is /content/drive/MyDrive/nmt_keras/runs",
    ]
    assert Path.cwd() == ROOT


@pytest.mark.parametrize("error", [ColabError("credentials were declined"), ValueError("mount failed")])
def test_without_drive_the_first_cell_goes_on_and_warns_that_runs_end_with_the_machine(
    error, google_colab, monkeypatch, capsys
):
    def mount(path):
        raise error

    google_colab.drive = SimpleNamespace(mount=mount)
    monkeypatch.setattr(colab, "move_and_link", lambda folder, home: pytest.fail(f"{folder} is {home}"))
    colab.keep_runs_on_drive()
    told = capsys.readouterr().out
    assert "WARNING" in told
    assert str(error) in told


def test_what_else_goes_wrong_with_drive_is_raised(google_colab):
    def mount(path):
        raise KeyError("HOME")

    google_colab.drive = SimpleNamespace(mount=mount)
    with pytest.raises(KeyError):
        colab.keep_runs_on_drive()


def test_the_first_cell_elsewhere_steps_into_the_project_and_does_nothing_else(monkeypatch):
    monkeypatch.chdir(ROOT / "notebooks")
    exec(python(cells("2-train", "code")[0]), {})
    assert Path.cwd() == ROOT


def test_the_first_cell_stays_in_the_project_when_it_is_run_again_whatever_the_clone_is_called(tmp_path, monkeypatch):
    clone = tmp_path / "nmt_keras"
    for file in ("notebooks/colab.py", "nmt_keras/__init__.py"):
        (clone / file).parent.mkdir(parents=True)
        (clone / file).touch()
    monkeypatch.chdir(clone / "notebooks")
    for _ in range(3):
        exec(python(cells("2-train", "code")[0]), {})
        assert Path.cwd() == clone


def test_runs_move_to_drive_and_those_that_are_there_stay_as_they_are(tmp_path):
    runs, drive = tmp_path / "runs", tmp_path / "drive" / "runs"
    for folder, content in ((runs / "new", "new"), (runs / "known", "other"), (drive / "known", "first")):
        folder.mkdir(parents=True)
        (folder / "log.jsonl").write_text(content)
    for _ in range(2):  # as often as the set-up cell is run
        colab.move_and_link(runs, drive)
        assert runs.is_symlink()
        held = {str(path.relative_to(drive)): path.read_text() for path in drive.rglob("*.jsonl")}
        assert held == {"new/log.jsonl": "new", "known/log.jsonl": "first"}
