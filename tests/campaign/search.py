"""A search: small networks of every kind, made, trained and dropped in one process."""

from collections.abc import Callable, Iterator

import numpy as np

import pd_core as pd
import pd_v2 as paddle
from pd_v2 import build

ROWS, COLUMNS, STEPS = 16, 4, 3
RECENT = 16  # programs that stay for others of their structure, with their threads


class Candidate:
    """The random choices of a search, the training data and the costs."""

    def __init__(self, rng: np.random.Generator):
        self.widths = [int(n) for n in rng.integers(1, 40, size=rng.integers(1, 4))]
        self.act = str(rng.choice(["relu", "tanh", "sigmoid"]))
        self.make = OPTIMIZERS[int(rng.integers(len(OPTIMIZERS)))]
        self.x = rng.normal(size=(ROWS, COLUMNS)).astype("float32")
        self.y = self.x.sum(1, keepdims=True)
        self.costs: list[float] = []

    def network(self, x: pd.Variable) -> pd.Variable:
        """Return the outputs of this network, [N, 1]."""
        for width in self.widths:
            x = pd.layer.fc(x, width, act=self.act)
        return pd.layer.fc(x, 1)

    def train(self, step: Callable[[], float]) -> None:
        """Take some steps."""
        self.costs = [float(step()) for _ in range(STEPS)]


OPTIMIZERS = (
    lambda: pd.SGDOptimizer(0.01),
    lambda: pd.AdamOptimizer(0.01),
    lambda: pd.MomentumOptimizer(0.01, clip=pd.ClipGlobalNorm(1.0)),
)


def _static(candidate):
    x, y = pd.Variable([None, COLUMNS]), pd.Variable([None, 1])
    cost = pd.reduce_mean(pd.square(candidate.network(x) - y))
    step = candidate.make().minimize(cost)
    feeds = {x: candidate.x, y: candidate.y}
    candidate.train(lambda: pd.eval([cost, step], feeds)[0])


def _several_steps(candidate):
    x, y = pd.Variable([None, COLUMNS]), pd.Variable([None, 1])
    cost = pd.reduce_mean(pd.square(candidate.network(x) - y))
    step = candidate.make().minimize(cost)
    feeds = {x: np.stack([candidate.x] * STEPS), y: np.stack([candidate.y] * STEPS)}
    candidate.costs = pd.run_steps([cost, step], feeds)[0].tolist()


def _session(candidate):
    x, y = pd.Variable([None, COLUMNS]), pd.Variable([None, 1])
    cost = pd.reduce_mean(pd.square(candidate.network(x) - y))
    step, session = candidate.make().minimize(cost), pd.Session(seed=1)
    candidate.train(lambda: session.eval([cost, step], {x: candidate.x, y: candidate.y})[0])


class Net(pd.nn.Module):
    """The network of a candidate as a Module."""

    def __init__(self, candidate: Candidate):
        super().__init__()
        hidden = [pd.nn.FC(width, act=candidate.act) for width in candidate.widths]
        self.layers = pd.nn.Sequential(*hidden, pd.nn.FC(1))

    def forward(self, x: pd.Variable) -> pd.Variable:
        """Return the outputs, [N, 1]."""
        return self.layers(x)


def _dynamic(candidate):
    with pd.guard():
        net, optimizer = Net(candidate), candidate.make()

        def step():
            cost = pd.reduce_mean(pd.square(net(candidate.x) - candidate.y))
            optimizer.minimize(cost, net.parameters())
            return cost.numpy()

        candidate.train(step)


def _module(candidate):
    net = Net(candidate)
    options = {"optimizer": candidate.make(), "loss": pd.nn.MSE()}
    history = net.fit(candidate.x, candidate.y, epochs=STEPS, batch_size=8, **options)
    candidate.costs = history.cost


def _imported(candidate):
    x = pd.Variable([None, COLUMNS], name="x")
    model = pd.export_onnx(None, candidate.network(x))
    net, y = pd.import_onnx(model.SerializeToString()), pd.Variable([None, 1])
    cost = pd.reduce_mean(pd.square(net(x) - y))
    step = candidate.make().minimize(cost)
    feeds = {x: candidate.x, y: candidate.y}
    candidate.train(lambda: pd.eval([cost, step], feeds)[0])


def _fresh(candidate):
    """Names of the user's own, in a world of their own."""
    with pd.fresh():
        x, y = pd.Variable([None, COLUMNS], name="x"), pd.Variable([None, 1], name="y")
        w = pd.get_variable("w", shape=[COLUMNS, 1])
        cost = pd.reduce_mean(pd.square(candidate.network(x) + x @ w - y))
        step = candidate.make().minimize(cost)
        candidate.train(lambda: pd.eval([cost, step], {"x": candidate.x, "y": candidate.y})[0])


def _trainer(candidate):
    """The trainer of paddle.v2."""
    with build.fresh():
        _sgd(candidate)


def _sgd(candidate):
    act = {"relu": paddle.activation.Relu, "tanh": paddle.activation.Tanh}
    hidden = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(COLUMNS))
    label = paddle.layer.data(name="y", type=paddle.data_type.dense_vector(1))
    for width in candidate.widths:
        make = act.get(candidate.act, paddle.activation.Sigmoid)
        hidden = paddle.layer.fc(input=hidden, size=width, act=make())
    output = paddle.layer.fc(input=hidden, size=1, act=paddle.activation.Linear())
    cost = paddle.layer.square_error_cost(input=output, label=label)
    trainer = paddle.trainer.SGD(
        cost, paddle.parameters.create(cost), paddle.optimizer.Adam(learning_rate=0.01)
    )

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            candidate.costs.append(event.cost)

    samples = list(zip(candidate.x, candidate.y, strict=True))
    trainer.train(lambda: iter([samples] * STEPS), num_passes=1, event_handler=handler)


KINDS = {
    "static": _static,
    "several steps": _several_steps,
    "a session": _session,
    "dynamic": _dynamic,
    "Module.fit": _module,
    "imported": _imported,
    "pd.fresh": _fresh,
    "paddle.v2": _trainer,
}


def searched(rng: np.random.Generator, count: int) -> Iterator[int]:
    """Train networks of each kind in turn; nothing is reset in between."""
    for _ in range(RECENT):
        _static(Candidate(rng))
    for k in range(count):
        candidate = Candidate(rng)
        list(KINDS.values())[k % len(KINDS)](candidate)
        assert len(candidate.costs) == STEPS and np.isfinite(candidate.costs).all()
        del candidate
        yield k + 1
