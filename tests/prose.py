"""Lints the prose of docstrings, help texts and documentation: ``python tests/prose.py``.

A docstring that begins with a question word is an error. Phrases that hide the subject of a sentence are warnings.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("nmt_keras", "serve", "benchmarks", "notebooks", "docs", "tests")
NOT_PROSE = ROOT / "tests/repository/test_words.py"  # contains unclear phrases as the input of tests
QUESTION = re.compile(r"(What|Whether|How|Of|Why|Which|Who|Where|When)\b")
PHRASE = re.compile(
    r"\b([Nn]obody|[Ss]omebody|[Ww]hoever|[Aa]s it were|[Aa]t the (?:most|least)|"
    r"[Tt]hat one(?=[.,;:)]|$| (?:is|has|was)))\b"
)


def questions(source):
    """Yields the line number and first line of each docstring in Python code that begins with a question word."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)), lineno=line) if QUESTION.match(text.strip()):
                yield f"{line}: {text.strip().splitlines()[0]}"


def phrases(text):
    """Yields the line number and the text of each unclear phrase."""
    for number, line in enumerate(text.splitlines(), start=1):
        yield from (f"{number}: {found[0]}" for found in PHRASE.finditer(line))


def files(*suffixes):
    """Returns the linted files with one of these suffixes."""
    found = [*ROOT.glob("*"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    return sorted(path for path in found if path.suffix in suffixes and path != NOT_PROSE)


def found_in(paths, check):
    """Returns the findings of a check in files. Each begins with the name of its file."""
    return [f"{path.relative_to(ROOT)}:{one}" for path in paths for one in check(path.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    for warning in found_in(files(".py", ".ipynb", ".md", ".html", ".js"), phrases):
        print(f"{warning}: unclear, see Style in CONTRIBUTING.md")
    errors = found_in(files(".py"), questions)
    sys.exit("\n".join(f"{error}: begin with what the object is or does" for error in errors) or 0)
