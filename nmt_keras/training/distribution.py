"""Replicas of a model on several devices or machines. Each computes the gradients of its share of the batch.

Gradients are summed over all replicas once per update, divided by the update's number of tokens or pairs
(``TrainConfig.denominator``), and clipped. The result does not depend on the number of replicas, except for dropout
masks, which differ between replicas.
"""

import faulthandler
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

import numpy as np
import tensorflow as tf

from nmt_keras.config import END, PAD, require
from nmt_keras.corpus.batches import Batch

Structure = TypeVar("Structure")
"""Nested structure of tensors, or of the tensors of several replicas."""

LOST = tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.DeadlineExceededError
"""Errors that collective operations raise if another process has ended or hangs."""

SECONDS_TO_MEET = 60.0
"""Maximum number of seconds that a worker waits for the other workers at the start."""


def find_cluster() -> tuple[int, bool]:
    """Reads ``TF_CONFIG``: the number of processes that train together, and the role of this one.

    Returns:
        Number of processes (1 without ``TF_CONFIG``), and ``True`` if this process is the chief. The chief is the job
        "chief" or, without that job, worker 0.

    Raises:
        ValueError: ``TF_CONFIG`` cannot be read, or has jobs other than "chief" and "worker".
    """
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    try:
        jobs, job, index = resolver.cluster_spec().as_dict(), resolver.task_type, resolver.task_id
    except (TypeError, ValueError) as error:
        raise ValueError(
            'TF_CONFIG: expected JSON such as {"cluster": {"worker": ["a:2222", "b:2222"]}, '
            f'"task": {{"type": "worker", "index": 0}}}}, received {os.environ["TF_CONFIG"]!r:.200}; {error}.'
        ) from error
    unknown = ", ".join(sorted({*jobs, job or "worker"} - {"chief", "worker"}))
    require(
        not unknown,
        "TF_CONFIG",
        "the jobs chief and worker",
        unknown,
        "Every process trains, so list all of them as workers.",
    )
    processes = sum(len(addresses) for addresses in jobs.values())
    return max(1, processes), job == "chief" or ("chief" not in jobs and not index)


def find_strategy() -> tf.distribute.Strategy | None:
    """Returns a strategy for the workers in ``TF_CONFIG`` or for several GPUs of this machine.

    Returns ``None`` for a single process with at most one GPU.

    Call this before any other TensorFlow operation, because workers must connect first. The process ends if a worker is
    missing for ``SECONDS_TO_MEET``.

    Raises:
        ValueError: See ``find_cluster``.
    """
    if find_cluster()[0] > 1:
        print(
            f"nmt: waiting at most {SECONDS_TO_MEET:.0f} s for the workers in TF_CONFIG, {os.environ['TF_CONFIG']}",
            file=sys.stderr,
            flush=True,
        )
        # TensorFlow holds Python's global interpreter lock meanwhile; faulthandler's thread does not need it
        faulthandler.dump_traceback_later(SECONDS_TO_MEET, exit=True)
        try:
            strategy = tf.distribute.MultiWorkerMirroredStrategy()
            StrategyReplicas(strategy).wait_for_processes()
        finally:
            faulthandler.cancel_dump_traceback_later()
        return strategy
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return None


def is_first_worker() -> bool:
    """Returns ``True`` if this process is the chief in ``TF_CONFIG``, or the only process."""
    return find_cluster()[1]


def is_chief(strategy: tf.distribute.Strategy | None) -> bool:
    """Returns ``True`` if this process writes files. Of several processes, only the chief does."""
    return strategy is None or strategy.cluster_resolver is None or is_first_worker()


