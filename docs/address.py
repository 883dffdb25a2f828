#!/usr/bin/env python3
"""Replaces the repository's address in all files of a clone:  make address URL=https://github.com/OWNER/NAME

The address also appears in links to Colab, to raw files and to the site OWNER.github.io/NAME, in workflows, and in the
code of notebooks, whose cells store a hash of their source.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
HASH = "executed_source_sha256"


def owner_and_name(url: str) -> tuple[str, str]:
    """Returns the owner and the name in the address of a repository on GitHub, which Colab and Pages need."""
    found = re.fullmatch(r"https://github\.com/([\w-]+)/([\w.-]+)", url)
    if found is None:
        raise SystemExit(f"URL must have the form https://github.com/OWNER/NAME. Received: {url!r}.")
    return found[1], found[2]


def current() -> str:
    """Returns the address in pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Homepage"]


def replaced(text: str, old: str, new: str) -> str:
    """Returns ``text`` with the address ``new`` instead of ``old``, and a notebook with the new hashes of its cells."""
    (owner, name), (new_owner, new_name) = owner_and_name(old), owner_and_name(new)
    after = text
    for found, put in (
        (f"{owner}/{name}", f"{new_owner}/{new_name}"),
        (f"{owner.lower()}.github.io/{name}", f"{new_owner.lower()}.github.io/{new_name}"),
    ):
        after = re.sub(rf"(?<=[/'\"]){re.escape(found)}(?![\w-])", put, after)
    if after != text and text.startswith('{\n "cells"'):
        for cells in zip(json.loads(text)["cells"], json.loads(after)["cells"], strict=True):
            before, now = (hashlib.sha256("".join(cell["source"]).encode()).hexdigest() for cell in cells)
            if cells[0]["metadata"].get(HASH) == before:
                after = after.replace(before, now)
    return after


def texts(phrase: str) -> dict[Path, str]:
    """Returns the text files of the clone that contain ``phrase``."""
    command = ["git", "grep", "--files-with-matches", "--null", "-I", "-i", "--fixed-strings", phrase]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return {ROOT / name: (ROOT / name).read_text("utf-8") for name in listed.split("\0") if name}


def main() -> None:
    """Replaces the address in pyproject.toml, wherever it appears, by the argument."""
    old, new = current(), sys.argv[1].rstrip("/").removesuffix(".git")
    for path, text in texts(owner_and_name(old)[0]).items():
        if (after := replaced(text, old, new)) != text:
            path.write_text(after, "utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
