"""Operators that ONNX Runtime's optimizers write, beside ONNX Runtime's kernels of them."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import pd_core as pd
from tests.campaign.models.check import plain, verdicts

rng = np.random.default_rng(5)


def r(*shape, dtype="float32"):
    return rng.uniform(-1.5, 1.5, shape).astype(dtype)


def ids(high, *shape):
    return rng.integers(0, high, shape).astype(np.int32)


def model(op_type, *arrays, outputs="y", stored=(), domain="com.microsoft", opset=17, **attributes):
    """A model of one operator on arrays, None for one left out, and its feeds."""
    named = {f"x{k}": x for k, x in enumerate(arrays) if x is not None}
    names = [f"x{k}" if x is not None else "" for k, x in enumerate(arrays)]
    node = helper.make_node(op_type, names, outputs.split(" "), "n", domain=domain, **attributes)
    feeds = {n: x for n, x in named.items() if int(n[1:]) not in stored}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in feeds.items()
    ]
    results = [helper.make_empty_tensor_value_info(y) for y in outputs.split(" ") if y]
    tensors = [numpy_helper.from_array(x, n) for n, x in named.items() if n not in feeds]
    graph = helper.make_graph([node], "g", inputs, results, tensors)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds


B, T, L, N, D = 2, 3, 5, 2, 4
H = N * D
KEYS = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)
PLACES = np.arange(8)[:, None] * np.arange(1, 3, dtype=np.float32) / 7
WAVES = np.cos(PLACES).astype("float32"), np.sin(PLACES).astype("float32")
HALF_WAVES = tuple(v[:, :1].copy() for v in WAVES)
MASK = np.array([[1, 1, 0], [1, 0, 1]], np.int32)
X, GAMMA, BETA, BIAS = r(2, 3, 4), r(4), r(4), r(4)
IMAGE, FILTERS = r(1, 2, 5, 5), r(3, 2, 3, 3)
START = rng.bit_generator.state


@pytest.fixture(autouse=True)
def _same_numbers():
    """Each test draws the same arrays, whichever ran before."""
    rng.bit_generator.state = START


CASES = {
    "Gelu": lambda: model("Gelu", r(2, 3)),
    "QuickGelu": lambda: model("QuickGelu", r(2, 3)),
    "QuickGelu, alpha": lambda: model("QuickGelu", r(2, 3), alpha=0.7),
    "BiasGelu": lambda: model("BiasGelu", X, BIAS, stored=(1,)),
    "FastGelu": lambda: model("FastGelu", X),
    "FastGelu, bias": lambda: model("FastGelu", X, BIAS),
    "FusedMatMul": lambda: model("FusedMatMul", r(2, 3), r(3, 4), alpha=0.5),
    "FusedMatMul, A": lambda: model("FusedMatMul", r(3, 2), r(3, 4), transA=1, opset=11),
    "FusedMatMul, B": lambda: model("FusedMatMul", r(5, 2, 3), r(4, 3), transB=1, stored=(1,)),
    "FusedMatMul, batch A": lambda: model("FusedMatMul", r(3, 5, 2), r(5, 2, 4), transBatchA=1),
    "FusedMatMul, batch of A and A": lambda: model(
        "FusedMatMul", r(2, 5, 3), r(5, 2, 4), transBatchA=1, transA=1
    ),
    "FusedMatMul, batch of B and B": lambda: model(
        "FusedMatMul", r(5, 3, 2), r(4, 5, 2), transBatchB=1, transB=1
    ),
    "FusedMatMul, a vector": lambda: model("FusedMatMul", r(3), r(3, 4), transA=1),
    "TransposeMatMul": lambda: model("TransposeMatMul", r(3, 2), r(3, 4), transA=1),
    "FusedGemm": lambda: model(
        "FusedGemm", r(2, 3), r(4, 3), r(4), activation="Relu", alpha=0.5, transB=1
    ),
    "FusedGemm, HardSigmoid": lambda: model(
        "FusedGemm", r(2, 3), r(3, 4), activation="HardSigmoid", activation_alpha=0.3,
        activation_beta=0.4,
    ),
    "FusedConv": lambda: model("FusedConv", IMAGE, FILTERS, r(3), activation="Tanh", pads=[1] * 4),
    "FusedConv, sum": lambda: model(
        "FusedConv", IMAGE, FILTERS, None, r(1, 3, 3, 3), activation="Relu"
    ),
    "FusedConv, LeakyRelu": lambda: model(
        "FusedConv", IMAGE, FILTERS, activation="LeakyRelu", activation_params=[0.2],
        auto_pad="SAME_UPPER", strides=[2, 2],
    ),
    "FusedConv, Clip": lambda: model(
        "FusedConv", IMAGE, r(2, 1, 3, 3), activation="Clip", activation_params=[-0.2, 0.9], group=2
    ),
    "SimplifiedLayerNormalization": lambda: model(
        "SimplifiedLayerNormalization", X, r(3, 4), axis=1, epsilon=1e-3, domain="", opset=13
    ),
    "SimplifiedLayerNormalization, halves": lambda: model(
        "SimplifiedLayerNormalization", r(2, 4, dtype="float16"), r(4, dtype="float16"), domain=""
    ),
    "LayerNormalization, opset 12": lambda: model(
        "LayerNormalization", X, GAMMA, BETA, domain="", opset=12, epsilon=1e-3
    ),
    "SkipLayerNormalization": lambda: model(
        "SkipLayerNormalization", X, r(3, 4), GAMMA, BETA, BIAS, epsilon=1e-3, outputs="y   s"
    ),
    "SkipLayerNormalization, no shift": lambda: model(
        "SkipLayerNormalization", X, r(2, 3, 4), GAMMA, None, BIAS, stored=(2, 4)
    ),
    "SkipSimplifiedLayerNormalization": lambda: model(
        "SkipSimplifiedLayerNormalization", X, r(2, 3, 4), GAMMA, BIAS, outputs="y   s"
    ),
    "EmbedLayerNormalization": lambda: model(
        "EmbedLayerNormalization", ids(5, 2, 3), ids(2, 2, 3), r(5, 4), r(6, 4), r(2, 4), GAMMA,
        BETA, MASK, outputs="y m", stored=(2, 3, 4, 5, 6),
    ),
    "EmbedLayerNormalization, places": lambda: model(
        "EmbedLayerNormalization", ids(5, 2, 3), None, r(5, 4), r(6, 4), None, GAMMA, BETA, None,
        ids(6, 2, 3), outputs="y m s",
    ),
}  # fmt: skip
CASES |= {
    "SimplifiedLayerNormalization, float64": lambda: model(
        "SimplifiedLayerNormalization", r(2, 4, dtype="float64"), r(4, dtype="float64"), domain=""
    ),
    "MultiHeadAttention": lambda: mha(r(3 * H), stored=(3,)),
    "MultiHeadAttention, keys": lambda: mha(r(3 * H), KEYS),
    "MultiHeadAttention, lengths": lambda: mha(None, np.array([3, 4], np.int32)),
    "MultiHeadAttention, a mask": lambda: mha(None, ids(2, B, T, L), mask_filter_value=-50.0),
    "MultiHeadAttention, added": lambda: mha(None, None, r(1, N, T, L), scale=0.3),
    "MultiHeadAttention, past": lambda: model(
        "MultiHeadAttention", r(B, T, H), r(B, T, H), r(B, T, H), r(3 * H), None, None,
        r(B, N, 2, D), r(B, N, 2, D), num_heads=N, outputs="y k v", unidirectional=1,
    ),
    "MultiHeadAttention, heads": lambda: model(
        "MultiHeadAttention", r(B, T, H), r(B, N, L, D), r(B, N, L, D), r(3 * H), num_heads=N
    ),
    "MultiHeadAttention, wider values": lambda: model(
        "MultiHeadAttention", r(B, T, H), r(B, L, H), r(B, L, 6), r(2 * H + 6), num_heads=N
    ),
    "Attention": lambda: one_product(r(B, L, 6), KEYS),
    "Attention, lengths": lambda: one_product(r(B, L, 6), np.array([3, 4], np.int32)),
    "Attention, causal": lambda: one_product(r(B, L, 6), KEYS, unidirectional=1),
    "Attention, past": lambda: one_product(
        r(B, T, 6), None, r(2, B, N, 2, D), unidirectional=1, outputs="y p"
    ),
    "Attention, added": lambda: one_product(r(B, T, 6), None, None, r(1, N, T, T), scale=0.7),
    "Attention, sizes": lambda: model(
        "Attention", r(B, T, 6), r(6, 2 * H + 6), r(2 * H + 6), num_heads=N,
        qkv_hidden_sizes=[H, H, 6],
    ),
    "RotaryEmbedding": lambda: model(
        "RotaryEmbedding", r(B, T, H), np.array([[0, 1, 2], [3, 1, 5]]), *WAVES
    ),
    "RotaryEmbedding, a place": lambda: model("RotaryEmbedding", r(B, T, H), np.array([2]), *WAVES),
    "RotaryEmbedding, heads": lambda: model(
        "RotaryEmbedding", r(B, N, T, D), np.array([1]), *WAVES, interleaved=1
    ),
    "RotaryEmbedding, a part": lambda: model(
        "RotaryEmbedding", r(B, T, H), np.array([2]), *HALF_WAVES, num_heads=N,
        rotary_embedding_dim=2,
    ),
    "RotaryEmbedding, a part of pairs": lambda: model(
        "RotaryEmbedding", r(B, T, H), np.array([2]), *HALF_WAVES, num_heads=N,
        rotary_embedding_dim=2, interleaved=1,
    ),
}  # fmt: skip


def mha(*more, **attributes):
    """Attention of queries to other keys and values."""
    qkv = r(B, T, H), r(B, L, H), r(B, L, H)
    return model("MultiHeadAttention", *qkv, *more, num_heads=N, **attributes)


def one_product(x, *more, **attributes):
    """Attention with stored weights of queries, keys and values."""
    weights = r(6, 3 * H), r(3 * H)
    return model("Attention", x, *weights, *more, num_heads=N, stored=(1, 2), **attributes)


@pytest.mark.parametrize("case", CASES)
def test_a_fused_operator(case):
    """By values, exports, slopes and a training step."""
    found = list(verdicts(*CASES[case]()))
    assert {outcome for outcome, _ in found} <= {"right", "no slope"}, found
    assert {"values", "export"} <= {what for _, what in found}


def test_fused_weights_are_trained_and_stored_again():
    file, feeds = CASES["EmbedLayerNormalization"]()
    for y, kind, dims in zip(file.graph.output, (1, 6), ((2, 3, 4), (2,)), strict=True):
        y.CopyFrom(helper.make_tensor_value_info(y.name, kind, dims))
    f = pd.import_onnx(file)
    assert [v.trainable for v in f.parameters.values()] == [True] * 5
    assert "Gather embedding" in f.summary()
    tuned = pd.export_tuned(None, f)
    assert [n.op_type for n in tuned.graph.node] == ["EmbedLayerNormalization"]
    assert not tuned.functions
    np.testing.assert_array_equal(plain(tuned, feeds)[0], plain(file, feeds)[0])


def test_several_calls_and_a_body():
    """Nodes that differ in their attributes, one of them in a branch."""
    text = """<ir_version: 8, opset_import: ["": 13, "com.microsoft": 1]>
    g (float[2,3] x, bool c) => (float[2,3] y) {
        a = com.microsoft.QuickGelu<alpha = 0.5>(x)
        b = com.microsoft.QuickGelu(a)
        y = If(c) <then_branch = t () => (float[2,3] p) { p = com.microsoft.Gelu(b) },
            else_branch = e () => (float[2,3] q) { q = com.microsoft.QuickGelu<alpha = 0.5>(b) }>
    }"""
    file = onnx.parser.parse_model(text)
    before = file.SerializeToString()
    for c in (True, False):
        found = list(verdicts(file, {"x": r(2, 3), "c": np.array(c)}))
        assert {outcome for outcome, _ in found} == {"right"}, found
    assert file.SerializeToString() == before


ERRORS = {
    r"node 'n', FusedConv: activation_params has 1 numbers, Clip 2": lambda: model(
        "FusedConv", IMAGE, FILTERS, activation="Clip", activation_params=[0.1]
    ),
    r"node 'n', FusedGemm: LeakyRelu without activation_alpha": lambda: model(
        "FusedGemm", r(2, 3), r(3, 4), activation="LeakyRelu"
    ),
    r"node 'n', FusedGemm: the activation 'Cosh' is not known": lambda: model(
        "FusedGemm", r(2, 3), r(3, 4), activation="Cosh"
    ),
    r"node 'n', SkipLayerNormalization: its output 1, 'm', is for training": lambda: model(
        "SkipLayerNormalization", X, X, GAMMA, outputs="y m"
    ),
    r"node 'n', Attention: rotary embeddings inside of it are not read": lambda: one_product(
        r(B, T, 6), do_rotary=1
    ),
    r"node 'n', MultiHeadAttention: queries, keys and values in one tensor are not read": (
        lambda: model("MultiHeadAttention", r(B, T, N, 3, D), num_heads=N)
    ),
    r"node 'n', MultiHeadAttention: num_heads is 0": lambda: model(
        "MultiHeadAttention", r(B, T, H), r(B, L, H), r(B, L, H), num_heads=0
    ),
    r"node 'n', MultiHeadAttention: a mask of starts and ends": lambda: mha(
        None, ids(3, 3 * B + 2)
    ),
    r"node 'n', MultiHeadAttention: a mask of 4 axes is not read": lambda: mha(
        None, ids(2, B, 1, T, L)
    ),
    r"node 'n', RotaryEmbedding: packed batches are not read": lambda: model(
        "RotaryEmbedding", r(B, T, H), np.array([2]), *WAVES, is_packed_batching=1
    ),
    r"NhwcConv: it is ONNX Runtime's own operator, of the domain 'com.microsoft'\n"
    r"  hint: import the model as it was before onnxruntime optimized it": lambda: model(
        "NhwcConv", r(1, 5, 5, 2), FILTERS
    ),
}


@pytest.mark.parametrize("message", ERRORS)
def test_what_is_not_read(message):
    file, feeds = ERRORS[message]()
    with pytest.raises(pd.ModelError, match=message):
        pd.import_onnx(file)(*[pd.Variable(n, shape=x.shape) for n, x in feeds.items()])


def test_a_function_of_the_file_is_its_own():
    text = """<ir_version: 8, opset_import: ["": 18, "com.microsoft": 1]>
    g (float[2,3] x) => (float[2,3] y) { y = com.microsoft.QuickGelu(x) }
    <opset_import: ["": 18], domain: "com.microsoft"> QuickGelu (x) => (y) { y = Neg(x) }"""
    x = r(2, 3)
    f = pd.import_onnx(onnx.parser.parse_model(text))
    np.testing.assert_array_equal(pd.eval(f(x)), -x)
    assert not isinstance(plain(onnx.parser.parse_model(text), {"x": x}), str)
