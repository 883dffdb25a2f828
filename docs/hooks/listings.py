"""Inserts the source code of functions and classes into pages, so that the listings are always up to date.

In a page, ``<!-- listing: nmt_keras.layers.losses.masked_cross_entropy -->`` is replaced by the source of this
function. If no object has this name, the build fails.
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

ROOT = Path(__file__).parents[2]
LISTING = re.compile(r"^<!-- listing: ([\w.]+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replaces each listing comment by the source code that it names."""
    return LISTING.sub(lambda found: listing(found[1], page.file.src_path), markdown)


def listing(name: str, where: str) -> str:
    """Returns a fenced block with the source of a function, class or method, and a link to its reference."""
    path, inner = module_of(name, where)
    source = path.read_text(encoding="utf-8")
    node: ast.AST = ast.parse(source)
    for part in inner:
        children = [child for child in ast.iter_child_nodes(node) if getattr(child, "name", None) == part]
        if not children:
            raise PluginError(f"{where}: expected {name} in {path.relative_to(ROOT)}, found no {part}.")
        node = children[-1]
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    lines = source.splitlines()
    begin, end = docstring_lines(node)
    if begin < end:  # keep only the first line of the docstring; the reference shows the rest
        lines[begin - 1] += '"""'
        del lines[begin:end]
    last = (node.end_lineno or node.lineno) - (end - begin)
    code = textwrap.dedent("\n".join(lines[first - 1 : last]))
    title = f"{path.relative_to(ROOT)} · {'.'.join(inner)}"
    public = name.partition("._")[0]  # the reference has no private names, but the class or module that holds them
    return f'```python title="{title}"\n{code}\n```\n\nReference: [`{public}`][{public}].'


def docstring_lines(node: ast.FunctionDef | ast.ClassDef) -> tuple[int, int]:
    """Returns the first and the last line of a docstring. Without a docstring, both are the same line."""
    if ast.get_docstring(node) is None:
        return node.lineno, node.lineno
    docstring = node.body[0]
    return docstring.lineno, docstring.end_lineno or docstring.lineno


def module_of(name: str, where: str) -> tuple[Path, list[str]]:
    """Returns the file of the module that ``name`` begins with, and the names inside the module."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        path = ROOT.joinpath(*parts[:end])
        for candidate in (path.with_suffix(".py"), path / "__init__.py"):
            if candidate.is_file():
                return candidate, parts[end:]
    raise PluginError(f"{where}: expected a name inside a module of this project, received {name}.")
