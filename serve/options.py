"""The server's options."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from nmt_keras.io.errors import require

from .limits import Limits


@dataclass(frozen=True)
class Options:
    """Serves models over TensorFlow Serving's REST API."""

    model_dir: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Folder that holds NAME/VERSION/saved_model.pb for each model, by default saved_models. The newest version is
    served. A SavedModel is a program that runs with the server's rights: serve only models from a source that you
    trust."""
    model_config_file: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """File in TensorFlow Serving's format (models.config), instead of --model-dir. It lists models, their folders,
    version policies and labels."""
    port: Annotated[int, tyro.conf.arg(metavar="PORT")] = 8501
    """TCP port. 0 takes a free port and prints it."""
    host: Annotated[str, tyro.conf.arg(metavar="ADDRESS")] = "127.0.0.1"
    """Address to listen on. 0.0.0.0 opens the server to the network, without passwords and TLS. On a loopback address,
    only requests whose Host is localhost or a loopback address are answered."""
    poll_seconds: float = 1.0
    """Seconds between two polls for new and removed versions. 0 disables polling."""
    load_retry_interval_micros: int = 60_000_000
    """Microseconds before another attempt to load a version that failed. A version whose files change is tried at
    once."""
    enable_cors_support: bool = False
    """Let web pages of other origins send requests, read the answers and show the page in a frame. Accept any Host."""
    enable_monitoring: bool = False
    """Serve Prometheus metrics at /monitoring/prometheus/metrics."""
    access_log: bool = False
    """Log a line for each request: client, method, path, status, milliseconds and id. Answers have the id as
    X-Request-Id. The access log is also off above --log-level info."""
    log_format: Literal["text", "json"] = "text"
    """Format of the log. A line of JSON for a request also has the header X-Forwarded-For."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe messages to log, on standard error."""
    shutdown_seconds: int = 30
    """Maximum seconds to finish the running requests when the server stops."""
    limits: Annotated[Limits, tyro.conf.arg(name="")] = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for option, value, least, limit in (
            ("--port", self.port, 0, 65536),
            ("--poll-seconds", self.poll_seconds, 0, 1_000_000),
            ("--load-retry-interval-micros", self.load_retry_interval_micros, 0, 10**15),
            ("--shutdown-seconds", self.shutdown_seconds, 1, 1_000_000),
        ):
            require(least <= value < limit, option, f"{least} to {limit - 1}", value)
        both = (self.model_dir, self.model_config_file)
        require(None in both, "--model-dir, --model-config-file", "at most one of them", both)
