"""Module.save and load: the ONNX model, values by name, and other state."""

import os
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from safetensors.numpy import load_file, save_file

import pd_core as pd

f32 = np.float32


class Net(pd.nn.Module):
    def __init__(self, size=3, name=None):
        super().__init__(name)
        self.conv, self.norm = pd.nn.Conv2d(2, kernel=3), pd.nn.BatchNorm2d()
        self.fc, self.drop = pd.nn.FC(size), pd.nn.Dropout(0.5)
        self.optimizer = pd.AdamOptimizer(0.01)
        self.modes = []

    def forward(self, x):
        self.modes.append(self.training)
        return self.fc(self.drop(pd.flatten(pd.relu(self.norm(self.conv(x))))))

    def train_one_batch(self, x):
        loss = pd.reduce_mean(pd.square(self.forward(x)))
        self.optimizer.backward_and_update(loss)
        return loss


def images(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 1, 5, 5)).astype(f32)


def trained(**options):
    m = Net(**options)
    for seed in range(3):
        m(images(4, seed))
    return m


def values(m):
    return {name: v.numpy() for name, v in m.get_states().items()}


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "model")


# ---- the ONNX model


def test_the_model_is_the_inference_of_the_module(path):
    m = trained()
    m.drop.eval()
    m.save(path)
    assert m.training and m.norm.training and not m.drop.training and m.modes[-1] is False
    onnx.checker.check_model(path + ".onnx", full_check=True)
    session = ort.InferenceSession(path + ".onnx", providers=["CPUExecutionProvider"])
    m.eval()
    for n in (1, 7):
        (y,) = session.run(["output_0"], {"input_0": images(n)})
        np.testing.assert_allclose(y, m(images(n)).numpy(), rtol=1e-4, atol=1e-6)
    first = Path(path + ".onnx").read_bytes()
    m.save(path)
    assert Path(path + ".onnx").read_bytes() == first


def test_names_sizes_and_several_outputs(path):
    class Two(pd.nn.Module):
        def forward(self, x, y):
            return {"sum": x + y, "both": (x * y, x)}

    m = Two()
    m.compile([pd.Placeholder((2, None), name="left"), pd.Placeholder((2, None), name="right")])
    with pd.guard():
        m.save(path)
    session = ort.InferenceSession(path + ".onnx", providers=["CPUExecutionProvider"])
    assert [i.name for i in session.get_inputs()] == ["left", "right"]
    assert session.get_inputs()[0].shape[0] == 2
    a, b = np.ones((2, 3), f32), np.full((2, 3), 5, f32)
    wanted = {"output_0": a + b, "output_1": a * b, "output_2": a}
    for name, y in zip(wanted, session.run(list(wanted), {"left": a, "right": b}), strict=True):
        assert (y == wanted[name]).all()


def test_a_module_without_outputs(path):
    class Silent(pd.nn.Module):
        def forward(self, x):
            return None

    m = Silent()
    m.compile([(2, 3)])
    with pytest.raises(pd.ExportError, match="Silent returns no Variables"):
        m.save(path)
    assert os.listdir(os.path.dirname(path)) == []


# ---- values and state


def test_state_comes_back_as_it_was(path):
    m = trained()
    state = {
        "epoch": 3,
        "best": float("inf"),
        "name": "ü/x",
        "done": True,
        "nothing": None,
        "history": [1, 2.5, ["a"], {}],
        "nested": {"mean": np.arange(3.0), "dict": {"tensor": "fc.W"}, "n": np.int64(7)},
        "nested/mean": np.zeros((0, 2)),
        "average": pd.Variable(data=np.ones(2)),
    }
    m.save(path, state=state)
    back = m.load(path, include_state=True)
    assert list(back) == list(state)
    for key in ("epoch", "best", "name", "done", "nothing", "history"):
        assert back[key] == state[key] and type(back[key]) is type(state[key])
    assert back["nested"]["dict"] == {"tensor": "fc.W"} and back["nested"]["n"].item() == 7
    assert back["nested"]["mean"].tolist() == [0, 1, 2] and back["nested/mean"].shape == (0, 2)
    assert back["nested"]["mean"].dtype == np.float64 and back["average"].tolist() == [1, 1]
    assert m.load(path) == {}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": {"b": object()}}, "state/a/b is <object"),
        ({"pair": (1, 2)}, "state/pair"),
        ({"a": {1: 2}}, "a key of state/a is 1"),
        ({"text": np.array(["x"])}, "state/text holds <U1"),
    ],
)
def test_what_cannot_be_saved(path, state, message):
    m = trained()
    with pytest.raises(TypeError, match=message):
        m.save(path, state=state)
    assert os.listdir(os.path.dirname(path)) == []


def test_values_are_in_the_file_by_name(path):
    m = trained()
    m.save(path, state={"optimizer": m.optimizer})
    tensors = load_file(path + ".safetensors")
    for name, value in values(m).items():
        assert (tensors[name] == value).all()
    assert (tensors["state/optimizer/fc.W/m"] == m.optimizer.state()[f"{m.fc.W.name}/m"]).all()


