"""Devices: their names, how they are found, and sessions on what ONNX Runtime reports."""

from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as errors

import pd_core as pd
from pd_core.backend import devices, ort, program
from pd_core.backend.base import NO_SEAM
from pd_core.backend.devices import Device
from pd_core.backend.fallbacks import count_fallbacks
from pd_core.graph.node import ancestors
from pd_core.run.feeds import fed_shape

CPU = "CPUExecutionProvider"


@pytest.fixture(autouse=True)
def rescanned(monkeypatch):
    """Nothing is known of other tests' devices, nor afterwards of those here."""
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CPU])
    devices.all_devices.cache_clear()
    yield
    devices.all_devices.cache_clear()


def reported(provider, kind, memory=None):
    """What ONNX Runtime reports of a provider's hardware."""
    return SimpleNamespace(
        ep_name=provider,
        device=SimpleNamespace(type=SimpleNamespace(name=kind)),
        memory_info=lambda kind: memory and SimpleNamespace(device_id=memory),
    )


def report(monkeypatch, *hardware):
    monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: [reported(CPU, "CPU"), *hardware])


def test_names_are_provider_kind_and_number(monkeypatch):
    intel = "OpenVINOExecutionProvider"
    report(
        monkeypatch,
        *(reported(intel, kind) for kind in ("CPU", "GPU", "NPU", "GPU")),
        reported("WebGpuExecutionProvider", "GPU"),
        reported("CUDAExecutionProvider", "GPU"),
        reported("CUDAExecutionProvider", "GPU"),
        reported("contoso.ep", "NPU"),
    )
    names = ["cpu", "openvino:cpu", "openvino:gpu", "openvino:npu", "openvino:gpu:1"]
    names += ["webgpu:gpu", "cuda:0", "cuda:1", "contoso.ep:npu"]
    assert pd.devices() == names
    assert [devices.device(name).name for name in names] == names
    first = {"openvino": "openvino:cpu", "webgpu": "webgpu:gpu", "cuda": "cuda:0"}
    assert {name: devices.device(name).name for name in first} == first


@pytest.mark.parametrize("name", ["openvino:npu", "openvino:gpu:1", "OpenVINO", "cuda", ""])
def test_unknown_devices_are_refused_with_those_there(name, monkeypatch):
    report(monkeypatch, reported("OpenVINOExecutionProvider", "GPU"))
    with pytest.raises(
        pd.PlaceError, match=f"^there is no device '{name}' here; there is cpu, openvino:gpu$"
    ):
        pd.Session(name)


@pytest.mark.parametrize("allocates", [True, False])
def test_values_are_where_memory_can_be_allocated(allocates, monkeypatch):
    def allocate(shape, dtype, kind, number):
        if not allocates:
            raise RuntimeError("no allocator")

    value = SimpleNamespace(ortvalue_from_shape_and_type=allocate)
    monkeypatch.setattr(onnxruntime, "OrtValue", value)
    report(
        monkeypatch,
        reported("WebGpuExecutionProvider", "GPU", memory=3),
        reported("OpenVINOExecutionProvider", "GPU"),
    )
    assert devices.device("webgpu").memory == ("webgpu:3" if allocates else "cpu")
    assert devices.device("openvino").memory == "cpu"


@pytest.mark.parametrize("opens", [True, False])
def test_providers_of_the_wheel_are_tried(opens, monkeypatch):
    wheel = ["OpenVINOExecutionProvider", "AzureExecutionProvider", CPU]

    class Opened:
        def __init__(self, model, options, providers, enable_fallback):
            assert [providers[0][0], providers[1], enable_fallback] == [wheel[0], CPU, 0]

        def get_providers(self):
            return [wheel[0], CPU] if opens else [CPU]

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: wheel)
    monkeypatch.setattr(onnxruntime, "InferenceSession", Opened)
    assert pd.devices() == (["cpu", "openvino"] if opens else ["cpu"])
    if opens:
        found = devices.device("openvino:gpu")
        assert (found.name, found.provider) == ("openvino:gpu", wheel[0])
        assert found.options == {"precision": "ACCURACY", "device_type": "GPU"}


def test_libraries_of_packages_are_loaded(tmp_path, monkeypatch):
    for name, body in {"good": "return '/tmp/good.so'", "bad": "raise RuntimeError('odd')"}.items():
        file = tmp_path / f"onnxruntime_ep_{name}.py"
        file.write_text(f"def get_library_path():\n    {body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    loaded = []
    monkeypatch.setattr(
        onnxruntime, "register_execution_provider_library", lambda *names: loaded.append(names)
    )
    report(monkeypatch)
    with pytest.warns(UserWarning, match="the devices of onnxruntime_ep_bad are left out: odd"):
        assert pd.devices() == ["cpu"]
    assert loaded == [("/tmp/good.so", "/tmp/good.so")]
    devices.all_devices.cache_clear()
    with pytest.warns(UserWarning, match="onnxruntime_ep_bad"):
        pd.devices()
    assert len(loaded) == 1


def test_registering_a_library_returns_its_devices(tmp_path, monkeypatch):
    here = []

    def load(name, path):
        here.append(reported("ContosoExecutionProvider", "NPU"))

    monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: here)
    monkeypatch.setattr(onnxruntime, "register_execution_provider_library", load)
    library = tmp_path / "libcontoso.so"
    assert pd.register_devices(library) == ["contoso:npu"]
    assert pd.register_devices(library) == [] and len(here) == 1
    assert pd.devices() == ["cpu", "contoso:npu"]


