"""Options shared by the client programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .retry import Retry
from .translating import DEFAULT_MODEL, DEFAULT_TEXT_BYTES, DEFAULT_URL, Client


@dataclass(frozen=True)
class ServerOptions:
    """Server and model."""

    url: str = DEFAULT_URL
    """URL of the server: http://, https://, grpc:// or grpcs://."""
    model: str = DEFAULT_MODEL
    """Name of the model. The API cannot list the models."""
    version: int | None = None
    """Version of the model. Default: the newest."""
    label: str | None = None
    """Label of a version, instead of its number."""
    timeout: float = 60.0
    """Time limit of a whole answer in seconds."""
    attempts: int = Retry.attempts
    """Maximum number of attempts if the server is busy or restarting."""
    ca_file: Path | None = None
    """PEM file of the certificates that signed the server's certificate."""

    def connect(self, max_text_bytes: int = DEFAULT_TEXT_BYTES) -> Client:
        """Returns a client of this server and model."""
        retry, names = Retry(self.attempts), (self.url, self.model, self.version, self.label)
        return Client(*names, self.timeout, max_text_bytes=max_text_bytes, retry=retry, ca_file=self.ca_file)
