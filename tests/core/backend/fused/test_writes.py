"""Rows that are written into the memory of their table, in the program that reads it."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import pd_core as pd
from pd_core.backend.fused.build import available, build
from pd_core.backend.fused.rows import fuse
from pd_core.backend.fused.writes import wait
from pd_core.backend.program import build as graph_of
from pd_core.backend.stages import stages
from pd_core.graph.node import apply, refined
from tests.core.backend.fused.alone import kinds_of, model_of

compiled = pytest.mark.skipif(not available(), reason="there is no C compiler here")

N = helper.make_node
FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
TYPES = {INT32: np.int32, INT64: np.int64}
HEIGHT = 23


def model(op, kind):
    """A write that comes before all readers of its table in the order of the nodes."""
    given = {"axis": 0, "reduction": "add"} if op == "ScatterElements" else {}
    nodes = [
        N(op, ["table", "index", "added"], ["new"], name="write", **given),
        N("Reshape", ["table", "all"], ["flat"]),
        N("ReduceSum", ["flat"], ["total"], keepdims=0),
        N("Identity", ["table"], ["old"]),
        N("Gather", ["table", "first"], ["row"]),
        N("Reshape", ["index_as_fed", "column"], ["index"]),
    ]
    inputs = {
        "table": (FLOAT, [HEIGHT, 1]),
        "index_as_fed": (kind, ["n"]),
        "added": (FLOAT, ["n", 1]),
    }
    constants = {"all": np.array([-1]), "first": np.array([1]), "column": np.array([-1, 1])}
    made = model_of(nodes, inputs, ["total", "old", "row", "new"], constants)
    del made.graph.output[:]
    made.graph.output.extend(onnx.ValueInfoProto(name=y) for y in ("total", "old", "row", "new"))
    return made


@compiled
@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize(
    ("op", "kind"), [("ScatterElements", INT64), ("ScatterElements", INT32), ("ScatterND", INT64)]
)
def test_readers_come_first(op, kind, optimized):
    """The result is the table itself, and everything else sees it as it was."""
    changed = model(op, kind)
    nodes = list(changed.graph.node)
    del changed.graph.node[:]
    changed.graph.node.extend([nodes[-1], *nodes[:-1]])  # as it is sorted, for ONNX's inference
    kinds = kinds_of(changed)
    fuse(changed, kinds)
    library = build(wait(changed, kinds, ["new"]))
    ops = [node.op_type for node in changed.graph.node]
    assert ops[-1] in ("ScatterND", "AddRowsLast64", "AddRowsLast32")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    options.register_custom_ops_library(str(library))
    session = onnxruntime.InferenceSession(changed.SerializeToString(), options)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(HEIGHT, 1)).astype("f")
    value = onnxruntime.OrtValue.ortvalue_from_numpy(table.copy())
    binding = session.io_binding()
    binding.bind_ortvalue_input("table", value)
    for name in ("total", "old", "row"):
        binding.bind_output(name, "cpu")
    binding.bind_ortvalue_output("new", value)
    for n in (5, 1, 9):
        index = rng.permutation(HEIGHT)[:n].astype(TYPES[kind])
        added = rng.normal(size=(n, 1)).astype("f")
        binding.bind_cpu_input("index_as_fed", index)
        binding.bind_cpu_input("added", added)
        session.run_with_iobinding(binding)
        total, old, row = (v.numpy() for v in binding.get_outputs()[:3])
        np.testing.assert_array_equal(old, table)
        np.testing.assert_array_equal(row, table[[1]])
        np.testing.assert_allclose(total, table.sum(), rtol=1e-5)
        table[index] = added if op == "ScatterND" else table[index] + added
        np.testing.assert_array_equal(value.numpy(), table)


def trained(fused, optimizer, width, old=False):
    """Losses, values that are fetched beside the update, and the table after some steps."""
    ids, target = pd.Variable([None, 3], dtype="int64"), pd.Variable([None, 1])
    start = np.linspace(-1, 1, HEIGHT * width, dtype=np.float32).reshape(HEIGHT, width)
    table = pd.Variable("table", data=start, row_sparse=True)
    bias = pd.Variable("bias", data=np.zeros(1, np.float32))
    scores = pd.reduce_sum(pd.gather(table, ids), [1, 2]) + bias
    loss = pd.reduce_mean(pd.square(scores - pd.squeeze(target, 1)))
    update = optimizer().minimize(loss)
    rng = np.random.default_rng(0)
    fetched = []
    with pd.Session(fused=fused) as session:
        for n in (5, 7, 7, 1, 7):
            feeds = {ids: rng.integers(-HEIGHT, HEIGHT, (n, 3)), target: rng.normal(size=(n, 1))}
            more = [table] if old else []
            fetched += session.eval([loss, *more, update], feeds)[: 1 + len(more)]
        return [*fetched, session.eval(table), session.eval(bias)]


@compiled
@pytest.mark.parametrize(
    ("optimizer", "width", "old"),
    [
        (lambda: pd.SGDOptimizer(0.1), 1, False),
        (lambda: pd.SGDOptimizer(0.1), 1, True),
        (lambda: pd.AdamOptimizer(0.1), 2, True),
    ],
)
def test_a_step_is_one_program(optimizer, width, old, monkeypatch):
    """It gives what two programs give; a table that is fetched beside is the one from before."""
    from pd_core.backend import ort

    opened = []
    real = ort.session

    def session(*args, **options):
        opened.append(options["libraries"])
        return real(*args, **options)

    monkeypatch.setattr(ort.OrtBackend.compile, "__defaults__", (ort.NO_SEAM, session))
    found = trained(True, optimizer, width, old)
    with_libraries = [each for each in opened if each]
    assert len(with_libraries) == 1
    for one, other in zip(found, trained(False, optimizer, width, old), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@compiled
def test_a_step_that_fails_writes_nothing():
    """What fails needs nothing of the table, and might come after the write."""
    ids, other = pd.Variable([None, 2], dtype="int64"), pd.Variable([None], dtype="int64")
    table = pd.Variable("table", data=np.ones((HEIGHT, 1), np.float32), row_sparse=True)
    picks = pd.gather(np.arange(4, dtype=np.float32), other)
    loss = pd.reduce_mean(pd.square(pd.reduce_sum(pd.gather(table, ids), [1, 2])))
    update = pd.SGDOptimizer(0.1).minimize(loss)
    good, bad = np.array([[0, 1], [1, 2]]), np.array([[0, HEIGHT], [1, 2]])
    with pd.Session(fused=True) as session:
        for index, pick in [(good, 4), (bad, 3)]:
            with pytest.raises(pd.OutOfRange, match="is outside"):
                session.eval([loss, picks, update], {ids: index, other: np.array([pick])})
            np.testing.assert_array_equal(session.eval(table), 1.0)
        session.eval([loss, picks, update], {ids: good, other: np.array([3])})
        assert (session.eval(table)[:3] < 1).all()


@compiled
def test_results_whose_size_depends_on_values():
    """A result is not of the size that an imported model declares: rows are written once anyway."""
    x = pd.Variable("x", shape=[None])
    wrong = refined(apply("Compress", x, x > 0, axis=0), x.dims)
    table = pd.Variable("table", data=np.zeros((HEIGHT, 1), np.float32), row_sparse=True)
    ids = pd.Variable([None], dtype="int64")
    loss = pd.reduce_sum(pd.square(pd.gather(table, ids) - 1.0)) * 0.5
    update = pd.SGDOptimizer(0.5).minimize(loss)
    expected = np.zeros(HEIGHT, np.float32)
    with pd.Session(fused=True) as session:
        for k in (3, 3, 3, 3, 2, 1, 3, 0, 3):
            feed = np.where(np.arange(3) < k, 1, 0).astype(np.float32)
            ones = session.eval([wrong, loss, update], {x: feed, ids: np.array([k, 7])})[0]
            expected[[k, 7]] += 0.5 * (1 - expected[[k, 7]])
            assert ones.size == k
            np.testing.assert_array_equal(session.eval(table)[:, 0], expected)


@compiled
def test_two_optimizers_on_one_table():
    def values(fused):
        ids = pd.Variable([None], dtype="int64")
        table = pd.Variable("table", data=np.ones((HEIGHT, 1), np.float32), row_sparse=True)
        loss = pd.reduce_mean(pd.square(pd.gather(table, ids) - 3.0))
        updates = [each.minimize(loss) for each in (pd.SGDOptimizer(0.1), pd.AdamOptimizer(0.1))]
        with pd.Session(fused=fused) as session:
            for k in range(6):
                session.eval(updates[k % 2], {ids: np.array([k, 5, 5, 22 - k])})
            return session.eval(table)

    np.testing.assert_allclose(values(True), values(False), rtol=1e-6)


@pytest.mark.parametrize("fused", [False, pytest.param(True, marks=compiled)])
def test_values_that_are_the_table_itself(fused):
    """What is added has the memory of the table: it is read before anything is written."""
    start = np.arange(6, dtype=np.float32)[:, None] + 1
    table = pd.Variable("table", data=start)
    other = pd.Variable("other", data=np.zeros(1, np.float32))
    index = np.array([[1], [2], [3], [4], [5], [0]])
    view = pd.apply("Reshape", table, np.array([6, 1]))
    new = pd.apply("ScatterElements", table, index, view, axis=0, reduction="add")
    graph = graph_of([], [(table, new), (other, other + 1.0)], [], True, {})
    for waits in (False, True):
        assert not any(stage.in_place for stage in stages(graph, writes_wait=waits))
    with pd.Session(fused=fused) as session:
        session.eval([pd.assign(table, new), pd.assign(other, other + 1.0)])
        expected = start.copy()
        expected[index[:, 0]] += start
        np.testing.assert_array_equal(session.eval(table), expected)


@compiled
@pytest.mark.parametrize("height", [100, 40_000])
def test_numbers_of_a_long_vector(height):
    """They are asked for some places ahead; the last ones have none after them."""
    ids = pd.Variable([None, 5], dtype="int64")
    table = pd.Variable("table", data=np.arange(height, dtype=np.float32)[:, None])
    total = pd.reduce_sum(pd.gather(table, ids), [1, 2])
    rng = np.random.default_rng(0)
    with pd.Session(fused=True) as session:
        for n in (1, 12, 13, 500):
            index = rng.integers(-height, height, (n, 5))
            found = session.eval(total, {ids: index})
            np.testing.assert_array_equal(found, (index % height).sum(1).astype("f"))
        index[-1, -1] = height
        with pytest.raises(pd.OutOfRange, match="is outside"):
            session.eval(total, {ids: index})
