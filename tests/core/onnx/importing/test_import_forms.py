"""Forms of a file that mean the same: inputs left out by "", nodes in any order, branches."""

import numpy as np
import pytest
from onnx import ModelProto, defs

import pd_core as pd
from pd_core.backend import ort

from .test_import import WHOLE, arrays_of, compared, label, model_of

# Operators with optional inputs, of which the last ones are left out: opset, inputs, node
OPTIONAL = [
    (18, "float[2,3] x, int64[4] p", "Pad(x, p)"),
    (18, "float[2,3] x", "Clip(x)"),
    (18, "float[2,3] x, float low", "Clip(x, low)"),
    (18, "float[2,3] x", "Dropout(x)"),
    (18, "float[1,2,5] x, float[3,2,2] w", "Conv(x, w)"),
    (18, "float[1,2,5] x, float[2,3,2] w", "ConvTranspose(x, w)"),
    (19, "float[1,1,4,4] x, float[1,1,2,2] w, float[1,8,3,3] o", "DeformConv(x, w, o)"),
    (18, "float[2,3] x, float[3,2] w", "Gemm(x, w)"),
    (18, "float[2,3] x, float[3] s", "LayerNormalization(x, s)"),
    (18, "float[4,1,2] x, float[1,12,2] w, float[1,12,3] r", "LSTM<hidden_size=3>(x, w, r)"),
    (18, "float[4,1,2] x, float[1,9,2] w, float[1,9,3] r", "GRU<hidden_size=3>(x, w, r)"),
    (18, "float[4,1,2] x, float[1,3,2] w, float[1,3,3] r", "RNN<hidden_size=3>(x, w, r)"),
    *(
        (18, "float[2,3] x", f"Reduce{kind}<keepdims=0>(x)")
        for kind in ("Sum", "Mean", "L2", "Max")
    ),
    (18, "float[1,1,3,3] x, float r, float[4] s", "Resize(x, r, s)"),
    (18, "float[3,2] x, int64[1] a, int64[1] b", "Slice(x, a, b)"),
    (18, "float[2,1,3] x", "Squeeze(x)"),
    (18, "float[4,3] x", "Split<num_outputs=1>(x)"),
    (18, "float[3,3] x", "Trilu(x)"),
    (18, "float[2,3] x, int64[2] t", "NegativeLogLikelihoodLoss(x, t)"),
    (18, "float[2,3] x, int64[2] t", "SoftmaxCrossEntropyLoss(x, t)"),
    (20, "float[1,6,1] x", "DFT(x)"),
    (17, "float[1,9,1] x, int64 s, float[4] w", "STFT(x, s, w)"),
    (23, "float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v", "Attention(q, k, v)"),
]
FIXED = {
    "Pad": {"p": [0, 1, 1, 0]},
    "Clip": {"low": -0.5},
    "Resize": {"r": 0.0, "s": [1.0, 1.0, 2.0, 2.0]},
    "Slice": {"a": [1], "b": [3]},
    "STFT": {"s": 2},
    "NegativeLogLikelihoodLoss": {"t": [2, 0]},
    "SoftmaxCrossEntropyLoss": {"t": [2, 0]},
}


def derivatives(model, arrays):
    """Return the outputs of a model, and the gradients of their sum of sines for its inputs."""
    pd.reset(seed=0)
    f = pd.import_onnx(model)
    slots = [pd.Variable(x.shape, dtype=x.dtype) for x in arrays]
    y = f(*slots)
    outputs = [v for v in (y if isinstance(y, tuple) else (y,)) if v.dtype == np.float32]
    floats = [x for x in slots if x.dtype == np.float32]
    cost = sum(pd.reduce_sum(pd.sin(v)) for v in outputs)
    found = [g for g in pd.gradients(cost, floats) if g is not None]
    return pd.eval([*outputs, *found], dict(zip(slots, arrays, strict=True)))


