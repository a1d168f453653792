"""vmap of rows of the op tables, against a loop; nested arguments, results and axes."""

from collections import namedtuple

import numpy as np
import pytest

import pd_core as pd

from . import CASES
from .case import as_list

EVERY = 6  # one of so many rows; all of them pass
X = np.random.default_rng(0).normal(size=(3, 2, 4)).astype("float32")
V = np.random.default_rng(1).normal(size=(3, 4)).astype("float32")
Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize("case", [c for c in CASES if c.samples][::EVERY], ids=str)
def test_examples_are_those_of_a_loop(case, rng):
    """Floats of the two examples differ, whole numbers and masks are the same."""
    first = case.arrays(rng)
    both = [first, [a * np.float32(0.9) if a.dtype.kind == "f" else a for a in first]]
    slots = [[pd.Variable(list(a.shape), dtype=a.dtype) for a in one] for one in both]

    def function(*inputs):
        return as_list(case.function(*inputs, **case.options))

    feeds = {
        v: a
        for one, arrays in zip(slots, both, strict=True)
        for v, a in zip(one, arrays, strict=True)
    }
    alone = [function(*one) for one in slots]
    wanted = pd.eval(alone, feeds, training=case.training)
    again = pd.eval(alone, feeds, training=case.training)
    if any(
        (a != b).any() for a, b in zip(wanted[0], again[0], strict=True) if a.dtype.kind in "fi"
    ):
        pytest.skip("random draws, which are others for each example")
    if any(a.shape != b.shape for a, b in zip(*wanted, strict=True)):
        pytest.skip("sizes depend on values")
    together = pd.vmap(function)(*[pd.stack(list(pair), 0) for pair in zip(*slots, strict=True)])
    found = pd.eval(together, feeds, training=case.training)
    for values, *each in zip(found, *wanted, strict=True):
        for one, other in zip(values, each, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


def leaves(value):
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in leaves(part)]
    if isinstance(value, (list, tuple)):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


def grown(function, arrays):
    """Arguments with function(array) in place of each array."""
    if isinstance(arrays, dict):
        return {key: grown(function, part) for key, part in arrays.items()}
    if isinstance(arrays, (list, tuple)):
        make = getattr(type(arrays), "_make", type(arrays))
        return make([grown(function, part) for part in arrays])
    return function(arrays)


# name: (function, arguments, settings)
NESTED = {
    "dict": (lambda d: {"s": d["a"] + d["b"], "p": (d["a"] * d["b"],)}, [{"a": V, "b": V}], {}),
    "list": (lambda d: [d[0] * 2.0, d[1]], [[V, X]], {}),
    "named tuple": (lambda p: Pair(p.a * p.b, p.a), [Pair(V, V)], {}),
    "axes of a dict": (
        lambda d, w: d["a"] @ w + d["c"],
        [{"a": X, "c": V[:2, :3]}, V.T],
        {"in_axes": ({"a": 0, "c": None}, None)},
    ),
    "axes in a list": (lambda d: d[0] * d[1], [[V, V.T]], {"in_axes": [[0, 1]]}),
    "axes of results": (lambda x: (x, x * 2.0), [X], {"out_axes": (1, -1)}),
    "axes of a dict of results": (
        lambda x: {"a": x, "b": {"c": x * 2.0}},
        [X],
        {"out_axes": {"a": 2, "b": 1}},
    ),
    "two levels": (lambda x: pd.vmap(lambda r: r * pd.reduce_sum(r))(x), [X], {"in_axes": 1}),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_arguments_are_as_pytorch_maps_them(name):
    torch = pytest.importorskip("torch")
    function, arguments, settings = NESTED[name]

    def by_torch(*given):
        if name == "two levels":
            return torch.func.vmap(lambda r: r * r.sum())(*given)
        return function(*given)

    axes = {"in_axes": "in_dims", "out_axes": "out_dims"}
    dims = {axes[key]: value for key, value in settings.items()}
    if "in_dims" in dims and isinstance(dims["in_dims"], list):
        dims["in_dims"] = tuple(dims["in_dims"])
    if name == "axes of a dict of results":
        dims["out_dims"] = {"a": 2, "b": {"c": 1}}
    wanted = torch.func.vmap(by_torch, **dims)(*grown(torch.tensor, arguments))
    with pd.guard():
        at_hand = pd.vmap(function, **settings)(*grown(pd.to_variable, arguments))
        at_hand = [v.numpy() for v in leaves(at_hand)]
    feeds = {}

    def slot(a):
        v = pd.Variable(list(a.shape))
        feeds[v] = a
        return v

    built = pd.vmap(function, **settings)(*grown(slot, arguments))
    assert isinstance(built, pd.Variable) or type(built) is type(wanted)
    for found in (at_hand, pd.eval(leaves(built), feeds)):
        for one, other in zip(found, leaves(wanted), strict=True):
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-5)


def test_keyword_arguments_are_the_same_for_all():
    x = pd.Variable([3, 4])
    y = pd.vmap(lambda v, scale: v * scale)(x, scale=2.0)
    np.testing.assert_array_equal(pd.eval(y, {x: V}), V * 2)


def test_draws_are_others_for_each_example():
    x = pd.Variable([3, 4])
    drawn = pd.vmap(lambda v: v * 0.0 + pd.gaussian_random([4]))(x)
    mask = pd.vmap(lambda v: pd.dropout(v * 0.0 + 1.0, 0.5))(pd.concat([x] * 8, 1))
    a, b = pd.eval([drawn, mask], {x: V}, training=True)
    assert len({row.tobytes() for row in a}) == len({row.tobytes() for row in b}) == 3


@pytest.mark.parametrize(
    "settings, text",
    [
        ({"in_axes": [{"b": 0}]}, r"in_axes=\{'b': 0\} are not nested as \{'a': "),
        ({"in_axes": [[0, 0]]}, r"in_axes=\[0, 0\] are not nested as \{'a': "),
        ({"out_axes": (0, 0)}, r"out_axes=\(0, 0\) are not nested as \{'a': "),
        ({"out_axes": None}, "out_axes are axes, all results have the batch"),
        ({"in_axes": [{"a": None}]}, "no argument has a batch"),
    ],
)
def test_axes_that_do_not_fit(settings, text):
    with pytest.raises(pd.GraphError, match=f"vmap: {text}"):
        pd.vmap(lambda d: d, **settings)({"a": pd.Variable([3, 4])})
