"""Files of ONNX Runtime's quantizers: imported, trained, adapted, written again."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import pd_core as pd
from pd_core.commands.main import main

from ...training.tuning import models
from .test_import import compared, model_of

NETWORK = (
    "(float[N,3,8,8] x) => (float[N,5] y) { a = Conv<pads=[1,1,1,1]>(x, W1, b1) b = Relu(a)"
    " c = Conv<pads=[1,1,1,1],strides=[2,2]>(b, W2, b2) d = Conv<strides=[2,2]>(b, W3, b3)"
    " e = Add(c, d) f = Relu(e) g = GlobalAveragePool(f) h = Flatten(g)"
    " y = Gemm<transB=1>(h, W4, b4) }"
)
FILTERS = {"W1": (8, 3, 3, 3), "W2": (16, 8, 3, 3), "W3": (16, 8, 1, 1), "W4": (5, 16)}
SHAPES = FILTERS | {f"b{k}": FILTERS[f"W{k}"][:1] for k in (1, 2, 3, 4)}
X = np.random.default_rng(1).normal(size=(16, 3, 8, 8)).astype("float32")
LABEL = np.arange(16) % 5


@pytest.fixture(scope="module")
def tools():
    pytest.importorskip("sympy", reason="ONNX Runtime's quantization needs sympy")
    return pytest.importorskip("onnxruntime.quantization")


@pytest.fixture(scope="module")
def files(tools, tmp_path_factory):
    """Paths by the name of the way: `float`, of QDQ files, and of operators on integers."""
    folder = tmp_path_factory.mktemp("quantized")
    paths = {k: str(folder / f"{k}.onnx") for k in ("float", "qdq", "channels", "qop", "dynamic")}
    onnx.save(models.model(NETWORK, SHAPES), paths["float"])

    class Reader(tools.CalibrationDataReader):
        def __init__(self):
            self.batches = iter([{"x": X[:8]}, {"x": X[8:]}])

        def get_next(self):
            return next(self.batches, None)

    tools.quantize_static(paths["float"], paths["qdq"], Reader())
    tools.quantize_static(paths["float"], paths["channels"], Reader(), per_channel=True)
    form = tools.QuantFormat.QOperator
    tools.quantize_static(paths["float"], paths["qop"], Reader(), quant_format=form)
    tools.quantize_dynamic(paths["float"], paths["dynamic"])
    return paths


def run(model, x=X, **more):
    data = model if isinstance(model, str) else model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(data, options).run(None, {"x": x, **more})


def task(f):
    x, label = pd.Variable([None, 3, 8, 8], name="x"), pd.Variable([None], dtype="int64", name="t")
    y = f(x)
    return x, label, y, pd.reduce_mean(pd.softmax_cross_entropy(y, label))


def integers(model):
    """Return the number of stored integers of 8 bits."""
    arrays = [numpy_helper.to_array(t) for t in model.graph.initializer]
    return sum(a.size for a in arrays if a.dtype in (np.int8, np.uint8) and a.size > 1)


@pytest.mark.parametrize("form", ["qdq", "channels"])
def test_a_quantized_file_trains_and_its_step_runs_elsewhere(form, files):
    f = pd.import_onnx(files[form])
    x, label, y, cost = task(f)
    step = pd.SGDOptimizer(0.05).minimize(cost)
    exported = pd.export_step(None, step, [cost], [x, label])
    feeds = {x: X, label: LABEL}
    first = float(run(exported, t=LABEL)[0])
    costs = [float(pd.eval([cost, step], feeds)[0]) for _ in range(30)]
    assert first == pytest.approx(costs[0], rel=1e-4)
    assert costs[-1] < 0.7 * costs[0]
    float_costs = _costs_of_floats(files["float"])
    np.testing.assert_allclose(costs, float_costs, rtol=0.05)  # the rounding of 8 bits
    (plain,) = models.run(pd.export_onnx(None, [y]), x=X)
    np.testing.assert_allclose(plain, pd.eval(y, {x: X}), atol=0.1)  # an element may round up
    assert np.abs(plain - pd.eval(y, {x: X})).mean() < 0.01


def _costs_of_floats(path):
    with pd.fresh(seed=0):
        x, label, _, cost = task(pd.import_onnx(path))
        step = pd.SGDOptimizer(0.05).minimize(cost)
        return [float(pd.eval([cost, step], {x: X, label: LABEL})[0]) for _ in range(30)]


@pytest.mark.parametrize("form", ["qdq", "channels"])
@pytest.mark.parametrize("trainable", [True, False])
def test_an_untouched_file_keeps_its_integers(form, trainable, files):
    f = pd.import_onnx(files[form], trainable=trainable)
    before = onnx.load(files[form])
    x = pd.Variable([None, 3, 8, 8], name="x")
    for after in (pd.export_onnx(None, [f(x)]), pd.export_tuned(None, f)):
        assert integers(after) >= sum(map(np.prod, FILTERS.values()))
        np.testing.assert_array_equal(models.run(after, x=X)[0], models.run(before, x=X)[0])
        np.testing.assert_array_equal(*(_default(m) for m in (after, before)))
    if trainable:
        v = f.parameters["W1_quantized"]
        pd.default_session().set(v, pd.eval(v) * 1.01)
        changed = pd.export_onnx(None, [f(x)])
        assert integers(changed) < integers(after) - 200


def _default(model):
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": X})[0]


@pytest.mark.parametrize("form", ["float", "qdq", "channels"])
def test_quantized_once_however_often_a_tensor_is_read(form, files):
    """A tensor that two layers read has one range; what the file rounds is not rounded again."""
    f = pd.import_onnx(files[form])
    quantization = pd.prepare_qat(f)
    assert len(quantization.ranges) == (3 if form == "float" else 0)
    x, label, y, cost = task(f)
    step = pd.SGDOptimizer(0.05).minimize(cost)
    costs = [float(pd.eval([cost, step], {x: X, label: LABEL})[0]) for _ in range(30)]
    assert costs[-1] < 0.7 * costs[0]
    after = pd.export_tuned(None, f)
    kinds = Counter(node.op_type for node in after.graph.node)
    before = Counter(node.op_type for node in onnx.load(files[form]).graph.node)
    assert kinds["QuantizeLinear"] == (3 if form == "float" else before["QuantizeLinear"])
    assert integers(after) >= sum(map(np.prod, FILTERS.values()))
    np.testing.assert_allclose(run(after)[0], pd.eval(y, {x: X}), atol=0.05)


def test_before_any_step_the_weights_are_quantized_alone(files):
    f = pd.import_onnx(files["qdq"])
    pd.prepare_qat(f)
    np.testing.assert_allclose(run(pd.export_tuned(None, f))[0], run(files["qdq"])[0], atol=0.1)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_a_training_step_rounds_as_the_operators_do(dtype, axis, rng):
    sizes = {None: "", 0: "[6]", 1: "[5]"}[axis]
    inputs = f"float[6,5] x, float{sizes} s, {dtype}{sizes} z"
    axis_text = "" if axis is None else f"<axis={axis}>"
    text = f"({inputs}) => (float[6,5] y) {{ q = QuantizeLinear{axis_text}(x, s, z)"
    text += f" y = DequantizeLinear{axis_text}(q, s, z) }}"
    f = pd.import_onnx(models.model(text, {}, opset=21, ir=10))
    limits = np.iinfo(dtype)
    shape = () if axis is None else (6, 5)[axis : axis + 1]
    s = rng.uniform(0.01, 0.1, shape).astype("float32")
    z = rng.integers(limits.min // 2, limits.max // 2, shape).astype(dtype)
    x = (rng.standard_normal((6, 5)) * 3).astype("float32")
    x[0, 0], x[1, 1] = 1e4, -1e4  # beyond the integers
    slots = pd.Variable([6, 5]), pd.constant(s), pd.constant(z)
    y = f(*slots)
    (g,) = pd.gradients(y, [slots[0]])
    found, inside = pd.eval([y, g], {slots[0]: x}, training=True)
    np.testing.assert_array_equal(found, pd.eval(y, {slots[0]: x}))
    along = [s, z] if axis is None else [np.expand_dims(v, 1 - axis) for v in (s, z)]
    low, high = (
        (limit - along[1].astype("float64")) * along[0] for limit in (limits.min, limits.max)
    )
    np.testing.assert_array_equal(inside, (x > low) & (x < high))


# what moves elements of @, `stored` are other elements
MOVES = (
    *("Reshape(@, shape)", "Transpose(@)", "Slice(@, one, three, one)", "Squeeze(@, first)"),
    *("Split<axis=1, num_outputs=2>(@)", "Concat<axis=1>(@, @, stored)", "Unsqueeze(@, one)"),
    *("Flatten<axis=2>(@)", "Identity(@)", "Expand(@, wide)", "Tile(@, wide)", "Where(mask, @, @)"),
    *("Gather<axis=1>(@, one)", "GatherElements<axis=1>(@, places)", "GatherND(@, nd)"),
    *("DepthToSpace<blocksize=2>(@)", "SpaceToDepth<blocksize=2>(@)", "Compress<axis=1>(@, some)"),
    *("ReverseSequence<batch_axis=0, time_axis=1>(@, three)", "MaxPool<kernel_shape=[2,2]>(@)"),
)
MOVING = """
    one = Constant<value_ints=[1]>() three = Constant<value_ints=[3]>()
    shape = Constant<value_ints=[2,8]>() first = Constant<value_ints=[0]>()
    flat = Constant<value_ints=[4,8]>() wide = Constant<value_ints=[2,1,1,1]>()
    nd = Constant<value_ints=[0,2]>()
    places = Constant<value=int64[1,2,2,1] {3,3,0,1}>() mask = Constant<value=bool[2] {1,0}>()
    some = Constant<value=bool[4] {1,0,1,1}>() s = Constant<value=float {0.05}>()
    z = Constant<value=uint8 {101}>() q_stored = Constant<value=uint8[1,1,2,2] {1,200,3,4}>()
    d_stored = DequantizeLinear(q_stored, s, z)
    q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)
