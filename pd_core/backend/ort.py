"""ONNX Runtime: programs as bound sessions, persistent values double-buffered on the device."""

import ctypes
import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # the official wheels send it by default

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as errors

from ..graph.errors import BackendError, PlaceError
from ..graph.site import Site
from ..graph.variable import Variable, static
from .base import NO_SEAM, Graph, Seam, SeamExchange
from .graph_optimizers import idle_optimizers
from .over_ranks import sum_over_ranks
from .parts import parts
from .passes import CPU, CUDA
from .passes.blocked import block_size_of, probe
from .passes.device import for_device
from .positions import positions


def _cores():
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def devices() -> list[str]:
    """Return the available devices: `cpu`, and `cuda:0`, … where CUDA works."""
    return ["cpu", *(f"cuda:{k}" for k in range(_cuda_devices()))]


def _cuda_devices():
    """The number of CUDA devices by the driver; loads CUDA's libraries if there is one."""
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


def session(
    model: bytes,
    device: str = "cpu",
    optimize: bool = True,
    without: Iterable[str] = (),
    profile: str = "",
) -> onnxruntime.InferenceSession:
    """Return an inference session with our options, without some of the graph optimizers.

    With `profile` it writes the times of its kernels to a file whose path begins like that.
    Each has threads of its own: ORT 1.31 refuses every session with default options in a process
    that has set up one pool for all. A pool stops spinning when a run ends, so that programs which
    take turns do not fight for cores.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _cores()
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.log_severity_level = 3
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    # The search for a buffer to share compares with every freed one: quadratic in the operators,
    # most of the start of a program of thousands. The plan of a run's memory shares them as well.
    options.enable_mem_reuse = False
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        model, options, providers=_providers(device), disabled_optimizers=list(without)
    )


@cache
def block_size() -> int:
    """Return the channels per block of the CPU's kernels for blocked images; 0 without them."""
    model, image = probe()
    try:
        (output,) = session(model).run(None, {"x": image})
    except (errors.NotImplemented, errors.InvalidGraph, errors.Fail):  # no such kernels
        return 0
    return block_size_of(output)


def _parts(graph, seam, device):
    """The stages of a graph, as models for a device."""
    passes, block = (CPU, block_size()) if device == "cpu" else (CUDA, 0)
    return parts(graph, seam, partial(for_device, passes=passes, block=block))


class OrtBackend:
    """ONNX Runtime on one device.

    With `exact_convolutions` none is computed by Winograd's filtering, which rounds more.
    """

    def __init__(self, device: str = "cpu", exact_convolutions: bool = False):
        if device == "cuda":
            device = "cuda:0"
        if device != "cpu" and device not in devices():
            raise PlaceError(f"there is no device {device!r} here; there is {', '.join(devices())}")
        self.device = device
        self.layouts = (positions,) if device == "cpu" and not exact_convolutions else ()

    def values(self) -> "OrtValues":
        """Return an empty set of values on the device."""
        return OrtValues(self.device)

    def compile(
        self,
        graph: Graph,
        seam: Seam = NO_SEAM,
        open_session: Callable[..., Any] = session,
    ) -> "OrtProgram":
        """Return sessions for the stages of a graph, divided after the values `seam`.

        `open_session` takes arguments of `session`, and returns what runs the stage.
        """
        return OrtProgram(graph, seam, self.device, open_session)

    def sites(self, graph: Graph, seam: Seam = NO_SEAM) -> list[list[tuple[str, Site | None]]]:
        """Return (name, line that built it) of each operator of each stage, in program order."""
        return [list(part.sites.items()) for part in _parts(graph, seam, self.device)]


