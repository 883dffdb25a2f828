"""Limits of requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nmt_keras.io.errors import require
from nmt_keras.io.sentences import MAX_SENTENCES, split

from .models.status import invalid

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Limits:
    """Limits of body, batch, text, queue and time. TensorFlow Serving has only a few of these limits."""

    max_body_bytes: int = 1024 * 1024
    """Maximum bytes of a request's body, as sent and unpacked. Larger bodies get 413."""
    max_values: int = 2_000_000
    """Maximum number of values in a request or its answer. More get 400. In a JSON request, each comma and each opening
    bracket counts as a value. A value takes up to 200 bytes of memory."""
    max_batch_rows: int = 64
    """Maximum number of sentences in a request, those of a text included. More get 400."""
    max_text_bytes: int = 65536
    """Maximum UTF-8 bytes of a string. Longer strings get 400."""
    rest_api_timeout_in_ms: int = 30_000
    """Maximum milliseconds from a request's headers to its answer, including the queue. Slower requests get 504."""
    concurrency: int = 2
    """Number of requests computed at the same time. From 2 on, one place is kept for bodies of up to 4 KiB."""
    queue: int = 128
    """Number of further requests that may wait. More get 503. Half of the places are kept for bodies of up to 4 KiB."""
    connections: int = 512
    """Maximum number of open HTTP connections. Further connections are closed at once. A connection without a request
    is closed after the time limit."""

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            least = 0 if name == "queue" else 1
            value = getattr(self, name)
            require(value >= least, f"--{name.replace('_', '-')}", f"{least} or more", value)

    @property
    def seconds(self) -> float:
        """``rest_api_timeout_in_ms`` in seconds."""
        return self.rest_api_timeout_in_ms / 1000


def require_few_rows(limits: Limits, name: str, rows: int) -> None:
    """Raises INVALID_ARGUMENT if input ``name`` has too many rows."""
    if rows > limits.max_batch_rows:
        raise invalid(
            f"Input {name} has {rows} rows, more than {limits.max_batch_rows} (--max-batch-rows). "
            "Send fewer rows at a time."
        )


def require_few_sentences(limits: Limits, inputs: Mapping[str, np.ndarray], require_time: Callable[[], None]) -> None:
    """Raises INVALID_ARGUMENT if texts that a graph splits have too many sentences, of which it may skip the last.

    ``require_time`` raises after the deadline. It is called before each text: splitting 64 KB takes half a second.
    """
    for name, tensor in inputs.items():
        sentences = 0
        for text in tensor.flat if tensor.dtype == object else ():
            require_time()
            pieces = split(text.decode("utf-8", "replace"))
            sentences += min(sum(bool(piece.sentence) for piece in pieces), MAX_SENTENCES)
            if sentences > limits.max_batch_rows:
                raise invalid(
                    f"Input {name} has more sentences than {limits.max_batch_rows} (--max-batch-rows). "
                    "Send fewer texts at a time."
                )


def require_few_values(limits: Limits, outputs: Mapping[str, np.ndarray]) -> None:
    """Raises INVALID_ARGUMENT if the answer has too many values."""
    values = sum(tensor.size for tensor in outputs.values())
    if values > limits.max_values:
        raise invalid(
            f"The answer would have {values} values, more than {limits.max_values} (--max-values). "
            "Send fewer rows at a time."
        )


def require_short_strings(limits: Limits, name: str, tensor: np.ndarray) -> None:
    """Raises INVALID_ARGUMENT if input ``name`` has a string that is too long."""
    longest = max(map(len, tensor.flat), default=0) if tensor.dtype == object else 0
    if longest > limits.max_text_bytes:
        raise invalid(
            f"Input {name} has a string of {longest} bytes, more than {limits.max_text_bytes} (--max-text-bytes). "
            "Split it into sentences."
        )
