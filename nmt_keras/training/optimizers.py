"""Optimizers."""

import keras

from nmt_keras.config import TrainConfig


def build_optimizer(config: TrainConfig, variables: list[keras.Variable]) -> keras.optimizers.Optimizer:
    """Returns the optimizer of ``config``, built, so that a checkpoint can restore its variables.

    The optimizer is Adam (Kingma, Ba 2015), Adadelta (Zeiler 2012) or plain SGD.
    """
    match config.optimizer:
        case "adadelta":
            optimizer = keras.optimizers.Adadelta(config.learning_rate, rho=config.rho, epsilon=config.epsilon)
        case "sgd":
            optimizer = keras.optimizers.SGD(config.learning_rate)
        case _:
            optimizer = keras.optimizers.Adam(config.learning_rate, beta_2=config.beta_2, epsilon=config.epsilon)
    optimizer.build(variables)
    return optimizer
