"""The operators that the reference evaluator computes by itself: ONNX Runtime gives the same."""

from math import erf, inf, nextafter

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from pd_core.backend.evaluator import evaluator
from pd_core.backend.recurrent_evaluator import GRU, LSTM, RNN

f32 = np.float32


def model(nodes, feeds, results):
    """A model of these nodes, with a feed for each array."""
    typed = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for k, a in feeds.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in results]
    graph = helper.make_graph(nodes, "one", typed, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def both(nodes, feeds, results):
    """Pairs (found, expected): the results of the evaluator, and of ONNX Runtime."""
    proto = model(nodes, feeds, results)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    ).run(None, feeds)
    return list(zip(evaluator(proto).run(None, feeds), expected, strict=True))


def check(op_type, arrays, results=1, rtol=1e-5, **attributes):
    """Compare one operator; None stands for an input that is left out."""
    feeds = {f"x{k}": a for k, a in enumerate(arrays) if a is not None}
    names = [f"x{k}" if a is not None else "" for k, a in enumerate(arrays)]
    outputs = [f"y{k}" for k in range(results)]
    node = helper.make_node(op_type, names, outputs, **attributes)
    for found, expected in both([node], feeds, outputs):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-5)


def drawn(rng, *shape):
    return rng.standard_normal(shape).astype(f32)


# ---- convolution backwards


@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize(
    "attributes",
    [{}, {"strides": [2, 3]}, {"pads": [1, 0, 1, 0]}, {"dilations": [1, 2], "strides": [2, 1]}],
    ids=["plain", "strides", "pads", "dilations"],
)
def test_transposed_convolution(group, attributes, rng):
    x, w, b = drawn(rng, 2, 6, 4, 5), drawn(rng, 6, 2, 3, 2), drawn(rng, 2 * group)
    check("ConvTranspose", [x, w], group=group, **attributes)
    check("ConvTranspose", [x, w, b], group=group, **attributes)


# ---- elementwise, in the precision of the input


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate, rng):
    x = np.concatenate([drawn(rng, 50) * 3, [-40, 40, 0.0]]).astype(f32)
    check("Gelu", [x], approximate=approximate)


def test_gelu_and_erf_have_the_digits_of_float64():
    x = np.linspace(-3, 3, 25)
    for op_type, truth in (
        ("Erf", [erf(v) for v in x]),
        ("Gelu", [0.5 * v * (1 + erf(v / 2**0.5)) for v in x]),
    ):
        proto = model([helper.make_node(op_type, ["x"], ["y"])], {"x": x}, ["y"])
        (y,) = evaluator(proto).run(None, {"x": x})
        assert y.dtype == np.float64
        np.testing.assert_allclose(y, truth, rtol=1e-13, atol=1e-16)


def test_erf_keeps_float32(rng):
    check("Erf", [drawn(rng, 4, 5)])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_log_softmax_does_not_underflow(axis, rng):
    x = drawn(rng, 3, 4, 5) * 1000
    check("LogSoftmax", [x], axis=axis)
    (y,) = evaluator(
        model([helper.make_node("LogSoftmax", ["x"], ["y"], axis=axis)], {"x": x}, ["y"])
    ).run(None, {"x": x})
    assert np.isfinite(y).all() and y.min() < -1000


# ---- gathers and images


@pytest.mark.parametrize(
    ("shape", "index", "axis"),
    [((50, 3), (7, 2), 0), ((3, 50), (2, 90), 1), ((3, 50), (2, 9), -1), ((4,), (6,), 0)],
)
def test_gather_elements_of_any_sizes(shape, index, axis, rng):
    n = shape[axis]
    check("GatherElements", [drawn(rng, *shape), rng.integers(-n, n, index)], axis=axis)


@pytest.mark.parametrize("scales", [(1, 1, 2, 3), (1, 2, 1, 1)])
def test_nearest_pixels_are_copied(scales, rng):
    x = drawn(rng, 1, 2, 3, 3)
    x[0, 0, 0] = inf, -inf, np.nan
    nearest = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    check("Resize", [x, None, np.array(scales, f32)], mode="nearest", **nearest)


@pytest.mark.parametrize(
    "attributes",
    [
        {"mode": "linear"},
        {"mode": "nearest", "nearest_mode": "ceil"},
        {"mode": "nearest", "nearest_mode": "floor"},
    ],
    ids=["linear", "ceil", "half pixel"],
)
def test_other_ways_to_resize_are_those_of_onnx(attributes, rng):
    check("Resize", [drawn(rng, 1, 2, 3, 4), None, np.array([1, 1, 2, 2], f32)], **attributes)


