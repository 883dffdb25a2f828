"""Markdown of reports and model cards, and its tables in LaTeX."""

import re
from collections.abc import Iterable, Sequence

LATEX = str.maketrans(
    {
        **{c: f"\\{c}" for c in "&%$#_{}"},
        **{c: f"${c}$" for c in "<>|"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"},
    }
)
"""Characters that are special in LaTeX, with the commands that print them."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table. Cells are Markdown; use ``escaped`` for other text."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def escaped(text: str) -> str:
    """Returns ``text`` on one line, with the special characters of Markdown escaped."""
    return " ".join("".join(f"\\{c}" if c in "\\|`*_<[" else c for c in text).split())


def latex_tables(markdown: str) -> str:
    """Returns the tables and notes of a Markdown text as LaTeX, with its headings as comments and without its images.

    The first column of a table is left-aligned, all others right-aligned.
    """
    parts = (part for part in re.split(r"\n{2,}", markdown.strip("\n")) if not part.startswith("!["))
    return "\n".join(
        _latex_table(part)
        if part.startswith("|")
        else "% " + part.lstrip("# ") + "\n"
        if part.startswith("#")
        else _latex(part) + "\n"
        for part in parts
    )


def _latex_table(table: str) -> str:
    head, _, *rows = (" & ".join(map(_latex, line[2:-2].split(" | "))) + r" \\" for line in table.splitlines())
    columns = "l" + "r" * table.partition("\n")[0].count(" | ")
    body = [r"\hline", head, r"\hline", *rows, r"\hline"]
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", *body, r"\end{tabular}", ""])


def _latex(cell: str) -> str:
    """Returns a cell of a Markdown table as LaTeX."""
    return re.sub(r"\\(.)|`", r"\1", cell).translate(LATEX)
