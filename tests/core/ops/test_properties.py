"""Shapes, broadcasting and indices of generated programs, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import pd_core as pd
from tests.properties import examples, normal, seeds

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
DTYPES = st.sampled_from(["float32", "float64", "int32", "int64"])


def fed(*arrays, known=True):
    """Variables for arrays, and what feeds them.

    Unless all sizes are known, those are not that are the same in all arrays: a size along which an
    array is repeated has to be known.
    """
    variables = []
    for a in arrays:
        sizes = [{b.shape[k] for b in arrays if b.ndim >= -k} for k in range(-a.ndim, 0)]
        dims = [n if known or len(s) > 1 else None for n, s in zip(a.shape, sizes, strict=True)]
        variables.append(pd.Variable(dims, dtype=a.dtype))
    return variables, dict(zip(variables, arrays, strict=True))


def same(results, expected, **tolerance):
    for result, value in zip(results, expected, strict=True):
        assert result.shape == np.shape(value) and result.dtype == np.asarray(value).dtype
        np.testing.assert_allclose(result, value, **tolerance)


def announced(variables, expected):
    """What is known of shapes before anything runs is true."""
    for v, value in zip(variables, expected, strict=True):
        assert v.dtype == np.asarray(value).dtype and v.rank == np.ndim(value)
        known = zip(v.dims, np.shape(value), strict=True)
        assert all(d == n for d, n in known if isinstance(d, int))


@examples(40)
@given(
    hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=3),
    DTYPES,
    st.booleans(),
    seeds,
)
def test_broadcasting_is_numpys(shapes, dtype, known, seed):
    a, b = (normal(seed + k, s, dtype) for k, s in enumerate(shapes.input_shapes))
    (x, y), feeds = fed(a, b, known=known)
    c = a > b
    results = [x + y, x - y, x * y, x > y, pd.maximum(x, y), pd.where(x > y, x, y)]
    expected = [a + b, a - b, a * b, c, np.maximum(a, b), np.where(c, a, b)]
    announced(results, expected)
    same(pd.eval(results, feeds), expected)


@examples(25)
@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=1, max_side=3), seeds)
def test_gradients_have_the_shapes_of_operands(shapes, seed):
    """The derivative of sum(w x y) by x is w y summed over the axes along which x is repeated."""
    a, b = (normal(seed + k, s, "float64") for k, s in enumerate(shapes.input_shapes))
    weights = normal(seed + 2, shapes.result_shape, "float64")
    (x, y), feeds = fed(a, b)
    results = pd.gradients(pd.reduce_sum(x * y * weights), [x, y])
    expected = [unbroadcast(weights * b, a.shape), unbroadcast(weights * a, b.shape)]
    same(pd.eval(results, feeds), expected, rtol=1e-12, atol=1e-12)


def unbroadcast(array, shape):
    array = array.sum(axis=tuple(range(array.ndim - len(shape))))
    return array.sum(axis=tuple(k for k, n in enumerate(shape) if n == 1), keepdims=True)


@st.composite
def axes_of(draw, shapes):
    """A shape, and some of its axes counted from either end."""
    shape = draw(shapes)
    axes = draw(st.sets(st.integers(0, len(shape) - 1))) if shape else ()
    return shape, [k - len(shape) if draw(st.booleans()) else k for k in sorted(axes)]


@examples(40)
@given(axes_of(SHAPES), st.booleans(), st.booleans(), seeds)
def test_reductions_are_numpys(shape_axes, keep, known, seed):
    shape, axes = shape_axes
    a = normal(seed, shape, "float64")
    (x,), feeds = fed(a, known=known)
    kept = {"axis": tuple(axes), "keepdims": keep}
    results = [pd.reduce_sum(x, axes, keep), pd.reduce_prod(x, axes, keep)]
    expected = [a.sum(**kept), a.prod(**kept)]
    reduced = [shape[k] for k in axes]
    if 0 not in reduced:
        results += [pd.reduce_max(x, axes, keep), pd.reduce_mean(x, axes, keep)]
        expected += [a.max(**kept), a.mean(**kept)]
    announced(results, expected)
    same(pd.eval(results, feeds), expected, rtol=1e-12, atol=1e-12)


BOUNDS = st.none() | st.integers(-7, 7)
ANY_SLICE = st.builds(slice, BOUNDS, BOUNDS, st.none() | st.sampled_from([-3, -2, -1, 1, 2, 3]))


@st.composite
def basic_index(draw):
    """A shape and a key of integers, slices of any bounds, None and `...`, as NumPy takes them."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
    key = draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    entries = key if isinstance(key, tuple) else (key,)
    return shape, tuple(draw(ANY_SLICE) if isinstance(e, slice) else e for e in entries)


