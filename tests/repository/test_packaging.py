"""The package: contents and metadata of the wheel, and agreement of locks, version ranges and files."""

from __future__ import annotations

import email
import itertools
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import nmt_keras

ROOT = Path(__file__).parents[2]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, GROUPS = DECLARED["project"], DECLARED["dependency-groups"]
COPIED = (
    *(".github", "benchmarks", "docs", "nmt_keras", "notebooks", "saved_models/spa-eng/1", "serve", "tests"),
    *(
        ".dockerignore",
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "Dockerfile",
        "LICENSE",
        "MANIFEST.in",
        "Makefile",
    ),
    *("README.md", "SECURITY.md", "mkdocs.yml", "nmt_keras_serve.py", "pyproject.toml", "setup.py"),
    *sorted(path.name for path in ROOT.glob("requirements*.txt")),
)
"""Files and folders of the source archive: the package, and everything that its tests and documentation read."""
NOT_COPIED = shutil.ignore_patterns("__pycache__", "tls", ".ipynb_checkpoints", ".*_cache")


LOCKS = sorted(ROOT.glob("requirements*.txt"))


def locked(file: Path) -> list[tuple[Requirement, list[str]]]:
    """Returns the requirements of a lock, each with its hashes."""
    lines = [line for line in file.read_text().replace("\\\n", "").splitlines() if line.partition("#")[0].strip()]
    return [(Requirement(line.partition("--hash")[0]), re.findall(r"--hash=sha256:(\S+)", line)) for line in lines]


def pins(file: Path) -> dict[str, set[str]]:
    """Returns the versions that a lock pins, by name. They may differ by Python version and system."""
    found = defaultdict(set)
    for requirement, _ in locked(file):
        (pin,) = requirement.specifier
        assert pin.operator == "==", requirement
        found[canonicalize_name(requirement.name)].add(pin.version)
    return found


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of the files from which the source archive is built."""
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
    """The folder of a source archive and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    """The opened wheel."""
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.mark.long
def test_the_wheel_holds_the_package_the_page_and_the_sample_and_nothing_else(wheel):
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    paths = [*(ROOT / "nmt_keras").rglob("*.py"), *(ROOT / "serve").rglob("*.py"), *(ROOT / "serve/web").iterdir()]
    files = {re.sub("^serve/", "nmt_keras_serve/", path.relative_to(ROOT).as_posix()) for path in paths}
    assert held == files | {"nmt_keras/py.typed", "nmt_keras/corpus/sample.tsv.bz2", "nmt_keras_serve/py.typed"}


@pytest.mark.long
def test_the_wheel_has_the_command_the_version_the_extras_and_the_licence(wheel):
    (info,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    metadata = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
    assert metadata["Version"] == nmt_keras.__version__
    assert set(metadata.get_all("Provides-Extra")) == {"gpu", "serving", "beam", "notebooks"}
    assert b"nmt = nmt_keras.cli:main" in wheel.read(f"{info}/entry_points.txt")
    assert f"{info}/licenses/LICENSE" in wheel.namelist()


@pytest.mark.long
def test_the_wheel_runs_by_itself(wheel, tmp_path):
    wheel.extractall(tmp_path / "installed")
    check = (
        "import nmt_keras; from nmt_keras_serve.server import WEB, http_config; "
        "from nmt_keras_serve.limits import Limits; http_config(None, Limits(), 1).get_loop_factory(); "
        "from nmt_keras.corpus.sample import sample_pairs; "
        "assert (WEB / 'index.html').exists(); assert sample_pairs(); print(nmt_keras.__file__, WEB); "
        "from nmt_keras.cli import main; main(['recipes'])"
    )
    command, environment = [sys.executable, "-c", check], {"PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"{tmp_path}/installed/") == 2
    assert "rnnsearch-small" in done.stdout


@pytest.mark.long
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


RELEASE = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))["jobs"]


def run_step_of_a_release(folder, phrase, version=nmt_keras.__version__):
    """Runs the step of the job ``build`` whose name contains ``phrase``, in ``folder``."""
    (step,) = (step for step in RELEASE["build"]["steps"] if phrase in step.get("name", ""))
    environment = {**os.environ, "GITHUB_REF_NAME": f"v{version}"}
    return subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], cwd=folder, env=environment).returncode


def test_a_release_s_readme_has_no_link_that_the_package_index_cannot_resolve(tmp_path):
    shutil.copy(ROOT / "README.md", tmp_path)
    before, home = (ROOT / "README.md").read_text("utf-8"), PROJECT["urls"]["Homepage"]
    assert run_step_of_a_release(tmp_path, "links of the README") == 0
    after = (tmp_path / "README.md").read_text("utf-8")
    raw = home.replace("github.com", "raw.githubusercontent.com")
    pictures = [
        picture for pair in re.findall(r'!\[[^]]*\]\(([^)]+)|src="([^"]+)', after) for picture in pair if picture
    ]
    assert len(pictures) == len(re.findall(r"!\[|<img", before))
    assert all(picture.startswith((raw, *BADGES)) for picture in pictures)
    for link in [*pictures, *re.findall(r"\]\(([^)]+)", after)]:
        assert link.startswith("https://")
        file = re.sub(f"^(?:{raw}|{home}/blob)/v[^/]+/", "", link)  # a released README contains its version
        assert file == link or (ROOT / file.partition("#")[0]).exists(), link


