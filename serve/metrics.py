"""What the server counts, under TensorFlow Serving's names and in its units, for Prometheus to read."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest

from .models.status import Code

METRICS_PATH = "/monitoring/prometheus/metrics"

_BUCKETS = [10 * 1.8**power for power in range(33)]
"""Upper bounds in microseconds, as in TensorFlow Serving: 10 to about 20 minutes, then infinity."""


class Call(NamedTuple):
    """What is asked, and by which protocol."""

    api: str
    """predict over REST, Predict over gRPC."""
    entrypoint: str
    """REST or GRPC."""


class Metrics:
    """The counts of one server.

    Only names of models and signatures that exist may come in: a label for each name that a client makes up would take
    memory without bound.
    """

    def __init__(self) -> None:
        disable_created_metrics()
        self._registry = CollectorRegistry(auto_describe=True)
        self._requests = Counter(
            ":tensorflow:serving:request_count",
            "The total number of requests.",
            ["model_name", "status"],
            registry=self._registry,
        )
        self._latency = Histogram(
            ":tensorflow:serving:request_latency",
            "Distribution of wall time (in microseconds) for TensorFlow Serving request.",
            ["model_name", "API", "entrypoint"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._runtime = Histogram(
            ":tensorflow:serving:runtime_latency",
            "Distribution of wall time (in microseconds) for TensorFlow runtime.",
            ["model_name", "API", "runtime"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._signatures = Counter(
            "embedded_server_signature_requests",
            "The total number of requests by signature, which TensorFlow Serving does not tell apart.",
            ["model_name", "signature_name", "status"],
            registry=self._registry,
        )

    def record_request(self, call: Call, model_name: str, signature_name: str, code: Code, seconds: float) -> None:
        """Counts a request that is done; its time counts if it was answered, as in TensorFlow Serving."""
        self._requests.labels(model_name, code.name).inc()
        self._signatures.labels(model_name, signature_name, code.name).inc()
        if code is Code.OK:
            self._latency.labels(model_name, call.api, call.entrypoint).observe(seconds * 1e6)

    def record_run(self, call: Call, model_name: str, seconds: float) -> None:
        """Counts the time that the graph took of a request."""
        api = call.api[0].upper() + call.api[1:]
        self._runtime.labels(model_name, api, "TF1").observe(seconds * 1e6)

    def page(self) -> bytes:
        """Everything counted so far in Prometheus's text format."""
        page = generate_latest(self._registry)  # it ends a counter's name in _total, which TensorFlow Serving does not
        return page.replace(b":tensorflow:serving:request_count_total", b":tensorflow:serving:request_count")
