"""The package: what its wheel holds, what it says of itself, and that pins, ranges and files agree."""

from __future__ import annotations

import email
import itertools
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
    assert held == files | {"nmt_keras/py.typed", "nmt_keras_serve/py.typed"}


@pytest.mark.saved_model
def test_the_wheel_has_the_command_the_version_the_extras_and_the_licence(wheel):
    (info,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    metadata = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
    assert metadata["Version"] == nmt_keras.__version__
    assert set(metadata.get_all("Provides-Extra")) == {"gpu", "serving", "beam", "notebooks", "docs", "dev"}
    assert b"nmt = nmt_keras.cli:main" in wheel.read(f"{info}/entry_points.txt")
    assert f"{info}/licenses/LICENSE" in wheel.namelist()


@pytest.mark.saved_model
def test_the_wheel_runs_by_itself(wheel, tmp_path):
    wheel.extractall(tmp_path / "installed")
    check = (
        "import nmt_keras; from nmt_keras_serve.server import WEB; from nmt_keras.corpus.sample import sample_pairs; "
        "assert (WEB / 'index.html').exists(); assert sample_pairs(); print(nmt_keras.__file__, WEB); "
        "from nmt_keras.cli import main; main(['recipes'])"
    )
    command, environment = [sys.executable, "-c", check], {"PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"{tmp_path}/installed/") == 2
    assert "rnnsearch-small" in done.stdout


@pytest.mark.saved_model
def test_the_source_archive_holds_everything_that_tests_and_documentation_read(source, built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    assert not {path.as_posix() for path in files if not path.parts[0].endswith(".egg-info")} - held


BADGES = (
    "https://colab.research.google.com/assets/",
    "https://img.shields.io/",
    f"{PROJECT['urls']['Homepage']}/actions/",
)


def test_a_release_s_readme_has_no_link_that_the_package_index_cannot_resolve(tmp_path):
    page = (ROOT / "docs/releasing.md").read_text("utf-8")
    (command,) = re.findall(r"^ +(sed (?:.*\\\n)*.*)$", page, re.MULTILINE)
    shutil.copy(ROOT / "README.md", tmp_path)
    before, home = (ROOT / "README.md").read_text("utf-8"), PROJECT["urls"]["Homepage"]
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    after = (tmp_path / "README.md").read_text("utf-8")
    raw = home.replace("github.com", "raw.githubusercontent.com")
    pictures = [
        picture for pair in re.findall(r'!\[[^]]*\]\(([^)]+)|src="([^"]+)', after) for picture in pair if picture
    ]
    assert len(pictures) == len(re.findall(r"!\[|<img", before))
    assert all(picture.startswith((raw, *BADGES)) for picture in pictures)
    for link in [*pictures, *re.findall(r"\]\(([^)]+)", after)]:
        assert link.startswith("https://")
        file = re.sub(f"^(?:{raw}|{home}/blob)/v[^/]+/", "", link)  # a release's README holds its version already
        assert file == link or (ROOT / file).exists(), link


@pytest.mark.parametrize("file", sorted(ROOT.glob("requirements*.txt")), ids=lambda file: file.name)
def test_every_pin_lies_within_the_ranges_of_the_package(file):
    pinned = pins(file)
    extras = PROJECT["optional-dependencies"].values()
    for requirement in map(Requirement, itertools.chain(PROJECT["dependencies"], *extras)):
        version = pinned.get(requirement.name.lower())
        assert version is None or requirement.specifier.contains(version), f"{requirement}: {version}"


def test_every_dependency_of_the_package_is_pinned():
    pinned = pins(ROOT / "requirements.txt")
    assert {Requirement(line).name.lower() for line in PROJECT["dependencies"]} <= set(pinned)
