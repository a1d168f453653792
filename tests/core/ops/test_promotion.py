"""Types of results: numbers and arrays beside Variables, on either side, and what is refused."""

import numpy as np
import pytest

import pd_core as pd

# dtype of a Variable, number or array beside it, dtype of + - * and of /
MEETINGS = [
    ("int64", 2, "int64", "float32"),
    ("int64", 0.5, "float32", "float32"),
    ("int64", 2.0, "float32", "float32"),
    ("int64", True, "int64", "float32"),
    ("int64", np.float64(0.5), "float32", "float32"),
    ("int64", np.float16(0.5), "float16", "float16"),
    ("int64", np.array([0.5, 2.0]), "float32", "float32"),
    ("int32", np.int64(7), "int32", "float32"),
    ("int32", np.array([1, 2]), "int32", "float32"),
    ("int8", 0.5, "float32", "float32"),
    ("int16", [1, 2], "int16", "float32"),
    ("uint8", 255, "uint8", "float32"),
    ("uint64", 2**64 - 1, "uint64", "float32"),
    ("float16", 0.1, "float16", "float16"),
    ("float16", 3, "float16", "float16"),
    ("float16", np.float64(0.1), "float16", "float16"),
    ("float16", np.array([1, 2]), "float16", "float16"),
    ("float32", np.array([0.1, 0.2]), "float32", "float32"),
    ("float32", True, "float32", "float32"),
    ("float64", 0.1, "float64", "float64"),
    ("float64", np.array([0.1, 0.2]), "float64", "float64"),
    ("bool", 2, "int64", "float32"),
    ("bool", np.int32(2), "int32", "float32"),
    ("bool", 0.5, "float32", "float32"),
]
OPERATORS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "max": lambda a, b: np.maximum(a, b) if isinstance(a, np.ndarray) else pd.maximum(a, b),
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
}


def number(value, dtype):
    """What a weak operand is as an array of this type."""
    return np.asarray(value).astype(dtype)


@pytest.mark.parametrize("at_hand", [False, True], ids=["graph", "guard"])
@pytest.mark.parametrize("dtype, value, result, quotient", MEETINGS, ids=str)
def test_type_of_the_result(dtype, value, result, quotient, at_hand):
    a = np.array([1, 0] if dtype == "bool" else [7, 100], dtype)
    compared = "float64" if np.dtype(dtype).kind != "f" and result[0] == "f" else result
    types = {"/": quotient, "<": compared, ">=": compared}
    with np.errstate(all="ignore"):
        want = {}
        for name, f in OPERATORS.items():
            t = types.get(name, result)
            x, y = a.astype(t), number(value, t)
            want[name] = f(x, y), f(y if y.ndim else np.full(2, y), x)
    if at_hand:
        with pd.guard():
            x = pd.cast(pd.to_variable(a), dtype)  # of float64, it makes float32
            got = {k: (f(x, value).numpy(), f(value, x).numpy()) for k, f in _ours()}
    else:
        x = pd.Variable([None], dtype=dtype)
        pairs = {k: (f(x, value), f(value, x)) for k, f in _ours()}
        found = iter(pd.eval([y for pair in pairs.values() for y in pair], {x: a}))
        got = {k: (next(found), next(found)) for k in pairs}
    for name, both in want.items():
        for w, g in zip(both, got[name], strict=True):
            assert g.dtype == w.dtype, name
            np.testing.assert_allclose(np.float64(g), np.float64(w), rtol=1e-3, err_msg=name)


def _ours():
    names = {"max": pd.maximum, "<": pd.less_than, ">=": pd.greater_equal}
    return [(k, names.get(k, f)) for k, f in OPERATORS.items()]


def test_powers():
    i, f = pd.Variable([None], dtype="int64"), pd.Variable([None])
    results = [i**0.5, f**2, f**i, 2**i, 0.5**i, 2**f, i**2.0]
    assert [y.dtype.name for y in results] == ["float32"] * 3 + ["int64"] + ["float32"] * 3
    found = pd.eval(results, {i: [4, 9], f: [0.5, -3.0]})
    want = (
        [2, 3],
        [0.25, 9],
        [0.0625, -19683],
        [16, 512],
        [0.0625, 1 / 512],
        [2**0.5, 0.125],
        [16, 81],
    )
    for y, w in zip(found, want, strict=True):
        np.testing.assert_allclose(y, w, rtol=1e-6)


