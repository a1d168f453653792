"""The optimizers that a program goes without: ONNX Runtime makes the same of it as with them."""

import re
import subprocess
import sys
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest

import pd_core as pd
from pd_core.backend import program
from pd_core.backend.graph_optimizers import (
    _PAIRS,
    _PATTERNS,
    idle_optimizers,
    unwanted_optimizers,
)
from pd_core.backend.lowering import Lowered, lower
from pd_core.backend.passes import CPU
from pd_core.backend.passes.device import for_device
from pd_core.graph.node import apply

# Every optimizer says at the lowest level of severity what it did.
VERBOSE = """
import sys
import onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 0
model = sys.stdin.buffer.read()
providers = ["CPUExecutionProvider"]
onnxruntime.InferenceSession(model, options, providers, disabled_optimizers=sys.argv[1:])
"""


def names_that_run(model, without):
    command = [sys.executable, "-c", VERBOSE, *without]
    done = subprocess.run(command, input=model, capture_output=True, timeout=60, check=True)
    return set(re.findall(r"GraphTransformer (\w+) modified", done.stderr.decode()))


def perceptron():
    x = pd.Variable([None, 4])
    return [x], pd.reduce_sum(pd.square(pd.fc(pd.fc(x, 8, act="tanh"), 2)))


def convolutions():
    x = pd.Variable([None, 3, 12, 12])
    y = pd.conv2d(x, 8, 3, padding=1)
    y = pd.relu(y - pd.reduce_mean(y, [0, 2, 3], keep_dim=True))
    return [x], pd.reduce_sum(pd.fc(pd.flatten(pd.max_pool(y, 2, 2)), 2))


def transformer():
    x = pd.Variable([None, 5, 8])
    y = pd.layer_norm(pd.fc(x + pd.softmax(x @ pd.matrix_transpose(x)) @ x, 8))
    return [x], pd.reduce_sum(y * (1.0 + pd.erf(y / 2**0.5)) * pd.sigmoid(y))


def fusions():
    """Patterns of several fusions at once, with what activates them."""
    x = pd.Variable([None, 8])
    y = pd.relu(pd.tanh(pd.fc(x, 8)) @ np.eye(8, dtype=np.float32)) @ np.ones((8, 8), np.float32)
    parts = apply("Gather", y, np.array([0]), axis=1) * apply("Gather", y, np.array([1]), axis=1)
    ahead = apply("Gather", y, apply("Range", *map(np.int64, (2, 5, 1))), axis=1)
    weights = pd.softmax(pd.reshape(y, [-1, 2, 4]) + pd.reshape(x, [-1, 2, 4]) * parts)
    return [x], pd.reduce_sum(pd.sigmoid(weights), [1, 2]) * pd.reduce_sum(ahead, [1])


def lowered(build, training):
    feeds, cost = build()
    updates = pd.AdamOptimizer(0.1).minimize(cost).assignments if training else ()
    graph = program.build([cost], [(a.variable, a.value) for a in updates], feeds, training, {})
    return lower(for_device(graph, CPU))


def wired(graph):
    """The operators of a graph, each with its attributes and the operators that it reads.

    The names and the order that ONNX Runtime gives differ from run to run.
    """
    origin = {y: node.op_type for node in graph.node for y in node.output}
    return Counter(
        (
            node.domain,
            node.op_type,
            tuple(origin.get(x, x and "given") for x in node.input),
            tuple(sorted(a.SerializeToString(deterministic=True) for a in node.attribute)),
        )
        for node in graph.node
    )


def test_the_names_are_those_of_the_runtime():
    model = lowered(perceptron, False).model.SerializeToString()
    names = {*_PATTERNS, *_PAIRS, "ConstantFolding", "CommonSubexpressionElimination"}
    names |= {"GemmActivationFusion", "MatMulActivationFusion"}
    assert names <= names_that_run(model, [])
    assert names_that_run(model, sorted(names)).isdisjoint(names)


