"""PyTorch's tensors, DataLoaders and data sets as the data of `fit` and of a Runner."""

import gc

import numpy as np
import pytest

import pd_core as pd

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

X = torch.from_numpy(np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32))
Y = (X[:, 0] > 0).long()
DATA = TensorDataset(X, Y)
FIT = {"optimizer": "sgd", "loss": "softmax_cross_entropy", "metrics": "accuracy"}


class Net(pd.nn.Module):
    """One layer."""

    def __init__(self):
        super().__init__()
        self.fc = pd.nn.FC(2)

    def forward(self, x):
        return self.fc(x)


def dicts(samples):
    """A batch with names."""
    return {"x": torch.stack([x for x, _ in samples]), "y": torch.stack([y for _, y in samples])}


def fitted(*data, **more):
    with pd.fresh():
        net = Net()
        history = net.fit(*data, **FIT, **more)
        return dict(history), {name: v.val() for name, v in net.named_parameters()}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python 3.12, by PyTorch
@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_is_as_arrays(workers):
    """The last batch is shorter."""
    if workers:  # a fork, whose collector must end nothing of other tests that waits for threads
        gc.collect()
        gc.freeze()
    loader = DataLoader(DATA, batch_size=16, num_workers=workers, timeout=120 * workers)
    found = fitted(loader, validation_data=loader)
    arrays = X.numpy(), Y.numpy()
    expected = fitted(*arrays, batch_size=16, shuffle=False, validation_data=arrays)
    np.testing.assert_equal(found[1], expected[1])
    for name, values in expected[0].items():
        np.testing.assert_allclose(found[0][name], values, rtol=1e-6)


@pytest.mark.parametrize(
    "x", [X.clone().requires_grad_(), X.bfloat16(), X.double(), torch.nn.Parameter(X)]
)
def test_any_tensor_is_an_array(x):
    array = x.detach().float().numpy()
    np.testing.assert_equal(fitted(x, Y)[1], fitted(array, Y.numpy())[1])
    v = pd.Variable([None, 4])
    np.testing.assert_array_equal(pd.eval(v * 2.0, {v: x}), array * 2)
    np.testing.assert_array_equal(pd.constant(x).value, array)


def run(data, inputs=None):
    t = pd.training
    with pd.fresh():
        x, y = pd.Variable("x", shape=[None, 4]), pd.Variable("y", shape=[None], dtype="int64")
        cost = pd.reduce_mean(pd.softmax_cross_entropy(pd.layer.fc(x, 2), y))
        items = [t.Device(), t.Counter(), t.Data(data, inputs), t.ForwardBackward(cost)]
        with t.runner_of([*items, t.Update(pd.SGDOptimizer(0.1))]) as runner:
            context = runner.run(2)
        return context.samples, context.pass_metrics["cost"]


def test_a_loader_in_a_runner():
    reader = pd.training.ArrayReader(X.numpy(), Y.numpy(), batch_size=16)
    expected = run(reader, ["x", "y"])
    assert expected[0] == 100
    assert run(DataLoader(DATA, batch_size=16), ["x", "y"]) == expected
    assert run(DataLoader(DATA, batch_size=16, collate_fn=dicts)) == expected


def test_predictions_of_a_loader():
    net = Net()
    net.fit(X, Y, **FIT)
    expected = net.predict(X.numpy())
    np.testing.assert_array_equal(net.predict(X), expected)
    loader = DataLoader(TensorDataset(X), batch_size=16)
    np.testing.assert_allclose(net.predict(loader), expected, rtol=1e-6)


def test_errors():
    with pytest.raises(TypeError, match=r"(?s)not <torch.*DataLoader\(data, batch_size=32\)"):
        Net().fit(DATA, **FIT)
    loader = DataLoader(DATA, batch_size=16, collate_fn=dicts)
    with pytest.raises(TypeError, match=r"(?s)not dict of x, y.*\(\(b\['x'\], b\['y'\]\) for b"):
        Net().fit(loader, **FIT)