def test_a_file_that_is_no_library_is_refused(tmp_path):
    path = tmp_path / "libnothing.so"
    path.write_text("nothing")
    with pytest.raises(pd.PlaceError, match=rf"^register_devices: {path} cannot be loaded: "):
        pd.register_devices(path)


def trained(device):
    """Five steps of a small network on a device."""
    with pd.fresh(seed=1, device=device) as session:
        x, w = pd.Variable("x", shape=[None, 3]), pd.Variable("w", data=np.ones((3, 2)))
        loss = pd.reduce_mean(pd.square(pd.tanh(pd.matmul(x, w)) - 0.5))
        step = pd.AdamOptimizer(0.1).minimize(loss)
        rng = np.random.default_rng(0)
        losses = [session.eval([loss, step], {x: rng.normal(size=(4, 3))})[0] for _ in range(5)]
        return losses, session.get(w), session.device


@pytest.fixture
def other(monkeypatch):
    """The CPU's kernels as ONNX Runtime reports a plugin."""
    (cpu,) = (d for d in onnxruntime.get_ep_devices() if d.ep_name == CPU)
    device = Device("other:cpu", provider=CPU, hardware=cpu)
    monkeypatch.setitem(devices.all_devices(), "other:cpu", device)
    return "other"


def test_training_on_a_reported_device_is_the_same(other):
    losses, w, name = trained(other)
    wanted, w_wanted, _ = trained("cpu")
    np.testing.assert_allclose(losses, wanted, rtol=1e-6)
    np.testing.assert_allclose(w, w_wanted, rtol=1e-6)
    assert name == "other:cpu"
    fallen = pd.fallbacks(other)  # its kernels are the CPU's
    assert fallen["MatMul"] >= 2 and fallen["Tanh"] == 1
    assert pd.fallbacks("cpu") == {}


def test_operators_of_other_providers_have_not_fallen_back(other):
    """Those of a device itself are not counted, nor are those of the CPU as a device."""

    class Opened:
        """A session with an operator on the device, and two on the CPU."""

        def get_provider_graph_assignment_info(self):
            kinds = {"OtherExecutionProvider": ["Conv"], CPU: ["NonZero", "NonZero"]}
            return [
                SimpleNamespace(
                    ep_name=name,
                    get_nodes=lambda found=found: [SimpleNamespace(op_type=o) for o in found],
                )
                for name, found in kinds.items()
            ]

    before = pd.fallbacks(other)
    count_fallbacks("other:cpu", Opened())
    count_fallbacks("cpu", Opened())
    after = pd.fallbacks(other)
    assert after.pop("NonZero") == before.pop("NonZero", 0) + 2 and after == before
    assert pd.fallbacks("cpu") == {}


def test_a_provider_that_is_not_loaded_is_an_error(monkeypatch):
    (cpu,) = (d for d in onnxruntime.get_ep_devices() if d.ep_name == CPU)
    device = Device("lost:cpu", provider="LostExecutionProvider", hardware=cpu)
    monkeypatch.setitem(devices.all_devices(), "lost:cpu", device)
    with pytest.raises(
        pd.BackendError, match="could not load LostExecutionProvider for 'lost:cpu'"
    ):
        pd.Session("lost").eval(pd.Variable("x", data=[1.0]) * 2.0)


def test_older_runtimes_do_not_report_where_operators_run(other, monkeypatch):
    monkeypatch.setattr(onnxruntime, "InferenceSession", object)
    with pytest.raises(pd.BackendError, match=r"^fallbacks: ONNX Runtime .* does not report where"):
        pd.fallbacks(other)


def test_programs_for_webgpu_have_portable_forms(monkeypatch):
    def find(name):
        return Device("webgpu:gpu")

    monkeypatch.setattr("pd_core.backend.ort.find_device", find)
    backend = pd.Session("webgpu").backend
    x = pd.Variable("x", shape=[2, 3])
    graph = program.build([pd.sign(x)], [], [x], False, {}, layouts=backend.layouts)
    assert "Sign" not in {node.op_type for node in ancestors(graph.outputs)}


def test_an_operator_without_any_kernel_is_computed_by_others(monkeypatch):
    """Neither the device nor the CPU has one, of which the runtime says no more than this."""
    x = pd.Variable("x", shape=[None], dtype="float64")
    graph = program.build([pd.tan(x)], (), [x], False, {})
    told = "Exception during initialization: Provider type for Tan node with name 'Tan' is not set."
    opened = []

    def open_session(model, device, **options):
        opened.append({node.op_type for node in onnx.load_from_string(model).graph.node})
        if "Tan" in opened[-1]:
            raise errors.Fail(told)
        return ort.session(model)

    monkeypatch.setattr(ort, "find_device", lambda name: Device("cpu", "cpu"))
    found = ort.OrtProgram(graph, NO_SEAM, "contoso:gpu", open_session)
    assert len(opened) == 2 and "Tan" in opened[0]
    y = found.bind([], []).run([np.array([0.5, -1.0])], ort.OrtValues("cpu"))[0]
    np.testing.assert_allclose(y, np.tan([0.5, -1.0]), rtol=1e-14)


def test_the_shape_of_a_value_on_a_device_is_that_of_an_array():
    value = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros((2, 3), "float32"))
    assert fed_shape(value) == fed_shape(np.zeros((2, 3))) == (2, 3)
    assert fed_shape(2.0) == ()
