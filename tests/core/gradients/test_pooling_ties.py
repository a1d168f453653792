"""Ties in max pooling: which of equal elements gets the gradient, in every form that it runs in."""

import itertools

import numpy as np
import onnxruntime
import pytest

import pd_core as pd
from pd_core import ops
from pd_core.graph.node import apply
from tests.thinned import thinned

from ..ops import reference_conv as naive

# image, window and options of a MaxPool as ONNX names them
GEOMETRIES = {
    "halves": ((6, 8), [2, 2], {"strides": [2, 2]}),
    "halves, remainder": ((7, 9), [2, 2], {"strides": [2, 2]}),
    "thirds, padded": ((8, 7), [3, 3], {"strides": [3, 3], "pads": [1, 1, 1, 1]}),
    "oblong": ((6, 9), [2, 3], {"strides": [2, 3], "ceil_mode": 1}),
    "ceil": ((7, 8), [3, 3], {"strides": [3, 3], "pads": [1, 0, 1, 0], "ceil_mode": 1}),
    "tiles of more cells than a byte counts": ((24, 35), [12, 17], {"strides": [12, 17]}),
    "overlapping": ((7, 7), [3, 3], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "every place": ((5, 6), [2, 3], {}),
    "large": ((12, 11), [5, 4], {"strides": [1, 2], "pads": [2, 2, 2, 2]}),
    "gaps": ((9, 7), [2, 2], {"strides": [3, 4]}),
    "dilated": ((9, 9), [2, 3], {"dilations": [3, 2], "pads": [1, 1, 1, 1]}),
    "dilated, by its own width": ((9, 8), [2, 2], {"dilations": [2, 2], "strides": [2, 2]}),
    "dilated, ceil": ((9, 8), [2, 2], {"dilations": [3, 1], "strides": [2, 2], "ceil_mode": 1}),
    "whole image": ((4, 5), [4, 5], {}),
    "text": ((11,), [4], {"strides": [4]}),
    "text, overlapping": ((11,), [3], {"strides": [2], "pads": [1, 1]}),
    "text, long": ((40,), [17], {"strides": [3], "pads": [8, 8]}),
    "volume": ((4, 5, 6), [2, 2, 2], {"strides": [2, 2, 2]}),
    "volume, overlapping": ((4, 4, 5), [2, 3, 2], {"pads": [1, 1, 1, 1, 1, 1]}),
}
FORMS = ("known", "unknown", "portable", "portable, unknown", "reference")
named = {"argvalues": GEOMETRIES.values(), "ids": GEOMETRIES.keys()}
# of two forms of the five
SOME = thinned(itertools.product(GEOMETRIES, FORMS), 3)


def tied(rng, *shape):
    """Return an image with few different values, and some windows of -inf alone."""
    x = rng.integers(-1, 3, shape).astype("float32")
    return np.where(x < 0, -np.inf, x).astype("float32")


def gradients(shape, window, options, known=True):
    """Slots of an image, dy and the gradient of dx; dx, and the gradient of that in dy."""
    sizes = shape[1:] if known else [shape[1], *[None] * len(window)]
    x, u = (pd.Variable(name, shape=[None, *sizes]) for name in ("x", "u"))
    y = apply("MaxPool", x, kernel_shape=window, **options)
    dy = pd.Variable("dy", shape=[None if isinstance(d, str) else d for d in y.dims])
    (dx,) = pd.gradients(y, [x], [dy])
    (ddy,) = pd.gradients(dx, [dy], [u])
    return (x, dy, u), [dx, ddy]


def found(form, shape, window, options, feeds):
    slots, targets = gradients(shape, window, options, "unknown" not in form)
    given = dict(zip(slots, feeds, strict=True))
    if not form.startswith("portable"):
        return pd.Session("reference" if form == "reference" else "cpu").eval(targets, given)
    kept = pd.Variable("kept", data=0.0, trainable=False)
    step = pd.assign(kept, ops.reduce_sum(targets[0]))
    model = pd.export_step(None, step, targets, portable=True)
    assert all(len(n.output) == 1 for n in model.graph.node if n.op_type == "MaxPool")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {v.name: array for v, array in given.items()})[:2]


