"""Sizes and element types where operands meet: those of NumPy, and names that nobody knows yet."""

import itertools

import numpy as np
import pytest

import pd_core as pd
from pd_core import ops
from pd_core.graph.arrays import as_array, common_dtype
from pd_core.graph.broadcast import broadcast_dims, broadcast_size, equal_sizes
from pd_core.graph.variable import fresh_dim, is_open, open_dim

SHAPES = [(), (1,), (3,), (2, 1), (2, 3), (1, 3), (4, 2, 3), (4, 1, 1), (0,), (2, 0)]


@pytest.mark.parametrize("a, b", [*itertools.product(SHAPES, repeat=2)], ids=str)
def test_numbers_broadcast_as_in_numpy(a, b):
    try:
        want = np.broadcast_shapes(a, b)
    except ValueError:
        want = None
    assert broadcast_dims(a, b) == want
    assert want is None or broadcast_dims(a, b, (1, 1)) == np.broadcast_shapes(a, b, (1, 1))


@pytest.mark.parametrize(
    "a, b, size", [("n", 1, "n"), ("n", "n", "n"), ("n", "m", "n"), ("n", 3, 3), (1, 1, 1)]
)
def test_a_name_is_no_one(a, b, size):
    assert broadcast_size(a, b) == size
    assert broadcast_size(b, a) == (b if (a, b) == ("n", "m") else size)


def test_an_open_size_takes_what_stands_beside_it():
    o, other = open_dim(), open_dim()
    for d in (5, "n", fresh_dim()):
        assert broadcast_size(o, d) == d == broadcast_size(d, o)
    assert broadcast_size(o, 1) == o == broadcast_size(1, o) == broadcast_size(o, o)
    both = broadcast_size(o, other)
    assert is_open(both) and both not in (o, other)


def pairs(y):
    return set(equal_sizes(y.node))


def test_sizes_that_have_to_be_equal():
    n3, m3, n1 = pd.Variable(["n", 3]), pd.Variable(["m", 3]), pd.Variable(["n", 1])
    assert pairs(n3 + m3) == {("n", "m")}
    assert pairs(n3 + n1) == pairs(n3 * 2.0) == pairs(pd.exp(n3)) == set()
    assert pairs(n3 + pd.Variable([4, 3])) == {("n", 4)}
    assert pairs(pd.Variable([open_dim(), 3]) + m3) == set()  # it may be 1
    assert pairs(pd.where(m3 > 0.0, n3, n3)) == {("m", "n")}
    row = pd.Variable(["m"])
    assert pairs(pd.Variable([2, "n"]) + row) == {("n", "m")}  # aligned at the last axis


def test_sizes_of_products_that_have_to_be_equal():
    a, b = pd.Variable(["k", "n", "p"]), pd.Variable(["l", "q", "o"])
    assert pairs(a @ b) == {("k", "l"), ("p", "q")}
    assert pairs(a @ pd.Variable(["q"])) == {("p", "q")}
    assert pairs(pd.Variable(["q"]) @ b) == set()
    assert pairs(pd.Variable(["n", 4]) @ pd.Variable(["q", 2])) == {(4, "q")}


def test_an_index_has_the_other_sizes_of_what_it_reads():
    x, index = pd.Variable(["n", "m", 3]), pd.Variable(["k", "l", 3], dtype="int64")
    assert pairs(pd.apply("GatherElements", x, index, axis=1)) == {("n", "k")}
    assert pairs(pd.apply("GatherElements", x, index, axis=-3)) == {("m", "l")}
    values = pd.Variable(["k", "j", 3])
    scattered = pd.apply("ScatterElements", x, index, values, axis=1)
    assert pairs(scattered) == {("n", "k"), ("l", "j")}


DTYPES = [np.dtype(k) for k in ("?", "i1", "u1", "i2", "i4", "i8", "u8", "f2", "f4", "f8")]


@pytest.mark.parametrize("a, b", [*itertools.product(DTYPES, repeat=2)], ids=str)
def test_the_common_dtype_holds_both_and_is_of_the_higher_kind(a, b):
    kinds = [{"b": 0, "u": 1, "i": 1, "f": 2}[d.kind] for d in (a, b)]
    if kinds[0] != kinds[1]:
        want = a if kinds[0] > kinds[1] else b
    else:
        want = np.promote_types(a, b)
        want = None if kinds[0] == 1 and want.kind == "f" else want
    assert common_dtype(a, b) == want


@pytest.mark.parametrize(
    "value, dtype, want",
    [
        (1.5, None, "float32"),
        (np.float64(1.5), None, "float32"),
        (np.float16(1.5), None, "float16"),
        (3, None, "int64"),
        (True, None, "bool"),
        ([1, 0], "bool", "bool"),
        ([1.0, 2.0], "int32", "int32"),
        ([True], "float32", "float32"),
        (0.1, "float16", "float16"),
        (np.int64(7), "uint8", "uint8"),
        (np.ma.masked_array([1.0, 2.0], mask=[False, False]), None, "float32"),
    ],
)
def test_arrays_of_values(value, dtype, want):
    array = as_array(value, dtype)
    assert array.dtype == want and array.flags.c_contiguous
    np.testing.assert_array_equal(array, np.asarray(value).astype(want))