def test_where_clip_and_comparisons():
    i = pd.Variable([None], dtype="int64")
    a = np.array([-3, 0, 1, 2**53 + 1])
    results = {
        "where": (pd.where(i > 0, i, 0.5), np.float32([0.5, 0.5, 1, 2**53])),
        "clip": (pd.clip(i, -0.5, 1.5), np.float32([-0.5, 0, 1, 1.5])),
        "> 0.5": (i > 0.5, a > 0.5),
        "<= 0.5": (pd.greater_equal(0.5, i), a <= 0.5),
        "== 1.0": (pd.equal(i, 1.0), a == 1.0),
        "of an array": (pd.equal(i, np.array([-3.0, 0.5, 1.0, 0.0])), [True, False, True, False]),
        "of integers": (i > 2**53, a > 2**53),
        "large": (pd.equal(i, 2.0**24 + 1), a == 2**24 + 1),
    }
    found = pd.eval([y for y, _ in results.values()], {i: a})
    for (name, (_, want)), got in zip(results.items(), found, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=name)
        assert got.dtype == np.asarray(want).dtype, name
    assert pd.eval(pd.equal(i, 2.0**24 + 1), {i: [2**24 + 1, 2**24]}).tolist() == [True, False]


def test_numbers_and_arrays_alone():
    for opened in (False, True):
        with pd.guard() if opened else pd.fresh():
            results = [
                pd.add([1, 2], 0.5),
                pd.mul(np.array([1, 2]), np.array([0.5, 0.5])),
                pd.div(np.array([7]), 2),
                pd.add(np.array([1], "int32"), 2),
                pd.add(np.array([1], "int32"), np.array([2])),
                pd.floor_div(7, np.array([2])),
            ]
            values = [y.numpy() for y in results] if opened else pd.eval(results)
        assert [y.dtype.name for y in values] == ["float32"] * 3 + ["int32", "int64", "int64"]
        assert [y.tolist() for y in values] == [[1.5, 2.5], [0.5, 1.0], [3.5], [3], [3], [3]]


def variable(dtype):
    return pd.Variable([3], dtype=dtype, name=f"a {dtype}")


REFUSED = [
    (
        lambda: variable("int8") + 300,
        r"add: cannot take int64 values where int8 is needed, 300\n"
        r"  hint: cast\(\) the int8 beside it to int64",
    ),
    (
        lambda: variable("uint8") - np.int32(-1),
        r"sub: cannot take int32 values where uint8 is needed, .*-1.*\n"
        r"  hint: cast\(\) the uint8 beside it to int32",
    ),
    (
        lambda: variable("int64") + variable("float32"),
        r"(?s)add: element types differ, int64 and float32\n.*hint: cast\(\) the int64 to float32",
    ),
    (
        lambda: variable("int32") * variable("int64"),
        r"(?s)mul: element types differ, int32 and int64\n.*hint: cast\(\) the int32 to int64",
    ),
    (
        lambda: variable("bool") + variable("int8"),
        r"(?s)add: element types differ, bool and int8\n.*hint: cast\(\) the bool to int8",
    ),
    (
        lambda: variable("uint64") // variable("int64"),
        r"(?s)floor_div: element types differ, uint64 and int64\n.*hint: cast\(\) one of them",
    ),
    (
        lambda: variable("float32") @ variable("int64"),
        r"(?s)matmul: element types differ, .*hint: cast\(\) the int64 to float32",
    ),
    (
        lambda: variable("int64") ** -1,
        r"pow: int64\[3\] to the power of -1 is no int64\n  hint: cast\(\) the int64 to float32",
    ),
    (
        lambda: variable("int64") ** variable("float32"),
        r"pow: int64\[3\] to the power of float32\[3\] is no int64\n"
        r"  hint: cast\(\) the int64 to float32",
    ),
    (lambda: ~variable("float32"), "bitwise_not: X cannot be float32"),
    (lambda: variable("int64") + "1", "add: takes Variables, .*, not the string '1'"),
]


@pytest.mark.parametrize("use, message", REFUSED, ids=range(len(REFUSED)))
def test_refusal(use, message):
    with pytest.raises(pd.DTypeError, match=message):
        use()
