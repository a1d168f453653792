"""Types of the public API as its users see them: checked by mypy, never run."""

from collections.abc import Mapping, Sequence
from typing import Any, assert_type

import numpy as np
import onnx

import pd_core as pd
from pd_core.optimizers import Optimizer

# ---- variables and their operators

x = pd.Variable([None, 4])
named = pd.Variable("w", shape=[4, 3], initializer=pd.Xavier(), clip=lambda g, w: g)
data = pd.Variable(np.zeros((2, 4)), dtype="float32", trainable=False)
assert_type(x, pd.Variable)
assert_type(x.shape, tuple[int | None, ...])
assert_type(x.rank, int)
assert_type(x.name, str)
assert_type(x.dtype, np.dtype)
assert_type(x.is_persistent, bool)
assert_type(x.value, np.ndarray | None)

assert_type(x + 1.0, pd.Variable)
assert_type(2 * x, pd.Variable)
assert_type(x - np.ones(4), pd.Variable)
assert_type(x**2 / 3, pd.Variable)
assert_type(-abs(x), pd.Variable)
assert_type(x @ named, pd.Variable)
assert_type(x > 0, pd.Variable)
assert_type(named.val(), np.ndarray)
assert_type(x.eval({x: np.zeros((1, 4))}), np.ndarray)
assert_type(len(named), int)
assert_type(float(x), float)
assert_type(int(x), int)
assert_type(bool(x), bool)
assert_type(x[0], pd.Variable)
assert_type(x.T, pd.Variable)
assert_type(x.numpy(), np.ndarray)
assert_type(x.gradient(), np.ndarray | None)
assert_type(x.detach(), pd.Variable)
assert_type(named.initializer, pd.Update)
assert_type(named.learning_rate, float)
assert_type(named.row_sparse, bool)
assert_type(pd.constant(1.0), pd.Variable)

# ---- methods keep the signatures of their ops

assert_type(x.sum(axis=1), pd.Variable)
assert_type(x.mean([0, 1], keep_dim=True).exp(), pd.Variable)
assert_type(x.topk(2, largest=False), tuple[pd.Variable, pd.Variable])
assert_type(x.astype("float16"), pd.Variable)
x.max(axis=1, bogus=3)  # type: ignore[call-arg]
x.cumsum("first")  # type: ignore[arg-type]
x.exp(2.0)  # type: ignore[call-arg]

x.name = "y"
pd.Variable([None, 4], trainable="no")  # type: ignore[arg-type]
pd.Variable(shape=4)  # type: ignore[arg-type]
x.unknown  # type: ignore[attr-defined]  # noqa: B018

# ---- ops and layers keep their signatures

z = pd.fc(x + 1.0, 3, act="relu", B=False)
assert_type(z, pd.Variable)
assert_type(pd.fc(x, 3, act=pd.tanh, W=pd.MSRA()), pd.Variable)
assert_type(pd.conv2d(x, 8, 3, padding=(1, 1), W={"trainable": False}), pd.Variable)
assert_type(pd.layer.embedding(x, (100, 8), W="table"), pd.Variable)
assert_type(pd.relu(x), pd.Variable)
assert_type(pd.concat([x, x], axis=1), pd.Variable)
assert_type(pd.split(x, [1, 3], axis=1), tuple[pd.Variable, ...])
assert_type(pd.reduce_mean(x, [0], keep_dim=True), pd.Variable)
assert_type(pd.where(x > 0, x, 0.0), pd.Variable)
assert_type(pd.apply("Sin", x), pd.Variable)
assert_type(pd.apply("TopK", x, np.array([2]), outputs=2), tuple[pd.Variable, ...])

net = pd.nn.Sequential(pd.nn.FC(8, act="relu", kernel_init="he_uniform"), pd.nn.Dropout(0.1))
assert_type(net[0], pd.nn.Layer)
assert_type(net[:1], pd.nn.Sequential)
assert_type(net.eval(), pd.nn.Sequential)
assert_type(net.parameters(), list[pd.Variable])
assert_type(net.state_dict(), dict[str, np.ndarray])
assert_type(pd.nn.BatchNorm2d(momentum=0.8).mean, pd.Variable)


