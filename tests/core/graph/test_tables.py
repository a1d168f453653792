"""Tables and walks beside the graph: attached values, nested results, names that do not fit."""

import gc
import warnings
from collections import namedtuple
from weakref import ref

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph.attached import Attached
from pd_core.graph.layers import layer_of, layers_of
from pd_core.graph.misfits import Misfits, listed
from pd_core.graph.names import checked_text, fresh_names, names, remember_sizes
from pd_core.graph.nested import mapped, variables_in
from pd_core.graph.node import ancestors
from pd_core.graph.site import warn
from pd_core.graph.whole import Whole, on_failure
from pd_core.layers.multiply_adds import multiply_adds

# ---- values that are attached to a Variable


def test_attached_values_are_by_table_and_variable():
    a, b = Attached(), Attached()
    v, w = pd.Variable([2]), pd.Variable([2])
    assert a.get(v) is None and a.pop(v) is None
    a[v], b[v] = 1, 2
    assert (a[v], b[v], a.get(v), a.get(w)) == (1, 2, 1, None)
    assert a.setdefault(v, 5) == 1 and a.setdefault(w, 6) == 6 == a[w]
    assert a.pop(v) == 1 and a.get(v) is None and b[v] == 2
    with pytest.raises(KeyError):
        a[v]


def test_an_attached_value_dies_with_its_variable():
    table, v = Attached(), pd.Variable([2])
    table[v] = [v]  # refers to it
    gone = ref(v)
    del v
    gc.collect()
    assert gone() is None


def test_values_of_a_table_that_is_gone_are_removed():
    first, second, v = Attached(), Attached(), pd.Variable([2])
    first[v] = "old"
    del first
    second[v] = "new"
    assert list(v.__dict__["attached"].values()) == ["new"]


# ---- nested results

Pair = namedtuple("Pair", "first second")


def test_nested_results():
    a, b, c = (pd.Variable([k]) for k in (1, 2, 3))
    value = {"x": [a, 1], "y": Pair(b, (c, None)), "z": "text"}
    assert list(variables_in(value)) == [a, b, c]
    found = mapped(lambda v: v.dims[0], value)
    assert found == {"x": [1, 1], "y": Pair(2, (3, None)), "z": "text"}
    assert type(found["y"]) is Pair and type(found["y"].second) is tuple
    assert mapped(len, a) == 1 and list(variables_in(a)) == [a] and list(variables_in("a")) == []


# ---- names that do not fit


@pytest.mark.parametrize(
    "missing, unexpected, known, hint",
    [
        ("fc.W", "fc.w", (), "fc.W"),  # another case
        ("fc.W", "fc.weight", (), "fc.W"),  # another framework's
        ("fc.W", "model.fc.W", (), "fc.W"),  # another prefix
        ("model.fc.W", "fc.W", (), "model.fc.W"),
        ("conv_1.filter", "conv_1.fitler", (), "conv_1.filter"),  # misspelt
        ("fc.W", "embedding.bias", (), None),
        ("fc.W", "table", ["tables"], "tables"),  # one that has a value already
        ("fc.W", "fc.w", ["fc.w1"], "fc.W"),  # a missing one comes first
    ],
)
def test_names_that_may_be_meant(missing, unexpected, known, hint):
    lines = Misfits([missing], [unexpected]).text("load", known).split("\n")
    assert lines[:3] == [
        "load: names do not fit, 1 missing and 1 unexpected",
        f"  missing    {missing}",
        f"  unexpected {unexpected}",
    ]
    assert lines[3:] == ([] if hint is None else [f"  hint: {unexpected!r} may be {hint!r} here"])


def test_only_what_there_is_is_listed():
    assert Misfits(["a"], []).text("x") == "x: names do not fit, 1 missing\n  missing    a"
    assert Misfits([], ["a"]).text("x") == "x: names do not fit, 1 unexpected\n  unexpected a"


