"""The client: translates sentences and texts over REST, and returns typed records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nmt_keras.io.errors import require
from nmt_keras.io.lines import scalars
from nmt_keras.io.sentences import TranslatedText, beginning, translate_texts

from ..models.status import ModelSpec, VersionStatus
from . import answers
from .answers import (
    Alignment,
    Columns,
    Hypotheses,
    Record,
    ScoredTranslation,
)
from .retry import Retry

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://127.0.0.1:8501"
DEFAULT_MODEL = "spa-eng"
DEFAULT_BATCH_SIZE = 64
"""At most ``max_batch_size`` of batching.config, because TensorFlow Serving refuses larger requests."""

DEFAULT_TEXT_BYTES = 8192
"""Far more than a sentence, and so little that a batch of such sentences is smaller than 1 MiB, the limit of nginx. A
batch of characters that must be escaped can be larger."""

DEFAULT_RETRY = Retry()


class Client:
    """Translates with a served model. Threads may share it.

    Args:
        url: URL of the server, without a path: ``http://`` or ``https://``.
        model: Name of the model: a folder in the server's ``--model-dir``.
        version: Version of the model. `None` takes the newest.
        label: Label of a version, instead of ``version``.
        timeout: Time limit of a whole answer in seconds.
        batch_size: Maximum number of sentences in a request.
        max_text_bytes: Maximum UTF-8 bytes of a sentence, because servers refuse long strings. Longer sentences are
            cut, and their answers are ``truncated``.
        retry: Number of attempts and pauses if the server is busy.
        ca_file: PEM file of the certificates that signed the server's certificate. `None` uses those of the environment
            (SSL_CERT_FILE, SSL_CERT_DIR; not for this machine), or else those of the package certifi.
        transport: HTTPX transport for tests. `None` uses the network.

    Raises:
        ValueError: An argument is wrong, or ``ca_file`` holds no certificates.
        ClientError: From every method, if the server does not answer or refuses the request.
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
        require(batch_size >= 1, "batch_size", "1 or more", batch_size)
        require(max_text_bytes >= 1, "max_text_bytes", "1 or more", max_text_bytes)
        require(version is None or label is None, "version, label", "at most one of them", (version, label))
        self.url = url.rstrip("/")
        self.model = model
        self._batch_size = batch_size
        self._max_text_bytes = max_text_bytes
        self._retry = retry
        from .rest import RestConnection  # imports HTTPX, which --help does not need

        self._connection = RestConnection(self.url, ModelSpec(model, version, label), timeout, ca_file, transport)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._connection.close()

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Translates ``texts``. Each text must be a single sentence."""
        return [answer.translation for answer in self.translate_with_scores(texts)]

    def translate_with_scores(
        self, texts: Sequence[str], signature: str = "serving_default"
    ) -> list[ScoredTranslation]:
        """Translates ``texts``, each a single sentence. Returns translations with scores."""
        return self._batched(signature, texts, answers.translations, self._batch_size)

    def align(self, texts: Sequence[str]) -> list[Alignment]:
        """Translates ``texts``, each a single sentence. Returns translations with tokens and alignments."""
        return self._batched("align", texts, answers.alignments, self._batch_size)

    def beam(self, texts: Sequence[str]) -> list[Hypotheses]:
        """Translates ``texts``, each a single sentence. Returns the best hypotheses of beam search.

        A request holds a quarter of ``batch_size``, because each hypothesis has an alignment.
        """
        return self._batched("beam", texts, answers.hypotheses, -(-self._batch_size // 4))

    def translate_texts(self, texts: Sequence[str]) -> list[TranslatedText[ScoredTranslation]]:
        """Splits ``texts`` of any length into sentences and translates them.

        One request may hold sentences of several texts. White space between sentences is kept.
        """
        _require_strings(texts)
        return translate_texts(texts, self.translate_with_scores, lambda answer: answer.translation)

    def status(self) -> list[VersionStatus]:
        """Returns the states of the model's versions, newest first."""
        return self._retry.run(self._connection.status)

    def predict(self, signature: str, inputs: Mapping[str, list[str]]) -> Columns:
        """Returns the outputs of ``signature``. ``inputs`` maps each input to its list of values."""
        return self._retry.run(lambda: self._connection.predict(signature, inputs))

    def _batched(
        self,
        signature: str,
        texts: Sequence[str],
        read: Callable[[Columns, int], list[Record]],
        batch_size: int,
    ) -> list[Record]:
        _require_strings(texts)
        records: list[Record] = []
        for start in range(0, len(texts), batch_size):
            whole = [scalars(text) for text in texts[start : start + batch_size]]
            sent = [beginning(text, self._max_text_bytes) for text in whole]
            outputs = self.predict(signature, {"text": sent})
            with answers.expected(f"The answer of the signature {signature}"):
                answered = answers.checked(read(outputs, len(sent)))
            records += [
                record if part == text else record._replace(truncated=True)
                for text, part, record in zip(whole, sent, answered, strict=True)
            ]
        return records


def _require_strings(texts: Sequence[str]) -> None:
    is_list = not isinstance(texts, str) and all(isinstance(text, str) for text in texts)
    require(is_list, "texts", "a list of strings", texts)
