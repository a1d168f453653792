"""Models that other packages export, imported and trained: compared with their own training."""

import io
import warnings

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend import ort
from tests.thinned import thinned

RATE, STEPS = 0.05, 20


def residual_network(nn):
    """Two residual blocks with batch normalisation, a pooling, a head."""

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.first = nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
            )
            self.second = nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
            )

        def forward(self, x):
            return nn.functional.relu(x + self.second(self.first(x)))

    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        Block(8),
        Block(8),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )


def encoder(nn):
    """A transformer's block, and a head on the mean over the positions."""

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(16), nn.LayerNorm(16)])
            self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
            self.wide, self.narrow = nn.Linear(16, 32), nn.Linear(32, 16)
            self.head = nn.Linear(16, 4)

        def forward(self, x):
            rows, length, _ = x.shape
            parts = self.qkv(self.norms[0](x)).reshape(rows, length, 3, 4, 4)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            seen = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + self.out(seen.transpose(1, 2).reshape(rows, length, 16))
            x = x + self.narrow(nn.functional.gelu(self.wide(self.norms[1](x))))
            return self.head(x.mean(1))

    return Encoder()


def recurrent(nn):
    """An LSTM over a sequence, and a head on its last state."""

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(6, 8, batch_first=True)
            self.head = nn.Linear(8, 4)

        def forward(self, x):
            return self.head(self.lstm(x)[0][:, -1])

    return Recurrent()


NETWORKS = {
    "residual network": (residual_network, (3, 12, 12)),
    "encoder": (encoder, (5, 16)),
    "lstm": (recurrent, (7, 6)),
}


def exported(torch, network, shape):
    """The file that PyTorch's exporter writes, for any number of rows."""
    out, sample = io.BytesIO(), torch.zeros(2, *shape)
    options = {"input_names": ["x"], "output_names": ["y"], "dynamo": True, "optimize": False}
    rows = torch.export.Dim("rows")
    with warnings.catch_warnings():  # about versions of other packages
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            network.eval(),
            (sample,),
            dynamic_shapes=({0: rows},),
            opset_version=18,
            verbose=False,
            **options,
        )
        program.save(out)
    return out.getvalue()


@pytest.mark.parametrize("name", thinned(NETWORKS, 2))  # the exporter takes seconds
@pytest.mark.filterwarnings("ignore")
def test_training_is_that_of_pytorch(name, rng):
    make, shape = NETWORKS[name]
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")
    torch.manual_seed(1)
    network = make(torch.nn)
    rows = rng.standard_normal((16, *shape)).astype("float32")
    labels = rng.integers(0, 4, 16)
    model = exported(torch, network, shape)
    f = pd.import_onnx(model, training=True)
    x, label = pd.Variable([None, *shape]), pd.Variable([None], dtype="int64")
    y = f(x)
    wanted = network(torch.from_numpy(rows)).detach().numpy()
    np.testing.assert_allclose(pd.eval(y, {x: rows}), wanted, rtol=1e-4, atol=1e-5)
    cost = pd.reduce_mean(pd.softmax_cross_entropy(y, label))
    step = pd.SGDOptimizer(RATE).minimize(cost)
    found = [float(pd.eval([step, cost], {x: rows, label: labels})[1]) for _ in range(STEPS)]
    np.testing.assert_allclose(found, by_pytorch(torch, network, rows, labels), rtol=2e-3)
    assert found[-1] < found[0]
    again = ort.session(pd.export_onnx(None, [y]).SerializeToString()).run(None, {x.name: rows})
    np.testing.assert_allclose(again[0], pd.eval(y, {x: rows}), rtol=1e-4, atol=1e-5)


def by_pytorch(torch, network, rows, labels):
    """Return the costs of the same steps in PyTorch."""
    rows, labels, costs = torch.from_numpy(rows), torch.from_numpy(labels), []
    optimizer = torch.optim.SGD(network.train().parameters(), RATE)
    for _ in range(STEPS):
        cost = torch.nn.functional.cross_entropy(network(rows), labels)
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
        costs.append(cost.item())
    return costs


@pytest.mark.filterwarnings("ignore")
def test_a_classifier_of_scikit_learn(rng):
    convert = pytest.importorskip("skl2onnx")
    networks = pytest.importorskip("sklearn.neural_network")
    rows = rng.standard_normal((64, 5)).astype("float32")
    labels = (rows[:, 0] * rows[:, 1] > 0).astype(int) + (rows[:, 2] > 0.5)
    classifier = networks.MLPClassifier((8,), max_iter=5, random_state=0).fit(rows, labels)
    model = convert.to_onnx(classifier, rows[:1], options={"zipmap": False})
    f = pd.import_onnx(model)
    x, label = pd.Variable([None, 5]), pd.Variable([None], dtype="int64")
    (probability,) = f(x, output=[f.outputs[1]])
    found = pd.eval(probability, {x: rows})
    np.testing.assert_allclose(found, classifier.predict_proba(rows), rtol=1e-4, atol=1e-5)
    cost = pd.reduce_mean(pd.cross_entropy(probability, label))
    step = pd.AdamOptimizer(0.05).minimize(cost)
    feeds = {x: rows, label: labels}
    costs = [float(pd.eval([step, cost], feeds)[1]) for _ in range(STEPS)]
    assert costs[-1] < 0.7 * costs[0]
