"""Downloads a zipped corpus once. The download fails within seconds if the network is blocked."""

import hashlib
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from nmt_keras.io.files import make_folder, write_whole
from nmt_keras.io.lines import open_text, read_within, unpacked
from nmt_keras.io.threads import abandonable
from nmt_keras.version import VERSION

SPANISH_ENGLISH_URL = "https://storage.googleapis.com/download.tensorflow.org/data/spa-eng.zip"
# of spa-eng/spa.txt as of 2018-05-13; the bytes of the zip may change
SPANISH_ENGLISH_BYTES = 8_042_772
SPANISH_ENGLISH_SHA256 = "6ec60e212f812ee3430f7568ea6f33b6fb080e32193c5952e8da0ee8ba45574c"
PAIRS_URL = "https://www.manythings.org/anki/{}-eng.zip"
PAIRS_LICENCE = "Tatoeba, CC BY 2.0 France, through manythings.org/anki"
MOST_BYTES = 1 << 30  # of a zip, which is read into memory


class CorpusUnavailable(OSError):
    """The download of a corpus failed."""

    def __init__(self, url: str, reason: object, remedy: str | None = None) -> None:
        super().__init__(
            f"The corpus could not be fetched from {url}: {reason}. "
            + (
                remedy
                or "Pass a copy of the zip or of its text file with --corpus PATH (make demo CORPUS=PATH), or use the "
                "built-in sample corpus with --corpus sample."
            )
        )


def fetch_corpus(
    url: str,
    folder: str | Path,
    sha256: str | None,
    *,
    answer_within: float = 4.0,
    remedy: str | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Path:
    """Downloads a zip that holds one text file, unless it is already in ``folder``, and checks the text.

    Args:
        url: URL of the zip. Its last part is the file name in ``folder``.
        folder: Folder for the zip, created if missing.
        sha256: Expected hex digest of the unpacked text, not of the zip; ``None`` accepts all.
        answer_within: Maximum time for name lookup, connection and the server's answer, in seconds.
        remedy: What to do if the download fails. Default: to pass a copy, or to use the sample corpus.
        report: Function that receives messages for the user.

    Returns:
        The path of the zip, which ``read_pairs`` can read.

    Raises:
        CorpusUnavailable: the download failed. ``folder`` is unchanged.
        OSError: the file cannot be written.
        ValueError: the file has no text, or one with another digest. A new download is not kept.
    """
    path = Path(folder) / Path(urlsplit(url).path).name
    if path.exists():
        with open_text(path) as text:
            _require_text(text, sha256, str(path), "Remove the file to download it again")
        return path
    content = _download(url, answer_within, remedy, report)
    with unpacked(io.BufferedReader(io.BytesIO(content)), url) as text:
        _require_text(text, sha256, url, "Download it later")
    make_folder(path.parent)
    write_whole(path, content)
    return path


def _require_text(text: io.BufferedReader, sha256: str | None, name: str, remedy: str) -> None:
    """Raises ValueError if a text is damaged, or has another digest than ``sha256``, if given."""
    digest = hashlib.file_digest(cast(io.BytesIO, text), "sha256").hexdigest()  # zips of one text may differ
    if sha256 not in (None, digest):
        raise ValueError(
            f"{name}: expected a corpus whose text has sha256 {sha256}, received one with {digest}. {remedy}. "
            "To train on this text, pass it as --corpus FILE --source-column 1 --target-column 0. Its scores cannot be "
            "compared with published scores."
        )


def _download(url: str, answer_within: float, remedy: str | None, report: Callable[[str], None]) -> bytes:
    import httpx  # imported here so that `nmt --help` is fast

    try:
        client = httpx.Client(
            # half the time for each address of a host, so that IPv4 is still tried if IPv6 fails
            timeout=httpx.Timeout(10.0, connect=answer_within / 2),
            follow_redirects=True,
            headers={"Accept-Encoding": "identity", "User-Agent": f"nmt_keras/{VERSION}"},
        )
        # the system's name lookup has no timeout
        answer = abandonable(lambda: client.send(client.build_request("GET", url), stream=True))
        try:
            response = answer.result(answer_within).raise_for_status()
            size = response.headers.get("Content-Length", "")
            report(f"downloading {url}" + f" ({int(size) / 1e6:.1f} MB)" * size.isdecimal())
            content = read_within(response.iter_raw(), MOST_BYTES)
        finally:
            answer.add_done_callback(lambda _: client.close())  # at once, or when the abandoned thread ends
        if not zipfile.is_zipfile(io.BytesIO(content)):
            raise ValueError("the answer is not a complete zip archive")
    except TimeoutError as error:
        raise CorpusUnavailable(url, f"no answer within {answer_within:g} s", remedy) from error
    except (httpx.HTTPError, httpx.InvalidURL, ImportError, ValueError) as error:  # the last two: an unusable proxy
        raise CorpusUnavailable(url, error, remedy) from error
    return content
