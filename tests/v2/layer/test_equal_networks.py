"""Pairs of networks that 2017 described in two ways: equal values and equal gradients."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle

from .layer_rows import A, L, P, T

ROWS, IMAGES, IDS = T.dense_vector(6), T.dense_vector(4 * 5 * 5), T.integer_value(9)


def summed(*projections, **options):
    """A mixed layer, described in a block."""
    with L.mixed(**options) as out:
        for projection in projections:
            out += projection
    return out


def twice(build, x):
    """build of the same layer, two of them side by side."""
    return L.concat([build(x), build(x)])


def linear(x, size=5):
    return L.fc(x, size, A.Linear(), bias_attr=False)


def conv(x, filters=6, **options):
    options = {"bias_attr": False, "act": A.Relu(), **options}
    return L.img_conv(x, filter_size=1, num_filters=filters, num_channels=4, **options)


def conv_projection(x, **options):
    return L.conv_projection(x, filter_size=1, num_filters=6, num_channels=4, **options)


def sliced(x, first, second):
    a, b = conv(x), conv(x)
    return L.concat([L.slice_projection(a, slices=first), L.slice_projection(b, slices=second)])


def pooled(x, *kinds):
    x = conv(x, filters=4, bias_attr=None)
    options = {"pool_size": 3, "pool_size_y": 4, "stride_y": 2, "padding": 1, "padding_y": 2}
    return L.concat([L.img_pool(x, num_channels=4, pool_type=kind(), **options) for kind in kinds])


# Columns: the data, and two functions of its layer, whose parameters come in the same order.
PAIRS = {
    "dot products": (
        ROWS,
        lambda x: twice(lambda x: summed(L.dotmul_projection(x), size=6), x),
        lambda x: twice(L.dotmul_projection, x),
    ),
    "matrices": (
        ROWS,
        lambda x: L.concat([linear(x), summed(L.full_matrix_projection(x), size=5)]),
        lambda x: twice(lambda x: L.full_matrix_projection(x, size=5), x),
    ),
    "a matrix with a bias": (
        ROWS,
        lambda x: L.fc(x, 5, A.Tanh()),
        lambda x: L.mixed(5, L.full_matrix_projection(x), act=A.Tanh(), bias_attr=True),
    ),
    "two matrices": (
        ROWS,
        lambda x: L.fc([x, L.slope_intercept(x, slope=2.0)], 5, A.Sigmoid()),
        lambda x: summed(
            L.full_matrix_projection(x),
            L.full_matrix_projection(L.slope_intercept(x, slope=2.0)),
            size=5,
            act=A.Sigmoid(),
            bias_attr=True,
        ),
    ),
    "sums": (
        ROWS,
        lambda x: L.addto([linear(x), linear(x)], act=A.Tanh(), bias_attr=True),
        lambda x: L.fc([x, x], 5, A.Tanh()),
    ),
    "products": (
        ROWS,
        lambda x: L.dot_prod(linear(x), linear(x)),
        lambda x: L.linear_comb(weights=linear(x), vectors=linear(x), size=1),
    ),
    "elementwise products": (
        ROWS,
        lambda x: L.scaling(linear(x), weight=linear(x, 1)),
        lambda x: L.out_prod(linear(x), linear(x, 1)),
    ),
    "tables": (
        IDS,
        lambda x: L.concat([L.embedding(x, 5), summed(L.table_projection(x), size=5)]),
        lambda x: twice(lambda x: L.table_projection(x, size=5), x),
    ),
    "slices": (
        IMAGES,
        lambda x: sliced(x, [(0, 2), (2, 4)], [(1, 3), (3, 6)]),
        lambda x: sliced(x, [(0, 4)], [(1, 6)]),
    ),
    "convolutions": (
        IMAGES,
        lambda x: twice(conv, x),
        lambda x: L.concat([conv_projection(x), conv_projection(x)], act=A.Relu()),
    ),
    "a convolution in groups": (
        IMAGES,
        lambda x: conv(x, groups=2, bias_attr=True, act=A.Linear()),
        lambda x: summed(conv_projection(x, groups=2), bias_attr=True),
    ),
    "a convolution by two names": (
        IMAGES,
        lambda x: conv(x, layer_type="exconv", groups=2),
        lambda x: conv(x, layer_type="cudnn_conv", groups=2),
    ),
    "pooling": (
        IMAGES,
        lambda x: pooled(x, P.Max, P.Avg),
        lambda x: pooled(x, P.CudnnMax, P.CudnnAvg),
    ),
    "pooling with a mask": (
        IMAGES,
        lambda x: pooled(x, P.Max),
        lambda x: pooled(x, P.MaxWithMask),
    ),
}


def computed(kind, build, data, rng):
    """(value, gradient of each parameter) of a network with values of the given generator."""
    with paddle.build.fresh():
        pd.reset(seed=0)
        y = build(L.data(name="x", type=kind))
        pool = paddle.parameters.create(y)
        for name in pool.names():
            pool.set(name, rng.normal(0, 0.7, pool.get_shape(name)).astype(np.float32))
        seed = pd.constant(rng.standard_normal((3, y.size)).astype(np.float32))
        learned = [pd.get_variable(name) for name in pool.names()]
        return pd.eval([y, *pd.gradients(y, learned, seeds=[seed])], {"x": data}, training=True)


@pytest.mark.parametrize("kind, first, second", PAIRS.values(), ids=PAIRS)
def test_two_descriptions_of_one_network(kind, first, second, rng):
    data = rng.integers(0, 9, 3) if kind is IDS else rng.standard_normal((3, kind.dim))
    values, others = (
        computed(kind, build, data.astype(np.int64 if kind is IDS else np.float32), g)
        for build, g in zip((first, second), map(np.random.default_rng, (7, 7)), strict=True)
    )
    assert len(values) == len(others) > 1
    for one, other in zip(values, others, strict=True):
        np.testing.assert_allclose(one.reshape(-1), other.reshape(-1), rtol=1e-5, atol=1e-5)


def test_two_descriptions_of_one_network_fused(rng):
    with pd.fused():
        test_two_descriptions_of_one_network(*PAIRS["pooling"], rng)
