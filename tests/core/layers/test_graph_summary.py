"""pd.summary: layers, parameters and multiply-adds of graphs, beside numbers computed by hand."""

import numpy as np
import pytest
from onnx import numpy_helper, parser

import pd_core as pd
from pd_core import nn


def lenet():
    """LeNet-5 with 28 x 28 images (LeCun et al. 1998), all maps of C3 connected."""
    net = nn.Sequential(
        nn.Conv2d(6, 5, padding=2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(16, 5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.FC(120),
        nn.Tanh(),
        nn.FC(84),
        nn.Tanh(),
        nn.FC(10),
        name="lenet",
    )
    x = pd.Variable([None, 1, 28, 28], name="x")
    return x, net(x)


LENET = {  # (parameters, multiply-adds) for one image
    "lenet/0": (5 * 5 * 6 + 6, 28 * 28 * 6 * 5 * 5),
    "lenet/3": (6 * 5 * 5 * 16 + 16, 10 * 10 * 16 * 6 * 5 * 5),
    "lenet/7": (400 * 120 + 120, 400 * 120),
    "lenet/9": (120 * 84 + 84, 120 * 84),
    "lenet/11": (84 * 10 + 10, 84 * 10),
}


def test_lenet():
    x, y = lenet()
    s = pd.summary(y, {x: (2, 1, 28, 28)})
    counts = {r.name: (r.parameters, r.multiply_adds) for r in s.rows if r.parameters}
    assert counts == {name: (own, 2 * products) for name, (own, products) in LENET.items()}
    assert (s.parameters, s.trainable, s.multiply_adds) == (61706, 61706, 2 * 416520)
    assert s.parameter_bytes == 4 * 61706
    # outputs of products, of sums with a bias, of activations, pools and the flattening
    convs = [2 * (6 * 28 * 28), 2 * (16 * 10 * 10), 6 * 14 * 14, 2 * 16 * 5 * 5]
    dense = [3 * 120, 3 * 84, 2 * 10]
    assert s.activation_bytes == 4 * 2 * (sum(convs) + sum(dense))
    lines = str(s).splitlines()
    assert lines[0].split() == [
        *("layer", "operators", "output", "shape", "parameters", "multiply-adds")
    ]
    assert lines[5].split("  ")[0] == "lenet/3" and lines[5].split()[1:] == [
        *("Conv", "(2,", "16,", "10,", "10)", "2,416", "480,000")
    ]
    assert lines[-3:] == [
        "parameters: 61,706, trainable 61,706, not trainable 0; 246.82 kB",
        "multiply-adds: 833,040, two FLOPs each",
        f"activations: {s.activation_bytes / 1e3:.2f} kB",
    ]


def test_transformer():
    """One layer of width 8, 2 heads and 16 hidden units, for 3 sequences of 5 tokens."""
    x = pd.Variable([None, None, 8], name="x")
    s = pd.summary(nn.TransformerEncoderLayer(8, 2, 16)(x), {x: (3, 5, 8)})
    tokens, width, hidden = 3 * 5, 8, 16
    attention = 4 * tokens * width * width + 2 * 3 * 5 * 5 * width
    assert s.multiply_adds == attention + 2 * tokens * width * hidden
    assert s.parameters == 4 * (8 * 8 + 8) + (8 * 16 + 16) + (16 * 8 + 8) + 2 * 2 * 8


@pytest.mark.parametrize("layer, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers(layer, gates):
    """3 sequences of 7 steps: input and state times weights, for every gate."""
    x = pd.Variable([None, None, 8], name="x")
    y = getattr(nn, layer)(5)(x)
    s = pd.summary(y[0] if isinstance(y, tuple) else y, {x: (3, 7, 8)})
    assert s.multiply_adds == 3 * 7 * gates * 5 * (8 + 5)


def test_statistics_and_frozen_parameters():
    """Moving statistics are no parameters; a shared parameter counts once."""
    x = pd.Variable([None, 4], name="x")
    layer, norm = nn.FC(4), nn.BatchNorm1d()
    y = norm(layer(layer(x)))
    layer.freeze()
    s = pd.summary([y, pd.reduce_mean(y)], {x: (2, 4)})
    assert (s.parameters, s.trainable) == (20 + 8, 8)
    assert s.multiply_adds == 2 * (2 * 4 * 4)


IMPORTED = """
<ir_version: 10, opset_import: ["": 21]>
g (float[N, 2, 9, 9] x, float[1, 3, 8] u) => (float[M, K] y, float[C, D] z) {
    a = Conv<group = 2, strides = [2, 2]> (x, w)
    b = ConvTranspose(a, v)
    k = Constant<value_ints = [0, -1]>()
    c = Reshape(b, k)
    y = Gemm<transB = 1> (c, m)
    l, h = LSTM<hidden_size = 5> (u, p, r)
    z = Einsum<equation = "dnh,dno->ho"> (h, h)
}
"""
WEIGHTS = {
    "w": (4, 1, 3, 3),
    "v": (4, 6, 2, 2),
    "m": (7, 150),
    "p": (1, 20, 8),
    "r": (1, 20, 5),
}


def test_imported_models():
    model = parser.parse_model(IMPORTED)
    for name, shape in WEIGHTS.items():
        model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, "f"), name))
    x, u = pd.Variable([None, 2, 9, 9], name="x"), pd.Variable([1, 3, 8], name="u")
    y, z = pd.import_onnx(model)(x, u)
    s = pd.summary([y, z], {x: (2, 2, 9, 9), u: (1, 3, 8)})
    conv = 2 * 4 * 4 * 4 * (3 * 3)
    transposed = 2 * 4 * 4 * 4 * (6 * 2 * 2)
    gemm, lstm, einsum = 2 * 150 * 7, 1 * 3 * 20 * (8 + 5), 1 * 3 * 5 * 5
    assert s.multiply_adds == conv + transposed + gemm + lstm + einsum
    assert s.parameters == sum(int(np.prod(shape)) for shape in WEIGHTS.values())


