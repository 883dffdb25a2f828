"""Downloads a zipped corpus once. The download fails within seconds if the network is blocked."""

from __future__ import annotations

import io
import threading
import zipfile
from concurrent.futures import Future
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nmt_keras.corpus.archive import text_sha256
from nmt_keras.files import make_folder, write_whole

if TYPE_CHECKING:
    import httpx

SPANISH_ENGLISH_URL = "https://storage.googleapis.com/download.tensorflow.org/data/spa-eng.zip"
# of spa-eng/spa.txt as of 2018-05-13; the bytes of the zip may change
SPANISH_ENGLISH_BYTES = 8_042_772
SPANISH_ENGLISH_SHA256 = "6ec60e212f812ee3430f7568ea6f33b6fb080e32193c5952e8da0ee8ba45574c"


class CorpusUnavailable(OSError):
    """The download of a corpus failed."""

    def __init__(self, url: str, reason: object) -> None:
        super().__init__(
            f"The corpus could not be fetched from {url}: {reason}. Pass a copy of the zip or of its text file with "
            "--corpus PATH (make demo CORPUS=PATH), or use the built-in sample corpus with --corpus sample."
        )


def fetch_corpus(
    url: str,
    folder: str | PathLike[str],
    sha256: str,
    *,
    accept_other_version: bool = False,
    answer_within: float = 4.0,
) -> Path:
    """Downloads a zip that holds one text file, unless it is already in ``folder``, and checks the text.

    Args:
        url: URL of the zip. Its last part is the file name in ``folder``.
        folder: Folder for the zip, created if missing.
        sha256: Expected hex digest of the unpacked text, not of the zip.
        accept_other_version: If ``True``, a text with another digest is accepted.
        answer_within: Maximum time for name lookup, connection and the server's answer, in seconds.

    Returns:
        The path of the zip, which ``read_pairs`` can read.

    Raises:
        CorpusUnavailable: the download failed. ``folder`` is unchanged.
        OSError: the file cannot be written.
        ValueError: the text has another digest. A file that was just downloaded is removed.
    """
    path = Path(folder) / Path(urlsplit(url).path).name
    is_new = not path.exists()
    if is_new:
        content = _download(url, answer_within)
        make_folder(path.parent)
        write_whole(path, content)
    if not accept_other_version and (digest := text_sha256(path)) != sha256:
        if is_new:
            path.unlink()
        raise ValueError(
            f"{url if is_new else path}: expected a corpus whose text has sha256 {sha256}, received one with {digest}. "
            f"{'Download it later' if is_new else 'Remove the file to download it again'}, or use this text with "
            "accept_other_version (--accept-other-version). Scores on it cannot be compared with published scores."
        )
    return path


def _download(url: str, answer_within: float) -> bytes:
    import httpx  # imported here so that `nmt --help` is fast

    try:
        # half the time for each address of a host, so that IPv4 is still tried if IPv6 fails
        client = httpx.Client(timeout=httpx.Timeout(10.0, connect=answer_within / 2), follow_redirects=True)
        answer = _ask(client, url)
        try:
            response = answer.result(answer_within)
            content = response.raise_for_status().read()
        finally:
            answer.add_done_callback(lambda _: client.close())  # at once, or when the abandoned thread ends
        if not zipfile.is_zipfile(io.BytesIO(content)):
            raise ValueError("the answer is not a complete zip archive")
    except TimeoutError as error:
        raise CorpusUnavailable(url, f"no answer within {answer_within:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL, ImportError, ValueError) as error:  # the last two: an unusable proxy
        raise CorpusUnavailable(url, error) from error
    return content


def _ask(client: httpx.Client, url: str) -> Future[httpx.Response]:
    """Sends the request from a thread that can be abandoned, because the system's name lookup has no timeout."""
    answer: Future[httpx.Response] = Future()

    def ask() -> None:
        try:
            answer.set_result(client.send(client.build_request("GET", url), stream=True))
        except BaseException as error:  # raised again in the waiting thread, by answer.result
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    return answer
