"""Products of matrices of which some are empty, beside NumPy: values, shapes and gradients."""

import itertools

import numpy as np
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
