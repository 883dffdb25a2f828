"""Text files that are plain, gzipped or zipped, read as a stream."""

from __future__ import annotations

import gzip
import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import cast


def text_sha256(path: str | PathLike[str], member: str | None = None) -> str:
    """The sha256 of a corpus file's text, unpacked: a zip's own bytes differ from copy to copy, its text does not.

    Raises:
        FileNotFoundError, ValueError: as for :func:`open_text`.
    """
    digest = hashlib.sha256()
    with open_text(path, member) as text:
        while chunk := text.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def open_text(path: str | PathLike[str], member: str | None = None) -> Iterator[io.BufferedIOBase]:
    """Opens a text file as a stream of bytes, unpacking gzip and zip as it is read; nothing is extracted to disk.

    Args:
        path: a file that is plain, gzipped or zipped; its first bytes tell which, not its name.
        member: the file inside a zip. Without it the zip must hold exactly one .txt or .tsv file; names that
            begin with "_" or "." (such as _about.txt) are notes and do not count.

    Raises:
        FileNotFoundError: nothing is at ``path``.
        ValueError: ``path`` is a folder, the archive is damaged, or its text file cannot be told.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(
            f"path: expected a text file of sentence pairs (plain, .gz or .zip), found nothing at {path}. "
            "Pass the path of an existing file."
        )
    if path.is_dir():
        raise ValueError(
            f"path: expected a text file of sentence pairs, received the folder {path}. Pass a file in it."
        )
    with path.open("rb") as raw, unpacked(raw, path, member) as text:
        yield text


@contextmanager
def unpacked(
    raw: io.BufferedReader, path: str | PathLike[str], member: str | None = None
) -> Iterator[io.BufferedIOBase]:
    """The text in a stream of bytes that is plain, gzipped or zipped, as ``open_text`` gives it.

    Args:
        raw: from the file's first byte on; a zipped one must be seekable.
        path: what errors call it.
        member: the file inside a zip; see ``open_text``.

    Raises:
        ValueError: as for ``open_text``.
    """
    with ExitStack() as resources:
        magic = raw.peek(4)
        is_zip = magic.startswith((b"PK\x03\x04", b"PK\x05\x06"))  # the second: a zip without members
        if member is not None and not is_zip:
            raise ValueError(f"member: {path} is no zip archive, received member={member!r}. Leave member out.")
        try:
            if magic.startswith(b"\x1f\x8b"):
                yield resources.enter_context(gzip.GzipFile(fileobj=raw))
            elif is_zip:
                archive = resources.enter_context(zipfile.ZipFile(raw))
                yield resources.enter_context(_open_member(archive, path, member))
            else:
                yield raw
        except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise ValueError(f"path: {path} is a damaged archive ({error}). Fetch or pack it again.") from error


def _open_member(archive: zipfile.ZipFile, path: str | PathLike[str], member: str | None) -> io.BufferedIOBase:
    names = [info.filename for info in archive.infolist() if not info.is_dir()]
    if member is None:
        texts = [name for name in names if _is_corpus_text(PurePosixPath(name))]
        if len(texts) != 1:
            raise ValueError(
                f"path: expected one .txt or .tsv file in {path}, found {len(texts)} among its members {names}. "
                "Name one: member=..."
            )
        member = texts[0]
    elif member not in names:
        raise ValueError(f"member: expected one of {names} in {path}, received {member!r}.")
    try:
        return io.BufferedReader(cast(zipfile.ZipExtFile, archive.open(member)))
    except RuntimeError as error:  # zipfile's way to refuse passwords and unknown compressions
        raise ValueError(f"path: {member} in {path} cannot be unpacked ({error}). Pack it as a plain zip.") from error


def _is_corpus_text(name: PurePosixPath) -> bool:
    return name.suffix.lower() in (".txt", ".tsv") and not name.name.startswith(("_", "."))