class OrtValues:
    """Device values of persistent variables: the current one, and the buffer of the next step."""

    def __init__(self, device: str):
        self.kind, _, number = device.partition(":")
        self.number = int(number or 0)
        # {variable: [its value, the buffer that the next step writes]}; until that step the buffer
        # holds the previous value. A variable keeps its list: programs hold it between runs.
        self.buffers: WeakKeyDictionary[Variable, list[Any]] = WeakKeyDictionary()

    def __contains__(self, variable: Variable) -> bool:
        return variable in self.buffers and self.buffers[variable][0] is not None

    def variables(self) -> list[Variable]:
        """Return the variables that have a value."""
        return [v for v in self.buffers if v in self]

    def set(self, variable: Variable, array: np.ndarray, copy: bool = True) -> None:
        """Store an array of the variable's shape and dtype; without a copy it may be the value."""
        if copy or array.dtype != variable.dtype or not array.flags.carray:
            array = np.array(array, variable.dtype, order="C")
        array = array.reshape(static(variable.dims))
        value = onnxruntime.OrtValue.ortvalue_from_numpy(array, self.kind, self.number)
        self.buffers.setdefault(variable, [None, None])[:] = value, None

    def numpy(self, variable: Variable) -> np.ndarray:
        """Return a copy of the value on the host."""
        return np.array(self.buffers[variable][0].numpy())

    def before(self, variable: Variable) -> np.ndarray | None:
        """Return a copy of the value before the last step that wrote it; None if it is not kept."""
        _, previous = self.buffers.get(variable, (None, None))
        return None if previous is None else np.array(previous.numpy())

    def release(self, variable: Variable) -> Any:
        """Return the value before the last step, and let go of it: no later step writes to it."""
        pair = self.buffers[variable]
        previous, pair[1] = pair[1], None
        return previous.numpy() if previous is not None and self.kind == "cpu" else previous

    def pair(self, variable: Variable) -> list[Any]:
        """Return the two buffers of a variable; the second is allocated on the first call."""
        pair = self.buffers.setdefault(variable, [None, None])
        if pair[1] is None:
            pair[1] = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                variable.dims, variable.dtype, self.kind, self.number
            )
        return pair


