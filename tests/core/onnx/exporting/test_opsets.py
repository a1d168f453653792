"""Exports for older opsets: forms that operators had, and what cannot be written."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import pd_core as pd

from .zoo import normal


def compare(targets, feeds, opset):
    """Export in an opset, compare ONNX Runtime's results with pd's, and return the model."""
    targets = list(targets) if isinstance(targets, (list, tuple)) else [targets]
    model = pd.export_onnx(None, targets, opset=opset)
    assert model.opset_import[0].version == opset
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    for got, want in zip(session.run(None, feeds), pd.eval(targets, feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return model


def image(*dims):
    return pd.Variable("x", shape=dims or [None, 2, 4, 6])


# {operator: the same with attributes or inputs that older opsets lack, or have elsewhere}
FORMS = {
    "ReduceMax": lambda x: pd.reduce_max(x, [1, 3]),
    "ReduceMean": lambda x: pd.reduce_mean(x, [-1], keep_dim=True),
    "ReduceMin": lambda x: pd.reduce_min(x),
    "ReduceL2": lambda x: pd.apply("ReduceL2", x, np.int64([2])),
    "ReduceLogSumExp": lambda x: pd.apply("ReduceLogSumExp", x, np.int64([1]), keepdims=0),
    "ReduceMax of bool": lambda x: pd.apply("ReduceMax", x > 0.0, np.int64([1]), keepdims=0),
    "Split": lambda x: list(pd.apply("Split", x, axis=3, num_outputs=3, outputs=3)),
    "Pad": lambda x: pd.apply("Pad", x, np.int64([1, 2, 0, 1]), np.float32(5), np.int64([3, 1])),
    "Pad by reflection": lambda x: pd.apply("Pad", x, np.int64([1, 2]), None, np.int64([-1]),
                                            mode="reflect"),
    "Shape": lambda x: pd.apply("Shape", x, start=-3, end=-1),
    "Reshape": lambda x: pd.apply("Reshape", x, np.int64([-1, 12]), allowzero=1),
    "Trilu": lambda x: pd.apply("Trilu", x, np.int64(1), upper=0),
    "Trilu, upper": lambda x: pd.apply("Trilu", x),
    "HardSwish": lambda x: pd.apply("HardSwish", x),
    "Mish": lambda x: pd.apply("Mish", x),
    "CastLike": lambda x: pd.apply("CastLike", x * 9.0, np.int64(0)),
    "Cast": lambda x: pd.apply("Cast", x * 9.0, to=onnx.TensorProto.INT32, saturate=1),
    "AveragePool": lambda x: pd.apply("AveragePool", x, kernel_shape=[2, 2], dilations=[1, 1]),
    "BatchNormalization": lambda x: pd.apply(
        "BatchNormalization", x, *(np.float32([k, 2]) for k in (1, 2, 3, 4)), training_mode=0
    ),
    "LayerNormalization": lambda x: pd.apply("LayerNormalization", x, np.arange(6, dtype="f")),
    "GroupNormalization": lambda x: pd.apply(
        "GroupNormalization", x, np.float32([1, 2]), np.float32([3, 4]), num_groups=1
    ),
    "Gelu": lambda x: pd.apply("Gelu", x),
    "GridSample": lambda x: pd.apply("GridSample", x, normal(2, 3, 3, 2) / 3),
    "Swish": lambda x: pd.apply("Swish", x),
    "RMSNormalization": lambda x: pd.apply("RMSNormalization", x, np.arange(6, dtype="f")),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_older_forms(name):
    x = image()
    y = FORMS[name](x)
    for opset in (13, 16, 19):
        compare(y, {"x": normal(2, 2, 4, 6)}, opset)


def test_triangles_of_unknown_size():
    x = image(None, None)
    compare(pd.apply("Trilu", x, np.int64(-1)), {"x": normal(4, 5)}, 13)


def test_forms_inside_of_loops():
    x, s = image(None, None, 3), pd.Variable("s", shape=[None, 3])

    def body(states, row):
        shifted = row - pd.reduce_max(row, [1], keep_dim=True)
        return [states[0] + pd.gelu(shifted)], pd.layer_norm(shifted)

    final, every = pd.scan(body, [s], x)
    targets = [*final, *(every if isinstance(every, (list, tuple)) else [every])]
    compare(targets, {"x": normal(4, 2, 3), "s": normal(2, 3)}, 13)


def test_what_an_opset_lacks_is_named_with_the_opset_it_needs():
    x = image(None, 5)
    index = pd.Variable("index", shape=[None, 5], dtype="int64")
    y = pd.apply("ScatterElements", x, index, x, reduction="max")
    z = pd.apply("DFT", pd.unsqueeze(x, 2))
    expected = (
        r"export: not in opset 16:\n  DFT needs opset 17, built at .*test_opsets.py:\d+\n"
        r"  ScatterElements needs opset 18, built at .*test_opsets.py:\d+"
    )
    with pytest.raises(pd.ExportError, match=expected):
        pd.export_onnx(None, [y, z], opset=16)
    pd.export_onnx(None, [y, z], opset=18)


def test_volumes_are_sampled_by_older_operators():
    x = pd.Variable("x", shape=[None, 1, 3, 3, 3])
    y = pd.apply("GridSample", x, normal(2, 2, 2, 2, 3) / 3)
    compare(y, {"x": normal(2, 1, 3, 3, 3)}, 16)


def test_values_of_attributes_that_an_opset_lacks():
    y = pd.apply("Pad", image(), np.int64([1, 1]), None, np.int64([3]), mode="wrap")
    with pytest.raises(pd.ExportError, match="not in opset 18:\n  Pad needs opset 19"):
        pd.export_onnx(None, y, opset=18)
    compare(y, {"x": normal(2, 2, 4, 6)}, 19)


def test_element_types_that_an_opset_lacks():
    x = pd.Variable("x", shape=[None], dtype="int32")
    with pytest.raises(pd.ExportError, match="not in opset 13:\n  Relu needs opset 14"):
        pd.export_onnx(None, pd.relu(x), opset=13)


@pytest.mark.parametrize("opset", [12, 27])
def test_opsets_out_of_range(opset):
    with pytest.raises(pd.ExportError, match=rf"export: opset is 13 … 26, not {opset}"):
        pd.export_onnx(None, pd.relu(image()), opset=opset)


def test_versions_of_the_file_format():
    y = pd.relu(image())
    versions = {k: pd.export_onnx(None, y, opset=k).ir_version for k in (13, 15, 19, 21, 23, 26)}
    assert versions == {13: 7, 15: 8, 19: 9, 21: 10, 23: 11, 26: 13}
    assert pd.export_onnx(None, y).ir_version == 10
    assert pd.export_onnx(None, y, opset=13, ir_version=8).ir_version == 8
    with pytest.raises(pd.ExportError, match=r"ir_version of opset 21 is 10 … \d+, not 9"):
        pd.export_onnx(None, y, ir_version=9)


def test_fields_of_the_file():
    model = pd.export_onnx(
        None,
        pd.relu(image()),
        name="filter",
        description="the positive part",
        domain="org.example",
        model_version=3,
    )
    assert (model.producer_name, model.producer_version) == ("pd", pd.__version__)
    assert (model.graph.name, model.doc_string) == ("filter", "the positive part")
    assert (model.domain, model.model_version) == ("org.example", 3)
