"""Statistics of batch normalisation that are computed anew, beside PyTorch's update_bn."""

import numpy as np
import pytest

import pd_core as pd
from pd_core import training

BATCHES = [np.random.default_rng(k).normal(k, 1 + k, (8, 3)).astype("float32") for k in range(4)]


class Net(pd.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = pd.nn.FC(4), pd.nn.BatchNorm1d()
        self.second, self.last = (
            pd.nn.Sequential(pd.nn.FC(2), pd.nn.BatchNorm1d(momentum=0.5)),
            pd.nn.FC(1),
        )

    def forward(self, x):
        return self.last(self.second(pd.tanh(self.norm(self.first(x)))))


def statistics(net):
    return {name: v.val() for name, v in net.named_buffers()}


def test_the_statistics_of_pytorch():
    torch = pytest.importorskip("torch")
    from torch import nn as tn

    net = Net()
    net(BATCHES[0])
    net.second.eval()
    weights = {name: v.val() for name, v in net.named_parameters()}
    training.refresh_batch_norm(net, iter(BATCHES))
    dense, norm = tn.Linear(3, 4), tn.BatchNorm1d(4)
    peer = tn.Sequential(dense, norm, tn.Tanh(), tn.Linear(4, 2), tn.BatchNorm1d(2))
    for ours, theirs in (("first", peer[0]), ("second.0", peer[3])):
        theirs.weight.data = torch.tensor(weights[f"{ours}.W"].T)
        theirs.bias.data = torch.tensor(weights[f"{ours}.B"])
    torch.optim.swa_utils.update_bn(map(torch.tensor, BATCHES), peer)
    found = statistics(net)
    for ours, theirs in (("norm", peer[1]), ("second.1", peer[4])):
        np.testing.assert_allclose(found[f"{ours}.mean"], theirs.running_mean, rtol=1e-4, atol=1e-5)
        unbiased = found[f"{ours}.variance"] * 8 / 7  # as PyTorch stores it
        np.testing.assert_allclose(unbiased, theirs.running_var, rtol=1e-4)
    assert (net.training, net.second.training, net.second[1].training) == (True, False, False)
    assert (net.norm.momentum, net.second[1].momentum) == (0.9, 0.5)
    for name, v in net.named_parameters():
        np.testing.assert_array_equal(v.val(), weights[name])


def test_a_module_with_a_step_of_its_own_is_not_trained():
    class Stepping(Net):
        def train_one_batch(self, x):
            raise AssertionError("a step is taken")

    net = Stepping()
    net.eval()(BATCHES[0])
    training.refresh_batch_norm(net.train(), BATCHES)
    first = np.mean([x.mean(0) for x in BATCHES], 0) @ net.first.W.val() + net.first.B.val()
    np.testing.assert_allclose(net.norm.mean.val(), first, rtol=1e-4, atol=1e-5)


def test_several_inputs():
    class Sum(pd.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = pd.nn.BatchNorm1d()

        def forward(self, x, y):
            return self.norm(x + y)

    net = Sum()
    net.eval()(BATCHES[0], BATCHES[0])
    training.refresh_batch_norm(net, [(x, 1.0 + x) for x in BATCHES])
    expected = np.mean([2 * x.mean(0) + 1 for x in BATCHES], 0)
    np.testing.assert_allclose(net.norm.mean.val(), expected, rtol=1e-5)


def test_after_an_error_nothing_is_changed():
    net = Net()
    net.train()(BATCHES[0])
    before = statistics(net)
    with pytest.raises(pd.ShapeError):
        training.refresh_batch_norm(net, [BATCHES[1], BATCHES[1][:, :2]])
    with pytest.raises(ValueError, match="refresh_batch_norm: there are no batches"):
        training.refresh_batch_norm(net, [])
    assert net.norm.momentum == 0.9
    for name, value in statistics(net).items():
        np.testing.assert_array_equal(value, before[name])


def test_a_network_without_batch_normalisation():
    with pytest.raises(pd.GraphError, match="there is no batch normalisation in FC"):
        training.refresh_batch_norm(pd.nn.FC(3), BATCHES)
    with pytest.raises(pd.NotInitialized, match="Net has no statistics before its first call"):
        training.refresh_batch_norm(Net(), BATCHES)
