"""Writes the tables of measurements in the documentation, from the JSON printed by the benchmarks.

    python -m benchmarks.train_speed ... > docs/measured/train-speed-256.json
    python -m benchmarks.measured

The field "shown" of docs/measured/NAME.json is written between ``<!-- measured: NAME -->`` and ``<!-- end -->``, with
command, machine and date. It is a list of paragraphs and tables. A table is a list of rows, which have a value for each
column. If the field "removed" is set, the command has been removed and the file is named instead. ``NAME.FIELD``
inserts another field as it is: lines of output, or JSON on one line. If the file docs/measured/NAME.template exists, it
is inserted instead, with its fields ``{FILE[...]}`` filled in from docs/measured/FILE.json or
docs/results/alignments/FILE.json.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt_keras.markdown import table

DOCS = Path(__file__).parents[1] / "docs"
MEASURED, ALIGNMENTS = DOCS / "measured", DOCS / "results" / "alignments"
PAGES = (
    *(DOCS.parent / name for name in ("README.md", "serve/README.md")),
    ALIGNMENTS / "README.md",
    *(DOCS / f"{name}.md" for name in ("tutorial", "speed")),
    *(
        DOCS / "guides" / f"{name}.md"
        for name in ("check", "migrating", "own-corpus", "share", "train-on-a-gpu", "wmt14")
    ),
)
BLOCK = re.compile(r"(?P<begin><!-- measured: (?P<name>[\w.-]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def rows_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the table of ``rows``. All fractions of a column have equally many decimals. A list is one cell."""
    columns = list(rows[0])
    decimals = {
        column: max(
            (
                len(str(one).partition(".")[2])
                for row in rows
                for one in (row[column] if isinstance(row[column], list) else [row[column]])
                if isinstance(one, float)
            ),
            default=0,
        )
        for column in columns
    }
    return table(columns, ([_cell(row[column], decimals[column]) for column in columns] for row in rows))


def _cell(value: Any, decimals: int) -> str:
    match value:
        case None:
            return ""
        case list():
            return " · ".join(_cell(one, decimals) for one in value)
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.{decimals}f}"
    return str(value)


class Results(dict[str, Any]):
    """Contents of the JSON files of measurements and alignments, by name, for ``str.format_map``."""

    def __missing__(self, name: str) -> Any:
        path = MEASURED / f"{name}.json"
        return json.loads((path if path.exists() else ALIGNMENTS / path.name).read_text(encoding="utf-8"))


def block(name: str) -> str:
    """Returns the tables of docs/measured/NAME.json with command, machine and date, or the filled NAME.template."""
    if (template := MEASURED / f"{name}.template").exists():
        return template.read_text(encoding="utf-8").format_map(Results())
    stem, _, field = name.partition(".")
    found = Results()[stem]
    if field:
        value = found[field]
        lines = value if isinstance(value, list) else [json.dumps(value, ensure_ascii=False)]
        return "".join(f"    {line}".rstrip() + "\n" for line in lines)
    command = re.sub(r"(?<=\s)/\S*/(\S+)", r"\1", found["command"])  # without paths of the machine
    where = ", ".join(
        (
            f"{found['cores']} core{'s' * (found['cores'] > 1)}",
            " ".join((found["cpu"], *found.get("flags", ()))),
            *(f"transparent huge pages: {pages}" for pages in (found.get("transparent_hugepages"),) if pages),
            found["date"][:10],
            f"TensorFlow {found['libraries']['tensorflow']}",
        )
    )
    shown = [one if isinstance(one, str) else rows_table(one) for one in found["shown"]]
    once = f"Measured once on {where}; data: `docs/measured/{stem}.json`.\n"
    return "\n\n".join([*shown, once if found.get("removed") else f"`{command}`; {where}.\n"])


def written(page: str) -> str:
    """Returns a page with its tables updated."""
    return BLOCK.sub(lambda found: found["begin"] + "\n" + block(found["name"]) + found["end"], page)


def main() -> None:
    for page in PAGES:
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
