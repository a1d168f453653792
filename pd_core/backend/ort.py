"""ONNX Runtime: programs as bound sessions, persistent values double-buffered on the device."""

import ctypes
import os
import re
from dataclasses import replace
from functools import cache
from weakref import WeakKeyDictionary, ref

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # the official wheels send it by default

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as errors

from ..graph.errors import BackendError, PlaceError
from ..graph.site import site_text
from .base import Graph
from .graph_optimizers import idle_optimizers
from .lowering import lower
from .passes.blocked import block_of, probe
from .passes.cpu import for_cpu
from .row_writes import split


def _cores():
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def devices() -> list[str]:
    """Devices that can be asked for: `cpu`, and `cuda:0`, … where CUDA works."""
    return ["cpu", *(f"cuda:{k}" for k in range(_cuda_devices()))]


def _cuda_devices():
    """How many, by the driver; its libraries are loaded only where there is one."""
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return 0
    try:
        driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(0)
    except OSError:
        return 0
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return 0
    onnxruntime.preload_dlls()
    return count.value


def _providers(device):
    if device == "cpu":
        return ["CPUExecutionProvider"]
    number = int(device.partition(":")[2] or 0)
    options = {"device_id": number, "cudnn_conv_algo_search": "HEURISTIC", "use_tf32": "0"}
    return [("CUDAExecutionProvider", options), "CPUExecutionProvider"]


def session(model_bytes, device="cpu", optimize=True, without=()):
    """An inference session with our options, without some of the graph optimizers.

    Each has threads of its own: ORT 1.31 refuses every session with default options in a process
    that has set up one pool for all. A pool stops spinning when a run ends, so that programs which
    take turns do not fight for cores.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _cores()
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.log_severity_level = 3
    # The search for a buffer to share compares with every freed one: quadratic in the operators,
    # most of the start of a program of thousands. The plan of a run's memory shares them as well.
    options.enable_mem_reuse = False
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        model_bytes, options, providers=_providers(device), disabled_optimizers=list(without)
    )


def _session_of(lowered, device):
    """The session of a program of ours."""
    idle = idle_optimizers(lowered.op_types)
    return session(lowered.model.SerializeToString(), device, without=idle)


@cache
def block_size() -> int:
    """How many channels stand side by side in the CPU's kernels for blocked images; 0 if none."""
    model, image = probe()
    try:
        (found,) = session(model).run(None, {"x": image})
    except (errors.NotImplemented, errors.InvalidGraph, errors.Fail):  # no such kernels
        return 0
    return block_of(found)


class OrtBackend:
    """ONNX Runtime on one device."""

    def __init__(self, device="cpu"):
        if device == "cuda":
            device = "cuda:0"
        if device != "cpu" and device not in devices():
            raise PlaceError(f"there is no device {device!r} here; there is {', '.join(devices())}")
        self.device = device

    def values(self):
        return OrtValues(self.device)

    def compile(self, graph):
        return OrtExecutable(graph, self.device)


class OrtValues:
    """Device values of persistent variables: what is current, and the buffer of the next step."""

    def __init__(self, device):
        self.kind, _, number = device.partition(":")
        self.number = int(number or 0)
        # variable -> [its value, the buffer that the next step writes, the value before until
        # then]: one list as long as there is the variable
        self.buffers = WeakKeyDictionary()

    def __contains__(self, variable):
        return variable in self.buffers and self.buffers[variable][0] is not None

    def variables(self):
        return [v for v in self.buffers if v in self]

    def set(self, variable, array, copy=True):
        """Store an array of the variable's shape and dtype; without a copy it is given away."""
        if copy or array.dtype != variable.dtype or not array.flags.carray:
            array = np.array(array, variable.dtype, order="C")
        array = array.reshape(variable.dims)
        value = onnxruntime.OrtValue.ortvalue_from_numpy(array, self.kind, self.number)
        self.buffers.setdefault(variable, [None, None])[:] = value, None

    def numpy(self, variable):
        """A copy on the host."""
        return np.array(self.buffers[variable][0].numpy())

    def before(self, variable):
        """A copy of the value before the last step that wrote it; None if it is not kept."""
        spent = self.buffers.get(variable, (None, None))[1]
        return None if spent is None else np.array(spent.numpy())

    def pair(self, variable):
        """The two buffers of a variable, the second of which exists once it has been asked for."""
        pair = self.buffers.setdefault(variable, [None, None])
        if pair[1] is None:
            pair[1] = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                variable.dims, variable.dtype, self.kind, self.number
            )
        return pair


