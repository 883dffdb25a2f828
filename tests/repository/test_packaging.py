"""The package: what its wheel holds, what it says of itself, and that pins, ranges and files agree."""

from __future__ import annotations

import configparser
import email
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import nmt_keras

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COPIED = (
    *(".github", "benchmarks", "docs", "nmt_keras", "notebooks", "serve", "tests"),
    *(".dockerignore", "CHANGELOG.md", "CONTRIBUTING.md", "Dockerfile", "LICENSE", "MANIFEST.in", "Makefile"),
    *("README.md", "SECURITY.md", "mkdocs.yml", "nmt_keras_serve.py", "pyproject.toml", "setup.py"),
    *sorted(path.name for path in ROOT.glob("requirements*.txt")),
)
"""What the source archive is built from, and has to hold: the package, and what its tests and documentation read."""
NOT_COPIED = shutil.ignore_patterns("__pycache__", "tls", ".ipynb_checkpoints", ".*_cache")


def ranges() -> dict[str, list[Requirement]]:
    """The requirements of the package and of its extras, by name."""
    listed = [*PROJECT["dependencies"], *(r for extra in PROJECT["optional-dependencies"].values() for r in extra)]
    found: dict[str, list[Requirement]] = {}
    for requirement in map(Requirement, listed):
        found.setdefault(requirement.name.lower(), []).append(requirement)
    return found


def pins(file: Path) -> dict[str, str]:
    """The versions that a requirements file pins, by name."""
    lines = [line.partition("#")[0].strip() for line in file.read_text().splitlines()]
    return {name.lower(): version for name, _, version in (line.partition("==") for line in lines if line)}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of what the source archive is built from."""
    folder = tmp_path_factory.mktemp("source")
    for name in COPIED:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=NOT_COPIED)
        else:
            shutil.copy(path, folder / name)
    return folder


@pytest.fixture(scope="module")
def built(source, tmp_path_factory):
    """A source archive, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    """The wheel, opened."""
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.mark.saved_model
def test_the_wheel_holds_the_package_the_page_and_the_sample_and_nothing_else(wheel):
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    paths = [*(ROOT / "nmt_keras").rglob("*.py"), *(ROOT / "serve").rglob("*.py"), *(ROOT / "serve/web").iterdir()]
    files = {re.sub("^serve/", "nmt_keras_serve/", path.relative_to(ROOT).as_posix()) for path in paths}
    assert {"nmt_keras/layers/attention.py", "nmt_keras_serve/rest/app.py", "nmt_keras_serve/web/index.html"} <= files
    assert held == files | {"nmt_keras/corpus/sample.tsv.gz", "nmt_keras/py.typed", "nmt_keras_serve/py.typed"}


@pytest.mark.saved_model
def test_the_wheel_has_the_command_the_version_and_the_extras(wheel):
    (info,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    metadata = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
    assert metadata["Version"] == nmt_keras.__version__
    extras = {"gpu", "serving", "beam", "notebooks", "docs", "dev"}
    assert set(metadata.get_all("Provides-Extra")) == extras
    assert 'tensorflow[and-cuda]<2.22,>=2.20; extra == "gpu"' in metadata.get_all("Requires-Dist")
    entries = configparser.ConfigParser()
    entries.read_string(wheel.read(f"{info}/entry_points.txt").decode())
    assert dict(entries["console_scripts"]) == {"nmt": "nmt_keras.cli:main"}
    assert f"{info}/licenses/LICENSE" in wheel.namelist()


@pytest.mark.saved_model
def test_the_wheel_runs_by_itself(wheel, tmp_path):
    wheel.extractall(tmp_path / "installed")
    check = (
        "import nmt_keras, sys; from pathlib import Path; from nmt_keras_serve.server import WEB; "
        "from nmt_keras.corpus.sample import sample_pairs; "
        "assert Path(nmt_keras.__file__).parents[1] == Path(sys.argv[1]); "
        "assert WEB == Path(sys.argv[1], 'nmt_keras_serve', 'web'); assert (WEB / 'index.html').exists(); "
        "assert sample_pairs(); "
        "from nmt_keras.cli import main; main(['recipes'])"
    )
    command = [sys.executable, "-c", check, str(tmp_path / "installed")]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "installed")}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "rnnsearch-small" in done.stdout


@pytest.mark.saved_model
def test_the_source_archive_holds_all_that_tests_and_documentation_read(source, built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "tests/repository/test_packaging.py",
        "tests/conftest.py",
        "tests/reference.py",
        "serve/deploy/compose.yaml",
    } <= held
    assert {"Dockerfile", "CHANGELOG.md", "pyproject.toml"} <= held
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    read = {path.as_posix() for path in files if not path.parts[0].endswith(".egg-info")}
    assert {".dockerignore", ".github/workflows/tests.yml", "docs/index.md", "notebooks/colab.py"} <= read
    assert not read - held


def test_a_release_s_readme_has_no_link_that_the_package_index_cannot_resolve(tmp_path):
    page = (ROOT / "docs/releasing.md").read_text("utf-8")
    (command,) = re.findall(r"^ +(sed (?:.*\\\n)*.*)$", page, re.MULTILINE)
    shutil.copy(ROOT / "README.md", tmp_path)
    before, home = (ROOT / "README.md").read_text("utf-8"), PROJECT["urls"]["Homepage"]
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    after = (tmp_path / "README.md").read_text("utf-8")
    # a release's own README has been rewritten already, with its version
    raw = re.compile(re.escape(home.replace("github.com", "raw.githubusercontent.com")) + "/v[^/]+/")
    page_of = re.compile(re.escape(home) + "/blob/v[^/]+/")
    pictures = re.findall(r'!\[[^]]*\]\(([^)]+)|src="([^"]+)', after)
    assert len(pictures) == len(re.findall(r"!\[|<img", before)) > 2
    for picture in map("".join, pictures):
        assert raw.match(picture)
        assert (ROOT / raw.sub("", picture)).is_file()
    for link in re.findall(r"(?<!!)\[[^]]*\]\(([^)]+)", after):
        assert link.startswith("https://")
        assert not link.startswith(home) or (ROOT / page_of.sub("", link)).exists()


@pytest.mark.parametrize("file", sorted(ROOT.glob("requirements*.txt")), ids=lambda file: file.name)
def test_every_pin_lies_within_the_ranges_of_the_package(file):
    known = ranges()
    for name, version in pins(file).items():
        for requirement in known.get(name, []):
            assert requirement.specifier.contains(version), (
                f"{name}=={version} in {file.name}, {requirement} in pyproject"
            )


def test_every_dependency_of_the_package_is_pinned():
    pinned = pins(ROOT / "requirements.txt")
    assert {Requirement(line).name.lower() for line in PROJECT["dependencies"]} <= set(pinned)


def test_the_serving_extra_names_what_the_package_needs_anyhow():
    assert set(PROJECT["optional-dependencies"]["serving"]) <= set(PROJECT["dependencies"])


def test_the_dev_extra_holds_all_that_tests_and_linters_need():
    listed = {Requirement(line).name.lower() for line in PROJECT["optional-dependencies"]["dev"]}
    files = ("requirements-dev.txt", "requirements-test.txt", "requirements-notebooks.txt")
    assert {name for file in files for name in pins(ROOT / file) if not name.startswith("-r")} <= listed


def test_the_container_copies_what_is_there_and_what_is_not_ignored():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(names) == allowed
    assert all((ROOT / name).exists() for name in names)
