"""Layers that multiply rows by rows."""

import numpy as np

import pd_core as pd

from .base import layer


@layer("cos", "cos_sim", inputs=("a", "b"), rows=("a", "b"))
def cos_sim(scope, a, b, scale=1, size=1, name=None, layer_attr=None):
    """Cosine similarity of the rows of a and b, times `scale`; no row may be all zero.

    A row of b holds `size` vectors of a's width, which gives as many numbers.
    """
    if b.size != size * a.size:
        raise pd.ShapeError(
            f"{b.name!r} is {b.size} wide, which is not {size} times the {a.size} of {a.name!r}"
        )
    if size > 1:
        scope.config.type, scope.layer_type = "cos_vm", "cos"
    scope.config.cos_scale = scale
    x, y = (pd.reshape(v, [-1, k, a.size]) for v, k in ((a, 1), (b, size)))
    norms = _norm(x) * _norm(y)
    return pd.reduce_sum(x * y, [2]) / norms * float(scale)


def _norm(x):
    return pd.sqrt(pd.reduce_sum(pd.square(x), [2]))


@layer("l2_distance", "l2_distance_layer", inputs=("x", "y"), rows=("x", "y"))
def l2_distance(scope, x, y, name=None, layer_attr=None):
    """Euclidean distance of two rows, which has no derivative where they are equal."""
    _same_size(x, y)
    return pd.sqrt(pd.reduce_sum(pd.square(x - y), [1], keep_dim=True))


@layer("dot_prod", "dot_prod_layer", inputs=("input1", "input2"), rows=("input1", "input2"))
def dot_prod(scope, input1, input2, name=None, layer_attr=None):
    """Dot product of two rows."""
    _same_size(input1, input2)
    return pd.reduce_sum(input1 * input2, [1], keep_dim=True)


@layer("out_prod", "out_prod_layer", inputs=("input1", "input2"), rows=("input1", "input2"))
def out_prod(scope, input1, input2, name=None, layer_attr=None):
    """Outer product of two rows a and b: y[i n + j] = a_i b_j, with n the width of b."""
    product = pd.unsqueeze(input1, 2) * pd.unsqueeze(input2, 1)
    return pd.reshape(product, [-1, input1.size * input2.size])


@layer(
    "convex_comb", "linear_comb_layer", inputs=("weights", "vectors"), rows=("weights", "vectors")
)
def linear_comb(scope, weights, vectors, size=None, name=None, layer_attr=None):
    """Weighted sum of w_i v_i: a row of `vectors` holds a vector v_i of `size` for each weight."""
    size = size or vectors.size // weights.size
    if size * weights.size != vectors.size:
        raise pd.ShapeError(
            f"{vectors.name!r} is {vectors.size} wide, which is not {weights.size} vectors of "
            f"{size}"
        )
    stacked = pd.reshape(vectors, [-1, weights.size, size])
    return pd.squeeze(pd.matmul(pd.unsqueeze(weights, 1), stacked), 1)


convex_comb = linear_comb


@layer("conv_shift", "conv_shift_layer", inputs=("a", "b"), rows=("a", "b"))
def conv_shift(scope, a, b, name=None, layer_attr=None):
    """Circular correlation: y_i = sum over j of a[i + j - (n - 1) / 2] b_j, n = b.size."""
    if b.size % 2 == 0:
        raise pd.ShapeError(f"the size of {b.name!r} is odd, not {b.size}")
    shifts = np.arange(b.size) - (b.size - 1) // 2
    indices = (np.arange(a.size)[:, None] + shifts) % a.size
    windows = pd.reshape(pd.gather(a, indices.reshape(-1), axis=1), [-1, a.size, b.size])
    return pd.squeeze(pd.matmul(windows, pd.unsqueeze(b, 2)), 2)


def _same_size(a, b):
    if a.size != b.size:
        raise pd.ShapeError(f"{a.name!r} is {a.size} wide, {b.name!r} {b.size}")
