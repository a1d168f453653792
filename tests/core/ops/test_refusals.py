"""Samples that an op cannot take, refused where it is called; and empty ones that it can."""

import numpy as np
import pytest

import pd_core as pd


def variable(*shape, dtype="float32"):
    return pd.Variable(list(shape), dtype=dtype)


WHOLE = ("int8", "int64", "uint8", "bool")
REFUSED = {
    "roi": (
        lambda: pd.roi_max_pool(variable(1, 1, 4, 4, dtype="int32"), variable(2, 5), 2),
        pd.DTypeError,
        "roi_max_pool: takes images and regions of floats, not int32",
    ),
    "no image of regions": (
        lambda: pd.roi_max_pool(variable(1, 1, 0, 4), variable(2, 5), 2),
        pd.ShapeError,
        "roi_max_pool: takes images of known sizes",
    ),
    "interpolation": (
        lambda: pd.interpolate(variable(1, 1, 4, 4, dtype="uint8"), [8, 8]),
        pd.DTypeError,
        "linear interpolation is of floats, not of uint8",
    ),
    "no pixels": (
        lambda: pd.interpolate(variable(1, 1, 0, 4), [8, 8]),
        pd.ShapeError,
        "has no pixels",
    ),
    "no samples": (
        lambda: pd.grid_sample(variable(1, 1, 0, 4), variable(1, 2, 2, 2)),
        pd.ShapeError,
        "has no pixels",
    ),
    "no blocks": (
        lambda: pd.im2col(variable(1, 0, 4, 4), (2, 2), (1, 1), (0, 0)),
        pd.ShapeError,
        "im2col: images .* have no elements",
    ),
    "heads": (
        lambda: pd.attention(*(variable(1, 0, 3, 4) for _ in range(3))),
        pd.ShapeError,
        "attention: takes heads with elements",
    ),
    "filters": (
        lambda: pd.conv(variable(1, 0, 4, 4), variable(2, 0, 3, 3)),
        pd.ShapeError,
        r"conv: filters \[2, 0, 3, 3\] have no elements",
    ),
    "transposed filters": (
        lambda: pd.conv_transpose(variable(1, 0, 4, 4), variable(0, 2, 3, 3)),
        pd.ShapeError,
        "have no elements",
    ),
    "windows": (
        lambda: pd.avg_pool(variable(2, 0, 4, 4), 2),
        pd.ShapeError,
        "avg_pool: images .* have no elements",
    ),
    "rows": (
        lambda: pd.layer_norm(variable(None, 0)),
        pd.ShapeError,
        "layer_norm: .* has no elements to normalise",
    ),
    "channels of no block": (
        lambda: pd.depth_to_space(variable(2, 3, 4, 4), 2),
        pd.ShapeError,
        r"depth_to_space: axis 1 of .*\[2, 3, 4, 4\] is no multiple of 4",
    ),
    "pixels of no block": (
        lambda: pd.space_to_depth(variable(2, 3, 4, 5), 2),
        pd.ShapeError,
        "space_to_depth: axis 3 of .* is no multiple of 2",
    ),
    "order": (lambda: pd.permutation(-1), pd.ShapeError, "permutation: a size is not negative, -1"),
    "spaces": (lambda: pd.linspace(0, 1, -1), ValueError, "linspace: count is not negative, -1"),
    "cost": (
        lambda: pd.SGDOptimizer(0.1).minimize(3.0),
        TypeError,
        "minimize: the cost is a Variable, not 3.0",
    ),
    "assigned": (lambda: pd.assign(3, 1.0), TypeError, "assign: variable is a Variable, not 3"),
    "recomputed": (lambda: pd.recompute(3), TypeError, "recompute: function is .*, not 3"),
    "replayed": (lambda: pd.Session().replay(3), TypeError, "replay: draws is a dict .*, not 3"),
    "the op that was called": (
        lambda: pd.atan2(variable(2, 3), variable(5, 7)),
        pd.ShapeError,
        r"^atan2: sizes \[2, 3\] and \[5, 7\] do not broadcast",
    ),
    "an op inside of a layer's": (
        lambda: pd.nn.FC(3)(variable(4)) + pd.relu6(variable(2, 2, dtype="bool")),
        pd.DTypeError,
        "^relu6: takes numbers, not bool",
    ),
    "an op in the body of a loop": (
        lambda: pd.scan(lambda h, x: pd.sub(h, x), variable(5), variable(4, 3)),
        pd.ShapeError,
        "^sub: ",
    ),
    **{
        f"{op.__name__} of bools": (
            lambda op=op: op(variable(2, dtype="bool")),
            pd.DTypeError,
            f"^{op.__name__}: takes numbers, not bool",
        )
        for op in (pd.celu, pd.clip, pd.hard_tanh, pd.relu6)
    },
    **{
        f"likelihood of {dtype}": (
            lambda dtype=dtype: pd.negative_log_likelihood(variable(5, 4, dtype=dtype), [0] * 5),
            pd.DTypeError,
            f"negative_log_likelihood: log-probabilities are floats, not {dtype}",
        )
        for dtype in WHOLE
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusal(name):
    use, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        use()


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("shape", [(3, 0), (0, 2), (2, 3), (0, 0)], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_unique_rows_of_nothing(shape, axis, known):
    a = np.zeros(shape, "int64")
    x = pd.Variable([n if known else None for n in shape], dtype="int64")
    found = pd.eval(list(pd.unique(x, axis)), {x: a})
    values, first, inverse, counts = np.unique(a, True, True, True, axis)
    for got, want in zip(found, (values, first, inverse.reshape(-1), counts), strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.shape == want.shape


def slopes(function, a):
    x = pd.Variable(a.shape, dtype=a.dtype)
    return pd.eval(pd.gradients(pd.reduce_sum(function(x)), [x]), {x: a})[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_of_what_is_empty(dtype):
    """What chooses, repeats or moves elements has a gradient of none, in the shape of x."""
    ops = {
        "slice": lambda x: x[:, 4:0:-2],
        "roll": lambda x: pd.roll(x, 1, 1),
        "repeat": lambda x: pd.repeat(x, 2, 1),
        "tile": lambda x: pd.tile(x, [2, 2]),
        "gather": lambda x: pd.gather(x, np.array([[0, 1], [1, 1]]), 1),
    }
    for name, function in ops.items():
        assert slopes(function, np.zeros((0, 6), dtype)).shape == (0, 6), name


def test_product_of_no_integers():
    x = pd.Variable([None, 0, 4], dtype="int64")
    for axis in (None, 0, 1, 2, [0, 2]):
        a = np.ones((2, 0, 4), "int64")
        got = pd.eval(pd.reduce_prod(x, axis), {x: a})
        want = np.prod(a, tuple(axis) if isinstance(axis, list) else axis)
        assert got.shape == want.shape and (got == want).all()
