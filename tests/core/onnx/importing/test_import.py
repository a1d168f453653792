"""Imported models compute what ONNX Runtime computes from the file."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import pd_core as pd
from pd_core.backend import ort
from pd_core.onnx.importing.versions import adapters

# Opset, inputs, outputs and nodes in ONNX's own notation: what older opsets wrote in another way.
OLDER = [
    (11, "float[2,1,3] x", "float[?] y", "y = Squeeze<axes=[1]>(x)"),
    (11, "float[2,3] x", "float[?] y", "y = Unsqueeze<axes=[0,3]>(x)"),
    (12, "float[2,3] x", "float[?] y", "y = ReduceSum<axes=[1],keepdims=0>(x)"),
    (17, "float[2,3] x", "float[?] y", "y = ReduceMean<axes=[0]>(x)"),
    (13, "float[2,3] x", "float[?] y", "y = ReduceMax<axes=[-1]>(x)"),
    (11, "float[5,2] x", "float[?] y, float[?] z", "y, z = Split<axis=0,split=[2,3]>(x)"),
    (13, "float[6,2] x", "float[?] y, float[?] z", "y, z = Split(x)"),
    (9, "float[5,4] x", "float[?] y", "y = Slice<axes=[0,1],starts=[1,0],ends=[-1,99]>(x)"),
    (9, "float[3,4] x", "float[?] y, int64[?] z", "y, z = TopK<k=2>(x)"),
    (7, "float[3,4] x", "float[?] y", "y = Clip<min=-0.5,max=0.5>(x)"),
    (10, "float[3,4] x", "float[?] y", "y = Clip(x)"),
    (10, "float[2,3] x", "float[?] y", "y = Pad<pads=[1,0,0,2],value=3.0>(x)"),
    (7, "float[2,3] x", "float[?] y", "y = Dropout<ratio=0.3>(x)"),
    (11, "float[2,3] x", "float[?] y", "y = Dropout<ratio=0.3>(x)"),
    (11, "float[2,3,4] x", "float[?] y", "y = Softmax(x)"),
    (12, "float[2,3,4] x", "float[?] y", "y = LogSoftmax<axis=0>(x)"),
    (11, "float[2,3,4] x", "float[?] y", "y = Softmax<axis=-1>(x)"),
    (12, "float[2,3,4] x", "float[?] y", "y = Hardmax<axis=1>(x)"),
    (
        7,
        "float[1,2,3,4] x",
        "float[?] y",
        'y = Upsample<mode="nearest",scales=[1.0,1.0,2.0,3.0]>(x)',
    ),
    (
        7,
        "float[1,2,3,4] x",
        "float[?] y",
        'y = Upsample<mode="linear",scales=[1.0,1.0,2.0,2.0]>(x)',
    ),
    (
        *(9, "float[1,2,3,4] x", "float[?] y"),
        's = Constant<value=float[4] {1.0,1.0,2.0,3.0}>() y = Upsample<mode="nearest">(x, s)',
    ),
    (
        *(10, "float[1,2,4,6] x", "float[?] y"),
        's = Constant<value=float[4] {1.0,1.0,0.5,0.5}>() y = Resize<mode="nearest">(x, s)',
    ),
    (
        *(10, "float[1,2,4,6] x", "float[?] y"),
        's = Constant<value=float[4] {1.0,1.0,1.5,2.0}>() y = Resize<mode="linear">(x, s)',
    ),
    (
        *(10, "float[3,3] x", "float[?] y"),
        "i = Constant<value=int64[1,2] {2,0}>() u = Constant<value=float[1,2] {7.0,8.0}>()"
        " y = Scatter(x, i, u)",
    ),
    (
        *(10, "float[1,2,6,6] x", "float[?] y"),
        "r = Constant<value=float[1,4] {0.5,1.0,4.0,4.5}>() b = Constant<value=int64[1] {0}>()"
        " y = RoiAlign<output_height=2,output_width=2,sampling_ratio=2>(x, r, b)",
    ),
    (16, "float[1,1,4,4] x, float[1,3,3,2] g", "float[?] y", "y = GridSample(x, g)"),
    (
        *(16, "float[1,1,4,4] x, float[1,3,3,2] g", "float[?] y"),
        'y = GridSample<mode="bicubic">(x, g)',
    ),
    (17, "float[1,8,1] x", "float[?] y", "y = DFT<axis=1>(x)"),
    (
        *(17, "float[1,8] x, float[4] w", "float[?] y"),
        "s = Constant<value=int64 {2}>() y = STFT(x, s, w)",
    ),
    (
        *(18, "float[2,4,3] x, float[2] s, float[2] b", "float[?] y"),
        "y = GroupNormalization<num_groups=2>(x, s, b)",
    ),
    (
        *(8, "float[2,3,4] x, float[3] s, float[3] b, float[3] m", "float[?] y"),
        "v = Exp(m) y = BatchNormalization(x, s, b, m, v)",
    ),
]
# auto_pad, where sizes are known and where they are not
OLDER += [
    (
        22,
        f"float[1,2,{size}] x{more}",
        "float[?] y",
        f'y = {op}<{options},auto_pad="{kind}">({names})',
    )
    for size in ("5,6", "N,M")
    for kind in ("SAME_UPPER", "SAME_LOWER", "VALID")
    for op, options, more, names in (
        ("Conv", "strides=[2,1]", ", float[3,2,2,3] w", "x, w"),
        ("ConvTranspose", "strides=[3,1],dilations=[1,2]", ", float[2,3,2,2] w", "x, w"),
        ("MaxPool", "kernel_shape=[3,2],strides=[2,2]", "", "x"),
        ("AveragePool", "kernel_shape=[2,3],strides=[1,2]", "", "x"),
    )
]
OLDER += [
    (17, "float[2,3] x", "float[?] y", f"y = {op}<axes=[1]>(x)")
    for op in ("ReduceL1", "ReduceL2", "ReduceMin", "ReduceProd", "ReduceSumSquare")
]
OLDER += [
    (17, "float[2,3] x", "float[?] y", f"p = Exp(x) y = {op}<axes=[0],keepdims=0>(p)")
    for op in ("ReduceLogSum", "ReduceLogSumExp")
]
# Control flow, sequences and functions.
WHOLE = [
    (
        *(11, "float[2,3] x", "float[?] y"),
        "t = ReduceMax<keepdims=0>(x) z = Constant<value=float {100.0}>() c = Greater(t, z)"
        " y = If(c) <then_branch = g1 () => (float[2,3] a) { a = Neg(x) },"
        " else_branch = g2 () => (float[2,3] b) { d = Mul(x, t) b = Exp(d) }>",
    ),
    (
        *(13, "float[2,3] x", "float[?] y, float[?] all"),
        "n = Constant<value=int64 {4}>() c = Constant<value=bool {1}>()"
        " y, all = Loop(n, c, x) <body = g (int64 i, bool p, float[2,3] h)"
        " => (bool q, float[2,3] h2, float[2] s)"
        " { q = Identity(p) e = Sin(h) h2 = Add(e, x) a = Constant<value=int64[1] {1}>()"
        " s = ReduceSum<keepdims=0>(h2, a) }>",
    ),
    (
        *(13, "float[1,3] x", "float[?] y"),  # the state grows
        "n = Constant<value=int64 {3}>() c = Constant<value=bool {1}>()"
        " y = Loop(n, c, x) <body = g (int64 i, bool p, float[?,3] h) => (bool q, float[?,3] h2)"
        " { q = Identity(p) h2 = Concat<axis=0>(h, x) }>",
    ),
    (
        *(11, "float[2] h, float[3,5,2] x", "float[?] y, float[?] all"),
        "y, all = Scan<num_scan_inputs=1,scan_input_axes=[1],scan_input_directions=[1],"
        "scan_output_axes=[1],scan_output_directions=[1], body = g (float[2] a, float[3,2] b)"
        " => (float[2] c, float[3,2] d) { s = ReduceMax<axes=[0],keepdims=0>(b) c = Add(a, s)"
        " d = Mul(b, c) }>(h, x)",
    ),
    (
        *(13, "float[2,3] x, float[1,3] z", "float[?] y, int64 n"),
        "s = SequenceConstruct(x, z) one = Constant<value=int64 {1}>()"
        " t = SequenceInsert(s, x, one) w = SequenceErase(t, one) a = SequenceAt(w, one)"
        " u = SequenceInsert(w, a) n = SequenceLength(u) y = ConcatFromSequence<axis=0>(u)",
    ),
    (
        *(13, "float[5,2] x", "float[?] y"),
        "k = Constant<value=int64 {2}>() s = SplitToSequence<axis=0>(x, k)"
        " one = Constant<value=int64 {-1}>() y = SequenceAt(s, one)",
    ),
    (
        *(18, "float[2,3] x", "float[?] y, bool b"),
        "o = Optional(x) b = OptionalHasElement(o) y = OptionalGetElement(o)",
    ),
    (
        *(13, "float[N,2,3] x", "float[?] y"),  # the sizes that exporters compute
        "s = Shape(x) z = Constant<value=int64[1] {0}>() o = Constant<value=int64[1] {1}>()"
        " n = Slice(s, z, o) k = Constant<value=int64[1] {6}>() t = Concat<axis=0>(n, k)"
        " y = Reshape(x, t)",
    ),
    (21, "float[2,3] x", "float[?] y", "y = Mish(x)"),
]
LOCAL = """<ir_version: 8, opset_import: ["": 17, "own": 1]>
model (float[2,3] x) => (float[2,3] y) { h = own.twice<a=3.0>(x) y = own.shift(h) }
<opset_import: ["": 17, "own": 1], domain: "own">
twice <a>(x) => (y) { c = Constant<value_float: float = @a>() s = Mul(x, c) y = own.shift(s) }
<opset_import: ["": 17], domain: "own">
shift (x) => (y) { c = Constant<value_float=0.5>() y = Add(x, c) }
"""


def model_of(opset, inputs, outputs, nodes):
    outputs = outputs.replace("float[?]", "float").replace("int64[?]", "int64")
    head = f'<ir_version: 8, opset_import: ["": {opset}]>'
    text = f"{head} model ({inputs}) => ({outputs}) {{ {nodes} }}"
    model = parser.parse_model(text)
    for y in model.graph.output:  # of any rank
        y.type.tensor_type.ClearField("shape")
    return model


def arrays_of(model, rng):
    """Return random samples for the inputs; an unknown size is 4."""
    sizes = [[d.dim_value or 4 for d in i.type.tensor_type.shape.dim] for i in model.graph.input]
    names = [i.name for i in model.graph.input]
    return {n: rng.standard_normal(s).astype("float32") for n, s in zip(names, sizes, strict=True)}


def compared(model, feeds, **options):
    """Compare an imported model with ONNX Runtime; return its slots and outputs."""
    imported = pd.import_onnx(model, **options)
    known = {n: list(dims) for n, (dims, _) in imported.inputs.items()}
    slots = {n: pd.Variable(known[n], dtype=a.dtype) for n, a in feeds.items()}
    outputs = imported(**slots)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    found = pd.eval(outputs, {slots[n]: a for n, a in feeds.items()})
    wanted = ort.session(model.SerializeToString()).run(None, feeds)
    for y, got, want in zip(outputs, found, wanted, strict=True):
        assert y.dtype == want.dtype
        assert y.rank == np.ndim(want)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return slots, outputs


def label(row):
    return f"{row[0]}-{row[3].split('(')[0].split('<')[0].split()[-1]}"


@pytest.mark.parametrize("row", OLDER, ids=label)
def test_an_older_opset(row, rng):
    model = model_of(*row)
    compared(model, arrays_of(model, rng))


# Conversions that every opset needs: ONNX's node tests, in gradients/node_suite, import them, or
# rows of test_import_rare.py.
ELSEWHERE = {"LpPool", "MaxUnpool", "MeanVarianceNormalization", "Mod", "Pow"}


def test_converted_operators_have_rows():
    operators = {op for *_, nodes in OLDER + WHOLE for op in re.findall(r"\w+", nodes)}
    converted = {op for op, functions in adapters.items() if functions}
    missing = converted - operators - ELSEWHERE
    assert not missing, "they have a conversion in versions.py, and no row of OLDER"


@pytest.mark.parametrize("row", WHOLE, ids=label)
def test_control_flow_and_sequences(row, rng):
    model = model_of(*row)
    compared(model, arrays_of(model, rng))


def test_functions_of_the_file(rng):
    model = parser.parse_model(LOCAL)
    compared(model, arrays_of(model, rng))


def test_overloads_of_a_function(rng):
    """Functions of one name, told apart by the overload that a node calls."""
    model = parser.parse_model(LOCAL)
    model.ir_version = 10  # the first one with overloads
    other = model.functions.add()
    other.CopyFrom(model.functions[1])
    other.overload, other.node[1].op_type = "less", "Sub"
    model.graph.node[1].overload = "less"
    compared(model, arrays_of(model, rng))


# ---- a network: convolution, batch normalisation, pooling, a head


def network(rng, batch="N"):
    """x -> conv -> bn -> relu `stage` -> global pool -> `feature` -> gemm -> logits."""
    weights = {
        "conv.w": rng.standard_normal((4, 3, 3, 3)) * 0.3,
        "bn.scale": rng.uniform(0.5, 1.5, 4),
        "bn.shift": rng.standard_normal(4),
        "bn.mean": rng.standard_normal(4) * 0.1,
        "bn.var": rng.uniform(0.5, 1.5, 4),
        "head.w": rng.standard_normal((4, 5)),
        "head.b": np.zeros(5),
        "scale": np.float32(2.0),
    }
    nodes = [
        helper.make_node("Conv", ["x", "conv.w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node(
            "BatchNormalization", ["c", "bn.scale", "bn.shift", "bn.mean", "bn.var"], ["b"]
        ),
        helper.make_node("Relu", ["b"], ["stage"]),
        helper.make_node("GlobalAveragePool", ["stage"], ["p"]),
        helper.make_node("Flatten", ["p"], ["feature"]),
        helper.make_node("Mul", ["feature", "scale"], ["scaled"]),
        helper.make_node("Dropout", ["scaled", "ratio"], ["d"]),
        helper.make_node("Gemm", ["d", "head.w", "head.b"], ["logits"]),
    ]
    tensors = [numpy_helper.from_array(np.asarray(a, "float32"), n) for n, a in weights.items()]
    tensors.append(numpy_helper.from_array(np.float32(0.5), "ratio"))
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, 5])],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_parameters_have_the_names_of_the_file(rng):
    with pd.namespace("net"):
        f = pd.import_onnx(network(rng))
    assert list(f.inputs) == ["x"]
    assert f.outputs == ("logits",)
    assert set(f.parameters) == {
        *("conv.w", "bn.scale", "bn.shift", "bn.mean", "bn.var", "head.w", "head.b")
    }
    frozen = {n for n, v in f.parameters.items() if not v.trainable}
    assert frozen == {"bn.mean", "bn.var"}
    assert pd.trainable_variables("net/")[0].name == "net/conv.w"
    with pd.fresh():
        still = pd.import_onnx(network(rng), trainable=False)
        assert not any(v.trainable for v in still.parameters.values())


def test_outputs_are_those_of_the_file(rng):
    model = network(rng)
    images = rng.standard_normal((2, 3, 8, 8)).astype("float32")
    compared(model, {"x": images})


def test_fine_tuning(rng, tmp_path):
    model = network(rng)
    onnx.save(model, tmp_path / "net.onnx")
    f = pd.import_onnx(tmp_path / "net.onnx", training=True)
    images = rng.standard_normal((64, 3, 8, 8)).astype("float32")
    targets = rng.integers(0, 3, 64)
    x, label = pd.Variable([None, 3, 8, 8]), pd.Variable([None], dtype="int64")
    feature = f(x, output="feature")
    with pd.namespace("new"):
        logits = pd.fc(feature, 3, W="w", B="b")
    cost = pd.reduce_mean(pd.softmax_cross_entropy(logits, label))
    head = pd.AdamOptimizer(0.1).minimize(cost, var_list=pd.trainable_variables("new/"))
    every = pd.SGDOptimizer(0.05).minimize(cost)
    feeds, own = {x: images, label: targets}, ("conv.w", "bn.scale", "bn.shift")
    before = {n: f.parameters[n].val() for n in own}
    mean = f.parameters["bn.mean"].val()
    first = pd.eval(cost, feeds)
    for _ in range(10):
        pd.eval(head, feeds)
    for n in own:
        np.testing.assert_array_equal(f.parameters[n].val(), before[n])
    middle = pd.eval(cost, feeds)
    for _ in range(10):
        pd.eval(every, feeds)
    assert pd.eval(cost, feeds) < middle < first
    for n in own:
        assert (f.parameters[n].val() != before[n]).any()
    assert (f.parameters["bn.mean"].val() != mean).any()
    values, inner = pd.eval([logits, f.tensor("stage")], feeds)
    assert inner.shape == (64, 4, 8, 8)
    pd.export_onnx(tmp_path / "tuned.onnx", [logits], inputs=[x])
    again = ort.session((tmp_path / "tuned.onnx").read_bytes()).run(None, {x.name: images})
    np.testing.assert_allclose(again[0], values, rtol=1e-4, atol=1e-5)


def test_stored_statistics_stay_unless_asked_for(rng):
    f = pd.import_onnx(network(rng))
    x = pd.Variable([None, 3, 8, 8])
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(pd.square(f(x))))
    before = f.parameters["bn.mean"].val()
    pd.eval(step, {x: rng.standard_normal((4, 3, 8, 8))})
    np.testing.assert_array_equal(f.parameters["bn.mean"].val(), before)


def test_cutting(rng):
    f = pd.import_onnx(network(rng))
    x = pd.Variable([None, 3, 8, 8])
    assert f(x, output="feature").dims == (x.dims[0], 4)
    assert f(x, last_layers=-1).name == "d"
    pair = f(x, output=["stage", "logits"])
    assert [y.name for y in pair] == ["stage", "logits"]
    for bad in (0, 3, -8):
        with pytest.raises(pd.ModelError, match=f"between -7 and -1, not {bad}"):
            f(x, last_layers=bad)
    with pytest.raises(pd.ModelError, match="cut the model in two places"):
        f(x, output="feature", last_layers=-1)
    with pytest.raises(pd.ModelError, match=r"no tensor 'nowhere'; its outputs are \('logits',\)"):
        f(x, output="nowhere")


def test_called_twice_it_shares_its_parameters(rng):
    f = pd.import_onnx(network(rng))
    a, b = pd.Variable([2, 3, 8, 8]), pd.Variable([3, 3, 8, 8])
    for x in (a, b):
        f(x)
    assert len(pd.persistent_variables()) == len(f.parameters) + 2  # a and b have a full shape


# ---- files


def test_tensors_in_other_files(rng, tmp_path):
    model = network(rng)
    plain = model.SerializeToString()
    onnx.save(
        model, tmp_path / "net.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    images = rng.standard_normal((2, 3, 8, 8)).astype("float32")
    f = pd.import_onnx(str(tmp_path / "net.onnx"))
    x = pd.Variable([None, 3, 8, 8])
    wanted = ort.session(plain).run(None, {"x": images})
    np.testing.assert_allclose(pd.eval(f(x), {x: images}), wanted[0], rtol=1e-5)
    (tmp_path / "w.bin").unlink()
    with pd.fresh(), pytest.raises(pd.ModelError, match=r"'conv\.w' is in another file"):
        pd.import_onnx(tmp_path / "net.onnx")


def test_bytes(rng):
    f = pd.import_onnx(network(rng).SerializeToString())
    assert f.outputs == ("logits",)
    with pytest.raises(pd.ModelError, match="these bytes are no ONNX model"):
        pd.import_onnx(b"no model")


def test_an_operator_newer_than_the_pin_raises_the_opset(rng):
    x = pd.Variable([None, 3])
    f = pd.import_onnx(model_of(24, "float[N,3] x", "float[?] y", "y = Swish<alpha=0.5>(x)"))
    model = pd.export_onnx(None, [f(x)])
    assert model.opset_import[0].version == 24
    rows = rng.standard_normal((2, 3)).astype("float32")
    found = ort.session(model.SerializeToString()).run(None, {x.name: rows})
    np.testing.assert_allclose(found[0], rows / (1 + np.exp(-0.5 * rows)), rtol=1e-5)


def test_an_operator_newer_than_every_runtime_is_expanded(rng):
    a, b = pd.Variable([None, 4]), pd.Variable([None, 4])
    f = pd.import_onnx(
        model_of(28, "float[N,4] a, float[N,4] b", "float[?] y", "y = SwiGLU<alpha=2.0>(a, b)")
    )
    y = f(a, b)
    assert pd.export_onnx(None, [y]).opset_import[0].version == 24
    x, z = rng.standard_normal((2, 3, 4))
    np.testing.assert_allclose(
        pd.eval(y, {a: x, b: z}), x / (1 + np.exp(-2 * x)) * z, rtol=1e-5, atol=1e-6
    )


# ---- what cannot be imported


def test_an_unknown_domain_is_an_error_where_it_is_needed():
    text = """<ir_version: 8, opset_import: ["": 17, "com.other": 1]>
    model (float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Exp(x) z = com.other.Magic(y) }"""
    f = pd.import_onnx(parser.parse_model(text))
    x = pd.Variable([2, 3])
    assert f(x, output="y").dims == (2, 3)
    with pytest.raises(pd.ModelError, match=r"node 'z', Magic: the domain 'com.other' is neither"):
        f(x)


BAD = [
    (model_of(6, "float[2] x", "float[?] y", "y = Exp(x)"), "opset 6; 7 and later are imported"),
    (
        parser.parse_model(
            '<ir_version: 8, opset_import: ["own": 1]> m (float x) => (float y) { y = Exp(x) }'
        ),
        "the model names no opset of ONNX",
    ),
    (
        parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17]> m (string[2] x) => (string[2] y)'
            " { y = Identity(x) }"
        ),
        "input 'x' is no tensor of numbers",
    ),
]


@pytest.mark.parametrize(("model", "message"), BAD, ids=[message for _, message in BAD])
def test_models_that_are_refused(model, message):
    with pytest.raises(pd.ModelError, match=message):
        pd.import_onnx(model)


NODES = [
    ("float[2] x", "y = NoSuch(x)", "node 'y', NoSuch: ONNX has no such operator in opset 17"),
    ("float[2] x", "y = Add(x)", "node 'y', Add: it takes 2 inputs, 1 are there"),
    ("float[2] x, int64 k", "s = SequenceConstruct(x, x) y = SequenceAt(s, k)", "not known before"),
    ("float[2] x", "s = SequenceConstruct(x) y = Exp(s)", "does not take a sequence here"),
    ("float[2] x", "o = Optional<type=float[2]>() y = OptionalGetElement(o)", "no value in this"),
]


@pytest.mark.parametrize(("inputs", "nodes", "message"), NODES, ids=[row[1] for row in NODES])
def test_nodes_that_are_refused(inputs, nodes, message):
    f = pd.import_onnx(model_of(17, inputs, "float[?] y", nodes))
    slots = [pd.Variable(list(dims), dtype=dtype) for dims, dtype in f.inputs.values()]
    with pytest.raises(pd.ModelError, match=message):
        f(*slots)


def test_inputs_that_do_not_fit(rng):
    f = pd.import_onnx(network(rng))
    x = pd.Variable([None, 3, 8, 8])
    with pytest.raises(pd.ModelError, match=r"needs its inputs \['x'\] too"):
        f()
    with pytest.raises(pd.ModelError, match=r"2 inputs for \['x'\]"):
        f(x, x)
    with pytest.raises(pd.ModelError, match="'z' is no input that is left"):
        f(z=x)
    with pytest.raises(pd.DTypeError, match="input 'x' is float32, not int64"):
        f(pd.Variable([None, 3, 8, 8], dtype="int64"))
    with pytest.raises(pd.ShapeError, match=r"input 'x' is \[\?, 3, 8, 8\], not .*\[\?, 4, 8, 8\]"):
        f(pd.Variable([None, 4, 8, 8]))
    with pytest.raises(pd.ModelError, match=r"tensor\('stage'\): call the model first"):
        f.tensor("stage")


def test_new_layers_pass_over_the_names_of_the_file(tmp_path):
    x = pd.Variable([None, 3], name="x")
    path = str(tmp_path / "y.onnx")
    pd.export_onnx(path, [pd.fc(x, size=2)], inputs=[x])
    pd.reset()
    body = pd.import_onnx(path)
    y = pd.fc(body(pd.Variable([None, 3])), size=4)
    names = [v.name for v in pd.trainable_variables()]
    assert sorted(names) == ["fc_0.B", "fc_0.W", "fc_1.B", "fc_1.W"]
    assert y.dims[1] == 4


# ---- branches of other ranks, and names of sizes


SQUEEZED = (  # what exporters write for a squeeze of an axis that may be 1
    "s = Shape(x) o = Constant<value=int64 {1}>() a = Constant<value=int64[1] {1}>()"
    " n = Gather(s, o) c = Equal(n, o)"
    " h = If(c) <then_branch = g1 () => (float[N,3] p) { p = Squeeze(x, a) },"
    " else_branch = g2 () => (float[N,M,3] q) { q = Identity(x) }> y = ReduceMax<keepdims=0>(h)"
)


@pytest.mark.parametrize("size", [1, 2, None], ids=str)
def test_branches_of_different_ranks(size, rng):
    model = model_of(16, "float[N,M,3] x", "float[?] y", SQUEEZED)
    x = pd.Variable([None, size, 3])
    f = pd.import_onnx(model)
    y = f(x)
    assert f.tensor("h").rank == (3 if size == 2 else 2)
    for width in (1, 2) if size is None else (size,):
        rows = rng.standard_normal((4, width, 3)).astype("float32")
        if size is None and width == 2:
            with pytest.raises(pd.BackendError, match="Squeeze"):
                pd.eval(y, {x: rows})
            continue
        assert pd.eval(y, {x: rows}) == rows.max()
        (g,) = pd.gradients(y, [x])
        np.testing.assert_array_equal(pd.eval(g, {x: rows}), rows == rows.max())


def test_branches_of_ranks_that_nothing_reconciles(rng):
    nodes = (
        "h = If(c) <then_branch = g1 () => (float[?] p) { p = ReduceSum<keepdims=0>(x) },"
        " else_branch = g2 () => (float[2,3] q) { q = Neg(x) }> y = ReduceMax<keepdims=0>(h)"
    )
    f = pd.import_onnx(model_of(16, "float[2,3] x, bool c", "float[?] y", nodes))
    x, rows = pd.Variable([2, 3]), rng.standard_normal((2, 3)).astype("float32")
    with pytest.raises(pd.ModelError, match=r"'h', If: .*which one runs is not known\n  hint:"):
        f(x, pd.Variable.of((), "bool", "c"))
    assert pd.eval(f(x, True), {x: rows}) == pytest.approx(rows.sum(), rel=1e-5)
    assert pd.eval(f(x, False), {x: rows}) == (-rows).max()


def names_of(model):
    """Return the sizes of inputs and outputs by name."""
    return {
        i.name: [d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim]
        for i in (*model.graph.input, *model.graph.output)
    }


def test_names_of_sizes_survive(rng):
    nodes = "e = Exp(x) k = NonZero(e) t = Transpose(k) g = GatherND(x, t) y = Concat<axis=0>(x, z)"
    model = model_of(17, "float[tokens,3] x, float[more,3] z", "float[?] y, float[?] g", nodes)
    for y, dims in zip(model.graph.output, ((None, 3), ("found",)), strict=True):
        y.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, dims))
    f = pd.import_onnx(model)
    x, z = pd.Variable([None, 3], name="x"), pd.Variable(["extra", 3], name="z")
    y, g = f(x, z)
    written = pd.export_onnx(None, [y, g, pd.exp(y)], inputs=[x, z])
    assert names_of(written) == {
        "x": ["tokens", 3],
        "z": ["extra", 3],
        "y": ["y_0", 3],
        "g": ["found"],
        written.graph.output[2].name: ["y_0", 3],
    }
    with pd.fresh():
        f = pd.import_onnx(written)
        x, z = pd.Variable([None, 3], name="x"), pd.Variable([None, 3], name="z")
        again = pd.export_onnx(None, f(x, z, output=["y", "g"]), inputs=[x, z])
    wanted = names_of(written)
    assert names_of(again) == {name: wanted[name] for name in ("x", "z", "y", "g")}


def test_sizes_of_two_files_keep_apart(rng):
    model = model_of(17, "float[N,3] x", "float[N,3] y", "y = Exp(x)")
    a, b = pd.Variable([None, 3], name="a"), pd.Variable([None, 3], name="b")
    outputs = [pd.import_onnx(model)(a), pd.import_onnx(model)(b)]
    names = names_of(pd.export_onnx(None, outputs, inputs=[a, b]))
    assert names["a"] == ["N", 3] and names["b"] == ["N_2", 3]


def test_a_size_that_the_file_says_is_another_input_s(rng):
    """It keeps the name that the file gives it; nothing checks that it is the other."""
    nodes = "k = NonZero(x) t = Transpose(k) y = GatherND(x, t)"
    model = model_of(17, "float[rows] x", "float[?] y", nodes)
    model.graph.output[0].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, ("rows",)))
    for name, wanted in ("mine", ["mine", "rows"]), (None, ["rows", "rows_2"]):
        with pd.fresh():
            x = pd.Variable([name], name="x")
            names = names_of(pd.export_onnx(None, pd.import_onnx(model)(x), inputs=[x]))
        assert names == {"x": wanted[:1], "y": wanted[1:]}
