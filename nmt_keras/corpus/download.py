"""Fetches a zipped corpus once: a blocked network is noticed in seconds, and a file is whole or not there."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, urlsplit
from urllib.request import url2pathname
from uuid import uuid4

from tqdm import tqdm

from nmt_keras.config import require
from nmt_keras.corpus.archive import open_text

if TYPE_CHECKING:
    import httpx

SPANISH_ENGLISH_URL = "http://storage.googleapis.com/download.tensorflow.org/data/spa-eng.zip"
SPANISH_ENGLISH_SHA256 = "6ec60e212f812ee3430f7568ea6f33b6fb080e32193c5952e8da0ee8ba45574c"
"""Of spa-eng/spa.txt as of 2018-05-13; the zip around it may be packed anew."""

_CHUNK_BYTES = 2**16


class CorpusUnavailable(OSError):
    """The corpus could not be fetched; the message says why and what to do instead."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(
            f"The corpus could not be fetched from {url}: {reason}. Pass --corpus PATH (make demo CORPUS=PATH) to "
            "name a copy of the zip or of its text file, or go on with the built-in sample, --corpus sample."
        )


class _Failure(Exception):
    """Why a transfer failed."""


class _Interruption(_Failure):
    """A failure that another attempt may repair."""


class _Transfer(NamedTuple):
    total: int | None
    """Bytes to come, where the server says so."""
    chunks: Iterator[bytes]


def fetch_corpus(
    url: str,
    folder: str | os.PathLike[str],
    sha256: str,
    *,
    answer_within: float = 4.0,
    stalled_after: float = 10.0,
    attempts: int = 3,
    backoff: float = 0.5,
    max_bytes: int = 2**28,
) -> Path:
    """Downloads a zip that holds one text file, unless ``folder`` has it already, and checks the text.

    The zip is never extracted: ``read_pairs`` reads the text inside it. A server that cannot be reached (unknown
    name, refused or dropped connection, no answer) is given up at once; one that breaks off, stalls or answers that
    it is overloaded is asked again.

    Args:
        url: http, https or file URL of the zip; its last part names the file in ``folder``.
        folder: where the zip goes; made if need be.
        sha256: hex digest of the unpacked text (not of the zip).
        answer_within: seconds for looking up the name, connecting and the first bytes of an answer, all together.
        stalled_after: seconds without a byte after which a transfer has stalled.
        attempts: transfers tried in all.
        backoff: seconds before the second attempt; doubled before each further one.
        max_bytes: bound on the zip, and on its unpacked text.

    Returns:
        The path of the zip.

    Warns:
        UserWarning: the text is not the one of ``sha256``; scores on it may not compare with published ones.

    Raises:
        CorpusUnavailable: no whole zip could be had; ``folder`` is left as it was.
        ValueError: ``url`` names no file or has another scheme, or ``attempts`` is below 1.
    """
    require(attempts >= 1, "attempts", "at least 1", attempts)
    parts = urlsplit(url)
    name = Path(parts.path).name
    is_file_url = parts.scheme == "file" and parts.netloc in ("", "localhost")
    is_url = is_file_url or (parts.scheme in ("http", "https") and bool(parts.hostname))
    require(is_url and name not in ("", ".."), "url", "an http, https or file URL (file:///path) of a zip", url)

    path = Path(folder) / name
    digest = _digest_of_earlier(path, max_bytes)
    attempt = 0
    while digest is None:
        attempt += 1
        opened = _open_file_url(parts) if is_file_url else _open_http_url(url, answer_within, stalled_after)
        try:
            digest = _fetch(opened, path, max_bytes)
        except _Interruption as failure:
            if attempt == attempts:
                raise CorpusUnavailable(url, f"{failure} (attempt {attempt} of {attempts})") from failure
            time.sleep(backoff * 2 ** (attempt - 1))
        except _Failure as failure:
            raise CorpusUnavailable(url, str(failure)) from failure
    if digest != sha256:
        warnings.warn(
            f"{path} holds another version of the corpus (its text has sha256 {digest}, expected {sha256}). It is "
            "used, but scores on it may not compare with published ones.",
            stacklevel=2,
        )
    return path


