"""Values added to rows of tables, and sorting, against ONNX Runtime and NumPy to the bit."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import pd_core as pd
from pd_core.backend.fused.build import available, build
from pd_core.backend.fused.rows import fuse
from tests.core.backend.fused.alone import kinds_of, model_of, opened, run

pytestmark = pytest.mark.skipif(not available(), reason="there is no C compiler here")

N = helper.make_node
FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE
INT32, INT64 = TensorProto.INT32, TensorProto.INT64
TYPES = {INT32: np.int32, INT64: np.int64}


def fused(model):
    """Return (the fused model, its library or None)."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    source, _ = fuse(copy, kinds_of(model))
    return copy, None if source is None else build(source)


def ops_of(model):
    """Return the types of the operators."""
    return [node.op_type for node in model.graph.node]


def flat(kind, x=("v",), index=("n",), element=FLOAT, **attributes):
    """Return a model of one ScatterElements."""
    given = {"axis": 0, "reduction": "add", **attributes}
    inputs = {
        "x": (element, list(x)),
        "index": (kind, list(index)),
        "added": (element, list(index)),
    }
    return model_of([N("ScatterElements", ["x", "index", "added"], ["y"], **given)], inputs, ["y"])


def by_rows(width, height):
    """Return a model that adds rows, as the flat elements that gradients of embeddings are."""
    nodes = [
        N("Mul", ["row", "width"], ["start"]),
        N("Add", ["start", "columns"], ["element"]),
        N("Reshape", ["element", "all"], ["index"]),
        N("Reshape", ["values", "all"], ["added"]),
        N("Reshape", ["table", "all"], ["x"]),
        N("ScatterElements", ["x", "index", "added"], ["sums"], axis=0, reduction="add"),
        N("Reshape", ["sums", "shape"], ["y"]),
    ]
    inputs = {"table": (FLOAT, [height, width]), "row": (INT64, ["n", 1])}
    inputs["values"] = (FLOAT, ["n", width])
    constants = {"width": np.array(width), "columns": np.arange(width), "all": np.array([-1])}
    return model_of(nodes, inputs, ["y"], {**constants, "shape": np.array([-1, width])})


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("kind", [INT32, INT64])
def test_elements(kind, column):
    """Indices may repeat and count from the end; sums are made in their order."""
    more = [1] if column else []
    model = flat(kind, ["v", *more], ["n", *more])
    changed, library = fused(model)
    assert ops_of(changed) == ["AddRows64" if kind == INT64 else "AddRows32"]
    rng = np.random.default_rng(0)
    for v, n in [(7, 0), (1, 3), (50, 1000), (100_000, 60_000)]:
        feeds = {
            "x": rng.normal(size=[v, *more]).astype("f"),
            "index": rng.integers(-v, v, [n, *more]).astype(TYPES[kind]),
            "added": (rng.normal(size=[n, *more]) * 1e3).astype("f"),
        }
        expected = feeds["x"].copy()
        np.add.at(expected, feeds["index"].reshape(-1), feeds["added"].reshape([-1, *more]))
        found = run(changed, feeds, library)["y"]
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(found, run(model, feeds)["y"])


@pytest.mark.parametrize("width", [1, 3, 64, 100, 300])
def test_rows(width):
    """The places of elements are not computed: an operator takes the index of the rows."""
    model = by_rows(width, 23)
    changed, library = fused(model)
    assert ops_of(changed) == ["Reshape", "AddRows64", "Reshape"]
    rng = np.random.default_rng(width)
    for n in [0, 1, 40, 1000]:
        feeds = {
            "table": rng.normal(size=[23, width]).astype("f"),
            "row": rng.integers(-23, 23, [n, 1]),
            "values": rng.normal(size=[n, width]).astype("f"),
        }
        expected = feeds["table"].copy()
        np.add.at(expected, feeds["row"][:, 0], feeds["values"])
        found = run(changed, feeds, library)["y"]
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(found, run(model, feeds)["y"])


@pytest.mark.parametrize("index", [23, -24, 2**40, -(2**63)])
def test_nothing_is_written_before_an_error(index):
    changed, library = fused(flat(INT64))
    session = opened(changed, library)
    table = np.zeros(23, np.float32)
    value = onnxruntime.OrtValue.ortvalue_from_numpy(table)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_ortvalue_output("y", value)  # as the buffers of tables are
    binding.bind_cpu_input("added", np.ones(3, np.float32))
    binding.bind_cpu_input("index", np.array([1, index, 2]))
    with pytest.raises(Exception, match=rf"idx={index} must be within .* \[-23, 22\]"):
        session.run_with_iobinding(binding)
    assert not value.numpy().any()
    binding.bind_cpu_input("index", np.array([1, -22, 2]))
    session.run_with_iobinding(binding)
    assert value.numpy()[:4].tolist() == [0, 2, 1, 0]


def test_other_numbers_of_values_are_an_error():
    """By their types there are as many as indices, but not at run time."""
    changed, library = fused(flat(INT64))
    feeds = {"x": np.zeros(4, "f"), "index": np.arange(3), "added": np.zeros(6, "f")}
    with pytest.raises(Exception, match="do not have the sizes of their index"):
        run(changed, feeds, library)


