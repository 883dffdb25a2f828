"""Every notebook runs from top to bottom in its own kernel, on the sample corpus, with small models, offline."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import nbformat
import pytest
from nbclient import NotebookClient
from servers import ROOT
from tiny import zipped

from nmt_keras import cli
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.training import identify_best
from notebooks import colab
from notebooks.execute import EXECUTED, HASH, RECIPES_HASH, as_printed, recipes_hash, source_hash

NAMES = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))

SMALL = """
from dataclasses import replace

from nmt_keras.recipes import SAMPLE

CORPUS, GPU, PARTS = "sample", False, ("parity-lecture-rnn",)
RECIPE = replace(
    SAMPLE.scaled(0.25),
    name="small",
    train=replace(
        SAMPLE.train, steps=20, length_buckets=1, xla=False, validations=1, validation_sentences=8, log_every=5
    ),
)
"""
"""Parameters for every notebook but the first."""
SMALL_0 = """
EPOCHS, BATCH, WIDTHS = 1, 32, [24]
LIBRARY_OPTIONS = "--steps 20 --train.length-buckets 1 --train.xla False --width 0.25"
"""
"""Parameters for notebook 0."""


def read(name):
    return nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)


def sources(name):
    """Returns the sources of a notebook's cells by their ids."""
    return {cell.id: cell.source for cell in read(name).cells}


