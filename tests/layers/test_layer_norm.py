"""Layer normalisation."""

import numpy as np
import tensorflow as tf

from nmt_keras.layers.layer_norm import layer_norm, normalize


def test_layer_norm_by_hand():
    """The first row has mean 3 and standard deviation 1. The second row is constant, so only the shift is left."""
    layer = layer_norm(2, "norm")
    layer.gamma.assign([1.0, 2.0])
    layer.beta.assign([0.0, 5.0])
    found = normalize(layer, tf.constant([[2.0, 4.0], [4.0, 4.0]]))
    np.testing.assert_allclose(found, [[-1.0, 7.0], [0.0, 5.0]], atol=1e-4)
