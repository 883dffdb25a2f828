"""Initial weights as the papers state them."""

from __future__ import annotations

import keras
import tensorflow as tf


def initialize(scheme: str, variables: list[keras.Variable]) -> None:
    """Gives variables the initial weights of a paper; they are told apart by their names.

    Args:
        scheme: "glorot" leaves them as the layers made them: Glorot uniform, orthogonal recurrent matrices, biases 0.
            "bahdanau": recurrent matrices random orthogonal, each gate's by itself; W_a and U_a N(0, 0.001^2); v_a and
            every bias 0; all others N(0, 0.01^2) (Bahdanau, Cho, Bengio 2014, appendix B.1).
            "uniform": all uniform in [-0.1, 0.1] (Luong, Pham, Manning 2015, section 4.1).
            The scales of layer normalisations, which neither paper has, stay 1.
        variables: of a built model; changed in place. Draws come from Keras's global seed.
    """
    for variable in variables:
        if variable.name in ("scale", "scales"):
            continue
        if scheme == "uniform":
            variable.assign(keras.random.uniform(variable.shape, -0.1, 0.1, variable.dtype))
        elif scheme == "bahdanau":
            variable.assign(_bahdanau(variable))


def _bahdanau(variable: keras.Variable) -> tf.Tensor:
    name, shape = variable.name, variable.shape
    if "bias" in name or name in ("energy", "position_energy"):
        return tf.zeros(shape, variable.dtype)
    if name.endswith("recurrent"):
        square = (shape[0], shape[0])
        # an initializer of Keras answers the same matrix whenever it is asked: each gate has its own
        gates = [keras.initializers.Orthogonal()(square, variable.dtype) for _ in range(shape[1] // shape[0])]
        return tf.concat(gates, axis=1)
    deviation = 0.001 if variable.path.endswith(("score/query_kernel", "score/key_kernel")) else 0.01
    return keras.random.normal(shape, 0.0, deviation, variable.dtype)
