"""Indexing of Variables, and writing to an index, against NumPy."""

import numpy as np
import pytest

import pd_core as pd

K, J = np.array([[0, 2], [-1, 1]]), np.array([1, 0])
MASK = np.array([[True, False, True, True], [False, False, True, False], [True] * 4])
S = np.s_

# of x [3, 4, 2]
KEYS = [
    *(S[0], S[-1], S[np.int64(1)], S[1, 2], S[1, 2, 0], S[...], S[:], S[None], S[()]),
    *(S[1:], S[:-1], S[-2:], S[0:9], S[2:1], S[::2], S[::-1], S[2:0:-1], S[:, ::-2], S[-1:-9:-2]),
    *(S[..., 0], S[1, ..., None], S[None, :, None, 1], S[:, None, ..., 1:], S[..., -1, :1]),
    *(S[[0, 2, 0]], S[J], S[K], S[:, K], S[..., J], S[[]], S[1:, J], S[K, :, J], S[K, J]),
    *(S[:, K, J], S[None, K, :, J], S[:, None, J], S[K, None, J], S[0, :, J], S[:, 0, J]),
    *(S[J, 0], S[J, ..., 0], S[0, J, 1:], S[K, J, J[:1]], S[:, J, None, J], S[J[:, None], J]),
    *(S[MASK], S[MASK, 0], S[MASK, J[:1]], S[..., None, MASK[0, :2]], S[MASK[:, 0]]),
    *(S[:, MASK[0]], S[MASK[:, 0], 1:, ::-1], S[0, MASK[0]], S[MASK[:, 0], [1, 2]]),
]


def name(key):
    """A key as it is written, without spaces."""
    return str(key).replace(" ", "").replace("\n", "").replace("None", "-")[:50]


@pytest.fixture
def x(rng):
    return rng.standard_normal((3, 4, 2)).astype("float32")


@pytest.mark.parametrize("known", [True, False], ids=["static", "batch"])
def test_reads_what_numpy_reads(x, known):
    v = pd.Variable([3 if known else None, 4, 2])
    results = [v[key] for key in KEYS]
    values = pd.eval(results, feeds={v: x})
    for key, y, value in zip(KEYS, results, values, strict=True):
        np.testing.assert_array_equal(value, x[key], err_msg=name(key))
        assert y.rank == value.ndim, name(key)
        for announced, size in zip(y.shape, value.shape, strict=True):
            assert announced in (None, size), name(key)
            assert announced == size or not known, name(key)


def test_variables_in_a_key(x):
    v = pd.Variable([None, 4, 2])
    i, mask = pd.Variable([None, 2], dtype="int32"), pd.Variable([None, 4], dtype="bool")
    n = pd.Variable([], dtype="int64")
    keys = [
        (lambda n, i, mask: n),
        (lambda n, i, mask: S[n:]),
        (lambda n, i, mask: S[-n:3, :n, ::-1]),
        (lambda n, i, mask: S[:, n, None]),
        (lambda n, i, mask: i),
        (lambda n, i, mask: S[i, ..., n]),
        (lambda n, i, mask: S[i, :, [1, 0]]),
        (lambda n, i, mask: mask),
        (lambda n, i, mask: S[mask, n]),
    ]
    results = [v[key(n, i, mask)] for key in keys]
    values = pd.eval(results, feeds={v: x, n: 1, i: K, mask: MASK})
    for k, (key, value) in enumerate(zip(keys, values, strict=True)):
        np.testing.assert_array_equal(value, x[key(1, K, MASK)], err_msg=str(k))


def test_a_mask_of_the_values_themselves(x):
    v = pd.Variable([None, 4, 2])
    y, none = v[v > 0.0], v[v > 9.0]
    (g,) = pd.gradients(pd.reduce_sum(y * y), [v])
    got, empty, slope = pd.eval([y, none, g], feeds={v: x})
    np.testing.assert_array_equal(got, x[x > 0])
    assert empty.shape == (0,)
    np.testing.assert_allclose(slope, np.where(x > 0, 2 * x, 0))


