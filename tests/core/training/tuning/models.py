"""Small ONNX files for the tests of fine-tuning."""

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, numpy_helper, parser

PERCEPTRON = (
    "(float[N,8] x) => (float[N,3] y) "
    "{ a = MatMul(x, W1) b = Add(a, b1) h = Relu(b) y = Gemm<transB=1>(h, W2, b2) }"
)
SHAPES = {"W1": (8, 16), "b1": (16,), "W2": (3, 16), "b2": (3,)}
CONVOLUTION = (
    "(float[N,2,6,6] x) => (float[N,4,4,4] y) { c = Conv(x, W1, b1) h = Relu(c) y = Conv(h, W2) }"
)
FILTERS = {"W1": (5, 2, 3, 3), "b1": (5,), "W2": (4, 5, 1, 1)}


def model(text: str, shapes: dict, opset: int = 17, ir: int = 8, seed: int = 0) -> ModelProto:
    """Parse a graph, and add stored tensors of these shapes."""
    proto = parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}]> g {text}')
    rng = np.random.default_rng(seed)
    for name, shape in shapes.items():
        array = (rng.normal(size=shape) * 0.4).astype(np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    return proto


def perceptron(head: str = "", **options) -> ModelProto:
    """Return a perceptron of 8 inputs and 3 outputs; `head` is an operator behind them."""
    text = PERCEPTRON
    if head:
        text = text.replace("y = Gemm", "z = Gemm").replace(" }", f" y = {head}(z) }}")
    return model(text, SHAPES, **options)


def convolution(**options) -> ModelProto:
    """Return two convolutions of images [N, 2, 6, 6]."""
    return model(CONVOLUTION, FILTERS, **options)


def stored(proto: ModelProto) -> dict[str, np.ndarray]:
    """Return the stored tensors of a file by name."""
    return {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}


def run(proto: ModelProto, plain: bool = True, **feeds) -> list[np.ndarray]:
    """Compute a file in ONNX Runtime; `plain` without its graph optimisations."""
    onnx.checker.check_model(proto)
    options = onnxruntime.SessionOptions()
    if plain:
        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.graph_optimization_level = level
    return onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, feeds)


def samples(count: int = 64, seed: int = 1) -> dict[str, np.ndarray]:
    """Return inputs [count, 8], and as their label the largest of the first three."""
    x = np.random.default_rng(seed).normal(size=(count, 8)).astype(np.float32)
    return {"x": x, "label": x[:, :3].argmax(1)}
