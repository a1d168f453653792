"""Exported training steps on stock ONNX Runtime: in Python, in Node, and on WebGPU in a browser."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import pd_core as pd
from pd_core.graph.node import apply

from .browser import WEBGPU, Browser, executable, served
from .networks import NETWORKS, batch, write

ROOT = Path(__file__).resolve().parents[5]
FOLDER = "tests/core/onnx/exporting/runtimes"
RUNTIMES = ROOT / FOLDER
MODULES = Path(os.environ.get("PD_NODE_MODULES", RUNTIMES / "node_modules"))
LEVELS = onnxruntime.GraphOptimizationLevel
FORMS = {"plain": False, "portable": True}

# What ONNX Runtime 1.30 places on WebGPU, of values that a network computes.
ON_WEBGPU = {
    *("Abs", "Add", "Cast", "Concat", "Conv", "ConvTranspose", "Div", "Equal", "Exp", "Expand"),
    *("Gather", "GatherElements", "Greater", "GreaterOrEqual", "Less", "Log", "MatMul", "MaxPool"),
    *("Mul", "Neg", "Pad", "ReduceMax", "ReduceMean", "ReduceSum", "Relu", "Reshape", "Resize"),
    *("ScatterElements", "Shape", "Sigmoid", "Slice", "Softmax", "Split", "Sqrt", "Sub", "Tanh"),
    *("Transpose", "Where"),
}
# Of sizes and seeds, which are few and stay on the CPU.
OF_FEW_INTEGERS = {"Range", "ReduceProd", "Squeeze", "Unsqueeze"}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """{(network, form): (folder, model, losses by pd.eval)}, each written when it is asked for."""

    class Exported(dict):
        def __missing__(self, key):
            name, form = key
            folder = tmp_path_factory.mktemp(f"{name}-{form}")
            self[key] = folder, *write(folder, name, FORMS[form])
            return self[key]

    return Exported()


@pytest.fixture
def modules():
    """Where the packages of onnxruntime for JavaScript are."""
    if not shutil.which("node"):
        pytest.skip("there is no node here")
    return MODULES


def needs(package):
    if not (MODULES / package).is_dir():
        pytest.skip(f"no {package} here: npm install --ignore-scripts --prefix {FOLDER}")


def losses_in_python(folder, network, level):
    """The losses of a step with nothing but onnxruntime and the names of its inputs."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    initial, step = (
        onnxruntime.InferenceSession(folder / f"{name}.onnx", options)
        for name in ("initial", "step")
    )
    state = dict(zip([o.name for o in initial.get_outputs()], initial.run(None, {}), strict=True))
    outputs, found = [o.name for o in step.get_outputs()], []
    for k in range(20):
        out = dict(zip(outputs, step.run(None, {**batch(network, k), **state}), strict=True))
        state = {name: out.get(f"{name}_next", value) for name, value in state.items()}
        found.append(float(out[outputs[0]]))
    return found


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NETWORKS)
def test_twenty_steps_in_python(exported, name, form, level):
    folder, model, losses = exported[name, form]
    assert {o.domain for o in model.opset_import} == {""}
    found = losses_in_python(folder, name, getattr(LEVELS, level))
    np.testing.assert_allclose(found, losses, rtol=1e-5, atol=1e-5)
    assert len(set(losses)) == 20


