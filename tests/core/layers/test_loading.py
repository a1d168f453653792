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
        ({"hidden.W": [[1], [2, 3]]}, pd.DTypeError, "'hidden.W' cannot be read as an array"),
        ({"hidden.B": np.ma.array(np.ones(4), mask=[1, 0, 0, 0])}, TypeError, "masked elements"),
        ({"hidden.B": [1e300, 0, 0, -1e301]}, TypeError, r"a value of -1e\+301 is loaded, it is f"),
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


def test_elements_that_a_buffer_does_not_take():
    layer = pd.nn.Layer()
    layer.steps = pd.Variable(data=np.array([1, 2]))
    layer.mask = pd.Variable(data=np.array([True, False]))
    given = {"steps": np.array([3, 4], np.int32), "mask": np.array([False, True])}
    layer.load_dict(given)
    for name, value in {"steps": [2.0, 1.0], "mask": [3, 0]}.items():
        with pytest.raises(pd.DTypeError, match=f"is loaded, it is .*{name}' of the values"):
            layer.load_dict({**given, name: np.array(value)})
    huge = np.array([2**63 + 5, 1], np.uint64)
    with pytest.raises(pd.DTypeError) as error:
        layer.load_dict({"steps": huge, "mask": np.array([0.5, 0])})
    assert str(error.value).count("is loaded") == 2
    assert layer.steps.val().tolist() == [3, 4] and layer.mask.val().tolist() == [False, True]


def test_tensors_of_pytorch():
    torch = pytest.importorskip("torch")
    matrix = torch.tensor([[1.0, -2.0, 0.5], [3.0, 0.0, 1.5]])
    tensors = [
        torch.nn.Parameter(matrix),
        *[matrix.to(dtype) for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float64)],
        torch._neg_view(-matrix),
    ]
    for tensor in tensors:
        layer = pd.nn.FC(2, bias=False)
        layer.load_dict({"weight": tensor}, mapping={"weight": "W"}, transpose="weight")
        layer.infer_shape((None, 3))
        assert (layer.W.val() == matrix.numpy().T).all()
    with pytest.raises(pd.DTypeError, match="'W' cannot be read as an array: "):
        layer.load_dict({"W": torch.empty(3, 2, device="meta")})
