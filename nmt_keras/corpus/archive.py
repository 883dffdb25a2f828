"""Reads plain, gzipped and zipped text files as streams."""

from __future__ import annotations

import gzip
import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import cast


def text_sha256(path: str | PathLike[str]) -> str:
    """Returns the sha256 of the unpacked text of a corpus file. Zip files of the same text may have different bytes."""
    with open_text(path) as text:
        return hashlib.file_digest(cast(io.BytesIO, text), "sha256").hexdigest()


@contextmanager
def open_text(path: str | PathLike[str]) -> Iterator[io.BufferedIOBase]:
    """Opens a text file as a stream of bytes. gzip and zip files are unpacked while they are read.

    Args:
        path: Path of a plain, gzipped or zipped file. The first bytes determine the format. A zip file must hold
            exactly one .txt or .tsv file. Names that begin with "_" or "." (such as _about.txt) do not count.

    Raises:
        FileNotFoundError: there is no file at ``path``.
        ValueError: the archive is damaged, or does not hold exactly one text file.
    """
    path = Path(path)
    if path.is_dir() or not path.exists():
        raise FileNotFoundError(
            f"path: expected an existing text file (plain, .gz or .zip), received {path}. Check the path."
        )
    with path.open("rb") as raw, unpacked(raw, path) as text:
        yield text


@contextmanager
def unpacked(raw: io.BufferedReader, path: str | PathLike[str]) -> Iterator[io.BufferedIOBase]:
    """Unpacks an opened file; see ``open_text``.

    Args:
        raw: The file, positioned at its first byte. A zip file must be seekable.
        path: Name of the file in errors.
    """
    magic = raw.peek(4)
    try:
        if magic.startswith(b"\x1f\x8b"):
            with gzip.GzipFile(fileobj=raw) as text:
                yield text
        elif magic.startswith((b"PK\x03\x04", b"PK\x05\x06")):  # the second is an empty zip
            with zipfile.ZipFile(raw) as archive, archive.open(_text_member(archive, path)) as member:
                yield io.BufferedReader(cast(zipfile.ZipExtFile, member))
        else:
            yield raw
    except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"path: {path} is a damaged archive ({error}). Download or create it again.") from error


def _text_member(archive: zipfile.ZipFile, path: str | PathLike[str]) -> str:
    texts = [
        name
        for name in archive.namelist()
        if name.lower().endswith((".txt", ".tsv")) and not PurePosixPath(name).name.startswith(("_", "."))
    ]
    if len(texts) != 1:
        raise ValueError(
            f"path: expected one .txt or .tsv file in {path}, received {texts}. Zip one file, or pass it unpacked."
        )
    return texts[0]
