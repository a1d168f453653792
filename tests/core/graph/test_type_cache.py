"""Output types from memory: the same as inferred, under the names of the graph at hand."""

import numpy as np
import pytest

import pd_core as pd
from pd_core import ops
from pd_core.graph import inference as shapes
from pd_core.graph import type_cache
from pd_core.graph.signature import kind_of


@pytest.fixture
def inferred(monkeypatch):
    """The nodes whose types are inferred, from an empty memory on."""
    nodes, infer = [], shapes._inferred

    def counted(node, outputs, known):
        nodes.append(node)
        yield from infer(node, outputs, known)

    monkeypatch.setattr(type_cache, "_exact", {})
    monkeypatch.setattr(type_cache, "_general", {})
    monkeypatch.setattr(shapes, "_inferred", counted)
    return nodes


def test_the_same_operator_on_the_same_types_is_inferred_once(inferred):
    a, b = pd.Variable(["n", 3]), pd.Variable(["m", 3])
    first, second = pd.tanh(a), pd.tanh(b)
    assert (first.dims, second.dims) == (("n", 3), ("m", 3))
    assert len(inferred) == 1


def test_sizes_that_differ_are_another_signature(inferred):
    n, m = pd.Variable(["n", 1]), pd.Variable(["m", 1])
    same, other = pd.concat([n, n], axis=1), pd.concat([n, m], axis=1)
    assert same.dims == ("n", 2) and other.dims[1] == 2
    pd.tanh(pd.Variable([2])), pd.tanh(pd.Variable([1])), pd.tanh(pd.Variable([2], dtype="float64"))
    assert len(inferred) == 5


def fed(*shapes):
    return [pd.Variable.of(shape, np.float32) for shape in shapes]


# name: an op of Variables, the same of arrays, shapes of n, m and k
WIDTHS = {
    "add": (pd.add, np.add, lambda n, m, k: [(n, m), (m,)]),
    "add ones": (pd.add, np.add, lambda n, m, k: [(n, 1), (1, m)]),
    "matmul": (pd.matmul, np.matmul, lambda n, m, k: [(n, m), (m, k)]),
    "batched": (pd.matmul, np.matmul, lambda n, m, k: [(n, 1, m, k), (m, k, n)]),
    "where": (
        lambda a, b, c: pd.where(a > 0, b, c),
        np.where,
        lambda n, m, k: [(n, 1, k), (m, 1), (1,)],
    ),
    "sum": (lambda x: pd.reduce_sum(x, [1]), lambda x: x.sum(1), lambda n, m, k: [(n, m, k)]),
    "transpose": (
        lambda x: pd.transpose(x, [2, 0, 1]),
        lambda x: x.transpose(2, 0, 1),
        lambda n, m, k: [(n, m, k)],
    ),
    "squeeze": (lambda x: pd.squeeze(x, [1]), lambda x: x.squeeze(1), lambda n, m, k: [(n, 1, k)]),
}


@pytest.mark.parametrize("name", WIDTHS)
def test_other_sizes_of_an_operator_are_not_inferred_again(name, inferred):
    op, reference, shapes = WIDTHS[name]
    counts = []
    for sizes in [(2, 3, 4), (5, 6, 7), (9, 8, 4)]:
        given = shapes(*sizes)
        assert op(*fed(*given)).dims == reference(*[np.zeros(s) for s in given]).shape
        counts.append(len(inferred))
    assert counts[0] == counts[-1]
    for sizes in [(3, 3, 3), (2, 1, 3), (1, 1, 1), (3, 2, 2)]:  # other ones are equal, or 1
        given = shapes(*sizes)
        assert op(*fed(*given)).dims == reference(*[np.zeros(s) for s in given]).shape


def test_sizes_that_do_not_fit_are_refused_each_time(inferred):
    n, m = pd.Variable(["n"]), pd.Variable(["m"])
    pd.add(n, m)  # they may be equal at run time
    for a, b in [(2, 3), (4, 5), (2, 3)]:
        with pytest.raises(pd.ShapeError, match=rf"{a}.*{b}|ncompatible"):
            pd.add(*fed((a,), (b,)))
        with pytest.raises(pd.ShapeError):
            pd.matmul(*fed((7, a), (b, 7)))


@pytest.mark.parametrize("op", [pd.add, pd.maximum, pd.greater_than], ids=lambda op: op.__name__)
def test_sizes_beside_a_small_constant_are_not_taken_for_others(op, inferred):
    beside = np.ones(4, np.float32)
    assert op(*fed((3, 4)), beside).dims == (3, 4)
    assert op(*fed((4,)), beside).dims == (4,)
    for _ in range(2):
        with pytest.raises(pd.ShapeError, match=r"4.*5|5.*4|ncompatible"):
            op(*fed((5,)), beside)
    assert op(*fed((5, 1)), beside).dims == (5, 4)


def test_sizes_that_are_new_are_new_each_time(inferred):
    x = pd.Variable([None, 3])
    found = [ops.nonzero(x).dims for _ in range(3)]
    assert len(inferred) <= 2
    assert len({dims[1] for dims in found}) == 3


def test_values_of_small_constants_count(inferred):
    x = pd.Variable([4, 6])
    assert pd.reshape(x, [3, 8]).dims == (3, 8)
    assert pd.reshape(x, [8, 3]).dims == (8, 3)
    assert pd.reshape(x, [3, 8]).dims == (3, 8)
    assert len(inferred) == 2


def test_a_shape_is_looked_through_whose_ever_it_is(inferred):
    x, other = pd.Variable(["n", 6]), pd.Variable(["m", 2, 3])
    for y in (other, pd.Variable(["k", 3, 2])):
        assert pd.reshape(x, ops.shape_of(y)).dims == y.dims


def test_attributes_of_another_type_are_other_attributes():
    values = (1, 1.0, True, [1, 2], [1.0, 2.0], np.ones(2), np.ones(2, "int64"))
    kinds = [kind_of("Op", "", 21, {"a": v}, 1) for v in values]
    assert len(set(kinds)) == len(values)
    assert kind_of("Op", "", 21, {"a": (1, 2)}, 1) == kind_of("Op", "", 21, {"a": [1, 2]}, 1)


def test_what_is_known_belongs_to_what_is_remembered(inferred):
    x = pd.Variable([None, 4])
    index = pd.Variable([None], dtype="int64")
    assert pd.apply("Compress", x, pd.cast(index, "bool"), known=("k", 4), axis=0).dims == ("k", 4)
    assert pd.apply("Compress", x, pd.cast(index, "bool"), known=("m", 4), axis=0).dims == ("m", 4)
    assert pd.apply("Compress", x, pd.cast(index, "bool"), axis=0).dims[0] not in ("k", "m")


def test_a_mistake_is_told_every_time(inferred):
    for _ in range(2):
        with pytest.raises(pd.ShapeError, match="inner sizes differ, 3 against 4"):
            pd.matmul(pd.Variable([2, 3]), pd.Variable([4, 5]))
    assert len(inferred) == 2


def test_the_memory_has_a_limit(inferred, monkeypatch):
    monkeypatch.setattr(type_cache, "_LIMIT", 3)
    for size in range(1, 9):
        assert pd.tanh(pd.Variable([size])).dims == (size,)
        assert len(type_cache._exact) <= 3 and len(type_cache._general) <= 3