@pytest.mark.parametrize(
    "value, dtype, words",
    [
        (1.5, "int64", "float64 values where int64 is needed, 1.5"),
        (np.nan, "int64", "float64 values where int64 is needed"),
        (300, "uint8", "int64 values where uint8 is needed"),
        (-1, "uint32", "int64 values where uint32"),
        (2, "bool", "int64 values where bool is needed"),
        (2**53 + 1, "float32", None),
        (1j, None, "complex128 values"),
        ("a", None, "<U1 values"),
        ([[1], [1, 2]], None, "rows of different lengths"),
        ([None], None, "None"),
        (np.ma.masked_array([1.0, 2.0], mask=[True, False]), None, "masked elements"),
    ],
)
def test_values_that_would_change_are_refused(value, dtype, words):
    if words is None:
        assert as_array(value, dtype).dtype == dtype
        return
    with pytest.raises(pd.DTypeError, match=f"^w: cannot take {words}"):
        as_array(value, dtype, "w")


@pytest.mark.parametrize("letters, shown", [(58, 60), (59, 61)])
def test_long_values_are_cut_in_messages(letters, shown):
    with pytest.raises(pd.DTypeError) as error:
        as_array("a" * letters)
    text = str(error.value).partition(" values, ")[2]
    assert len(text) == shown and text.endswith("'" if shown == 60 else "…")


def windows(size, window, stride, dilation, before, after, ceil):
    """How many windows there are, counted: the last may hang over, if it begins in the image."""
    reach = (window - 1) * dilation + 1
    padded, count, start = before + size + after, 0, 0
    while start + reach <= padded or (
        ceil and start - stride + reach < padded and start < before + size
    ):
        count, start = count + 1, start + stride
    return count


@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("window, dilation, pads", [(2, 1, (0, 0)), (3, 1, (1, 1)), (2, 2, (1, 0))])
def test_windows_of_pools(window, dilation, pads, stride, ceil):
    for size in range(4, 10):
        x = pd.Variable([2, 3, size])
        y = pd.apply(
            *("MaxPool", x),
            kernel_shape=[window],
            strides=[stride],
            dilations=[dilation],
            pads=list(pads),
            ceil_mode=ceil,
        )
        assert y.dims == (2, 3, windows(size, window, stride, dilation, *pads, ceil)), size


def test_windows_of_an_unknown_image_are_unknown():
    x = pd.Variable([2, 3, None, 5])
    y = pd.apply("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    assert y.dims[:2] == (2, 3) and y.dims[3] == 3
    assert isinstance(y.dims[2], str) and y.dims[2] != x.dims[2]


def transposed(size, window, **attributes):
    weights = pd.Variable([3, 2, window])
    return pd.apply("ConvTranspose", pd.Variable([1, 3, size]), weights, **attributes)


@pytest.mark.parametrize("size, window", [(1, 1), (3, 2), (4, 3)])
@pytest.mark.parametrize("stride, dilation, extra", [(1, 1, 0), (2, 1, 1), (3, 2, 2)])
def test_a_transposed_convolution_keeps_an_element(size, window, stride, dilation, extra):
    full = (size - 1) * stride + (window - 1) * dilation + 1 + extra
    common = {"strides": [stride], "dilations": [dilation], "output_padding": [extra]}
    for before in range(full):
        y = transposed(size, window, pads=[before, full - 1 - before], **common)
        assert y.dims == (1, 2, 1)
    with pytest.raises(pd.ShapeError, match=f"{full} wide on axis 2, {full} are cut"):
        transposed(size, window, pads=[full - 1, 1], **common)


def test_known_axes_of_unknown_number():
    x, axes = pd.Variable([2, 3, 4]), pd.Variable([2], dtype="int64")
    for y, rank in (
        (pd.apply("ReduceSum", x, axes, keepdims=0), 1),
        (pd.apply("ReduceSum", x, axes), 3),
        (pd.apply("Unsqueeze", x, axes), 5),
        (pd.apply("Squeeze", x, axes), 1),
    ):
        assert y.rank == rank and len(set(y.dims)) == rank
    unknown = pd.Variable([None], dtype="int64")
    assert pd.apply("ReduceSum", x, unknown).rank == 3
    for op_type in ("Unsqueeze", "Squeeze"):
        with pytest.raises(pd.ShapeError, match="rank of the result is not known"):
            pd.apply(op_type, x, unknown)


def test_a_shape_names_the_sizes_of_its_variable():
    x, y = pd.Variable(["n", 6]), pd.Variable(["m", 1, 6])
    assert pd.reshape(x, ops.shape_of(y)).dims == ("m", 1, 6)
    assert pd.expand(pd.Variable([1, 6]), ops.shape_of(x)).dims == ("n", 6)
    assert pd.reshape(x, pd.apply("Shape", y, start=1)).dims != ("m", 1, 6)
