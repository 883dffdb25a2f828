"""The architecture: packages are in rows, imports go to lower rows, and there are no cycles."""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter

import pytest
from servers import ROOT

ROWS = [
    ["version"],
    ["io", "cores"],
    ["config", "languages", "markdown"],
    ["text", "corpus", "layers", "manifest", "plotting", "recipes"],
    ["models"],
    ["search"],
    ["translation"],
    ["evaluation", "export"],
    ["training", "browser"],
    ["runs"],
    ["pipelines", "demo", "check"],
    ["cli"],
    ["__main__"],
]
"""Packages from the lowest row to the highest. Packages import only lower rows, except for ``NEIGHBOURS``."""
NEIGHBOURS = {("corpus", "text")}
TENSORFLOW_FREE = [
    "cli",
    "config",
    "corpus",
    "corpus.alignments",
    "corpus.batches",
    "corpus.download",
    "corpus.filtering",
    "corpus.reading",
    "corpus.sample",
    "corpus.selection",
    "corpus.split",
    "evaluation.metrics",
    "languages",
    "manifest",
    "plotting",
    "recipes",
]
"""Modules that are imported without TensorFlow, so that ``nmt --help`` is quick and small machines can read corpora."""


def modules(package):
    """Returns the syntax trees of a package's modules, by their dotted names below the package."""
    found = {}
    for path in (ROOT / package).rglob("*.py"):
        parts = path.relative_to(ROOT / package).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text("utf-8"))
    return found


def when_running(tree):
    """Returns the syntax tree of a module without the imports for type checkers."""
    typing = [node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    return ast.Module([node for node in tree.body if node not in typing], [])


def imports(tree):
    """Yields the names that a module imports, as ``module`` or ``module.name``. Includes imports in functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute here"
            yield from (f"{node.module}.{name.name}" for name in node.names)


OURS = modules("nmt_keras")
ROW_OF = {unit: number for number, row in enumerate(ROWS) for unit in row}


def our_imports(tree):
    """Yields the modules of nmt_keras that a module imports, by their longest known name, except the package itself."""
    for name in imports(tree):
        parts = name.split(".")
        if parts[0] == "nmt_keras":
            known = [n for n in range(1, len(parts) + 1) if ".".join(parts[1:n]) in OURS]
            if target := ".".join(parts[1 : max(known)]):
                yield target


@pytest.mark.parametrize("module", sorted(name for name in OURS if name))
def test_a_module_imports_only_packages_of_lower_rows(module):
    here = module.split(".")[0]
    for name in our_imports(OURS[module]):
        there = name.split(".")[0]
        allowed = there == here or ROW_OF[there] < ROW_OF[here] or (here, there) in NEIGHBOURS
        assert allowed, f"{module} imports {name}"


def test_no_modules_import_each_other_in_a_cycle():
    graph = {name: {*our_imports(when_running(tree))} - {name} for name, tree in OURS.items()}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_the_server_imports_only_input_and_output_of_the_library():
    absolute = [
        node.module or ""
        for tree in modules("serve").values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 0
    ]
    ours = {name for name in absolute if name.split(".")[0] == "nmt_keras"}
    assert ours == {name for name in ours if name.startswith("nmt_keras.io.")}


def test_only_the_commands_serve_and_export_import_the_server():
    """``export`` reads the files of the page."""
    importing = {
        name for name, tree in OURS.items() if any(each.startswith("nmt_keras_serve") for each in imports(tree))
    }
    assert importing == {"cli.runs"}


@pytest.mark.parametrize(
    ("names", "unwanted"),
    [
        ([f"nmt_keras.{name}" for name in OURS if name.startswith("io.")], {"tensorflow", "keras", "numpy", "tyro"}),
        (
            [f"nmt_keras.{name}" for name in TENSORFLOW_FREE],
            {"tensorflow", "keras", "matplotlib.pyplot", "nmt_keras_serve"},
        ),
    ],
)
def test_modules_that_read_text_or_options_import_no_large_package(names, unwanted):
    program = f"import sys, {', '.join(names)}; print({unwanted} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, text=True) == "set()\n"
