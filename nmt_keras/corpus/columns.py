"""Columns of source and target. By default, the source is the first column, except in the Spanish-English file.

The Spanish-English file is recognised by a checksum of its text.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt_keras.config import require
from nmt_keras.corpus.archive import open_text
from nmt_keras.corpus.download import SPANISH_ENGLISH_BYTES, SPANISH_ENGLISH_SHA256


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Columns of the source and target in a corpus file. The command line has an option for each field."""

    source_column: int | None = None
    """Source column of a TSV file, counted from 0. Default: 0, or 1 for the Spanish-English file."""
    target_column: int | None = None
    """Target column of a TSV file, counted from 0. Default: 1, or 0 for the Spanish-English file."""
    reverse: bool = False
    """Swap source and target."""

    def __post_init__(self) -> None:
        require_columns(*self._named(), names=("--source-column", "--target-column"))

    @property
    def names_columns(self) -> bool:
        """``True`` if at least one column is given."""
        return (self.source_column, self.target_column) != (None, None)

    def require_readable(self, files: Sequence[str]) -> None:
        """Raises ValueError if columns are given for two files."""
        if len(files) > 1 and self.names_columns:
            raise ValueError(
                "--source-column, --target-column: these options apply to a single TSV file, received two files. "
                "Remove the options, or pass --reverse to swap source and target."
            )

    def of(self, *files: str, english_first: bool = False) -> tuple[int, int]:
        """Returns the columns of source and target in a TSV file, or the indices of the source and the target file.

        Args:
            files: One TSV file, or two files whose lines correspond.
            english_first: If ``True``, the file has the columns of the Spanish-English file.
        """
        english_first = english_first or (len(files) == 1 and is_spanish_english(files[0]))
        source, target = (1, 0) if english_first and not self.names_columns else self._named()
        return (target, source) if self.reverse else (source, target)

    def _named(self) -> tuple[int, int]:
        return self.source_column or 0, 1 if self.target_column is None else self.target_column


def require_columns(
    source_column: int, target_column: int, names: tuple[str, str] = ("source_column", "target_column")
) -> None:
    """Raises ValueError if a column is negative or both are the same. The message uses ``names`` for the columns."""
    for name, column in zip(names, (source_column, target_column), strict=True):
        require(column >= 0, name, "a column counted from 0", column)
    require(source_column != target_column, names[1], f"another column than {names[0]}", target_column)


def is_spanish_english(path: str) -> bool:
    """Returns ``True`` if a file holds the Spanish-English corpus. Reads at most one byte more than the corpus has.

    Returns ``False`` for a file that cannot be read, and for a pipe, because a pipe can be read only once.
    """
    if not Path(path).is_file():
        return False
    try:
        with open_text(path) as text:
            return is_spanish_english_text(text)
    except (OSError, ValueError):  # the error is raised later, when the corpus is read
        return False


def is_spanish_english_text(text: io.BufferedIOBase) -> bool:
    """Returns ``True`` if a stream holds the text of the Spanish-English corpus.

    Reads at most one byte more than the corpus has.
    """
    content = text.read(SPANISH_ENGLISH_BYTES + 1)
    return hashlib.sha256(content).hexdigest() == SPANISH_ENGLISH_SHA256
