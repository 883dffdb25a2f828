"""Sets equations as MathML while the site is built: browsers draw it, screen readers read it, no script is loaded."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Replaces what Arithmatex left of each equation; one that is left over ends the build."""
    found = EQUATION.sub(_mathml, content)
    if 'class="arithmatex"' in found:
        raise PluginError(f"{page.file.src_path}: expected every equation to become MathML, one did not.")
    return found


def _mathml(found: re.Match[str]) -> str:
    latex = html.unescape(found[2]).strip()
    if found[1] == "div":
        return f'<div class="equation">{convert(latex, display="block")}</div>'
    return convert(latex)
