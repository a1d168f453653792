"""NumPy's functions of Variables: its numbers, gradients, and errors of static graphs."""

import copy
import inspect

import numpy as np
import pytest

import pd_core as pd
from pd_core.ops.numpy_functions import REDUCTIONS, UFUNCS

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 4)).astype(np.float32)
B = RNG.uniform(0.5, 2.0, (3, 4)).astype(np.float32)
V = np.arange(1, 5, dtype=np.float32)
# what writes files or into its arguments, reads text, or asks for the memory of an array
LEFT_OUT = {
    *("choose", "copyto", "empty_like", "fill_diagonal", "from_dlpack", "frombuffer", "fromfile"),
    *("fromregex", "genfromtxt", "isfortran", "load", "loadtxt", "place", "put"),
    *("put_along_axis", "putmask", "save", "savetxt", "savez", "savez_compressed"),
}
NAMES = [
    name
    for name in dir(np)
    if isinstance(getattr(np, name), np.ufunc) or hasattr(getattr(np, name), "_implementation")
    if name not in LEFT_OUT
]
ARGUMENTS = [(A,), (V,), (A, B), (A, V), (B, 1), ([A, B],), (A > 0, A, B)]


def mapped(value, function):
    """Arguments with a function of each array."""
    if isinstance(value, (list, tuple)):
        return type(value)([mapped(part, function) for part in value])
    return function(value) if isinstance(value, np.ndarray) else value


def numbers(value):
    """What a function gave, as arrays in lists."""
    if isinstance(value, (list, tuple)):
        return [numbers(part) for part in value]
    return np.asarray(value)


def same(a, b):
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if a.dtype.kind in "USO":
        return a.tolist() == b.tolist()
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_all_functions_give_numpys_numbers():
    """Whatever NumPy takes: one of them, two, one beside an array, lists."""
    wrong, tried = [], 0
    with pd.guard(), np.errstate(all="ignore"):
        for name in NAMES:
            for k, arrays in enumerate(ARGUMENTS):
                function = getattr(np, name)
                try:
                    expected = function(*mapped(arrays, np.copy))
                except Exception:
                    continue
                tried += 1
                try:
                    found = numbers(function(*mapped(arrays, pd.to_variable)))
                except Exception as error:
                    wrong.append((name, k, error))
                    continue
                if not same(found, numbers(expected)):
                    wrong.append((name, k))
    assert not wrong and tried > 500


def test_operators_beside_arrays_are_ours():
    with pd.guard():
        v = pd.to_variable(A)
        for found in (B * v, np.float64(2) * v, B @ v.T, v > B, np.exp(v), np.maximum(B, v)):
            assert isinstance(found, pd.Variable)
        total = B.copy()
        before = total
        total += v
        assert isinstance(total, pd.Variable) and np.array_equal(before, B)
        out = np.zeros_like(A)
        assert np.sqrt(pd.to_variable(B), out=out) is out and np.array_equal(out, np.sqrt(B))


@pytest.mark.parametrize("name", ["exp", "tanh", "sqrt", "mean", "std", "var", "max"])
def test_ops_are_differentiated(name):
    torch = pytest.importorskip("torch")
    x = torch.tensor(B, requires_grad=True)
    options = {"correction": 0} if name in ("std", "var") else {}
    getattr(torch, name)(x, **options).sum().backward()
    with pd.guard():
        v = pd.to_variable(B)
        v.stop_gradient = False
        np.sum(getattr(np, name)(v)).backward()
        np.testing.assert_allclose(v.gradient(), x.grad, rtol=1e-5, atol=1e-6)


def test_static_graphs():
    """Ops are ops, other functions errors that name ours, and none takes a slot for unequal."""
    x = pd.Variable([None, 4], name="x")
    targets = [np.exp(x), np.mean(x, axis=1), np.std(x, axis=(0, 1), ddof=1), np.sum(x, keepdims=1)]
    found = pd.eval(targets, {x: A})
    expected = [np.exp(A), A.mean(1), A.std(ddof=1), A.sum(keepdims=True)]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    for call, here in (
        (lambda: np.array_equal(x, x), r"pd\.reduce_all\(pd\.equal\(x, y\)\)"),
        (lambda: np.concatenate([x, x]), r"pd\.concat"),
        (lambda: np.hypot(x, x), r"pd\.sqrt\(x \* x \+ y \* y\)"),
        (lambda: np.tril(x), r"pd\.tril"),
        (lambda: np.sum(x, dtype="float64"), "pd.reduce_sum"),
        (lambda: np.add.reduce(x), "evaluate it before"),
        (lambda: np.spacing(x), r"evaluate it before"),
    ):
        with pytest.raises(pd.DTypeError, match=rf"^np\.[\w.]+: x: .*no values while.*\n.*{here}"):
            call()
    assert np.shape(x) == (None, 4) and np.ndim(x) == 2


def test_tables_name_functions_of_numpy():
    assert all(isinstance(getattr(np, name), np.ufunc) for name in UFUNCS)
    assert all("axis" in inspect.signature(getattr(np, name)).parameters for name in REDUCTIONS)


def test_dlpack_and_copies():
    """Of what matplotlib and other libraries do with arrays."""
    with pd.guard():
        v = pd.to_variable(A) * 2
        np.testing.assert_array_equal(np.from_dlpack(v), A * 2)
        assert copy.copy(v) is v
        with pytest.raises(TypeError, match="is a scalar, which has no length"):
            len(pd.reduce_sum(v))
        torch = pytest.importorskip("torch")
        for make in (torch.from_dlpack, torch.as_tensor, torch.tensor):
            np.testing.assert_array_equal(make(v), A * 2)
    with pytest.raises(TypeError, match="neither copied nor pickled"):
        copy.copy(pd.Variable("w", data=A))
    with pytest.raises(pd.NotComputed):
        np.from_dlpack(pd.Variable([None]) + 1)
