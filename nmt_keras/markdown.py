"""Markdown of reports and model cards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table. Cells are Markdown; use ``escaped`` for other text."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def escaped(text: str) -> str:
    """Returns ``text`` on one line, with the special characters of Markdown escaped."""
    return " ".join("".join(f"\\{c}" if c in "\\|`*_<[" else c for c in text).split())
