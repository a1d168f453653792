"""Layers whose first input is float64: their parameters are, and they compute as PyTorch's."""

import numpy as np
import pytest

import pd_core as pd
from pd_core import nn

torch = pytest.importorskip("torch")
tn = torch.nn

# name: (ours, PyTorch's, the shape of an input)
ROWS = {
    "fc": lambda: (nn.FC(4), tn.Linear(3, 4), (5, 3)),
    "conv": lambda: (nn.Conv2d(4, 3), tn.Conv2d(3, 4, 3), (2, 3, 5, 5)),
    "transposed": lambda: (nn.ConvTranspose1d(4, 3), tn.ConvTranspose1d(3, 4, 3), (2, 3, 5)),
    "batch_norm": lambda: (nn.BatchNorm1d(), tn.BatchNorm1d(3), (5, 3)),
    "layer_norm": lambda: (nn.LayerNorm(), tn.LayerNorm(3), (5, 3)),
    "lstm": lambda: (nn.LSTM(4, bidirectional=True), recurrent(tn.LSTM), (2, 5, 3)),
    "gru": lambda: (nn.GRU(4, bidirectional=True), recurrent(tn.GRU), (2, 5, 3)),
    # 1 / sqrt(3), by which products are scaled, has other digits in float32
    "transformer": lambda: (
        nn.TransformerEncoderLayer(6, 2, 16, dropout=0.0),
        tn.TransformerEncoderLayer(6, 2, 16, 0.0, batch_first=True),
        (2, 5, 6),
    ),
}


def recurrent(kind):
    return kind(3, 4, batch_first=True, bidirectional=True)


def first(y):
    return y[0] if isinstance(y, tuple) else y


@pytest.mark.parametrize("name", ROWS)
def test_double_layers_are_those_of_pytorch(name, rng):
    ours, theirs, shape = ROWS[name]()
    theirs, array = theirs.double(), rng.normal(size=shape)
    x = pd.Variable(list(shape), dtype="float64")
    y = first(ours(x))
    assert {v.dtype.name for v in ours.parameters() + ours.buffers()} == {"float64"}
    pd.interchange.from_pytorch(ours, theirs.state_dict())
    z = torch.tensor(array, requires_grad=True)
    expected = first(theirs(z))
    (expected * expected.detach()).sum().backward()
    (slope,) = pd.gradients(pd.reduce_sum(y * pd.stop_gradient(y)), [x])
    found, g = pd.eval([y, slope], {x: array}, training=True)
    np.testing.assert_allclose(found, expected.detach(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(g, z.grad, rtol=1e-9, atol=1e-11)


def test_steps_of_double_parameters_have_their_digits():
    """Adam's corrections and rates are float64, too; inside a guard as in static graphs."""
    for dynamic in (False, True):
        w = pd.Variable(data=np.array([1.0, -2.0]), dtype="float64")
        t = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
        optimizer, theirs = pd.AdamOptimizer(0.1), torch.optim.Adam([t], 0.1)
        step = None if dynamic else optimizer.minimize(pd.reduce_sum(w * w * w * w))
        for _ in range(3):
            theirs.zero_grad()
            (t**4).sum().backward()
            theirs.step()
            if dynamic:
                with pd.guard():
                    optimizer.minimize(pd.reduce_sum(w * w * w * w))
            else:
                pd.eval(step)
        np.testing.assert_allclose(w.val(), t.detach(), rtol=1e-13)


def test_means_of_double_losses_are_double():
    logits, label = pd.constant(np.eye(3), "float64"), np.array([0, 1, 1])
    weight = np.array([0.1, 0.7, 1.3])
    for options in ({"weight": weight}, {"ignore_index": 0}, {"weight": weight, "ignore_index": 0}):
        given = {k: torch.tensor(v) if k == "weight" else v for k, v in options.items()}
        expected = tn.CrossEntropyLoss(**given)(torch.eye(3).double(), torch.tensor(label))
        found = pd.eval(nn.SoftmaxCrossEntropy(**options)(logits, label))
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_parameters_of_other_inputs_are_single():
    half, ids = pd.Variable([2, 3], dtype="float16"), pd.Variable([2], dtype="int64")
    table = nn.Embedding(5, 2)
    table(ids)
    assert table.W.dtype == np.float32
    with pytest.raises(pd.DTypeError):
        nn.FC(2)(half)
    built = nn.FC(2)
    built(pd.Variable([2, 3]))
    with pytest.raises(pd.DTypeError, match="float64 and float32"):
        built(pd.Variable([2, 3], dtype="float64"))
