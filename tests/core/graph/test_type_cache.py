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
    pd.tanh(pd.Variable([2])), pd.tanh(pd.Variable([3])), pd.tanh(pd.Variable([2], dtype="float64"))
    assert len(inferred) == 5


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
