"""Mixed precision by one name: against PyTorch's autocast, resumed, exported, refused."""

import numpy as np
import onnx
import pytest

import pd_core as pd
from pd_core import nn
from pd_core.gradients import gradients
from pd_core.graph.node import ancestors
from pd_core.training import (
    Counter,
    Data,
    Device,
    Evaluate,
    ForwardBackward,
    Resume,
    SaveEvery,
    TestEvery,
    Update,
    runner_of,
)
from pd_core.training.precision import Precision, has_bfloat16

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 1, 6, 6)).astype("float32")
Y = RNG.integers(0, 3, 24)
W = [0.3 * RNG.normal(size=s).astype("float32") for s in ((4, 1, 3, 3), (64, 5), (5, 3))]
NAMES = ("mixed_float16", "mixed_bfloat16")


class Net(nn.Module):
    def __init__(self):
        super().__init__("net")
        self.conv = nn.Conv2d(4, 3, kernel_init=W[0])
        self.first, self.last = nn.FC(5, kernel_init=W[1]), nn.FC(3, kernel_init=W[2])

    def forward(self, x):
        h = pd.flatten(pd.relu(self.conv(x)))
        return self.last(pd.tanh(self.first(h)))


def fitted(precision, device="reference", x=X, epochs=3, **more):
    """The history, the parameters and the state of the optimizer."""
    pd.reset()
    net, optimizer = Net(), pd.AdamOptimizer(0.01)
    with pd.Session(device):
        history = net.fit(
            x,
            Y,
            optimizer=optimizer,
            loss="softmax_cross_entropy",
            epochs=epochs,
            batch_size=12,
            shuffle=False,
            precision=precision,
            verbose=False,
            **more,
        )
        values = {name: v.val() for name, v in net.get_params().items()}
        return history, values, optimizer.state()


def by_torch(name, epochs=3):
    """Costs of epochs and parameters of the same training by PyTorch's autocast."""
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(
        *(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten()),
        *(torch.nn.Linear(64, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)),
    )
    with torch.no_grad():
        for k, w in zip((0, 3, 5), (W[0], W[1].T, W[2].T), strict=True):
            net[k].weight.copy_(torch.tensor(w)), net[k].bias.zero_()
    dtype = None if name == "float32" else getattr(torch, name.removeprefix("mixed_"))
    scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16)
    optimizer, costs = torch.optim.Adam(net.parameters(), 0.01), []
    for _ in range(epochs):
        total = 0.0
        for rows in (slice(12), slice(12, 24)):
            x, y = torch.tensor(X[rows]), torch.tensor(Y[rows])
            with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
                output = net(x)
            cost = torch.nn.functional.cross_entropy(output.float(), y)
            optimizer.zero_grad()
            scaler.scale(cost).backward()
            scaler.step(optimizer), scaler.update()
            total += cost.item() / 2
        costs.append(total)
    values = [p.detach().numpy() for p in net.parameters()]
    return costs, values


