"""Steps on CUDA as one recorded graph of kernels, which the driver launches at once.

A step of a small network is hundreds of kernels of a few microseconds each, and to launch one takes
as long. ONNX Runtime records the kernels of a run, and repeats them by one call, where all of them
are on the GPU and the shapes and addresses of all values stay: CUDA graphs. Arithmetic of sizes is
on the CPU, so a program whose feeds have had the same shapes for a few runs is opened once more for
those: there sizes are constants. Both take memory, so only programs of small values are recorded.
"""

import itertools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime

from .ort_arrays import array_of, empty_value, ort_value, overwrite
from .stage_models import StageModel

_RUNS = 3  # of the same shapes, before a run is recorded
_KEPT = 4  # shapes
_MOST = 1 << 28  # bytes of all values of a run
# Whose recorded kernels would draw the same numbers again, and what is never recorded.
_LEFT_OUT = frozenset(
    (
        *("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike"),
        *("RandomUniform", "RandomUniformLike", "Loop", "Scan", "SequenceMap"),
    )
)
_numbers = itertools.count(1)

Open = Callable[..., onnxruntime.InferenceSession]


class Recorder:
    """The sessions of a stage for fixed sizes, whose runs ONNX Runtime records.

    `open_session(sizes=...)` opens the stage for the sizes by name.
    """

    def __init__(self, open_session: Open):
        self._open = open_session
        self._sessions: OrderedDict[tuple, onnxruntime.InferenceSession | None] = OrderedDict()

    def session(self, sizes: Mapping[str, int]) -> onnxruntime.InferenceSession | None:
        """Return the session for these sizes; None if its runs cannot be recorded."""
        key = tuple(sorted(sizes.items()))
        if key not in self._sessions:
            while len(self._sessions) >= _KEPT:
                self._sessions.popitem(last=False)
            try:
                self._sessions[key] = self._open(sizes=sizes)
            except Exception:  # of the runtime: an operator that is on the CPU, or a branch
                self._sessions[key] = None
        self._sessions.move_to_end(key)
        return self._sessions[key]

    def forget(self, sizes: Mapping[str, int]) -> None:
        """Open no session for these sizes any more."""
        self._sessions[tuple(sorted(sizes.items()))] = None


def may_be_recorded(part: StageModel, size: int) -> bool:
    """Return whether to try to record the runs of a stage, whose values take `size` bytes.

    A run is done twice while it is recorded: it must not change what it reads.
    """
    changes = part.in_place or part.given or part.hands or part.exchanged
    return (
        size <= _MOST
        and not changes
        and all(k in part.fixed for k, _ in part.fetches)
        and _LEFT_OUT.isdisjoint(part.lowered.op_types)
    )


class Recording:
    """The recorded runs of a stage on certain buffers of states and updates, by shapes of feeds."""

    def __init__(self, recorder: Recorder, part: StageModel, device: tuple[str, int], bound: list):
        self.recorder, self.part, self.device = recorder, part, device
        self.bound = bound  # (input or output, name, OrtValue) of the states and updates
        self.names = [name for _, name in part.feeds]
        self.names += [] if part.seed is None else [part.seed]
        # by shapes: how many runs there were, what is recorded, or None if nothing can be
        self._by_shapes: dict[tuple, int | _Run | None] = {}

    def run(self, feeds: list, seed: np.ndarray | None, fetched: list[Any]) -> bool:
        """Repeat the run that is recorded for feeds of these shapes; False if none is."""
        arrays = self._arrays(feeds, seed)
        run = None if arrays is None else self._by_shapes.get(_shapes(arrays))
        if arrays is None or not isinstance(run, _Run):
            return False
        run(arrays)
        for (k, _), value in zip(self.part.fetches, run.outputs, strict=True):
            array = array_of(value)  # of a CPU it is the value itself
            fetched[k] = array if array.flags.owndata else array.copy()
        return True

    def after(
        self,
        session: onnxruntime.InferenceSession,
        feeds: list,
        seed: np.ndarray | None,
        fetched: list[Any],
    ) -> bool:
        """Count a run that a session has done; record it once there were enough of its shapes.

        Return False if recording has failed, so that the new values are spoiled.
        """
        arrays = self._arrays(feeds, seed)
        if arrays is None:
            return True
        key = _shapes(arrays)
        count = self._by_shapes.get(key, 0)
        if not isinstance(count, int):
            return True
        if len(self._by_shapes) > _KEPT and key not in self._by_shapes:
            self._by_shapes.clear()
        self._by_shapes[key] = count + 1
        if count + 1 < _RUNS:
            return True
        self._by_shapes[key] = None
        sizes = _sizes(session, self.names, arrays)
        fixed = self.recorder.session(sizes)
        if fixed is None:
            return True
        try:  # the new values go where the run before has put the same
            run = _Run(fixed, self, arrays, [fetched[k] for k, _ in self.part.fetches])
            run(arrays)
        except Exception:  # of the runtime: an operator that waits for the GPU, too little memory
            self.recorder.forget(sizes)
            return False
        self._by_shapes[key] = run
        return True

    def _arrays(self, feeds, seed):
        """The feeds of the stage, with the seed; None if one is on the device."""
        arrays = [feeds[k] for k, _ in self.part.feeds]
        arrays += [] if self.part.seed is None else [seed]
        return arrays if all(isinstance(a, np.ndarray) for a in arrays) else None


class _Run:
    """A recorded run: values on the device for its feeds and fetches."""

    def __init__(self, session, recording, arrays, fetched):
        kind, number = recording.device
        self.session, self.binding = session, session.io_binding()
        self.inputs = [ort_value(np.array(a, order="C"), kind, number) for a in arrays]
        self.outputs = [empty_value(list(a.shape), a.dtype, kind, number) for a in fetched]
        for name, value in zip(recording.names, self.inputs, strict=True):
            self.binding.bind_ortvalue_input(name, value)
        for (_, name), value in zip(recording.part.fetches, self.outputs, strict=True):
            self.binding.bind_ortvalue_output(name, value)
        for is_input, name, value in recording.bound:
            if is_input:
                self.binding.bind_ortvalue_input(name, value)
            else:
                self.binding.bind_ortvalue_output(name, value)
        self.options = onnxruntime.RunOptions()
        self.options.add_run_config_entry("gpu_graph_id", str(next(_numbers)))

    def __call__(self, arrays: list[np.ndarray]) -> None:
        for value, array in zip(self.inputs, arrays, strict=True):
            overwrite(value, np.ascontiguousarray(array))
        self.session.run_with_iobinding(self.binding, self.options)


def _shapes(arrays):
    return tuple([a.shape for a in arrays])


def _sizes(session, names, arrays):
    """The sizes that a session's inputs have by name."""
    declared = {i.name: i.shape for i in session.get_inputs()}
    return {
        d: n
        for name, array in zip(names, arrays, strict=True)
        for d, n in zip(declared[name], array.shape, strict=True)
        if isinstance(d, str)
    }
