"""Lints the prose of docstrings, help texts and documentation: ``python tests/prose.py``.

A docstring that begins with a question word is an error. Phrases that hide the subject of a sentence are warnings.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("nmt_keras", "serve", "benchmarks", "notebooks", "docs")
QUESTION = re.compile(r"(What|Whether|How|Of|Why|Which|Who|Where|When)\b")
PHRASE = re.compile(
    r"\b([Nn]obody|[Ss]omebody|[Ww]hoever|[Aa]s it were|[Aa]t the (?:most|least)|"
    r"[Tt]hat one(?=[.,;:)]|$| (?:is|has|was)))\b"
)


def questions(source):
    """Yields the line and the first line of each docstring in Python code that begins with a question word."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)), lineno=line) if QUESTION.match(text.strip()):
                yield f"{line}: {text.strip().splitlines()[0]}"


def phrases(text):
    """Yields the line and the phrase of each unclear phrase."""
    for number, line in enumerate(text.splitlines(), start=1):
        yield from (f"{number}: {found[0]}" for found in PHRASE.finditer(line))


def files(*suffixes):
    """Returns the files of the project's prose with one of these suffixes."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    return sorted([*found, *(path for path in ROOT.glob("*") if path.suffix in suffixes)])


def found_in(paths, check):
    """Returns the findings of a check in files, each with the name of its file."""
    return [f"{path.relative_to(ROOT)}:{one}" for path in paths for one in check(path.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    for warning in found_in(files(".py", ".ipynb", ".md", ".html", ".js"), phrases):
        print(f"{warning}: unclear, see Style in CONTRIBUTING.md")
    errors = found_in(files(".py"), questions)
    sys.exit("\n".join(f"{error}: begin with what the object is or does" for error in errors) or 0)
