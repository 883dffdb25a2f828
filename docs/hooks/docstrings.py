"""Reads our docstrings as the reference shows them: a Griffe extension.

Two habits of this package are not Griffe's: a record's field is described by the comment behind it, and other objects
are named by Sphinx's roles, such as :func:`~nmt_keras.search.beam_search`.
"""

from __future__ import annotations

import io
import re
import tokenize
from typing import Any

import griffe

SHAPE = re.compile(r"(?:\[[^\[\]]*\])+")
NESTED = re.compile(r"(?<!`)\[\w+\]\[\w+\](?!`)")
"""[T][S], lists of lists, which Markdown would take for a link."""
ROLE = re.compile(r":(?:func|class|meth|mod):`(~?)([\w.]+)`")


class Docstrings(griffe.Extension):
    """Turns roles into cross-references, and the comment behind a field into its docstring."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Describes a field that has no docstring by its comment."""
        of_class = attr.parent is not None and attr.parent.is_class and attr.lineno is not None
        if attr.docstring is None and of_class and (found := comment(attr.lines)):
            attr.docstring = griffe.Docstring(found, lineno=attr.lineno, endlineno=attr.endlineno, parent=attr)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Links what docstrings name, once all names are known."""
        link(pkg)


def comment(lines: list[str]) -> str:
    """The comment behind a statement, with its shapes as code; "" where there is none."""
    tokens = tokenize.generate_tokens(io.StringIO("".join(f"{line}\n" for line in lines)).readline)
    found = " ".join(token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT)
    return SHAPE.sub(r"`\g<0>`", found)


def link(parent: griffe.Object) -> None:
    """Replaces the roles in the docstrings of ``parent`` and of everything below it."""
    if parent.docstring is not None:
        scope = parent
        text = NESTED.sub(r"`\g<0>`", parent.docstring.value)
        parent.docstring.value = ROLE.sub(lambda role: reference(role, scope), text)
    for member in parent.members.values():
        if isinstance(member, griffe.Object):
            link(member)


def reference(role: re.Match[str], scope: griffe.Object) -> str:
    """A role as an autorefs link to the object's full name, under its short name where a "~" asks for it."""
    short, name = role.groups()
    try:
        path = scope.resolve(name)
    except griffe.NameResolutionError:
        path = name
    shown = name.rpartition(".")[2] if short else name
    return f"[`{shown}`][{path}]"
