"""Exports in the hands of other tools: runtimes, simplifiers, converters, quantization, importers.

A tool that is not installed is skipped with its name.
"""

import gzip
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import pd_core as pd

from .zoo import NETS, randomize

OPSETS = range(13, 27)
QUANTIZED_OPSET = 21  # ONNX Runtime's quantization takes ONNX's Attention of 23 for its own


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """Some tools leave files where they run."""
    monkeypatch.chdir(tmp_path)


@cache
def exported(name, opset=None):
    """A network's model, its inputs, and the outputs that pd computes from them."""
    with pd.fresh(seed=1):
        targets, feeds = NETS[name]()
        randomize()
        return pd.export_onnx(None, targets, opset=opset), feeds, pd.eval(targets, feeds)


def run(model, feeds):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    data = model if isinstance(model, str) else model.SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def error(results, expected):
    """The largest error, relative to the largest number of each output."""
    pairs = list(zip(results, expected, strict=True))
    return max(np.abs(a - b).max() / np.abs(b).max() for a, b in pairs)


def copy(model):
    """Some tools change the model that they are given."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    return other


@pytest.mark.parametrize("name", NETS)
def test_every_opset_gives_equal_numbers(name):
    for opset in OPSETS:
        model, feeds, expected = exported(name, opset)
        assert model.opset_import[0].version == opset
        assert model.ir_version == onnx.helper.find_min_ir_version_for(model.opset_import)
        onnx.checker.check_model(model, full_check=True)
        onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        assert error(run(model, feeds), expected) < 1e-5, opset


@pytest.mark.parametrize("name", NETS)
def test_the_types_of_all_values_are_stored(name):
    model, _, _ = exported(name)
    stored = {v.name: v for v in [*model.graph.value_info, *model.graph.output]}
    assert {y for node in model.graph.node for y in node.output if y} <= stored.keys()
    bare = copy(model)
    del bare.graph.value_info[:]
    inferred = onnx.shape_inference.infer_shapes(bare, data_prop=True)
    for v in inferred.graph.value_info:
        ours = stored[v.name].type.tensor_type
        assert ours.elem_type == v.type.tensor_type.elem_type
        for d, e in zip(ours.shape.dim, v.type.tensor_type.shape.dim, strict=True):
            assert not e.HasField("dim_value") or d.dim_value == e.dim_value, v.name


def onnxsim(model):
    simplified, same = pytest.importorskip("onnxsim").simplify(model)
    assert same
    return simplified


def onnxslim(model):
    return pytest.importorskip("onnxslim").slim(model)


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("tool", [onnxsim, onnxslim], ids=lambda f: f.__name__)
def test_simplifiers(tool, opset):
    for name in NETS:
        model, feeds, expected = exported(name, opset)
        simplified = tool(copy(model))
        assert error(run(simplified, feeds), expected) < 1e-5, name


@pytest.mark.parametrize("name", NETS)
def test_half_precision(name):
    transformers = pytest.importorskip("onnxruntime.transformers.float16")
    for opset in (13, 21):
        model, feeds, expected = exported(name, opset)
        half = transformers.convert_float_to_float16(copy(model), keep_io_types=True)
        stored = {t.data_type for t in half.graph.initializer}
        assert onnx.TensorProto.FLOAT16 in stored
        assert error(run(half, feeds), expected) < 1e-2


@pytest.mark.parametrize("name", sorted(NETS.keys() - {"vae"}))
def test_half_precision_by_converter_common(name):
    """Without a network whose output is read inside too: that is a mistake of the converter."""
    float16 = pytest.importorskip("onnxconverter_common.float16")
    model, feeds, expected = exported(name)
    half = float16.convert_float_to_float16(copy(model), keep_io_types=True)
    assert error(run(half, feeds), expected) < 1e-2


def quantization():
    pytest.importorskip("sympy", reason="ONNX Runtime's quantization needs sympy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("onnxruntime.quantization")


def quantized_statically(model, batches, folder):
    """The path of the model in 8 bits, calibrated on batches of feeds."""
    tools = quantization()
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(tools.CalibrationDataReader):
        def __init__(self):
            self.batches = iter(batches)

        def get_next(self):
            return next(self.batches, None)

    paths = [str(folder / f"{k}.onnx") for k in range(3)]
    onnx.save(model, paths[0])
    # the model has the types of all values
    quant_pre_process(paths[0], paths[1], skip_symbolic_shape=True)
    tools.quantize_static(paths[1], paths[2], Reader())
    return paths[2]


def quantized_dynamically(model, folder):
    """The path of the model with weights in 8 bits."""
    path = str(folder / "dynamic.onnx")
    quantization().quantize_dynamic(copy(model), path)
    return path


@pytest.mark.parametrize("opset", [13, QUANTIZED_OPSET])
@pytest.mark.parametrize("name", NETS)
def test_quantization(name, opset, tmp_path):
    model, feeds, expected = exported(name, opset)
    for path in (
        quantized_dynamically(model, tmp_path),
        quantized_statically(model, [feeds], tmp_path),
    ):
        found = {node.op_type for node in onnx.load(path).graph.node}
        assert found & {"DequantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeLSTM"}
        assert error(run(path, feeds), expected) < 0.35


@pytest.mark.parametrize("opset", [13, 23])
def test_openvino(opset):
    openvino = pytest.importorskip("openvino")
    core = openvino.Core()
    for name in NETS:
        model, feeds, expected = exported(name, opset)
        options = {"INFERENCE_PRECISION_HINT": "f32"}
        compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", options)
        assert error(list(compiled(feeds).values()), expected) < 1e-5, name


@pytest.mark.parametrize("opset", [14, 23])  # its BatchNormalization of 13 is one of training
def test_the_reference_evaluator(opset):
    for name in NETS:
        model, feeds, expected = exported(name, opset)
        results = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
        assert error(results, expected) < 1e-5, name


@pytest.mark.parametrize("opset", [13, 24])
def test_imported_again(opset):
    for name in NETS:
        model, feeds, expected = exported(name, opset)
        with pd.fresh():
            inputs = [pd.Variable(v.name, shape=feeds[v.name].shape) for v in model.graph.input]
            outputs = pd.import_onnx(model)(*inputs)
            outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
            results = pd.eval(list(outputs), feeds)
        assert error(results, expected) < 1e-5, name


DIGITS = Path(__file__).resolve().parents[4] / "demos" / "data" / "mnist"


def digits(part):
    """Images in [0, 1], float32 [n, 1, 28, 28], and labels int64 [n, 1]."""
    arrays = []
    for kind, start in (("images-idx3", 16), ("labels-idx1", 8)):
        with gzip.open(DIGITS / f"{part}-{kind}-ubyte.gz") as file:
            arrays.append(np.frombuffer(file.read(), np.uint8, offset=start))
    images, labels = arrays
    return images.reshape(-1, 1, 28, 28).astype(np.float32) / 255, labels[:, None].astype(np.int64)


def trained_on_digits(epochs):
    """The exported model of a convolutional network with batch normalization."""
    image = pd.Variable("image", shape=[None, 1, 28, 28])
    label = pd.Variable("label", shape=[None, 1], dtype="int64")
    y = image
    for filters in (8, 16):
        y = pd.layer.batch_norm(pd.layer.conv2d(y, filters, 5, padding=2, B=False))
        y = pd.max_pool(pd.relu(y), 2, 2)
    y = pd.relu(pd.fc(pd.reshape(y, [0, -1]), 64))
    logits = pd.fc(y, 10)
    cost = pd.reduce_mean(pd.softmax_cross_entropy(logits, label))
    step = pd.AdamOptimizer(0.002).minimize(cost)
    images, labels = digits("train")
    rng = np.random.default_rng(0)
    for _ in range(epochs):
        order = rng.permutation(len(images))
        for start in range(0, len(order) - 63, 64):
            rows = order[start : start + 64]
            pd.eval(step, {image: images[rows], label: labels[rows]})
    return pd.export_onnx(None, logits)


def accuracy(model):
    images, labels = digits("t10k")
    (logits,) = run(model, {"image": images})
    return (logits.argmax(1) == labels[:, 0]).mean()


def accuracies(epochs, folder):
    """Accuracies on the test digits: in float32, in 8 bits statically and dynamically."""
    with pd.fresh(seed=0):
        model = trained_on_digits(epochs)
    images, _ = digits("train")
    batches = [{"image": images[k : k + 50]} for k in range(0, 200, 50)]
    paths = quantized_statically(model, batches, folder), quantized_dynamically(model, folder)
    sizes = [len(model.SerializeToString()), *(Path(p).stat().st_size for p in paths)]
    return [accuracy(m) for m in (model, *paths)], sizes


def test_digits_in_8_bits(tmp_path):
    (exact, static, dynamic), _ = accuracies(1, tmp_path)
    assert exact > 0.9
    assert static > exact - 0.02
    assert dynamic > exact - 0.02
