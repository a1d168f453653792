"""What a call that fails leaves behind: nothing. Each call fails at each node and each variable."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import pd_core as pd
from pd_core.graph import names as naming
from pd_core.graph import node, variable
from pd_core.optimizers import tracing
from pd_core.optimizers.base import Optimizer
from tests.thinned import thinned

nn = pd.nn
X = np.linspace(-1, 1, 24, dtype="float32")


HELP = r"(?s)hint: .*another name.*pd.namespace.*pd.fresh.*pd.reset"


class Stopped(BaseException):
    """Such as Ctrl-C."""


class Fault:
    """Raises at the k-th node or variable that is made."""

    def __init__(self, monkeypatch):
        self.left = -1
        for owner, name in ((variable, "register"), (tracing, "adopt")):
            monkeypatch.setattr(owner, name, self.counted(getattr(owner, name), after=True))
        monkeypatch.setattr(node.Node, "__init__", self.counted(node.Node.__init__))

    def counted(self, function, after=False):
        def call(*args, **kwargs):
            result = function(*args, **kwargs) if after else None
            self.left -= 1
            if self.left == 0:
                raise Stopped
            return result if after else function(*args, **kwargs)

        return call


def state():
    """Names of variables, the counters of automatic names, and the session."""
    current = naming.names()
    counters = {k: repr(c) for k, c in current.counters.items() if repr(c) != "count(0)"}
    return {
        "names": {name: id(v) for name, v in current.variables.items()},
        "counters": counters,
        "kept": sorted(current.variables._kept),
        "session": {k: v for k, v in pd.default_session().state().items() if k != "values"},
        "stored": {k: v.tolist() for k, v in pd.default_session().state()["values"].items()},
    }


def x(*shape):
    return pd.constant(X[: int(np.prod(shape))].reshape(shape))


class Net(nn.Module):
    def __init__(self, name=None):
        super().__init__(name)
        self.blocks = [nn.FC(3), (nn.FC(2), {"last": nn.FC(1)})]
        self.norm = nn.BatchNorm1d()

    def forward(self, x):
        hidden, (middle, last) = self.blocks
        return last["last"](middle(self.norm(hidden(x))))


def model():
    w = numpy_helper.from_array(np.ones((3, 2), "float32"), "weight")
    b = numpy_helper.from_array(np.ones(2, "float32"), "b")
    file = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, size])
        for name, size in (("x", 3), ("y", 2))
    ]
    nodes = [helper.make_node("Gemm", ["x", "weight", "b"], ["y"])]
    graph = helper.make_graph(nodes, "g", file[:1], file[1:], [w, b])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def cost():
    w = pd.get_variable("w", [2, 2])
    return pd.reduce_mean(pd.square(w * 2.0 - 1.0))


def recorded(kind):
    """Record a call. A program that cannot be compiled afterwards is no failure of the call."""
    with pd.guard():
        net = kind()
        y = net(X.reshape(6, 4))
        for fault in FAULTS:
            fault.left = max(fault.left, 0) + 10_000
    return net, y


FAULTS = []  # that count
STEPS = []  # of the names in force


def fresh_optimizers():
    kinds = [getattr(pd, name) for name in dir(pd) if name.endswith("Optimizer")]
    return [k for k in kinds if issubclass(k, Optimizer)]


LAYERS = {
    "FC": lambda: nn.FC(3, name="own")(x(4, 3)),
    "Net": lambda: Net()(x(6, 4)),
    "Module.compile": lambda: Net("own").compile([(None, 4)]),
    "inside pd.guard()": lambda: recorded(Net),
    "Conv2d": lambda: nn.Conv2d(2, 3)(x(1, 1, 4, 6)),
    "ConvTranspose2d": lambda: nn.ConvTranspose2d(2, 3)(x(1, 1, 4, 6)),
    "BatchNorm2d": lambda: nn.BatchNorm2d()(x(1, 1, 4, 6)),
    "LayerNorm": lambda: nn.LayerNorm()(x(4, 6)),
    "GroupNorm": lambda: nn.GroupNorm(1)(x(1, 2, 3, 4)),
    "RMSNorm": lambda: nn.RMSNorm()(x(4, 6)),
    "LSTM": lambda: nn.LSTM(2)(x(2, 3, 4)),
    "GRU": lambda: nn.GRU(2)(x(2, 3, 4)),
    "RNN": lambda: nn.RNN(2)(x(2, 3, 4)),
    "Embedding": lambda: nn.Embedding(5, 2)(pd.constant([1, 2])),
    "MultiHeadAttention": lambda: nn.MultiHeadAttention(4, 2)(x(2, 3, 4)),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(4, 2, 8)(x(2, 3, 4)),
    "layer.fc": lambda: pd.layer.fc(x(4, 3), 3),
    "layer.conv2d": lambda: pd.layer.conv2d(x(1, 1, 4, 6), 2, 3),
    "layer.batch_norm": lambda: pd.layer.batch_norm(x(4, 6)),
    "layer.embedding": lambda: pd.layer.embedding(pd.constant([1, 2]), (5, 2)),
    "layer.prelu": lambda: pd.layer.prelu(x(4, 6)),
    "layer of a shared parameter": lambda: pd.layer.fc(x(4, 3), 3, W="shared"),
    "import_onnx": lambda: pd.import_onnx(model()),
    "ReduceOnPlateau": lambda: pd.schedules.ReduceOnPlateau(0.1),
    "LossScaler": lambda: pd.LossScaler(pd.SGDOptimizer()),
    "MovingAverage": lambda: pd.MovingAverage(0.9).follow(STEPS[-1]),
    "ShardedTable": lambda: pd.distributed.ShardedTable([5, 2]),
    **{kind.__name__: lambda kind=kind: kind(0.1).minimize(cost()) for kind in fresh_optimizers()},
}


@pytest.fixture(autouse=True)
def own_names():
    with pd.fresh(), pd.Session():
        STEPS[:] = [pd.SGDOptimizer().minimize(cost())]
        yield


@pytest.mark.parametrize("name", thinned(LAYERS, 2))
def test_a_call_that_fails_anywhere_leaves_nothing(name, monkeypatch):
    call, fault = LAYERS[name], Fault(monkeypatch)
    monkeypatch.setattr(f"{__name__}.FAULTS", [fault])
    before, errors = state(), []
    for k in range(1, 200):
        fault.left = k
        try:
            made = [call()]
        except Stopped as error:
            errors.append(error)  # its traceback keeps what was made
            assert state() == before, k
            continue
        break
    assert fault.left >= 0, "the call never ends"
    fault.left = -1
    assert len(errors) > 1 or name in ("ShardedTable", "layer.embedding", "Embedding")
    after = set(state()["names"])
    with pd.fresh(), pd.Session():
        STEPS[:] = [pd.SGDOptimizer().minimize(cost())]
        made.append(call())
        assert set(state()["names"]) == after  # the same names as if nothing had failed


def test_a_layer_goes_on_after_a_failure(monkeypatch):
    net, fault = Net("net"), Fault(monkeypatch)
    for k in range(1, 100):
        fault.left = k
        try:
            y = net(pd.Variable(data=X.reshape(6, 4)))
        except Stopped:
            assert net.parameters() == net.buffers() == [] == net.blocks[0].parameters()
            continue
        break
    fault.left = -1
    assert k > 20 and len(net.parameters()) == 8
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(pd.square(y)))
    first = pd.eval([y, step], training=True)[0]
    assert (pd.eval(y) != first).any()


def test_a_compile_that_fails_leaves_the_mode():
    net = Net()
    net.blocks[0].eval()
    with pytest.raises(TypeError):
        net.compile([(None, 4), (None, 4)], is_train=False, use_graph=False)
    modes = [layer.training for layer in (net, *net.sublayers())]
    assert modes == [True, False, True, True, True]
    assert net.parameters() == [] and net(X.reshape(6, 4)).shape == (6, 1)


def test_a_cell_that_is_run_again():
    """The new net says what helps; the old one computes and learns, and names are free."""
    data = X.reshape(6, 4)
    old = Net("model")
    y = old(pd.constant(data))
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(pd.square(y)))
    want, before = pd.eval(y), state()
    for make in (
        lambda: Net("model")(pd.constant(data)),
        lambda: Net("model")(data),
        lambda: Net("model").compile([(None, 4)]),
    ):
        with pytest.raises(pd.NameConflict, match=HELP) as e:
            make()
        assert "get_variable" not in str(e.value)
        assert state()["names"] == before["names"]
    assert (pd.eval(y) == want).all()
    pd.eval(step)
    assert (pd.eval(y) != want).any()
    assert old(data).shape == (6, 1)
    helps = [
        lambda: Net("other")(data),
        lambda: _inside(pd.namespace("again"), lambda: Net("model")(data)),
        lambda: _inside(pd.fresh(), lambda: Net("model")(data)),
    ]
    for build in helps:
        assert build().shape == (6, 1)
    pd.reset()
    assert Net("model")(data).shape == (6, 1)


def _inside(context, build):
    with context:
        return build()


def test_a_file_that_is_imported_twice():
    f = pd.import_onnx(model())
    y = f(x(4, 3))
    before = state()["names"]
    with pytest.raises(pd.NameConflict, match=r"(?s)exists already.*hint: .*pd.namespace") as error:
        pd.import_onnx(model())
    assert "get_variable" not in str(error.value) and state()["names"] == before
    with pd.namespace("second"):
        again = pd.import_onnx(model())
    assert pd.eval(again(x(4, 3))).tolist() == pd.eval(y).tolist()


def test_the_name_of_one_variable_names_get_variable():
    with pytest.raises(pd.NameConflict, match="get_variable"):
        pd.Variable("w", data=np.ones(2))


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_value_that_was_looked_at_is_taken_back(device):
    class Looking(nn.Layer):
        def __init__(self):
            super().__init__("looking")
            self.fc = nn.FC(2)

        def forward(self, x):
            self.fc(x)
            self.fc.W.val()
            raise ValueError("after a look")

    with pd.Session(device) as session:
        for _ in range(2):
            with pytest.raises(ValueError, match="after a look"):
                Looking()(pd.Variable([None, 3]))
            assert session.values() == {}
