"""Rewriting of graphs: what is rebuilt, what stays the same object, and what a body captures."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.graph import node as nodes
from pd_core.graph.node import ancestors, known_orders, located_at, rebuilt, refined, retyped
from pd_core.graph.rewrite import (
    close,
    is_matrix_transposed,
    is_output_of,
    permutation,
    rewrite,
    substitute,
)


def f32(*dims):
    return pd.Variable(list(dims))


def types_of(targets):
    return [node.op_type for node in ancestors(targets)]


def test_only_what_depends_on_a_change_is_rebuilt():
    x = f32(2, 3)
    left, right = pd.exp(x), pd.tanh(x)
    y = pd.sqrt(left) + right

    def sine(node, inputs):
        return (pd.sin(*inputs),) if node.op_type == "Exp" else None

    (new,) = rewrite([y], sine)
    assert types_of([new]) == ["Sin", "Sqrt", "Tanh", "Add"]
    assert new.node.inputs[1] is right and new.name == y.name and new.node.kind == y.node.kind
    assert types_of([y]) == ["Exp", "Sqrt", "Tanh", "Add"]  # the old one is as it was
    assert rewrite([y], lambda node, inputs: None) == [y]
    assert rewrite([y], sine, only={"Tanh"}) == [y]
    assert rewrite([y], sine, stop={left}) == [y]


def test_a_new_node_has_the_place_of_the_old_one():
    x = f32(2)
    with pd.namespace("net"):
        y = pd.exp(x)
    (new,) = rewrite([y], lambda node, inputs: (pd.sin(*inputs),))
    assert (new.node.scope, new.node.site) == ("net/", y.node.site)
    with located_at(y.node):
        again = pd.cos(x)
    assert again.node.site == y.node.site and pd.cos(x).node.site != y.node.site


def test_substitution_gives_other_inputs_and_sizes():
    x, other = f32("n", 3), f32("m", 3)
    y = pd.exp(x) * 2.0
    (new,) = substitute([y], {x: other}, sizes={"n": "m"})
    assert new.dims == ("m", 3) and y.dims == ("n", 3)
    a, b = np.ones((2, 3), np.float32), np.zeros((4, 3), np.float32)
    found = pd.eval([y, new], {x: a, other: b})
    np.testing.assert_allclose(found[0], 2 * np.exp(a), rtol=1e-6)
    np.testing.assert_allclose(found[1], 2 * np.exp(b), rtol=1e-6)
    inner = pd.exp(x)
    assert substitute([inner + x], {inner: x})[0].node.inputs == (x, x)


@pytest.mark.parametrize(
    "rank, perm, matrix",
    [
        (2, None, True),
        (2, [1, 0], True),
        (2, [0, 1], False),
        (3, None, False),
        (3, [0, 2, 1], True),
        (3, [1, 0, 2], False),
        (4, [0, 1, 3, 2], True),
        (4, [1, 0, 3, 2], False),
    ],
)
def test_matrices_that_are_transposed(rank, perm, matrix):
    array = np.zeros(tuple(range(2, 2 + rank)), np.float32)
    x = pd.Variable(list(array.shape))
    y = pd.apply("Transpose", x, perm=perm)
    assert y.dims == array.transpose(perm).shape == tuple(x.dims[k] for k in permutation(y.node))
    assert is_matrix_transposed(y) == matrix
    assert is_output_of(y, "Transpose") and not is_output_of(y, "Exp")
    assert not is_output_of(x, "Transpose") and not is_matrix_transposed(pd.exp(y))


def test_a_body_captures_what_it_does_not_compute():
    block_input, outer, unused = f32(3), f32(3), f32(3)
    before = pd.exp(outer)
    result = pd.tanh(block_input + before) * np.float32(2.0) + outer
    blocks, captures = close({"body": [result, unused]}, {"body": [block_input]})
    assert captures == [before, outer, unused]
    block = blocks["body"]
    assert block.block_inputs == (block_input,) and block.inputs == (block_input, *block.captured)
    assert [(v.dims, v.dtype) for v in block.captured] == [(v.dims, v.dtype) for v in captures]
    assert types_of(block.outputs) == ["Add", "Tanh", "Mul", "Add"]  # the Exp runs before
    assert block.outputs[1] is block.captured[2]
    everything, captures = close({"a": [before]}, {"a": []}, inside=lambda node: True)
    assert captures == [outer] and types_of(everything["a"].outputs) == ["Exp"]


def test_bodies_are_rewritten_with_what_they_read_in_addition():
    x, w, state = f32("n", 3), f32(3), f32(3)
    _, ys = pd.scan(lambda s, row: (s + pd.exp(row) * w,) * 2, state, x)

    def shifted(node, inputs):
        return (pd.sin(*inputs) + extra,) if node.op_type == "Exp" else None

    extra = f32(3)
    (new,) = rewrite([ys], shifted)
    assert extra in new.node.captures and extra not in ys.node.inputs
    assert new.node.op_type == ys.node.op_type == "Scan" and new.name == ys.name
    rng = np.random.default_rng(0)
    rows, weights, first, added = (rng.normal(size=s) for s in ((4, 3), (3,), (3,), (3,)))
    found = pd.eval(new, {x: rows, w: weights, state: first, extra: added})
    want = first + np.cumsum((np.sin(rows) + added) * weights, axis=0)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_branches_are_rewritten_by_themselves():
    x = f32(3)
    go = pd.Variable([], dtype="bool")
    y = pd.cond(go, lambda: pd.exp(x), lambda: pd.tanh(x))

    def doubled(node, inputs):
        return (pd.sin(*inputs) * 2.0,) if node.op_type == "Exp" else None

    (new,) = rewrite([y], doubled)
    array = np.array([0.1, 0.2, 0.3], np.float32)
    for value, want in ((True, 2 * np.sin(array)), (False, np.tanh(array))):
        np.testing.assert_allclose(pd.eval(new, {go: value, x: array}), want, rtol=1e-6)
    assert rewrite([y], lambda node, inputs: None) == [y]


def test_more_precise_sizes_are_a_node_of_their_own():
    x = f32(None, 4)
    values, places = pd.top_k(x, 2)
    better = refined(values, ["n", 2])
    assert better.dims == ("n", 2) and better is not values and better.name == values.name
    assert refined(better, ["n", 2]) is better
    assert better.node.outputs[1].dims == places.dims  # the other output stays
    both = retyped([values, places], [["n", 2], ["n", 2]])
    assert [v.dims for v in both] == [("n", 2)] * 2 and both[0].node is both[1].node
    assert retyped(both, [["n", 2], ["n", 2]]) == both


def test_a_rebuilt_node_is_the_same_operator_on_other_inputs():
    x, other = f32(2, 3), f32(2, 3)
    node = pd.softmax(x, axis=0).node
    new = rebuilt(node, (other,))
    same = ("op_type", "attributes", "domain", "opset", "scope", "site", "kind", "visible", "types")
    assert all(getattr(new, name) == getattr(node, name) for name in same)
    assert new.inputs == (other,) and node.inputs == (x,) and new.serial > node.serial
    assert new.outputs[0].node is new and new.outputs[0].name == node.outputs[0].name
    for change in (lambda: setattr(node, "opset", 1), lambda: delattr(node, "inputs")):
        with pytest.raises(AttributeError, match="of a node cannot be"):
            change()
    with pytest.raises(TypeError):
        node.attributes["axis"] = 1


def test_nodes_behind_the_same_targets_are_looked_for_once(monkeypatch):
    walks, walk = [], nodes._all_ancestors
    monkeypatch.setattr(nodes, "_all_ancestors", lambda t: walks.append(t) or walk(t))
    x = f32(2, 3)
    targets = [pd.exp(x), pd.tanh(pd.exp(x)), pd.sqrt(x), pd.sin(x), pd.cos(x)]
    outside = [types_of([y]) for y in targets]
    walks.clear()
    with known_orders():
        ancestors(targets).clear()  # a list of the caller's own
        assert types_of(targets) == types_of(tuple(targets)) and len(types_of(targets)) == 6
        assert len(walks) == 1
        assert [types_of([y]) for y in targets] == outside
        assert types_of(targets[::-1]) != types_of(targets)
        assert types_of([targets[1], targets[0]]) == ["Exp", "Tanh", "Exp"]
        assert [node.op_type for node in ancestors([targets[1]], stop={x})] == ["Exp", "Tanh"]
        assert ancestors([targets[1]], stop={targets[1].node.inputs[0]})[0].op_type == "Tanh"
    assert len(walks) == 9
    types_of(targets)
    assert len(walks) == 10


def test_a_rule_sees_what_it_is_for_and_what_depends_on_a_change():
    x = f32(2, 3)
    y = pd.exp(pd.tanh(pd.sqrt(pd.tanh(pd.exp(x)))))
    seen = []

    def rule(node, inputs):
        seen.append((node.op_type, inputs == node.inputs))
        return (pd.sin(inputs[0]),) if len(seen) == 2 else None

    (new,) = rewrite([y], rule, only={"Tanh", "Exp"})
    assert seen == [("Exp", True), ("Tanh", True), ("Tanh", False), ("Exp", False)]
    assert types_of([new]) == ["Exp", "Sin", "Sqrt", "Tanh", "Exp"]
    assert rewrite([y], lambda node, inputs: None, only={"Tanh"}) == [y]
