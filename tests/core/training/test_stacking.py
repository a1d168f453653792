"""Columns of batches, converted by loops in C, are those that Python and NumPy make of them."""

import itertools
import warnings

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend.fused.build import available
from pd_core.graph.errors import CompilerError
from pd_core.training import stacking
from pd_v2 import data_type
from pd_v2.data_feeder import DataFeeder

pytestmark = pytest.mark.skipif(not available(), reason="there is no C compiler here")


@pytest.fixture(scope="module")
def library():
    found = stacking._library.__wrapped__()
    if found is None:
        pytest.skip("there are no headers of Python here")
    found._converted = stacking._MANY
    assert found.module(1) is not None
    return found


@pytest.fixture
def columns(library):
    return stacking.Columns(library)


def bits(array):
    return array.shape, array.dtype, array.tobytes()


VALUES = [0.1, -0.0, 1e-45, 3.4e38, float("inf"), float("-inf"), 1 + 2**-24, 7, -3, 2**70, 16777217]


@pytest.mark.parametrize("kind", [list, tuple, lambda row: np.array(row, np.float32)])
@pytest.mark.parametrize("size", [1, len(VALUES), 300])
def test_rows_are_rounded_as_numpy_does(kind, size, columns, rng):
    rows = [rng.permutation(np.resize(np.array(VALUES, object), size)).tolist() for _ in range(40)]
    expected = bits(np.array([[float(x) for x in row] for row in rows]).astype(np.float32))
    rows = [kind(row) for row in rows]
    assert bits(columns.rows(rows, size)) == expected
    assert bits(columns.rows(tuple(rows), size)) == expected
    assert bits(columns.rows([(3, row) for row in rows], size, 1)) == expected
    assert bits(columns.rows([[row] for row in rows], size, 0)) == expected


def test_nan_stays_nan(columns):
    assert np.isnan(columns.rows([[float("nan"), 1.0]], 2)).tolist() == [[True, False]]


def test_rows_of_several_kinds(columns):
    rows = [[1.5, 2], (3, 4.5), np.array([5, 6], np.float32)]
    assert columns.rows(rows, 2).tolist() == [[1.5, 2.0], [3.0, 4.5], [5.0, 6.0]]


class Number(float):
    """Another type."""


@pytest.mark.parametrize(
    "row",
    [
        *([1.0], [1.0, 2.0, 3.0], [1.0, "2"], [1.0, None], [1.0, True], [1.0, Number(2)]),
        *([1.0, 1e39], [1.0, 2**2000], "ab", 5.0, None, {1.0: 2, 3.0: 4}),
        *(np.ones(2), np.ones(3, np.float32), np.ones((1, 2), np.float32)),
        *(np.ones(4, np.float32)[::2], np.ma.ones(2, np.float32), np.float32(1)),
    ],
)
def test_anything_else_is_left_to_python(row, columns):
    assert columns.rows([[1.0, 2.0], row], 2) is None
    assert columns.rows([np.ones(2, np.float32), row], 2) is None
    assert columns.rows([([1.0, 2.0],), (row,)], 2, 0) is None


@pytest.mark.parametrize("sample", [(), (1,), {1: [1.0, 2.0]}, np.ones((2, 2)), None, "text", 5])
def test_samples_without_the_field_are_left_to_python(sample, columns):
    batch = [(0, [1.0, 2.0])] * 40
    for place in (0, 1, 17, 25, 40):
        assert columns.rows([*batch[:place], sample, *batch[place:]], 2, 1) is None
        assert columns.ids([*batch[:place], sample, *batch[place:]], 5, 1) is None


@pytest.mark.parametrize("size", [63, 64, 65, 200])
@pytest.mark.parametrize(
    "last", [[], [1.0] * 5, (1.0,) * 500, np.ones(64, np.float32), None, "text"]
)
def test_the_row_after_one_may_be_anything(size, last, columns):
    """Its first numbers are fetched before it is looked at."""
    assert columns.rows([[1.0] * size, [2.0] * size, last], size) is None or len(last) == size
    assert columns.rows([[1.0] * size, (2.0,) * size], size).tolist() == [
        [1.0] * size,
        [2.0] * size,
    ]


def test_memory_is_used_again_when_nobody_has_it(columns):
    first = columns.rows([[1.0, 2.0]] * 3, 2)
    part = first[1]
    del first
    others = [columns.rows([[3.0, 4.0]] * 3, 2) for _ in range(5)]
    assert part.tolist() == [1.0, 2.0]
    assert all(array.tolist() == [[3.0, 4.0]] * 3 for array in others)
    address = others[-1].ctypes.data
    del others, part
    found = {columns.rows([[5.0, 6.0]] * 2, 2).ctypes.data for _ in range(6)}
    assert address in found and len(found) <= 3