def run(name, folder, parameters=SMALL, **environment):
    """Runs a notebook in ``folder`` with small parameters. Returns the outputs of its cells by their ids.

    The parameters are inserted after the cell with the tag "parameters", as by papermill.
    """
    notebook = read(name)
    (place,) = (i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", []))
    notebook.cells.insert(place + 1, nbformat.v4.new_code_cell(parameters))
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute(env={**os.environ, "PYTHONPATH": str(ROOT), **environment})
    return {cell.id: cell.get("outputs", []) for cell in notebook.cells}


def pictures(outputs):
    """Returns the cells of the pictures."""
    return [cell for cell, found in outputs.items() for output in found if "image/png" in output.get("data", {})]


def printed(outputs):
    return "".join(output.text for found in outputs.values() for output in found if output.get("name") == "stdout")


@pytest.mark.slow
def test_notebook_0_trains_its_own_models_and_the_library_s(tmp_path):
    home = tmp_path / "keras"
    (home / "datasets").mkdir(parents=True)
    text = "".join(f"{target}\t{source}\n" for source, target in sample_pairs()[:4000])
    (home / "datasets" / "spa-eng.zip").write_bytes(zipped({"spa-eng/spa.txt": text.encode()}))
    outputs = run("0-nmt-with-attention", tmp_path, SMALL_0, KERAS_HOME=str(home))
    assert pictures(outputs) == ["curve", "heatmap", "heatmap-2"]
    assert "BLEU" in printed({"bleu": outputs["bleu"]})
    rest = printed({"rest": outputs["rest"]})
    assert "notebook-0: " in rest
    assert "sample-subword: " in rest
    assert str(tmp_path) not in str(outputs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The working directory after notebook 1, with a run of the sample corpus."""
    folder = tmp_path_factory.mktemp("notebooks")
    assert len(pictures(run("1-step-by-step", folder))) == 5
    return folder


@pytest.mark.slow
def test_notebook_3_compares_four_systems(folder):
    assert len(pictures(run("3-attention", folder))) == 4
    found = {path.name for path in (folder / "runs").glob("sample-*")} - {"sample-small"}  # the run of notebook 1
    assert found == {"sample-rnnencdec", "sample-rnnsearch", "sample-local-m", "sample-local-p"}


@pytest.mark.long
def test_notebook_2_trains_from_nothing_and_draws_its_curves(tmp_path):
    outputs = run("2-train", tmp_path)
    assert len(pictures(outputs)) == 2
    assert "BLEU" in printed(outputs)
    assert identify_best(tmp_path / "runs/sample-small/checkpoints").step == 20


@pytest.mark.slow
def test_notebook_4_exports_serves_and_sends_requests(folder):
    assert len(pictures(run("4-export-and-serve", folder))) == 1
    assert (folder / "saved_models" / "sample" / "1" / "saved_model.pb").exists()


@pytest.mark.slow
def test_notebook_5_trains_on_a_file_with_malformed_lines_and_its_run_is_evaluated_by_the_printed_command(
    tmp_path, monkeypatch, capsys
):
    text = printed(run("5-your-own-corpus", tmp_path))
    assert "3 of 12,503 lines malformed" in text
    assert identify_best(tmp_path / "runs/mine/checkpoints").step == 20
    command = re.search(r"^python -m nmt_keras (evaluate .+)$", text, re.MULTILINE)[1]
    monkeypatch.chdir(tmp_path)
    cli.main([*shlex.split(command), "--part", "valid", "--worst", "0", "--json", "--search.max-tokens", "3"])
    assert json.loads(capsys.readouterr().out)["title"] == "mine, valid"


def test_notebook_5_refuses_a_missing_file_instead_of_training_on_its_example(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for missing in (tmp_path / "uploaded.tsv", Path("data/mine.txt"), Path("data")):
        with pytest.raises(FileNotFoundError, match="FILE"):
            exec(sources("5-your-own-corpus")["example"], {"Path": Path, "LANGUAGES": None, "FILE": missing})
        assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_notebook_6_makes_a_dry_run_without_a_gpu(tmp_path):
    text = printed(run("6-gpu-self-check", tmp_path))
    summary = json.loads((tmp_path / "self-check.json").read_text())
    assert summary["dry"]
    assert summary["parts"]["device"]["results"][0]["gpu"] is None
    assert all(result["passed"] for result in summary["parts"]["parity-lecture-rnn"]["results"])
    assert "0 of 2 parts failed" in text


@pytest.mark.parametrize("name", NAMES)
def test_the_outputs_of_a_notebook_are_those_of_its_code(name):
    code = [cell for cell in read(name).cells if cell.cell_type == "code"]
    if name not in EXECUTED:
        assert not [cell.id for cell in code if cell.outputs or cell.execution_count is not None]
        return
    assert not [cell.id for cell in code if cell.execution_count is None]
    assert any("image/png" in output.get("data", {}) for cell in code for output in cell.outputs)
    changed = [cell.id for cell in code if cell.metadata.get(HASH) != source_hash(cell.source)]
    assert not changed, f"run: python -m notebooks.execute {name}"
    recipes = read(name).metadata.get(RECIPES_HASH)
    assert recipes == recipes_hash(), f"the recipes have changed; run: python -m notebooks.execute {name}"
    outputs = [output for cell in code for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    if name == "1-step-by-step":  # it shows the run of notebook 2, not a short training of its own
        assert not [output for output in outputs if "training for" in output.get("text", "")]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_imports_names_that_exist(name):
    code = "\n".join(cell.source for cell in read(name).cells if cell.cell_type == "code")
    for line in re.findall(r"^ *from nmt_keras[\w.]* import (?:\([^)]+\)|.+)$", code, re.MULTILINE):
        exec(line.strip())


@pytest.mark.parametrize("name", EXECUTED)
def test_outputs_are_small_and_hold_no_path_of_a_machine(name):
    path = ROOT / "notebooks" / f"{name}.ipynb"
    assert path.stat().st_size < 1_500_000
    texts = [
        text
        for cell in read(name).cells
        if cell.cell_type == "code"
        for output in cell.outputs
        for text in (output.get("text", ""), output.get("data", {}).get("text/plain", ""))
    ]
    assert not [text for text in texts if re.search(r"(?<![\w.:/])/(root|home|tmp|work|usr|opt|content)/", text)]


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("a\nb\n", "a\nb\n"),
        ("1/3 ...\r2/3 ...\r3/3 done\nnext", "3/3 done\nnext"),
        ("\x1b[1m1/2\x1b[0m \b\b\b\b2/2 done\n", "2/2 done\n"),
        (
            "E0000 00:00:1795742586.287818   29527 cuda_platform.cc:52] failed call to cuInit\nE0000 is kept\n"
            "INFO:tensorflow:Assets written to: partial-1/assets\n",
            "E0000 is kept\n",
        ),
    ],
)
def test_a_progress_bar_is_kept_in_its_last_state_and_log_lines_are_left_out(printed, shown):
    assert as_printed(printed) == shown


DEPENDENCIES = ["tensorflow>=2.20,<2.22", "tensorflow-text>=2.20,<2.22", "keras>=3.13,<4"]


@pytest.mark.parametrize(
    ("installed", "has_gpu", "tensorflow"),
    [
        ("2.20.1", True, "tensorflow==2.20.1"),
        ("2.19.0", True, "tensorflow[and-cuda]<2.22,>=2.20"),
        ("2.22.0", True, "tensorflow[and-cuda]<2.22,>=2.20"),
        (None, True, "tensorflow[and-cuda]<2.22,>=2.20"),
        ("2.19.0", False, DEPENDENCIES[0]),
    ],
)
def test_colab_keeps_a_supported_tensorflow_and_replaces_others_with_cuda_on_a_gpu(installed, has_gpu, tensorflow):
    assert colab.requirements(DEPENDENCIES, installed, has_gpu) == [tensorflow, *DEPENDENCIES[1:]]


class DriveError(Exception):
    """Replaces google.colab.errors.Error, which is raised if the user declines access to Drive."""


@pytest.fixture
def drive(monkeypatch):
    """A replacement for google.colab.drive."""
    drive = SimpleNamespace(mount=lambda path: None)
    google_colab = SimpleNamespace(drive=drive, errors=SimpleNamespace(Error=DriveError))
    monkeypatch.setitem(sys.modules, "google.colab", google_colab)
    return drive


def run_setup(name, monkeypatch, **replaced):
    """Runs the cell that fetches the repository as on Colab, in the repository. Returns the recorded actions."""
    done = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: done.append([*command[:4], command[-1]]))
    monkeypatch.setattr(colab, "move_and_link", lambda folder, home: done.append((folder, home)))
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.chdir(ROOT / "notebooks")
    cells = sources(name)
    code = cells.get("library", cells["setup"]).replace("/content/nmt_keras", str(ROOT))
    for field, value in replaced.items():
        code, found = re.subn(rf"^{field} = \S+", f"{field} = {value}", code, flags=re.MULTILINE)
        assert found == 1
    code = re.sub(r"^( *)[%!].*$", r"\1pass", code, flags=re.MULTILINE)  # without magics and shell commands
    exec(code, {"Path": Path, "EXPORT": Path(), "sys": sys})
    return done


PIP = [sys.executable, "-m", "pip", "install", str(ROOT)]  # with nmt_keras_serve, which no folder has


@pytest.mark.usefixtures("drive")
def test_the_first_cell_on_colab_installs_the_package_and_keeps_runs_on_drive_on_request(monkeypatch):
    runs = (ROOT / "runs", Path("/content/drive/MyDrive/nmt_keras/runs"))
    assert run_setup("2-train", monkeypatch) == [PIP]
    assert run_setup("2-train", monkeypatch, DRIVE="True") == [PIP, runs]
    assert Path.cwd() == ROOT


@pytest.mark.parametrize("error", [DriveError("credentials were declined"), ValueError("mount failed")])
def test_without_drive_runs_stay_on_the_machine_and_a_warning_is_printed(error, drive, monkeypatch, capsys):
    drive.mount = Mock(side_effect=error)
    monkeypatch.setattr(colab, "move_and_link", lambda folder, home: pytest.fail(f"{folder} is {home}"))
    colab.keep_runs_on_drive()
    assert str(error) in capsys.readouterr().out


def test_runs_move_to_drive_and_existing_ones_there_stay_as_they_are(tmp_path):
    runs, drive = tmp_path / "runs", tmp_path / "drive" / "runs"
    for folder, content in ((runs / "new", "new"), (runs / "known", "other"), (drive / "known", "first")):
        folder.mkdir(parents=True)
        (folder / "log.jsonl").write_text(content)
    for _ in range(2):  # the first cell may be run again
        colab.move_and_link(runs, drive)
        assert runs.is_symlink()
        held = {str(path.relative_to(drive)): path.read_text() for path in drive.rglob("*.jsonl")}
        assert held == {"new/log.jsonl": "new", "known/log.jsonl": "first"}
