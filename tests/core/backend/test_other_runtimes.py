"""Backends for other runtimes: what a subclass of ReferenceBackend has to say, and no more."""

import io

import numpy as np
import onnxruntime
import pytest

import pd_core as pd
from pd_core.backend import named
from pd_core.backend.named import register_backend
from pd_core.backend.reference import ReferenceBackend

f32 = np.float32


class Plain(ReferenceBackend):
    """ONNX Runtime without bindings: a session takes names and arrays as it is."""

    device = "plain"

    def opened(self, model):
        return onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )


class Compiled:
    """A model in OpenVINO."""

    def __init__(self, model):
        openvino = pytest.importorskip("openvino")
        core = openvino.Core()
        core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        self.model = core.compile_model(
            core.read_model(io.BytesIO(model.SerializeToString())), "CPU"
        )

    def run(self, names, inputs):
        found = self.model(inputs)
        return [np.array(found[name]) for name in names]


class OpenVino(ReferenceBackend):
    """OpenVINO's own runtime, which is not its provider in ONNX Runtime."""

    device = "openvino-runtime"

    def opened(self, model):
        return Compiled(model)


@pytest.fixture(params=[Plain, OpenVino], ids=lambda backend: backend.device)
def runtime(request, monkeypatch):
    monkeypatch.setattr(named, "_backends", dict(named._backends))
    return register_backend(request.param).device


def trained(device):
    """Losses of six steps, and the values after them."""
    with pd.fresh(seed=1, device=device) as session:
        x, y = pd.Variable([None, 1, 6, 6]), pd.Variable([None], dtype="int64")
        h = pd.max_pool(pd.layer.conv2d(x, 4, 3, act="tanh"), 2, 2)
        h = pd.layer.batch_norm(pd.layer.fc(pd.flatten(h), 5))
        loss = pd.reduce_mean(pd.softmax_cross_entropy(pd.layer.fc(h, 2), y))
        targets = [loss, pd.MomentumOptimizer(0.05).minimize(loss)]
        rng = np.random.default_rng(0)
        images = rng.standard_normal((6, 4, 1, 6, 6)).astype(f32)
        labels = rng.integers(0, 2, (6, 4))
        losses = [
            session.eval(targets, {x: a, y: b})[0] for a, b in zip(images, labels, strict=True)
        ]
        return session.device, losses, {v.name: a for v, a in session.values().items()}


def test_training_is_that_of_the_cpu(runtime):
    device, losses, values = trained(runtime)
    _, expected, others = trained("cpu")
    assert device == runtime and values.keys() == others.keys()
    np.testing.assert_allclose(losses, expected, rtol=1e-3, atol=1e-4)
    for name, array in values.items():
        np.testing.assert_allclose(array, others[name], rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("runtime", [Plain], indirect=True)  # OpenVINO has none on one core
def test_an_error_names_the_runtime(runtime):
    x, shape = pd.Variable([None]), pd.Variable([2], dtype="int64")
    with pytest.raises(pd.BackendError, match=f"^{runtime}: "):
        pd.Session(runtime).eval(pd.reshape(x, shape), {x: np.ones(5, f32), shape: [2, 3]})


class Refusing(ReferenceBackend):
    """A runtime that takes no model."""

    device = "refusing"

    def opened(self, model):
        raise NotImplementedError("it has no kernels")


def test_a_program_that_is_refused(monkeypatch):
    monkeypatch.setattr(named, "_backends", dict(named._backends))
    register_backend(Refusing)
    with pytest.raises(pd.BackendError, match=r"^refusing: it has no kernels$"):
        pd.Session("refusing").eval(pd.constant(1.0) * 2.0)


@pytest.mark.parametrize("name", ["reference", "auto"])
def test_a_name_is_given_once(name):
    class Other(ReferenceBackend):
        device = name

    with pytest.raises(ValueError, match=f"^register_backend: '{name}' is a backend already$"):
        register_backend(Other)