# ---- what a feeder gives, with loops and without


def sample_kinds(rng, size):
    """Return functions that make a row of a batch in some form, by name."""
    exact = rng.integers(-5, 6, size)
    real = rng.normal(size=size)
    kinds = {
        "list": real.tolist,
        "tuple": lambda: tuple(real.tolist()),
        "list of integers": exact.tolist,
        "list of large integers": lambda: [2**60 + 2**36 + 1] * size,
        "list of NumPy's": lambda: list(real),
        "bools": lambda: [True] * size,
        "strings": lambda: ["1.5"] * size,
        "too large": lambda: [1e300] * size,
        "strided": lambda: np.repeat(real.astype(np.float32), 2)[::2],
        "read-only": lambda: np.frombuffer(real.astype(np.float32).tobytes(), np.float32),
        "byte-swapped": lambda: real.astype(">f4"),
        "unaligned": lambda: np.frombuffer(b"x" + real.tobytes(), np.float64, offset=1),
        "masked": lambda: np.ma.array(real, mask=[True] + [False] * (size - 1)),
        "not masked": lambda: np.ma.array(real),
        "subclass": lambda: real.astype(np.float32).view(np.recarray),
        "image": lambda: real.astype(np.float32).reshape(2, -1),
        "image of Fortran": lambda: np.asfortranarray(real.reshape(2, -1)),
        "image of 3 axes": lambda: real.reshape(1, 2, -1),
        "objects": lambda: np.array(real.tolist(), object),
        "one": lambda: [1.5],
        "a scalar": lambda: np.float32(2.5),
        "0-d": lambda: np.array(2.5),
        "short": lambda: real[:-1].astype(np.float32),
    }
    for dtype in "?bBhHiIlLefdg":
        kinds[f"array of {np.dtype(dtype)}"] = lambda t=dtype: exact.astype(t)
    kinds["large int64"] = lambda: np.full(size, 2**60 + 2**36 + 1)
    return kinds


