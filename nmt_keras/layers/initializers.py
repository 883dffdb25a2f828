"""Initial weights as the papers state them.

    "glorot"     the defaults of the layers: Glorot uniform kernels, orthogonal recurrent matrices, biases 0
    "bahdanau"   random orthogonal recurrent matrices, one per gate; W_a and U_a N(0, 0.001^2); v_a, v_p and all biases
                 0; all others N(0, 0.01^2) (Bahdanau, Cho, Bengio 2014, appendix B.1)
    "uniform"    all uniform in [-0.1, 0.1] (Luong, Pham, Manning 2015, section 4.1)

Layer normalisations, which neither paper has, begin with scale 1 and shift 0.
"""

import keras
import tensorflow as tf
from keras.initializers import Initializer, Orthogonal, RandomNormal, RandomUniform, Zeros


@keras.saving.register_keras_serializable("nmt_keras")
class OrthogonalGates(Initializer):
    """Random orthogonal matrices side by side, one per gate: [U, gates · U].

    Example:
        >>> matrix = OrthogonalGates()((2, 6))
        >>> np.allclose(matrix[:, :2] @ tf.transpose(matrix[:, :2]), np.eye(2), atol=1e-5)
        True
    """

    def __call__(self, shape: tuple[int, int], dtype: str | None = None) -> tf.Tensor:
        """Draws the matrices."""
        units, columns = shape
        return tf.concat([Orthogonal()((units, units), dtype) for _ in range(columns // units)], axis=1)


@keras.saving.register_keras_serializable("nmt_keras")
class OpenForgetGate(Initializer):
    """Biases of an LSTM: 1 for the forget gate, the second of the four, else 0 (Jozefowicz et al. 2015).

    Example:
        >>> OpenForgetGate()((4,), "float32").numpy()
        array([0., 1., 0., 0.], dtype=float32)
    """

    def __call__(self, shape: tuple[int], dtype: str | None = None) -> tf.Tensor:
        """Returns the biases."""
        return tf.repeat(tf.constant([0.0, 1.0, 0.0, 0.0], dtype), shape[0] // 4)


_NORMAL = RandomNormal(stddev=0.01)

SCHEMES: dict[str, dict[str, Initializer]] = {
    "glorot": {},
    "bahdanau": {
        "kernel": _NORMAL,
        "embeddings": _NORMAL,
        "recurrent": OrthogonalGates(),
        "bias": Zeros(),
        "alignment": RandomNormal(stddev=0.001),
        "score_vector": Zeros(),
    },
    "uniform": dict.fromkeys(
        ("kernel", "embeddings", "recurrent", "bias", "alignment", "score_vector"),
        RandomUniform(minval=-0.1, maxval=0.1),
    ),
}
"""Initializers of each scheme by the role of a weight: "kernel" for matrices of inputs, "recurrent" for those of
states, "bias", "alignment" for W_a and U_a, "score_vector" for v_a and v_p. A role that a scheme lacks has the layer's
default."""