class OrtExecutable:
    """A compiled program. Bindings are kept per set of buffers: two of them in steady training."""

    def __init__(self, graph: Graph, device):
        step, writes = split(graph)
        handed = () if writes is None else writes.given
        self.fetched = len(graph.fetches)
        step = replace(step, fetches=(*graph.fetches, *handed))
        lowered = lower(for_cpu(step, block_size()) if device == "cpu" else step)
        self.sites = lowered.sites
        self.feed_names = [lowered.names[v] for v in graph.feeds]
        self.state_names = [lowered.names[v] for v in graph.states]
        self.seed_name = None if graph.seed is None else lowered.names[graph.seed]
        count = self.fetched + len(handed)
        self.fetch_names, self.update_names = lowered.outputs[:count], lowered.outputs[count:]
        self.states = [ref(v) for v in graph.states]  # who evaluates it holds them
        self.updated = [ref(v) for v, _ in step.updates]
        self.device = device.partition(":")
        try:
            self.session = _session_of(lowered, device)
        except Exception as error:
            raise self._traced(error) from error
        self.bindings = {}
        self.pairs = None, (), ()
        self.writer = None if writes is None else RowWriter(writes, device)

    def run(self, feeds, values, seed=None):
        states, updated = self._pairs(values)
        binding = self._binding([p[0] for p in states], [p[1] for p in updated])
        for name, array in zip(self.feed_names, feeds, strict=True):
            binding.bind_cpu_input(name, array)
        if seed is not None:
            binding.bind_cpu_input(self.seed_name, seed)
        self._bind_fetches(binding)
        try:
            self.session.run_with_iobinding(binding)
        except Exception as error:
            for pair in updated:
                pair[1] = None  # it may be half written
            raise self._traced(error) from error
        out = binding.get_outputs_as_ortvaluevector()  # fetches were bound first
        if self.writer is not None:
            given = range(self.fetched, len(self.fetch_names))
            self.writer.run([out[k] for k in given], values)
        for pair in updated:
            pair.reverse()
        return [out[k].numpy() for k in range(self.fetched)]

    def _pairs(self, values):
        """The pairs of buffers of the states and of what is updated, ready to be bound."""
        owner, states, updated = self.pairs
        if owner is not values or any(p[1] is None for p in updated):
            updated = [values.pair(v()) for v in self.updated]
            states = [values.buffers[v()] for v in self.states]
            self.pairs = values, states, updated
        return states, updated

    def _bind_fetches(self, binding):
        """Fetches go to the host, what the row writes are given stays on the device."""
        kind, _, number = self.device
        for name in self.fetch_names[: self.fetched]:
            binding.bind_output(name, "cpu")
        for name in self.fetch_names[self.fetched :]:
            binding.bind_output(name, kind, int(number or 0))

    def _binding(self, buffers, targets):
        key = tuple(map(id, buffers + targets))
        found = self.bindings.get(key)
        if found is None:
            if len(self.bindings) >= 4:
                self.bindings.clear()
            binding = self.session.io_binding()
            self._bind_fetches(binding)
            for name, value in zip(self.state_names, buffers, strict=True):
                binding.bind_ortvalue_input(name, value)
            for name, value in zip(self.update_names, targets, strict=True):
                binding.bind_ortvalue_output(name, value)
            found = self.bindings[key] = binding, (buffers, targets)  # held: ids stay theirs
        return found[0]

    def _traced(self, error):
        """The runtime's error with the line that built the node."""
        text = str(error)
        for names in re.findall(r"[Nn]ame:\s?'([^']+)'|Node ?\(([^)]+)\)", text):
            name = names[0] or names[1]
            if self.sites.get(name):
                where = site_text(self.sites[name])
                return BackendError(f"{text}\n  node   {name}, built at {where}")
        return BackendError(text)


class RowWriter:
    """Row writes, each bound onto the buffer of its own table: ScatterND then copies no table."""

    def __init__(self, writes, device):
        lowered = lower(writes.graph)
        self.tables = [ref(v) for v in writes.tables]
        self.given = [lowered.names[v] for v in writes.graph.feeds]
        self.inputs, self.outputs = [lowered.names[v] for v in writes.tables], lowered.outputs
        self.session = _session_of(lowered, device)

    def run(self, given, values):
        """Write what the step has computed, in place."""
        binding = self.session.io_binding()
        for name, value in zip(self.given, given, strict=True):
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue(value))
        for v, name, output in zip(self.tables, self.inputs, self.outputs, strict=True):
            buffer = values.buffers[v()][0]
            binding.bind_ortvalue_input(name, buffer)
            binding.bind_ortvalue_output(output, buffer)
        self.session.run_with_iobinding(binding)
