"""ONNX Runtime: programs as bound sessions, persistent values double-buffered on the device."""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cache, partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as errors

from ..graph.errors import BackendError, CompilerError, DTypeError
from ..graph.site import Site, site_text
from ..graph.variable import Dim, Variable, size_reads, static
from .any_sizes import AnySizes
from .base import NO_SEAM, Graph, Seam, SeamExchange
from .bound import Bound
from .devices import cores
from .devices import device as find_device
from .fallbacks import count_fallbacks
from .forks import not_ended_by_forks
from .fused import onednn
from .fused.onednn.channels_last import channels_last, channels_last_exactly
from .fused.program import failed_member, fuse
from .graph_optimizers import unwanted_optimizers
from .layout import position_major
from .mismatches import in_words
from .ort_arrays import array_of, empty_value, is_bfloat16, ort_value, overwrite
from .over_ranks import sum_over_ranks
from .passes import (
    CPU,
    CPU_GRADIENTS,
    CPU_KERNELS,
    CUDA,
    FORMULAS,
    blocked,
    portable,
    scaled_sums,
)
from .passes.context import Context, Pass, each_node
from .passes.device import for_device
from .passes.forms import NO_KERNELS, kernels
from .recorded import Recorder, may_be_recorded
from .stage_models import stage_models
from .switches import is_on

_LARGE = 32 << 20  # bytes of all values from which a program's memory is not planned


def session(
    model: bytes,
    device: str = "cpu",
    optimize: bool = True,
    without: Iterable[str] = (),
    profile: str = "",
    plan: bool = True,
    libraries: Iterable[Path] = (),
    recorded: bool = False,
    sizes: Mapping[str, int] | None = None,
) -> onnxruntime.InferenceSession:
    """Return an inference session with our options, without some of the graph optimizers.

    With `profile` it writes the times of its kernels to a file whose path begins like that. With
    `plan` it takes the memory of a run as one block once it knows the sizes of all values, beside
    what the first run took: faster for many small values, and up to twice the memory. `libraries`
    have custom operators; they are loaded as long as the session is there. Where `recorded`, runs
    are, see `recorded.py`. `sizes` are those of the inputs by name that are constants then.
    Each has threads of its own: ORT 1.31 refuses every session with default options in a process
    that has set up one pool for all. A pool stops spinning when a run ends, so that programs which
    take turns do not fight for cores.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores()
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.log_severity_level = 4  # errors are raised, and explained there
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    # The search for a buffer to share compares with every freed one: quadratic in the operators,
    # most of the start of a program of thousands. The plan of a run's memory shares them as well.
    options.enable_mem_reuse = False
    # Not on a device: a value that is copied from or to it is in use after the run has gone on.
    options.enable_mem_pattern = plan and device == "cpu"
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    for library in libraries:
        options.register_custom_ops_library(str(library))
    found = find_device(device)
    for name, size in (sizes or {}).items():
        options.add_free_dimension_override_by_name(name, size)
    providers = found.add_to(options, recorded)
    # a provider that fails is an error, and not a reason to take the CPU
    opened = not_ended_by_forks(
        onnxruntime.InferenceSession(
            model, options, providers, disabled_optimizers=list(without), enable_fallback=0
        )
    )
    if found.provider and found.provider not in opened.get_providers():
        raise RuntimeError(f"ONNX Runtime could not load {found.provider} for {device!r}")
    if not recorded:  # else it is a program that has been counted
        count_fallbacks(device, opened)
    return opened


@cache
def block_size() -> int:
    """Return the channels per block of the CPU's kernels for blocked images; 0 without them."""
    output = _probed(*blocked.probe())
    return 0 if output is None else blocked.block_size_of(output)


@cache
def contributed() -> frozenset[str]:
    """Return those of the operators outside ONNX that passes use, and that the CPU has."""
    output = _probed(*scaled_sums.probe())
    return frozenset() if output is None else frozenset([scaled_sums.KERNEL])


def _probed(model, x):
    """The output of a model with one operator; None if the runtime does not have it."""
    try:
        return session(model).run(None, {"x": x})[0]
    except (errors.NotImplemented, errors.InvalidGraph, errors.Fail):
        return None


