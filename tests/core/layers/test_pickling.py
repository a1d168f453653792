"""Pickles of layers, modules and optimizers: values, names, settings, in other processes too."""

import copy
import pickle
import re
import subprocess
import sys
from collections import namedtuple

import numpy as np
import pytest

import pd_core as pd
from pd_core import nn

from . import test_reference as reference

X = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
Pair = namedtuple("Pair", "a b")


def again(thing, protocol=pickle.DEFAULT_PROTOCOL):
    return pickle.loads(pickle.dumps(thing, protocol))


def initial(shape, rng):
    return rng.normal(size=shape)


def doubled(layer, inputs, output):
    return output * 2.0


class Net(nn.Module):
    """Layers and variables in all kinds of places, some of them at two."""

    def __init__(self, name=None):
        super().__init__(name)
        self.first = nn.FC(3, "tanh", kernel_init=initial)
        self.blocks = [nn.FC(3), {"deep": (nn.BatchNorm1d(), nn.Dropout(0.5))}]
        self.pair = Pair(pd.Variable(data=[1.0, 2.0, 3.0], learning_rate=0.5), "text")
        self.scale = pd.Variable(data=[2.0], regularizer=pd.L2(0.1), trainable=False)
        self.steps = pd.Variable(data=np.array(7))
        self.again = self.blocks[0]
        self.tied = self.first
        self.normed = nn.WeightNorm(nn.FC(3))
        self.spectral = nn.SpectralNorm(nn.FC(3))
        self.options = {"rate": 0.5, "sizes": [1, 2]}
        self.first.register_forward_hook(doubled)

    def forward(self, x):
        x = self.blocks[0](self.first(x)) * self.pair.a
        for layer in self.blocks[1]["deep"]:
            x = layer(x)
        return self.spectral(self.normed(self.tied(self.again(x)) * self.scale))


def built(name=None):
    net = Net(name)
    net.eval()
    net(X)
    return net


def values(layer):
    return {k: v.tobytes() for k, v in layer.state_dict().items()}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_module_comes_back(protocol):
    net = built("net")
    net.freeze().first.unfreeze().train()
    want = net(X).numpy()
    names = [v.name for v in net.parameters()]
    twin = again(net, protocol)
    assert (twin(X).numpy() == want).all() and values(twin) == values(net)
    assert type(twin) is Net and twin.options == net.options and repr(twin) == repr(net)
    assert twin.again is twin.blocks[0] and twin.tied is twin.first
    assert twin.pair == Pair(twin.pair.a, "text") and isinstance(twin.pair, Pair)
    assert [v.trainable for v in twin.parameters()] == [v.trainable for v in net.parameters()]
    assert [v.dtype for v in twin.buffers()] == [v.dtype for v in net.buffers()]
    assert (twin.training, twin.first.training) == (False, True)
    assert twin.pair.a.learning_rate == 0.5 and twin.scale.regularizer == net.scale.regularizer
    assert not {id(v) for v in twin.parameters()} & {id(v) for v in net.parameters()}
    assert [v.name for v in net.parameters()] == names and twin.full_name() == "net_0"
    of_net = [name for name in names if name.startswith("net/")]
    assert [v.name for v in twin.parameters() if v.name.startswith("net_0/")] == [
        name.replace("net/", "net_0/") for name in of_net
    ]
    assert {v.name for v in twin.parameters()}.isdisjoint(names)


def test_names_are_the_same_where_they_are_free():
    net = built("net")
    data, state = pickle.dumps(net), values(net)
    names = [v.name for v in [*net.parameters(), *net.buffers()]]
    with pd.fresh():
        twin = pickle.loads(data)
        assert [v.name for v in [*twin.parameters(), *twin.buffers()]] == names
        assert values(twin) == state and twin.first.full_name() == "net/first"
        twin.more = nn.FC(2)
        assert twin.more.full_name() == "net/more"
        twin.first = nn.FC(5)  # the place has had another layer
        twin.first(pd.Variable([None, 3]))
        assert twin.first.W.name == "net/first_1/W"
    small = nn.FC(2, name="small")
    small(pd.Variable([None, 3]))
    data = pickle.dumps(small)
    assert pickle.loads(data).full_name() == "small_0"
    del small
    assert pickle.loads(data).full_name() == "small"  # it is gone, and its name is free again