@pytest.mark.parametrize("known", [True, False], ids=["static", "batch"])
def test_first_and_second_derivatives_of_reading(x, known):
    """First and second derivatives of sum y^3, added up where an element is read twice."""
    v = pd.Variable([3 if known else None, 4, 2])
    keys = KEYS[::3]
    firsts = [pd.gradients(pd.reduce_sum(v[key] * v[key] * v[key]), [v])[0] for key in keys]
    seconds = [pd.gradients(pd.reduce_sum(g), [v])[0] for g in firsts]
    values = pd.eval([*firsts, *seconds], feeds={v: x})
    for key, first, second in zip(keys, values[: len(keys)], values[len(keys) :], strict=True):
        for got, wanted in ((first, 3 * x**2), (second, 6 * x)):
            total = np.zeros_like(x)
            np.add.at(total, key, wanted[key])
            np.testing.assert_allclose(got, total, rtol=1e-5, err_msg=name(key))


WRITTEN = [
    *(S[0], S[1, 2, 0], S[...], S[1:, None, ::-1], S[2:0:-1, 1], S[..., 0], S[[0, 2]], S[:, J]),
    *(S[J, 0], S[J[:, None], J, 1], S[MASK], S[MASK[:, 0], 1:], S[[]]),
]


@pytest.mark.parametrize("known", [True, False], ids=["static", "batch"])
def test_sets_and_adds_what_numpy_does(x, known, rng):
    v = pd.Variable([3 if known else None, 4, 2])
    parts = [rng.standard_normal(x[key].shape).astype("float32") for key in WRITTEN]
    feeds = {v: x}
    results = []
    for key, part in zip(WRITTEN, parts, strict=True):
        p = pd.Variable(list(part.shape))
        feeds[p] = part
        for write in (pd.index_update, pd.index_add):
            y = write(v, key, p)
            assert y.shape == v.shape
            results += [y, *pd.gradients(pd.reduce_sum(y * y * y), [v, p])]
    values = iter(pd.eval(results, feeds=feeds))
    for key, part in zip(WRITTEN, parts, strict=True):
        out = x.copy()
        out[key] = part
        kept = np.ones_like(x)
        kept[key] = 0
        _check(values, key, (out, 3 * out**2 * kept, 3 * part**2))
        out = x.copy()
        np.add.at(out, key, part)
        _check(values, key, (out, 3 * out**2, (3 * out**2)[key]))


def _check(values, key, wanted):
    for want in wanted:
        np.testing.assert_allclose(
            next(values), want, rtol=1e-5, atol=1e-6, err_msg=name(key), strict=True
        )


def test_writing_broadcasts_and_counts_duplicates(x):
    i = np.array([0, 2, 0])
    v, n = pd.Variable([None, 4, 2]), pd.Variable([], dtype="int64")
    steps = [
        pd.index_update(v, S[1:, 0], 7),
        pd.index_update(v, v < 0.0, 0.0),
        pd.index_update(v, n, v[0] + 1.0),
        pd.index_add(v, i, 1.0),
        pd.index_add(np.zeros(4, "int64"), [1, 1, 3], 5),
        pd.index_update(np.zeros(3, bool), 1, True),
    ]
    set_, relu, row, added, ints, flags = pd.eval(steps, feeds={v: x, n: 2})
    want = x.copy()
    want[1:, 0] = 7
    np.testing.assert_array_equal(set_, want)
    np.testing.assert_array_equal(relu, np.maximum(x, 0))
    np.testing.assert_array_equal(row, np.stack([x[0], x[1], x[0] + 1]))
    np.testing.assert_array_equal(added, x + np.array([2, 0, 1], "f")[:, None, None])
    assert ints.tolist() == [0, 10, 0, 5]
    assert flags.tolist() == [False, True, False]


