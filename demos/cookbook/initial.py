"""Initial weights that the programs share with their twins in other frameworks."""

import numpy as np


def weights(shapes, seed=0):
    """Return {name: array} for {name: shape}: normal of variance 2 / fan-in, vectors of zeros."""
    rng = np.random.default_rng(seed)
    values = {}
    for name, shape in shapes.items():
        fan_in = np.prod(shape[1:]) if len(shape) > 2 else shape[0]
        scale = (2 / fan_in) ** 0.5 if len(shape) > 1 else 0.0
        values[name] = (scale * rng.standard_normal(shape)).astype("float32")
    return values
