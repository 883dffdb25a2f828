"""Updates on several devices or machines: each replica differentiates its share of the batch.

Gradients are summed over all replicas once per update, then divided by the global denominator and clipped. The result
does not depend on the number of replicas, except for dropout masks: each replica has its own.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import tensorflow as tf

from nmt_keras.config import END, PAD, TrainConfig
from nmt_keras.corpus.batches import Batch
from nmt_keras.models.seq2seq import Seq2Seq
from nmt_keras.training.loss import Loss
from nmt_keras.training.optimizers import clip
from nmt_keras.training.step import Updater


def find_cluster() -> tuple[int, bool]:
    """Reads the processes that train together from ``TF_CONFIG``.

    Returns:
        Their number, 1 without ``TF_CONFIG``; and ``True`` if this process is their chief: the job "chief" or, without
        one, worker 0.

    Raises:
        ValueError: ``TF_CONFIG`` cannot be read, or has other jobs than "chief" and "worker".
    """
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    try:
        jobs, job, index = resolver.cluster_spec().as_dict(), resolver.task_type, resolver.task_id
    except (TypeError, ValueError) as error:
        raise ValueError(
            'TF_CONFIG: expected JSON such as {"cluster": {"worker": ["a:2222", "b:2222"]}, '
            f'"task": {{"type": "worker", "index": 0}}}}, received {os.environ["TF_CONFIG"]!r:.200}; {error}.'
        ) from error
    if unknown := sorted({*jobs, job or "worker"} - {"chief", "worker"}):
        raise ValueError(
            f"TF_CONFIG: expected the jobs chief and worker, received {', '.join(unknown)}. Every process trains: "
            "name all of them as workers."
        )
    processes = sum(len(addresses) for addresses in jobs.values())
    return max(1, processes), job == "chief" or ("chief" not in jobs and not index)


def find_strategy() -> tf.distribute.Strategy | None:
    """Returns a strategy for the workers in ``TF_CONFIG`` or for several GPUs of this machine; ``None`` without them.

    Call this before any other operation of TensorFlow, because workers must find each other first.

    Raises:
        ValueError: See ``find_cluster``.
    """
    if find_cluster()[0] > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return None


def is_first_worker() -> bool:
    """Returns ``True`` if this process is the chief of those in ``TF_CONFIG``, or the only one."""
    return find_cluster()[1]


def is_chief(strategy: tf.distribute.Strategy | None) -> bool:
    """Returns ``True`` if this process writes the files: the chief of several processes, or the only one."""
    return strategy is None or strategy.cluster_resolver is None or is_first_worker()


class ReplicatedUpdater(Updater):
    """One update of a model whose variables were created in the scope of ``strategy``.

    Forward and backward pass are compiled for each replica. Sums over replicas and the update are plain graph
    operations, because XLA does not know them.

    Args:
        model: Built in the strategy's scope.
        config: See ``Updater``.
        strategy: A synchronous strategy: mirrored, on one machine or on several.

    Raises:
        ValueError: ``config.minutes`` is set for several processes, or see ``Updater``.
    """

    def __init__(self, model: Seq2Seq, config: TrainConfig, strategy: tf.distribute.Strategy):
        self.strategy = strategy
        self.replicas: int = strategy.num_replicas_in_sync
        if config.minutes is not None and not self._is_alone():
            raise ValueError(
                f"TrainConfig.minutes: expected steps or epochs instead if several workers train, received "
                f"{config.minutes}: each worker would count other steps."
            )
        with strategy.scope():
            super().__init__(model, config)
        self._compiled, self._add_here = self.differentiate, self.add
        self.differentiate = tf.function(self._on_each, autograph=False)
        self.add = tf.function(lambda one, other: strategy.run(self._add_here, args=(one, other)), autograph=False)
        self._move = self._moved_everywhere
        # Keras would add gradients over the replicas again; without this attribute the tests of two replicas fail
        self.optimizer._all_reduce_sum_gradients = lambda pairs: pairs

    def arrays(self, batch: Batch) -> tuple[Any, Any, Any]:
        """Returns source, target and alignment of a batch in shares. Row i belongs to replica i modulo their number.

        If the rows cannot be divided evenly, some shares get a masked row more.
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
        """Returns the gradients and the loss of each replica's share."""
        return self.strategy.run(lambda share: self._compiled(share, step, sampling, scale), args=(batch,))

    @tf.function(autograph=False)
    def reduce(self, sums: tuple[Any, Any]) -> tuple[Any, Loss]:
        """Gradients of the whole batch, a copy on each replica, and its loss."""
        gradients, loss = self.strategy.run(_sum_over_replicas, args=(sums,))
        return gradients, tf.nest.map_structure(self._here, loss)

    def agreed(self, number: int | None, due: bool) -> int | None:
        """Returns the signal for which all processes stop at the same step: any that one of them has received.

        Args:
            number: The signal that this process has received, if any.
            due: If ``True``, the processes exchange their signals now; all must at the same steps. In between, none
                stops.
        """
        if self._is_alone():
            return number
        if not due or not self._total(tf.constant(float(number is not None), tf.float64)):
            return None
        return number or signal.SIGTERM

    def common(self, number: float) -> float:
        """Returns the mean of a number over the processes, so that all judge near ties alike."""
        if self._is_alone():
            return number
        return float(self._total(tf.constant(number, tf.float64))) / self.replicas

    def _is_alone(self) -> bool:
        """Returns ``True`` if all replicas belong to this process."""
        return len(self.strategy.extended.worker_devices) == self.replicas

    @tf.function(autograph=False)
    def _total(self, number: tf.Tensor) -> tf.Tensor:
        """Returns the sum of ``number`` [] over all replicas; each process gives its own."""
        return self._here(self.strategy.run(_sum_over_replicas, args=(number,)))

    def _here(self, value: Any) -> tf.Tensor:
        """Returns the value of the first replica of this process."""
        return self.strategy.experimental_local_results(value)[0]

    def _moved_everywhere(
        self, gradients: list[Any], divisor: tf.Tensor, norm: tf.Tensor, rate: tf.Tensor
    ) -> tf.Tensor:
        """Updates every replica's weights with its own copy of the gradients."""

        def move(copies: list[tf.Tensor]) -> None:
            self.optimizer.apply(clip([g / divisor for g in copies], norm, self.config.clip_norm), self.variables)

        self.optimizer.learning_rate.assign(rate)
        self.strategy.run(move, args=(gradients,))
        return tf.constant(0)


def _sum_over_replicas(values: Any) -> Any:
    """Adds structures of tensors over all replicas. Called on each replica."""
    here = tf.nest.map_structure(tf.identity, values)  # on the replica's device, which TensorFlow asks for
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, here)
