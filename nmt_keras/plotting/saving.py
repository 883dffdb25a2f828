"""Writes figures to files."""

import io
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from nmt_keras.config import require
from nmt_keras.io.files import write_whole
from nmt_keras.plotting.style import FILE_DPI


def save_figure(figure: Figure, path: str | Path) -> None:
    """Writes a figure atomically, at 150 dots per inch. The suffix of the path selects PNG, SVG or PDF.

    The file contains neither date nor version, so equal figures give equal files.

    Raises:
        ValueError: the suffix is none of these.
        OSError: the file cannot be written.
    """
    path = Path(path)
    unstamped = {
        ".png": {"Software": None},
        ".svg": {"Date": None, "Creator": None},
        ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    suffix = path.suffix.lower()
    require(suffix in unstamped, "path", "a file name that ends in .png, .svg or .pdf", str(path))
    content = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "nmt_keras"}):
        figure.savefig(content, format=suffix[1:], dpi=FILE_DPI, metadata=unstamped[suffix])
    write_whole(path, content.getvalue())
