"""A client of TensorFlow Serving's REST API: ``python -m serve.client "Una frase." --url http://127.0.0.1:8501``.

It speaks to the embedded server and to TensorFlow Serving alike, and relies on two signatures of the export:

    serving_default   text [B] -> translation [B], score [B], truncated [B]
    align             the same, and source_tokens [B,S], source_lengths [B], target_tokens [B,T], target_lengths [B],
                      alignment [B,T,S]: row t says how much of target token t came from each source token
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import quote, urlsplit

import httpx
import tyro

DEFAULT_URL = "http://127.0.0.1:8501"
DEFAULT_MODEL = "spa-eng"


class ClientError(RuntimeError):
    """A request that got no answer, or an answer that is an error; the message is one line and says what to do."""


class Translation(NamedTuple):
    """A sentence in the target language."""

    translation: str
    score: float
    """The export's ranking score: log-probability in nats, normalised as its search does."""
    truncated: bool
    """Whether the source was longer than the model reads, so that its end is missing."""


class Alignment(NamedTuple):
    """A translation and how it attends to its source."""

    translation: str
    score: float
    truncated: bool
    source_tokens: list[str]
    target_tokens: list[str]
    weights: list[list[float]]
    """[T][S], padding removed; every row sums to 1."""


class VersionStatus(NamedTuple):
    """The state of one version of the model."""

    version: int
    state: str
    """START, LOADING, AVAILABLE, UNLOADING or END."""
    error_code: str
    error_message: str


class Client:
    """Translates by one served model.

    Args:
        url: where the server listens, without a path.
        model: the model's name: a folder under the server's ``--model-dir``.
        version: a version to insist on; None takes the newest.
        timeout: seconds to wait for an answer.
        batch_size: sentences sent at a time.
        transport: how requests travel; for tests.

    Raises:
        ClientError: from every method, when the server is down, refuses, or answers something else.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        model: str = DEFAULT_MODEL,
        version: int | None = None,
        timeout: float = 60.0,
        batch_size: int = 64,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url: expected http://HOST:PORT or https://HOST:PORT, received {url!r}.")
        if batch_size < 1:
            raise ValueError(f"batch_size: expected 1 or more, received {batch_size}.")
        self.url = url.rstrip("/")
        self.model = model
        self._batch_size = batch_size
        self._path = f"{self.url}/v1/models/{quote(model, safe='')}" + (
            "" if version is None else f"/versions/{version}"
        )
        through_proxy = urlsplit(url).hostname not in ("localhost", "127.0.0.1", "::1")
        self._http = httpx.Client(timeout=timeout, transport=transport, trust_env=through_proxy)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def translate(self, texts: Sequence[str]) -> list[str]:
        """The translation of each of ``texts``."""
        return [answer.translation for answer in self.translate_with_scores(texts)]

    def translate_with_scores(self, texts: Sequence[str]) -> list[Translation]:
        """The translation of each of ``texts``, its score, and whether the source was cut."""
        answers = []
        for batch in _batches(texts, self._batch_size):
            outputs = self.predict("serving_default", {"text": batch})
            columns = (_column(outputs, name, len(batch)) for name in Translation._fields)
            answers += [Translation(*row) for row in zip(*columns, strict=True)]
        return answers

    def align(self, texts: Sequence[str]) -> list[Alignment]:
        """The translation of each of ``texts`` with its tokens and their alignment."""
        names = (*Alignment._fields[:-1], "alignment", "source_lengths", "target_lengths")
        answers = []
        for batch in _batches(texts, self._batch_size):
            outputs = self.predict("align", {"text": batch})
            columns = (_column(outputs, name, len(batch)) for name in names)
            for translation, score, truncated, source, target, weights, source_length, target_length in zip(
                *columns, strict=True
            ):
                rows = [row[:source_length] for row in weights[:target_length]]
                tokens = source[:source_length], target[:target_length]
                answers.append(Alignment(translation, score, truncated, *tokens, rows))
        return answers

    def status(self) -> list[VersionStatus]:
        """The state of each of the model's versions, newest first."""
        answer = self._request("GET", self._path)
        return [
            VersionStatus(
                int(status["version"]),
                status["state"],
                status["status"]["error_code"],
                status["status"]["error_message"],
            )
            for status in answer.get("model_version_status", [])
        ]

    def predict(self, signature: str, inputs: dict[str, list[str]]) -> dict[str, Any]:
        """The named outputs of ``signature`` for ``inputs``, which are columns: one list of values for each input."""
        answer = self._request("POST", f"{self._path}:predict", {"signature_name": signature, "inputs": inputs})
        outputs = answer.get("outputs")
        if not isinstance(outputs, dict):
            raise ClientError(f"Signature {signature} of model {self.model} answered one unnamed output, not several.")
        return outputs

    def _request(self, method: str, url: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            response = self._http.request(method, url, json=document)
        except httpx.ConnectError as error:
            start = "python -m serve.server --model-dir saved_models"
            raise ClientError(
                f"No server answers at {self.url}: start one with `{start}`, or name it: --url."
            ) from error
        except httpx.TimeoutException as error:
            raise ClientError(f"{self.url} gave no answer in time: send less at a time or wait longer.") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ClientError(f"{self.url} could not be asked: {error}") from error
        return self._read(response)

    def _read(self, response: httpx.Response) -> dict[str, Any]:
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if response.is_success and isinstance(answer, dict):
            return answer
        reason = answer.get("error") if isinstance(answer, dict) else None
        if response.status_code == 404 and reason:
            hint = "Name a folder under the server's --model-dir that holds a version; its log says what it loaded."
            raise ClientError(f"{self.url} does not serve model {self.model!r} ({reason}). {hint}")
        said = " ".join(str(reason or response.text[:300]).split())
        raise ClientError(f"{self.url} answered HTTP {response.status_code}: {said}")


def _batches(texts: Sequence[str], size: int) -> list[list[str]]:
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"texts: expected a list of strings, received {texts!r}.")
    return [list(texts[start : start + size]) for start in range(0, len(texts), size)]


