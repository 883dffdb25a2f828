"""Optimizers."""

import keras

from nmt_keras.config import TrainConfig


def build_optimizer(config: TrainConfig, variables: list[keras.Variable]) -> keras.optimizers.Optimizer:
    """Returns the optimizer of ``config``, built, so that a checkpoint can restore its variables.

    The optimizer is Adam (Kingma, Ba 2015), AdamW (Loshchilov, Hutter 2019: decoupled weight decay), Adadelta (Zeiler
    2012) or plain SGD. AdamW does not decay vectors (biases and normalisation scales).
    """
    match config.optimizer:
        case "adadelta":
            optimizer = keras.optimizers.Adadelta(config.learning_rate, rho=config.rho, epsilon=config.epsilon)
        case "sgd":
            optimizer = keras.optimizers.SGD(config.learning_rate)
        case "adamw":
            optimizer = keras.optimizers.AdamW(
                config.learning_rate, config.weight_decay, beta_2=config.beta_2, epsilon=config.epsilon
            )
            optimizer.exclude_from_weight_decay(var_list=[v for v in variables if len(v.shape) < 2])
        case _:
            optimizer = keras.optimizers.Adam(config.learning_rate, beta_2=config.beta_2, epsilon=config.epsilon)
    optimizer.build(variables)
    return optimizer
