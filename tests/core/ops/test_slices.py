"""Bounds of slices, of every step and sign, are NumPy's: values, writes and gradients."""

import itertools

import numpy as np
import onnxruntime
import pytest
from onnx import parser

import pd_core as pd
from pd_core.graph.variable import is_open

STEPS = (-3, -2, -1, 1, 2, 3)
SIZES = range(4)
FAR = (None, -(10**30), -(2**63), -(2**31), -1, 2**31 - 1, 2**63 - 1, 10**30)


def computed(v, key):
    """What is read, set to 7, added 7 to, and d(sum of squares)/dx."""
    y = v[key]
    (slope,) = pd.gradients(pd.reduce_sum(y * y), [v])
    return y, pd.index_update(v, key, 7.0), pd.index_add(v, key, 7.0), slope


def wanted(x, key):
    """The same by NumPy."""
    written, added, slope = x.copy(), x.copy(), np.zeros_like(x)
    written[key], slope[key] = 7, 2 * x[key]
    added[key] += 7
    return x[key], written, added, slope


def check(results, x, keys):
    want = [a for key in keys for a in wanted(x, key)]
    for k, (a, b) in enumerate(zip(results, want, strict=True)):
        assert a.tolist() == b.tolist(), f"{keys[k // 4]} of {x}, {k % 4}"


def numbers(size):
    return np.arange(1, size + 1, dtype="float32")


@pytest.mark.parametrize("sizes", [SIZES, [3]], ids=["unknown", "known"])
def test_bounds_known_at_run_time_only(sizes):
    v = pd.Variable([None] if len(sizes) > 1 else sizes)
    a, b = (pd.Variable([], dtype="int64") for _ in "ab")
    targets = [r for step in STEPS for r in computed(v, np.s_[a:b:step])]
    for size, start, end in itertools.product(sizes, range(-5, 5), range(-5, 5)):
        feeds, keys = {v: numbers(size), a: start, b: end}, [np.s_[start:end:k] for k in STEPS]
        check(pd.eval(targets, feeds), feeds[v], keys)


@pytest.mark.parametrize("sizes", [SIZES, [0], [2]], ids=["unknown", "empty", "known"])
def test_bounds_that_are_written_out(sizes):
    v, bounds = pd.Variable([None] if len(sizes) > 1 else sizes), [None, -5, *range(-3, 4)]
    keys = list(itertools.starmap(slice, itertools.product(bounds, bounds, (-2, -1, 1, 3))))
    results = [v[key] for key in keys]
    for size in sizes:
        x = numbers(size)
        for key, y, got in zip(keys, results, pd.eval(results, {v: x}), strict=True):
            assert got.tolist() == x[key].tolist(), f"{key} of {x}"
            assert y.shape in ((None,), got.shape), f"{key} of {x}"


@pytest.mark.parametrize("known", [True, False], ids=["static", "batch"])
def test_writes_and_gradients_of_written_bounds(known):
    v, x = pd.Variable([3 if known else None]), numbers(3)
    keys = list(itertools.starmap(slice, itertools.product([None, -5, -1, 2], [None, 0], (-2, 1))))
    check(pd.eval([r for key in keys for r in computed(v, key)], {v: x}), x, keys)


@pytest.mark.parametrize("known", [True, False], ids=["static", "batch"])
def test_bounds_of_any_size(known):
    v, x = pd.Variable([3 if known else None]), numbers(3)
    keys = list(itertools.starmap(slice, itertools.product(FAR, FAR, (-(10**30), -1, 2**63))))
    for key, got in zip(keys, pd.eval([v[key] for key in keys], {v: x}), strict=True):
        assert got.tolist() == x[key].tolist(), key


def test_the_function_with_vectors_as_bounds():
    x = np.arange(12, dtype="float32").reshape(3, 4)
    v = pd.Variable([None, None])
    starts, ends, steps = (pd.Variable([2], dtype=k) for k in ("int32", "int64", "int64"))
    both = pd.Variable([None], dtype="int64")
    results = [
        pd.slice(v, pd.cast(starts, "int64"), ends, [1, -2], steps),
        pd.slice(v, starts, pd.cast(ends, "int32"), steps=pd.cast(steps, "int32")),
        pd.slice(v, both, both * 0 + 9, None, both * 0 - 1),
    ]
    for a, b, c, d in itertools.product((-6, -2, 3), (-9, 1), (-1, 2), (-7, 1)):
        feeds = {v: x, starts: [a, d], ends: [b, 9], steps: [c, -c], both: [a]}
        want = [x[d:9:-c, a:b:c], x[a:b:c, d:9:-c], x[a:9:-1]]
        for got, w in zip(pd.eval(results, feeds), want, strict=True):
            np.testing.assert_array_equal(got, w, strict=True)


