"""Progress of a training, and early stopping."""

import math
from dataclasses import dataclass

from nmt_keras.config import TrainConfig
from nmt_keras.corpus.batches import Position

BEGINNING = Position(0, 0, 0)


@dataclass
class Progress:
    """Training progress, stored in each checkpoint."""

    step: int = 0  # updates made
    position: Position = BEGINNING  # of the next batch
    total: float = 0.0  # length in updates or seconds; 0 until it is known
    seconds: float = 0.0  # spent training, the first compilation included
    compilation: float = 0.0  # seconds before the first update
    validation_seconds: float = 0.0  # of the longest validation
    best: float = math.inf  # lowest validation loss, nats per token, or -BLEU
    stale: int = 0  # validations since the best one
    validations: int = 0  # number of validations that are no longer due
    finished: bool = False

    def share(self, config: TrainConfig) -> float:
        """Returns the share of the training that is done, 0 to 1.

        If the length is in minutes, the time of the longest validation is left for the last one. The time of the
        compilation does not count.
        """
        if config.minutes is None:
            return min(1.0, self.step / self.total)
        whole = self.total - self.compilation - self.validation_seconds
        return min(1.0, (self.seconds - self.compilation) / whole) if whole > 0.0 else 1.0

    def total_steps(self, config: TrainConfig) -> float:
        """Returns the number of updates of the training. If its length is in minutes, an estimate at the mean speed."""
        return self.total if config.minutes is None else self.step / max(self.share(config), 1e-9)

    def validations_due(self, config: TrainConfig) -> int:
        """Returns the number of validations that belong to the share of the training that is done."""
        return int(self.share(config) * config.validations + 1e-9)  # 1e-9 because 3 * 0.1 is more than 0.3

    def extend(self, updates: int, config: TrainConfig) -> None:
        """Adds updates to a finished training.

        The schedules are stretched: the learning rate continues as if the run had had the new length from the
        beginning. If the length is in minutes, it grows to the time of all updates at the mean speed, and of a
        validation.
        """
        share = self.step / (self.step + updates)
        whole = self.seconds / share + self.validation_seconds
        self.total = self.step + updates if config.minutes is None else whole
        self.validations = int(config.validations * share)
        self.stale, self.finished = 0, False

    def record_validation(self, cost: float, config: TrainConfig, *, last: bool) -> bool:
        """Records a validation's loss in nats per token, or -BLEU. Returns ``True`` if it is the lowest so far.

        Sets ``finished`` after the last validation, or after ``config.patience`` validations without a lower cost.
        """
        better = cost < self.best
        self.best = min(self.best, cost)
        self.stale = 0 if better else self.stale + 1
        self.finished = last or self.stale >= config.patience
        return better
