"""Configuration of an export."""

from __future__ import annotations

from dataclasses import dataclass

from nmt_keras.config.checks import require, require_positive


@dataclass(frozen=True)
class MicroBatchingConfig:
    """Merging of concurrent requests into one search, inside an export."""

    max_batch_size: int = 32
    """Maximum number of sentences merged. A larger request is searched in parts."""
    wait_ms: float = 0.0
    """Milliseconds that a batch which is not full waits for more; 0 merges what comes while all threads are busy."""
    threads: int = 2
    """Batches that are searched at once."""
    queue: int = 16
    """Batches that may wait; beyond them a request is refused (UNAVAILABLE, 503) and may be tried again."""

    def __post_init__(self) -> None:
        require_positive(self, "max_batch_size", "threads", "queue")
        require(self.wait_ms >= 0.0, "MicroBatchingConfig.wait_ms", "0 or more", self.wait_ms)


@dataclass(frozen=True)
class ExportConfig:
    """How a model is written as a SavedModel."""

    half_precision: bool = False
    """Store weights in float16, in half the bytes; they are float32 again once loaded."""
    micro_batching: MicroBatchingConfig | None = None
    """Merge concurrent requests inside the graph; None answers each by itself."""
