"""Devices: the execution providers of ONNX Runtime that work here, and their hardware.

A name is that of the provider in lower case, without `ExecutionProvider`. Where a provider reports
its hardware, the kind follows, with a number from the second of a kind on: `openvino:cpu`,
`openvino:gpu`, `openvino:gpu:1`. CUDA's devices are all of a kind: `cuda:0`, `cuda:1`.
"""

import ctypes
import importlib
import os
import pkgutil
import warnings
from collections.abc import Mapping
from ctypes.util import find_library
from dataclasses import dataclass, field
from functools import cache
from threading import RLock
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from ..graph.errors import PlaceError
from .switches import is_on

_SUFFIX = "ExecutionProvider"
# Packages that bring a provider as a library, and say where it is in `get_library_path()`.
_PLUGIN_PREFIX, _PLUGINS = "onnxruntime_ep_", ("onnxruntime_qnn",)
# Without hardware of their own: the CPU is `cpu`, and Azure calls a server.
_LEFT_OUT = ("cpu", "azure")
# The option that selects the hardware of providers which are part of a wheel, and report none.
_SELECTORS = {"openvino": "device_type"}
# The library without which a provider of a wheel does not open, and ONNX Runtime prints an error.
_LIBRARIES = {"tensorrt": "nvinfer"}
# More options. OpenVINO and CUDA may compute in less precision than float32 otherwise. With one
# stream for all kernels and copies of CUDA none reads what another has not written yet.
_OPTIONS = {
    "cuda": {
        "cudnn_conv_algo_search": "HEURISTIC",
        "use_tf32": "0",
        "use_ep_level_unified_stream": "1",
    },
    "openvino": {"precision": "ACCURACY"},
}


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_lock = RLock()
_registered: list[str] = []  # libraries


@dataclass(frozen=True)
class Device:
    """A provider on some hardware.

    `memory` names where OrtValues of the device are: `cpu`, if ONNX Runtime cannot allocate on it.
    `hardware` is what ONNX Runtime reports for a provider that is a plugin, None for one that is
    part of the wheel, and `options` those of the provider. `records` is whether it can repeat the
    kernels of a run, see `recorded`.
    """

    name: str
    memory: str = "cpu"
    provider: str = ""
    hardware: Any = None
    options: Mapping[str, str] = field(default_factory=dict)
    records: bool = False

    def add_to(self, options: onnxruntime.SessionOptions, recorded: bool = False) -> list | None:
        """Choose the device in the options of a session; return the argument `providers`.

        Where `recorded`, the runtime records runs, or refuses to open the session.
        """
        if self.name == "cpu":
            return ["CPUExecutionProvider"]
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        if self.hardware is None:
            more = {"enable_cuda_graph": "1"} if recorded else {}
            return [(self.provider, {**self.options, **more}), "CPUExecutionProvider"]
        options.add_provider_for_devices([self.hardware], dict(self.options))
        return None


CPU = Device("cpu")


def devices() -> list[str]:
    """Return the available devices: `cpu`, `cuda:0`, … where CUDA works, and other providers'.

    These are the execution providers of ONNX Runtime that can be used here, such as `openvino` or
    `webgpu:gpu`: those of the installed wheel, of packages called `onnxruntime_ep_…`, and of
    `register_devices`. UserWarning for a package whose library cannot be loaded.
    """
    return list(all_devices())


def device(name: str) -> Device:
    """Return the device of a name; a provider alone is its first device. PlaceError if none."""
    if name == "cpu":
        return CPU
    if isinstance(name, str):
        cuda = _cuda_devices()
        found = cuda.get("cuda:0" if name == "cuda" else name) or _found(name, all_devices())
        if found is not None:
            return found
    raise PlaceError(f"there is no device {name!r} here; there is {', '.join(all_devices())}")


def register_devices(library_path: str | os.PathLike) -> list[str]:
    """Load a library with an execution provider; return the names of its devices here.

    It is a shared library that implements ONNX Runtime's plugin interface. A library that has none
    of the hardware it is for adds no device; one that cannot be loaded is a PlaceError.

    Args:
        library_path: a shared library.

    Returns:
        Names of devices.

    Raises:
        PlaceError: the library cannot be loaded.
    """
    path = os.path.abspath(os.fspath(library_path))
    with _lock:
        before = set(all_devices())
        _register(path)
        all_devices.cache_clear()
        return [name for name in all_devices() if name not in before]


def cuda_devices() -> list[str]:
    """Return the devices of CUDA: `cuda:0`, …"""
    return list(_cuda_devices())