def _prepare(device, with_formulas=False):
    """The function from a graph to the same with the operators of a device.

    On another device than a CPU operators may have a kernel that the CPU has not. `with_formulas`
    those that the CPU has none for are computed by others.
    """
    if device == "cpu":
        return partial(for_device, passes=CPU, block=block_size(), contributed=contributed())
    return partial(for_device, passes=(*CUDA, *FORMULAS) if with_formulas else CUDA)


def _parts(graph, seam, device, fused, with_formulas=False):
    """The stages of a graph, as models for a device."""
    prepare = _prepare(device, with_formulas)
    return stage_models(graph, seam, prepare, writes_wait=fused)


# What ONNX Runtime says of an operator that neither the device nor a CPU has a kernel for.
_NO_KERNEL = "Provider type for"
_PORTABLE = each_node(portable.LOWERINGS)


def _portable_forms(targets: Sequence[Variable], context: Context) -> list[Variable]:
    """Replace what WebGPU has no kernels for: the layout of its programs."""
    return _PORTABLE(targets, context)


class OrtBackend:
    """ONNX Runtime on one device.

    With `exact_convolutions` none is computed by Winograd's filtering, which rounds more; None
    stands for the environment variable PD_EXACT_CONVOLUTIONS. `fused` programs of a CPU have
    kernels that are compiled for them.
    """

    def __init__(
        self, device: str = "cpu", exact_convolutions: bool | None = None, fused: bool = False
    ):
        if exact_convolutions is None:
            exact_convolutions = is_on("PD_EXACT_CONVOLUTIONS")
        found = find_device(device)
        self.device, self.memory = found.name, found.memory
        chosen: tuple[Pass, ...] = () if exact_convolutions else (position_major,)
        if fused and onednn.active():
            chosen = (channels_last_exactly if exact_convolutions else channels_last,)
        self.layouts: tuple[Pass, ...] = (*CPU_KERNELS, *chosen, *CPU_GRADIENTS)
        if self.device != "cpu":
            self.layouts = (_portable_forms,) if self.device.startswith("webgpu") else ()
        self.kernels = kernels(fused) if self.device == "cpu" else NO_KERNELS
        self.can_fuse = self.device == "cpu"
        self.can_resize = self.can_fuse and not fused
        self.fused = fused and self.can_fuse

    def values(self) -> "OrtValues":
        """Return an empty set of values on the device."""
        return OrtValues(self.memory)

    def prepared(self, graph: Graph) -> Graph:
        """Return the same program with the operators that are fast on the device."""
        return _prepare(self.device)(graph)

    def compile(
        self,
        graph: Graph,
        seam: Seam = NO_SEAM,
        open_session: Callable[..., Any] = session,
    ) -> "OrtProgram":
        """Return sessions for the stages of a graph, divided after the values `seam`.

        `open_session` takes arguments of `session`, and returns what runs the stage.
        """
        return OrtProgram(graph, seam, self.device, open_session, self.fused)

    def sites(self, graph: Graph, seam: Seam = NO_SEAM) -> list[list[tuple[str, Site | None]]]:
        """Return (name, line that built it) of each operator of each stage, in program order."""
        return [list(part.sites.items()) for part in _parts(graph, seam, self.device, self.fused)]


class _Memory:
    """A reference from an array to the OrtValue whose memory it is.

    The array that `OrtValue.numpy()` returns is no more valid without an OrtValue that was made of
    an array: the memory is that array's, which the OrtValue alone refers to.
    """

    def __init__(self, value: Any) -> None:
        self.value, self.__array_interface__ = value, value.numpy().__array_interface__


