"""Runs command lines in the process of the tests. Their first argument is divided at spaces."""

import pytest

from nmt_keras import cli


@pytest.fixture
def nmt(capsys):
    """Runs a command and returns its standard output and standard error."""

    def run(line, *arguments):
        cli.main([*line.split(), *map(str, arguments)])
        return capsys.readouterr()

    return run


@pytest.fixture
def fails(capsys):
    """Runs a command that must fail with an exit code, ``None`` for 1 or 2. Returns its output on standard error."""

    def run(line, *arguments, code=1):
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main([*line.split(), *map(str, arguments)])
        assert stop.value.code in ((1, 2) if code is None else (code,))
        return capsys.readouterr().err

    return run