"""


def test_integers_that_are_moved_between_the_pair(rng):
    """They have the values and the gradients of the floats behind a pair, moved in the same way."""
    nodes, count = MOVING, len(MOVES)
    for k, move in enumerate(MOVES):
        for y in "qd":
            more = f", {y}{k}_" if "Split" in move else ""
            nodes += f" {y}{k}{more} = " + move.replace("@", y).replace("stored", f"{y}_stored")
        nodes += f" y{k} = DequantizeLinear(q{k}, s, z)"
    nodes += " q_a = Transpose(q0) q_b = Concat<axis=1>(q_a, q_a) q_c = Reshape(q_b, flat)"
    nodes += f" y{count} = DequantizeLinear(q_c, s, z) d_a = Transpose(d0)"
    nodes += f" d_b = Concat<axis=1>(d_a, d_a) d{count} = Reshape(d_b, flat)"
    names = [f"{y}{k}" for y in "yd" for k in range(count + 1)]
    outputs = ", ".join(f"float[?] {y}" for y in names)
    model = model_of(18, "float[1,4,2,2] x", outputs, nodes)
    x = rng.standard_normal((1, 4, 2, 2)).astype("float32")
    x[0, 0, 0, 0], x[0, 3, 0, 0] = 100.0, -100.0  # beyond the integers
    slots, found = compared(model, {"x": x})
    pairs = list(zip(found[: count + 1], found[count + 1 :], strict=True))
    pulled = []
    for y, d in pairs:
        weight = rng.standard_normal(y.eval({slots["x"]: x}).shape).astype("float32")
        pulled += [pd.gradients(v, [slots["x"]], [weight])[0] for v in (y, d)]
    values = pd.eval([*pulled, *found], {slots["x"]: x}, training=True)
    assert all(g.any() for g in values[: 2 * count + 2])
    moved, wanted = (np.stack(values[k : 2 * count + 2 : 2]) for k in (0, 1))
    np.testing.assert_array_equal(moved, wanted)
    for y, d in zip(values[-2 * count - 2 : -count - 1], values[-count - 1 :], strict=True):
        np.testing.assert_array_equal(y, d)


def test_another_axis_is_no_pair(rng):
    """Scales for rows that come back as scales for columns are other numbers."""
    nodes = "q = QuantizeLinear<axis=0>(x, s) y = DequantizeLinear<axis=1>(q, s)"
    model = model_of(18, "float[4,4] x, float[4] s", "float[?] y", nodes)
    feeds = {"x": rng.standard_normal((4, 4)).astype("float32")}
    slots, (y,) = compared(model, feeds | {"s": np.array([0.1, 0.2, 0.3, 0.4], "float32")})
    with pytest.raises(pd.NoGradient, match="QuantizeLinear"):
        pd.gradients(y, [slots["x"]])


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("dynamic", "nothing is trained: ConvInteger and MatMulInteger multiply integers"),
        ("qop", "node 'e_quantized', QLinearAdd: ONNX Runtime's own operator on 8-bit integers"),
    ],
)
def test_operators_on_integers_are_refused(form, message, files, tmp_path, capsys):
    assert main(["check", files[form]]) in (1, 2)
    assert message in "".join(capsys.readouterr())
    np.savez(tmp_path / "data.npz", x=X, label=LABEL)
    for command in (
        ["finetune", files[form], str(tmp_path / "data.npz")],
        ["train-step", files[form]],
    ):
        assert main([*command, "-o", str(tmp_path / "out.onnx")]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "out.onnx").exists()


# ---- adapters on frozen weights of few bits

LINEAR = "(float[N,L] x) => (float[N,5] y) { a = MatMul(x, V) b = Relu(a) y = MatMul(b, W) }"


def blockwise(tools, bits, symmetric, length):
    """Return a model with MatMulNBits, and the same with DequantizeLinear."""
    quantizer = pytest.importorskip("onnxruntime.quantization.matmul_nbits_quantizer")
    proto = models.model(LINEAR, {"V": (length, 32), "W": (32, 5)}, opset=21, ir=10)
    found = []
    for form in (tools.QuantFormat.QOperator, tools.QuantFormat.QDQ):
        config = quantizer.DefaultWeightOnlyQuantConfig(
            block_size=16, is_symmetric=symmetric, accuracy_level=0, quant_format=form, bits=bits
        )
        copy = onnx.ModelProto.FromString(proto.SerializeToString())
        quantized = quantizer.MatMulNBitsQuantizer(copy, algo_config=config)
        quantized.process()
        found.append(quantized.model.model)
    return found


@pytest.mark.parametrize("length", [32, 40], ids=["whole", "part"])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("form", [0, 1], ids=["MatMulNBits", "DequantizeLinear"])
def test_adapters_on_int4_that_stays_int4(form, symmetric, length, tools, tmp_path, rng):
    proto = blockwise(tools, 4, symmetric, length)[form]
    path, out = str(tmp_path / "m.onnx"), str(tmp_path / "out.onnx")
    onnx.save(proto, path)
    x = rng.standard_normal((12, length)).astype("float32")
    f = pd.import_onnx(path, trainable=False)
    adapters = pd.lora(f, rank=2, alpha=4)
    assert len(adapters.adapters) == 2
    slot = pd.Variable([None, length], name="x")
    label = pd.Variable([None], dtype="int64", name="t")
    y = f(slot)
    # as written: with its optimizations ONNX Runtime rounds x to 8 bits, too
    (plain,) = models.run(proto, x=x) if form else run(proto, x)
    np.testing.assert_allclose(pd.eval(y, {slot: x}), plain, atol=1e-5)
    cost = pd.reduce_mean(pd.softmax_cross_entropy(y, label))
    step = pd.AdamOptimizer(0.05).minimize(cost)
    feeds = {slot: x, label: np.arange(12) % 5}
    costs = [float(pd.eval([cost, step], feeds)[0]) for _ in range(40)]
    assert costs[-1] < 0.5 * costs[0]
    wanted = pd.eval(y, {slot: x})
    for model in (pd.export_onnx(None, [y]), pd.export_tuned(out, f)):
        (found,) = models.run(model, x=x)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        stored = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        assert sum(a.size for a in stored.values() if a.dtype.name.endswith("int4")) >= 32 * length
    assert not any(
        a.shape in ((length, 32), (32, length)) and a.dtype == np.float32 for a in stored.values()
    )
    exported = pd.export_step(None, step, [cost], [slot, label])
    assert all(
        numpy_helper.to_array(t).shape != (length, 32) or t.data_type > 20
        for t in exported.graph.initializer
    )
    assert "numbers are trained instead of" in adapters.summary()
    assert " bytes" in f.summary()


def test_what_low_bits_are_not_imported(tools):
    proto = blockwise(tools, 4, True, 32)[0]
    older = onnx.ModelProto.FromString(proto.SerializeToString())
    next(o for o in older.opset_import if not o.domain).version = 20
    with pytest.raises(pd.ModelError, match=r"MatMulNBits: scales in blocks are of opset 21"):
        pd.import_onnx(older)
    next(a for a in proto.graph.node[0].attribute if a.name == "bits").i = 2
    with pytest.raises(pd.ModelError, match="its weights have 2 bits; 4 and 8 are imported"):
        pd.import_onnx(proto)
