"""Sequential, LayerList and LayerDict."""

import pickle
from functools import partial

import numpy as np
import pytest

import pd_core as pd


def ones(*shape):
    return np.ones(shape, np.float32)


def fcs(*sizes):
    return [pd.nn.FC(size, kernel_init="ones") for size in sizes]


def test_sequential_passes_outputs_on():
    net = pd.nn.Sequential(*fcs(2, 3), name="net")
    x = pd.Variable([None, 4])
    assert (pd.eval(net(x), feeds={x: ones(1, 4)}) == 8.0).all()
    assert [v.name for v in net.parameters()] == ["net/0/W", "net/0/B", "net/1/W", "net/1/B"]
    assert list(net.state_dict()) == ["0.W", "0.B", "1.W", "1.B"]
    assert pd.nn.Sequential()(x) is x


def test_sequential_of_named_layers():
    a, b = fcs(2, 3)
    net = pd.nn.Sequential({"a": a, "b": b})
    assert net.a is a and net[1] is b
    assert [name for name, _ in net[1:].named_sublayers()] == ["b"]


def test_the_first_layer_may_take_several_inputs():
    class Add(pd.nn.Layer):
        def forward(self, x, y):
            return x + y

    x = pd.Variable([None, 2])
    y = pd.nn.Sequential(Add(), *fcs(1))(x, x)
    assert pd.eval(y, feeds={x: ones(1, 2)}) == 4.0


def test_sequential_is_a_sequence():
    layers = fcs(1, 2, 3)
    net = pd.nn.Sequential(*layers)
    assert list(net) == layers and len(net) == 3 and net[-1] is layers[2]
    part = net[1:]
    assert isinstance(part, pd.nn.Sequential) and list(part) == layers[1:]
    extra = pd.nn.FC(4)
    assert list(part.append(extra)) == [*layers[1:], extra]
    assert len(net) == 3  # the part is a container of its own
    net[0] = extra
    assert list(net) == [extra, *layers[1:]]
    with pytest.raises(IndexError):
        net[3]


def test_layer_list():
    layers = fcs(1, 2, 3)
    lists = pd.nn.LayerList(layers[:1], name="l").append(layers[1]).extend(layers[2:])
    assert list(lists) == layers and list(lists[:2]) == layers[:2]
    assert layers[2].full_name() == "l/2"
    assert isinstance(lists[1:], pd.nn.LayerList)


def test_layer_dict():
    a, b, c = fcs(1, 2, 3)
    layers = pd.nn.LayerDict({"a": a, "b": b}, name="d")
    layers["c"] = c
    assert layers["c"] is layers.c is c and c.full_name() == "d/c"
    assert list(layers) == list(layers.keys()) == ["a", "b", "c"]
    assert list(layers.values()) == [a, b, c] and dict(layers.items())["b"] is b
    del layers["a"]
    assert "a" not in layers and len(layers) == 2
    with pytest.raises(KeyError):
        del layers["a"]
    with pytest.raises(ValueError, match="LayerDict: 'keys' is an attribute"):
        layers["keys"] = a
    with pytest.raises(ValueError, match="neither dots nor slashes"):
        layers["a/b"] = a


def test_sequential_takes_functions():
    net = pd.nn.Sequential(*fcs(2), pd.neg, partial(pd.reduce_sum, axis=1), name="functions")
    net.append(pd.identity)[3] = pd.nn.Lambda(pd.square)
    assert (pd.eval(net(ones(3, 4))) == 64.0).all()
    assert repr(net[2]) == "Lambda(reduce_sum, axis=1)" and repr(net[1]) == "Lambda(neg)"
    assert repr(pd.nn.Sequential({"head": pd.relu})) == "Sequential(\n  (head): Lambda(relu)\n)"
    twin = pickle.loads(pickle.dumps(net))
    assert (pd.eval(twin(ones(3, 4))) == 64.0).all()


def test_containers_take_layers_only():
    with pytest.raises(TypeError, match="LayerList takes layers, not <function relu"):
        pd.nn.LayerList([pd.relu])
    with pytest.raises(TypeError, match=r"Sequential takes layers, not .*: call it, ReLU\(\)"):
        pd.nn.Sequential(pd.nn.ReLU)
    with pytest.raises(TypeError, match="Sequential takes layers, not 3"):
        pd.nn.Sequential(3)
    with pytest.raises(TypeError, match="Lambda takes a function, not FC"):
        pd.nn.Lambda(pd.nn.FC(3))
    with pytest.raises(TypeError, match="LayerDict takes layers, not 1"):
        pd.nn.LayerDict({"a": 1})