@pytest.mark.parametrize("count", [1, 12, 13, 20])
def test_long_lists_are_cut(count):
    every = [f"n{k}" for k in range(count)]
    end = f" and {count - 12} more" if count > 12 else ""
    assert listed(every) == ", ".join(every[:12]) + end


# ---- multiply-adds


def counted(y):
    return multiply_adds(y.node, lambda v: v.dims if v.is_static else None)


def f32(*dims):
    return pd.Variable(list(dims))


def test_multiply_adds_of_products():
    assert counted(f32(2, 3) @ f32(3, 5)) == 2 * 3 * 5
    assert counted(f32(7, 2, 3) @ f32(3, 5)) == 7 * 2 * 3 * 5
    assert counted(f32(3) @ f32(3)) == 3
    gemm = {(0, 0): ((2, 3), (3, 5)), (1, 0): ((3, 2), (3, 5)), (1, 1): ((3, 2), (5, 3))}
    for (a, b), (left, right) in gemm.items():
        y = pd.apply("Gemm", f32(*left), f32(*right), transA=a, transB=b)
        assert counted(y) == 2 * 3 * 5
    for equation, dims, want in (
        ("ij,jk->ik", [(2, 3), (3, 5)], 30),
        ("bij, bjk -> bik", [(7, 2, 3), (7, 3, 5)], 210),
        ("ij,jk,kl->il", [(2, 3), (3, 5), (5, 4)], 2 * 120),
        ("ij->ji", [(2, 3)], 0),
        ("...ij,jk->...ik", [(2, 3), (3, 5)], None),
    ):
        y = pd.apply("Einsum", *(f32(*d) for d in dims), equation=equation)
        assert counted(y) == want, equation


def test_multiply_adds_of_filters():
    """The elements of a filter for each element of the output, counted on small images."""
    x, w = f32(2, 4, 9, 8), f32(6, 2, 3, 3)
    y = pd.apply("Conv", x, w, group=2, strides=[2, 1])
    assert y.dims == (2, 6, 4, 6) and counted(y) == 2 * 6 * 4 * 6 * (2 * 3 * 3)
    up = pd.apply("ConvTranspose", f32(2, 4, 5, 5), f32(4, 3, 2, 2), strides=[2, 2])
    assert counted(up) == (2 * 4 * 5 * 5) * (3 * 2 * 2)


