"""Prometheus metrics: TensorFlow Serving's, with its names and units, and those of the process and the queue."""

from collections.abc import Callable, Iterable
from typing import Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from .models.status import Code

METRICS_PATH = "/monitoring/prometheus/metrics"

_BUCKETS = [10 * 1.8**power for power in range(33)]
"""Upper bounds of the buckets in microseconds, as in TensorFlow Serving: from 10 microseconds to about 20 minutes."""


Versions = Callable[[], Iterable[tuple[str, int]]]


class Metrics:
    """The counts of one server.

    Pass only names of existing models. Clients can send any name, and one label per name would use unbounded memory.

    Args:
        running: Returns the number of requests that are computed.
        waiting: Returns the number of requests in the queue.
        loaded: Returns names and versions of the models that answer.
        failed: Returns names and versions of those that could not be loaded.
    """

    def __init__(
        self, running: Callable[[], int], waiting: Callable[[], int], loaded: Versions, failed: Versions
    ) -> None:
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
        self._refusals = Counter(
            "nmt_serve_refusals",
            "Connections beyond the maximum, and requests with malformed HTTP or headers that are not accepted.",
            ["refused"],
            registry=self._registry,
        )
        ProcessCollector(registry=self._registry)  # memory, processor time, open files
        for name, text, value in (
            ("nmt_serve_requests_running", "Requests that are computed.", running),
            ("nmt_serve_requests_waiting", "Requests in the queue.", waiting),
        ):
            Gauge(name, text, registry=self._registry).set_function(value)
        self._versions = [
            (Gauge(name, text, ["model_name", "version"], registry=self._registry), versions)
            for name, text, versions in (
                ("nmt_serve_version_loaded", "1 for each version that answers.", loaded),
                ("nmt_serve_version_failed", "1 for each that could not be loaded.", failed),
            )
        ]

    def record_request(self, model_name: str, code: Code, seconds: float) -> None:
        """Counts a request. Its time is recorded only if it succeeded, as in TensorFlow Serving."""
        self._requests.labels(model_name, code.name).inc()
        if code is Code.OK:
            self._latency.labels(model_name, "predict", "REST").observe(seconds * 1e6)

    def record_run(self, model_name: str, seconds: float) -> None:
        """Records how long one run of a graph took."""
        self._runtime.labels(model_name, "Predict", "TF1").observe(seconds * 1e6)

    def record_refusal(self, refused: Literal["connection", "request"]) -> None:
        """Counts a connection beyond the maximum, or a request whose HTTP or headers are not accepted."""
        self._refusals.labels(refused).inc()

    def page(self) -> bytes:
        """Returns all metrics in Prometheus's text format. Only one thread at a time may call it."""
        for gauge, versions in self._versions:
            gauge.clear()
            for name, version in versions():
                gauge.labels(name, str(version)).set(1)
        page = generate_latest(self._registry)  # appends _total to a counter's name; TensorFlow Serving does not
        return page.replace(b":tensorflow:serving:request_count_total", b":tensorflow:serving:request_count")
