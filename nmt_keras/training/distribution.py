"""Updates on several devices, or on several machines: each replica differentiates its share of the batch.

Sums of gradients are added over all replicas, once an update, then divided by the global denominator and clipped, as on
one device: what is computed does not depend on the number of replicas, but for dropout masks, of which each has its
own.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from nmt_keras.config import END, PAD, TrainConfig
from nmt_keras.corpus.batches import Batch
from nmt_keras.models.seq2seq import Seq2Seq
from nmt_keras.training.loss import Loss
from nmt_keras.training.optimizers import clip
from nmt_keras.training.step import Updater


class Cluster(NamedTuple):
    """What ``TF_CONFIG`` says."""

    processes: int
    """That train together; 1 without ``TF_CONFIG``."""
    first: bool
    """Whether this one is their chief: the job "chief", or else worker 0."""


def find_cluster() -> Cluster:
    """The processes that ``TF_CONFIG`` names.

    Raises:
        ValueError: it cannot be read, or knows other jobs than "chief" and "worker".
    """
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        said = json.loads(text)
        jobs = {job: len(addresses) for job, addresses in said.get("cluster", {}).items()}
        task = said.get("task", {})
        kind, index = task.get("type", "worker"), int(task.get("index", 0))
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            'TF_CONFIG: expected JSON such as {"cluster": {"worker": ["a:2222", "b:2222"]}, '
            f'"task": {{"type": "worker", "index": 0}}}}, received {text!r:.200}; {error}.'
        ) from error
    if unknown := sorted({*jobs, kind} - {"chief", "worker"}):
        raise ValueError(
            f"TF_CONFIG: expected the jobs chief and worker, received {', '.join(unknown)}. Every process trains: "
            "name all of them as workers."
        )
    return Cluster(max(1, sum(jobs.values())), kind == "chief" or ("chief" not in jobs and index == 0))


def find_strategy() -> tf.distribute.Strategy | None:
    """How training is spread: over the workers that ``TF_CONFIG`` names, or this machine's GPUs; None over nothing.

    To be called before any other operation of TensorFlow, as workers must find each other first.

    Raises:
        ValueError: see ``find_cluster``.
    """
    if find_cluster().processes > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return None


def is_first_worker() -> bool:
    """Whether ``TF_CONFIG`` calls this process the chief of several, or there is none."""
    return find_cluster().first


def is_chief(strategy: tf.distribute.Strategy | None) -> bool:
    """Whether this process is the one that writes files: the chief of several, or the only one."""
    return strategy is None or strategy.cluster_resolver is None or find_cluster().first


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
        self._compiled, self._add_here = self.differentiate, self.add
        self.differentiate = tf.function(self._on_each, autograph=False)
        self.add = tf.function(lambda one, other: strategy.run(self._add_here, args=(one, other)), autograph=False)
        self._sum = tf.function(self._summed, autograph=False)
        self._total = tf.function(self._added_up, autograph=False)
        self._move = self._moved_everywhere
        # Keras would add gradients over the replicas once more; where it no longer asks this, two replicas' tests fail
        self.optimizer._all_reduce_sum_gradients = lambda pairs: pairs
        self.replicas: int = strategy.num_replicas_in_sync

    def arrays(self, batch: Batch) -> tuple[Any, Any, Any]:
        """Source, target and alignment of a batch in shares: row i belongs to replica i modulo their number.

        Where rows do not go round, some shares get a masked row more.
        """
        missing = -len(batch.source) % self.replicas

        def share(side: np.ndarray, first: int = PAD) -> Any:
            masked = np.full((missing, *side.shape[1:]), PAD, side.dtype)
            masked[:, :1] = first
            rows = np.concatenate([side, masked])
            return self.strategy.experimental_distribute_values_from_function(
                lambda context: tf.constant(rows[context.replica_id_in_sync_group :: self.replicas])
            )

        alignment = None if batch.alignment is None else share(batch.alignment)
        return share(batch.source, first=END), share(batch.target), alignment

    def _replica(self) -> tf.Tensor | int:
        """Returns the number of the replica that computes."""
        context = tf.distribute.get_replica_context()
        return tf.cast(context.replica_id_in_sync_group, tf.int32) if context else 0

    def _on_each(
        self, batch: tuple[Any, Any, Any], step: tf.Tensor, sampling: tf.Tensor | None, scale: tf.Tensor
    ) -> tuple[list[Any], Any]:
        """Gradients and loss of each replica's share."""
        return self.strategy.run(lambda share: self._compiled(share, step, sampling, scale), args=(batch,))

    def reduce(self, sums: tuple[Any, Any]) -> tuple[Any, Loss]:
        """Gradients of the whole batch, a copy on each replica, and its loss."""
        return self._sum(sums)

    def _summed(self, sums: tuple[Any, Any]) -> tuple[Any, Loss]:
        """``reduce`` as a graph."""

        def everywhere(sums: tuple[list[tf.Tensor], Loss]) -> tuple[list[tf.Tensor], Loss]:
            here = tf.nest.map_structure(tf.identity, sums)  # on the replica's device, which TensorFlow wants to know
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, here)

        gradients, loss = self.strategy.run(everywhere, args=(sums,))
        return gradients, tf.nest.map_structure(self._here, loss)

    def agreed(self, number: int | None, due: bool) -> int | None:
        """The signal that all processes stop for, at the same step: any that one of them has received.

        Args:
            number: of the signal that this process has received, if it has.
            due: whether they ask each other now; all must at the same steps, and between them nobody stops.
        """
        if self._is_alone():
            return number
        if not due or not float(self._total(tf.constant(float(number is not None), tf.float64))):
            return None
        return number or signal.SIGTERM

    def common(self, number: float) -> float:
        """A number that all processes know alike: the mean of theirs. Near ties would be judged otherwise by each."""
        if self._is_alone():
            return number
        return float(self._total(tf.constant(number, tf.float64))) / self.replicas

    def _is_alone(self) -> bool:
        """Whether all replicas are this process's."""
        return len(self.strategy.extended.worker_devices) == self.replicas

    def _added_up(self, number: tf.Tensor) -> tf.Tensor:
        """The sum over all replicas of the ``number`` [] of its process."""

        def everywhere(number: tf.Tensor) -> tf.Tensor:
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(number))

        return self._here(self.strategy.run(everywhere, args=(number,)))

    def _here(self, value: Any) -> tf.Tensor:
        """A value of replicas as one tensor, that of the first one here."""
        return self.strategy.experimental_local_results(value)[0]

    def _moved_everywhere(
        self, gradients: list[Any], divisor: tf.Tensor, norm: tf.Tensor, rate: tf.Tensor
    ) -> tf.Tensor:
        """Moves every replica's weights by its own copy of the gradients."""

        def move(copies: list[tf.Tensor]) -> None:
            self.optimizer.apply(clip([g / divisor for g in copies], norm, self.config.clip_norm), self.variables)

        self.optimizer.learning_rate.assign(rate)
        self.strategy.run(move, args=(gradients,))
        return tf.constant(0)