@pytest.mark.parametrize("op_type, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("directions", [1, 2])
def test_multiply_adds_of_recurrent_layers(op_type, gates, directions):
    steps, rows, units = 7, 2, 5
    weights = (f32(directions, gates * units, n) for n in (3, units))
    direction = {1: "forward", 2: "bidirectional"}[directions]
    attributes = {"hidden_size": units, "direction": direction}
    y, _ = pd.apply(op_type, f32(steps, rows, 3), *weights, outputs=2, **attributes)
    assert counted(y) == steps * rows * directions * gates * units * (3 + units)


def test_what_has_none_and_what_is_unknown():
    assert counted(pd.exp(f32(None, 3))) == 0 == counted(f32(2, 3) + f32(3))
    assert counted(f32(None, 3) @ f32(3, 5)) is None


# ---- layers


@pytest.mark.parametrize(
    "name, layer",
    [
        ("a/fc_0.W", "a/fc_0"),
        ("a/W", "a"),
        ("a/b/W", "a/b"),
        ("fc.W", "fc"),
        ("W", "W"),
        ("a.b.W", "a.b"),
    ],
)
def test_the_layer_of_a_parameter(name, layer):
    assert layer_of(name) == layer


def test_the_layer_of_an_operator():
    x = pd.Variable([None, 3])
    with pd.namespace("net"):
        w, v = pd.Variable("fc_0.W", shape=[3, 3]), pd.Variable("fc_1.W", shape=[3, 3])
        product = x @ w
        both = w + v
        same_line, free = pd.relu(x @ v), pd.exp(product)
        later = pd.relu(product)
    outside = product * w
    order = ancestors([both, same_line, free, later, outside])
    layers = layers_of(order, {})
    assert layers[product.node] == "net/fc_0" == layers[outside.node]
    assert layers[both.node] == "net" == layers[free.node] == layers[later.node]
    assert layers[same_line.node] == layers[same_line.node.inputs[0].node] == "net/fc_1"
    known = pd.Variable([3, 3])
    (body,) = ancestors([pd.exp(known)])
    assert layers_of([body], {known: v})[body] == "net/fc_1"


# ---- names, and what a failure takes back


def test_sizes_of_an_imported_file_keep_their_names():
    with fresh_names():
        pairs = [("?1", "N"), ("?2", "N"), ("T", "T"), (3, "three"), ("?4", None), ("?5", "")]
        remember_sizes(pairs)
        remember_sizes([("?1", "M")])
        assert names().sizes == {"?1": "N", "?2": "N"}  # the first is kept
    assert "?1" not in names().sizes


def test_names_of_a_call_that_fails_are_free_again():
    before = pd.Variable("kept", shape=[1])
    with pytest.raises(RuntimeError), Whole():
        lost = pd.Variable("lost", shape=[1])
        automatic = pd.Variable(shape=[1]).name
        raise RuntimeError
    assert "lost" not in names().variables and names().variables["kept"] is before
    assert pd.Variable(shape=[1]).name == automatic
    assert pd.Variable("lost", shape=[2]) is not lost


def test_failures_are_taken_back_from_the_last_to_the_first():
    done = []
    with pytest.raises(RuntimeError), Whole():
        on_failure(done.append, "first")
        with Whole():
            on_failure(done.append, "second")
        with pytest.raises(ValueError), Whole():
            on_failure(done.append, "inner")
            raise ValueError
        assert done == ["inner"]
        raise RuntimeError
    assert done == ["inner", "second", "first"]
    on_failure(done.append, "outside")
    with Whole():
        on_failure(done.append, "successful")
    assert len(done) == 3


@pytest.mark.parametrize("name", ["plain", "中", "é/W", "a\ud7ffb", "\ue000"])
def test_names_are_unicode_text(name):
    assert checked_text(name) == name


@pytest.mark.parametrize("name", ["a\ud800", "\udfffb", "é\udc80"])
def test_lone_surrogates_are_no_text(name):
    with pytest.raises(pd.GraphError, match="is no Unicode text"):
        pd.Variable(name, shape=[1])


def test_layers_are_known_as_long_as_they_have_a_parameter():
    v, w = pd.Variable("net/fc.W", shape=[1]), pd.Variable("net/fc.b", shape=[1])
    registry = names().variables
    assert registry.has_layer("net") and registry.has_layer("net/fc")
    assert not registry.has_layer("net/f") and not registry.has_layer("net/fc.W")
    registry.remove(v.name)
    assert registry.has_layer("net/fc") and w.name in registry
    registry.remove(w.name)
    assert not registry.has_layer("net/fc") and not registry.has_layer("net")


def test_warnings_name_the_line_of_the_user():
    def of_the_user():
        warn(UserWarning("look"))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        of_the_user()
    line = of_the_user.__code__.co_firstlineno + 1
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line)]


def test_a_setting_is_a_constant_until_it_changes():
    x = pd.Variable(data=np.ones(3, np.float32))
    optimizer = pd.SGDOptimizer(0.5)
    step = optimizer.minimize(pd.reduce_sum(x * x))
    pd.eval(step)
    np.testing.assert_allclose(x.val(), np.zeros(3))
    pd.eval(pd.assign(x, np.ones(3, np.float32)))
    for rate, want in ((0.25, 0.5), (0.25, 0.25), (0.0, 0.25), (1.0, -0.25)):
        optimizer.learning_rate = rate
        pd.eval(step)
        np.testing.assert_allclose(x.val(), np.full(3, want), rtol=1e-6)
