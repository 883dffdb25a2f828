"""Updates on several devices, or on several machines: each replica differentiates its share of the batch.

Sums of gradients are added over all replicas, then divided once by the global denominator and clipped, as on one
device: what is computed does not depend on the number of replicas, but for dropout masks, of which each has its own.
"""

from __future__ import annotations

import json
import os
from typing import Any

import tensorflow as tf

from nmt_keras.cells import Noise
from nmt_keras.config import TrainConfig
from nmt_keras.corpus.batches import Batch
from nmt_keras.loss import Loss
from nmt_keras.model import Seq2Seq
from nmt_keras.optimization import clip
from nmt_keras.training.updating import Updater

SEEDS_APART = 1_000_003


def find_strategy() -> tf.distribute.Strategy | None:
    """How training is spread: over the workers that ``TF_CONFIG`` names, or this machine's GPUs; None over nothing.

    To be called before any other operation of TensorFlow, as workers must find each other first.
    """
    workers = json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {}).get("worker", [])
    if len(workers) > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return None


def is_first_worker() -> bool:
    """Whether ``TF_CONFIG`` calls this process the first of several, or there is none: the chief of what comes."""
    return not json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("index", 0)


def is_chief(strategy: tf.distribute.Strategy | None) -> bool:
    """Whether this process is the one that writes files: worker 0, or the only one."""
    resolver = strategy.cluster_resolver if strategy else None
    return resolver is None or resolver.task_id in (None, 0)


class ReplicatedUpdater(Updater):
    """One update of a model whose variables were made in ``strategy``'s scope.

    Forward and backward pass are compiled for each replica; sums over replicas and the update are plain graph
    operations, as XLA knows neither.

    Args:
        model: built, in the strategy's scope.
        config: see ``Updater``.
        strategy: synchronous: mirrored, on one machine or on several.
    """

    def __init__(self, model: Seq2Seq, config: TrainConfig, strategy: tf.distribute.Strategy):
        with strategy.scope():
            super().__init__(model, config)
        self.strategy = strategy
        self._compiled = self.differentiate
        self.differentiate = tf.function(self._summed, autograph=False)
        self._move = self._moved_everywhere
        self.replicas: int = strategy.num_replicas_in_sync

    def arrays(self, batch: Batch) -> tuple[Any, Any, Any]:
        """Source, target and alignment of a batch in shares: row i belongs to replica i modulo their number."""
        rows = len(batch.source)
        if rows % self.replicas:
            raise ValueError(
                f"TrainConfig.batch_size: expected a multiple of the {self.replicas} replicas, received a batch of "
                f"{rows} rows. Change it, or the number of devices."
            )

        def share(side: Any) -> Any:
            return self.strategy.experimental_distribute_values_from_function(
                lambda context: tf.constant(side[context.replica_id_in_sync_group :: self.replicas])
            )

        alignment = None if batch.alignment is None else share(batch.alignment)
        return share(batch.source), share(batch.target), alignment

    def _noise(self, step: tf.Tensor) -> Noise:
        """Every replica's own randomness; the first has that of a single device."""
        context = tf.distribute.get_replica_context()
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32) if context else tf.constant(0)
        return Noise(tf.constant(self.config.seed, tf.int32) + replica * SEEDS_APART, step)

    def _summed(
        self, batch: tuple[Any, Any, Any], step: tf.Tensor, sampling: tf.Tensor | None, scale: tf.Tensor
    ) -> tuple[list[tf.Tensor], Loss]:
        """Gradients and loss of the whole batch."""

        def here(batch: tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]) -> tuple[list[tf.Tensor], Loss]:
            gradients, loss = self._compiled(batch, step, sampling, scale)
            context = tf.distribute.get_replica_context()
            return context.all_reduce(tf.distribute.ReduceOp.SUM, (gradients, loss))

        sums = self.strategy.run(here, args=(batch,))
        return tf.nest.map_structure(lambda one: self.strategy.experimental_local_results(one)[0], sums)

    def _moved_everywhere(
        self, gradients: list[tf.Tensor], divisor: tf.Tensor, norm: tf.Tensor, rate: tf.Tensor
    ) -> tf.Tensor:
        """Moves every replica's weights. Keras adds gradients over replicas once more, so each gives its share."""
        clipped = clip([g / divisor for g in gradients], norm, self.config.clip_norm)
        shares = [g / self.replicas for g in clipped]
        self.optimizer.learning_rate.assign(rate)

        def move() -> None:
            here = [tf.identity(share) for share in shares]  # on the replica's device, where Keras looks for them
            self.optimizer.apply(here, self.variables)

        self.strategy.run(move)
        return tf.constant(0)
