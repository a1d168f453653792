"""Products that kernels get wrong in some form, beside NumPy: values, shapes and gradients."""

import itertools

import numpy as np
import onnxruntime
import pytest

import pd_core as pd

# Operands whose inner size, rows, columns or stacks are of no elements, and one that is repeated.
SHAPES = [
    *(((m, 0), (0, n)) for m, n in ((5, 3), (1, 3), (5, 1), (0, 0))),
    ((0,), (0,)),
    ((0,), (0, 3)),
    ((4,), (0, 4, 5)),
    ((0,), (4, 0, 5)),
    ((2, 0), (0,)),
    ((0, 4), (4,)),
    ((2, 0, 4), (4,)),
    ((2, 3, 0), (0,)),
    ((5, 0), (4, 0, 3)),
    ((3, 4), (0, 4, 5)),
    ((1, 5, 0), (4, 0, 3)),
    ((4, 5, 0), (1, 0, 3)),
    ((1, 3, 4), (0, 4, 5)),
    ((0, 1, 3, 4), (1, 2, 4, 5)),
    ((2, 2, 5, 0), (2, 2, 0, 3)),
    ((0, 3, 4), (0, 4, 5)),
]


def fill_memory(dtype):
    """Leave numbers where the runtime takes its memory."""
    for size in (2, 3, 6, 12, 15, 24, 30, 60, 64, 100):
        np.full(size, 7, dtype)


def swapped(x):
    return pd.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def product(x, y, turned):
    """x y, whose matrices are transposed twice if they are `turned`: the kernels fuse one."""
    return pd.matmul(*(swapped(v) if t else v for v, t in zip((x, y), turned, strict=True)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint64"])
@pytest.mark.parametrize("known", [True, False])
def test_empty_products(dtype, known):
    for a, b in SHAPES:
        for turned in itertools.product((False, True), repeat=2):
            if min(len(a), len(b)) < 2 and any(turned):
                continue
            shapes = [
                (*s[:-2], s[-1], s[-2]) if t else s for s, t in zip((a, b), turned, strict=True)
            ]
            arrays = [np.ones(s, dtype) for s in shapes]
            # a size along which an operand is repeated has to be known
            x, y = (
                pd.Variable([n if known or n == 1 else None for n in s], dtype=dtype)
                for s in shapes
            )
            z = product(x, y, turned)
            fill_memory(dtype)
            got = pd.eval(z, {x: arrays[0], y: arrays[1]})
            want = np.matmul(np.ones(a, dtype), np.ones(b, dtype))
            assert got.shape == want.shape and got.dtype == want.dtype, (a, b, turned)
            np.testing.assert_array_equal(got, want, err_msg=f"{a}, {b}, {turned}")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("known", [True, False])
def test_gradients_of_empty_products_are_zero(dtype, known):
    """Those of an operand that has elements, where the other has none."""
    for a, b in (
        ((2, 0, 4), (2, 4, 5)),
        ((2, 3, 4), (2, 4, 0)),
        ((0, 4), (4, 5)),
        ((3, 0, 4), (4,)),
    ):
        x, y = (pd.Variable([n if known else None for n in s], dtype=dtype) for s in (a, b))
        gradients = pd.gradients(pd.reduce_sum(pd.matmul(x, y) * 2.0), [x, y])
        fill_memory(dtype)
        for g, s in zip(pd.eval(gradients, {x: np.ones(a), y: np.ones(b)}), (a, b), strict=True):
            np.testing.assert_array_equal(g, np.zeros(s))


@pytest.mark.parametrize("sizes", [(4, 5), (3, 4, 5)], ids=["matrix", "stack"])
@pytest.mark.parametrize("form", [pd.identity, lambda x: pd.reshape_like(x, x), pd.neg])
@pytest.mark.parametrize("given", [True, False], ids=["known", "unknown"])
def test_a_transposed_matrix_times_a_vector(sizes, given, form, rng, tmp_path):
    """ONNX Runtime 1.31 fuses both and leaves the transposition out."""
    order = [*range(len(sizes) - 2), len(sizes) - 1, len(sizes) - 2]
    a = pd.Variable(sizes if given else [None] * len(sizes), name="a")
    b = pd.Variable([4 if given else None], name="b")
    sign = -1.0 if form is pd.neg else 1.0
    y = pd.matmul(form(pd.transpose(a, order)), b)
    gradients = pd.gradients(pd.reduce_sum(pd.square(y)), [a, b])
    feeds = {"a": rng.random(sizes, np.float32), "b": rng.random(4, np.float32)}
    want = sign * np.swapaxes(feeds["a"], -1, -2) @ feeds["b"]
    got = pd.eval([y, *gradients], feeds={a: feeds["a"], b: feeds["b"]})
    assert np.allclose(got[0], want, rtol=1e-5)
    assert np.allclose(got[1], 2 * sign * want[..., None, :] * feeds["b"][:, None], rtol=1e-5)
    slopes = 2 * sign * (feeds["a"] * want[..., None, :]).sum(-1).reshape(-1, 4).sum(0)
    assert np.allclose(got[2], slopes, rtol=1e-5)
    path = tmp_path / "product.onnx"
    pd.export_onnx(path, [y], inputs=[a, b])
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert np.allclose(session.run(None, feeds)[0], want, rtol=1e-5)
