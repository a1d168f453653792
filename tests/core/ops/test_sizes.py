"""Shapes with Variables among their numbers, as in `reshape(x, [batch, -1])`."""

import numpy as np
import onnxruntime as ort
import pytest

import pd_core as pd

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)

# name: what is built of x [?, 4], its batch size n (int64 [1]) and its sizes s; in NumPy, by the
# number of rows; which of its sizes are known to be the batch
CASES = {
    "reshape": (lambda x, n, s: pd.reshape(x, [n, 2, 2]), lambda x, b: x.reshape(b, 2, 2), [0]),
    "reshape, inferred": (lambda x, n, s: x.reshape(s[0], -1), lambda x, b: x, [0]),
    "reshape, copied": (
        lambda x, n, s: pd.reshape(x, [0, 2, s[1] - 2]),
        lambda x, b: x.reshape(b, 2, 2),
        [0],
    ),
    "reshape, a new order": (
        lambda x, n, s: pd.reshape(x, [2, s[0], 2]),
        lambda x, b: x.reshape(2, b, 2),
        [1],
    ),
    "zeros": (lambda x, n, s: pd.zeros([s[0], 5]), lambda x, b: np.zeros((b, 5)), [0]),
    "ones of int32 sizes": (
        lambda x, n, s: pd.ones([pd.cast(n, "int32"), 2]),
        lambda x, b: np.ones((b, 2)),
        [0],
    ),
    "full": (lambda x, n, s: pd.full((n, 2), 7.0), lambda x, b: np.full((b, 2), 7.0), [0]),
    "a computed size": (lambda x, n, s: pd.ones([n * 2 + 1]), lambda x, b: np.ones(2 * b + 1), []),
    "expand": (
        lambda x, n, s: pd.expand(x, [2, n, 4]) + x,
        lambda x, b: np.stack([x + x, x + x]),
        [1],
    ),
    "tile": (
        lambda x, n, s: pd.tile(np.ones((1, 2), "f4"), [s[0], 2]),
        lambda x, b: np.ones((b, 4)),
        [0],
    ),
    "tile of more axes": (
        lambda x, n, s: pd.tile(x, [2, s[0], 1]),
        lambda x, b: np.tile(x, [2, b, 1]),
        [],
    ),
    "eye": (lambda x, n, s: pd.eye(n), lambda x, b: np.eye(b), [0, 1]),
    "eye of two sizes": (lambda x, n, s: pd.eye(3, s[0]), lambda x, b: np.eye(3, b), [1]),
    "slice": (lambda x, n, s: pd.slice(x, 0, [n // 2], 0), lambda x, b: x[: b // 2], []),
    "pad": (
        lambda x, n, s: pd.pad(x, [s[0], 0], [0, 1]),
        lambda x, b: np.pad(x, [(b, 0), (0, 1)]),
        [],
    ),
    "triangle": (
        lambda x, n, s: pd.tril(pd.ones([n, n])),
        lambda x, b: np.tril(np.ones((b, b))),
        [0, 1],
    ),
    "draws": (
        lambda x, n, s: pd.uniform_random([n, 3], 2.0, 2.0),
        lambda x, b: np.full((b, 3), 2.0),
        [0],
    ),
    "normal draws": (
        lambda x, n, s: pd.gaussian_random([s[0], s[1]], 1.0, 0.0),
        lambda x, b: np.ones((b, 4)),
        [0],
    ),
    "draws of a distribution": (
        lambda x, n, s: pd.distributions.Normal(x, 1e-9).sample([n]) * 0.0,
        lambda x, b: np.zeros((b, b, 4)),
        [0, 1],
    ),
}


@pytest.mark.parametrize("rows", [3, 1, 0])
@pytest.mark.parametrize("case", CASES)
def test_sizes_of_a_list(case, rows):
    build, reference, named = CASES[case]
    pd.reset(seed=0)
    x = pd.Variable("x", shape=[None, 4])
    y = build(x, pd.size_of(x, 0), pd.shape_of(x))
    value = ROWS[:rows]
    expected = reference(value, rows)
    np.testing.assert_allclose(pd.eval(y, feeds={x: value}), expected, atol=1e-6)
    assert [k for k, d in enumerate(y.dims) if d == x.dims[0]] == named
    with pd.guard():
        recorded = build(pd.to_variable(value), pd.size_of(value, 0), pd.shape_of(value))
        np.testing.assert_allclose(recorded.numpy(), expected, atol=1e-6)


def test_an_image_is_resized_to_the_size_of_another():
    x, like = pd.Variable("x", shape=[1, 1, 2, 2]), pd.Variable("like", shape=[None, None])
    y = pd.interpolate(x, [pd.size_of(like, 0), pd.size_of(like, 1)], mode="nearest")
    values = {x: np.ones((1, 1, 2, 2), "f4"), like: np.zeros((3, 5), "f4")}
    assert pd.eval(y, feeds=values).shape == (1, 1, 3, 5)


def test_gradients_flow_through_shapes_of_lists(rng):
    x = pd.Variable("x", shape=[None, 4])
    n = pd.size_of(x, 0)
    weights = pd.expand(
        pd.Variable("w", shape=[1, 2], initializer=lambda shape, rng: np.full(shape, 2.0, "f4")),
        [n * 2, 2],
    )
    loss = pd.reduce_sum(pd.reshape(x, [n * 2, -1]) * weights)
    (dx,) = pd.gradients(loss, [x])
    value = rng.normal(size=(3, 4)).astype("f4")
    np.testing.assert_array_equal(pd.eval(dx, feeds={x: value}), np.full((3, 4), 2.0))


def test_a_list_of_sizes_is_exported(tmp_path):
    x = pd.Variable("x", shape=[None, 4])
    y = pd.reshape(x, [pd.shape_of(x)[0], 2, -1]) * pd.ones([pd.size_of(x, 0), 1, 1])
    pd.export_onnx(tmp_path / "m.onnx", [y], inputs=[x])
    session = ort.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    for rows in (3, 0):
        value = ROWS[:rows]
        (out,) = session.run(None, {"x": value})
        np.testing.assert_array_equal(out, value.reshape(rows, 2, 2))


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (
            lambda x: pd.zeros(x.shape),
            pd.DTypeError,
            r"(?s)zeros: cannot take None, .*shape_of\(x\)",
        ),
        (lambda x: x.reshape(x.shape[0], 2, 2), pd.DTypeError, r"(?s)None.*size_of\(x, axis\)"),
        (lambda x: pd.reduce_sum(x) / x.shape[0], pd.DTypeError, r"(?s)None.*size_of\(x, axis\)"),
        (
            lambda x: pd.zeros([pd.reduce_sum(x), 2]),
            pd.DTypeError,
            r"zeros: a size is an integer, not float32\[\]",
        ),
        (
            lambda x: pd.zeros([pd.shape_of(x), 2]),
            pd.ShapeError,
            r"zeros: a size is one number, not int64\[2\]",
        ),
        (
            lambda x: x.reshape(-1, pd.size_of(x, 0), -1),
            pd.ShapeError,
            r"reshape: \[-1, .*, -1\] leaves several sizes to be inferred",
        ),
        (
            lambda x: pd.reduce_sum([pd.reduce_sum(x), 1.0]),
            pd.DTypeError,
            r"(?s)cannot take Variables in a list.*pd\.stack",
        ),
        (lambda x: pd.shape(x), AttributeError, r"pd\.shape_of\(x\)"),
    ],
)
def test_what_is_no_size(build, error, text):
    with pytest.raises(error, match=text):
        build(pd.Variable("x", shape=[None, 4]))