def test_sizes_with_names_and_computed_ones():
    """A named batch size; the number of positive elements is that of an evaluation."""
    x = pd.Variable(["N", 3], name="x")
    w = pd.get_variable("w", [3, 4])
    assert pd.summary(pd.matmul(x, w), sizes={"N": 5}).multiply_adds == 5 * 3 * 4
    rows = pd.reshape(pd.nonzero(x > 0.0), [2, -1])
    y = pd.matmul(pd.matrix_transpose(pd.cast(rows, "float32")), np.ones((2, 7), "float32"))
    assert pd.summary(y, {x: np.eye(3)}).multiply_adds == 3 * 2 * 7


def test_loops_without_a_known_length_are_unknown():
    x = pd.Variable([None, 3], name="x")
    y = pd.while_loop(lambda h: pd.reduce_sum(h) < 9.0, lambda h: pd.matmul(h, h), x)
    s = pd.summary(y, {x: (3, 3)})
    assert "at least 0, two FLOPs each" in str(s)
    assert None in [row.multiply_adds for row in s.rows]


def test_arguments_are_checked():
    x = pd.Variable([None, None, 3], name="x")
    y = pd.tanh(x)
    with pytest.raises(pd.GraphError, match=r"summary: .*x.* is fed, and its sizes are not all"):
        pd.summary(y)
    for wrong in ((2, 4), [2, 3]):
        with pytest.raises(pd.ShapeError, match=r"summary: .*x.* is fed with \[2"):
            pd.summary(y, {x: wrong})
    with pytest.raises(TypeError, match="summary: takes Variables, not 'y'"):
        pd.summary("y")


def test_a_batch_is_of_one_unless_given():
    x = pd.Variable([None, 3], name="x")
    y = pd.fc(x, 4)
    assert [row.shape for row in pd.summary(y).rows] == [(1, 4)]
    assert [row.shape for row in pd.summary(y, feeds={x: (8, 3)}).rows] == [(8, 4)]
