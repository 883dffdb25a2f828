"""What one request, and all of them together, may take of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .models.status import invalid

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Limits:
    """The bounds of body, batch, text, queue and time; TensorFlow Serving sets few of them."""

    max_body_bytes: int = 16 * 1024 * 1024
    """Bytes of a request's body as sent, over REST or gRPC; beyond them: 413, RESOURCE_EXHAUSTED. All bodies together
    take at most this times (concurrency + queue), 2080 MiB by default. gRPC messages still being received take at most
    as much again, plus this times 64 for status, metadata and reload requests, plus 64 KiB for each waiting call.
    Decoding a hostile gRPC message takes up to 90 times its size, --concurrency at once."""
    max_unpacked_bytes: int = 100_000_000
    """Bytes of a gzipped body once it is unpacked, or of a gRPC tensor's strings; beyond them: 413,
    INVALID_ARGUMENT."""
    max_values: int = 2_000_000
    """Values of one request (in JSON: commas and brackets), or of its answer, each up to 200 bytes in memory; beyond
    them: 400."""
    max_batch_rows: int = 256
    """Rows (sentences) of one request; beyond them: 400."""
    max_text_bytes: int = 65536
    """UTF-8 bytes of one string; beyond them: 400."""
    rest_api_timeout_in_ms: int = 30_000
    """Milliseconds a request may take from its headers to its answer, waiting included; beyond them: 504."""
    concurrency: int = 2
    """Requests that are computed at once."""
    queue: int = 128
    """Further requests that may wait for their turn; beyond them: 503, UNAVAILABLE."""
    connections: int = 512
    """HTTP connections open at once; requests on further ones: 503. gRPC has as many connections and calls of its own;
    further connections are closed, further calls get RESOURCE_EXHAUSTED. One gRPC connection has 16 calls at once."""

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            least = 0 if name == "queue" else 1
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"--{name.replace('_', '-')}: expected {least} or more, received {value}.")

    @property
    def seconds(self) -> float:
        """``rest_api_timeout_in_ms`` in seconds."""
        return self.rest_api_timeout_in_ms / 1000


def require_few_rows(limits: Limits, name: str, rows: int) -> None:
    """Raises INVALID_ARGUMENT for an input of too many rows."""
    if rows > limits.max_batch_rows:
        reason = f"{rows} rows, more than {limits.max_batch_rows}"
        raise invalid(f"Input {name} has {reason} (--max-batch-rows): send fewer at a time")


def require_few_values(limits: Limits, outputs: Mapping[str, np.ndarray]) -> None:
    """Raises INVALID_ARGUMENT for an answer that is too large to be written."""
    values = sum(tensor.size for tensor in outputs.values())
    if values > limits.max_values:
        reason = f"{values} values, more than {limits.max_values}"
        raise invalid(f"The answer would have {reason} (--max-values): send fewer rows at a time")


def require_within(limits: Limits, name: str, tensor: np.ndarray) -> None:
    """Raises INVALID_ARGUMENT for an input of too many rows, or with a string that is too long."""
    if tensor.ndim:
        require_few_rows(limits, name, len(tensor))
    if tensor.dtype == object:
        require_text_size(limits, name, max(map(len, tensor.flat), default=0))


def require_text_size(limits: Limits, name: str, longest: int) -> None:
    """Raises INVALID_ARGUMENT for an input whose longest string has ``longest`` bytes, if that is too many."""
    if longest > limits.max_text_bytes:
        size = f"{longest} bytes, more than {limits.max_text_bytes}"
        raise invalid(f"Input {name} has a string of {size} (--max-text-bytes): split it into sentences")
