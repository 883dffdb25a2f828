"""Tables in the documentation equal those in the files of the benchmarks."""

import json
import re

import pytest

from benchmarks.measured import PAGES, written

FOUND = {
    "command": "python -m benchmarks.train_speed --work /some/where/WORK --sentences WORK/test.es --units 256",
    "date": "2026-01-02T03:04:05+00:00",
    "cpu": "some processor",
    "cores": 2,
    "libraries": {"tensorflow": "2.21.0"},
    "said": ["one", "", "two"],
    "shown": ["told", [{"system": "ours", "tokens/s": [1234, 5], "ratio": None}]],
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_of_a_page_are_those_of_its_files(page):
    text = page.read_text(encoding="utf-8")
    assert written(text) == text, "python -m benchmarks.measured writes them"


def test_only_the_text_between_the_marks_is_replaced_and_paths_of_the_machine_are_left_out(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(FOUND))
    new = written("before\n<!-- measured: x -->\nFORMER\n<!-- end -->\nafter\n", tmp_path)
    before, shown, after = re.split("<!-- measured: x -->|<!-- end -->", new)
    assert (before, after) == ("before\n", "\nafter\n")
    assert shown.startswith(
        "\n\ntold\n\n| system | tokens/s | ratio |\n| --- | --- | --- |\n| ours | 1,234 · 5 |  |\n\n`"
    )
    assert shown.endswith(
        "--work WORK --sentences WORK/test.es --units 256`; 2 cores, some processor, 2026-01-02, TensorFlow 2.21.0.\n"
    )
    assert written(new, tmp_path) == new


def test_a_field_and_a_template_are_inserted(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(FOUND))
    (tmp_path / "y.template").write_text("{x[cores]} cores, {x[shown][1][0][tokens/s][0]:,}\n")
    page = "<!-- measured: {} -->\n<!-- end -->"
    assert written(page.format("x.said"), tmp_path).splitlines()[1:-1] == ["", "    one", "", "    two"]
    assert written(page.format("x.cores"), tmp_path).splitlines()[1:-1] == ["", "    2"]
    assert written(page.format("y"), tmp_path).splitlines()[1:-1] == ["", "2 cores, 1,234"]