@pytest.mark.parametrize("geometry, form", SOME)
def test_the_first_of_equal_elements_has_the_gradient(geometry, form, rng):
    torch = pytest.importorskip("torch")
    image, window, options = GEOMETRIES[geometry]
    n = len(image)
    x = tied(rng, 2, 3, *image)
    pads, holes = options.get("pads", [0] * n)[:n], options.get("dilations", 1)
    pool = getattr(torch.nn.functional, f"max_pool{n}d")
    xt = torch.tensor(x, requires_grad=True)
    strides, ceil = options.get("strides", 1), bool(options.get("ceil_mode"))
    y, index = pool(xt, window, strides, pads, holes, ceil, return_indices=True)
    dy, u = (rng.standard_normal(shape).astype("float32") for shape in (y.shape, x.shape))
    y.backward(torch.tensor(dy))
    dx, ddy = found(form, x.shape, window, options, (x, dy, u))
    np.testing.assert_allclose(dx, xt.grad.numpy(), atol=1e-5)
    picked = np.take_along_axis(u.reshape(6, -1), index.numpy().reshape(6, -1), 1)
    np.testing.assert_allclose(ddy, picked.reshape(y.shape), atol=1e-6)


@pytest.mark.parametrize(("image", "window", "options"), **named)
def test_the_first_element_is_the_one_that_indices_name(image, window, options, rng):
    """ONNX Runtime's own, which counts elements of the whole input."""
    x = rng.integers(0, 3, (2, 3, *image)).astype("float32")
    slot = pd.Variable(x.shape)
    y, index = pd.eval(apply("MaxPool", slot, outputs=2, kernel_shape=window, **options), {slot: x})
    dy = rng.standard_normal(y.shape).astype("float32")
    wanted = np.zeros(x.size)
    np.add.at(wanted, index.ravel(), dy.ravel())
    dx, _ = found("known", x.shape, window, options, (x, dy, x))
    np.testing.assert_allclose(dx, wanted.reshape(x.shape), atol=1e-5)


INDEXED = {
    "as large": ((7, 8), {"kernel_shape": [3, 2], "strides": [2, 3], "auto_pad": "SAME_UPPER"}),
    "as large, padded first": ((8, 7), {"kernel_shape": [4, 3], "auto_pad": "SAME_LOWER"}),
    "inside": ((9, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "VALID"}),
    "by columns": ((6, 7), {"kernel_shape": [2, 3], "pads": [1, 1, 0, 2], "storage_order": 1}),
    "more windows on one side": (
        (9, 10),
        {"kernel_shape": [5, 2], "pads": [4, 0, 1, 1], "strides": [1, 3], "dilations": [1, 3]},
    ),
    "text": ((13,), {"kernel_shape": [5], "strides": [3], "dilations": [2], "ceil_mode": 1}),
    "volume": ((4, 5, 3), {"kernel_shape": [2, 3, 2], "pads": [1, 0, 1, 0, 2, 0]}),
}


@pytest.mark.parametrize(("known", "dtype"), [(True, "uint8"), (False, "float32")])
def test_the_portable_form_has_the_indices_of_onnx_runtime(known, dtype, rng):
    slots, targets, feeds = [], [], {}
    for k, (image, options) in enumerate(INDEXED.values()):
        sizes = list(image) if known else [None] * len(image)
        slots.append(pd.Variable(f"x{k}", shape=[None, 2, *sizes], dtype=dtype))
        feeds[slots[-1]] = rng.integers(0, 4, (3, 2, *image)).astype(dtype)
        targets += apply("MaxPool", slots[-1], outputs=2, **options)
    step = pd.assign(pd.Variable("kept", data=0.0), 1.0)
    results = []
    for portable in (False, True):
        model = pd.export_step(None, step, targets, slots, portable=portable)
        assert portable == all(len(n.output) == 1 for n in model.graph.node)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        results.append(session.run(None, {v.name: array for v, array in feeds.items()}))
    for plain, portable in zip(*results, strict=True):
        np.testing.assert_array_equal(portable, plain)


