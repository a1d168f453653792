"""Layers and variables in lists, tuples and dicts of a layer: any nesting, at any time."""

import copy
import pickle
from collections import OrderedDict, deque

import numpy as np
import pytest

import pd_core as pd

nn = pd.nn
SEEDS = range(6)
X = np.linspace(-1, 1, 8, dtype="float32").reshape(4, 2)


def nest(rng, depth=0):
    """A random nest of layers, and things that are none."""
    kind = rng.integers(5) if depth < 3 else 0
    if kind == 0:
        return nn.FC(2)
    if kind == 1 and depth:
        return rng.choice([3.0, 4.0])
    items = [nest(rng, depth + 1) for _ in range(rng.integers(1, 4))]
    if kind == 2:
        return tuple(items)
    if kind == 3:
        keys = [k if rng.integers(2) else f"key{k}" for k in range(len(items))]
        return dict(zip(keys, items, strict=True))
    return items


def flat(name, value):
    """(name, layer) pairs of a nest, in order: the truth."""
    if isinstance(value, nn.Layer):
        return [(name, value)]
    if not isinstance(value, (dict, list, tuple)):
        return []
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return [pair for key, x in pairs for pair in flat(f"{name}.{key}", x)]


class Net(nn.Module):
    def __init__(self, seed, name=None):
        super().__init__(name)
        rng = np.random.default_rng(seed)
        self.first = nn.FC(2)
        self.blocks = [nest(rng) for _ in range(3)]
        self.last = nn.FC(1)

    def forward(self, x):
        x = self.first(x)
        for _, layer in flat("blocks", self.blocks):
            x = layer(x)
        return self.last(x)


def names(net):
    inside = [name for name, _ in flat("blocks", net.blocks)]
    return [f"{name}.{p}" for name in ("first", *inside, "last") for p in ("W", "B")]


@pytest.mark.parametrize("seed", SEEDS)
def test_names_follow_the_containers(seed):
    net = Net(seed, "net")
    net(X)
    assert [name for name, _ in net.named_parameters()] == names(net)
    full = [f"net/{name.replace('.', '/')}" for name in names(net)]
    assert [v.name for v in net.parameters()] == full
    assert list(net.state_dict()) == names(net) == list(net.get_states())
    shown = repr(net)
    assert all(f"({name}): FC(2)" in shown for name, _ in flat("blocks", net.blocks))
    rows = net.summary().splitlines()
    assert {row.split()[0] for row in rows if "FC" in row} == {n[:-2] for n in names(net)}
    assert net.children()[0] is net.first and net.children()[-1] is net.last


