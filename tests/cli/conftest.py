"""Runs command lines in the process of the tests. Their first argument is divided at spaces."""

import pytest

from nmt_keras import cli


@pytest.fixture
def nmt(capsys):
    """Runs a command, which must end with an exit code. Returns its standard output and standard error."""

    def run(line, *arguments, code=0):
        capsys.readouterr()
        found = 0
        try:
            cli.main([*line.split(), *map(str, arguments)])
        except SystemExit as stop:
            found = stop.code
        said = capsys.readouterr()
        assert found in ((1, 2) if code is None else (code,)), said.err
        return said

    return run


@pytest.fixture
def fails(nmt):
    """Runs a command that must fail with an exit code, ``None`` for 1 or 2. Returns its output on standard error."""
    return lambda *arguments, code=1: nmt(*arguments, code=code).err
