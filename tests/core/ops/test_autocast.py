"""Mixed precision: which operators are in float16, and that training is as it was."""

from collections import Counter

import numpy as np
import pytest
from onnx import numpy_helper, parser

import pd_core as pd
from pd_core import nn
from pd_core.graph.node import ancestors


def types(targets):
    """How often each operator is there, in float16 and in all."""
    nodes = ancestors(targets)
    half = Counter(n.op_type for n in nodes if n.outputs[0].dtype == np.float16)
    return half, Counter(n.op_type for n in nodes)


def digits(rng, count=200):
    """Images of ten blurred patterns, and their labels."""
    patterns = rng.normal(size=(10, 1, 8, 8))
    labels = rng.integers(0, 10, count)
    return (patterns[labels] + 0.3 * rng.normal(size=(count, 1, 8, 8))).astype("float32"), labels


def network():
    """A convolution with normalisation and dropout, and two dense layers."""
    return nn.Sequential(
        nn.Conv2d(8, 3, padding=1),
        nn.BatchNorm2d(),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.FC(32),
        nn.Tanh(),
        nn.FC(10),
    )


def test_products_are_in_half_and_sums_in_single():
    """PyTorch's lists: products in half, bias and activation with them, the rest in single."""
    x = pd.Variable([None, 1, 8, 8], name="x")
    y = network()(x)
    cost = pd.reduce_mean(pd.square(pd.softmax(y)))
    result, logits = pd.autocast([cost, y])
    half, every = types([result])
    assert half == {"Conv": 1, "MatMul": 2, "Add": 2, "Tanh": 1, "Cast": half["Cast"]}
    assert every["Softmax"] == every["ReduceMean"] == 1 and "Softmax" not in half
    assert result.dtype == logits.dtype == np.float32 and result.dims == cost.dims
    assert "Cast" not in types([cost])[0]


def momentum():
    return pd.MomentumOptimizer(0.05, 0.9)


def scaled():
    return pd.LossScaler(momentum())


def trained(images, labels, device, change, optimizer, steps=12):
    """The losses of some steps, and the moving statistics after them."""
    pd.reset(seed=0)
    net = network()
    x = pd.Variable([None, 1, 8, 8], name="x")
    y = pd.Variable([None], dtype="int64", name="y")
    cost = change(pd.reduce_mean(pd.softmax_cross_entropy(net(x), y)))
    step = optimizer().minimize(cost)
    session = pd.Session(device=device)
    losses = [float(session.eval([cost, step], {x: images, y: labels})[0]) for _ in range(steps)]
    return losses, [session.get(v) for v in net.buffers()]


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_digits_train_as_in_single_precision(device, rng):
    """Losses within 3 %, and the same moving statistics."""
    images, labels = digits(rng, 60)
    losses, statistics = trained(images, labels, device, lambda c: c, momentum)
    others, moving = trained(images, labels, device, pd.autocast, scaled)
    assert losses[-1] < 0.5 * losses[0]
    np.testing.assert_allclose(others, losses, rtol=0.03)
    for a, b in zip(statistics, moving, strict=True):
        np.testing.assert_allclose(b, a, atol=0.02)


def test_values_at_hand_train_alike(rng):
    """Inside pd.guard() the cost of every step is rewritten."""
    images, labels = digits(rng, 60)
    results = []
    for change in (lambda c: c, pd.autocast):
        pd.reset(seed=0)
        net, optimizer = network(), momentum()
        with pd.guard():
            for _ in range(4):
                logits = net(pd.to_variable(images))
                cost = change(pd.reduce_mean(pd.softmax_cross_entropy(logits, labels)))
                optimizer.minimize(cost)
            results.append([float(cost.numpy()), *(v.val() for v in net.buffers())])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(b, a, atol=0.02)


IMPORTED = """
<ir_version: 10, opset_import: ["": 21]>
g (float[N, 4] x) => (float[N, 3] y) {
    h = MatMul(x, w)
    r = Relu(h)
    y = Softmax(r)
}
"""


def test_imported_models_are_rewritten(rng):
    model = parser.parse_model(IMPORTED)
    array = rng.normal(size=(4, 3)).astype("float32")
    model.graph.initializer.append(numpy_helper.from_array(array, "w"))
    imported = pd.import_onnx(model)
    x = pd.Variable([None, 4], name="x")
    y = imported(x)
    half, _ = types([pd.autocast(y)])
    assert half["MatMul"] == half["Relu"] == 1 and not half["Softmax"]
    feed = {x: rng.normal(size=(2, 4)).astype("float32")}
    a, b = pd.eval([y, pd.autocast(y)], feed)
    np.testing.assert_allclose(b, a, atol=5e-3)


def test_constants_out_of_range_stay_in_single(rng):
    """A mask of -1e9 would be infinite in float16."""
    x = pd.Variable([3, 4], name="x")
    y = pd.matmul(x, np.eye(4, dtype="float32")) + np.float32(-1e9)
    assert types([pd.autocast(y)])[0] == {"MatMul": 1, "Cast": 2}


def test_types_without_kernels_are_refused():
    x = pd.Variable([3, 4], name="x")
    y = pd.matmul(x, np.eye(4, dtype="float32"))
    with pytest.raises(pd.DTypeError, match="no bfloat16 kernels on CPUs for MatMul\n"):
        pd.autocast(y, "bfloat16")
    with pytest.raises(pd.DTypeError, match="the dtype is 'float16', not 'float64'"):
        pd.autocast(y, "float64")
    with pytest.raises(TypeError, match="autocast: takes Variables, not 3"):
        pd.autocast([y, 3])


def test_recomputed_segments_get_their_gradients(rng):
    """The input of a segment is one also where it is computed in float16."""
    image = rng.normal(size=(8, 4)).astype("float32")
    results = []
    for segment in (lambda function, x: function(x), pd.recompute):
        pd.reset(seed=0)
        x = pd.Variable([None, 4], name="x")
        first, second = nn.FC(4), nn.FC(4)
        y = segment(lambda h, layer=second: pd.tanh(layer(h)), first(x))
        cost = pd.autocast(pd.reduce_mean(pd.square(y)))
        variables = [*first.parameters(), *second.parameters()]
        results.append(pd.eval(pd.gradients(cost, variables), {x: image}))
    for a, b in zip(*results, strict=True):
        assert np.abs(a).max() > 0
        np.testing.assert_allclose(b, a, rtol=2e-2, atol=1e-4)
