"""Options shared by the client programs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from .retry import Retry
from .translating import DEFAULT_MODEL, DEFAULT_URL, Client


@dataclass(frozen=True)
class ServerOptions:
    """Server and model."""

    url: Annotated[str, tyro.conf.arg(metavar="URL")] = DEFAULT_URL
    """URL of the server: http:// or https://."""
    model: Annotated[str, tyro.conf.arg(metavar="NAME")] = DEFAULT_MODEL
    """Name of the model: its folder in the server's ``--model-dir``."""
    version: Annotated[int | None, tyro.conf.arg(metavar="VERSION")] = None
    """Version of the model. Default: the newest."""
    label: Annotated[str | None, tyro.conf.arg(metavar="LABEL")] = None
    """Label of a version, instead of its number."""
    timeout: float = 60.0
    """Time limit of a whole answer in seconds."""
    attempts: int = Retry.attempts
    """Maximum number of attempts if the server is busy or restarting."""
    ca_file: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """PEM file of the certificates that signed the server's certificate."""

    def connect(self) -> Client:
        """Returns a client of this server and model."""
        names = self.url, self.model, self.version, self.label
        return Client(*names, self.timeout, retry=Retry(self.attempts), ca_file=self.ca_file)