@pytest.mark.parametrize("name", ["float32", *NAMES])
def test_as_pytorch_trains(name):
    tolerance = {"float32": 1e-5, "mixed_float16": 3e-3, "mixed_bfloat16": 3e-2}[name]
    history, values, _ = fitted(name)
    costs, others = by_torch(name)
    np.testing.assert_allclose(history.cost, costs, rtol=tolerance)
    found = [values[f"{layer}.{p}"] for layer in ("conv", "first", "last") for p in "WB"]
    for a, b in zip(found, others, strict=True):
        np.testing.assert_allclose(a, b.T if b.ndim == 2 else b, atol=10 * tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_products_are_rounded(name):
    plain, half = fitted("float32")[0].cost, fitted(name)[0].cost
    assert plain != half
    np.testing.assert_allclose(half, plain, rtol=0.02)


def test_masters_are_single_and_the_scale_is_state():
    _, values, state = fitted("mixed_float16")
    assert {a.dtype for a in values.values()} == {np.dtype(np.float32)}
    assert (state["loss_scaler/scale"], state["loss_scaler/good_steps"]) == (65536.0, 6.0)
    assert "loss_scaler/scale" not in fitted("mixed_bfloat16")[2]


def test_an_overflow_halves_the_scale_and_changes_nothing_else():
    x = X.copy()
    x[12:] = np.inf
    _, values, state = fitted("mixed_float16", "cpu", x=x, epochs=1)
    pd.reset()
    alone = Net()
    optimizer = pd.AdamOptimizer(0.01)
    with pd.Session():
        alone.fit(
            *(X[:12], Y[:12]),
            optimizer=optimizer,
            loss="softmax_cross_entropy",
            batch_size=12,
            shuffle=False,
            precision="mixed_float16",
            verbose=False,
        )
        for name, v in alone.get_params().items():
            np.testing.assert_array_equal(values[name], v.val())
    assert (state["loss_scaler/scale"], state["loss_scaler/good_steps"]) == (32768.0, 0.0)


def test_the_scale_goes_on_with_the_optimizer():
    net, optimizer = Net(), pd.AdamOptimizer(0.01)
    fitting = {"optimizer": optimizer, "loss": "softmax_cross_entropy", "verbose": False}
    for _ in range(2):
        net.fit(X, Y, precision="mixed_float16", batch_size=24, **fitting)
    state = optimizer.state()
    assert state["loss_scaler/good_steps"] == 2
    other = pd.AdamOptimizer(0.01)
    other.load_state(state)
    net.fit(X, Y, precision="mixed_float16", batch_size=24, **{**fitting, "optimizer": other})
    assert other.state()["loss_scaler/good_steps"] == 3
    net.fit(X, Y, **fitting)  # in float32 again, with the same moments
    assert optimizer.state()["loss_scaler/good_steps"] == 2
    assert optimizer.state()["weight1"] == pytest.approx(1 - 0.9**3)
    pd.reset()


def items(precision, *more):
    """A Runner of a network of plain functions, its input and its scores."""
    x = pd.Variable([None, 1, 6, 6], name="x")
    y = pd.Variable([None], dtype="int64", name="y")
    scores = Net()(x)
    cost = pd.reduce_mean(pd.softmax_cross_entropy(scores, y))
    reader = [(X[:12], Y[:12]), (X[12:], Y[12:])]
    step = ForwardBackward(cost, precision)
    every = [Device(), Counter(), Data(reader, inputs=[x, y]), step, Update(pd.AdamOptimizer(0.01))]
    tests = [Evaluate(scores, y), TestEvery(passes=1, reader=reader)]
    return runner_of([*more, *every, *tests])


def test_a_runner_trains_as_fit_does():
    history, values, _ = fitted("mixed_float16", metrics="accuracy", validation_data=(X, Y))
    pd.reset()
    with pd.Session("reference"), items("mixed_float16") as runner:
        context = runner.run(3)
        assert context.pass_metrics["cost"] == pytest.approx(history.cost[-1], rel=1e-5)
        assert context.pass_metrics["accuracy"] == history["accuracy"][-1]
        assert context.test_metrics["cost"] == pytest.approx(history["val_cost"][-1], rel=1e-3)
        found = {name.split("/", 1)[1]: v.val() for name, v in context.parameters.items()}
        for name, value in values.items():
            np.testing.assert_allclose(found[name.replace(".", "/")], value, atol=1e-6)


def test_the_forward_pass_is_computed_once():
    """Metrics read what the cost is computed from."""
    runner = items("mixed_float16")
    with runner:
        (step,) = [item for item in runner.items if isinstance(item, ForwardBackward)]
        nodes = ancestors([*step.costs, *step.evaluated()[0]])
        products = [n for n in nodes if n.op_type in ("MatMul", "Gemm", "Conv")]
        assert len(products) == 3
        assert {x.dtype for n in products for x in n.inputs if x is not None} == {
            np.dtype(np.float16)
        }


def test_a_resumed_training_goes_on_with_its_scale(tmp_path):
    def trained(passes, *more):
        pd.reset()
        with items("mixed_float16", *more) as runner:
            runner.run(passes)
            return pd.default_session().state()["values"]

    whole = trained(4)
    trained(2, SaveEvery(passes=2, path=tmp_path))
    again = trained(4, Resume(sorted(tmp_path.iterdir())[-1]))
    assert any("loss_scaler" in name for name in whole)
    for name, value in whole.items():
        np.testing.assert_array_equal(again[name], value)
    pd.reset()
    with pytest.raises(pd.GraphError, match="state of the optimizer only in it: loss_scaler"):
        items("float32", Resume(sorted(tmp_path.iterdir())[-1])).__enter__()


def test_files_are_single(tmp_path):
    net, optimizer = Net(), pd.AdamOptimizer(0.01)
    net.fit(
        *(X, Y),
        optimizer=optimizer,
        loss="softmax_cross_entropy",
        precision="mixed_float16",
        verbose=False,
    )
    net.save(f"{tmp_path}/net", {"optimizer": optimizer})
    model = onnx.load(f"{tmp_path}/net.onnx")
    assert not any(n.op_type == "Cast" for n in model.graph.node)
    state = net.load(f"{tmp_path}/net", include_state=True)["optimizer"]
    assert state["loss_scaler/scale"] == 65536.0
    pd.reset()


def test_numbers_beside_bfloat16_are_bfloat16():
    """So that gradients flow."""
    x = pd.Variable([2, 3], name="x")
    w = pd.Variable("w", data=W[2][:3])
    y = pd.reduce_sum(pd.tanh(x @ w) * 0.5)
    (half,) = Precision("mixed_bfloat16").cast([y])
    feed = {x: RNG.normal(size=(2, 3)).astype("float32")}
    with pd.Session("reference"):
        for a, b in zip(
            pd.eval([y, *gradients(y, [x, w])], feed),
            pd.eval([half, *gradients(half, [x, w])], feed),
            strict=True,
        ):
            np.testing.assert_allclose(b, a, rtol=0.05, atol=0.02)


def test_devices_without_it_are_named():
    assert has_bfloat16("reference") and not has_bfloat16("cpu")
    text = "precision='mixed_bfloat16': the device cpu has no bfloat16 kernels for Conv, Conv"
    with pytest.raises(pd.DTypeError, match=text):
        fitted("mixed_bfloat16", "cpu")
    with pytest.raises(pd.DTypeError, match=text):
        items("mixed_bfloat16").__enter__()
    pd.reset()


def test_other_names():
    text = "precision is one of float32, mixed_float16, mixed_bfloat16, not "
    with pytest.raises(ValueError, match=f"{text}'float16'"):
        fitted("float16", "cpu")
    with pytest.raises(ValueError, match=f"{text}True"):
        ForwardBackward(pd.Variable([]), precision=True)


class Own(Net):
    def train_one_batch(self, x, y):
        return pd.reduce_mean(self(x))


def test_a_module_with_its_own_step_says_it_itself():
    with pytest.raises(TypeError, match=r"Own\.train_one_batch says what it computes in\n"):
        Own().fit(X, Y, precision="mixed_float16", verbose=False)
    pd.reset()