class OrtProgram:
    """A compiled graph: sessions for its stages, shared by any number of executables.

    `seam` are values of the graph, in the order in which they are exchanged between two stages.
    """

    def __init__(
        self,
        graph: Graph,
        seam: Seam,
        device: str,
        open_session: Callable[..., Any] = session,
    ):
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
                self.sessions.append(open_session(model, device, without=idle))
            except Exception as error:
                raise self.traced(error, number) from error
            del part.model  # the session has a copy

    def bind(self, states: Sequence[Variable], updated: Sequence[Variable]) -> "OrtExecutable":
        """Return an executable on these variables, in the order of the graph's states, updates."""
        return OrtExecutable(self, states, updated)

    def traced(self, error: Exception, number: int) -> BackendError:
        """Return the runtime's error of a stage with the operator that failed and its line."""
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

    def __init__(
        self, program: OrtProgram, states: Sequence[Variable], updated: Sequence[Variable]
    ):
        self.program = program
        # references to Variables, which the targets keep alive
        self.states: list[Any] = [ref(v) for v in states]
        self.updated: list[Any] = [ref(v) for v in updated]
        in_place = {k for part in program.parts if part.in_place for k, _ in part.updates}
        self.swapped = [k for k in range(len(updated)) if k not in in_place]
        self.bindings: list[dict[tuple[int, ...], tuple]] = [{} for _ in program.parts]
        # OrtValues (None at first), and the buffers of the states and of the updates in them
        self.buffers: tuple[Any, list, dict[int, list]] = None, [], {}

    def run(
        self,
        feeds: list[np.ndarray],
        values: OrtValues,
        seed: np.ndarray | None = None,
        exchange: SeamExchange | None = None,
        keep: bool = False,
    ) -> list[Any]:
        """Return the fetches, and store new values of the updated variables in `values`.

        `exchange` replaces the values at the seam. With `keep` the fetches
        stay on the device: OrtValues, or arrays on a CPU. Both may be fed.
        """
        keep = keep and self.program.device[0] != "cpu"
        states, updated = self._buffers(values)
        fetched: list[Any] = [None] * self.program.fetched
        handed: dict[int, Any] = {}
        for number, part in enumerate(self.program.parts):
            if part.exchanged and exchange is not None:
                self._replace(handed, self.program.seam, exchange)
            elif part.summed:
                self._replace(handed, part.summed, sum_over_ranks)
            elif part.divided and exchange is not None:
                exchange.start({k: handed[k].numpy() for k in self.program.seam if k in handed})
            binding = self._binding(number, part, states, updated)
            for k, name in part.feeds:
                if isinstance(feeds[k], np.ndarray):
                    binding.bind_cpu_input(name, feeds[k])
                else:
                    binding.bind_ortvalue_input(name, feeds[k])
            for k, name in part.given:
                binding.bind_ortvalue_input(name, handed[k])
            if part.seed is not None:
                binding.bind_cpu_input(part.seed, seed)
            self._bind_outputs(binding, part, keep)
            try:
                self.program.sessions[number].run_with_iobinding(binding)
            except Exception as error:
                for k in self.swapped:
                    updated[k][1] = None  # it may be half written
                raise self.program.traced(error, number) from error
            out = iter(binding.get_outputs_as_ortvaluevector())  # fetches were bound first
            for k, _ in part.fetches:
                value = next(out)
                fetched[k] = onnxruntime.OrtValue(value) if keep else value.numpy()
            for k, _ in part.hands:
                handed[k] = onnxruntime.OrtValue(next(out))
        for k in self.swapped:
            updated[k].reverse()
        return fetched

    def _replace(self, handed, slots, function):
        """Replace the values in these slots by what a function makes of them on the host."""
        kind, _, number = self.program.device
        arrays = function([handed[k].numpy() for k in slots])
        for k, array in zip(slots, arrays, strict=True):
            handed[k] = onnxruntime.OrtValue.ortvalue_from_numpy(array, kind, int(number or 0))

    def _buffers(self, values):
        """The pairs of buffers of the states and of the updates, ready to be bound."""
        owner, states, updated = self.buffers
        if owner is not values or any(updated[k][1] is None for k in self.swapped):
            updated = {k: values.pair(self.updated[k]()) for k in self.swapped}
            states = [values.buffers[v()] for v in self.states]
            self.buffers = values, states, updated
        return states, updated

    def _bind_outputs(self, binding, part, keep):
        """Bind fetches to the host or device, and values for later stages to the device."""
        kind, _, number = self.program.device
        place = (kind, int(number or 0)) if keep else ("cpu",)
        for _, name in part.fetches:
            binding.bind_output(name, *place)
        for _, name in part.hands:
            binding.bind_output(name, kind, int(number or 0))

    def _binding(self, number, part, states, updated):
        buffers = [states[k][0] for k, _ in part.states]
        targets = [self._target(part, k, updated) for k, _ in part.updates]
        key = tuple(map(id, buffers + targets))
        cached = self.bindings[number].get(key)
        if cached is None:
            if len(self.bindings[number]) >= 4:
                self.bindings[number].clear()
            binding = self.program.sessions[number].io_binding()
            self._bind_outputs(binding, part, keep=False)  # they come before the updates
            for (_, name), value in zip(part.states, buffers, strict=True):
                binding.bind_ortvalue_input(name, value)
            for (_, name), value in zip(part.updates, targets, strict=True):
                binding.bind_ortvalue_output(name, value)
            # the buffers are held too, so that no other gets the id of one
            cached = self.bindings[number][key] = binding, (buffers, targets)
        return cached[0]

    def _target(self, part, k, updated):
        """The buffer that an update writes; in place, the one of its variable's value."""
        if not part.in_place:
            return updated[k][1]
        return self.buffers[0].buffers[self.updated[k]()][0]
