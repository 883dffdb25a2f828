"""Notebook 7: a fault fails its own check only, the solutions repair it, and ``nmt check`` finds the faulty files."""

import contextlib
import io
import re

import nbformat
import pytest
from servers import ROOT

from nmt_keras import cli

CELLS = {cell.id: cell.source for cell in nbformat.read(ROOT / "notebooks/7-find-the-fault.ipynb", 4).cells}
PARTS = ("split", "attention", "loss", "search")
CODE = ("verdict", "split", "check-split", "model", "check-attention", "loss", "check-loss", "search", "check-search")


def repaired(code, part):
    """Returns the code of a cell with the solution of a part."""
    diff = re.search(r"```diff\n(.*?)```", CELLS[f"{part}-solution"], re.DOTALL)[1]
    faulty, sound = ("\n".join(line[1:] for line in diff.splitlines() if line[0] == sign) for sign in "-+")
    assert code.count(faulty) == 1, faulty
    return code.replace(faulty, sound)


@pytest.mark.long
@pytest.mark.parametrize("left", [*PARTS, None])
def test_each_fault_fails_only_its_own_check_and_its_solution_repairs_it(left):
    cells = dict(CELLS)
    for part in PARTS:
        cell = "model" if part == "attention" else part
        cells[cell] = cells[cell] if part == left else repaired(cells[cell], part)
    names, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        for name in CODE:
            exec(cells[name], names)
    holds = {int(number) for number in re.findall(r"^Part (\d): the repair holds", printed.getvalue(), re.MULTILINE)}
    assert holds == {1, 2, 3, 4} - ({PARTS.index(left) + 1} if left else set()), printed.getvalue()


@pytest.mark.long
def test_the_ill_files_are_named_by_their_solutions(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(f"import random\n{CELLS['ill']}", names)
    faults = {"one": "shifted", "two": "swapped", "three": "another encoding", "four": "tokenised", "five": "shifted"}
    for name, fault in faults.items():
        command = CELLS[f"solution-{name}"].partition("nmt_keras ")[2].replace("{ILL}", str(names["ILL"]))
        with pytest.raises(SystemExit):
            cli.main(command.split())
        assert fault in capsys.readouterr().out.splitlines()[0], name
