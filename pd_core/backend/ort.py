"""ONNX Runtime: programs as bound sessions, persistent values double-buffered on the device."""

import ctypes
import os
import re
from functools import cache, partial
from weakref import WeakKeyDictionary, ref

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # the official wheels send it by default

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as errors

from ..graph.errors import BackendError, PlaceError
from .base import Graph
from .graph_optimizers import idle_optimizers
from .parts import parts
from .passes import CPU, CUDA
from .passes.blocked import block_of, probe
from .passes.device import for_device


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


@cache
def block_size() -> int:
    """How many channels stand side by side in the CPU's kernels for blocked images; 0 if none."""
    model, image = probe()
    try:
        (found,) = session(model).run(None, {"x": image})
    except (errors.NotImplemented, errors.InvalidGraph, errors.Fail):  # no such kernels
        return 0
    return block_of(found)


def _parts(graph, seam, device):
    """The stages of a graph, as models for a device."""
    passes, block = (CPU, block_size()) if device == "cpu" else (CUDA, 0)
    return parts(graph, seam, partial(for_device, passes=passes, block=block))


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

    def compile(self, graph, seam=()):
        return OrtProgram(graph, seam, self.device)

    def sites(self, graph, seam=()):
        """(name, line that built it) of the operators of each stage, in the order of a program."""
        return [list(part.sites.items()) for part in _parts(graph, seam, self.device)]


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


class OrtProgram:
    """A compiled graph: sessions for its stages, which any number of executables share.

    `seam` are values of the graph, in the order in which they are exchanged between two stages.
    """

    def __init__(self, graph: Graph, seam, device):
        self.device = device.partition(":")
        self.parts = _parts(graph, seam, device)
        self.sessions = []
        self.fetched = len(graph.fetches)
        self.seam = range(len(seam))  # slots
        self.sites = [list(part.sites.items()) for part in self.parts]
        for number, part in enumerate(self.parts):
            try:
                idle = idle_optimizers(part.op_types)
                model = part.model.SerializeToString()
                self.sessions.append(session(model, device, without=idle))
            except Exception as error:
                raise self.traced(error, number) from error
            part.model = None  # the session has a copy

    def bind(self, states, updated):
        """An executable on these persistent variables, as the graph's states and updates."""
        return OrtExecutable(self, states, updated)

    def traced(self, error, number):
        """The runtime's error of a stage, with the operator that failed and its line."""
        text, sites = str(error), self.sites[number]
        names = [name for name, _ in sites]
        for match in re.findall(r"[Nn]ame:\s?'([^']+)'|Node ?\(([^)]+)\)", text):
            name = match[0] or match[1]
            if name in names:
                place = names.index(name)
                return BackendError(text, name, sites[place][1], (number, place))
        return BackendError(text)


class OrtExecutable:
    """A program on the values of certain variables.

    Bindings are kept per set of buffers: two of them in steady training.
    """

    def __init__(self, program, states, updated):
        self.program = program
        self.states = [ref(v) for v in states]  # who evaluates it holds them
        self.updated = [ref(v) for v in updated]
        in_place = {k for part in program.parts if part.in_place for k, _ in part.updates}
        self.swapped = [k for k in range(len(updated)) if k not in in_place]
        self.bindings = [{} for _ in program.parts]
        self.buffers = None, (), {}

    def run(self, feeds, values, seed=None, exchange=None):
        """The fetches; new values become those of the updated variables in `values`.

        `exchange(arrays)` returns others in the place of the values at the seam.
        """
        states, updated = self._buffers(values)
        fetched, handed = [None] * self.program.fetched, {}
        for number, part in enumerate(self.program.parts):
            if part.exchanged and exchange is not None:
                self._exchange(handed, exchange)
            binding = self._binding(number, part, states, updated)
            for k, name in part.feeds:
                binding.bind_cpu_input(name, feeds[k])
            for k, name in part.given:
                binding.bind_ortvalue_input(name, handed[k])
            if part.seed is not None:
                binding.bind_cpu_input(part.seed, seed)
            self._bind_outputs(binding, part)
            try:
                self.program.sessions[number].run_with_iobinding(binding)
            except Exception as error:
                for k in self.swapped:
                    updated[k][1] = None  # it may be half written
                raise self.program.traced(error, number) from error
            out = iter(binding.get_outputs_as_ortvaluevector())  # fetches were bound first
            for k, _ in part.fetches:
                fetched[k] = next(out).numpy()
            for k, _ in part.hands:
                handed[k] = onnxruntime.OrtValue(next(out))
        for k in self.swapped:
            updated[k].reverse()
        return fetched

    def _exchange(self, handed, exchange):
        kind, _, number = self.program.device
        arrays = exchange([handed[k].numpy() for k in self.program.seam])
        for k, array in zip(self.program.seam, arrays, strict=True):
            handed[k] = onnxruntime.OrtValue.ortvalue_from_numpy(array, kind, int(number or 0))

    def _buffers(self, values):
        """The pairs of buffers of the states, and of what is updated, ready to be bound."""
        owner, states, updated = self.buffers
        if owner is not values or any(updated[k][1] is None for k in self.swapped):
            updated = {k: values.pair(self.updated[k]()) for k in self.swapped}
            states = [values.buffers[v()] for v in self.states]
            self.buffers = values, states, updated
        return states, updated

    def _bind_outputs(self, binding, part):
        """Fetches go to the host, what later stages are given stays on the device."""
        kind, _, number = self.program.device
        for _, name in part.fetches:
            binding.bind_output(name, "cpu")
        for _, name in part.hands:
            binding.bind_output(name, kind, int(number or 0))

    def _binding(self, number, part, states, updated):
        buffers = [states[k][0] for k, _ in part.states]
        targets = [self._target(part, k, updated) for k, _ in part.updates]
        key = tuple(map(id, buffers + targets))
        known = self.bindings[number].get(key)
        if known is None:
            if len(self.bindings[number]) >= 4:
                self.bindings[number].clear()
            binding = self.program.sessions[number].io_binding()
            self._bind_outputs(binding, part)
            for (_, name), value in zip(part.states, buffers, strict=True):
                binding.bind_ortvalue_input(name, value)
            for (_, name), value in zip(part.updates, targets, strict=True):
                binding.bind_ortvalue_output(name, value)
            # the buffers are held, so that their ids stay theirs
            known = self.bindings[number][key] = binding, (buffers, targets)
        return known[0]

    def _target(self, part, k, updated):
        """The buffer that an update writes; its own variable's if that is done in place."""
        if not part.in_place:
            return updated[k][1]
        return self.buffers[0].buffers[self.updated[k]()][0]
