"""WeightNorm and SpectralNorm beside PyTorch's parametrizations."""

import copy
import pickle
import re

import numpy as np
import onnxruntime
import pytest

import pd_core as pd
from pd_core import nn


def _matrix(array):
    return np.swapaxes(array, 0, 1)


# Our layer, PyTorch's, the axis of PyTorch's outputs, our weight as PyTorch's, an input.
PAIRS = {
    "fc": (lambda: nn.FC(5), lambda t: t.Linear(4, 5), 0, _matrix, (6, 4)),
    "conv": (lambda: nn.Conv2d(5, 3), lambda t: t.Conv2d(4, 5, 3), 0, np.asarray, (2, 4, 5, 6)),
    "transposed": (
        lambda: nn.ConvTranspose2d(5, 3),
        lambda t: t.ConvTranspose2d(4, 5, 3),
        1,
        np.asarray,
        (2, 4, 5, 6),
    ),
}


@pytest.fixture(params=PAIRS.values(), ids=list(PAIRS))
def pair(request, rng):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    ours, theirs, axis, same, shape = request.param
    return torch, ours(), theirs(torch.nn), axis, same, rng.normal(size=shape).astype("float32")


def train(layer, x, dynamic, steps=3):
    """Three steps of gradient descent on the squares of the outputs; the losses."""
    optimizer, losses = pd.SGDOptimizer(0.02), []
    if dynamic:
        with pd.guard():
            for _ in range(steps):
                loss = pd.reduce_mean(pd.square(layer(x)))
                optimizer.minimize(loss)
                losses.append(float(loss))
        return losses
    slot = pd.Variable([None, *x.shape[1:]])
    loss = pd.reduce_mean(pd.square(layer(slot)))
    step = optimizer.minimize(loss)
    return [float(pd.eval([loss, step], feeds={slot: x})[0]) for _ in range(steps)]