@examples(60)
@given(basic_index(), st.booleans(), seeds)
def test_indexing_is_numpys(shape_key, known, seed):
    shape, key = shape_key
    a = normal(seed, shape)
    (x,), feeds = fed(a, known=known)
    result = x[key]
    announced([result], [a[key]])
    same(pd.eval([result], feeds), [a[key]])


@st.composite
def rearrangement(draw):
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))
    rank = len(shape)
    order = draw(st.permutations(range(rank)))
    axis = draw(st.integers(-rank, rank - 1))
    shift = draw(st.integers(-6, 6))
    repeats = draw(st.lists(st.integers(0, 3), min_size=rank, max_size=rank))
    widths = draw(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=rank, max_size=rank)
    )
    return shape, order, axis, shift, repeats, widths


@examples(40)
@given(rearrangement(), st.booleans(), seeds)
def test_rearrangements_are_numpys(arguments, known, seed):
    shape, order, axis, shift, repeats, widths = arguments
    a = normal(seed, shape)
    (x,), feeds = fed(a, known=known)
    before, after = zip(*widths, strict=True)
    results = [
        pd.transpose(x, order), pd.flip(x, axis), pd.roll(x, shift, axis), pd.tile(x, repeats),
        pd.pad(x, before, after, 2.0), pd.concat([x, x], axis), pd.stack([x, x], axis),
        pd.unsqueeze(x, [axis]), pd.reshape(x, [-1]), pd.repeat(x, 2, axis),
        pd.cum_sum(x, axis), pd.swap_axes(x, axis, 0), pd.roll(x, shift),
        pd.tile(x, [2, 1, *repeats]),
    ]  # fmt: skip
    expected = [
        a.transpose(order), np.flip(a, axis), np.roll(a, shift, axis), np.tile(a, repeats),
        np.pad(a, widths, constant_values=2), np.concatenate([a, a], axis), np.stack([a, a], axis),
        np.expand_dims(a, axis), a.reshape(-1), np.repeat(a, 2, axis),
        np.cumsum(a, axis), a.swapaxes(axis, 0), np.roll(a, shift),
        np.tile(a, [2, 1, *repeats]),
    ]  # fmt: skip
    announced(results, expected)
    same(pd.eval(results, feeds), expected, rtol=1e-6, atol=1e-6)


@examples(30)
@given(
    hnp.mutually_broadcastable_shapes(
        signature=np.matmul.signature, max_dims=2, min_side=1, max_side=3
    ),
    seeds,
)
def test_products_of_stacks_are_numpys(shapes, seed):
    a, b = (normal(seed + k, s) for k, s in enumerate(shapes.input_shapes))
    (x, y), feeds = fed(a, b)
    results, expected = [pd.matmul(x, y)], [a @ b]
    announced(results, expected)
    same(pd.eval(results, feeds), expected, rtol=1e-5, atol=1e-6)


@examples(25)
@given(
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4),
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4),
)
def test_shapes_numpy_refuses_are_refused(one, other):
    try:
        np.broadcast_shapes(one, other)
    except ValueError:
        with pytest.raises(pd.ShapeError):
            pd.Variable(list(one)) + pd.Variable(list(other))
    else:
        pd.Variable(list(one)) + pd.Variable(list(other))


@examples(25)
@given(basic_index(), st.booleans(), seeds)
def test_updates_at_an_index_are_numpys(shape_key, known, seed):
    shape, key = shape_key
    a = normal(seed, shape)
    (x,), feeds = fed(a, known=known)
    changed, added = a.copy(), a.copy()
    changed[key], added[key] = 5, a[key] + 2
    results = [pd.index_update(x, key, 5.0), pd.index_add(x, key, 2.0)]
    announced(results, [changed, added])
    same(pd.eval(results, feeds), [changed, added])


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_unknown_sizes_may_be_zero(shape):
    """A 0 among run-time sizes is a size: Reshape takes it for that of the same axis of x."""
    a = np.zeros(shape, np.float32)
    x = pd.Variable([None, None])
    results = [pd.repeat(x, 2, 0), pd.tile(x, [2, 1, 2]), pd.roll(x, 1), pd.index_add(x, 0, 1.0)]
    expected = [np.repeat(a, 2, 0), np.tile(a, [2, 1, 2]), a]
    same(pd.eval(results[:3], {x: a}), expected)
    if shape[0]:
        assert pd.eval(results[3], {x: a}).shape == shape
