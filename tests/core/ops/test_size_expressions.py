"""Random programs that compute sizes from sizes, beside NumPy and PyTorch at two batch sizes."""

import random
from math import prod

import numpy as np
import onnxruntime as ort
import pytest

import pd_core as pd
from pd_core.graph.size_entries import entries_of

BATCHES = ((3, 4), (2, 5))
SEEDS = range(24)


class Draw:
    """A random expression of the sizes of x [n, t, 2], as functions of a Variable and of a shape.

    The same seed gives the same expression. `number` is a scalar or [1], `vector` several.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)

    def number(self, depth=2):
        draw = self.random
        k, c = draw.randrange(3), draw.randrange(1, 4)
        kind = draw.randrange(4 if depth == 0 else 12)
        if kind < 4:
            read = (
                lambda x: pd.size_of(x, k),
                lambda x: pd.shape_of(x)[k],
                lambda x: pd.unstack(pd.shape_of(x))[k],
                lambda x: pd.cast(pd.gather(pd.shape_of(x), k), "int32"),
            )[kind]
            return read, lambda s: s[k]
        f, g = self.number(depth - 1)
        if kind == 4:
            a, b = sorted(draw.sample(range(4), 2))
            return (lambda x: pd.reduce_prod(pd.shape_of(x)[a:b])), lambda s: prod(s[a:b])
        if kind == 5:
            return (lambda x: f(x) + c), lambda s: g(s) + c
        if kind == 6:
            return (lambda x: f(x) * c), lambda s: g(s) * c
        if kind == 7:
            return (lambda x: f(x) // c), lambda s: g(s) // c
        if kind == 8:
            return (lambda x: pd.maximum(f(x) - c, 0)), lambda s: max(g(s) - c, 0)
        if kind == 9:
            return (lambda x: pd.minimum(f(x), c)), lambda s: min(g(s), c)
        if kind == 10:
            return (lambda x: pd.where(f(x) > c, f(x), c)), lambda s: max(g(s), c)
        return (lambda x: f(x) * 1 + 0), g

    def vector(self):
        """Two or three entries: those of lists, of joined vectors, of parts of the shape."""
        draw = self.random
        kind = draw.randrange(6)
        if kind == 0:
            return (lambda x: pd.shape_of(x)[1:]), lambda s: list(s[1:])
        if kind == 1:
            return (lambda x: pd.shape_of(x)[::-1]), lambda s: list(s[::-1])
        if kind == 2:
            return (lambda x: pd.gather(pd.shape_of(x), [2, 0])), lambda s: [s[2], s[0]]
        parts = [self.number() for _ in range(draw.choice((2, 3)))]
        numbers = lambda s: [g(s) for _, g in parts]  # noqa: E731
        if kind == 3:
            return (lambda x: [f(x) for f, _ in parts]), numbers
        flat = lambda x: [pd.cast(pd.reshape(f(x), [1]), "int64") for f, _ in parts]  # noqa: E731
        if kind == 4:
            return (lambda x: pd.concat(flat(x))), numbers
        both = lambda x: pd.concat([*flat(x)[:1], [2]])  # noqa: E731
        return both, lambda s: [numbers(s)[0], 2]


def built(seed):
    """(what is built of x [n, t, 2], what NumPy gives) of a seed."""
    draw = Draw(seed)
    kind = ("expand", "reshape", "inferred", "slice", "pad", "tile", "zeros", "range")[seed % 8]
    if kind == "expand":
        shape, numbers = draw.vector()
        return (
            lambda x: pd.expand(pd.reduce_sum(x * x), shape(x)),
            lambda x: np.full(numbers(x.shape), (x * x).sum()),
        )
    if kind in ("reshape", "inferred"):
        order = draw.random.sample(range(3), 3)
        last = kind == "inferred"

        def shape(x):
            s = pd.shape_of(x)
            return pd.concat(
                [s[order[0] : order[0] + 1] * s[order[1]], [-1] if last else s[order[2:]]]
            )

        return (
            lambda x: pd.reshape(x * x, shape(x)),
            lambda x: (x * x).reshape(x.shape[order[0]] * x.shape[order[1]], x.shape[order[2]]),
        )
    f, g = draw.number()
    if kind == "slice":
        return (lambda x: (x * x)[:, : f(x)]), lambda x: (x * x)[:, : g(x.shape)]
    if kind == "pad":
        return (
            lambda x: pd.pad(x * x, [0, f(x), 0], [0, 0, 1]),
            lambda x: np.pad(x * x, [(0, 0), (g(x.shape), 0), (0, 1)]),
        )
    if kind == "tile":
        return (lambda x: pd.tile(x * x, [f(x), 1, 1])), lambda x: np.tile(
            x * x, [g(x.shape), 1, 1]
        )
    if kind == "zeros":
        shape, numbers = draw.vector()
        return (lambda x: pd.zeros(shape(x)) + x[0, 0, 0]), lambda x: np.full(
            numbers(x.shape), x[0, 0, 0]
        )
    return (
        lambda x: pd.cast(pd.arange(f(x)), "float32") * x[0, 0, 0],
        lambda x: np.arange(g(x.shape)) * x[0, 0, 0],
    )


def arrays():
    return [np.random.default_rng(7).normal(size=(*b, 2)).astype(np.float32) for b in BATCHES]


def weights(value):
    return np.cos(np.arange(value.size, dtype=np.float32)).reshape(value.shape)


@pytest.mark.parametrize("seed", SEEDS)
def test_static_recorded_and_imported_are_numpy(seed, tmp_path):
    build, reference = built(seed)
    x = pd.Variable("x", shape=[None, None, 2])
    y = build(x)
    pd.export_onnx(tmp_path / "m.onnx", [y], inputs=[x])
    plain = ort.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    again = pd.Variable("again", shape=[None, None, 2])
    imported = pd.import_onnx(tmp_path / "m.onnx")(again)
    fixed = pd.Variable("fixed", shape=[*BATCHES[0], 2], trainable=False)
    z = build(fixed)
    for number, value in enumerate(arrays()):
        want = reference(value)
        assert y.rank == want.ndim
        assert all(d in (n, str(d)) for d, n in zip(y.dims, want.shape, strict=True))
        for got in (
            pd.eval(y, {x: value}),
            plain.run(None, {"x": value})[0],
            pd.eval(imported, {again: value}),
        ):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        with pd.guard():
            recorded = build(pd.to_variable(value))
            assert recorded.shape == want.shape
            np.testing.assert_allclose(recorded.numpy(), want, rtol=1e-4, atol=1e-5)
        if number == 0:
            assert z.dims == want.shape  # of known sizes everything is known
            np.testing.assert_allclose(pd.eval(z, {fixed: value}), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_are_those_of_differences(seed):
    build, reference = built(seed)
    x = pd.Variable("x", shape=[None, None, 2])
    w = pd.Variable("w", shape=[None] * build(x).rank)
    y = build(x)
    (dx,) = pd.gradients(pd.reduce_sum(y * w), [x])
    for value in arrays():
        at = weights(reference(value))
        direction = np.random.default_rng(1).normal(size=value.shape)
        wide, step = value.astype(np.float64), 1e-5
        slope = [(reference(wide + sign * step * direction) * at).sum() for sign in (1, -1)]
        got = (pd.eval(dx, {x: value, w: at}) * direction).sum()
        np.testing.assert_allclose(got, (slope[0] - slope[1]) / (2 * step), rtol=1e-3, atol=1e-3)


# what is built of x [?, ?, 4], and its dims by the index of the axis of x; None is a new name
KEPT = {
    "joined": (lambda x, s: pd.zeros(pd.concat([pd.size_of(x, 0), [4]])), [0, 4]),
    "a part": (lambda x, s: pd.ones(s[1:]), [1, 4]),
    "reversed": (lambda x, s: pd.zeros(s[::-1]), [4, 1, 0]),
    "unstacked": (lambda x, s: pd.zeros(pd.stack(pd.unstack(s)[:2])), [0, 1]),
    "iterated": (lambda x, s: pd.zeros(list(s)), [0, 1, 4]),
    "a product with 1": (lambda x, s: pd.zeros([s[0] * s[0:0].shape[0] + s[0]]), [0]),
    "the product of one": (lambda x, s: pd.zeros([pd.reduce_prod(s[1:2]), 3]), [1, 3]),
    "int32": (lambda x, s: pd.zeros(pd.cast(s, "int32")), [0, 1, 4]),
    "gathered": (lambda x, s: pd.zeros(pd.gather(s, [2, 0])), [4, 0]),
    "replaced": (lambda x, s: pd.zeros(pd.index_update(s, 2, 7)), [0, 1, 7]),
    "divided": (lambda x, s: pd.zeros([s[2] // 2, s[0] // 1]), [2, 0]),
    "chosen": (lambda x, s: pd.zeros(pd.where(s < 0, 1, s)), [0, 1, 4]),
    "clipped": (lambda x, s: pd.zeros(pd.clip(s, 0, None)), [0, 1, 4]),
    "reshaped": (lambda x, s: pd.reshape(x, pd.concat([s[:2], [2, -1]])), [0, 1, 2, 2]),
    "reshaped to a computed size": (
        lambda x, s: pd.reshape(x, pd.concat([s[0:1] * s[1], [4]])),
        [None, 4],
    ),
    "expanded": (lambda x, s: pd.expand(1.0, s), [0, 1, 4]),
    "tiled": (lambda x, s: pd.tile(np.ones((1, 3), "f4"), pd.concat([s[1:2], [2]])), [1, 6]),
    "a range": (lambda x, s: pd.arange(s[1]), [1]),
    "padded": (lambda x, s: pd.pad(x, [0, 0, 0], pd.concat([[0, 0], s[2:] // 4])), [0, 1, 5]),
    "cut": (lambda x, s: x[:, : s[1], : s[2] // 2], [0, 1, 2]),
    "cut elsewhere": (lambda x, s: x[:, : s[0]], [0, None, 4]),
    "one-hot": (lambda x, s: pd.one_hot(pd.arange(s[0]), s[1]), [0, 1]),
    "the largest": (lambda x, s: pd.top_k(x, s[1], 1)[0], [0, 1, 4]),
    "resized": (
        lambda x, s: pd.interpolate(pd.unsqueeze(x, 1), s[1:], mode="nearest"),
        [0, 1, 1, 4],
    ),
    "drawn": (lambda x, s: pd.uniform_random(s[:2]), [0, 1]),
    "repeated": (lambda x, s: pd.repeat(np.ones(1, "f4"), s[1]), [1]),
}


@pytest.mark.parametrize("name", KEPT)
def test_names_of_sizes_are_kept(name):
    build, axes = KEPT[name]
    x = pd.Variable("x", shape=[None, None, 4])
    y = build(x, pd.shape_of(x))
    if name == "resized":
        axes = [0, "one", 1, 4]
    want = [1 if k == "one" else k if k is None or k not in (0, 1) else x.dims[k] for k in axes]
    got = list(y.dims)
    assert [None if d is None else e for d, e in zip(want, got, strict=True)] == want
    assert all(g not in x.dims[:2] for g, d in zip(got, want, strict=True) if d is None)
    value = np.zeros((3, 5, 4), np.float32)
    result = pd.eval(y, {x: value})
    known = {x.dims[0]: 3, x.dims[1]: 5}
    assert all(known.get(d, d) in (n, str(d)) for d, n in zip(got, result.shape, strict=True))


def test_a_chain_of_thousands_is_followed():
    x = pd.Variable("x", shape=[None, 3])
    n = pd.size_of(x, 0)
    for _ in range(3000):
        n = n * 1
    assert entries_of(n) == (x.dims[0],)


def test_sizes_that_do_not_fit_are_an_error_of_the_line():
    x, w = pd.Variable("x", shape=[None, 4]), pd.Variable("w", shape=[5, 2])
    y = pd.reshape(x, pd.concat([pd.size_of(x, 0), [4]]))
    with pytest.raises(pd.ShapeError, match="inner sizes differ, 4 against 5"):
        pd.matmul(y, w)
    with pytest.raises(pd.ShapeError, match="do not broadcast"):
        pd.zeros(pd.concat([pd.size_of(x, 0), [3]])) + x


def test_an_empty_batch_is_reshaped():
    x = pd.Variable("x", shape=[None, None, 4])
    s = pd.shape_of(x)
    y = pd.reshape(x, pd.concat([s[:1] * s[1], [4]]))
    z = pd.reshape(x, [s[0], s[1] * 2, -1])
    for shape in ((0, 3, 4), (2, 0, 4), (2, 3, 4)):
        value = np.zeros(shape, np.float32)
        assert pd.eval(y, {x: value}).shape == (shape[0] * shape[1], 4)
        if 0 not in shape:
            assert pd.eval(z, {x: value}).shape == (shape[0], 2 * shape[1], 2)
