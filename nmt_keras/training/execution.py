"""How a training step is executed: with XLA or as a plain graph, and in which precision."""

from __future__ import annotations

from typing import NamedTuple


class Execution(NamedTuple):
    """How a training step is executed. XLA cannot compile cuDNN's operations, so it is one or the other."""

    xla: bool  # the step is compiled
    fused: bool  # the step is a plain graph in which recurrences are fused where their cells allow
    rounds: bool  # the factors of products are rounded to bfloat16, and nothing else: see ``rounding``
    policy: str  # Keras's dtype policy of the model


def choose_execution(xla: bool | None, gpus: int, precision: str = "float32") -> Execution:
    """XLA on a CPU; on a GPU a plain graph, in which Keras's layers turn to cuDNN.

    Args:
        xla: True or False where somebody has decided; None otherwise.
        gpus: how many TensorFlow sees.
        precision: "float32", "bfloat16" or "float16", as a ``TrainConfig`` has it.
    """
    compiled = gpus == 0 if xla is None else xla
    rounds = precision == "bfloat16" and compiled and gpus == 0
    policy = "float32" if rounds or precision == "float32" else f"mixed_{precision}"
    return Execution(compiled, not compiled and gpus > 0, rounds, policy)
