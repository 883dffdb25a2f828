"""Makes a parallel corpus from the message catalogues of Debian's packages: English and another language.

    python -m benchmarks.catalogues --language ar --to en-ar.tsv
    nmt train --corpus en-ar.tsv --source-language en --target-language ar

Needs Debian and a network: ``apt-get download`` gets the packages for all architectures that contain catalogues
(``.mo`` files) of the language, a few hundred. Writes one pair per line, and prints the number of packages and pairs.
"""

from __future__ import annotations

import gettext
import gzip
import html
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

MAX_WORDS = 30


@dataclass(frozen=True)
class Settings:
    """Options of the script."""

    language: str
    """Code of the language, such as ar."""
    to: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """TSV file to write."""
    release: str = "bookworm"
    """Name of this machine's Debian release."""
    mirror: str = "https://deb.debian.org/debian"
    """Debian mirror, for the list of all files."""


def main(settings: Settings) -> None:
    """Downloads the packages, and writes the pairs."""
    catalogue = re.compile(rf"(?:^|/)usr/share/locale/{re.escape(settings.language)}/LC_MESSAGES/[^/]*\.mo$")
    listed = f"{settings.mirror}/dists/{settings.release}/main/Contents-all.gz"
    with urllib.request.urlopen(listed, timeout=60) as answer:
        packages = packages_with(catalogue, gzip.GzipFile(fileobj=io.BytesIO(answer.read())))
    pairs: dict[tuple[str, str], None] = {}
    for number, package in enumerate(packages, start=1):
        print(f"\r{number} of {len(packages)} packages, {len(pairs):,} pairs", end="", file=sys.stderr, flush=True)
        for content in files_of(package, catalogue):
            try:
                pairs |= dict.fromkeys(pairs_of(content))
            except (OSError, UnicodeError, ValueError, LookupError) as error:
                print(f"\n{package}: a catalogue cannot be read, skipped: {error}", file=sys.stderr)
    settings.to.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    print(f"\n{settings.to}: {len(pairs):,} pairs of {len(packages)} packages", file=sys.stderr)


def packages_with(path: re.Pattern[str], contents: Iterable[bytes]) -> list[str]:
    """Returns the sorted names of the packages that contain a matching file, from Debian's list of files."""
    found: set[str] = set()
    for line in (raw.decode() for raw in contents):
        name, _, owners = line.rstrip().rpartition(" ")
        if path.search(name.rstrip()):
            found |= {owner.rpartition("/")[2] for owner in owners.split(",")}
    return sorted(found)


def files_of(package: str, path: re.Pattern[str]) -> Iterator[bytes]:
    """Downloads a package and yields the contents of its matching files. Yields nothing if the download fails."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["apt-get", "download", "--quiet", "-o", "APT::Sandbox::User=root", package]
        if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode:
            print(f"\n{package}: the download failed, skipped", file=sys.stderr)
            return
        (archive,) = Path(folder).iterdir()
        content = subprocess.run(["dpkg-deb", "--fsys-tarfile", archive], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(content)) as files:
        for member in files:
            if member.isfile() and path.search(member.name) and (file := files.extractfile(member)) is not None:
                yield file.read()


def pairs_of(catalogue: bytes) -> Iterator[tuple[str, str]]:
    """Yields the messages of a ``.mo`` file of 1 to 30 words, with their translations.

    Marks of keyboard shortcuts (``_File``, ``&File``) are removed. Untranslated messages are skipped, and those of
    several lines.
    """
    # gettext has no public list of messages. Babel has one, but refuses catalogues with a malformed date in the header.
    for key, value in gettext.GNUTranslations(io.BytesIO(catalogue))._catalog.items():  # type: ignore[attr-defined]
        if isinstance(key, str) and isinstance(value, str):
            source, target = plain(key.rpartition("\x04")[2]), plain(value)  # \x04 ends a context
            if source != target and is_short_line(source) and is_short_line(target):
                yield source, target


def is_short_line(text: str) -> bool:
    """Returns ``True`` for one line of 1 to 30 words."""
    return 0 < len(text.split()) <= MAX_WORDS and len(text.splitlines()) == 1 and "\t" not in text


def plain(text: str) -> str:
    """Returns a message without the marks of keyboard shortcuts."""
    without = re.sub(r"\s?\([_&]\w\)", "", html.unescape(text.strip()))  # "File (_F)", where a script has no letter F
    return re.sub(r"[_&](?=\w)(?<!\w.)", "", without)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