def their_losses(torch, layer, x, steps=3):
    optimizer, losses = torch.optim.SGD(layer.parameters(), lr=0.02), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = layer(torch.tensor(x)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def numbers(tensor):
    return tensor.detach().numpy().copy()


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_weight_norm_is_that_of_pytorch(pair, dynamic):
    torch, ours, theirs, axis, same, x = pair
    theirs = torch.nn.utils.parametrizations.weight_norm(theirs, dim=axis)
    layer = nn.WeightNorm(ours)
    weight = theirs.parametrizations.weight
    values = {"g": same(numbers(weight.original0)), "v": same(numbers(weight.original1))}
    layer.load_dict({**values, "layer.B": numbers(theirs.bias)})
    assert np.allclose(train(layer, x, dynamic), their_losses(torch, theirs, x), rtol=1e-5)
    assert np.allclose(layer.g.val(), same(numbers(weight.original0)), rtol=1e-5)
    assert np.allclose(layer.v.val(), same(numbers(weight.original1)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("iterations", [1, 3])
def test_spectral_norm_is_that_of_pytorch(pair, dynamic, iterations):
    torch, ours, theirs, _, same, x = pair
    theirs = torch.nn.utils.parametrizations.spectral_norm(theirs, n_power_iterations=iterations)
    layer = nn.SpectralNorm(ours, iterations=iterations)
    weight = theirs.parametrizations.weight
    state = {"W": same(numbers(weight.original)), "layer.B": numbers(theirs.bias)}
    state |= {"u": numbers(weight[0]._u), "v": numbers(weight[0]._v)}
    layer.load_dict(state)
    assert np.allclose(train(layer, x, dynamic), their_losses(torch, theirs, x), rtol=1e-5)
    assert np.allclose(layer.W.val(), same(numbers(weight.original)), rtol=1e-4, atol=1e-6)
    assert np.allclose(layer.u.val(), numbers(weight[0]._u), atol=1e-5)
    assert np.allclose(layer.v.val(), numbers(weight[0]._v), atol=1e-5)
    u, want = layer.u.val(), numbers(theirs.eval()(torch.tensor(x)))
    assert np.allclose(pd.eval(layer.eval()(x)), want, atol=1e-5)
    assert (layer.u.val() == u).all()  # evaluation does not improve them


def test_weights_begin_as_those_of_the_layer(rng):
    """g is the norm of v in any session, so that the weight is v at first."""
    x = pd.Variable([None, 4])
    layer = nn.WeightNorm(nn.FC(5, kernel_init="he_normal"), name="w")
    y, plain = layer(x), pd.matmul(x, layer.v) + layer.layer.B
    array, seen = rng.normal(size=(3, 4)).astype("float32"), []
    for seed in (1, 2):
        with pd.Session(seed=seed) as session:
            got, want, v = session.eval([y, plain, layer.v], feeds={x: array})
        seen.append(v)
        assert np.allclose(got, want, rtol=1e-5)
    assert (seen[0] != seen[1]).any()
    pd.eval(layer.g.initializer)
    assert np.allclose(layer.g.val(), np.linalg.norm(layer.v.val(), axis=0, keepdims=True))


def test_spectral_norm_begins_near_the_largest_singular_value(rng):
    w = np.diag([3.0, 1.0, 0.5]).astype("float32")
    layer = nn.SpectralNorm(nn.FC(3, kernel_init=w, bias=False)).eval()
    assert np.allclose(pd.eval(layer(np.eye(3, dtype="float32"))), w / 3.0, atol=1e-5)
    zeros = nn.SpectralNorm(nn.FC(3, kernel_init="zeros", bias=False))
    zeros.infer_shape((None, 3))
    assert (zeros.u.val() == 0.0).all()


@pytest.mark.parametrize("kind", [nn.WeightNorm, nn.SpectralNorm])
def test_recurrent_weights_and_parameters_of_own_layers(kind, rng):
    x = rng.normal(size=(2, 3, 4)).astype("float32")
    layer = kind(nn.RNN(5), "R_l0", axis=1)
    with pd.guard():
        loss = pd.reduce_mean(layer(x)[0])
        pd.SGDOptimizer(0.1).minimize(loss)
    own = {"g", "v"} if kind is nn.WeightNorm else {"W", "u", "v"}
    assert layer.state_dict().keys() == {*own, "layer.W_l0", "layer.B_l0"}

    class Own(nn.Layer):
        def forward(self, x):
            return x @ self.parameter("table", [4, 2], "ones")

    layer = kind(Own(), "table")
    with pd.guard():
        y = layer(np.eye(4, dtype="float32")).numpy()
    assert np.allclose(y, 1.0 if kind is nn.WeightNorm else 8**-0.5)


@pytest.mark.parametrize("kind", [nn.WeightNorm, nn.SpectralNorm])
def test_saved_copied_exported(kind, rng, tmp_path):
    x = rng.normal(size=(3, 4)).astype("float32")

    def network():
        return nn.Sequential(kind(nn.FC(5, act="tanh")), nn.FC(2))

    first, twin = network(), network()
    train(first, x, True)
    twin.load_dict(first.state_dict())
    copied = copy.deepcopy(first)
    with pd.guard():
        want = first.eval()(x).numpy()
        assert np.allclose(twin.eval()(x).numpy(), want) and np.allclose(
            copied.eval()(x).numpy(), want
        )
    train(copied.train(), x, True)
    with pd.guard():
        assert np.allclose(first(x).numpy(), want)  # which has parameters of its own
        assert not np.allclose(copied.eval()(x).numpy(), want)
    slot = pd.Variable([None, 4], name="x")
    path = tmp_path / "net.onnx"
    pd.export_onnx(path, [first(slot)], inputs=[slot])
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert np.allclose(session.run(None, {"x": x})[0], want, atol=1e-6)


def test_frozen_weights_do_not_change(rng):
    x = rng.normal(size=(3, 4)).astype("float32")
    layer = nn.WeightNorm(nn.FC(5))
    network = nn.Sequential(layer, nn.FC(2))
    network.infer_shape((None, 4))
    before = layer.freeze().state_dict()
    train(network, x, True, 1)
    assert all((value == before[key]).all() for key, value in layer.state_dict().items())
    layer.unfreeze()
    train(network, x, True, 1)
    assert all((value != before[key]).any() for key, value in layer.state_dict().items())


def test_modules_compute_their_own_parameters():
    class Net(nn.Module):
        def forward(self, x):
            return x @ self.parameter("table", [4, 2], "ones")

    layer = nn.SpectralNorm(Net(), "table")
    assert layer.infer_shape((3, 4)) == (3, 2)
    assert list(layer.state_dict()) == ["W", "u", "v"]


def test_two_parameters_of_a_layer(rng):
    """Each has a layer around it; copies and pickles compute the same."""
    layer = nn.SpectralNorm(nn.WeightNorm(nn.LSTM(3), "W_l0"), "R_l0")
    x = rng.normal(size=(2, 3, 4)).astype("float32")
    twin = nn.LSTM(3)
    with pd.guard():
        want = layer.eval()(x)[0].numpy()
        g, v = (layer.layer.state_dict()[name] for name in ("g", "v"))
        w, s = layer.state_dict()["W"], np.linalg.norm(layer.state_dict()["W"], 2)
        bias = layer.state_dict()["layer.layer.B_l0"]
        twin.load_dict({"W_l0": g * v / np.linalg.norm(v, axis=0), "R_l0": w / s, "B_l0": bias})
        np.testing.assert_allclose(twin(x)[0].numpy(), want, rtol=1e-3, atol=1e-4)
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert [*other.state_dict()] == [*layer.state_dict()]
            np.testing.assert_array_equal(other(x)[0].numpy(), want)
            pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(pd.square(other.train()(x)[0])))
            assert (other.eval()(x)[0].numpy() != want).any()
        np.testing.assert_array_equal(layer(x)[0].numpy(), want)


def built():
    layer = nn.FC(3, name="built")
    layer.infer_shape((None, 4))
    return layer


@pytest.mark.parametrize(
    ("error", "message", "make"),
    [
        (TypeError, "WeightNorm: takes a layer, not 3", lambda: nn.WeightNorm(3)),
        (
            ValueError,
            "takes 1 iteration or more, not 0",
            lambda: nn.SpectralNorm(nn.FC(3), iterations=0),
        ),
        (
            pd.GraphError,
            "parameter 'W' of built is built or computed already",
            lambda: nn.WeightNorm(built()),
        ),
        (
            pd.GraphError,
            "parameter 'W' of weight_norm_0/layer is built or computed already",
            lambda: [nn.WeightNorm(layer) for layer in [nn.FC(3)] * 2],
        ),
        (
            pd.GraphError,
            "parameter 'W' of spectral_norm_0/layer/layer is built or computed already",
            lambda: nn.SpectralNorm(nn.WeightNorm(nn.FC(3))),
        ),
        (
            pd.GraphError,
            "SpectralNorm: FC has no parameter 'weight' of its own, it has W, B",
            lambda: nn.SpectralNorm(nn.FC(3), "weight").infer_shape((None, 4)),
        ),
        (
            pd.ShapeError,
            r"WeightNorm: there is no axis 2 of 'W', \[4, 3\]",
            lambda: nn.WeightNorm(nn.FC(3), axis=2).infer_shape((None, 4)),
        ),
        (
            pd.ShapeError,
            r"SpectralNorm: takes a matrix or filters, 'B' is \[3\]",
            lambda: nn.SpectralNorm(nn.FC(3), "B").infer_shape((None, 4)),
        ),
    ],
)
def test_mistakes(error, message, make):
    with pytest.raises(error, match=message):
        make()
    assert not [v for v in pd.persistent_variables() if not re.match("built", v.name)]
