"""Operators and methods of Variables, beside the ops of the same meaning and NumPy."""

import inspect
import typing

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.method import Method, provided

OPS = {
    name: method
    for kind in pd.Variable.__mro__
    for name, method in vars(kind).items()
    if isinstance(method, Method)
}
F = np.array([[0.5, -2.5, 3.0], [1.5, 0.25, -1.0]], "float32")
G = np.array([7, -8, 9], "int64")
B = np.array([True, False, True])

# of floats f [2, 3], integers i [3] and bools b [3]; both sides are Variables, or both are arrays
OPERATORS = [
    *(lambda f, i, b: f % 2, lambda f, i, b: 7 % i, lambda f, i, b: i % 4, lambda f, i, b: i % -4),
    *(lambda f, i, b: f // 0.5, lambda f, i, b: -9 // i, lambda f, i, b: i // 2),
    *(lambda f, i, b: divmod(i, 4)[0], lambda f, i, b: divmod(f, 2)[1], lambda f, i, b: abs(f)),
    *(lambda f, i, b: ~b, lambda f, i, b: b & False, lambda f, i, b: True | b),
    *(lambda f, i, b: b ^ (i > 0), lambda f, i, b: (i > 0) & (i < 8)),
    *(lambda f, i, b: ~i, lambda f, i, b: i & 3, lambda f, i, b: 6 | i, lambda f, i, b: i ^ i),
    *(lambda f, i, b: f.T, lambda f, i, b: f[None, ..., None].T, lambda f, i, b: f @ f.T),
    *(lambda f, i, b: f.reshape(3, 2), lambda f, i, b: f.reshape((3, -1))),
    *(lambda f, i, b: f.reshape(-1), lambda f, i, b: f.transpose(), lambda f, i, b: f.squeeze()),
    *(lambda f, i, b: f.transpose(1, 0), lambda f, i, b: f.transpose([0, 1])),
    *(lambda f, i, b: f.sum(), lambda f, i, b: f.mean(0), lambda f, i, b: f.max(axis=-1)),
    *(lambda f, i, b: f.min(axis=0), lambda f, i, b: f.prod(1), lambda f, i, b: i.sum()),
    *(lambda f, i, b: b.any(), lambda f, i, b: b.all(), lambda f, i, b: i.astype("float32")),
    *(lambda f, i, b: f.argmax(axis=1), lambda f, i, b: f.argmin(axis=0)),
    *(lambda f, i, b: f.cumsum(axis=1), lambda f, i, b: f.cumprod(axis=1)),
    *(lambda f, i, b: i.repeat(2), lambda f, i, b: f.mean(axis=(0, 1))),
]
# of floats, what NumPy's arrays lack
METHODS = {
    "round": (lambda f: round(f), np.rint),
    "digits": (lambda f: round(f, 1), lambda f: np.round(f, 1)),
    "mT": (lambda f: f[None].mT, lambda f: f.T[None]),
    "std": (lambda f: f.std(0), lambda f: f.std(0, ddof=1)),
    "var": (lambda f: f.var(correction=0), np.var),
    "norm": (lambda f: f.norm(), np.linalg.norm),
    "logsumexp": (lambda f: f.logsumexp(0), lambda f: np.logaddexp(*f)),
    "sort": (lambda f: f.sort(0), lambda f: np.sort(f, 0)),
    "argsort": (lambda f: f.argsort(descending=True), lambda f: np.argsort(-f)),
    "topk": (lambda f: f.topk(1)[0], lambda f: f.max(-1, keepdims=True)),
    "flatten": (lambda f: f[None].flatten(), lambda f: f.reshape(1, 6)),
    "unsqueeze": (lambda f: f.unsqueeze(1), lambda f: f[:, None]),
    "expand": (lambda f: f.expand([2, 2, 3]), lambda f: np.stack([f, f])),
    "tile": (lambda f: f.tile([1, 2]), lambda f: np.hstack([f, f])),
    "flip": (lambda f: f.flip(1), lambda f: f[:, ::-1]),
    "math": (lambda f: f.exp().log() + f.abs().sqrt() * f.square(), lambda f: f + abs(f) ** 2.5),
    "pow": (lambda f: f.pow(2).matmul(f.mT), lambda f: f**2 @ f.T),
    "waves": (lambda f: f.sin() + f.cos(), lambda f: np.sin(f) + np.cos(f)),
    "tanh": (lambda f: f.tanh() - 2 * (2 * f).sigmoid(), lambda f: -np.ones_like(f)),
    "relu": (lambda f: f.relu() + f.sign() * f.floor(), lambda f: np.maximum(f, 0) + _signed(f)),
    "softmax": (lambda f: f.softmax() - f.log_softmax().exp(), np.zeros_like),
}


def _signed(f):
    return np.sign(f) * np.floor(f)


@pytest.mark.parametrize("known", [True, False], ids=["static", "batch"])
def test_operators_and_methods_are_those_of_numpy(known):
    f = pd.Variable([2 if known else None, 3])
    i, b = pd.Variable([3], dtype="int64"), pd.Variable([3], dtype="bool")
    assert f.ndim == 2
    results = [use(f, i, b) for use in OPERATORS] + [use(f) for use, _ in METHODS.values()]
    wanted = [use(F, G, B) for use in OPERATORS] + [use(F) for _, use in METHODS.values()]
    values = pd.eval(results, feeds={f: F, i: G, b: B})
    names = [*range(len(OPERATORS)), *METHODS]
    for label, value, want in zip(names, values, wanted, strict=True):
        assert value.shape == np.shape(want), label
        np.testing.assert_allclose(value, want, rtol=1e-5, atol=1e-6, err_msg=str(label))


def test_methods_of_values_at_hand():
    with pd.guard():
        f, b = pd.to_variable(F), pd.to_variable(B)
        assert float(f.sum()) == F.sum()
        assert (~b).numpy().tolist() == [False, True, False]
        assert (f // 2).numpy().tolist() == (F // 2).tolist()


def test_methods_have_a_docstring():
    assert pd.Variable.sum.__doc__ == "Call `pd.reduce_sum` with it as the first argument."
    f = pd.Variable([2, 3])
    for name, method in OPS.items():
        assert hasattr(pd, method.op), name
        assert callable(getattr(f, name)), name


@pytest.mark.parametrize("name", OPS)
def test_type_checkers_see_the_signature_of_the_op(name):
    """That of the protocol behind a method, which is written out, and of the function."""
    (protocol,) = typing.get_args(OPS[name].__orig_class__)
    told, function = (inspect.signature(f) for f in (protocol.__call__, provided[OPS[name].op]))
    parameters = [
        [(p.name, p.kind, p.default) for p in s.parameters.values()] for s in (told, function)
    ]
    if name in ("max", "min", "repeat"):  # whose axis has a name
        parameters = [{own: default for own, _, default in p[1:]} for p in parameters]
        assert parameters[0] == parameters[1]
        return
    assert parameters[0][1:] == parameters[1][1:]
    kinds = {"Variable": pd.Variable, "tuple[Variable, Variable]": tuple[pd.Variable, pd.Variable]}
    assert kinds[told.return_annotation] == function.return_annotation


TYPES = [
    (lambda f, b: f & 1, "bitwise_and: A cannot be float32"),
    (lambda f, b: ~f, "bitwise_not: X cannot be float32"),
    (lambda f, b: f.any(), "reduce_any: takes bools, not float32"),
    (lambda f, b: b.std(), "std: takes floats, not bool"),
]


@pytest.mark.parametrize("use, message", TYPES, ids=["and", "not", "any", "std"])
def test_types_that_do_not_fit(use, message):
    with pytest.raises(pd.DTypeError, match=message):
        use(pd.Variable([2, 3]), pd.Variable([3], dtype="bool"))


# ---- axis and axes

REDUCERS = [pd.reduce_sum, pd.reduce_mean, pd.reduce_max, pd.reduce_min, pd.reduce_prod]


@pytest.mark.parametrize("reduce", REDUCERS, ids=lambda f: f.__name__)
def test_axis_and_axes_are_one_argument(reduce):
    f = pd.Variable([None, 3])
    pairs = [reduce(f, **{k: a}) for a in (1, [0, 1], None) for k in ("axis", "axes")]
    values = pd.eval(pairs, feeds={f: F})
    for a, b in zip(values[::2], values[1::2], strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(TypeError, match="axis=0 and axes=1 are the same argument"):
        reduce(f, axis=0, axes=1)


def test_axis_and_axes_of_shapes():
    f = pd.Variable([None, 3])
    pairs = [
        *(pd.unsqueeze(f, axis=1), pd.unsqueeze(f, axes=[1])),
        *(pd.squeeze(f[:, :1], axis=1), pd.squeeze(f[:, :1], axes=[1])),
        *(pd.slice(f, [1], [3], axis=1), pd.slice(f, [1], [3], axes=[1])),
    ]
    values = pd.eval(pairs, feeds={f: F})
    for a, b in zip(values[::2], values[1::2], strict=True):
        np.testing.assert_array_equal(a, b)
    for both in (pd.unsqueeze, pd.squeeze, lambda f, **k: pd.slice(f, 0, 1, **k)):
        with pytest.raises(TypeError, match="the same argument"):
            both(f, axis=0, axes=0)
    with pytest.raises(TypeError, match="unsqueeze: the position of the new axis is missing"):
        pd.unsqueeze(f)


# ---- values without a derivative, and values that are none

INF, NAN = float("inf"), float("nan")
ROOTS = {
    "std": lambda x: pd.std(x, 1),
    "1": lambda x: pd.norm(x, 1, 1),
    "2": lambda x: pd.norm(x, 2, 1),
    "3": lambda x: pd.norm(x, 3, 1),
    "half": lambda x: pd.norm(x, 0.5, 1),
    "inf": lambda x: pd.norm(x, INF, 1),
    "negative": lambda x: pd.norm(x, -2, 1),
}


@pytest.mark.parametrize("name", ROOTS)
def test_derivatives_at_zero_are_zero(name):
    x = pd.Variable([None, 3])
    y = ROOTS[name](x)
    (first,) = pd.gradients(pd.reduce_sum(y), [x])
    second = pd.gradients(pd.reduce_sum(first * first), [x])
    values = pd.eval([y, first, *[g for g in second if g is not None]], feeds={x: np.zeros((2, 3))})
    for value in values:
        assert (value == 0).all()
    if name != "inf":  # ONNX Runtime's ReduceMax passes over NaN
        assert np.isnan(pd.eval(y, feeds={x: [[1, NAN, 0]]})).all()


def test_logsumexp_of_infinities():
    x = pd.Variable([None, 3])
    y = pd.logsumexp(x, 1)
    slopes = pd.gradients(pd.reduce_sum(y), [x])
    rows = [[-INF, -INF, -INF], [0, -INF, 0], [INF, 0, 1], [NAN, 0, 1]]
    value, slope = pd.eval([y, *slopes], feeds={x: rows})
    np.testing.assert_allclose(value, [-INF, np.log(2), INF, NAN], rtol=1e-6)
    np.testing.assert_allclose(slope[:2], [[0, 0, 0], [0.5, 0, 0.5]], rtol=1e-6)


def test_constructors():
    n = pd.Variable([2], dtype="int64")
    results = [
        *(pd.eye(2, 3), pd.zeros([2, 3]), pd.ones([2], "int64"), pd.full([2], True, "bool")),
        *(pd.linspace(0, 1, 5), pd.full(n, 1.5), pd.zeros(n, "int32")),
    ]
    wanted = [
        *(np.eye(2, 3), np.zeros((2, 3)), np.ones(2), np.full(2, True)),
        *(np.linspace(0, 1, 5), np.full((3, 2), 1.5), np.zeros((3, 2))),
    ]
    for y, value, want in zip(results, pd.eval(results, feeds={n: [3, 2]}), wanted, strict=True):
        assert value.dtype == y.dtype
        np.testing.assert_array_equal(value, want.astype(y.dtype), strict=True)


def test_an_identity_of_a_size_of_the_run_has_any_dtype():
    n = pd.Variable([], dtype="int64")
    names = ("bool", "int8", "int16", "int64", "uint8", "uint32", "float16", "float64")
    found = pd.eval([pd.eye(n, 3, name) for name in names], {n: 2})
    for name, value in zip(names, found, strict=True):
        np.testing.assert_array_equal(value, np.eye(2, 3).astype(name), strict=True)


SHAPES = {
    "top_k": (lambda x: pd.top_k(x, 4), "top_k: 4 elements of axis 1 of float32"),
    "stack": (lambda x: pd.stack([]), "stack: there is nothing to stack"),
    "ranks": (lambda x: pd.stack([x, x[0]]), "have different shapes"),
    "axis": (lambda x: pd.stack([x, x], 3), "axis 3 of a stack of .*, which has 3 axes"),
    "unstack": (lambda x: pd.unstack(x), "unstack: the size of axis 0 of .* is not known"),
    "chunk": (lambda x: pd.chunk(x, 2, 2), "chunk: axis 2 of"),
    "flip": (lambda x: pd.flip(x, 2), "flip: axis 2 of"),
    "roll": (lambda x: pd.roll(x, 1, 2), "roll: axis 2 of"),
    "diagonal": (lambda x: pd.diagonal(x[:, 0]), "takes matrices, not"),
    "meshgrid": (lambda x: pd.meshgrid(x), "meshgrid: takes vectors, not"),
    "var": (lambda x: pd.var(x, axis=2), "var: axis 2 of"),
}


@pytest.mark.parametrize("use, message", SHAPES.values(), ids=SHAPES)
def test_shapes_that_do_not_fit(use, message):
    with pytest.raises(pd.ShapeError, match=message):
        use(pd.Variable([None, 3]))


def test_products_and_writing_of_values_at_hand():
    with pd.guard():
        for rows in (F, F[:1], F):
            f = pd.to_variable(rows)
            np.testing.assert_allclose(f.cumprod(1).numpy(), np.cumprod(rows, 1), rtol=1e-6)
            for k in (0, -1):
                want = rows.copy()
                want[k, 1:] = k
                np.testing.assert_array_equal(
                    pd.index_update(f, np.s_[k, 1:], float(k)).numpy(), want
                )


def test_a_roll_by_more_than_an_axis_of_unknown_size():
    x, a = pd.Variable([None, None]), np.arange(12.0, dtype="float32").reshape(3, 4)
    for shift in (5, -9, 4, 0):
        assert (pd.roll(x, shift, 1).eval(feeds={x: a}) == np.roll(a, shift, 1)).all()
    assert pd.roll(x, 2, 1).eval(feeds={x: a[:, :0]}).shape == (3, 0)
