"""Optimizers."""

import keras

from nmt_keras.config import TrainConfig


def build_optimizer(config: TrainConfig, variables: list[keras.Variable]) -> keras.optimizers.Optimizer:
    """Returns the optimizer of ``config``, built, so that a checkpoint can restore its variables.

    The optimizer is Adam (Kingma, Ba 2015), Adadelta (Zeiler 2012) or plain SGD.
    """
    rate = float(config.learning_rate)  # Keras refuses an int
    match config.optimizer:
        case "adadelta":
            optimizer = keras.optimizers.Adadelta(rate, rho=config.rho, epsilon=config.epsilon)
        case "sgd":
            optimizer = keras.optimizers.SGD(rate)
        case _:
            optimizer = keras.optimizers.Adam(rate, beta_2=config.beta_2, epsilon=config.epsilon)
    optimizer.build(variables)
    return optimizer