def _column(outputs: dict[str, Any], name: str, length: int) -> list[Any]:
    column = outputs.get(name)
    if not isinstance(column, list) or len(column) != length:
        raise ClientError(
            f"The answer's output {name!r} is not a list of {length}: is this a translation model's export?"
        )
    return column


# Command line


@dataclass(frozen=True)
class Options:
    """Translates sentences by a served model."""

    texts: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TEXT [TEXT ...]")]
    """Sentences; a single - reads one per line from standard input."""
    url: str = DEFAULT_URL
    """Where the server listens."""
    model: str = DEFAULT_MODEL
    """The model's name; the API cannot list them."""
    version: int | None = None
    """The model's version; the newest by default."""
    signature: Literal["serving_default", "align"] = "serving_default"
    """align answers the tokens of both sides and their alignment too."""
    timeout: float = 60.0
    """Seconds to wait for an answer."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print one JSON object per sentence."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line and prints a translation per sentence."""
    options = tyro.cli(Options, prog="python -m serve.client", args=arguments)
    texts = [line.rstrip("\r\n") for line in sys.stdin] if options.texts == ("-",) else list(options.texts)
    if not texts:
        raise SystemExit("serve.client: texts: expected a sentence, or - to read standard input; received none.")
    try:
        with Client(options.url, options.model, options.version, options.timeout) as client:
            if options.signature == "align":
                answers: Sequence[Translation | Alignment] = client.align(texts)
            else:
                answers = client.translate_with_scores(texts)
    except (ClientError, ValueError) as error:
        raise SystemExit(f"serve.client: {error}") from error
    for text, answer in zip(texts, answers, strict=True):
        if options.json:
            print(json.dumps({"text": text, **answer._asdict()}, ensure_ascii=False))
            continue
        print(answer.translation)
        if isinstance(answer, Alignment):
            for line in _alignment_lines(answer):
                print(line)
        if answer.truncated:
            print(f"serve.client: cut, as it is longer than the model reads: {text[:60]}...", file=sys.stderr)


def _alignment_lines(answer: Alignment) -> list[str]:
    """For each target token the source token it attends to most."""
    lines = []
    for token, row in zip(answer.target_tokens, answer.weights, strict=True):
        if not row:
            continue
        strongest = max(range(len(row)), key=row.__getitem__)
        lines.append(f"    {token}  <-  {answer.source_tokens[strongest]} ({row[strongest]:.2f})")
    return lines


if __name__ == "__main__":
    main()
