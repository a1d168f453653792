"""Random damage to state dicts: one error names all of it, and nothing is changed."""

import numpy as np
import pytest

import pd_core as pd
from pd_core import nn
from pd_core.interchange import from_pytorch, to_pytorch


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.FC(3), nn.BatchNorm1d(), nn.PReLU())
        self.blocks = [nn.LSTM(2, bidirectional=True), nn.TransformerEncoderLayer(4, 2, 3)]
        self.heads = {"a": nn.WeightNorm(nn.FC(2))}
        self.scale = pd.Variable(data=np.ones(1, "float32"))
        self.steps = pd.Variable(data=np.array([3]))

    def forward(self, x):
        x, _ = self.blocks[0](pd.reshape(self.inner(x), [0, 1, 3]))
        return self.heads["a"](self.blocks[1](x)) * self.scale


def loaders():
    """(function that loads values by name, all values)."""
    net = Net()
    net.infer_shape((None, 4))

    def load_pytorch(values, **options):
        return from_pytorch(net, values, **options)

    names = {k: v for k, v in to_pytorch(net).items() if "num_batches" not in k}
    return net, [(net.load_dict, net.state_dict()), (load_pytorch, names)]


def damaged(values, rng):
    """Return values that do not fit, {name: what is wrong with it}."""
    given, wrong = dict(values), {}
    for name in rng.choice(list(values), rng.integers(1, 5), replace=False):
        value, kind = given.pop(name), rng.integers(6)
        if kind == 0:
            wrong[name] = "missing"
        elif kind == 1:
            given[f"{name}x"] = value
            wrong[name], wrong[f"{name}x"] = "missing", "unexpected"
        elif kind == 2:
            given |= {name: value, f"{name}.more": value}
            wrong[f"{name}.more"] = "unexpected"
        elif kind == 3:
            given[name] = np.ones([n + 1 for n in value.shape], value.dtype)
            wrong[name] = "shape"
        elif kind == 4:
            given[name] = np.full(value.shape, "x")
            wrong[name] = "dtype"
        else:
            given[name] = value.astype(np.float64) + 1e300
            wrong[name] = "dtype"
    return given, wrong


@pytest.mark.parametrize("k", [0, 1])
def test_one_error_names_all(k):
    rng = np.random.default_rng(k)
    net, pairs = loaders()
    load, values = pairs[k]
    before = net.state_dict()
    assert load(values) == ([], [])
    for _ in range(40):
        given, wrong = damaged(values, rng)
        kinds = set(wrong.values())
        kind = pd.ShapeError if "shape" in kinds else pd.GraphError
        kind = pd.DTypeError if "dtype" in kinds and "shape" not in kinds else kind
        with pytest.raises(kind) as error:
            load(given)
        text = str(error.value)
        assert all(name in text for name in wrong), (text, wrong)
        lines = {line.split()[0]: line for line in text.splitlines()}
        for part in ("missing", "unexpected"):
            names = {name for name, what in wrong.items() if what == part}
            found = lines[part].split(maxsplit=1)[1].split(", ") if part in lines else []
            assert set(found) == names, text
        after = net.state_dict()
        assert all((before[name] == value).all() for name, value in after.items())
        if kinds <= {"missing", "unexpected"}:
            found = load(given, strict=False)
            assert {*found.missing} == {n for n, what in wrong.items() if what == "missing"}
            assert {*found.unexpected} == {n for n, what in wrong.items() if what == "unexpected"}
            load(values)
    assert not net.unused_values()
