"""Initial weights as the papers state them."""

from __future__ import annotations

import keras
import tensorflow as tf


def initialize(scheme: str, variables: list[keras.Variable]) -> None:
    """Assigns the initial weights of a paper. A variable's name decides which rule applies to it.

    Args:
        scheme: "glorot" keeps the initial weights that the layers set, such as Glorot uniform kernels and orthogonal
            recurrent matrices.
            "bahdanau": random orthogonal recurrent matrices, one per gate; W_a and U_a N(0, 0.001^2); v_a, v_p and all
            biases 0; all others N(0, 0.01^2) (Bahdanau, Cho, Bengio 2014, appendix B.1).
            "uniform": all uniform in [-0.1, 0.1] (Luong, Pham, Manning 2015, section 4.1).
            Layer normalisations, which neither paper has, keep scale 1 and shift 0.
        variables: Variables of a built model, changed in place. ``keras.utils.set_random_seed`` determines the draws.
    """
    for variable in variables:
        if scheme == "glorot" or variable.name in ("gamma", "beta"):
            continue
        if scheme == "uniform":
            value = keras.random.uniform(variable.shape, -0.1, 0.1, variable.dtype)
        else:
            value = _bahdanau(variable)
        if variable.name == "position_energy_of_mean":
            value *= variable.shape[0]  # PredictiveLocalAttention divides by this factor
        variable.assign(value)


def _bahdanau(variable: keras.Variable) -> tf.Tensor:
    name, shape = variable.name, variable.shape
    if "bias" in name or name in ("energy", "position_energy", "position_energy_of_mean"):
        return tf.zeros(shape, variable.dtype)
    if name.endswith("recurrent"):
        square = (shape[0], shape[0])
        # one initializer per gate: a Keras initializer returns the same matrix at every call
        gates = [keras.initializers.Orthogonal()(square, variable.dtype) for _ in range(shape[1] // shape[0])]
        return tf.concat(gates, axis=1)
    deviation = 0.001 if variable.path.endswith(("score/query_kernel", "score/key_kernel")) else 0.01
    return keras.random.normal(shape, 0.0, deviation, variable.dtype)
