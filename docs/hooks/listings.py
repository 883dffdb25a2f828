"""Adds the file and a link to the reference to the listings of pages; see ``docs/generate.py``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from docs.generate import LISTING, ROOT, module_of, source_of


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replaces each listing. Raises ValueError if no object has its name."""
    return LISTING.sub(listing, markdown)


def listing(found: re.Match[str]) -> str:
    """Returns a fenced block with a title, and a link to the reference."""
    path, inner = module_of(found[1])
    title = f"{path.relative_to(ROOT)} · {'.'.join(inner)}"
    public = found[1].partition("._")[0]  # the reference has no private names, but the class or module that holds them
    return f'```python title="{title}"\n{source_of(found[1])}\n```\n\nReference: [`{public}`][{public}].\n'
