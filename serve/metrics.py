"""Prometheus metrics with TensorFlow Serving's names and units."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest

from .models.status import Code

METRICS_PATH = "/monitoring/prometheus/metrics"

_BUCKETS = [10 * 1.8**power for power in range(33)]
"""Upper bounds of the buckets in microseconds, as in TensorFlow Serving: from 10 microseconds to about 20 minutes."""


class Metrics:
    """The counts of one server.

    Pass only names of existing models. Clients can send any name, and one label per name would use unbounded memory.
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

    def record_request(self, model_name: str, code: Code, seconds: float) -> None:
        """Counts a request. Its time is recorded only if it succeeded, as in TensorFlow Serving."""
        self._requests.labels(model_name, code.name).inc()
        if code is Code.OK:
            self._latency.labels(model_name, "predict", "REST").observe(seconds * 1e6)

    def record_run(self, model_name: str, seconds: float) -> None:
        """Records how long one run of a graph took."""
        self._runtime.labels(model_name, "Predict", "TF1").observe(seconds * 1e6)

    def page(self) -> bytes:
        """Returns all metrics in Prometheus's text format."""
        page = generate_latest(self._registry)  # appends _total to a counter's name; TensorFlow Serving does not
        return page.replace(b":tensorflow:serving:request_count_total", b":tensorflow:serving:request_count")