def test_sorting():
    """Equal integers keep their order."""
    nodes = [N("Shape", ["x"], ["n"]), N("TopK", ["x", "n"], ["y", "order"], axis=0, largest=0)]
    model = model_of(nodes, {"x": (INT64, ["k"])}, ["y", "order"])
    kinds = kinds_of(model) | {"y": (INT64, ("k",))}
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    source, found = fuse(changed, kinds)
    assert found.sorts == 1 and ops_of(changed) == ["Sort"]
    library, rng = build(source), np.random.default_rng(1)
    ends = np.array([2**63 - 1, 0, -1, -(2**63), 255, 256, -256])
    samples = [rng.integers(-5, 5, n) for n in (0, 1, 2, 32, 33)]
    samples += [rng.integers(0, 10**6, 5000), rng.choice(ends, 100), np.full(50, 7)]
    for x in samples:
        result = run(changed, {"x": x}, library)
        order = np.argsort(x, kind="stable")
        np.testing.assert_array_equal(result["order"], order)
        np.testing.assert_array_equal(result["y"], x[order])


@pytest.mark.parametrize(
    "model",
    [
        flat(INT64, element=DOUBLE),
        flat(INT64, reduction="none"),
        flat(INT64, reduction="max"),
        flat(INT64, ["v", 3], ["n", 3]),
        flat(INT64, ["v", 2], ["n", 1]),
        flat(INT64, [1, "v"], [1, "n"], axis=1),
        model_of(
            [N("TopK", ["x", "k"], ["y", "order"], axis=0, largest=0)],
            {"x": (INT64, ["n"]), "k": (INT64, [1])},
            ["y", "order"],
        ),
    ],
)
def test_others_stay(model):
    changed, library = fused(model)
    assert library is None and changed == model


def test_a_step_on_a_table_has_the_same_bits():
    """Rows of a table of several columns: sorted, summed where equal, and updated."""

    def trained():
        ids, target = pd.Variable([None], dtype="int64"), pd.Variable([None, 8])
        start = np.linspace(-1, 1, 160, dtype=np.float32).reshape(20, 8)
        table = pd.Variable("table", data=start, row_sparse=True)
        loss = pd.reduce_mean(pd.square_error(pd.gather(table, ids), target))
        update = pd.SGDOptimizer(0.5).minimize(loss)
        rng = np.random.default_rng(0)
        with pd.Session() as session:
            for n in (5, 40, 40, 1):
                feeds = {ids: rng.integers(-20, 20, n), target: rng.normal(size=(n, 8))}
                session.eval([loss, update], feeds)
            return session.eval(table)

    expected = trained()
    with pd.fused():
        np.testing.assert_allclose(trained(), expected, rtol=1e-5, atol=1e-6)


def test_an_index_out_of_range_names_the_value():
    """The error of the kernel is that of the unfused operator."""
    ids = pd.Variable([None], dtype="int64")
    total = pd.scatter_add(np.zeros(5, np.float32), ids, pd.cast(ids, "float32"))
    for session in (pd.Session(), pd.Session(fused=True)):
        with session, pytest.raises(pd.OutOfRange, match=r"9 in row 1 is outside -5 … 4"):
            session.eval(total, {ids: np.array([1, 9])})


def _outside(fused, bad):
    """The error of a step whose groups read rows by several indices, and the table after it."""
    ids, places = (pd.Variable(name, shape=[None], dtype="int64") for name in ("ids", "places"))
    label = pd.Variable("label", shape=[None], dtype="int64")
    table = pd.Variable("table", data=np.ones((5, 4), np.float32), row_sparse=True)
    other = pd.Variable("other", data=np.ones((7, 4), np.float32))
    scores = pd.tanh(pd.gather(table, ids) + pd.gather(other, places))
    loss = pd.reduce_mean(pd.softmax_cross_entropy(scores, label))
    update = pd.MomentumOptimizer(0.1).minimize(loss)
    feeds = {ids: np.array([0, 4, 2]), places: np.array([6, 0, -7]), label: np.array([3, 0, 1])}
    for v in feeds:
        if v.name in bad:
            feeds[v][1] = bad[v.name]
    with pd.Session(fused=fused) as session:
        with pytest.raises(pd.OutOfRange) as error:
            session.eval([loss, update], feeds)
        return str(error.value).split("\n")[0], session.eval(table)


@pytest.mark.parametrize(
    "bad",
    [
        {"ids": 5},
        {"ids": -6},
        {"ids": -(2**63)},
        {"ids": 2**63 - 1},
        {"places": 7},
        {"places": -8},
        {"label": 4},
        {"label": -1},
    ],
    ids=str,
)
def test_an_index_of_a_group_out_of_range(bad):
    """It is named as in the unfused program, whichever operator of a group it belongs to."""
    found, table = _outside(True, bad)
    assert found == _outside(False, bad)[0]
    assert found.startswith(next(iter(bad)))
    np.testing.assert_array_equal(table, 1.0)


def test_an_index_of_a_loop_out_of_range():
    """The kernel names the index, as the body of a loop cannot be computed again."""
    x = pd.Variable("x", shape=[None], dtype="int64")
    rows = np.arange(5, dtype=np.float32)

    def step(total, k):
        total = total + pd.tanh(pd.gather(rows, k)) * 2.0
        return total, total

    texts = []
    for fused in (False, True):
        with pd.fresh(), pd.Session(fused=fused) as session:
            y = pd.scan(step, np.float32(0), x)[1]
            with pytest.raises(pd.OutOfRange) as error:
                session.eval(y, {x: np.array([1, 9])})
            texts.append(str(error.value).split("\n")[0])
    assert texts[0] == texts[1]