class OrtValues:
    """Device values of persistent variables: the current one, and the buffer of the next step.

    `memory` is where they are: that of the device, or of the CPU if the device has no allocator.
    """

    def __init__(self, memory: str):
        self.kind, _, number = memory.partition(":")
        self.number = int(number or 0)
        # {variable: [its value, the buffer that the next step writes]}; until that step the buffer
        # holds the previous value. A variable keeps its list: programs hold it between runs.
        self.buffers: WeakKeyDictionary[Variable, list[Any]] = WeakKeyDictionary()
        # those whose second buffer does not hold the value before the last step
        self.overwritten: WeakSet[Variable] = WeakSet()
        self.stamp = object()  # another one after each change of a buffer

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
        if variable.storage.setting is not None and variable in self:
            overwrite(self.buffers[variable][0], array)  # programs stay bound to it
            return
        value = ort_value(array, self.kind, self.number)
        self.buffers.setdefault(variable, [None, None])[:] = value, None
        self.stamp = object()

    def numpy(self, variable: Variable) -> np.ndarray:
        """Return a copy of the value on the host."""
        return np.array(self.view(variable))

    def view(self, variable: Variable) -> np.ndarray:
        """Return the value to be read until the next step, without a copy if it is on the host."""
        return array_of(self.buffers[variable][0])

    def before(self, variable: Variable) -> np.ndarray | None:
        """Return a copy of the value before the last step that wrote it; None if it is not kept."""
        _, previous = self.kept(variable)
        return None if previous is None else np.array(array_of(previous))

    def release(self, variable: Variable) -> Any:
        """Return the value before the last step, and let go of it: no later step writes to it."""
        pair = self.buffers[variable]
        previous, pair[1] = pair[1], None
        self.stamp = object()
        if previous is None or self.kind != "cpu":
            return previous
        if is_bfloat16(variable.dtype):
            return array_of(previous)
        return np.asarray(_Memory(previous))

    def kept(self, variable: Variable) -> tuple[Any, ...]:
        """Return what is stored of a variable, for `put_back` once `set` has replaced it."""
        value, previous = self.buffers.get(variable, (None, None))
        return value, None if variable in self.overwritten else previous

    def put_back(self, variable: Variable, kept: tuple[Any, ...] | None) -> None:
        """Store again what `kept` returned; None for no value."""
        self.buffers.setdefault(variable, [None, None])[:] = kept or (None, None)
        self.stamp = object()

    def note(
        self, swapped: Sequence[int], written: Sequence[int], variables: Sequence[Any]
    ) -> None:
        """Note that a step has written new values into other memory, or over those before.

        Both are places in `variables`, which are references.
        """
        if self.overwritten:
            self.overwritten.difference_update([variables[k]() for k in swapped])
        fresh = {variables[k]() for k in written}.difference(self.overwritten)
        if fresh:
            self.overwritten.update(fresh)
            self.stamp = object()  # for others to note that they keep them

    def pair(self, variable: Variable) -> list[Any]:
        """Return the two buffers of a variable; the second is allocated on the first call."""
        pair = self.buffers.setdefault(variable, [None, None])
        if pair[1] is None:
            self.stamp = object()
            pair[1] = empty_value(variable.dims, variable.dtype, self.kind, self.number)
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
        fused: bool = False,
    ):
        self.device = find_device(device).memory.partition(":")
        self.fetched = len(graph.fetches)
        self.seam = range(len(seam))  # slots
        try:
            self._open(graph, _parts(graph, seam, device, fused), device, open_session, fused)
        except BackendError as error:
            if device == "cpu" or _NO_KERNEL not in str(error):
                raise
            parts = _parts(graph, seam, device, fused, with_formulas=True)
            self._open(graph, parts, device, open_session, fused)

    def _open(self, graph, parts, device, open_session, fused):
        """Open sessions for the stages."""
        self.parts, self.sites = parts, [list(part.sites.items()) for part in parts]
        self.lengths = list(dict.fromkeys(each for part in parts for each in part.lengths))
        self.sessions: list[Any] = []
        self.recorders: list[Recorder | None] = []  # by stage
        records = find_device(device).records and open_session is session
        plan, reads = graph.bytes < _LARGE, size_reads.get()
        self.any_sizes: AnySizes | None = None
        self.constants: list[tuple[str, Any]] = []  # inputs of the stage then
        for number, part in enumerate(self.parts):
            options: dict[str, Any] = {"plan": plan, "libraries": ()}
            options["without"] = unwanted_optimizers(part.lowered, device)
            with self._traced(number):
                if fused:
                    made = fuse(part.lowered, part.equal, part.waiting, part.places)
                    model, options["libraries"] = made.model, made.libraries
                    part.writes_by(made.writer, made.written)
                elif reads is not None and len(parts) == 1:
                    self.any_sizes = AnySizes(part.lowered.model, reads)
                    self.constants, model = self.any_sizes.constants({}), self.any_sizes.model
                else:
                    model = part.lowered.model.SerializeToString()
                self.sessions.append(open_session(model, device, **options))
                if self.any_sizes is not None:
                    self.any_sizes.sessions[plan] = self.sessions[-1]
            self._opened = partial(open_session, device=device, **options)
            self.recorders.append(None)
            if records and may_be_recorded(part, graph.bytes):
                self.recorders[-1] = Recorder(partial(self._opened, model, recorded=True))
            del part.lowered  # the session has a copy

    def without_sessions(self) -> "OrtProgram":
        """Return the same program without what runs it."""
        new = copy(self)
        new.sessions, new.recorders = [], []
        return new

    def resized(self, renamed: Mapping[Dim, Dim], size: int) -> "OrtProgram":
        """Return the same program of any sizes for others in the place of those it has.

        `size` are the bytes of all its values then.
        """
        new, plan, known = copy(self), size < _LARGE, self.any_sizes
        assert known is not None
        new.constants = known.constants(renamed)
        opened = known.sessions.get(plan)
        if opened is None:
            with self._traced(0):
                opened = known.sessions[plan] = self._opened(known.model, plan=plan)
        new.sessions, new.recorders = [opened], [None]
        return new

    @contextmanager
    def _traced(self, number: int) -> Iterator[None]:
        """Raise errors of a stage that is opened in words of ours."""
        try:
            yield
        except CompilerError:
            raise
        except errors.NotImplemented as error:
            raise _without_kernel(self.traced(error, number)) from error
        except Exception as error:
            raise self.traced(error, number) from error

    @property
    def written(self) -> list[int]:
        """The updates that may be written into the memory of the values before."""
        return [k for part in self.parts for k in part.written]

    def bind(
        self,
        states: Sequence[Variable],
        updated: Sequence[Variable],
        kept: Container[Variable] = (),
    ) -> "OrtExecutable":
        """Return an executable on these variables, in the order of the graph's states, updates.

        Of those `kept` the values before a run are, where only whole ones are written.
        """
        return OrtExecutable(self, states, updated, kept)

    def traced(self, error: Exception, number: int) -> BackendError:
        """Return the runtime's error of a stage with the operator that failed and its line."""
        text, sites = str(error), self.sites[number]
        names = [name for name, _ in sites]
        found = re.findall(r"[Nn]ame:\s?'([^']+)'|Node ?\(([^)]+)\)", text)
        for name in reversed([first or second for first, second in found]):  # innermost first
            # what failed in a fused kernel is what it says, or else what it is named by
            member = name if name in names else failed_member(name, text, names)
            if member in names:
                index = names.index(member)
                return BackendError(in_words(text), member, sites[index][1], (number, index))
        return BackendError(in_words(text))