@pytest.mark.parametrize("row", OPTIONAL, ids=lambda row: row[2].split("(")[0].split("<")[0])
def test_inputs_left_out_at_the_end(row, rng):
    """A name "" for an optional input is the same as none."""
    opset, inputs, node = row
    model = model_of(opset, inputs, "float[?] y", f"y = {node}")
    (proto,) = model.graph.node
    schema = defs.get_schema(proto.op_type, opset)
    copy = ModelProto.FromString(model.SerializeToString())
    copy.graph.node[0].input.extend([""] * (len(schema.inputs) - len(proto.input)))
    assert len(copy.graph.node[0].input) > len(proto.input)
    arrays = [
        np.array(
            FIXED[proto.op_type][i.name], {1: "float32", 7: "int64"}[i.type.tensor_type.elem_type]
        )
        if i.name in FIXED.get(proto.op_type, {})
        else rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim]).astype(
            "float32"
        )
        for i in model.graph.input
    ]
    for a, b in zip(*(derivatives(form, arrays) for form in (model, copy)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("row", [r for r in WHOLE if r[3].count("=") > 1], ids=label)
def test_nodes_in_another_order(row, rng):
    model = model_of(*row)
    for owner in (model.graph, *(a.g for n in model.graph.node for a in n.attribute)):
        nodes = list(owner.node)
        del owner.node[:]
        owner.node.extend(nodes[::-1])
    compared(model, arrays_of(model, rng))


def test_nodes_of_a_function_in_another_order(rng):
    model = model_of(17, "float[2,3] x", "float[?] y", "a = Exp(x) b = Neg(a) y = Add(a, b)")
    function = model.functions.add(name="f", domain="own", input=["x"], output=["y"])
    function.node.extend(list(model.graph.node)[::-1])
    function.opset_import.extend(model.opset_import)
    del model.graph.node[:]
    model.graph.node.add(op_type="f", domain="own", input=["x"], output=["y"])
    model.opset_import.add(domain="own", version=1)
    x = rng.standard_normal((2, 3)).astype("float32")
    y = pd.import_onnx(model)(pd.constant(x))
    np.testing.assert_allclose(pd.eval(y), np.exp(x) - np.exp(x), atol=1e-6)


def test_a_circle_of_nodes_is_refused():
    nodes = "a = Add(x, c) b = Neg(a) c = Exp(b) y = Neg(x)"
    model = model_of(17, "float[2,3] x", "float[?] y", nodes)
    with pytest.raises(pd.DamagedModel, match=r"the values \['a', 'b', 'c'\] .* in a circle"):
        pd.import_onnx(model)


BRANCHES = (
    "y = If(c) <then_branch = g1 () => (float p) { p = Neg(x) },"
    " else_branch = g2 () => (float q) { q = Exp(x) }>"
)


@pytest.mark.parametrize("sizes", ["[]", "[1]", "[1,1]", "[1,1,1]"])
@pytest.mark.parametrize("condition", [True, False])
def test_a_condition_of_one_element_has_any_rank(sizes, condition, rng):
    rank = sizes.count("1")
    model = model_of(17, f"float[2,3] x, bool{sizes if rank else ''} c", "float[?] y", BRANCHES)
    feeds = {"x": rng.standard_normal((2, 3)).astype("float32")}
    compared(model, {**feeds, "c": np.full((1,) * rank, condition)})


# A convolution over [N, 3, L], or over one sample [3, L]
RANKS = (
    "y = If(c) <then_branch = g1 () => (float p) { p = Conv(x, w) }, else_branch = g2 () =>"
    " (float q) { a = Constant<value=int64[1] {0}>() u = Unsqueeze(x, a) v = Conv(u, w)"
    " q = Squeeze(v, a) }>"
)


def of_any_rank():
    model = model_of(17, "float x, float[4,3,2] w, bool c", "float[?] y", RANKS)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    for a in model.graph.node[0].attribute:
        a.g.output[0].type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize("rank", [3, 2])
def test_a_branch_for_another_rank(rank, rng):
    """It is never taken; where it is, the evaluation fails as ONNX Runtime's does."""
    model = of_any_rank()
    arrays = {"x": (2, 3, 5)[-rank:], "w": (4, 3, 2)}
    feeds = {n: rng.standard_normal(s).astype("float32") for n, s in arrays.items()}
    slots = {n: pd.Variable(a.shape) for n, a in feeds.items()}
    c = pd.Variable([], dtype="bool")
    y = pd.import_onnx(model)(**slots, c=c)
    given = {slots[n]: a for n, a in feeds.items()}
    found, *slopes = pd.eval([y, *pd.gradients(y, list(slots.values()))], {**given, c: rank == 3})
    runtime = ort.session(model.SerializeToString())
    (wanted,) = runtime.run(None, {**feeds, "c": np.array(rank == 3)})
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    batch = feeds["x"].reshape(-1, 3, 5)
    windows = np.stack([batch[..., :-1].sum((0, 2)), batch[..., 1:].sum((0, 2))], -1)
    np.testing.assert_allclose(slopes[1], np.tile(windows, (4, 1, 1)), rtol=1e-5)
    with pytest.raises(pd.BackendError, match="Gather, built at"):
        pd.eval(y, {**given, c: rank != 3})


def test_branches_that_both_do_not_fit():
    model = of_any_rank()
    slots = pd.Variable([5]), pd.Variable([4, 3, 2]), pd.Variable([], dtype="bool")
    with pytest.raises(pd.ModelError, match="node 'p', Conv"):
        pd.import_onnx(model)(*slots)


# Spectra of signals of any size, and what is computed from them
SPECTRA = {
    "stft": "f = STFT(x, s, w) e = ReduceSumSquare<axes=[-1],keepdims=0>(f) y = Sqrt(e)",
    "stft of [N, L, 1]": "u = Unsqueeze(x, two) f = STFT(u, s, w)"
    " e = ReduceSumSquare<axes=[-1],keepdims=0>(f) t = Transpose<perm=[0,2,1]>(e)"
    " y = MatMul(k, t)",
    "dft": "u = Unsqueeze(x, two) f = DFT<axis=1,onesided=1>(u)"
    " e = ReduceSumSquare<axes=[-1],keepdims=0>(f) y = Sqrt(e)",
    "dft and back": "u = Unsqueeze(x, two) f = DFT<axis=1>(u) g = DFT<axis=1,inverse=1>(f)"
    " r = Gather<axis=2>(g, zero) y = Concat<axis=0>(r, x)",
    "filtered": "u = Unsqueeze(x, two) f = DFT<axis=1>(u) z = Shape(f)"
    " o = Constant<value=float {1}>() m = Expand(o, z) h = Mul(f, m)"
    " g = DFT<axis=1,inverse=1>(h) y = ReduceSum<keepdims=0>(g)",
}


@pytest.mark.parametrize("nodes", SPECTRA.values(), ids=SPECTRA)
def test_spectra_of_unknown_sizes(nodes, rng):
    given = (
        "s = Constant<value=int64 {4}>() two = Constant<value=int64[1] {2}>()"
        " zero = Constant<value=int64 {0}>()"
        " w = Constant<value=float[8] {0.1,0.5,0.9,1.0,1.0,0.9,0.5,0.1}>() "
    )
    model = model_of(17, "float[N,M] x, float[2,5] k", "float[?] y", given + nodes)
    feeds = arrays_of(model, rng)
    feeds["x"] = rng.standard_normal((3, 32)).astype("float32")
    slots, (y,) = compared(model, feeds)
    given = {slots[n]: a for n, a in feeds.items()}
    (g,) = pd.gradients(pd.reduce_sum(pd.tanh(y * 0.1)), [slots["x"]])
    direction, h = rng.standard_normal((3, 32)).astype("float32"), 1e-2
    slope = np.vdot(pd.eval(g, given), direction)
    ends = [{**given, slots["x"]: feeds["x"] + k * h * direction} for k in (1, -1)]
    costs = [float(np.tanh(pd.eval(y, end).astype("float64") * 0.1).sum()) for end in ends]
    assert slope == pytest.approx((costs[0] - costs[1]) / (2 * h), rel=3e-2, abs=3e-2)


SINGLE = """
    one = Constant<value=float[1] {1}>() p = Constant<value=int64[4] {0,1,0,1}>()
    four = Constant<value=int64[1] {4}>() values = Constant<value=float[2] {0,1}>()
    k = Constant<value=int64[1] {1}>() l = Constant<value=int64 {0}>()
    t = Add(s, one) a = Clip(x, s, t) b = Clip(x, u, t) c = Range(s, t, t) d = Pad(x, p, s)
    e = CumSum(x, k) f = Trilu(x, k) g = Unsqueeze(x, l)
    v = SplitToSequence(x) w = SequenceAt(v, k) n = SequenceInsert(v, w, k)
    o = ConcatFromSequence<axis=0>(n) m = ArgMax(x) i = OneHot(m, four, values)
"""


def test_inputs_of_one_element_have_two_ranks(rng):
    """ONNX Runtime takes scalars and vectors, whichever ONNX wants, stored or fed."""
    results = ", ".join(f"float[?] {y}" for y in "abcdefgoi")
    model = model_of(18, "float[2,3] x, float[1] s, float u", results, SINGLE)
    feeds = {n: np.asarray(abs(a)) for n, a in arrays_of(model, rng).items()}
    slots, outputs = compared(model, feeds)
    given = {slots[n]: a for n, a in feeds.items()}
    for y in (outputs[k] for k in (2, 3)):  # with slopes in s: a range begins there, pads are it
        (g,) = pd.gradients(pd.reduce_sum(y), [slots["s"]])
        assert pd.eval(g, given).shape == (1,)
