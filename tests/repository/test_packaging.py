"""The package: contents and metadata of the wheel, and agreement of locks, version ranges and files."""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
import yaml
from servers import ROOT

import nmt_keras

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
    *("README.md", "SECURITY.md", "mkdocs.yml", "pyproject.toml"),
    *("requirements", "requirements.txt"),
)
"""Files and folders of the source archive: the package, and everything that its tests and documentation read."""
LEFT = {"tests/__pycache__/conftest.cpython-311.pyc", "notebooks/.ipynb_checkpoints/0-checkpoint.ipynb"}
"""Files that work in a clone leaves behind, and that are in no archive."""
NOT_COPIED = shutil.ignore_patterns("__pycache__", "tls", ".ipynb_checkpoints", ".*_cache")


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
    for name in LEFT:
        (folder / name).parent.mkdir()
        (folder / name).touch()
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
    browser = ROOT / "nmt_keras" / "browser"
    scripts = (path for path in browser.rglob("*.*") if path.suffix in (".js", ".css", ".html"))
    page = (ROOT / "serve/web").iterdir()
    paths = [*(ROOT / "nmt_keras").rglob("*.py"), *scripts, *(ROOT / "serve").rglob("*.py"), *page]
    files = {re.sub("^serve/", "nmt_keras_serve/", path.relative_to(ROOT).as_posix()) for path in paths}
    data = {"corpus/sample.tsv.bz2", "io/sentences.toml", "py.typed", "text/sentencepiece_rules.bin"}
    assert held == files | {f"nmt_keras/{name}" for name in data} | {"nmt_keras_serve/py.typed"}


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
        "from nmt_keras_serve.core import Core; from nmt_keras_serve.limits import Limits; "
        "from nmt_keras_serve.models.repository import Repository; "
        "http_config(None, Core(Repository(list, None), Limits()), 1).get_loop_factory(); "
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
def test_the_source_archive_holds_what_tests_and_documentation_read_without_leftovers(source, built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    assert {path.as_posix() for path in files if not path.parts[0].endswith(".egg-info")} - held == LEFT


RELEASE = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))["jobs"]


def run_step_of_a_release(folder, phrase, version=nmt_keras.__version__, job="build", **variables):
    """Runs the step of a job whose name contains ``phrase``, in ``folder``."""
    (step,) = (step for step in RELEASE[job]["steps"] if phrase in step.get("name", ""))
    environment = {**os.environ, "GITHUB_REF_NAME": f"v{version}", **variables}
    return subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], cwd=folder, env=environment).returncode


def test_a_release_has_the_version_of_its_tag_and_of_the_citation(tmp_path):
    text, version = (ROOT / "CHANGELOG.md").read_text("utf-8"), nmt_keras.__version__
    newest, date = re.findall(r"^## (\d\S*) - (\S+)$", text, re.MULTILINE)[0]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (str(citation["version"]), str(citation["date-released"])) == (newest, date)
    assert re.search(r"version = \{(.*)\}", (ROOT / "docs/index.md").read_text("utf-8"))[1] == newest
    assert json.loads((ROOT / "serve/web/openapi.json").read_text("utf-8"))["info"]["version"] == newest
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


@pytest.mark.parametrize("job", ["github", "test-index", "pypi"])
@pytest.mark.parametrize("changed", [None, "dist/a.whl", "dist/added.whl", "notes/notes.md"])
def test_a_release_publishes_only_the_files_of_its_build(tmp_path, job, changed):
    for name in ("dist/a.whl", "dist/a.tar.gz", "notes/notes.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    output = tmp_path / "output"
    assert run_step_of_a_release(tmp_path, "Record the checksums", GITHUB_OUTPUT=str(output)) == 0
    if changed is not None:
        (tmp_path / changed).write_text("other")
    sums = output.read_text().strip().removeprefix("sums=")
    returned = run_step_of_a_release(tmp_path, "Compare the files", job=job, SUMS=sums)
    assert (returned == 0) == (changed is None)
    assert "build" in RELEASE[job]["needs"]  # otherwise the sums are empty