class Replicas:
    """A single replica in a single process. :class:`StrategyReplicas` has the same methods for several replicas."""

    several_processes = False
    compiles_update = True
    """If ``True``, XLA compiles the optimizer's update."""

    def scope(self) -> AbstractContextManager[object]:
        """Returns the context in which variables are created."""
        return nullcontext()

    def split(self, batch: Batch) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
        """Returns a batch as an argument for the functions that ``on_each`` returns.

        Returns:
            Source [B, S], target [B, T], and alignment [B, T, S] or ``None``.
        """
        alignment = None if batch.alignment is None else self.share(batch.alignment)
        return self.share(batch.source, END), self.share(batch.target), alignment

    def share(self, rows: np.ndarray, filler: int = PAD) -> tf.Tensor:
        """Returns the rows of each replica. ``filler`` is the first id of rows that are added."""
        return tf.constant(rows)

    def on_each(self, function: tf.types.experimental.Callable) -> tf.types.experimental.Callable:
        """Returns a function that calls ``function`` on each replica, with the replica's own arguments."""
        return function

    def sum(self, values: Structure) -> Structure:
        """Sums each tensor of a structure over the replicas. Every replica receives the sums."""
        return values

    def local(self, value: tf.Tensor) -> tf.Tensor:
        """Returns a value that is equal on all replicas, as a single tensor."""
        return value

    def mean_over_processes(self, number: float) -> float:
        """Returns the mean of a number over the processes, so that all of them make the same decisions."""
        return number

    def any_process(self, fact: bool) -> bool:
        """Returns ``True`` if ``fact`` is ``True`` in any process. All processes must make this call."""
        return self.mean_over_processes(float(fact)) > 0.0

    def wait_for_processes(self) -> None:
        """Returns when all processes have made this call."""
        self.mean_over_processes(0.0)


class StrategyReplicas(Replicas):
    """The replicas of a strategy.

    XLA compiles the functions that run on each replica. The update and the sums over replicas are plain graph
    operations, because XLA cannot compile them.

    Args:
        strategy: Mirrored strategy, on one machine or several.
    """

    compiles_update = False

    def __init__(self, strategy: tf.distribute.Strategy):
        self.strategy = strategy
        self.count: int = strategy.num_replicas_in_sync
        self.several_processes = len(strategy.extended.worker_devices) != self.count

    def scope(self) -> AbstractContextManager[object]:
        """Returns the scope of the strategy."""
        return self.strategy.scope()

    def share(self, rows: np.ndarray, filler: int = PAD) -> tf.Tensor:
        """Returns the rows of each replica. Row i goes to replica i modulo the number of replicas.

        If the rows do not divide evenly, masked rows are added. Masked rows have no target tokens.
        """
        masked = np.full((-len(rows) % self.count, *rows.shape[1:]), PAD, rows.dtype)
        masked[:, :1] = filler
        padded = np.concatenate([rows, masked])
        return self.strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(padded[context.replica_id_in_sync_group :: self.count])
        )

    def on_each(self, function: tf.types.experimental.Callable) -> tf.types.experimental.Callable:
        """Returns a function that calls ``function`` on each replica, with the replica's own arguments."""
        return tf.function(lambda *arguments: self.strategy.run(function, args=arguments), autograph=False)

    @tf.function(autograph=False)
    def sum(self, values: Structure) -> Structure:
        """Sums each tensor of a structure over the replicas. Every replica receives the sums."""
        return self.strategy.run(_sum_over_replicas, args=(values,))

    def local(self, value: tf.Tensor) -> tf.Tensor:
        """Returns the value on the first replica of this process."""
        return self.strategy.experimental_local_results(value)[0]

    def mean_over_processes(self, number: float) -> float:
        """Returns the mean of a number over the processes."""
        if not self.several_processes:
            return number
        return float(self.local(self.sum(tf.constant(number, tf.float64)))) / self.count


@contextmanager
def reporting_lost_workers(replicas: Replicas) -> Iterator[None]:
    """Raises ConnectionError in place of the errors that TensorFlow raises after it lost another worker."""
    try:
        yield
    except LOST as error:
        if not replicas.several_processes:
            raise
        raise ConnectionError(
            "Lost another worker: it has ended or does not respond. Read its messages, then start all workers again. "
            f"They resume from the last checkpoint. TensorFlow: {error.message}"
        ) from error


def _sum_over_replicas(values: Structure) -> Structure:
    """Adds structures of tensors over all replicas. Called on each replica."""
    here = tf.nest.map_structure(tf.identity, values)  # all_reduce requires tensors on the replica's device
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, here)