class Block(pd.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.fc = pd.nn.FC(4, kernel_init=pd.TruncatedNormal(std=0.02))

    def forward(self, x: pd.Variable) -> pd.Variable:
        assert_type(self.fc.W, pd.Variable)
        return x + self.parameter("scale", [4], "ones")


# ---- calls of layers have the types of their forward

assert_type(pd.nn.FC(3)(x), pd.Variable)
assert_type(pd.nn.GRU(3)(x, lengths=[4, 4]), tuple[pd.Variable, pd.Variable])
assert_type(Block()(x), pd.Variable)
assert_type(pd.nn.Conv2d(3, 3)(x), pd.Variable)
assert_type(pd.nn.BatchNorm2d()(x), pd.Variable)
assert_type(pd.nn.Embedding(9, 3)(x), pd.Variable)
assert_type(pd.nn.Dropout(0.1)(x), pd.Variable)
assert_type(pd.nn.LayerNorm()(x), pd.Variable)
assert_type(pd.nn.MSE()(x, x), pd.Variable)
assert_type(pd.nn.LSTM(3)(x), tuple[pd.Variable, tuple[pd.Variable, pd.Variable]])
pd.nn.FC(3)(x, 4)  # type: ignore[call-arg]
Block()()  # type: ignore[call-arg]

pd.nn.FC("4")  # type: ignore[arg-type]
pd.fc(x)  # type: ignore[call-arg]
pd.fc(x, "3")  # type: ignore[arg-type]
pd.split(x, 2.5)  # type: ignore[arg-type]
pd.relu(x, alpha=1.0)  # type: ignore[call-arg]

# ---- sequences and control flow

sequences = pd.Segments(pd.Variable([None], dtype="int64"))
assert_type(sequences.total, pd.Variable)
assert_type(pd.sequence_windows(sequences, 3), tuple[pd.Segments, pd.Segments])
state, stacked = pd.scan(lambda s, row: (s + row, s), pd.constant(np.zeros(4)), x)
assert_type(state, Any)  # in the structure of the initial state: a Variable, or a list of them
assert_type(pd.while_loop(lambda s: s < 9.0, lambda s: [s + 1.0], [0.0]), Sequence[pd.Variable])

network = pd.rnn()
with network.step() as step:
    assert_type(step, pd.rnn)
    memory = step.add_memory(shape=[4], batch_ref=step.add_input(x))
    assert_type(memory.pre_state(), pd.Variable)
assert_type(network(), list[pd.Variable])

# ---- gradients, updates, names

cost = pd.reduce_mean(pd.square_error(z, 0.0))
assert_type(pd.gradients(cost, [named]), list[pd.Variable | None])
assert_type(pd.gradients([cost], [named], seeds=[None]), list[pd.Variable | None])
pd.gradients(cost, [named], seed=[1.0])  # type: ignore[call-arg]
assert_type(pd.jacobian(z, x), pd.Variable)
assert_type(pd.hessian(cost, named), pd.Variable)
assert_type(pd.jvp(z, [x], [x]), pd.Variable)
assert_type(pd.hessian_vector_product(cost, [named], [named]), list[pd.Variable])


def segment(x: pd.Variable) -> tuple[pd.Variable, int]:
    return pd.tanh(x), 3


assert_type(pd.recompute(segment, x), tuple[pd.Variable, int])
assert_type(pd.vmap(segment)(x), tuple[pd.Variable, int])
assert_type(pd.assign(named, named * 0.5), pd.Update)
assert_type(pd.L2(1e-4), pd.L2)
regularized = pd.Variable("r", shape=[2], regularizer=pd.L1(1e-3))

with pd.namespace("generator") as generator:
    assert_type(pd.get_variable("w", [4, 3]), pd.Variable)
assert_type(generator.w, pd.Variable)
assert_type(generator.variables(), list[pd.Variable])
assert_type(pd.trainable_variables(generator), list[pd.Variable])
assert_type(pd.current_namespace(), str)

# ---- sessions

batch = np.zeros((2, 4), np.float32)
session = pd.Session("cpu", seed=1)
assert_type(pd.default_session(), pd.Session)
assert_type(pd.eval(z, {x: batch}), np.ndarray)  # in the structure of the targets
assert_type(pd.eval([z, cost], {x: batch}), list[np.ndarray])
assert_type(pd.eval((z, cost), {x: batch}), tuple[np.ndarray, ...])
assert_type(session.eval(cost), np.ndarray)
assert_type(session.eval({"cost": cost, "z": z}), dict[str, np.ndarray])
assert_type(session.eval({"cost": cost, "all": (z, [cost])}, {"x": [[1, 2, 3, 4]]}), dict[str, Any])
steps = np.zeros((5, 2, 4), np.float32)
assert_type(session.run_steps(cost, {x: steps}), np.ndarray)
assert_type(session.run_steps([cost, z], {x: steps}), list[np.ndarray])
assert_type(session.get(named), np.ndarray)
assert_type(session.val(cost), np.ndarray)
assert_type(session.store.before(named), np.ndarray | None)
assert_type(session.values(), dict[pd.Variable, np.ndarray])
assert_type(session.has(named), bool)
assert_type(session.stats(), dict[str, int])
assert_type(session.device, str)
session.set(named, np.ones((4, 3)))
session.load_values(session.values())
with pd.Session("cpu") as entered:
    assert_type(entered, pd.Session)

with pd.guard("cpu") as block:
    assert_type(block, pd.guard)
    assert_type(pd.to_variable(batch), pd.Variable)
    cost.backward(retain_graph=True)
    with pd.no_grad():
        pass
assert_type(pd.Placeholder([None, 4]), pd.Placeholder)
pd.guard(immediately=True)  # type: ignore[call-arg]

pd.eval(1.0)  # type: ignore[call-overload]
pd.eval(cost, [batch])  # type: ignore[call-overload]
pd.Session(seed="1")  # type: ignore[arg-type]

# ---- optimizers

update = pd.AdamOptimizer(0.001, clip=pd.ClipGlobalNorm(1.0)).minimize(cost)
assert_type(update, pd.Update)
pd.eval(update, {x: batch}, training=True)
update_and_cost = pd.eval([update, cost], {x: batch})
assert_type(update_and_cost, list[Any])
assert_type(update.variables(), list[pd.Variable])
assert_type(pd.SGDOptimizer(0.1, regularizer=pd.L2(1e-4)).minimize([cost], [named]), pd.Update)
assert_type(pd.MomentumOptimizer(pd.constant(0.1), nesterov=True).minimize(cost), pd.Update)
assert_type(pd.RMSPropOptimizer(centered=True).update([(named, named * 2.0)]), pd.Update)


class Halving(Optimizer):
    def rule(
        self,
        w: pd.Variable,
        g: pd.Variable,
        slots: Mapping[str, pd.Variable],
        rate: float | pd.Variable,
        step: Mapping[str, pd.Variable],
    ) -> tuple[pd.Variable, dict[str, pd.Variable]]:
        return w * 0.5, {}


assert_type(Halving(1.0).minimize(cost), pd.Update)
average = pd.MovingAverage(0.99)
assert_type(average.follow(update), pd.Update)
with average.applied(session):
    pass

pd.AdamOptimizer("fast")  # type: ignore[arg-type]
pd.SGDOptimizer(0.1).minimize(3.0)  # type: ignore[arg-type]

# ---- files

model = pd.import_onnx("model.onnx", trainable=["encoder.*"])
assert_type(model, pd.ImportedModel)
assert_type(model(x), pd.Variable | tuple[pd.Variable, ...])
assert_type(model.tensor("hidden"), pd.Variable)
assert_type(model.parameters, dict[str, pd.Variable])
assert_type(pd.export_onnx("model.onnx", z, [x], metadata={"author": "me"}), onnx.ModelProto)
assert_type(pd.export_step(None, pd.assign(named, named * 0.5)), onnx.ModelProto)
with pd.atomic_write("numbers.npy") as file:
    np.save(file, np.zeros(3))

module = pd.nn.Module()
module.compile([pd.Placeholder((None, 4), "int64"), (2, None)], is_train=False)
assert_type(module.get_params(), dict[str, pd.Variable])
assert_type(module.summary((None, 4)), str)
module.save("model", state={"epoch": 3})
assert_type(module.load("model", include_state=True), dict[str, Any])
named.uniform(-1, 1)

rows = np.zeros((8, 4), np.float32)
stop, adam = pd.training.StopEarly(patience=3), pd.AdamOptimizer()
history = module.fit(rows, rows, optimizer=adam, loss=pd.nn.MSE(), callbacks=[stop], metrics="mse")
assert_type(history, pd.nn.History)
assert_type(history["val_cost"], list[float])
assert_type(history.epochs, int)
assert_type(module.evaluate((rows, rows), rows, metrics=["mse"]), dict[str, float])
module.fit(rows, rows, epochs="3")  # type: ignore[arg-type]
module.predict(rows, 32)  # type: ignore[call-arg]

try:
    pd.matmul(x, x)
except pd.GraphError as error:
    assert_type(error.op, str | None)