@pytest.mark.parametrize("seed", SEEDS)
def test_values_go_to_another_net_and_to_copies(seed, tmp_path):
    net, twin, late = Net(seed), Net(seed), Net(seed)
    want = net(X).numpy()
    twin(X)
    twin.load_dict(net.state_dict())
    late.load_dict(net.state_dict())  # before it is built
    net.save(tmp_path / "net")
    again = Net(seed)
    again.compile([X.shape])
    again.load(tmp_path / "net", strict=True)
    assert late.parameters() == []
    for other in (twin, late, again, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert (other(X).numpy() == want).all()
        assert list(other.state_dict()) == names(net)
        assert not {v.name for v in other.parameters()} & {v.name for v in net.parameters()}


@pytest.mark.parametrize("seed", SEEDS)
def test_all_of_it_is_trained_and_frozen(seed):
    net = Net(seed)
    net(X)
    before = net.state_dict()
    optimizer = pd.SGDOptimizer(0.5)
    with pd.guard():
        optimizer.backward_and_update(pd.reduce_mean(pd.square(net.forward(X) - 1.0)))
    after = net.state_dict()
    assert all((before[k] != after[k]).any() for k in before)
    net.freeze()
    assert not any(v.trainable for v in net.parameters())
    net.eval()
    assert not any(layer.training for layer in net.sublayers())


@pytest.mark.parametrize("seed", SEEDS)
def test_containers_change_after_the_first_call(seed):
    """Appended, inserted, replaced and deleted layers, while graphs of the old ones are in use."""
    rng = np.random.default_rng(seed)
    net, graphs = Net(seed), []
    for _ in range(6):
        graphs.append(net(X))
        blocks, change = net.blocks, rng.integers(5)
        if change == 0:
            blocks.append(nn.FC(2))
        elif change == 1:
            blocks.insert(0, [nn.FC(2), {"deep": nn.FC(2)}])
        elif change == 2 and blocks:
            blocks[rng.integers(len(blocks))] = nn.FC(2)
        elif change == 3 and blocks:
            del blocks[rng.integers(len(blocks))]
        else:
            net.blocks = list(reversed(blocks))
        net(X)
        assert list(net.state_dict()) == names(net)
        assert len({v.name for v in net.parameters()}) == len(names(net))
        assert copy.deepcopy(net)(X).numpy().tolist() == net(X).numpy().tolist()
    assert all(np.isfinite(y.numpy()).all() for y in graphs)


def test_a_replaced_layer_has_a_name_of_its_own():
    net = Net(0, "net")
    y = net(X)
    net.last = nn.FC(3)
    assert net(X).shape == (4, 3) and y.numpy().shape == (4, 1)
    assert net.last.W.name == "net/last_1/W" and "last.W" in net.state_dict()


class Mixed(nn.Layer):
    def __init__(self):
        super().__init__()
        self.scales = [pd.Variable(data=np.full(2, 2.0)), (pd.Variable(data=np.ones(2)),)]
        self.table = {"steps": pd.Variable(data=np.zeros(2, "int64"))}
        self.sizes, self.words, self.seen = [3, 4], {"a b": "c.d", None: 1}, {5}

    def forward(self, x):
        return x * self.scales[0] + self.scales[1][0]


def test_variables_in_containers_are_parameters_and_buffers():
    layer = Mixed()
    assert [name for name, _ in layer.named_parameters()] == ["scales.0", "scales.1.0"]
    assert [name for name, _ in layer.named_buffers()] == ["table.steps"]
    twin = copy.deepcopy(layer)
    layer.load_dict({"scales.0": [3, 3], "scales.1.0": [0, 0], "table.steps": [1, 2]})
    assert pd.eval(layer(np.ones(2))).tolist() == [3, 3]
    assert pd.eval(twin(np.ones(2))).tolist() == [3, 3] == [2 + 1, 3]
    assert twin.scales[0] is not layer.scales[0] and twin.words == layer.words
    with pytest.raises(pd.ShapeError, match="a value of \\[3\\] is loaded"):
        layer.load_dict({"scales.0": np.ones(3)}, strict=False)


def test_a_list_with_results_and_with_itself():
    layer = nn.Layer()
    x = pd.Variable([None, 2])
    layer.kept = [x * 2.0, nn.FC(2)]
    layer.kept.append(layer.kept)
    layer.kept[1](x)
    assert list(layer.state_dict()) == ["kept.1.W", "kept.1.B"]
    twin = copy.deepcopy(layer)
    assert twin.kept[0] is layer.kept[0] and twin.kept[2] is twin.kept


def test_one_layer_in_two_places_counts_once():
    shared = nn.FC(2)
    net = nn.Layer("net")
    net.a, net.blocks, net.more = shared, [shared, nn.FC(2)], [[shared]]
    for layer in (shared, net.blocks[1]):
        layer(pd.constant(X))
    assert list(net.state_dict()) == ["a.W", "a.B", "blocks.1.W", "blocks.1.B"]
    value = np.ones((2, 2))
    assert net.load_dict({"blocks.0.W": value}, strict=False).unexpected == []
    assert (shared.W.val() == value).all()
    twin = copy.deepcopy(net)
    assert twin.a is twin.blocks[0] is twin.more[0][0]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda: {nn.FC(1)}, "a FC is in a set, where it has no name"),
        (lambda: [deque([nn.FC(1)])], "is in a deque, where it has no name"),
        (lambda: {(1, 2): nn.FC(1)}, r"is under the key \(1, 2\)"),
        (lambda: {"a.b": nn.FC(1)}, "is under the key 'a.b'"),
        (lambda: [{True: nn.FC(1)}], "is under the key True"),
        (lambda: {"": nn.FC(1)}, "is under the key ''"),
        (lambda: {1: nn.FC(1), "1": nn.FC(1)}, "'held.1' are two layers"),
    ],
)
def test_what_has_no_name_is_refused(value, message):
    layer = nn.Layer()
    with pytest.raises((TypeError, pd.NameConflict), match=message):
        layer.held = value()
    assert not hasattr(layer, "held") and layer.sublayers() == []
    layer.held = holder = []
    holder.append(value())
    with pytest.raises((TypeError, pd.NameConflict), match="held"):
        layer.state_dict()
    layer.held = OrderedDict(a=nn.FC(1))
    assert [name for name, _ in layer.named_sublayers()] == ["held.a"]


def test_a_layer_of_a_list_moves_to_another_net():
    a, b = nn.Layer("a"), nn.Layer("b")
    a.blocks = [nn.FC(2), nn.FC(2)]
    b.blocks = [a.blocks.pop()]
    b.blocks[0](pd.constant(X))
    assert b.blocks[0].full_name() == "b/blocks/0"


def test_a_list_and_a_parameter_of_one_name():
    layer = nn.Layer("layer")
    layer.parameter("blocks.0", [2])
    with pytest.raises(pd.NameConflict, match="'blocks' is a layer, and the name of a parameter"):
        layer.blocks = [nn.FC(2)]
