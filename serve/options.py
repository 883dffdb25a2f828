"""The server's options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from .limits import Limits


@dataclass(frozen=True)
class Options:
    """Serves models over TensorFlow Serving's REST API, and its gRPC API if asked to."""

    model_dir: Path | None = None
    """Folder that holds NAME/VERSION/saved_model.pb for each model: its newest version is served. A SavedModel is a
    program that runs with the server's rights: serve only models from a source that you trust."""
    model_config_file: Path | None = None
    """Instead: a file in TensorFlow Serving's format (models.config) that lists models, their folders, version policies
    and labels."""
    port: int = 8501
    """TCP port of REST; 0 takes a free one, which the line on standard output names."""
    grpc_port: int | None = None
    """TCP port of gRPC, which is not served by default; 0 takes a free one."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 opens the server, which knows neither passwords nor TLS, to the network."""
    poll_seconds: float = 1.0
    """Seconds between two looks for new and removed versions; 0 looks once, at the start."""
    load_retry_interval_micros: int = 60_000_000
    """Microseconds before a version that failed to load is tried again. The pause doubles with each attempt, up to 10
    minutes. A version whose files change is tried at once."""
    enable_cors_support: bool = False
    """Whether web pages from other hosts may read the answers."""
    enable_monitoring: bool = False
    """Whether Prometheus metrics are served at /monitoring/prometheus/metrics."""
    enable_reload: bool = False
    """If `True`, gRPC clients may replace the list of models (HandleReloadConfigRequest), and so load a SavedModel,
    which is a program, from any folder that the server can read."""
    shutdown_seconds: int = 30
    """Seconds that requests under way are given to finish once the server is told to stop."""
    limits: Annotated[Limits, tyro.conf.arg(name="")] = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for option, value, least, limit in (
            ("--port", self.port, 0, 65536),
            ("--grpc-port", self.grpc_port or 0, 0, 65536),
            ("--poll-seconds", self.poll_seconds, 0, 1_000_000),
            ("--load-retry-interval-micros", self.load_retry_interval_micros, 0, 10**15),
            ("--shutdown-seconds", self.shutdown_seconds, 1, 1_000_000),
        ):
            if not least <= value < limit:
                raise ValueError(f"{option}: expected {least} to {limit - 1}, received {value}.")
        if self.port == self.grpc_port != 0:
            raise ValueError(f"--grpc-port: expected another port than REST's, received {self.grpc_port}.")
        if (self.model_dir is None) == (self.model_config_file is None):
            raise ValueError("--model-dir, --model-config-file: expected one of the two.")