def _found(name, there):
    """The device of a name, or the first of a provider's name; None without one."""
    if name in there:
        return there[name]
    provider, _, kind = name.partition(":")
    named = [d for key, d in there.items() if key.partition(":")[0] == provider]
    if not named:
        return None
    if not kind:
        return named[0]
    if named[0].hardware is None and provider in _SELECTORS:
        first = named[0]
        options = {**first.options, _SELECTORS[provider]: kind.upper()}
        return Device(name, first.memory, first.provider, None, options)
    return None


@cache
def _cuda_devices():
    """The devices of a wheel with CUDA, by the driver; loads its libraries if there is one."""
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return {}
    try:
        driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(0)
    except OSError:
        return {}
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return {}
    onnxruntime.preload_dlls()
    onnxruntime.set_default_logger_severity(3)  # a warning for each session, that says nothing
    names = [f"cuda:{k}" for k in range(count.value)]
    return {
        name: Device(
            name,
            name,
            "CUDAExecutionProvider",
            options={"device_id": str(k), **_OPTIONS["cuda"]},
            records=is_on("PD_CUDA_GRAPHS"),
        )
        for k, name in enumerate(names)
    }


@cache
def all_devices() -> dict[str, Device]:
    """Return {name: Device} of what is here; loads the libraries of packages."""
    with _lock:
        _register_packages()
        there = {"cpu": CPU, **_cuda_devices()}
        there.update(_plugin_devices(onnxruntime.get_ep_devices(), {_key(n) for n in there}))
        reported = {_key(name) for name in there} | {"cuda", *_LEFT_OUT}
        for provider in onnxruntime.get_available_providers():
            name = _name(provider)
            needed = _LIBRARIES.get(name)
            if name in reported or (needed and not find_library(needed)):
                continue
            options = _OPTIONS.get(name, {})
            if _opens(provider, options):
                there[name] = Device(name, _memory(name, 0), provider, None, options)
        return there


def _plugin_devices(reported, known):
    """The devices that ONNX Runtime reports, of other providers than the known ones."""
    there: dict[str, Device] = {}
    counts: dict[str, int] = {}
    for hardware in reported:
        provider = _name(hardware.ep_name)
        if provider in known or provider in _LEFT_OUT:
            continue
        base = "cuda" if provider == "cuda" else f"{provider}:{hardware.device.type.name.lower()}"
        number = counts[base] = counts.get(base, -1) + 1
        name = f"{base}:{number}" if number or provider == "cuda" else base
        info = hardware.memory_info(onnxruntime.OrtDeviceMemoryType.DEFAULT)
        memory = "cpu" if info is None else _memory(provider, info.device_id)
        options = _OPTIONS["cuda"] if provider == "cuda" else {}
        there[name] = Device(name, memory, hardware.ep_name, hardware, options)
    return there


def _name(provider):
    return provider.replace(_SUFFIX, "").lower()


def _key(name):
    return name.partition(":")[0]


def _memory(provider, number):
    """The name of a device's memory; `cpu` if OrtValues cannot be allocated by that name."""
    try:
        onnxruntime.OrtValue.ortvalue_from_shape_and_type([1], np.float32, provider, number)
    except Exception:  # of several types, for an unknown name and for a missing allocator
        return "cpu"
    return f"{provider}:{number}"


def _opens(provider, options):
    """Whether a session of a provider of the wheel opens: its own libraries may be missing."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    chosen = [(provider, dict(options)), "CPUExecutionProvider"]
    try:
        session = onnxruntime.InferenceSession(
            _identity(), settings, providers=chosen, enable_fallback=0
        )
    except Exception:  # the provider's own types
        return False
    return provider in session.get_providers()


def _identity():
    """The model x -> x of a vector."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "identity", [x], [y])
    opset = helper.make_opsetid("", 18)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()


def _register(path):
    """Load a library once; PlaceError if it cannot be."""
    if path in _registered:
        return
    try:
        onnxruntime.register_execution_provider_library(path, path)
    except Exception as error:  # RuntimeError and the runtime's own types
        raise PlaceError(f"register_devices: {path} cannot be loaded: {error}") from error
    _registered.append(path)


def _register_packages():
    """Load the libraries of installed packages."""
    for module in pkgutil.iter_modules():
        if not (module.name.startswith(_PLUGIN_PREFIX) or module.name in _PLUGINS):
            continue
        try:
            _register(importlib.import_module(module.name).get_library_path())
        except (AttributeError, ImportError, OSError, RuntimeError) as error:
            warnings.warn(f"the devices of {module.name} are left out: {error}", stacklevel=4)
