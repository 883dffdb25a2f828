"""Initial weights as the papers state them.

    "glorot"     the defaults of the layers: Glorot uniform kernels, orthogonal recurrent matrices, biases 0
    "bahdanau"   random orthogonal recurrent matrices, one per gate; W_a and U_a N(0, 0.001^2); v_a, v_p and all biases
                 0; all others N(0, 0.01^2) (Bahdanau, Cho, Bengio 2014, appendix B.1)
    "uniform"    all uniform in [-0.1, 0.1] (Luong, Pham, Manning 2015, section 4.1)

Layer normalisations, which neither paper has, begin with scale 1 and shift 0.
"""

from collections.abc import Callable

import keras
import tensorflow as tf
from keras.initializers import Initializer, Orthogonal, RandomNormal, RandomUniform, Zeros

from nmt_keras.config import require_choice


class OrthogonalGates(Initializer):
    """Random orthogonal matrices side by side, one per gate: [U, gates · U]."""

    def __call__(self, shape: tuple[int, int], dtype: str | None = None) -> tf.Tensor:
        """Draws the matrices."""
        units, columns = shape
        return tf.concat([Orthogonal()((units, units), dtype) for _ in range(columns // units)], axis=1)


SCHEMES: dict[str, dict[str, Callable[[], Initializer]]] = {
    "glorot": {},
    "bahdanau": {
        "kernel": lambda: RandomNormal(stddev=0.01),
        "recurrent": OrthogonalGates,
        "bias": Zeros,
        "alignment": lambda: RandomNormal(stddev=0.001),
        "score_vector": Zeros,
    },
    "uniform": dict.fromkeys(
        ("kernel", "recurrent", "bias", "alignment", "score_vector"), lambda: RandomUniform(minval=-0.1, maxval=0.1)
    ),
}
"""Initializers of each scheme by the role of a weight: "kernel" for matrices of inputs, "recurrent" for those of
states, "bias", "alignment" for W_a and U_a, "score_vector" for v_a and v_p."""


def initializer_of(scheme: str, role: str, default: str | Initializer) -> Initializer:
    """Returns a new initializer for a weight; ``default`` if the scheme does not define the role.

    ``keras.utils.set_random_seed`` determines the draws.
    """
    require_choice("initializer", tuple(SCHEMES), scheme)
    found = SCHEMES[scheme].get(role)
    return keras.initializers.get(default) if found is None else found()
