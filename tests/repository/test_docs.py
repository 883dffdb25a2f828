"""The documentation: its snippets run, its commands parse, and the files and tests that it names exist."""

from __future__ import annotations

import functools
import importlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import httpx
import pytest
import tyro
from nmt_keras_serve.options import Options
from servers import ROOT, running_server

from benchmarks.measured import MEASURED
from benchmarks.quality import PLANS, RECIPE
from docs import address, generate
from nmt_keras import cli
from nmt_keras.io.lines import INVISIBLE
from nmt_keras.recipes import RECIPES
from nmt_keras.runs import Run
from notebooks.execute import HASH, source_hash

DOCS = ROOT / "docs"
PAGES = {
    page.relative_to(ROOT).as_posix(): page
    for page in [
        *DOCS.rglob("*.md"),
        *(ROOT / name for name in ("README.md", "serve/README.md", "CONTRIBUTING.md", "SECURITY.md")),
    ]
}
FENCE = re.compile(r"^```(?P<kind>\w+)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^Save this as `(\w+\.py)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CITATION = re.compile(r"([A-Z][\w-]+)(?: et al\.|(?:, [A-Z][\w-]+)+| and [A-Z][\w-]+)\s\(?(19\d\d|20[01]\d|202[0-5])\b")
PROGRAMS = "curl|docker|kubectl|make|mkdir|nmt|pip|pre-commit|python|python3|source"
INDENTED = re.compile(rf"^    (?=(?:\.venv(?:-\w+)?/bin/)?(?:{PROGRAMS})\s)(.+)$", re.MULTILINE)
TARGETS = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
MEASUREMENTS = {
    path.stem: found
    for path in sorted(MEASURED.glob("*.json"))
    if "command" in (found := json.loads(path.read_text("utf-8"))) and not found.get("removed")
}
URL = "http://127.0.0.1:8501"


def blocks(page: Path, kind: str) -> list[str]:
    """Returns the fenced blocks of a kind."""
    text = generate.LISTING.sub("", page.read_text(encoding="utf-8"))
    return [found["text"] for found in FENCE.finditer(text) if found["kind"] == kind]


def commands(page: Path) -> list[str]:
    """Returns the commands of a page's shell blocks and indented lines, without redirections and comments."""
    lines = "".join(blocks(page, "sh")).replace("\\\n", "").splitlines()
    lines += INDENTED.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    return [re.split(r"\s[<>|#]", line)[0].strip() for line in lines if line.strip()]


def requests_of(page: Path) -> list[str]:
    """Returns the ``curl`` commands of a page: with ``-d BODY``, or with ``-fsS`` for a GET."""
    return [command for command in commands(page) if command.startswith("curl ")]


def pages_with(part) -> list[str]:
    return sorted(name for name, page in PAGES.items() if part(page))


def test_the_tests_that_the_page_of_the_papers_names_exist():
    for file, phrases in re.findall(r"`(test_\w+\.py)`(?:: ([^`|]+))?", (DOCS / "papers.md").read_text("utf-8")):
        (path,) = (ROOT / "tests").rglob(file)
        tests = re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
        for phrase in phrases.split(";"):
            name = re.sub(r"[^a-z0-9]+", "_", f"test {phrase.lower()}").strip("_")
            assert any(test.startswith(name) for test in tests), f"{file}: {phrase}"


def test_the_papers_that_the_package_and_its_documentation_cite_are_in_the_references():
    rows = (DOCS / "papers.md").read_text("utf-8").partition("## References")[2].splitlines()
    texts = [path.read_text("utf-8") for path in (*PAGES.values(), *(ROOT / "nmt_keras").rglob("*.py"))]
    cited = {one for text in texts for one in CITATION.findall(text)}
    assert [one for one in cited if not any(row.startswith(f"| {one[0]}") and one[1] in row for row in rows)] == []
    assert len(cited) > 20


def test_pages_show_the_code_as_it_is():
    for path, content in generate.pages().items():
        assert path.read_text("utf-8") == content, f"{path.name}: run python docs/generate.py"


def prose_of(page: Path) -> str:
    """Returns the text of a page or of a notebook without code."""
    text = page.read_text("utf-8")
    if page.suffix == ".ipynb":
        text = "\n\n".join("".join(c["source"]) for c in json.loads(text)["cells"] if c["cell_type"] == "markdown")
    return FENCE.sub("", text)


def anchors(page: Path) -> set[str]:
    """Returns the fragments of a page's headings, as on GitHub, and its own anchors."""
    text = prose_of(page)
    heads = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", "\n".join(re.findall(r"^#+ (.*)$", text, re.MULTILINE)))
    slugs = re.sub(r"[^\w\n -]", "", heads.lower()).replace(" ", "-").split("\n")
    return {*slugs, *re.findall(r'<a id="([^"]+)">', text)}


def test_relative_links_lead_to_files_and_headings():
    listed = subprocess.check_output(["git", "ls-files", "*.md", "*.ipynb"], cwd=ROOT, text=True).split()
    for page in map(ROOT.joinpath, listed):
        here = "../" * (len(page.relative_to(ROOT).parts) - 1)
        text = prose_of(page).replace(f"]({address.current()}/blob/main/", f"]({here}")
        for link, fragment in re.findall(r"\]\((?!https?:|mailto:|data:)([^)#\s]*)(?:#([^)\s]*))?\)", text):
            target = page.parent / link if link else page
            assert target.exists(), f"{page.relative_to(ROOT)}: {link}"
            assert not fragment or fragment in anchors(target), f"{page.relative_to(ROOT)}: {link}#{fragment}"


@pytest.fixture(scope="module")
def workspace(run_folder, tmp_path_factory):
    """Runs and exports with the names in the documentation. All have been trained on the sample corpus."""
    folder = tmp_path_factory.mktemp("workspace")
    for name in ("sample", "second"):
        shutil.copytree(run_folder, folder / "runs" / name)
    run = Run(folder / "runs" / "sample")
    run.export(run.translator(), folder / "saved_models" / "sample")
    for name in ("runs/spa-eng", "saved_models/spa-eng"):
        (folder / name).symlink_to("sample")
    return folder


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras, when it saves a model
@pytest.mark.parametrize("name", pages_with(lambda page: blocks(page, "python")))
def test_the_python_snippets_of_a_page_run_one_after_another(name, workspace, request, monkeypatch, forget_modules):
    monkeypatch.chdir(workspace)
    asks = any(URL in snippet for snippet in blocks(PAGES[name], "python"))
    served = request.getfixturevalue("served") if asks else URL
    names = {"article": "Una frase. Otra frase."}
    for number, snippet in enumerate(blocks(PAGES[name], "python"), start=1):
        code = re.sub(r"^%.*", "", snippet, flags=re.MULTILINE).replace(URL, served)  # Jupyter's magics
        exec(compile(code, f"{name}, snippet {number}", "exec"), names)


@pytest.mark.long
@pytest.mark.parametrize("name", pages_with(commands))
def test_the_commands_of_a_page_parse(name, workspace, monkeypatch, forget_modules):
    monkeypatch.chdir(workspace)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for file, text in FILE.findall(PAGES[name].read_text("utf-8")):
        Path(file).write_text(text)
    for command in commands(PAGES[name]):
        parse(re.sub(r"^\.venv(-\w+)?/bin/", "", command))


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_the_command_of_a_measurement_parses(name):
    command = MEASUREMENTS[name]["command"].removeprefix("XLA_FLAGS=--xla_gpu_autotune_level=0 ")
    assert command.startswith(("nmt ", "python -m "))
    parse(command)


@pytest.mark.parametrize("plan", [*PLANS.values(), *(each["plan"] for each in MEASUREMENTS.values() if "plan" in each)])
def test_the_options_of_a_training_plan_parse(plan):
    options = [word for name, value in plan.items() for word in (f"--{name}", str(value))]
    train = cli.parse(["train", RECIPE, "--corpus", "sample", *options])
    assert train.chosen().train.minutes == plan["minutes"]


@pytest.fixture(scope="module")
def exports_served(workspace):
    """The URL of an embedded server of the workspace's exports."""
    with running_server(workspace / "saved_models") as url:
        yield url


@pytest.mark.long
@pytest.mark.parametrize("name", pages_with(requests_of))
def test_the_requests_of_a_page_are_answered(name, exports_served):
    for command in requests_of(PAGES[name]):
        if command.startswith("curl -fsS "):
            (url,) = shlex.split(command)[2:]
            assert httpx.get(url.replace(URL, exports_served), timeout=60, trust_env=False).status_code == 200, command
            continue
        _, _, body, url = shlex.split(command)
        form = {"Content-Type": "application/x-www-form-urlencoded"}  # the content type of curl -d
        here = url.replace(URL, exports_served)
        answer = httpx.post(here, content=body, headers=form, timeout=60, trust_env=False)
        assert answer.status_code == 200, f"{command}: {answer.text}"
        assert answer.json().keys() == {"predictions" if "instances" in json.loads(body) else "outputs"}


def test_the_server_s_options_stand_on_its_page_with_their_defaults():
    rows = [line.split(" | ") for line in PAGES["serve/README.md"].read_text().splitlines() if line.startswith("| `--")]
    found = {}
    for names, defaults, _ in rows:
        options = re.findall(r"`(--[\w-]+)`", names)
        found |= dict(zip(options, defaults.replace("`", "").split(", "), strict=True))
    told = {None: "none", False: "off"}
    values = asdict(Options(Path("saved_models")))
    values |= values.pop("limits")
    wanted = {
        f"--{name.replace('_', '-')}": told.get(value, f"{value:g}" if isinstance(value, float) else str(value))
        for name, value in values.items()
    }
    assert found == wanted


def parse(command: str) -> None:
    """Parses a command of the project, and finds the files of a cluster that it names."""
    words = shlex.split(command)
    assert all((ROOT / word).exists() for word in words if word.endswith((".yaml", ".yml"))), command
    match words:
        case ["nmt", "--help"] | ["python", "-m", "pytest", *_]:
            pass
        case ["nmt", *arguments]:
            assert type(cli.parse(arguments)).__name__.lower() == arguments[0]
        case ["python", "-m", module, *options]:
            tyro.cli(options_of(module), args=options)
        case ["make", target, *_]:
            assert target in TARGETS


def options_of(module: str) -> Callable[..., object]:
    """Returns the dataclass with the options of a module, or a function with the parameters of its ``main``."""
    found = importlib.import_module(module)
    if hasattr(found, "__path__"):
        found = importlib.import_module(f"{module}.__main__")
    return getattr(found, "Options", None) or functools.wraps(found.main)(lambda *_, **__: None)


def test_the_score_of_notebook_0_is_in_its_outputs():
    (score,) = re.findall(r"BLEU (\d\d\.\d+) on", (ROOT / "docs/guides/migrating.md").read_text("utf-8"))
    cells = json.loads((ROOT / "notebooks/0-nmt-with-attention.ipynb").read_text("utf-8"))["cells"]
    printed = "".join("".join(output.get("text", "")) for cell in cells for output in cell.get("outputs", ()))
    assert re.search(rf"BLEU (?:= )?{re.escape(score)}\b", printed)


def test_a_page_drops_the_invisible_characters_that_sentences_drops():
    (pattern,) = re.findall(r"^const INVISIBLE = /(.*)/gu;$", (DOCS / "guides/web-app.md").read_text("utf-8"), re.M)
    pattern = re.sub(r"\\u\{(\w+)\}", lambda found: chr(int(found[1], 16)), pattern)
    characters = "".join(map(chr, range(sys.maxunicode + 1)))
    assert re.findall(pattern, characters) == re.findall(INVISIBLE, characters)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_files_that_a_page_names_are_there(name):
    named = re.findall(
        r"`((?:benchmarks|docs|nmt_keras|notebooks|serve|tests)/[\w./-]+\.\w+)`", PAGES[name].read_text()
    )
    assert not [file for file in named if not (ROOT / file).exists()]


@pytest.mark.parametrize("path", sorted((ROOT / "nmt_keras/recipes").glob("[!_]*.py")), ids=lambda path: path.name)
def test_the_commands_that_recipes_name_parse(path):
    lines = re.findall(r"^    nmt (train .*)$", path.read_text(), re.MULTILINE)
    assert lines
    for line in lines:
        assert cli.parse(line.split()).recipe in RECIPES


def test_every_address_of_the_repository_is_the_project_s_and_a_new_one_replaces_it():
    old, new = address.current(), "https://github.com/Someone/Some.Thing"
    owner, name = address.owner_and_name(old)
    files = address.texts(f"/{name}")
    assert ROOT / "notebooks/0-nmt-with-attention.ipynb" in files
    for path, text in files.items():
        found = re.findall(rf"github(?:usercontent)?\.com/(?:github/)?([\w-]+)/{name}\b", text)
        found += re.findall(rf"//([\w-]+)\.github\.io/{name}\b", text)
        assert set(found) <= {owner}, path
        after = address.replaced(text, old, new)
        assert not re.search(rf"\b{owner}(/|\.github\.io)", after), path
        assert address.replaced(after, new, old) == text, path
        if path.suffix == ".ipynb":  # a cell whose outputs belong to its code stays so
            assert current_cells(text) == current_cells(after), path


def current_cells(notebook):
    """Returns the cells of a notebook's text that store the hash of their code."""
    cells = json.loads(notebook)["cells"]
    return [cell["id"] for cell in cells if cell["metadata"].get(HASH) == source_hash("".join(cell["source"]))]