def test_a_release_has_the_version_of_its_tag_and_of_the_citation(tmp_path):
    text, version = (ROOT / "CHANGELOG.md").read_text("utf-8"), nmt_keras.__version__
    newest, date = re.findall(r"^## (\d\S*) - (\S+)$", text, re.MULTILINE)[0]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (str(citation["version"]), str(citation["date-released"])) == (newest, date)
    assert re.search(r"version = \{(.*)\}", (ROOT / "docs/index.md").read_text("utf-8"))[1] == newest
    assert version == newest or version.endswith(".dev0")
    shutil.copytree(ROOT / "nmt_keras", tmp_path / "nmt_keras", ignore=shutil.ignore_patterns("*.tsv", "__pycache__"))
    assert run_step_of_a_release(tmp_path, "The tag is") == 0
    assert run_step_of_a_release(tmp_path, "The tag is", "9.9.9") != 0


def test_the_notes_of_a_release_are_the_section_of_its_version(tmp_path):
    sections = ["Unreleased\n\n- Next.", "1.2.0 - 2026-02-03\n\n### New\n\n- A.", "1.1.0 - 2026-01-02\n\n- B."]
    changelog = "".join(f"## {section}\n\n" for section in sections)
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    assert run_step_of_a_release(tmp_path, "of the changelog", "1.2.0") == 0
    assert (tmp_path / "notes/notes.md").read_text().split() == ["###", "New", "-", "A."]
    shutil.rmtree(tmp_path / "notes")
    assert run_step_of_a_release(tmp_path, "of the changelog", "1.3.0") != 0  # it has no section


@pytest.mark.parametrize("file", LOCKS, ids=lambda file: file.name)
def test_every_package_of_a_lock_has_hashes_and_lies_within_the_ranges_of_the_project(file):
    for requirement, hashes in locked(file):
        assert hashes, requirement
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in hashes), requirement
    pinned, extras = pins(file), PROJECT["optional-dependencies"].values()
    groups = [lines for name, lines in GROUPS.items() if name != "tf220" or file.name == "requirements-tf220.txt"]
    for requirement in map(Requirement, itertools.chain(PROJECT["dependencies"], *extras, *groups)):
        for version in pinned.get(canonicalize_name(requirement.name), ()):
            assert requirement.specifier.contains(version), f"{requirement}: {version}"


@pytest.mark.parametrize(
    ("file", "declared"),
    [
        ("requirements.txt", PROJECT["dependencies"]),
        ("requirements-gpu.txt", [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["gpu"]]),
        ("requirements-beam.txt", [*PROJECT["dependencies"], *GROUPS["test"], *GROUPS["beam"]]),
        *((f"requirements-{group}.txt", GROUPS[group]) for group in GROUPS if group != "beam"),
    ],
)
def test_a_lock_pins_everything_that_it_is_made_from(file, declared):
    assert {canonicalize_name(Requirement(line).name) for line in declared} <= set(pins(ROOT / file))


def test_locks_that_share_an_environment_pin_the_same_versions():
    found: defaultdict[str, set[str]] = defaultdict(set)
    for file in ("requirements.txt", "requirements-gpu.txt", "requirements-test.txt", "requirements-dev.txt"):
        for name, versions in pins(ROOT / file).items():
            found[name] |= versions
    assert {name: versions for name, versions in found.items() if len(versions) > 1} == {}


def test_no_lock_names_a_package_index():
    for file in LOCKS:
        assert not re.search(r"index-url|find-links|trusted-host|://", file.read_text()), file.name


def test_workflows_name_actions_by_commit():
    used = [
        line for file in (ROOT / ".github/workflows").glob("*.yml") for line in re.findall("uses: .*", file.read_text())
    ]
    assert used
    assert [line for line in used if not re.fullmatch(r"uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


def test_images_are_named_by_digest():
    files = [ROOT / "Dockerfile", *(ROOT / "serve/deploy").rglob("*.yaml")]
    named = [
        image
        for file in files
        for image in re.findall(r"^\s*(?:image: |ARG BASE=)(\S+)", file.read_text(), re.MULTILINE)
    ]
    assert len(named) > 4
    known = {
        "tensorflow/serving:2.20.0",  # its digest is not known: docs/releasing.md asks for it
        "registry.example.org/spa-eng:2",  # a placeholder for the user's image
    }
    assert {image for image in named if not re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", image)} == known


def test_the_server_s_own_http_protocol_has_a_version_range_on_both_sides():
    declared = {
        Requirement(line).name: Requirement(line).specifier for line in PROJECT["optional-dependencies"]["serving"]
    }
    assert {each.operator for each in declared["uvicorn"]} == {">=", "<"}
    assert {"h11", "anyio"} <= declared.keys()
