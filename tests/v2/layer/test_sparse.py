"""Sparse rows: what they feed, what they multiply, and that nothing becomes dense on the way."""

import numpy as np
import onnxruntime
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_core.graph.node import ancestors
from pd_v2.attr import Param
from pd_v2.topology import Topology

from .test_group import filled, inferred, slope_error

A, L, T = paddle.activation, paddle.layer, paddle.data_type

BINARY = [[1, 3], [], [9], [0, 1, 2]]
VALUED = [[(0, 0.5), (6, 2.0)], [], [(2, -1.0)], [(3, 0.25)]]


def dense(rows, width):
    out = np.zeros((len(rows), width))
    for out_row, row in zip(out, rows, strict=True):
        for entry in row:
            column, value = entry if isinstance(entry, tuple) else (entry, 1.0)
            out_row[column] += value
    return out


def binary(name="b"):
    return L.data(name=name, type=T.sparse_binary_vector(10))


def valued(name="v"):
    return L.data(name=name, type=T.sparse_float_vector(7))


def fc(b, v):
    return L.fc(input=[b, v], size=4, name="y", act=A.Sigmoid())


def mixed(b, v):
    products = [L.full_matrix_projection(b), L.full_matrix_projection(v)]
    return L.mixed(size=4, input=products, bias_attr=True, act=A.Sigmoid(), name="y")


@pytest.mark.parametrize("build", [fc, mixed])
@pytest.mark.parametrize("count", [4, 1, 0])
def test_product(build, count, rng):
    y = build(binary(), valued())
    pool, values = filled(y, rng)
    samples = list(zip(BINARY, VALUED, strict=True))[:count]
    rows = dense(BINARY[:count], 10) @ values["_y.w0"] + dense(VALUED[:count], 7) @ values["_y.w1"]
    expected = 1 / (1 + np.exp(-(rows + values["_y.wbias"])))
    np.testing.assert_allclose(inferred(y, pool, samples)[0], expected, rtol=1e-5)


def test_gradient(rng):
    y = fc(binary(), valued())
    pool, _ = filled(y, rng)
    assert slope_error([y], pool, list(zip(BINARY, VALUED, strict=True)), rng) < 5e-3


def test_sequences_of_sparse_rows(rng):
    s = L.data(name="s", type=T.sparse_float_vector_sequence(7))
    y = L.fc(input=s, size=3, act=A.Linear(), bias_attr=False, name="y")
    pool, values = filled(y, rng)
    samples = [(VALUED[:3],), ([],), (VALUED[3:],)]
    np.testing.assert_allclose(
        inferred(y, pool, samples)[0], dense(VALUED, 7) @ values["_y.w0"], rtol=1e-5, atol=1e-6
    )
    assert len(y.levels) == 1


def test_factorization_machine(rng):
    y = L.factorization_machine(input=valued(), factor_size=3, name="y")
    pool, values = filled(y, rng)
    x, v = dense(VALUED, 7), values["_y.w0"]
    expected = 0.5 * ((x @ v) ** 2 - (x**2) @ (v**2)).sum(1, keepdims=True)
    found = inferred(y, pool, [(row,) for row in VALUED])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


LABELS = [[0, 2], [], [3], [1]]
ONE = [[1], [0], [3], [2]]


def test_costs(rng):
    x = L.data(name="x", type=T.dense_vector(4))
    several = L.data(name="several", type=T.sparse_binary_vector(4))
    one = L.data(name="one", type=T.sparse_binary_vector(4))
    costs = [
        L.multi_binary_label_cross_entropy_cost(input=x, label=several),
        L.square_error_cost(input=x, label=several),
        L.cross_entropy_cost(input=x, label=one),
    ]
    p = rng.uniform(0.1, 0.9, (4, 4)).astype(np.float32)
    on, samples = dense(LABELS, 4), list(zip(p.tolist(), LABELS, ONE, strict=True))
    expected = [
        -(on * np.log(p) + (1 - on) * np.log(1 - p)).sum(1),
        ((p - on) ** 2).sum(1),
        -np.log(p[np.arange(4), np.ravel(ONE)]),
    ]
    found = inferred(costs, paddle.parameters.create(costs), samples)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a[:, 0], b, rtol=1e-5)