def test_nearest_by_parts_of_a_pixel(rng):
    nearest = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    scales = np.array([1, 1, 1.5, 2.5], f32)
    check("Resize", [drawn(rng, 1, 2, 4, 4), None, scales], mode="nearest", **nearest)


# ---- maxima of windows


def pooling(label, image, **attributes):
    return pytest.param(image, attributes, id=label)


POOLINGS = [
    pooling("overlapping", (7, 6), kernel_shape=[3, 2]),
    pooling("strides", (7, 6), kernel_shape=[2, 2], strides=[2, 3]),
    pooling("padded", (5, 5), kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    pooling("padded unevenly", (5, 6), kernel_shape=[3, 3], pads=[0, 1, 2, 0], strides=[2, 2]),
    pooling("dilated", (9, 8), kernel_shape=[3, 2], dilations=[2, 3]),
    pooling("ceil", (6, 7), kernel_shape=[2, 3], strides=[3, 2], ceil_mode=1),
    pooling(
        "ceil, padded", (5, 5), kernel_shape=[2, 2], strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1
    ),
    pooling("same upper", (7, 5), kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER"),
    pooling("same lower", (7, 5), kernel_shape=[2, 4], strides=[2, 1], auto_pad="SAME_LOWER"),
    pooling("columns first", (4, 5), kernel_shape=[2, 2], storage_order=1),
    pooling("1-D", (11,), kernel_shape=[4], strides=[3], pads=[2, 1]),
    pooling("3-D", (4, 5, 3), kernel_shape=[2, 3, 2], strides=[1, 2, 1], pads=[0, 1, 1, 1, 0, 0]),
]


@pytest.mark.parametrize(("image", "attributes"), POOLINGS)
def test_maxima_and_where_they_are(image, attributes, rng):
    x = rng.permutation(2 * 3 * int(np.prod(image))).reshape(2, 3, *image).astype(f32)
    check("MaxPool", [x - x.size / 2], results=2, **attributes)


@pytest.mark.parametrize(("image", "attributes"), POOLINGS[:5])
def test_of_equal_maxima_the_first_counts(image, attributes, rng):
    check("MaxPool", [rng.integers(0, 2, (2, 3, *image)).astype(f32)], results=2, **attributes)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_padding_is_less_than_any_integer(dtype):
    low = np.full((1, 1, 3, 3), np.iinfo(dtype).min, dtype)
    check("MaxPool", [low], kernel_shape=[2, 2], pads=[1, 1, 1, 1])


def test_no_index_is_in_the_padding():
    """Where nothing is more than the padding, it is that of the first pixel of a window."""
    x, over_a_row = np.full((1, 1, 3, 1), -inf, f32), {"kernel_shape": [2, 1], "dilations": [2, 1]}
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], **over_a_row, pads=[1, 0, 0, 0])
    y, index = evaluator(model([node], {"x": x}, ["y", "i"])).run(None, {"x": x})
    assert (y == -inf).all() and index.ravel().tolist() == [1, 0]  # rows -1 and 1, 0 and 2


def test_a_window_without_indices(rng):
    check("MaxPool", [drawn(rng, 1, 2, 5, 5)], kernel_shape=[3, 3])


# ---- loops in both directions


@pytest.mark.parametrize("read", [0, 1])
@pytest.mark.parametrize("write", [0, 1])
def test_scan_in_either_direction(read, write, rng):
    """The state is s := 0.5 s + x, and each step writes 2 s."""
    half, two = (helper.make_node("Constant", [], [k], value_float=v) for k, v in HALF_TWO)
    step = [
        half,
        two,
        helper.make_node("Mul", ["s", "half"], ["less"]),
        helper.make_node("Add", ["less", "x"], ["new"]),
        helper.make_node("Mul", ["new", "two"], ["y"]),
    ]
    typed = [helper.make_tensor_value_info(k, TensorProto.FLOAT, [2]) for k in "sx"]
    outputs = [helper.make_tensor_value_info(k, TensorProto.FLOAT, [2]) for k in ("new", "y")]
    scan = helper.make_node(
        "Scan",
        ["start", "xs"],
        ["end", "ys"],
        num_scan_inputs=1,
        scan_input_directions=[read],
        scan_output_directions=[write],
        body=helper.make_graph(step, "step", typed, outputs),
    )
    feeds = {"start": drawn(rng, 2), "xs": drawn(rng, 4, 2)}
    for found, expected in both([scan], feeds, ["end", "ys"]):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


HALF_TWO = (("half", 0.5), ("two", 2.0))


# ---- recurrent layers

