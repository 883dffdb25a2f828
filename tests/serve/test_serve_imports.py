"""What the modules of serve import."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

SERVE = Path(__file__).parents[2] / "serve"


def dotted(path):
    """A module's name below serve; a package's is that of its folder."""
    parts = path.relative_to(SERVE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for path in SERVE.rglob("*.py")}


def imported(path):
    """The names that a module imports, wherever the import stands; those of serve begin with a dot."""
    folder = path.relative_to(SERVE).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module
        elif isinstance(node, ast.ImportFrom):
            base = [*folder[: len(folder) - node.level + 1], *(node.module.split(".") if node.module else [])]
            for name in node.names:
                module = ".".join([*base, name.name])
                yield f".{module if module in MODULES else '.'.join(base)}"


def test_no_module_imports_itself_through_others():
    graph = {name: {each[1:] for each in imported(path) if each[0] == "."} - {name} for name, path in MODULES.items()}
    assert {"models.repository", "rest.app"} <= graph.keys()
    assert "models.status" in graph["rest.app"]
    list(TopologicalSorter(graph).static_order())  # raises CycleError


def test_modules_import_one_another_relatively_so_that_the_package_can_have_another_name():
    for name, path in MODULES.items():
        assert not {each.split(".")[0] for each in imported(path)} & {"serve", "nmt_keras", "nmt_keras_serve"}, name
