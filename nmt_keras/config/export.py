"""Configuration of an export."""

from dataclasses import dataclass
from typing import Annotated

from nmt_keras.config.checks import NOT_NEGATIVE, Count, require_types


@dataclass(frozen=True)
class MicroBatchingConfig:
    """Merging of concurrent requests into one search, inside the exported graph."""

    max_batch_size: Count = 32
    """Maximum number of sentences merged into one search. A larger request is split into several searches."""
    wait_ms: Annotated[float, NOT_NEGATIVE] = 0.0
    """Time in milliseconds that an incomplete batch waits for more requests. With 0, requests are merged only while all
    threads are busy."""
    threads: Count = 1
    """Number of batches searched concurrently. On two cores, one large batch is faster than two small ones."""
    queue: Count = 16
    """Maximum number of waiting batches. Further requests are rejected with UNAVAILABLE (503) and may be retried."""

    def __post_init__(self) -> None:
        require_types(self)


@dataclass(frozen=True)
class ExportConfig:
    """Export of a model as a SavedModel."""

    half_precision: bool = False
    """If True, weights are stored in float16 and converted back to float32 when loaded."""
    micro_batching: MicroBatchingConfig | None = None
    """Settings for merging concurrent requests inside the exported graph; None for no merging."""
    data_licence: str | None = None
    """Licence of the training data, for the model card."""
    limitations: tuple[str, ...] = ()
    """Sentences for the limits in the model card: what this model is known to translate wrongly."""

    def __post_init__(self) -> None:
        require_types(self)