def _digest_of_earlier(path: Path, max_bytes: int) -> str | None:
    """Computes the digest of a zip fetched earlier; None where there is none, or a damaged one to be fetched again."""
    if not path.is_file():
        return None
    try:
        return _text_digest(path, max_bytes)
    except _Failure:
        return None


def _fetch(opened: AbstractContextManager[_Transfer], path: Path, max_bytes: int) -> str:
    """Transfers a zip to ``path`` and computes the digest of its text."""
    with opened as transfer, _replacing(path) as temporary:
        with (
            temporary.open("xb") as file,
            tqdm(total=transfer.total, desc=path.name, unit="B", unit_scale=True, disable=None) as progress,
        ):
            for chunk in transfer.chunks:
                file.write(chunk)
                progress.update(len(chunk))
                _require_size(file.tell(), max_bytes)
        return _text_digest(temporary, max_bytes)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yields a path beside ``path``; what is written there replaces it if the block ends well, and is gone if not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _text_digest(path: Path, max_bytes: int) -> str:
    digest = hashlib.sha256()
    size = 0
    with path.open("rb") as file:
        if file.read(4) != b"PK\x03\x04":
            raise _Interruption("what arrived is not a zip archive")
    try:
        with open_text(path) as text:
            while chunk := text.read(_CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
                _require_size(size, max_bytes)
    except ValueError as error:
        raise _Interruption("what arrived is not a whole zip archive with one text file") from error
    return digest.hexdigest()


def _require_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise _Failure(f"it is larger than max_bytes={max_bytes:,}")


@contextmanager
def _open_file_url(parts: SplitResult) -> Iterator[_Transfer]:
    path = Path(url2pathname(parts.path))
    try:
        file = path.open("rb")
    except OSError as error:
        raise _Failure(error.strerror or str(error)) from error
    with file:
        yield _Transfer(path.stat().st_size, iter(lambda: file.read(_CHUNK_BYTES), b""))


@contextmanager
def _open_http_url(url: str, answer_within: float, stalled_after: float) -> Iterator[_Transfer]:
    import httpx  # here, because `nmt --help` need not wait for it

    # Half the time for each of a host's addresses, so that a dead IPv6 route leaves time for the IPv4 one.
    timeout = httpx.Timeout(stalled_after, connect=answer_within / 2)
    through_proxy = urlsplit(url).hostname not in ("localhost", "127.0.0.1", "::1")
    try:
        client = httpx.Client(timeout=timeout, follow_redirects=True, trust_env=through_proxy)
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        raise _Failure(f"the proxy that the environment names cannot be used ({error})") from error
    try:
        response = _answer(client, url, answer_within)
        with closing(client), closing(response):
            if response.status_code == 429 or response.is_server_error:
                raise _Interruption(f"the server answered {response.status_code} {response.reason_phrase}")
            if not response.is_success:
                raise _Failure(f"the server answered {response.status_code} {response.reason_phrase}")
            length = response.headers.get("Content-Length", "")
            yield _Transfer(int(length) if length.isdecimal() else None, response.iter_bytes(_CHUNK_BYTES))
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
        raise _Failure(f"the server cannot be reached ({error})") from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.TooManyRedirects) as error:
        raise _Failure(str(error)) from error
    except httpx.RequestError as error:
        raise _Interruption(f"the transfer broke off ({error})") from error


def _answer(client: httpx.Client, url: str, seconds: float) -> httpx.Response:
    """Asks for ``url``, in a thread that can be left behind: the system's name lookup knows no timeout."""
    answer: Future[httpx.Response] = Future()

    def ask() -> None:
        try:
            answer.set_result(client.send(client.build_request("GET", url), stream=True))
        except BaseException as error:  # raised again in the waiting thread, by answer.result
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answer.result(seconds)
    except BaseException as error:
        answer.add_done_callback(lambda _: client.close())  # at once, or when the thread left behind has ended
        if isinstance(error, TimeoutError):
            raise _Failure(f"no answer within {seconds:g} s") from None
        raise
