"""Names of variables: every legal one survives every file, the others are refused at once."""

import copy
import json

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import pd_core as pd
from pd_core import nn
from pd_core.storage.tensors import read_tensors, write_tensors
from pd_core.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

RESERVED = [
    *("__metadata__", "__metadata___", "pd.__metadata__", "pd.state", "dtype", "data_offsets"),
    *("__class__", "None", "CON", "random_seed", "input_0", "output_0", "state.json", "training"),
    *("var-0", "fc_0", "fc_0.W", "MatMul", "MatMul_0", "matmul_0", "MatMul_out", "_next"),
]
LETTERS = [
    *(" ", ".", "..", "a.b", "a..b", ".a", "a.", "/", "//", "a/b", "/a", "a/", "a//b", "../x"),
    *("é", "e\u0301", "日本", "😀", "\u202e", "\ufeff", "\x00", "a\x00b", "\x01\n\r\t\x7f"),
    *("\x85\u2028", "'", '"', "\\", "\\n", "{", "%", "%5F", "a:b", "a*b?", "~", "-", "0"),
    *("w", "W", "É", "straße", "STRASSE", "w_next", "w_next_next", "w_grad"),
]
LONG = ["a" * 255, "a" * 256, "é" * 128, "b" * 5000, "a" * 254 + "A"]
NAMES = [*RESERVED, *LETTERS, *LONG]
REFUSED = ["", "\ud800", "a\udfffb"]


def values(seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(3, 1)).astype(np.float32) for name in NAMES}


@pytest.fixture
def network():
    """All names in one graph: variables, a feed, and the sum of their products."""
    with pd.fresh():
        x = pd.Variable([None, 3], name="the feed")
        variables = {name: pd.Variable(name, data=a) for name, a in values().items()}
        yield x, variables, sum(pd.matmul(x, v) for v in variables.values())


def stored(variables):
    return {name: pd.default_session().val(v) for name, v in variables.items()}


def assert_same(got, expected):
    assert got.keys() == expected.keys()
    for name, a in expected.items():
        np.testing.assert_array_equal(got[name], a, err_msg=ascii(name))


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:30])
def test_one_variable_alone(name, tmp_path):
    with pd.fresh():
        v = pd.Variable(name, data=[1.0, 2.0])
        assert pd.save(tmp_path / "values", v) == [name]
        pd.default_session().set(v, [0.0, 0.0])
        assert pd.load(tmp_path / "values", v).names == [name]
        np.testing.assert_array_equal(pd.default_session().val(v), [1, 2])


def test_all_in_one_file(network, tmp_path):
    _, variables, y = network
    pd.save(tmp_path / "values", y)
    pd.default_session().load_values({v: np.zeros((3, 1)) for v in variables.values()})
    assert set(pd.load(tmp_path / "values", y).names) == set(NAMES)
    assert_same(stored(variables), values())


@pytest.mark.parametrize("stored", ["__metadata__", "__metadata___"])
def test_a_file_without_the_tensor_that_it_names_is_damaged(stored, tmp_path):
    path = tmp_path / "values"
    write_tensors(path, {"a": np.zeros(1)}, {"pd.__metadata__": stored})
    with pytest.raises(pd.DamagedFile, match=f"lacks the tensor '{stored}'"):
        read_tensors(path)


def test_a_checkpoint(tmp_path):
    slots = {f"{name}/momentum": v for name, v in values(1).items()}
    state = {"values": values(), "optimizer": slots}
    write_checkpoint(tmp_path / "batch-00001", Checkpoint({"item": state}, 1, 0))
    got = read_checkpoint(tmp_path / "batch-00001").parts["item"]
    assert_same(got["values"], values())
    assert_same(got["optimizer"], state["optimizer"])


def test_an_exported_model(network, tmp_path):
    x, _, y = network
    feed, path = np.float32([[1, 2, 3], [4, 5, 6]]), str(tmp_path / "model.onnx")
    expected = pd.eval(y, {x: feed})
    pd.export_onnx(path, y)
    (got,) = ort.InferenceSession(path).run(None, {"the feed": feed})
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert {t.name for t in onnx.load(path).graph.initializer} >= set(NAMES)
    with pd.fresh():
        model = pd.import_onnx(path)
        imported = {v.name: v for v in pd.persistent_variables()}
        assert_same(stored(imported), values())
        np.testing.assert_allclose(pd.eval(model(feed)), expected, rtol=1e-5)


def test_an_exported_step(network):
    x, variables, y = network
    step = pd.MomentumOptimizer(0.1).minimize(pd.reduce_mean(y))
    model = pd.export_step(None, step, y)
    feed = np.float32([[1, 2, 3]])
    session = ort.InferenceSession(model.SerializeToString())
    names = [out.name for out in session.get_outputs()]
    outputs = dict(zip(names, session.run(None, {"the feed": feed}), strict=True))
    read_by = json.loads({p.key: p.value for p in model.metadata_props}["pd.state"])
    after = {name: outputs[out] for out, name in read_by.items() if name in variables}
    pd.eval(step, {x: feed})
    assert after.keys() == variables.keys()
    for name, a in stored(variables).items():
        np.testing.assert_allclose(after[name], a, rtol=1e-5, err_msg=ascii(name))


class Many(nn.Module):
    """A layer with a parameter of each name."""

    def forward(self, x):
        return sum(
            pd.matmul(x, self.parameter(f"p{k}", [3, 1], {"name": name}))
            for k, name in enumerate(NAMES)
        )


def test_a_module(tmp_path):
    with pd.fresh():
        net = Many(name="net")
        net.compile([pd.Variable([None, 3], name="x")])
        before = net.state_dict()
        net.save(tmp_path / "net", {"optimizer": pd.SGDOptimizer(0.1), **values()})
        net.load_dict({name: np.zeros((3, 1)) for name in before})
        state = net.load(tmp_path / "net", include_state=True, strict=True)
        assert_same(net.state_dict(), before)
        assert_same({name: state[name] for name in NAMES}, values())


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:30])
def test_a_layer_of_that_name(name):
    with pd.fresh():
        if not name.strip("/"):
            with pytest.raises(TypeError, match="a str that is not empty"):
                nn.FC(2, name=name)
            return
        net = nn.FC(2, name=name)
        net(pd.Variable([None, 3], name="the feed"))
        twin = copy.deepcopy(net)
        assert_same(twin.state_dict(), net.state_dict())
        net.load_dict(twin.state_dict())


@pytest.mark.parametrize("name", REFUSED, ids=ascii)
def test_a_name_that_files_cannot_hold_is_refused_at_once(name):
    with pd.fresh():
        for create in (
            lambda: pd.Variable(name, shape=[2]),
            lambda: pd.Variable([None, 2], name=name),
            lambda: pd.get_variable(name, [2]),
            lambda: pd.constant(1.0, name=name),
        ):
            with pytest.raises(pd.GraphError, match=r"a name has one|no Unicode text"):
                create()
        assert not pd.persistent_variables()


@pytest.mark.parametrize("order", [1, -1])
def test_a_parameter_is_not_taken_for_one_of_a_layer_below(order):
    with pd.fresh():
        layer, inner = nn.Layer(name="net"), nn.Layer()
        parts = {"a": inner, "a.W": pd.Variable("w", data=[1.0]), "b.W": pd.Variable(data=[2.0])}
        with pytest.raises(pd.NameConflict, match=r"net: 'a' is a layer, and .* begins with 'a.'"):
            for name in list(parts)[::order]:
                setattr(layer, name, parts[name])
        assert len(layer.state_dict()) == len(layer.parameters())