def outcome(feeder, batch):
    """Return the arrays of a batch, or the error, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            results = [bits(array) for array in feeder.arrays(batch)]
            slots = feeder(batch)
            results += [(bits(slot.value), slot.image_size) for slot in slots.values()]
        except (ValueError, TypeError) as error:
            results = repr(error)
    return results, {str(w.message) for w in caught}


def both(types, batch, columns):
    plain = outcome(DataFeeder(types), batch)
    assert outcome(DataFeeder(types).with_loops(columns), batch) == plain
    return plain[0]


def test_samples_of_all_kinds_alone_and_mixed(columns, rng):
    types = [("x", data_type.dense_vector(6)), ("y", data_type.integer_value(9))]
    kinds = sample_kinds(rng, 6)
    given = 0
    for one, other in itertools.product(kinds.values(), repeat=2):
        rows = [one(), one(), other()]
        given += not isinstance(both(types, [(row, 3) for row in rows], columns), str)
    assert given > 300


def test_what_numpy_makes_of_a_list_of_rows(columns, rng):
    """For rows of one kind that NumPy stacks to numbers, those are the truth."""
    feeder = DataFeeder([("x", data_type.dense_vector(6))]).with_loops(columns)
    kinds = sample_kinds(rng, 6)
    for name in kinds.keys() - {"masked", "strings", "one", "a scalar", "0-d", "short", "objects"}:
        rows = [kinds[name]() for _ in range(20)]
        with np.errstate(over="ignore"):
            expected = np.array(rows).astype(np.float32).reshape(20, 6)
            (array,) = feeder.arrays([(row,) for row in rows])
        if name == "list of large integers":  # Python's numbers are of float64 first
            expected = np.array(rows).astype(np.float64).astype(np.float32)
        assert bits(array) == bits(expected), name


def test_errors_name_sample_and_layer(columns):
    feeder = DataFeeder([("x", data_type.dense_vector(3))]).with_loops(columns)
    with pytest.raises(ValueError, match=r"'x' .column 0., sample 1: expected 3 numbers, got 2"):
        feeder.arrays([([1.0, 2.0, 3.0],), ([1.0, 2.0],)])
    feeder = DataFeeder([("x", data_type.dense_vector_sequence(3))]).with_loops(columns)
    with pytest.raises(ValueError, match="sample 1, step 0: expected 3 numbers, got 2"):
        feeder([([[1.0, 2.0, 3.0]],), ([[1.0, 2.0]],)])


IDS = [
    *(0, 8, 9, -1, 2**40, 2**63, 2**70, True, 3.0, 3.5, "3", None, [3]),
    *(np.int64(3), np.int64(-1), np.int32(3), np.uint64(3), np.uint8(200), np.float32(3)),
    *(np.array(3), np.array([3]), np.bool_(True), np.ma.masked),
]


@pytest.mark.parametrize("dim", [1, 9])
def test_ids_of_all_kinds(dim, columns):
    single = [("y", data_type.integer_value(dim))]
    several = [("y", data_type.integer_value_sequence(dim))]
    given = 0
    for one in IDS:
        given += not isinstance(both(single, [(0,), (one,)], columns), str)
        both(single, [(one,), (0,)], columns)
        both(several, [([0, one],), ([],), ((0,),)], columns)
    assert given >= 5


ENTRIES = [
    *((2, 0.5), [2, 0.5], (2, 3), (2, 2**60 + 2**36 + 1), (2, 1e39), (2, float("nan"))),
    *((2, np.float32(0.1)), (np.int64(2), 0.1), (2.0, 0.5), (2.5, 0.5), (True, 0.5), (9, 0.5)),
    *((-1, 0.5), (2, 0.5, 1), (2,), (2, "0.5"), (2, None), (2, True), {2: 1, 3: 1}, "23", 2, None),
    *(np.array([2, 0.5]), np.array([2, 3]), (2, 2**2000), (2**70, 0.5)),
]


@pytest.mark.parametrize("entries", [[], [(1, 0.25)], [(1, 7)], [(0, 0.5), (3, 2)]])
def test_sparse_values_of_all_kinds(entries, columns):
    types = [("x", data_type.sparse_float_vector(9))]
    given = 0
    for one in ENTRIES:
        given += not isinstance(both(types, [(entries,), ([*entries, one],)], columns), str)
    assert given >= 8
    assert len(both(types, [(entries,), ([],)], columns)) == 4


@pytest.mark.parametrize("entries", [[], [1], (0, 4)])
def test_sparse_columns_of_all_kinds(entries, columns):
    types = [("x", data_type.sparse_binary_vector(9))]
    for one in IDS:
        both(types, [(entries,), ([*entries, one],)], columns)
    both(types, [(np.array(entries, np.int64),)], columns)


def test_fields_are_found_as_ever(columns):
    types = [("x", data_type.dense_vector(1)), ("y", data_type.integer_value(9))]
    for batch in ([], [((1.0,), 2)], ([[1.0], 2],), [([1.0], 2), ([1.0],)], [{0: [1.0], 1: 2}]):
        both(types, batch, columns)
    for feeding in ({"x": -2, "y": -1}, {"x": 2, "y": 0}, {"x": "a", "y": "b"}):
        for batch in ([(3, 2, [1.0])] * 3, [{"a": [1.0], "b": 2}], [(3,)]):
            plain, looped = (DataFeeder(types, feeding).with_loops(c) for c in (None, columns))
            assert outcome(looped, batch) == outcome(plain, batch)


# ---- when there is a library


def test_sessions_without_kernels_compile_nothing(library):
    assert stacking.columns_of(pd.Session()) is None
    assert isinstance(stacking.columns_of(pd.Session(fused=True)), stacking.Columns)


def test_without_headers_python_converts(monkeypatch):
    monkeypatch.setattr(stacking.sysconfig, "get_paths", lambda: {"include": "/nowhere"})
    assert stacking._library.__wrapped__() is None


def test_many_numbers_have_it_compiled(library, monkeypatch, tmp_path):
    """`library` has compiled it: the compiler is not called again here."""
    monkeypatch.setattr(stacking, "find", lambda *args, **options: None)
    monkeypatch.setattr(stacking, "_MANY", 3 * stacking._ARRAY)
    rows = [np.ones(2, np.float32)]
    fresh = stacking.Columns(stacking._library.__wrapped__())
    assert [fresh.rows(rows, 2) for _ in range(2)] == [None, None]
    assert fresh.rows(rows, 2).tolist() == [[1.0, 1.0]]
    lists = [[1.0] * stacking._ARRAY]
    fresh = stacking.Columns(stacking._library.__wrapped__())
    assert [fresh.rows(lists, stacking._ARRAY) for _ in range(2)] == [None, None]
    assert fresh.rows(lists, stacking._ARRAY).tolist() == lists


def test_one_that_fails_is_not_tried_again(monkeypatch):
    def fail(*args, **options):
        calls.append(args)
        raise CompilerError("no")

    calls = []
    monkeypatch.setattr(stacking, "find", fail)
    fresh = stacking._library.__wrapped__()
    if fresh is None:
        pytest.skip("there are no headers of Python here")
    assert [stacking.Columns(fresh).rows([[1.0]], 1) for _ in range(3)] == [None] * 3
    assert len(calls) == 1
