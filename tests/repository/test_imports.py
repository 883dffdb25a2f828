"""The architecture: packages in rows, imports that point to lower rows, and no cycles."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ROWS = [
    ["config", "files", "markdown"],
    ["text", "corpus", "layers", "plotting", "recipes"],
    ["models"],
    ["search"],
    ["translation"],
    ["evaluation", "export"],
    ["training"],
    ["runs"],
    ["pipelines", "demo"],
    ["cli"],
    ["__main__"],
]
"""Packages from the lowest row to the highest. A package imports only packages of lower rows, and NEIGHBOURS."""
NEIGHBOURS = {("corpus", "text")}
TENSORFLOW_FREE = [
    "__main__",
    "cli",
    "config",
    "corpus",
    "corpus.alignments",
    "corpus.archive",
    "corpus.batches",
    "corpus.download",
    "corpus.filtering",
    "corpus.prefetching",
    "corpus.reading",
    "corpus.sample",
    "corpus.split",
    "evaluation.metrics",
    "files",
    "plotting",
    "recipes",
    "translation.word_alignment",
]


def modules(package):
    """Every module of a package, by its dotted name below the package; the package itself is the empty name."""
    folder = ROOT / package
    found = {}
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text("utf-8"))
    return found


def imports(tree):
    """The dotted names that a module imports, wherever in it the import stands, as ``module`` or ``module.name``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute here"
            yield from (f"{node.module}.{name.name}" for name in node.names)


def at_import(tree):
    """The statements that run when a module is imported: no function's or method's body, nothing for type checkers."""
    kept = [
        ast.Module([part for part in node.body if not isinstance(part, ast.FunctionDef)], [])
        if isinstance(node, ast.ClassDef)
        else node
        for node in for_running(tree).body
        if not isinstance(node, ast.FunctionDef)
    ]
    return ast.Module(kept, [])


def for_running(tree):
    """The module without the imports that only type checkers see."""
    kept = [node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))]
    return ast.Module(kept, [])


def top(name):
    """``tensorflow`` of ``tensorflow.keras``."""
    return name.split(".")[0]


OURS = modules("nmt_keras")
ROW_OF = {unit: number for number, row in enumerate(ROWS) for unit in row}


def our_imports(tree):
    """The modules of nmt_keras that a module imports, by their longest known name; the package itself is left out."""
    for name in imports(tree):
        parts = name.split(".")
        if parts[0] == "nmt_keras":
            known = [n for n in range(1, len(parts) + 1) if ".".join(parts[1:n]) in OURS]
            if target := ".".join(parts[1 : max(known)]):
                yield target


def test_every_package_has_its_row():
    assert {top(name) for name in OURS if name} == set(ROW_OF)


@pytest.mark.parametrize("module", sorted(name for name in OURS if name))
def test_a_module_imports_only_packages_of_lower_rows(module):
    here = top(module)
    for name in our_imports(OURS[module]):
        there = top(name)
        allowed = there == here or ROW_OF[there] < ROW_OF[here] or (here, there) in NEIGHBOURS
        assert allowed, f"{module} imports {name}"


def test_no_modules_import_each_other_in_a_cycle():
    graph = {name: {*our_imports(for_running(tree))} - {name} for name, tree in OURS.items()}
    graph["cli.completion"].remove("cli")  # a command that completes every command, itself included
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_the_package_imports_none_of_its_modules_until_they_are_asked_for():
    assert list(our_imports(at_import(OURS[""]))) == []


def importers(trees, imported):
    """The modules that import a package."""
    return {name for name, tree in trees.items() if imported in {top(name) for name in imports(tree)}}


def test_only_the_command_line_and_the_demo_import_the_server_and_client():
    assert {top(name) for name in importers(OURS, "nmt_keras_serve")} <= {"cli", "demo"}
    assert importers(OURS, "serve") == set()


def test_only_the_tokenizers_import_tensorflow_text():
    assert {top(name) for name in importers(OURS, "tensorflow_text")} == {"text"}


def test_figures_are_made_without_pyplot_and_its_global_state():
    assert not [name for name, tree in OURS.items() if any("pyplot" in imported for imported in imports(tree))]


@pytest.mark.parametrize("module", TENSORFLOW_FREE)
def test_importing_what_needs_no_tensorflow_imports_none(module):
    waiting, seen = [module], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        tree = at_import(OURS[name])
        assert not {"tensorflow", "keras", "tensorflow_text"} & {top(i) for i in imports(tree)}, name
        parents = [".".join(name.split(".")[:n]) for n in range(name.count(".") + 1)]
        waiting += [*our_imports(tree), *parents]
