"""What generated feeds become: any memory layout, any dtype that keeps the values, any size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import pd_core as pd
from tests.properties import examples

NUMBERS = ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]
TARGETS = ["float32", "float64", "int32", "int64", "uint8", "bool"]


@st.composite
def arrays(draw):
    """Arrays of any dtype and byte order, of which parts are taken, reversed and transposed."""
    order = draw(st.sampled_from("<>"))
    dtype = np.dtype(draw(st.sampled_from(NUMBERS + FLOATS))).newbyteorder(order)
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    size = int(np.prod(shape))
    high = 1 if dtype.kind == "b" else 100
    low = 0 if dtype.kind in "bu" else -100
    values = draw(st.lists(st.integers(low, high), min_size=size, max_size=size))
    a = np.array(values, dtype).reshape(shape)
    if draw(st.booleans()):
        a = a.transpose(draw(st.permutations(range(a.ndim))))
    for axis in range(a.ndim):
        step = draw(st.sampled_from([1, 2, -1, -2]))
        a = a[(slice(None),) * axis + (slice(None, None, step),)]
    if draw(st.booleans()):
        a = np.broadcast_to(a, (2, *a.shape))
    if draw(st.booleans()):
        a.flags.writeable = False
    return a


@examples(150)
@given(arrays(), st.sampled_from(TARGETS), st.booleans())
def test_feeds_are_taken_exactly_or_refused(a, target, known):
    """Floats are rounded to other floats; integers, and flags, are taken if they stay the same."""
    x = pd.Variable(list(a.shape) if known else [None] * a.ndim, dtype=target)
    kept = a.astype(target)
    before = a.copy()
    if np.dtype(target).kind == "f" or ((kept == a).all() and (a.dtype.kind != "f" or not a.size)):
        result = pd.eval(pd.identity(x), {x: a})
        assert result.dtype == target and result.shape == a.shape
        assert np.array_equal(result, kept)
    else:
        with pytest.raises(pd.FeedError, match="cannot take"):
            pd.eval(pd.identity(x), {x: a})
    assert np.array_equal(a, before)


@examples(60)
@given(
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    st.data(),
)
def test_feeds_of_other_shapes_are_refused(announced, shape, data):
    dims = [n if data.draw(st.booleans()) else None for n in announced]
    x = pd.Variable(dims)
    fits = len(dims) == len(shape)
    fits = fits and all(d in (None, n) for d, n in zip(dims, shape, strict=True))
    a = np.ones(shape, np.float32)
    if fits:
        assert pd.eval(pd.identity(x), {x: a}).shape == shape
    else:
        with pytest.raises(pd.ShapeError, match="fed an array of"):
            pd.eval(pd.identity(x), {x: a})


@examples(40)
@given(arrays())
def test_results_are_of_their_own_memory(a):
    """A result neither aliases what was fed nor changes with it."""
    a = a.astype("float32")
    x = pd.Variable(list(a.shape))
    result = pd.eval(pd.identity(x), {x: a})
    assert not np.shares_memory(result, a)