T, N, D, H = 5, 4, 3, 2
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = ("Tanh", "Sigmoid", "Relu", "Softsign", "Softplus", "Affine", "LeakyRelu", "Elu")
FUNCTIONS = (*FUNCTIONS, "ThresholdedRelu", "ScaledTanh", "HardSigmoid")
USUAL = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def recurrent(rng, op_type, directions=1, bias=True, lengths=False, states=False, peepholes=False):
    gates = GATES[op_type] * H
    start = [drawn(rng, directions, N, H) if states else None for _ in range(2)]
    arrays = [
        drawn(rng, T, N, D),
        drawn(rng, directions, gates, D) * 0.7,
        drawn(rng, directions, gates, H) * 0.7,
        drawn(rng, directions, 2 * gates) if bias else None,
        np.array([5, 2, 1, 4], np.int32) if lengths else None,
        start[0],
    ]
    if op_type == "LSTM":
        arrays += [start[1], drawn(rng, directions, 3 * H) if peepholes else None]
    return arrays


def results(op_type):
    return 3 if op_type == "LSTM" else 2


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op_type", GATES)
def test_recurrent_layers(op_type, direction, rng):
    count = 2 if direction == "bidirectional" else 1
    for options in ({"bias": False}, {"states": True}, {"lengths": True, "states": True}):
        arrays = recurrent(rng, op_type, count, **options)
        check(op_type, arrays, results(op_type), hidden_size=H, direction=direction)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_activations_of_recurrent_layers(function, rng):
    for op_type in GATES:
        names = [function, *USUAL[op_type][1:]]
        check(op_type, recurrent(rng, op_type), results(op_type), hidden_size=H, activations=names)


def test_each_activation_takes_its_own_numbers(rng):
    """Lists hold those of the functions that have some, direction by direction."""
    names = ["LeakyRelu", "Tanh", "ScaledTanh", "Affine", "HardSigmoid", "Elu"]
    numbers = {"activation_alpha": [0.3, 0.8, 0.6, 0.25, 0.7], "activation_beta": [0.9, 0.1, 0.4]}
    arrays = recurrent(rng, "LSTM", 2)
    check("LSTM", arrays, 3, hidden_size=H, direction="bidirectional", activations=names, **numbers)


@pytest.mark.parametrize("op_type", ["GRU", "LSTM"])
def test_clipping_bounds_what_gates_read(op_type, rng):
    arrays = [a * 4 if a is not None and a.dtype == f32 else a for a in recurrent(rng, op_type)]
    check(op_type, arrays, results(op_type), hidden_size=H, clip=0.8)


def test_the_reset_gate_after_the_product(rng):
    check("GRU", recurrent(rng, "GRU"), 2, hidden_size=H, linear_before_reset=1)


@pytest.mark.parametrize("coupled", [0, 1])
def test_peepholes_and_coupled_gates(coupled, rng):
    arrays = recurrent(rng, "LSTM", peepholes=True, states=True)
    check("LSTM", arrays, 3, hidden_size=H, input_forget=coupled)


@pytest.mark.parametrize("kind", [RNN, GRU, LSTM])
def test_batches_first(kind, rng):
    """ONNX Runtime refuses this layout: the same as with the steps first, turned."""
    op_type = kind.__name__
    arrays = recurrent(rng, op_type, 2, states=True, lengths=True)
    swapped = [a.swapaxes(0, 1) if k in (0, 5, 6) else a for k, a in enumerate(arrays)]
    found = []
    for layout, own in enumerate((arrays, swapped)):
        feeds = {f"x{k}": a for k, a in enumerate(own) if a is not None}
        names = [f"x{k}" if a is not None else "" for k, a in enumerate(own)]
        outputs = [f"y{k}" for k in range(results(op_type))]
        options = {"hidden_size": H, "direction": "bidirectional", "layout": layout}
        node = helper.make_node(op_type, names, outputs, **options)
        found.append(evaluator(model([node], feeds, outputs)).run(None, feeds))
    (y, *last), (turned, *turned_last) = found
    np.testing.assert_allclose(turned, y.transpose(2, 0, 1, 3), rtol=1e-6)
    for a, b in zip(last, turned_last, strict=True):
        np.testing.assert_allclose(b, a.swapaxes(0, 1), rtol=1e-6)


def test_a_shorter_sequence_may_not_matter(rng):
    """Steps past the end of a sequence give zeros, and the last state is that at its end."""
    arrays = recurrent(rng, "GRU", lengths=True)
    longer = [np.array(a) if a is not None else None for a in arrays]
    longer[0][2:, 1] = nextafter(1.0, 2.0) * 100
    proto = [helper.make_node("GRU", [f"x{k}" for k in range(5)], ["y", "h"], hidden_size=H)]
    found = []
    for each in (arrays, longer):
        feeds = {f"x{k}": a for k, a in enumerate(each[:5])}
        found.append(evaluator(model(proto, feeds, ["y", "h"])).run(None, feeds))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not found[0][0][2:, :, 1].any()