def test_training_goes_on_under_another_name(path):
    m = trained(name="first")
    m.drop.eval()
    state = {"optimizer": m.optimizer}
    m.save(path, state)
    want = [float(m(images(4, seed))) for seed in range(3)]
    twin = Net(name="second/part")
    twin.compile([(None, 1, 5, 5)])
    twin.drop.eval()
    back = twin.load(path, include_state=True)
    assert f"{twin.fc.W.name}/m" in back["optimizer"] and "weight1" in back["optimizer"]
    twin.optimizer.load_state(back["optimizer"])
    twin.save(path, {"optimizer": twin.optimizer})  # what waits for its step is saved, too
    twin.optimizer.load_state(twin.load(path, include_state=True)["optimizer"])
    assert [float(twin(images(4, seed))) for seed in range(3)] == want


def test_an_optimizer_of_other_parameters_too(path):
    m = trained(name="net")
    outside = pd.Variable("fc.W", data=np.ones(2))
    with pd.guard():
        m.optimizer.minimize(pd.reduce_sum(outside * outside))
    m.save(path, {"optimizer": m.optimizer})
    state = m.load(path, include_state=True)["optimizer"]
    own = m.optimizer.state()
    assert state.keys() == own.keys() and {"fc.W/m", "net/fc/W/m"} < own.keys()
    assert all((state[name] == own[name]).all() for name in own)


# ---- what does not fit


class Other(Net):
    def __init__(self):
        super().__init__(size=4)
        self.norm, self.extra = pd.nn.GroupNorm(2), pd.nn.FC(2)

    def forward(self, x):
        return self.extra(super().forward(x))


def test_every_misfit_is_one_warning(path):
    trained().save(path)
    o = Other()
    o.compile([(None, 1, 5, 5)])
    before = values(o)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        o.load(path)
    assert {w.category for w in told} == {pd.LoadWarning}
    assert {w.filename for w in told} == {__file__}
    texts = [str(w.message) for w in told]
    for name, why in {
        "fc.W": "is float32[18, 4], in the file float32[18, 3]",
        "fc.B": "is float32[4], in the file float32[3]",
        "extra.W": "is not in the file",
        "extra.B": "is not in the file",
        "norm.mean": "is only in the file",
        "norm.variance": "is only in the file",
    }.items():
        assert sum(f"load: {name} {why} ({path}.safetensors)" == text for text in texts) == 1
    assert len(texts) == 6
    after = values(o)
    changed = {name for name in after if (after[name] != before[name]).any()}
    assert changed and all(name.startswith(("conv", "norm")) for name in changed)


def test_strict_changes_nothing(path):
    trained().save(path)
    o = Other()
    o.compile([(None, 1, 5, 5)])
    before = values(o)
    with pytest.raises(pd.GraphError) as error:
        o.load(path, strict=True)
    assert all(name in str(error.value) for name in ("fc.W", "fc.B", "extra.W", "norm.mean"))
    assert all((value == before[name]).all() for name, value in values(o).items())
    trained().load(path, strict=True)


def test_another_dtype_is_a_misfit(path):
    m = trained()
    m.save(path)
    file = path + ".safetensors"
    metadata = {"pd.state": '{"dict": {}}'}
    tensors = values(m)
    save_file({**tensors, "fc.B": np.arange(3), "fc.W": tensors["fc.W"] * 2.0}, file, metadata)
    with pytest.warns(pd.LoadWarning, match=r"fc\.B is float32\[3\], in the file int64\[3\]"):
        m.load(path)
    save_file({**tensors, "fc.W": tensors["fc.W"].astype(np.float64) * 2}, file, metadata)
    m.load(path, strict=True)  # floats are rounded
    assert (m.fc.W.numpy() == tensors["fc.W"] * 2).all()


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "not written by Module.save"),
        ({"pd.state": "{"}, "cannot be read"),
        ({"pd.state": "[" * 100_000}, "cannot be read"),
        ({"pd.state": "3"}, "is no dict"),
        ({"pd.state": '{"dict": {"a": {"tensor": "absent"}}}'}, "absent"),
        ({"pd.state": '{"dict": {"a": [1]}}'}, "has an entry"),
        ({"pd.state": '{"dict": {}, "list": []}'}, "has an entry"),
    ],
)
def test_foreign_and_damaged_files(path, metadata, message):
    m = trained()
    before = values(m)
    save_file({"fc.B": np.ones(3, f32)}, path + ".safetensors", metadata)
    with pytest.raises(pd.DamagedFile, match=message) as error:
        m.load(path)
    assert path in str(error.value)
    assert all((value == before[name]).all() for name, value in values(m).items())


def test_a_file_that_is_cut(path):
    m = trained()
    m.save(path)
    file = Path(path + ".safetensors")
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(pd.DamagedFile, match=r"model\.safetensors"):
        m.load(path)
