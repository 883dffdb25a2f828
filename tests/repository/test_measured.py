"""Results in the documentation equal those in the files of the benchmarks."""

import json
import re

import pytest

from benchmarks.measured import MEASURED, PAGES, written

FOUND = {
    "command": "python -m benchmarks.train_speed --work /some/where/WORK --sentences WORK/test.es --units 256",
    "date": "2026-01-02T03:04:05+00:00",
    "cpu": "some processor",
    "cores": 2,
    "libraries": {"tensorflow": "2.21.0"},
    "rounds": [
        {
            "stolen_percent": stolen,
            "median": {"matched": rate, "onmt": 1000},
            "ratios": {"matched": {"onmt": rate / 1000}},
            "runs": {
                "matched": [{"target_tokens_per_s": rate, "parameters": 5, "compile_s": 61.2, "shapes": 12}],
                "onmt": [{"target_tokens_per_s": 1000.0, "parameters": None}],
            },
        }
        for rate, stolen in ((2000, 0.1), (2500, 0.3))
    ],
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_of_a_page_are_those_of_its_files(page):
    text = page.read_text(encoding="utf-8")
    assert written(text) == text, "python -m benchmarks.measured writes them"


def test_every_file_has_a_table():
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert all(f"<!-- measured: {path.stem} -->" in pages for path in MEASURED.glob("*.json"))


def test_only_the_text_between_the_marks_is_replaced_and_paths_of_the_machine_are_left_out(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(FOUND))
    new = written("before\n<!-- measured: x -->\nFORMER\n<!-- end -->\nafter\n", tmp_path)
    before, table, after = re.split("<!-- measured: x -->|<!-- end -->", new)
    assert (before, after) == ("before\n", "\nafter\n")
    assert "2.00x · 2.50x" in table  # the ratios of the medians
    assert "0.1 % · 0.3 %" in table
    assert "FORMER" not in table
    assert "/some/where" not in table
    assert written(new, tmp_path) == new