def _without_kernel(error: BackendError) -> Exception:
    """The error of an operator that has no kernel, in words of ours."""
    if error.operator is None:
        return error
    return DTypeError(
        f"{error.operator}: ONNX Runtime has no kernel for its element types"
        f"\n  node   {error.operator}, built at {site_text(error.site)}"
        "\n  hint: pd.cast() its inputs, to float32 for example"
    )


class OrtExecutable:
    """A program on the values of certain variables.

    Bindings are kept per set of buffers: two of them in steady training.
    """

    def __init__(
        self,
        program: OrtProgram,
        states: Sequence[Variable],
        updated: Sequence[Variable],
        kept: Container[Variable] = (),
    ):
        self.program = program
        # references to Variables, which the targets keep alive
        self.states: list[Any] = [ref(v) for v in states]
        self.updated: list[Any] = [ref(v) for v in updated]
        self.written = [k for k in program.written if updated[k] not in kept]
        self.in_place = {k for part in program.parts for k in part.in_place} | {*self.written}
        self.swapped = [k for k in range(len(updated)) if k not in self.in_place]
        self.phases: dict[tuple[int, ...] | None, _Phase] = {}  # by the ids of the buffers
        self.last: _Phase | None = None  # what ran last
        self.stamp: object = None  # of the values after that
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
        last = self.last if self.stamp is values.stamp else None
        # what is bound after a run that nothing else has changed values since is known from then
        phase = self.phases.get(last.following) if last is not None else None
        if phase is None:
            phase = self.bindings(values, last)
        if phase.swapped:  # now: an interrupt may come as soon as they have changed places
            values.stamp = object()
        stamp = values.stamp
        fetched: list[Any] = [None] * self.program.fetched
        handed: dict[int, Any] = {}
        for number, bound in enumerate(phase.bound):
            part = bound.part
            if part.exchanged and exchange is not None:
                self._exchange(handed, exchange)
            elif part.summed:
                sums = partial(sum_over_ranks, weighted=part.weighted)
                self._replace(handed, part.summed, sums)
            elif part.divided and exchange is not None:
                exchange.start({k: array_of(handed[k]) for k in self.program.seam if k in handed})
            try:
                bound.run(feeds, seed, handed, fetched, keep, phase.after[number])
            except Exception as error:
                for k in self.swapped:
                    self.buffers[2][k][1] = None  # it may be half written
                values.stamp = object()
                raise self.program.traced(error, number) from error
        is_same = values.stamp is stamp  # no exchange has stored anything
        if last is None:
            values.note(self.swapped, self.written, self.updated)
        self.last, self.stamp = phase, values.stamp if is_same else None
        return fetched

    def _exchange(self, handed, exchange):
        """Replace the values at the seam: where they are, or on the host."""
        seam = self.program.seam
        values = exchange.on_device([handed[k] for k in seam], self.program.device[0])
        if values is None:
            self._replace(handed, seam, exchange)
        else:
            handed.update(zip(seam, values, strict=True))

    def _replace(self, handed, slots, function):
        """Replace the values in these slots by what a function makes of them on the host."""
        kind, _, number = self.program.device
        arrays = function([array_of(handed[k]) for k in slots])
        for k, array in zip(slots, arrays, strict=True):
            handed[k] = ort_value(array, kind, int(number or 0))

    def bindings(self, values: OrtValues, last: "_Phase | None") -> "_Phase":
        """Return what is bound to the current buffers; `last` is what ran before, if known."""
        states, updated = self._pairs(values)
        held = [pair[0] for pair in states] + [updated[k][1] for k in self.swapped]
        key = tuple(map(id, held))
        if key not in self.phases:
            if len(self.phases) >= 4:
                self.phases.clear()
                self.last = last = None
            self.phases[key] = self._new_phase(values, states, updated, held)
        if last is not None:
            last.following = key
        return self.phases[key]

    def _new_phase(self, values, states, updated, held):
        kind, _, number = self.program.device
        bound = []
        program = self.program
        stages = zip(program.sessions, program.parts, program.recorders, strict=True)
        for session, part, recorder in stages:
            targets = [
                values.buffers[self.updated[k]()][0] if k in self.in_place else updated[k][1]
                for k, _ in part.updates
            ]
            inputs = [states[k][0] for k, _ in part.states]
            place = kind, int(number or 0)
            constants = program.constants
            bound.append(Bound(session, part, place, inputs, targets, constants, recorder))
        return _Phase(bound, held, [updated[k] for k in self.swapped])

    def _pairs(self, values):
        """The pairs of buffers of the states and of the updates, ready to be bound."""
        owner, states, updated = self.buffers
        if owner is not values or any(updated[k][1] is None for k in self.swapped):
            updated = {k: values.pair(self.updated[k]()) for k in self.swapped}
            states = [values.buffers[v()] for v in self.states]
            self.buffers = values, states, updated
        return states, updated


class _Phase:
    """What is bound to one set of buffers, by stage.

    The buffers are held too, so that no other gets the id of one. `swapped` are the pairs of
    buffers that change places after a run; `following` is the key of the set then, None while it is
    not known.
    """

    def __init__(self, bound: list[Bound], held: list[Any], swapped: list[list]):
        self.bound, self.held, self.swapped = bound, held, swapped
        # what is called with the run of each stage: the new values are there with the last one
        self.after: list[list] = [[] for _ in bound]
        self.after[-1] = [pair.reverse for pair in swapped]
        self.following: tuple[int, ...] | None = None
