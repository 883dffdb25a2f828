"""Figures as files: whole or absent, and the same bytes for the same figure."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import matplotlib
from matplotlib.figure import Figure

from nmt_keras.config import require
from nmt_keras.plotting.style import FILE_DPI


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Writes a figure as PNG or SVG, by the path's suffix, at 150 dots per inch.

    The file appears complete or not at all. It carries no date and no version, so the same figure gives the same bytes.

    Raises:
        ValueError: the suffix is neither ``.png`` nor ``.svg``.
        FileNotFoundError: the path's folder does not exist.
    """
    path = Path(path)
    unstamped = {".png": {"Software": None}, ".svg": {"Date": None, "Creator": None}}
    suffix = path.suffix.lower()
    require(suffix in unstamped, "path", "a file name that ends in .png or .svg", str(path))
    partial = path.with_name(f".{uuid4().hex}.part")
    try:
        with matplotlib.rc_context({"svg.hashsalt": "nmt_keras"}):
            figure.savefig(partial, format=suffix[1:], dpi=FILE_DPI, metadata=unstamped[suffix])
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