def test_copies_of_copies():
    net = built()
    nets = [net, again(net), copy.deepcopy(net), again(again(net)), copy.deepcopy(again(net))]
    want = net(X).numpy()
    assert all((each(X).numpy() == want).all() for each in nets)
    every = [v.name for each in nets for v in each.parameters()]
    assert len(set(every)) == len(every)


def test_part_of_a_net():
    net = built("net")
    data = pickle.dumps(net.first)
    want = pd.eval(net.first(X))
    with pd.fresh():
        first = pickle.loads(data)
        assert first.W.name == "net/first/W" and first._parent is None
        assert (pd.eval(first(X)) == want).all()
        other = nn.Sequential(first)
        assert list(other.state_dict()) == ["0.W", "0.B"]


def test_what_is_not_built_and_what_waits():
    net = Net().eval()
    twin = again(net)
    assert twin.first.parameters() == [] and twin(X).shape == (4, 3)
    given = built().state_dict()
    net.load_dict(given)
    twin = again(net)
    assert (twin(X).numpy() == net(X).numpy()).all()
    waiting = Net().eval()
    waiting.load_dict({**given, "first.wrong": np.ones(2)})
    with pytest.raises(pd.GraphError, match=r"unexpected first.wrong"):
        again(waiting)(X)


STEP = """
import pickle, sys
import numpy as np
import pd_core as pd
net, optimizer, x = pickle.load(sys.stdin.buffer)
with pd.guard():
    for _ in range(2):
        optimizer.minimize(pd.reduce_mean(pd.square(net(x) - 1.0)))
names = [v.name for v in net.parameters()]
pickle.dump((names, net.state_dict(), sorted(optimizer.state())), sys.stdout.buffer)
"""


def steps(net, optimizer, count):
    with pd.guard():
        for _ in range(count):
            optimizer.minimize(pd.reduce_mean(pd.square(net(X) - 1.0)))


def test_another_process_goes_on_with_the_same_bits():
    net = nn.Sequential(nn.FC(4, "tanh"), nn.LayerNorm(), nn.FC(2), name="net")
    optimizer = pd.AdamOptimizer(pd.schedules.CosineDecay(0.1, 10))
    steps(net, optimizer, 2)
    data = pickle.dumps((net, optimizer, X))
    output = subprocess.run([sys.executable, "-c", STEP], input=data, capture_output=True)
    assert output.returncode == 0, output.stderr.decode()
    names, state, slots = pickle.loads(output.stdout)
    steps(net, optimizer, 2)
    assert names == [v.name for v in net.parameters()]
    assert {k: v.tobytes() for k, v in state.items()} == values(net)
    assert slots == sorted(optimizer.state())


@pytest.mark.parametrize("is_first", [True, False], ids=["optimizer first", "net first"])
def test_an_optimizer_is_that_of_the_net_beside_it(is_first):
    net = nn.FC(2, name="net")
    net(pd.Variable([None, 3]))
    optimizer = pd.MomentumOptimizer(0.1, 0.9, groups=[{"params": [net.W], "learning_rate": 0.5}])
    steps(net, optimizer, 2)
    parts = {"o": optimizer, "n": net} if is_first else {"n": net, "o": optimizer}
    twin = again(parts)
    assert twin["n"].W.name == "net_0/W"
    assert twin["o"].groups[0].params == (twin["n"].W,)
    assert {k.replace("net/", "net_0/") for k in optimizer.state()} == {*twin["o"].state()}
    steps(net, optimizer, 2), steps(twin["n"], twin["o"], 2)
    assert values(net) == values(twin["n"])