EVERY = {
    "halves": ((6, 9), {"window": 2, "strides": 2}),
    "overlapping": ((7, 7), {"window": 3, "strides": 2, "pads": 1}),
    "large": ((9, 8), {"window": 4, "strides": 1, "pads": 1}),
    "text": ((30,), {"window": 12, "strides": 5, "pads": 3}),
}


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize(("image", "options"), EVERY.values(), ids=EVERY.keys())
def test_all_of_equal_elements_have_it_where_that_is_asked_for(image, options, portable, rng):
    x = rng.integers(0, 3, (2, 3, *image)).astype("float32")
    slot, u = (pd.Variable(name, shape=[None, *x.shape[1:]]) for name in ("x", "u"))
    y = pd.max_pool(slot, **options, ties="all")
    seed = pd.Variable("dy", shape=y.shape)
    (dx,) = pd.gradients(y, [slot], [seed])
    (ddy,) = pd.gradients(dx, [seed], [u])
    pooled = naive.max_pool(x.astype("float64"), **options)
    dy, other = (rng.standard_normal(v.shape).astype("float32") for v in (pooled, x))
    feeds = {slot: x, seed: dy, u: other}
    if portable:
        step = pd.assign(pd.Variable("kept", data=0.0), ops.reduce_sum(dx))
        model = pd.export_step(None, step, [y, dx, ddy], portable=True)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        results = session.run(None, {v.name: array for v, array in feeds.items()})
    else:
        results = pd.eval([y, dx, ddy], feeds)
    np.testing.assert_array_equal(results[0], pooled)
    np.testing.assert_allclose(results[1], naive.max_pool_grad(x, pooled, dy, **options), atol=1e-5)
    wanted = naive.max_pool_pick(x, pooled, other, **options)
    np.testing.assert_allclose(results[2], wanted, atol=1e-5)


def test_ties_are_resolved_in_one_of_two_ways():
    x = pd.Variable([None, 1, 4, None])
    with pytest.raises(pd.GraphError, match="max_pool: ties is 'first' or 'all', not 'last'"):
        pd.max_pool(x, 2, ties="last")
    with pytest.raises(pd.NoGradient, match="ties='all' has a gradient for images of known sizes"):
        pd.gradients(pd.max_pool(x, 2, ties="all"), [x])


def test_windows_of_nan_keep_their_gradient():
    x = pd.Variable([1, 1, 4, 4])
    (dx,) = pd.gradients(pd.max_pool(x, 2, 2), [x])
    data = np.zeros((1, 1, 4, 4))
    data[..., :2, :2] = np.nan
    assert pd.eval(dx, {x: data}).sum() == 4


@pytest.mark.parametrize("reach", ["image", "channels"])
def test_a_bias_before_a_pooling_reads_the_small_gradient(reach, rng):
    """Each window gives its gradient to one element: the sum over an image is that of dy."""
    axes = [2, 3] if reach == "image" else [0, 2, 3]
    data = rng.integers(0, 3, (2, 3, 6, 6)).astype("float32")
    x = pd.Variable([None, 3, 6, 6])
    for ties, count in (("first", 0), ("all", 1)):
        y = pd.max_pool(x, 2, 2, ties=ties)
        (dx,) = pd.gradients(y * y, [x])
        total = ops.reduce_sum(dx, axes)
        assert [n.op_type for n in pd.subgraph(total)].count("GreaterOrEqual") == count
        wanted = pd.eval(dx, {x: data}).sum(tuple(axes))
        np.testing.assert_allclose(pd.eval(total, {x: data}), wanted, rtol=1e-5)
