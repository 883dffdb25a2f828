"""Lists phrases that hide the subject of a sentence, and docstrings that ask: ``python tests/prose.py``."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("nmt_keras", "serve", "benchmarks", "notebooks", "docs", "tests")
PHRASE = re.compile(
    r"\b[Nn]obody|\b[Ss]omebody|\b[Ww]hoever|\b[Aa]s it were|\b[Aa]t the (?:most|least)\b|"
    r"\b[Tt]hat one(?=[.,;:)]|$| (?:is|has|was)\b)|"
    r'^\s*"""(?:What|Whether|How|Of|Why|Which|Who|Where|When)\b'
)

if __name__ == "__main__":
    files = [*ROOT.glob("*"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0].strip()}: name the subject, see Style in CONTRIBUTING.md"
        for path in sorted(files)
        if path.suffix in (".py", ".ipynb", ".md", ".html", ".js")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (match := PHRASE.search(line))
    ]
    sys.exit("\n".join(found) or 0)
