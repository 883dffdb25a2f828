"""Imports of the modules of serve."""

import re
from pathlib import Path

import pytest

SERVE = Path(__file__).parents[2] / "serve"


@pytest.mark.parametrize("path", sorted(SERVE.rglob("*.py")), ids=lambda path: path.relative_to(SERVE).as_posix())
def test_modules_import_one_another_relatively_so_that_the_package_can_have_another_name(path):
    assert not re.findall(r"^\s*(?:from|import) (?:serve|nmt_keras)\w*\b", path.read_text("utf-8"), re.MULTILINE)
