"""Every notebook runs from top to bottom on a small trained run."""

import json
from pathlib import Path

import pytest

from nmt_keras.experiment import Experiment

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.saved_model
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(notebook, run_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    Path("runs/sample").symlink_to(run_folder)
    experiment = Experiment("runs/sample")
    experiment.export(experiment.translator(), Path("saved_models/sample"))
    names: dict[str, object] = {}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            lines = [line for line in cell["source"] if not line.startswith("%")]  # magics belong to Jupyter
            exec(compile("".join(lines), f"{notebook.name}, {cell['id']}", "exec"), names)
    assert names["translations"]


def test_there_is_a_notebook_and_it_holds_no_outputs():
    assert NOTEBOOKS
    for notebook in NOTEBOOKS:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        assert not any(cell.get("outputs") for cell in cells), f"{notebook.name}: clear its outputs"
