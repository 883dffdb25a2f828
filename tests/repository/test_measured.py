"""Tables in the documentation equal those in the files of the benchmarks."""

import pytest

from benchmarks.measured import PAGES, written


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_of_a_page_are_those_of_its_files(page):
    text = page.read_text(encoding="utf-8")
    assert written(text) == text, "python -m benchmarks.measured writes them"
