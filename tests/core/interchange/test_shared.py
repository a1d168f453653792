"""Parameters that layers share: all of their names in both directions, and one is enough."""

import numpy as np
import pytest

import pd_core as pd
from pd_core import nn
from pd_core.interchange import from_pytorch, to_pytorch

torch = pytest.importorskip("torch")
tn = torch.nn
F = 3


class TheirScale(tn.Module):
    def __init__(self):
        super().__init__()
        self.scale = tn.Parameter(torch.tensor([0.5, -1.0, 2.0]))
        self.register_buffer("shift", torch.tensor([1.0, 0.0, 0.5]))

    def forward(self, x):
        return x * self.scale + self.shift


class OurScale(nn.Layer):
    def __init__(self):
        super().__init__()
        self.scale = pd.Variable(data=np.zeros(F, "float32"))
        self.shift = pd.Variable(data=np.zeros(F, "float32"), trainable=False)

    def forward(self, x):
        return x * self.scale + self.shift


class Theirs(tn.Module):
    """Two matrices that are one, which is an attribute too, and a module at two places."""

    def __init__(self):
        super().__init__()
        self.a, self.b = tn.Linear(F, F), tn.Linear(F, F)
        self.b.weight = self.a.weight
        self.parts = tn.ModuleList([TheirScale()])
        self.again = self.parts[0]
        self.alias = self.b.weight

    def forward(self, x):
        return self.again(self.b(torch.tanh(self.parts[0](self.a(x))))) @ self.alias.T


class Ours(nn.Layer):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.FC(F), nn.FC(F)
        for layer in (self.a, self.b):
            layer.infer_shape((None, F))
        self.b.W = self.a.W
        self.parts = [OurScale()]
        self.again = self.parts[0]
        self.alias = self.b.W

    def forward(self, x):
        return self.again(self.b(pd.tanh(self.parts[0](self.a(x))))) @ self.alias


SHARED = [
    ("a.weight", "b.weight", "alias"),
    ("parts.0.scale", "again.scale"),
    ("parts.0.shift", "again.shift"),
]
X = np.random.default_rng(0).normal(size=(4, F)).astype("float32")


def states():
    """The state dict with all names, and with one of the names of each that is shared."""
    torch.manual_seed(0)
    theirs = Theirs()
    state = {k: v.clone() for k, v in theirs.state_dict().items()}
    every = {name for names in SHARED for name in names}
    kept = [{names[k % len(names)] for names in SHARED} for k in range(3)]
    one_each = [{k: v for k, v in state.items() if k not in every - names} for names in kept]
    return theirs, [state, *one_each]


def test_all_names_or_one_of_them():
    theirs, given = states()
    want = theirs(torch.tensor(X)).detach().numpy()
    for state in given:
        ours = Ours()
        assert from_pytorch(ours, state) == ([], [])
        np.testing.assert_allclose(pd.eval(ours(X)), want, rtol=1e-5, atol=1e-5)
        back = to_pytorch(ours)
        assert back.keys() == given[0].keys()
        assert all((back[k] == v.numpy()).all() for k, v in given[0].items())
    rate = 0.1
    with pd.guard():
        for _ in range(2):  # they are one parameter while they are trained, too
            theirs.zero_grad()
            theirs(torch.tensor(X)).square().mean().backward()
            with torch.no_grad():
                for v in theirs.parameters():
                    v.sub_(rate * v.grad)
            pd.SGDOptimizer(rate).minimize(pd.reduce_mean(pd.square(ours(X))))
    for name, value in to_pytorch(ours).items():
        np.testing.assert_allclose(value, theirs.state_dict()[name], rtol=1e-4, atol=1e-5)


def test_values_that_differ():
    _, (state, *_) = states()
    ours = Ours()
    before = ours.state_dict()
    for first, *others in SHARED:
        for name in others:
            given = {**state, name: state[name] + 1}
            with pytest.raises(pd.GraphError, match="are one parameter here, and differ") as error:
                from_pytorch(ours, given)
            assert repr(name) in str(error.value) and repr(first) in str(error.value)
    names = {"b.W": "a.W", "alias": "a.W", "again.scale": "parts.0.scale"}
    for name, first in names.items():
        value = before["alias" if first == "a.W" else first]
        given = {k: v for k, v in before.items() if k not in ("alias", first)}
        given |= {"a.W": before["alias"], first: value, name: value}
        assert ours.load_dict(given) == ([], [])
        with pytest.raises(pd.GraphError, match=f"'{first}' and '{name}' are one parameter"):
            ours.load_dict({**given, name: value + 1})
    assert all((before[k] == v).all() for k, v in ours.state_dict().items())


def test_values_that_differ_of_what_is_not_built():
    layer = nn.FC(2)
    shared = nn.Sequential({"a": layer, "b": layer})
    given = {"a.W": np.ones((2, 2)), "a.B": np.ones(2), "b.W": np.ones((2, 2))}
    shared.load_dict(given)
    with pytest.raises(pd.GraphError, match=r"'a.W' and 'b.W' are one parameter here, and differ"):
        shared.load_dict({**given, "b.W": np.zeros((2, 2))})
