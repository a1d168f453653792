"""Arithmetic of integers beside NumPy's: every type, its extremes, both sides; exact, wrapping.

Each test is one program, for all operators of a type.
"""

import numpy as np
import pytest

import pd_core as pd
from tests.thinned import in_turn

TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = pytest.mark.parametrize("dtype", TYPES)
NUMBERS = [0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**31 + 1, 2**53 - 1, 2**53, 2**53 + 1]

# NumPy's, of overflow and of x // 0
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def extremes(dtype):
    """Numbers where rounding, saturation or a sign shows, as far as the type has them."""
    info = np.iinfo(dtype)
    ends = [info.min, info.min + 1, info.max // 2, info.max - 1, info.max]
    found = {n for k in NUMBERS for n in (k, -k) if info.min <= n <= info.max}
    return np.array(sorted(found.union(ends)), dtype)


def of_all_sizes(rng, dtype, *shape):
    """Random numbers of all magnitudes, with extremes among them."""
    info = np.iinfo(dtype)
    numbers = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    numbers >>= rng.integers(0, info.bits, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.3, rng.choice(extremes(dtype), shape), numbers)


def check(results, feeds, device="cpu"):
    """Check {label: (Variable, wanted)} in one program: dtypes, shapes and every number."""
    found = pd.Session(device).eval([y for y, _ in results.values()], feeds)
    for (label, (y, want)), got in zip(results.items(), found, strict=True):
        want = np.asarray(want)
        assert (got.dtype, y.dtype) == (want.dtype, want.dtype), label
        assert got.shape == want.shape, label
        np.testing.assert_array_equal(got, want, err_msg=str(label))


OPERATORS = {
    "+": (lambda a, b: a + b, np.add),
    "-": (lambda a, b: a - b, np.subtract),
    "*": (lambda a, b: a * b, np.multiply),
    "//": (lambda a, b: a // b, np.floor_divide),
    "%": (lambda a, b: a % b, np.mod),
    "<": (lambda a, b: a < b, np.less),
    "<=": (lambda a, b: a <= b, np.less_equal),
    ">": (lambda a, b: a > b, np.greater),
    ">=": (lambda a, b: a >= b, np.greater_equal),
    "&": (lambda a, b: a & b, np.bitwise_and),
    "|": (lambda a, b: a | b, np.bitwise_or),
    "^": (lambda a, b: a ^ b, np.bitwise_xor),
    "==": (pd.equal, np.equal),
    "fmod": (pd.fmod, np.fmod),
    "max": (pd.maximum, np.maximum),
    "min": (pd.minimum, np.minimum),
    "where": (lambda a, b: pd.where(pd.greater_than(a, b), a, b), np.maximum),
    "/": (lambda a, b: a / b, lambda a, b: np.float32(a) / np.float32(b)),
}


@DTYPES
def test_operators_of_two_variables(dtype, device):
    a, b = (v.ravel() for v in np.meshgrid(extremes(dtype), extremes(dtype)))
    x, y = (pd.Variable([None], dtype=dtype) for _ in range(2))
    results = {k: (ours(x, y), numpys(a, b)) for k, (ours, numpys) in OPERATORS.items()}
    check(results, {x: a, y: b}, device)


@DTYPES
def test_operators_of_a_variable_and_a_number(dtype):
    a, x = extremes(dtype), pd.Variable([None], dtype=dtype)
    numbers = {-1, 0, 1, 7, int(a[0]), int(a[0]) + 1, int(a[-1])}
    results = {}
    for n in numbers.intersection(a.tolist()):
        k = np.asarray(n, dtype)
        for label, (ours, numpys) in OPERATORS.items():
            results[label, n] = ours(x, n), numpys(a, k)
            results[n, label] = ours(n, x), numpys(k, a)
    for label, ours, numpys in zip("/%", divmod(7, x), divmod(a * 0 + 7, a), strict=True):
        results["divmod", label] = ours, numpys
    check(results, {x: a})


@DTYPES
def test_operators_of_one_variable(dtype, device):
    a, x = extremes(dtype), pd.Variable([None], dtype=dtype)
    low, high = int(a[2]), int(a[-3])
    results = {
        "neg": (-x, -a),
        "abs": (abs(x), abs(a)),
        "sign": (pd.sign(x), np.sign(a)),
        "not": (~x, ~a),
        "square": (pd.square(x), a * a),
        "clip": (pd.clip(x, low, high), a.clip(low, high)),
        "from below": (pd.clip(x, low), a.clip(low)),
        "from above": (pd.clip(x, high=high), a.clip(None, high)),
        "float32": (pd.cast(x, "float32"), a.astype("float32")),
    }
    if np.dtype(dtype).kind == "i":
        results["relu"] = pd.relu(x), a.clip(0)
    results |= {t: (pd.cast(x, t), a.astype(t)) for t in TYPES}
    check(results, {x: a}, device)


@DTYPES
def test_powers(dtype, device):
    a = extremes(dtype)
    bases, powers = (v.ravel() for v in np.meshgrid(a, a[a >= 0]))
    x, y = (pd.Variable([None], dtype=dtype) for _ in range(2))
    results = {"variables": (x**y, bases**powers), "of two": (2**y, np.asarray(2, dtype) ** powers)}
    fixed = [n for n in (0, 1, 2, 3, 34, 63, 64) if n <= np.iinfo(dtype).max]
    results |= {n: (x**n, bases ** np.asarray(n, dtype)) for n in fixed}
    check(results, {x: bases, y: powers}, device)


def test_powers_below_zero_of_integers_that_are_fed():
    """As PyTorch has them: the reciprocal, rounded toward zero."""
    x, y = (pd.Variable([None], dtype="int64") for _ in range(2))
    a, b = [1, 1, -1, -1, 2, -3, 0], [-1, -2, -1, -2, -1, -3, -1]
    assert pd.eval(x**y, {x: a, y: b}).tolist() == [1, 1, -1, 1, 0, 0, 0]


AXES = [None, 0, 1, 2, (0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize(
    "dtype, dims", in_turn(TYPES, [[4, 7, 5], [None, 7, 5], [None] * 3]), ids=str
)
def test_reductions(dtype, dims, rng):
    a, x = of_all_sizes(rng, dtype, 4, 7, 5), pd.Variable(dims, dtype=dtype)
    total = dtype if a.itemsize > 2 else "int64"
    results = {}
    for axis in AXES:
        for keep in (False, True):
            options = {"axis": axis, "keepdims": keep}
            for name in ("max", "min"):
                y = getattr(pd, f"reduce_{name}")(x, axis, keep)
                results[name, axis, keep] = y, getattr(np, name)(a, **options)
            for name in ("sum", "prod"):
                y = getattr(pd, f"reduce_{name}")(x, axis, keep)
                results[name, axis, keep] = y, getattr(np, name)(a, dtype=total, **options)
    check(results, {x: a})


@DTYPES
def test_sums_and_orders_along_an_axis(dtype, rng, device):
    a, x = of_all_sizes(rng, dtype, 9, 7), pd.Variable([None, 7], dtype=dtype)
    total = dtype if a.itemsize > 2 else "int64"
    results = {"unique": (pd.unique(x)[0], np.unique(a))}
    for axis in (0, 1):
        results |= {
            (axis, "cumsum"): (pd.cum_sum(x, axis), a.cumsum(axis, dtype=total)),
            (axis, "cumprod"): (pd.cum_prod(x, axis), a.cumprod(axis, dtype=total)),
            (axis, "argmax"): (pd.arg_max(x, axis), a.argmax(axis)),
            (axis, "argmin"): (pd.arg_min(x, axis), a.argmin(axis)),
            (axis, "sort"): (pd.sort(x, axis), np.sort(a, axis)),
            (axis, "top"): (pd.top_k(x, 2, axis)[0], np.flip(np.sort(a, axis), axis)[:2, :])
            if axis == 0
            else (pd.top_k(x, 2, axis)[0], np.flip(np.sort(a, axis), axis)[:, :2]),
            (axis, "nonzero"): (pd.count_nonzero(x, axis), np.count_nonzero(a, axis)),
        }
    check(results, {x: a}, device)


EQUATIONS = ["ij,kj->ik", "ij,kl->ik", "ij->j", "ij,kj->", "...j,kj->...k", "ij,jl"]


@DTYPES
def test_products_of_matrices(dtype, rng):
    a, b = of_all_sizes(rng, dtype, 9, 7), of_all_sizes(rng, dtype, 7, 7)
    x, y = pd.Variable([None, 7], dtype=dtype), pd.Variable([7, 7], dtype=dtype)
    results = {"matmul": (x @ y, a @ b), "constant": (x @ b, a @ b), "row": (b[0] @ y, b[0] @ b)}
    for text in EQUATIONS:
        count = text.count(",") + 1
        results[text] = pd.einsum(text, *[x, y][:count]), np.einsum(text, *[a, b][:count])
    for text in ("ii->i", "ii", "ij,kk->ij", "ii,jj->"):
        count = text.count(",") + 1
        results[text] = pd.einsum(text, *[y, y][:count]), np.einsum(text, *[b, b][:count])
    check(results, {x: a, y: b})


@DTYPES
def test_moved_elements(dtype, rng):
    a, x = of_all_sizes(rng, dtype, 6, 4), pd.Variable([None, 4], dtype=dtype)
    index = np.array([3, 0, 5])
    pads = [(1, 0), (0, 2)]
    results = {
        "gather": (pd.gather(x, index), a[index]),
        "slice": (x[4::-2, 1:], a[4::-2, 1:]),
        "mask": (x[x > 3], a[a > 3]),
        "update": (pd.index_update(x, 0, 5), np.vstack([a[:1] * 0 + 5, a[1:]])),
        "add": (pd.index_add(x, [1, 1], 7), np.vstack([a[:1], a[1:2] + 7 + 7, a[2:]])),
        "pad": (pd.pad(x, [1, 0], [0, 2], 3), np.pad(a, pads, constant_values=3)),
        "tril": (pd.tril(x), np.tril(a)),
        "nonzero": (pd.nonzero(x), np.array(np.nonzero(a))),
        "flip": (pd.flip(x, 0), a[::-1]),
        "concat": (pd.concat([x, x], 1), np.hstack([a, a])),
        "where": (pd.where(x > 3, x, 9), np.where(a > 3, a, np.asarray(9, dtype))),
        "masks": (pd.where(x > 3, x > 5, x < 2), np.where(a > 3, a > 5, a < 2)),
    }
    check(results, {x: a})


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (1 << 16, 3), (3, 1 << 16)], ids=str)
def test_sums_of_any_size(dtype, shape, rng):
    a = of_all_sizes(rng, dtype, *shape)
    x, total = pd.Variable([None, None], dtype=dtype), dtype if a.itemsize > 2 else "int64"
    results = {}
    for axis in (None, 0, 1):
        results["sum", axis] = pd.reduce_sum(x, axis), a.sum(axis, dtype=total)
        results["prod", axis] = pd.reduce_prod(x, axis), a.prod(axis, dtype=total)
    check(results, {x: a})


def test_what_was_lost():
    """Sums, products, powers and orders that were wrong by float64 or by 32 bits."""
    n, t, i, m = 2**53 + 1, 2**31, pd.constant(np.int64(3)), pd.constant(np.int32(2**31 - 1))
    whole = {
        n: pd.reduce_sum(pd.constant(np.array([n, 0]))),
        3**34: i**34,
        3**35: pd.reduce_prod(pd.constant(np.array([3] * 35))),
        -t: pd.reduce_sum(pd.constant(np.array([m.value, 1], "int32"))),
        t: pd.maximum(pd.constant(np.int64(t)), 0),
        t + 1: pd.reduce_max(pd.constant(np.array([t + 1, 0, 0, 0]))),
        1: pd.sign(pd.constant(np.int64(t))),
    }
    assert [int(v) for v in pd.eval(list(whole.values()))] == list(whole)
    a, b = pd.constant(np.int64(n)), pd.constant(np.int64(n - 1))
    assert pd.eval([pd.equal(a, b), a > b, a <= b]) == [False, True, False]


@DTYPES
def test_sums_and_means_of_sequences(dtype, rng):
    """Of packed ones, some without steps, and of none at all."""
    total = dtype if np.dtype(dtype).itemsize > 2 else "int64"
    for lengths in ([3, 0, 1, 5], [0, 0]):
        a, n = of_all_sizes(rng, dtype, sum(lengths), 2), np.array(lengths)
        x = pd.Variable([None, 2], dtype=dtype)
        segments = pd.Segments(n)
        rows = np.split(a, np.cumsum(n)[:-1])
        means = [r.astype("float32").sum(0) / np.float32(max(1, len(r))) for r in rows]
        check({"sum": (segments.sum(x), [r.sum(0, dtype=total) for r in rows])}, {x: a})
        mean = pd.eval(segments.mean(x), {x: a})
        assert mean.dtype == np.float32
        scale = np.abs(a.astype("float64")).max(initial=1.0)
        np.testing.assert_allclose(mean, means, rtol=1e-5, atol=1e-6 * scale)


def test_means_are_floats():
    i, b = pd.Variable([None, 2], dtype="int64"), pd.Variable([None], dtype="bool")
    means = pd.reduce_mean(i), i.mean(1), pd.reduce_mean(b)
    assert {y.dtype.name for y in means} == {"float32"}
    whole, rows, share = pd.eval(list(means), {i: [[1, 2], [4, 4]], b: [True, False]})
    assert (whole, rows.tolist(), share) == (2.75, [1.5, 4.0], 0.5)


def test_bools():
    x = pd.Variable([None], dtype="bool")
    a = np.array([True, False, True])
    results = {
        "count": (x.sum(), np.int64(2)),
        "so far": (x.cumsum(), a.cumsum()),
        "argmax": (pd.arg_max(~x), np.int64(1)),
        "any": (pd.reduce_max(x), True),
        "below": (x < True, a < True),
        "+": (x + 1, a + 1),
        "share": (x / 2, np.float32(a) / np.float32(2)),
        "half": (x * 0.5, np.float32(a * 0.5)),
    }
    check(results, {x: a})


def test_in_loops():
    """The bodies of loops and branches are rewritten, too."""
    x = pd.Variable([None], dtype="int64")
    low = np.iinfo("int64").min
    steps = pd.scan(lambda s, v: (s + v // -1, pd.maximum(v, s) % -1), 0 * x[0], x)
    total = pd.while_loop(lambda n, s: n > 0, lambda n, s: (n - 1, s + pd.reduce_sum(x)), [3, 0])
    chosen = pd.cond(x[0] < 0, lambda: x // (x * 0), lambda: x)
    a = np.array([low, 2**53 + 1, 5])
    check(
        {
            "state": (steps[0], (-a).sum()),
            "steps": (steps[1], [0, 0, 0]),
            "total": (total[1], 3 * a.sum()),
            "chosen": (chosen, [0, 0, 0]),
        },
        {x: a},
    )


def test_floats_are_divided_as_numpy_has_it(device):
    """// and % of floats: not the rounded quotient, which may be the next number."""
    numbers = [0.0, 1.0, -1.0, 0.1, -0.1, 0.3, 7.0, -7.5, 1e30, -3e38, np.inf, -np.inf, np.nan]
    a, b = (v.ravel() for v in np.meshgrid(np.float32(numbers), np.float32(numbers)))
    x, y = pd.Variable([None]), pd.Variable([None])
    check({"//": (x // y, a // b), "%": (x % y, a % b), "fmod": (pd.fmod(x, y), np.fmod(a, b))},
          {x: a, y: b}, device)  # fmt: skip


def test_same_as_pytorch():
    torch = pytest.importorskip("torch")
    a, b = np.array([7, -7, 2**53 + 1, 0]), np.array([2, 2, 3, 5])
    p, q = torch.tensor(a), torch.tensor(b)
    x, y = pd.Variable([None], dtype="int64"), pd.Variable([None], dtype="int64")
    mask, flags = x > 0, p > 0
    results = {
        "/": (x / y, p / q),
        "// 2.0": (x // 2.0, p // 2.0),
        "* 0.5": (x * 0.5, p * 0.5),
        "** 2": (x**2, p**2),
        "% -3": (x % -3, p % -3),
        "sum": (x.sum(), p.sum()),
        "bytes": (pd.cast(x, "int8").sum(), p.to(torch.int8).sum()),
        "mask": (mask.sum(), flags.sum()),
        "cumsum": (mask.cumsum(), flags.cumsum(0)),
        "mask + 1": (mask + 1, flags + 1),
        "mask * 0.5": (mask * 0.5, flags * 0.5),
        "clip": (pd.clip(x, 0.5), p.clamp(0.5)),
    }
    check({k: (ours, theirs.numpy()) for k, (ours, theirs) in results.items()}, {x: a, y: b})