@pytest.mark.parametrize("copier", [again, copy.deepcopy])
def test_a_loss_scaler_is_that_of_the_net_beside_it(copier):
    net = nn.FC(2, name="net")
    net(pd.Variable([None, 3]))
    scaler = pd.LossScaler(pd.AdamOptimizer(0.1), initial_scale=8.0, growth_interval=3)
    steps(net, scaler, 2)
    twin, its_scaler = copier((net, scaler))
    assert its_scaler.good_steps.val() == 2 and its_scaler.scale is not scaler.scale
    steps(net, scaler, 2), steps(twin, its_scaler, 2)
    assert values(net) == values(twin) and its_scaler.scale.val() == 16 == scaler.scale.val()


def test_an_optimizer_alone_is_that_of_the_names():
    net = nn.FC(2, name="net")
    net(pd.Variable([None, 3]))
    optimizer = pd.AdamOptimizer(0.1, groups=[{"params": [net.W], "learning_rate": 0.5}])
    steps(net, optimizer, 2)
    before, data = pd.default_session().state(), pickle.dumps(optimizer)
    steps(net, optimizer, 2)
    want = values(net)
    pd.default_session().restore(before)
    steps(net, pickle.loads(data), 2)
    assert values(net) == want
    with pd.fresh():
        alone = pickle.loads(data)
        with pytest.raises(pd.GraphError, match=r"a group .* the parameter net/W, which is not"):
            alone.groups  # noqa: B018


def test_a_module_with_its_optimizer_and_loss():
    class_of = nn.Sequential
    net = built()
    net.optimizer, net.loss = pd.AdamWOptimizer(0.01), nn.SoftmaxCrossEntropy()
    y = np.array([0, 1, 2, 0])
    net.train().fit(X, y, loss=net.loss, optimizer=net.optimizer, epochs=2, verbose=False)
    twin = again(net)
    history = [
        each.fit(X, y, loss=each.loss, optimizer=each.optimizer, verbose=False)["cost"]
        for each in (net, twin)
    ]
    assert len(history[0]) == 1 and class_of
    assert twin.evaluate(X, y).keys() == net.evaluate(X, y).keys() == {"cost"}
    assert {k.partition("/")[2] for k in twin.optimizer.state()} == {
        k.partition("/")[2] for k in net.optimizer.state()
    }


LAYERS = [name for name in reference.ROWS if name not in ("WeightNorm", "SpectralNorm")]


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_is_pickled(name):
    arguments, own = reference.ARGUMENTS.get(name, ({}, {}))
    letters = reference.SPATIAL | reference.SIZES | own
    layer = getattr(nn, name)(**arguments)
    inputs = reference.ROWS[name][1].partition(" → ")[0].split(" or ")[0]
    if "→" in reference.ROWS[name][1] and name not in ("Sequential",):
        given = [
            pd.Variable(reference.sizes(text, letters), dtype="int64" if is_int else "float32")
            for is_int, text in reference.shapes_of(inputs)
        ]
        if "labels" in inputs:
            given[1] = pd.Variable(given[0].shape[:-1], dtype="int64")
        layer.infer_shape(*given)
    twin = again(layer)
    assert repr(twin) == repr(layer) and values(twin) == values(layer)
    assert vars(twin).keys() == vars(layer).keys()


def test_what_cannot_be_pickled_says_so():
    net = built("net")
    cases = {
        "a lambda": lambda: setattr(net.first, "act", lambda x: x),
        "a local function": lambda: net.register_forward_hook(lambda layer, x, y: y),
        "a result": lambda: setattr(net, "last", pd.constant(X) * 2.0),
        "in a list": lambda: net.blocks.append([pd.constant(X) * 2.0]),
    }
    for what, change in cases.items():
        pd.clear_names()
        net = built("net")
        change()
        with pytest.raises(TypeError) as error:
            pickle.dumps(net)
        text = str(error.value)
        assert re.match(r"net(/first)?: (act|a hook|last|blocks) is ", text), what
        assert "\n  hint: " in text, what
    with pytest.raises(TypeError, match=r"SGDOptimizer: clip is .*<lambda>, a function that is"):
        pickle.dumps(pd.SGDOptimizer(0.1, clip=lambda g, w: g))
    with pytest.raises(TypeError, match="FC, is not copied without its parameters"):
        copy.copy(nn.FC(1))
