"""Converts equations to MathML when the site is built. Pages need no script, and screen readers can read them."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Replaces each equation marked by Arithmatex. Raises PluginError if one cannot be converted."""
    found = EQUATION.sub(_mathml, content)
    if 'class="arithmatex"' in found:
        raise PluginError(f"{page.file.src_path}: an equation could not be converted to MathML.")
    return found


def _mathml(found: re.Match[str]) -> str:
    latex = html.unescape(found[2]).strip()
    if found[1] == "div":
        return f'<div class="equation">{convert(latex, display="block")}</div>'
    return convert(latex)