def optimized(program_of, without, path):
    """Return the graph of a program after ONNX Runtime's optimizers, but for those in `without`."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # an optimized file is for this machine, which it says
    options.optimized_model_filepath = str(path / "optimized.onnx")
    onnxruntime.InferenceSession(
        program_of.model.SerializeToString(),
        options,
        ["CPUExecutionProvider"],
        disabled_optimizers=without,
    )
    return onnx.load(path / "optimized.onnx").graph


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("build", [perceptron, convolutions, transformer, fusions])
def test_the_optimized_program_is_the_same(build, training, tmp_path):
    program_of = lowered(build, training)
    idle = idle_optimizers(program_of)
    assert len(idle) >= 11
    found = [wired(optimized(program_of, without, tmp_path)) for without in ([], idle)]
    assert found[0] == found[1]


def idle_of(*op_types, pairs=()):
    program_of = Lowered(onnx.ModelProto(), {}, op_types=set(op_types), pairs=Counter(pairs))
    return set(idle_optimizers(program_of))


def test_a_fusion_runs_where_its_operators_are():
    assert {"GeluFusionL2", "QDQSelectorActionTransformer"} <= idle_of("Add", "Mul")
    assert "GeluFusionL2" not in idle_of("Erf", "Mul")
    assert "QDQSelectorActionTransformer" not in idle_of("DequantizeLinear")
    assert "AttentionFusion" in idle_of("LayerNormalization")
    assert "AttentionFusion" not in idle_of("LayerNormalization", "Softmax")
    assert "LayerNormFusionL1" in idle_of("ReduceMean", "Mul")
    assert "LayerNormFusionL1" not in idle_of("ReduceMean", "Pow")
    assert "MatMulAddFusion" in idle_of("MatMul", "Add", pairs={("Add", "MatMul")})
    assert "MatMulAddFusion" not in idle_of("MatMul", "Add", pairs={("MatMul", "Add")})


def test_pairs_of_operators_are_seen_through_views():
    x, w, b = pd.Variable([None, 4]), pd.Variable([4, 6]), pd.Variable([6])
    row = pd.reshape(pd.transpose(pd.reshape(x @ w, [-1, 2, 3]), [0, 2, 1]), [-1, 6])
    program_of = lowered(lambda: ([x], row + b), False)
    assert ("MatMul", "Add") in program_of.pairs and ("Add", "MatMul") not in program_of.pairs
    assert "MatMulAddFusion" not in idle_optimizers(program_of)


def test_few_matches_among_thousands_do_not_count():
    program_of = Lowered(onnx.ModelProto(), {}, op_types={"MatMul", "Add"})
    program_of.sites = dict.fromkeys(map(str, range(5000)))
    for count, is_idle in ((4, True), (5, False)):
        program_of.pairs["MatMul", "Add"] = count
        assert ("MatMulAddFusion" in idle_optimizers(program_of)) is is_idle


def test_what_reads_constants_alone_is_folded():
    x, big = pd.Variable([None, 40, 40]), np.ones((40, 40), np.float32)
    cases = (pd.exp(x), False), (x * pd.exp(pd.constant(big)), True), (pd.constant(1.0), True)
    for y, folds in cases:
        idle = idle_optimizers(lowered(lambda y=y: ([x], y), False))
        assert ("ConstantFolding" not in idle) is folds


def test_sums_and_layer_normalizations_stay_apart_on_a_cpu(tmp_path):
    x, z = pd.Variable([2, 5, 8]), pd.Variable([2, 5, 8])
    y, _, _ = apply("LayerNormalization", x + z, np.ones(8, np.float32), outputs=3)
    program_of = lowered(lambda: ([x, z], y), False)
    idle = idle_optimizers(program_of)
    assert unwanted_optimizers(program_of, "cuda:0") == [*idle, "BiasSoftmaxFusion"]
    without = unwanted_optimizers(program_of, "cpu")
    fused, apart = (
        {node.op_type for node in optimized(program_of, names, tmp_path).node}
        for names in (idle, without)
    )
    assert fused == {"SkipLayerNormalization"} and apart == {"Add", "LayerNormalization"}


def test_factors_of_float64_keep_their_digits():
    """A factor that ONNX Runtime makes an attribute of a product is a float32."""
    for dtype, tolerance in (("float64", 1e-15), ("float32", 1e-6)):
        x, w = pd.Variable([None, 3], dtype=dtype), pd.Variable(data=np.eye(3), dtype=dtype)
        values = np.array([[0.1, 0.7, -0.3]])
        scaled, divided = pd.eval([(x @ w) * 0.013, x @ (w / 0.7)], {x: values})
        np.testing.assert_allclose(scaled, values * 0.013, rtol=tolerance)
        np.testing.assert_allclose(divided, values / 0.7, rtol=tolerance)
    assert "MatMulScaleFusion" not in idle_of("MatMul", "Mul")


def test_a_transpose_that_is_an_output_stays_one():
    """ONNX Runtime 1.31 loses it in a Gemm to which a transpose is added, or of two transposes."""
    x = pd.Variable("x", shape=[None, 3])
    t = pd.transpose(x, [1, 0])
    y = pd.matmul(t, x) + pd.transpose(pd.matmul(t, pd.sin(x)), [1, 0])
    z = pd.matmul(pd.transpose(pd.cos(t), [1, 0]), t) + 2.0 * pd.matmul(x, t)
    a = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    want = [a.T, a.T @ a + (a.T @ np.sin(a)).T, (np.cos(a) + 2 * a) @ a.T]
    for several, values in ([[t, y], want[:2]], [[t, z], want[::2]]):
        _check_transposes(x, several, a, values)


def _check_transposes(x, outputs, a, want):
    model = pd.export_onnx(None, outputs, inputs=[x])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for found in (pd.eval(outputs, {x: a}), session.run(None, {"x": a})):
        for f, w in zip(found, want, strict=True):
            np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-5)
    assert [o.name for o in model.graph.output] == [y.name for y in outputs]