def test_scatter_nd_sets_and_combines(rng):
    x = rng.standard_normal((3, 4, 2)).astype("float32")
    index = np.array([[2, 1], [0, -1], [2, 1]])
    v, p = pd.Variable([None, 4, 2]), pd.Variable([3, 2])
    part = rng.standard_normal((3, 2)).astype("float32")
    y = pd.scatter_nd(v, index[:2], p[:2])
    total = pd.scatter_nd(v, index, p, reduction="add")
    most = pd.scatter_nd(v, index, p, reduction="max")
    slopes = pd.gradients(pd.reduce_sum(total * total), [v, p])
    got = pd.eval([y, total, most, *slopes], feeds={v: x, p: part})
    want = [x.copy() for _ in range(3)]
    want[0][2, 1], want[0][0, -1] = part[:2]
    for (a, b), row in zip(index, part, strict=True):
        want[1][a, b] += row
        want[2][a, b] = np.maximum(want[2][a, b], row)
    want += [2 * want[1], 2 * want[1][index[:, 0], index[:, 1]]]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5)


ERRORS = {
    "beyond": (3, IndexError, r"index 3 is out of range for axis 0 of float32\[3, 4, 2\]"),
    "before": (S[:, -5], IndexError, "index -5 is out of range for axis 1"),
    "array": (S[:, [0, 4]], IndexError, "index 4 is out of range for axis 1"),
    "many": (S[0, 0, 0, 0], IndexError, "too many indices, 4 for"),
    "dots": (S[..., 0, ...], IndexError, "at most one"),
    "float": (1.0, TypeError, "an index is an int, slice, .* not 1.0"),
    "bound": (S[0.5:], TypeError, "a bound of a slice is a whole number, not 0.5"),
    "step": (S[::0], ValueError, "the step of a slice is not 0"),
    "text": ("a", TypeError, "an index is an int, slice, .* not 'a'"),
    "floats": (np.ones(2), TypeError, "an index is a whole number"),
    "mask": (MASK[:, :3], pd.ShapeError, r"a mask bool\[3, 3\] for axes from 0"),
    "arrays": (S[J, [0, 1, 2]], pd.ShapeError, "do not broadcast"),
    "bool": (True, TypeError, "a bool is no index"),
}


@pytest.mark.parametrize("key, error, message", ERRORS.values(), ids=ERRORS)
def test_errors_of_keys(key, error, message):
    v = pd.Variable([3, 4, 2])
    with pytest.raises(error, match=message):
        v[key]
    with pytest.raises(error, match=message):
        pd.index_update(v, key, 0.0)


def test_unknown_sizes_are_checked_when_they_are_known(x):
    v = pd.Variable([None, 4, 2])
    y = v[5]
    with pytest.raises((pd.GraphError, pd.BackendError, IndexError)):
        pd.eval(y, feeds={v: x})


def test_length_and_iteration(x):
    v = pd.Variable([3, 4, 2])
    assert len(v) == 3
    rows = list(v)
    a, b, c = v
    for value, want in zip(pd.eval([*rows, a, b, c], feeds={v: x}), [*x, *x], strict=True):
        np.testing.assert_array_equal(value, want)
    open_ = pd.Variable([None, 4])
    for use in (len, list, tuple, np.stack):
        with pytest.raises(TypeError, match=open_.name):
            use(open_)
    with pytest.raises(TypeError, match="is a scalar and has no rows"):
        list(pd.Variable([]))


def test_rows_are_not_taken_for_a_list_of_variables():
    v = pd.Variable([3, 4, 2])
    with pytest.raises(TypeError, match="gradients: takes a list of Variables, not var-0"):
        pd.gradients(pd.reduce_sum(v), v)


def test_assignment_names_the_function():
    v = pd.Variable([3, 4, 2])
    with pytest.raises(TypeError, match=r"in place\n  hint: index_update"):
        v[0] = 1.0


def test_indexing_of_values_at_hand(x):
    with pd.guard():
        v = pd.to_variable(x)
        for key in KEYS[::4]:
            np.testing.assert_array_equal(v[key].numpy(), x[key], err_msg=name(key))
        np.testing.assert_array_equal(v[v > 0.0].numpy(), x[x > 0])
        n = pd.to_variable(np.int64(2))
        np.testing.assert_array_equal(v[n, :n].numpy(), x[2, :2])
        np.testing.assert_array_equal(pd.index_add(v, [0, 0], 1.0).numpy()[0], x[0] + 2)
        for k in range(3):  # the recorded line is used again
            np.testing.assert_array_equal(v[k, 1:].numpy(), x[k, 1:])
