"""Schedules: learning rate and sampling probability as functions of the step."""

import math

from nmt_keras.config import TrainConfig


def learning_rate(config: TrainConfig, step: int, total_steps: float) -> float:
    """Returns the learning rate of update number ``step`` (from 0) of ``total_steps``.

    Over the warm-up, the rate grows linearly from peak / ``warmup_steps`` to its peak, ``config.learning_rate``. Then
    ``config.decay`` determines the rate:

    constant      stays at the peak
    cosine        falls to 0 along half a cosine (Loshchilov, Hutter 2017, equation 5, without restarts)
    linear        falls to 0 along a line
    inverse-sqrt  falls as 1 / sqrt(step) (Vaswani et al. 2017, equation 3, with the peak instead of d_model)
    halving       is halved at ``config.halve_from``, then every ``config.halve_every`` (Luong et al. 2015, section 4.1)

    Args:
        config: Peak, warm-up and decay.
        step: Number of earlier updates.
        total_steps: Number of updates of the run, which may be an estimate.
    """
    if step < config.warmup_steps:
        return config.learning_rate * min(1.0, (step + 1) / config.warmup_steps)
    done = min(1.0, (step - config.warmup_steps) / max(1, total_steps - config.warmup_steps))
    match config.decay:
        case "cosine":
            return config.learning_rate * 0.5 * (1.0 + math.cos(math.pi * done))
        case "linear":
            return config.learning_rate * (1.0 - done)
        case "inverse-sqrt":
            return config.learning_rate * math.sqrt(max(1, config.warmup_steps) / (step + 1))
        case "halving":
            # 1e-9 because 0.6 - 0.5 is less than 0.1 in floating point
            times = math.floor((done - config.halve_from) / config.halve_every + 1e-9) + 1
            return config.learning_rate * 0.5 ** max(0, times)
        case _:
            return config.learning_rate


def sampling_probability(config: TrainConfig, step: int, total_steps: float) -> float:
    """Returns the probability of scheduled sampling at update ``step`` (from 0).

    It changes linearly with the step (Bengio et al. 2015, section 2.4, linear decay).
    """
    done = min(1.0, step / max(1, total_steps - 1))
    return config.sampling_from + done * (config.sampling_to - config.sampling_from)