@pytest.mark.parametrize("package", ["onnxruntime-node", "onnxruntime-web"])
def test_twenty_steps_in_node(exported, modules, package):
    needs(package)
    cases = [exported[name, form] for name in NETWORKS for form in FORMS]
    command = ["node", RUNTIMES / "node.mjs", modules, package, *(case[0] for case in cases)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for (folder, _, losses), seen in zip(cases, found, strict=True):
        np.testing.assert_allclose(seen, losses, rtol=0, atol=1e-5, err_msg=folder.name)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.slow
def test_twenty_steps_on_webgpu(exported, chromium, name):
    folder, _, losses = exported[name, "portable"]
    with served(ROOT, files=folder, modules=MODULES) as address, Browser(*WEBGPU) as browser:
        browser.open(f"{address}/{FOLDER}/")
        browser.wait_for("document.readyState == 'complete'")
        found = browser.evaluate(ON_A_PAGE, timeout=300)
    np.testing.assert_allclose(found, losses, rtol=0, atol=1e-5)


ON_A_PAGE = """(async () => {
    const ort = await import("/modules/onnxruntime-web/dist/ort.webgpu.bundle.min.mjs");
    const { losses } = await import("/tests/core/onnx/exporting/runtimes/steps.mjs");
    ort.env.wasm.numThreads = 1;
    const read = async (name) =>
        new Uint8Array(await (await fetch(`/files/${name}`)).arrayBuffer());
    return losses(ort, read, "webgpu");
})()"""


@pytest.fixture
def chromium():
    """Tests in a browser run when they are asked for, where one is installed."""
    if not os.environ.get("PD_BROWSER_TESTS"):
        pytest.skip("tests in a browser run with PD_BROWSER_TESTS=1")
    if executable() is None:
        pytest.skip("there is no Chromium here")
    needs("onnxruntime-web")


# ---- the portable form


def nodes_of(graph):
    """All nodes, those of bodies included."""
    for node in graph.node:
        yield node
        for a in node.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield from nodes_of(a.g)


@pytest.mark.parametrize("name", ["perceptron", "lenet"])
def test_operators_of_the_portable_form(exported, name):
    model = exported[name, "portable"][1]
    found = {node.op_type for node in nodes_of(model.graph)}
    assert found <= ON_WEBGPU | OF_FEW_INTEGERS
    plain = {node.op_type for node in nodes_of(exported[name, "plain"][1].graph)}
    assert "LogSoftmax" in plain
    for node in nodes_of(model.graph):
        assert node.op_type != "MaxPool" or len(node.output) == 1


@pytest.mark.parametrize("name", NETWORKS)
def test_products_over_an_axis_that_may_be_empty(exported, name):
    """Of sequences cut into stretches one may hold no step; a minibatch is never empty."""
    nodes = list(nodes_of(exported[name, "portable"][1].graph))
    padded = {node.output[0] for node in nodes if node.op_type == "Pad"}
    products = [node for node in nodes if node.op_type == "MatMul"]
    guarded = [node for node in products if padded.issuperset(node.input)]
    assert bool(guarded) == (name == "gru")
    assert len(guarded) < len(products)


@pytest.mark.parametrize("name", ["perceptron", "lenet"])
def test_integers_of_the_portable_form_are_few(exported, name):
    """64-bit integers are labels, sizes and the seed; nothing as large as what is computed."""
    model = onnx.shape_inference.infer_shapes(exported[name, "portable"][1], strict_mode=True)
    for value in model.graph.value_info:
        kind = value.type.tensor_type
        if kind.elem_type == onnx.TensorProto.INT64:
            assert len(kind.shape.dim) <= 2, value.name


def groups_of_convolutions(model):
    """(groups, filters) of each convolution."""
    shapes = {t.name: t.dims for t in model.graph.initializer}
    shapes |= {
        i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input
    }
    for node in nodes_of(model.graph):
        if node.op_type == "Conv":
            groups = next((a.i for a in node.attribute if a.name == "group"), 1)
            yield groups, shapes.get(node.input[1], [0])[0]


def convolution(groups, filters):
    """A step of a convolution in groups, its cost and the shape of its feed."""
    x = pd.Variable("x", shape=[None, 4, 7, 7])
    w = pd.Variable("w", shape=[filters, 4 // groups, 3, 3])
    b = pd.Variable("b", shape=[filters])
    y = pd.conv(x, w, b, strides=2, pads=1, group=groups)
    return pd.reduce_mean(pd.square(pd.tanh(y))), (2, 4, 7, 7)


def log_space():
    """A softmax whose logarithm is taken, of numbers far apart, and the sum of absolute weights."""
    x = pd.Variable("x", shape=[None, 5])
    w = pd.Variable("w", shape=[5, 4])
    z = pd.matmul(x, w) * 20.0
    return -pd.reduce_mean(pd.log(pd.softmax(z, axis=-1))) + pd.reduce_sum(pd.abs(w)), (3, 5)


PORTABLE = {
    "one_group": lambda: convolution(1, 6),
    "straddling_groups": lambda: convolution(2, 12),
    "whole_vectors": lambda: convolution(2, 8),
    "depthwise": lambda: convolution(4, 4),
    "log_space": log_space,
}


@pytest.mark.parametrize("case", PORTABLE)
def test_the_portable_form_gives_the_same(case, rng):
    cost, shape = PORTABLE[case]()
    variables = pd.trainable_variables()
    gradients = pd.gradients(cost, variables)
    step = pd.SGDOptimizer(0.0).minimize(cost)
    model = pd.export_step(None, step, [cost, *gradients], portable=True)
    x = rng.standard_normal(shape).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found = session.run(None, {"x": x})[: 1 + len(gradients)]
    for have, want in zip(found, pd.eval([cost, *gradients], {"x": x}), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)
    for groups, filters in groups_of_convolutions(model):
        width = filters // groups
        assert groups == 1 or width < 4 or width % 4 == 0 or filters % 4, (groups, filters)


def test_signs():
    z = pd.Variable("z", shape=[None])
    seen = pd.Variable("seen", data=np.zeros(4), trainable=False)
    model = pd.export_step(None, pd.assign(seen, pd.sign(z)), portable=True)
    assert "Sign" not in {node.op_type for node in model.graph.node}
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (found,) = session.run(None, {"z": np.float32([-1e-30, 0, 3, np.inf])})
    assert found.tolist() == [-1, 0, 1, 1]


REFUSED = {
    "no Dropout": lambda x: apply("Dropout", x, np.float32(0.5), np.array(True)),
    "no training mode of BatchNormalization": lambda x: apply(
        "BatchNormalization", x, *[np.ones(2, np.float32)] * 4, outputs=3, training_mode=1
    )[0],
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_has_no_portable_form_is_refused(why):
    x = pd.Variable("x", shape=[None, 2, 4, 4])
    seen = pd.Variable("seen", data=0.0, trainable=False)
    step = pd.assign(seen, pd.reduce_sum(REFUSED[why](x)))
    pd.export_step(None, step)
    with pytest.raises(pd.ExportError, match=f"not portable: .*{why}") as error:
        pd.export_step(None, step, portable=True)
    assert "test_other_runtimes.py" in str(error.value)
