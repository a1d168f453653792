"""`load_dict`: every name that does not fit is told, now or when the layer is built."""

import numpy as np
import pytest

import pd_core as pd

X = np.ones((2, 3), "float32")


class Net(pd.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.act, self.blocks = pd.nn.FC(4), pd.nn.ReLU(), [pd.nn.FC(4), pd.nn.FC(2)]
        self.norm = pd.nn.BatchNorm1d()

    def forward(self, x):
        x = self.norm(self.act(self.hidden(x)))
        for block in self.blocks:
            x = block(x)
        return x


def values():
    net = Net().eval()
    net(X)
    return {k: v + 0.5 for k, v in net.state_dict().items()}


NAMES = list(values())
CHANGES = [
    *[("missing", name, None) for name in NAMES],
    *[("renamed", name, name.swapcase()) for name in NAMES],
    *[("added", None, name) for name in ("weight", "top", "hidden.w", "blocks.7.W", "act.W")],
    ("emptied", None, None),
]


def changed(kind, old, new):
    given = values()
    if kind == "emptied":
        return {}, NAMES, []
    if old is not None:
        value = given.pop(old)
    if new is not None:
        given[new] = value if old else np.ones((4, 2))
    return given, [old] if old else [], [new] if new else []


@pytest.mark.parametrize(("kind", "old", "new"), CHANGES)
@pytest.mark.parametrize("is_built", [True, False])
def test_names_that_do_not_fit(kind, old, new, is_built):
    given, missing, unexpected = changed(kind, old, new)
    net = Net().eval()
    if is_built:
        net(X)
        before = net.state_dict()
        with pytest.raises(pd.GraphError, match="names do not fit") as error:
            net.load_dict(given)
        assert all((before[k] == v).all() for k, v in net.state_dict().items())
        assert net.unused_values() == {}
        assert net.load_dict(given, strict=False) == (missing, unexpected)
    else:
        net.load_dict(given)
        with pytest.raises(pd.GraphError, match="names do not fit") as error:
            net(X)
        assert net.parameters() == []
        with pytest.raises(pd.GraphError, match="names do not fit"):
            net(X)  # it stays so
        assert net.load_dict(given, strict=False) == ([], [])
        net(X)
    assert all(name in str(error.value) for name in (*missing[:12], *unexpected))
    if kind == "renamed":
        assert f"hint: {new!r} may be {old!r} here" in str(error.value)
    after = net.state_dict()
    assert all((after[name] == given[name]).all() for name in NAMES if name in given)


def test_names_of_other_frameworks_get_a_hint():
    net = Net().eval()
    net(X)
    with pytest.raises(pd.GraphError, match=r"'hidden.weight' may be 'hidden.W' here"):
        net.load_dict({"hidden.weight": np.ones((3, 4))})


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ([("hidden.W", 1)], TypeError, "takes a dict of values by name, not a list"),
        ({1: np.ones(2)}, TypeError, "names are text, not 1"),
        ({"hidden.W": np.ones((4, 3))}, pd.ShapeError, r"a value of \[4, 3\] is loaded"),
        ({"hidden.W": "text"}, TypeError, "the value of hidden.W is <U4, not numbers"),
        ({"hidden.W": None}, TypeError, "the value of hidden.W is object, not numbers"),
    ],
)
def test_what_is_no_value(given, kind, message):
    net = Net().eval()
    net(X)
    before = net.state_dict()
    with pytest.raises(kind, match=message):
        net.load_dict(given, strict=False)
    assert all((before[k] == v).all() for k, v in net.state_dict().items())


def test_a_new_load_replaces_values_that_wait():
    net, given = Net().eval(), values()
    net.load_dict({"hidden.weight": np.ones(3)})
    net.load_dict(given)
    net(X)
    assert all((given[k] == v).all() for k, v in net.state_dict().items())


def test_parts_that_are_called_later_take_their_values_later():
    net, given = Net().eval(), values()
    net.load_dict(given)
    net.hidden(pd.constant(X))
    assert (net.hidden.W.val() == given["hidden.W"]).all()
    assert len(net.unused_values()) == len(given) - 2
    net(X)
    assert net.unused_values() == {}


def test_a_head_that_is_added_later_is_its_own():
    net = Net().eval()
    net.load_dict(values())
    net(X)
    net.blocks.append(pd.nn.FC(7))
    assert net(X).shape == (2, 7)
