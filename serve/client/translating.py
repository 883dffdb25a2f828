"""The client: sentences, lists of them and whole texts in, typed records out, over REST or gRPC."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import httpx

from . import answers, sentences
from .answers import (
    Alignment,
    Columns,
    Hypotheses,
    ModelSpec,
    TranslatedText,
    Translation,
    VersionStatus,
)
from .rest import RestConnection
from .retry import Retry

if TYPE_CHECKING:
    from .rpc import GrpcConnection

DEFAULT_URL = "http://127.0.0.1:8501"
DEFAULT_MODEL = "spa-eng"
DEFAULT_BATCH_SIZE = 64
"""No more than ``max_batch_size`` in batching.config: TensorFlow Serving refuses a larger request."""

DEFAULT_TEXT_BYTES = 32768
"""Half of what the embedded server takes of one string. A batch of such sentences stays below the 16 MiB that it and
nginx take of a body, even if JSON writes six bytes for each of theirs."""

DEFAULT_RETRY = Retry()

Record = TypeVar("Record", Translation, Alignment, Hypotheses)


class Client:
    """Translates by one served model; threads may share it.

    Args:
        url: where the server listens, without a path: ``http://``, ``https://``, ``grpc://`` or ``grpcs://``.
        model: the model's name: a folder under the server's ``--model-dir``.
        version: a version to insist on; None takes the newest.
        label: a label to go by in place of a version.
        timeout: seconds until an answer must be there, whole.
        batch_size: sentences of one request.
        max_text_bytes: UTF-8 bytes of one sentence. Of a longer one the beginning is translated, and the answer says
            ``truncated``: servers refuse endless strings, and no model reads them to the end.
        retry: how requests to a busy server are repeated.
        ca_file: certificates, in PEM, of whoever signed the server's; None trusts those that are commonly trusted.
        transport: how HTTP requests travel; for tests.

    Raises:
        ClientError: from every method, when the server is down, refuses, or answers something else.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        model: str = DEFAULT_MODEL,
        version: int | None = None,
        label: str | None = None,
        timeout: float = 60.0,
        batch_size: int = DEFAULT_BATCH_SIZE,
        max_text_bytes: int = DEFAULT_TEXT_BYTES,
        retry: Retry = DEFAULT_RETRY,
        ca_file: Path | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size: expected 1 or more, received {batch_size}.")
        if max_text_bytes < 1:
            raise ValueError(f"max_text_bytes: expected 1 or more, received {max_text_bytes}.")
        if version is not None and label is not None:
            raise ValueError(f"label: expected None beside version {version}, received {label!r}. Name one of them.")
        self.url = url.rstrip("/")
        self.model = model
        self._batch_size = batch_size
        self._max_text_bytes = max_text_bytes
        self._retry = retry
        self._connection = _connect(self.url, ModelSpec(model, version, label), timeout, ca_file, transport)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._connection.close()

    def translate(self, texts: Sequence[str]) -> list[str]:
        """The translation of each of ``texts``, which are sentences."""
        return [answer.translation for answer in self.translate_with_scores(texts)]

    def translate_with_scores(self, texts: Sequence[str], signature: str = "serving_default") -> list[Translation]:
        """The translation of each of ``texts``, its score, and whether the source was cut."""
        return self._batched(signature, texts, answers.translations)

    def align(self, texts: Sequence[str]) -> list[Alignment]:
        """The translation of each of ``texts`` with its tokens and their alignment."""
        return self._batched("align", texts, answers.alignments)

    def beam(self, texts: Sequence[str]) -> list[Hypotheses]:
        """The best translations that beam search finds for each of ``texts``."""
        return self._batched("beam", texts, answers.hypotheses)

    def translate_texts(self, texts: Sequence[str]) -> list[TranslatedText]:
        """The translation of each of ``texts``, which may be of any length: they are split into sentences.

        Sentences of different texts travel together; white space between sentences stays as it was written.
        """
        _require_strings(texts)
        split = [sentences.split(text) for text in texts]
        found = iter(self.translate_with_scores([piece.sentence for text in split for piece in text if piece.sentence]))
        translated = []
        for pieces in split:
            answered = [next(found) for piece in pieces if piece.sentence]
            text = sentences.rejoin(pieces, [answer.translation for answer in answered])
            translated.append(TranslatedText(text, answered))
        return translated

    def status(self) -> list[VersionStatus]:
        """The state of each of the model's versions, newest first."""
        return self._retry.run(self._connection.status)

    def predict(self, signature: str, inputs: Mapping[str, list[str]]) -> Columns:
        """The named outputs of ``signature`` for ``inputs``, which are columns: one list of values for each input."""
        return self._retry.run(lambda: self._connection.predict(signature, inputs))

    def _batched(
        self, signature: str, texts: Sequence[str], read: Callable[[Columns, int], list[Record]]
    ) -> list[Record]:
        _require_strings(texts)
        records: list[Record] = []
        for start in range(0, len(texts), self._batch_size):
            # Half of a surrogate pair, which Python's strings can hold, is no text: it becomes a question mark.
            whole = [text.encode("utf-8", "replace").decode() for text in texts[start : start + self._batch_size]]
            sent = [sentences.beginning(text, self._max_text_bytes) for text in whole]
            answered = read(self.predict(signature, {"text": sent}), len(sent))
            for text, part, record in zip(whole, sent, answered, strict=True):
                records.append(record if part == text else record._replace(truncated=True))
        return records


def _connect(
    url: str, model: ModelSpec, timeout: float, ca_file: Path | None, transport: httpx.BaseTransport | None
) -> RestConnection | GrpcConnection:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https", "grpc", "grpcs") or not parts.hostname:
        expected = "http://HOST:PORT or https://HOST:PORT, or grpc:// or grpcs:// in their place"
        raise ValueError(f"url: expected {expected}, received {url!r}.")
    if parts.scheme.startswith("http"):
        return RestConnection(url, model, timeout, ca_file, transport)
    from .rpc import GrpcConnection

    return GrpcConnection(url, model, timeout, ca_file)


def _require_strings(texts: Sequence[str]) -> None:
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"texts: expected a list of strings, received {texts!r}.")