def test_bounds_of_different_number():
    v = pd.Variable([3, 4])
    with pytest.raises(pd.GraphError, match="slice"):
        pd.slice(v, [0, 1], [2, 3], [0, 1], [-1])
    with pytest.raises(pd.GraphError, match="axis 2 of"):
        pd.slice(v, [0], [2], [2], [-1])


def test_slices_of_values_at_hand():
    with pd.guard():
        for size in (0, 1, 3):
            v, x = pd.to_variable(numbers(size)), numbers(size)
            for start, end in itertools.product((-5, -1, None), (-5, 0, None)):
                key = np.s_[start:end:-1]  # a recorded line that is used again
                assert v[key].numpy().tolist() == x[key].tolist(), (key, size)
                changed = x.copy()
                changed[key] = 7
                assert pd.index_update(v, key, 7.0).numpy().tolist() == changed.tolist()


def test_an_imported_slice_has_the_bounds_of_onnx():
    """A start before the first element is that element, also where steps go back."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
        f (float[N] x, int64[1] s, int64[1] e, int64[1] a, int64[1] k) => (float[M] y)
        { y = Slice(x, s, e, a, k) }"""
    model = pd.import_onnx(parser.parse_model(text))
    v = pd.Variable([None])
    y = model(x=v, s=np.array([-5]), e=np.array([-9]), a=np.array([0]), k=np.array([-1]))
    (slope,) = pd.gradients(pd.reduce_sum(y * y), [v])
    got, dx = pd.eval([y, slope], {v: numbers(3)})
    assert got.tolist() == [1] and dx.tolist() == [2, 0, 0]


# ---- slices of at most one element, of an axis whose size only runs know

SINGLE = (np.s_[:1], np.s_[-1:], np.s_[1:2], np.s_[-2:-1], np.s_[0:9:9], np.s_[:, :1])


@pytest.mark.parametrize("key", SINGLE, ids=str)
def test_a_slice_of_one_element_broadcasts(key, tmp_path):
    """Its gradient is summed over what it was broadcast to, and other sizes do not pass for its."""
    x, w = pd.Variable([None, None, 4]), pd.Variable(data=np.eye(4, dtype="f") / 2)
    part = x[key]
    y = pd.tanh(x) * pd.tanh(part @ w)
    targets = [y, *pd.gradients(pd.reduce_sum(y), [part, w])]
    path = tmp_path / "model.onnx"
    pd.export_onnx(path, [y], [x])
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for shape in ((3, 2, 4), (2, 5, 4), (2, 2, 4)):
        array = np.random.default_rng(0).random(shape, np.float32)
        got, of_part, of_w = pd.eval(targets, {x: array})
        of_product = (np.tanh(array) * (1 - np.tanh(array[key] / 2) ** 2)).sum(
            tuple(k for k in range(2) if array[key].shape[k] < shape[k]), keepdims=True
        )
        np.testing.assert_allclose(got, np.tanh(array) * np.tanh(array[key] / 2), rtol=1e-5)
        np.testing.assert_allclose(of_part, of_product / 2, rtol=1e-5)
        wanted = np.einsum("abi,abj->ij", array[key], of_product)
        np.testing.assert_allclose(of_w, wanted, rtol=1e-4)
        (exported,) = session.run(None, {session.get_inputs()[0].name: array})
        np.testing.assert_allclose(exported, got, rtol=1e-6)


def test_slices_that_may_take_more_have_names_of_their_own():
    x = pd.Variable([None])
    for key in (
        np.s_[:2],
        np.s_[-2:],
        np.s_[1:],
        np.s_[:-1],
        np.s_[-1:1],
        np.s_[1:-1],
        np.s_[::-1],
    ):
        assert x[key].dims[0] != x.dims[0] and not is_open(x[key].dims[0])
