"""Griffe extension that converts two notations of this project.

A comment after a field of a record becomes the docstring of the field. Sphinx's roles, such as
:func:`~nmt_keras.search.beam_search`, become links to other objects.
"""

from __future__ import annotations

import io
import re
import tokenize
from typing import Any

import griffe

SHAPE = re.compile(r"(?:\[[^\[\]]*\])+")
NESTED = re.compile(r"(?<!`)\[\w+\]\[\w+\](?!`)")
"""Lists of lists, such as [T][S], which Markdown would read as a link."""
ROLE = re.compile(r":(?:func|class|meth|mod):`(~?)([\w.]+)`")


class Docstrings(griffe.Extension):
    """Converts roles to cross-references, and the comment after a field to its docstring."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Sets the docstring of a field without one to its comment."""
        of_class = attr.parent is not None and attr.parent.is_class and attr.lineno is not None
        if attr.docstring is None and of_class and (found := comment(attr.lines)):
            attr.docstring = griffe.Docstring(found, lineno=attr.lineno, endlineno=attr.endlineno, parent=attr)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Replaces the roles in all docstrings, after all names have been loaded."""
        link(pkg)


def comment(lines: list[str]) -> str:
    """Returns the comment after a statement, with shapes as code, or "" if there is none."""
    tokens = tokenize.generate_tokens(io.StringIO("".join(f"{line}\n" for line in lines)).readline)
    found = " ".join(token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT)
    return SHAPE.sub(r"`\g<0>`", found)


def link(parent: griffe.Object) -> None:
    """Replaces the roles in the docstrings of ``parent`` and of all objects inside it."""
    if parent.docstring is not None:
        scope = parent
        text = NESTED.sub(r"`\g<0>`", parent.docstring.value)
        parent.docstring.value = ROLE.sub(lambda role: reference(role, scope), text)
    for member in parent.members.values():
        if isinstance(member, griffe.Object):
            link(member)


def reference(role: re.Match[str], scope: griffe.Object) -> str:
    """Returns a role as an autorefs link to the object. A "~" in the role shortens the name that is shown."""
    short, name = role.groups()
    try:
        path = scope.resolve(name)
    except griffe.NameResolutionError:
        path = name
    shown = name.rpartition(".")[2] if short else name
    return f"[`{shown}`][{path}]"