SELECTED = [[0, 2], [1, 4], [3, 4]]


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("count", [3, 1, 0])
def test_selective_fc(kind, count, rng):
    x = L.data(name="x", type=T.dense_vector(8))
    type_ = T.sparse_binary_vector(5) if kind == "sparse" else T.dense_vector(5)
    select = L.data(name="select", type=type_)
    y = L.selective_fc(input=x, select=select, size=5, act=A.Softmax(), name="y")
    pool, values = filled(y, rng)
    rows = rng.standard_normal((count, 8))
    masks = SELECTED[:count] if kind == "sparse" else dense(SELECTED[:count], 5).tolist()
    found = inferred(y, pool, list(zip(rows.tolist(), masks, strict=True)))[0]
    all_columns = rows @ values["_y.w0"].T + values["_y.wbias"]
    if not count:
        assert found.shape == (0, 0)
        return
    z = np.exp([all_columns[k][SELECTED[k]] for k in range(count)])
    np.testing.assert_allclose(found, z / z.sum(1, keepdims=True), rtol=1e-4)


def test_gradient_of_selective_fc(rng):
    x = L.data(name="x", type=T.dense_vector(8))
    select = L.data(name="select", type=T.sparse_binary_vector(5))
    y = L.selective_fc(input=x, select=select, size=5, name="y")
    pool, _ = filled(y, rng)
    samples = list(zip(rng.standard_normal((3, 8)).tolist(), SELECTED, strict=True))
    assert slope_error([y], pool, samples, rng) < 5e-3


def test_nothing_becomes_dense():
    wide = L.data(name="wide", type=T.sparse_binary_vector(1_000_000))
    y = L.fc(input=wide, size=8, name="y")
    sizes = [d for node in ancestors([y]) for x in node.outputs for d in x.dims]
    assert 1_000_000 not in sizes


def test_export(tmp_path, rng):
    y = fc(binary(), valued())
    pool, _ = filled(y, rng)
    path = str(tmp_path / "y.onnx")
    Topology(y).export_onnx(path, pool)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = ["b", "b.counts", "v", "v.counts", "v.values"]
    assert [i.name for i in session.get_inputs()] == names
    pairs = [pair for row in VALUED for pair in row]
    arrays = [
        np.array([c for row in BINARY for c in row]),
        np.array([len(row) for row in BINARY]),
        np.array([c for c, _ in pairs]),
        np.array([len(row) for row in VALUED]),
        np.array([v for _, v in pairs], np.float32),
    ]
    (found,) = session.run(None, dict(zip(names, arrays, strict=True)))
    expected = inferred(y, pool, list(zip(BINARY, VALUED, strict=True)))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


REFUSED = [
    lambda: L.addto(input=[binary()]),
    lambda: L.embedding(input=binary(), size=3),
    lambda: L.max_id(input=binary()),
    lambda: L.selective_fc(input=binary(), select=binary("select"), size=10),
]


@pytest.mark.parametrize("build", REFUSED)
def test_layers_that_do_not_take_sparse_rows(build):
    with pytest.raises(pd.DTypeError, match="'b' holds sparse rows"):
        build()


BAD = [
    (binary, [1, 10], "sample 0, entry 1: expected a column from 0 to 9, got 10"),
    (binary, [-1], "sample 0, entry 0: expected a column from 0 to 9, got -1"),
    (binary, [1.5], "sample 0, entry 0: expected a column from 0 to 9, got 1.5"),
    (binary, ["a"], "sample 0, entry 0: expected a column"),
    (binary, 3, "sample 0: expected the columns of a sparse row, got 3"),
    (valued, [3], r"sample 0, entry 0: expected a pair \(column, value\), got 3"),
    (valued, [(7, 1.0)], "sample 0, entry 0: expected a column from 0 to 6, got 7"),
    (valued, [(0, 1.0), (0.5, 1.0)], "sample 0, entry 1: expected a column from 0 to 6, got 0.5"),
]


@pytest.mark.parametrize(("kind", "row", "message"), BAD)
def test_bad_row(kind, row, message):
    x = kind()
    y = L.fc(input=x, size=2, param_attr=Param(initial_std=0.1), bias_attr=False, name="y")
    pool = paddle.parameters.create(y)
    pool.set("_y.w0", np.zeros((x.size, 2)))
    with pytest.raises(ValueError, match=rf"data layer '{x.name}' \(column 0\), {message}"):
        paddle.infer(output_layer=y, parameters=pool, input=[(row,)])
