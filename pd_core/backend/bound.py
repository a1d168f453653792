"""The inputs and outputs of a stage as they are bound in its session, from run to run."""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from operator import call
from typing import Any

import numpy as np
import onnxruntime

from .ort_arrays import array_of, ort_value
from .recorded import Recorder, Recording
from .stage_models import StageModel

_SMALL = 1 << 14  # bytes; larger arrays are bound in each run, which costs less than a copy
_CPU = ["CPUExecutionProvider"]

# Takes all from an iterator. Python handles signals between its instructions: none comes between
# calls of C functions that `map` makes here.
consume = deque[Any](maxlen=0).extend


class Bound:
    """A binding of a stage to certain buffers of states and updates, and to `constants`.

    Small feeds and fetches on the CPU are copied into and out of arrays that stay bound while the
    shapes of the feeds stay: a copy takes 0.3 µs, binding a feed 1.2 and fetching a result 3.8.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        part: StageModel,
        device: tuple[str, int],
        states: list[Any],
        updates: list[Any],
        constants: Iterable[tuple[str, Any]] = (),
        recorder: Recorder | None = None,
    ):
        self.session, self.part, self.device = session, part, device
        self.binding = session.io_binding()
        self._start = _starter(session, self.binding)
        self._fed: dict[str, np.ndarray] = {}  # arrays that stay bound
        self._fetched: dict[str, np.ndarray] = {}
        self._shapes: dict[str, tuple[int, ...] | None] = {}  # of what is bound to an input
        self._is_steady = False  # whether the shapes are those of the run before
        for _, name in (*part.fetches, *part.hands):  # they come before the updates
            self.binding.bind_output(name, "cpu")
        read = zip((name for _, name in part.states), states, strict=True)
        for name, value in (*read, *constants):
            self.binding.bind_ortvalue_input(name, value)
        for (_, name), value in zip(part.updates, updates, strict=True):
            self.binding.bind_ortvalue_output(name, value)
        self._recording: Recording | None = None
        if recorder is not None:
            bound = [(True, n, v) for (_, n), v in zip(part.states, states, strict=True)]
            bound += [(False, n, v) for (_, n), v in zip(part.updates, updates, strict=True)]
            self._recording = Recording(recorder, part, device, bound)

    def run(
        self,
        feeds: list,
        seed: np.ndarray | None,
        handed: dict[int, Any],
        fetched: list[Any],
        keep: bool,
        after: Iterable[Callable[[], Any]] = (),
    ) -> None:
        """Run the stage on its feeds and on what is handed to it, and fill in its results.

        With `keep` the fetches stay on the device. The functions `after` are called with the run:
        no signal comes between it and them, as long as they are C code.
        """
        recording = None if keep else self._recording
        if recording is not None and recording.run(feeds, seed, fetched):
            consume(map(call, after))
            return
        part, fed = self.part, self._fed
        self._is_steady = True
        for k, name in part.feeds:
            array, bound = feeds[k], fed.get(name)
            if bound is not None and bound.shape == array.shape:
                bound[...] = array
            else:
                self._bind(name, array)
        if part.seed is not None:
            bound = fed.get(part.seed)
            if bound is not None:
                bound[...] = seed
            else:
                self._bind(part.seed, seed)
        for slot, name in part.given:
            self.binding.bind_ortvalue_input(name, handed[slot])
        if len(self._fetched) < len(part.fetches) or part.hands:
            place = self.device if keep else ("cpu", 0)
            for _, name in part.fetches:
                if name not in self._fetched:
                    self.binding.bind_output(name, *place)
            for _, name in part.hands:  # values for later stages stay on the device
                self.binding.bind_output(name, *self.device)
        if self.device[0] != "cpu":  # feeds are copied there on another stream than that of the run
            self.binding.synchronize_inputs()
        try:
            consume(map(call, (self._start, *after)))
        except Exception as error:
            if not self._fetched or part.may_have_written(error):
                raise
            self._run_again(after)
        self._collect(handed, fetched, keep)
        if recording is not None and not recording.after(self.session, feeds, seed, fetched):
            self._start()

    def _bind(self, name: str, array: Any) -> None:
        """Bind a feed; one that is small and has the shape of the last one gets an array."""
        shape = array.shape if isinstance(array, np.ndarray) else None
        if shape is None or self._shapes.get(name) != shape:
            self._shapes[name], self._is_steady = shape, False
            self._fed.pop(name, None)
            self._fetched.clear()  # results may have other shapes too
        elif array.nbytes <= _SMALL and self.device[0] == "cpu":
            array = self._fed[name] = array.copy()
        if shape is None:
            self.binding.bind_ortvalue_input(name, array)
        elif array.dtype.kind == "V":  # of bfloat16
            self.binding.bind_ortvalue_input(name, ort_value(array))
        else:
            self.binding.bind_cpu_input(name, array)

    def _run_again(self, after: Iterable[Callable[[], Any]]) -> None:
        """Run without arrays for the results.

        An imported model may declare a size of its feeds that a result does not have.
        """
        self._fetched.clear()
        self._is_steady = False
        for _, name in self.part.fetches:
            self.binding.bind_output(name, "cpu")
        consume(map(call, (self._start, *after)))

    def _collect(self, handed: dict[int, Any], fetched: list[Any], keep: bool) -> None:
        part, bound = self.part, self._fetched
        if len(bound) == len(part.fetches) and not part.hands:
            for k, name in part.fetches:
                fetched[k] = bound[name].copy()
            return
        values = iter(self.binding.get_outputs_as_ortvaluevector())  # fetches were bound first
        for k, name in part.fetches:
            value = next(values)
            fetched[k] = onnxruntime.OrtValue(value) if keep else array_of(value)
            if name in bound:
                fetched[k] = fetched[k].copy()
            elif self._is_steady and k in part.fixed and self.device[0] == "cpu":
                self._stay(name, fetched[k])
        for k, _ in part.hands:
            handed[k] = onnxruntime.OrtValue(next(values))

    def _stay(self, name: str, array: np.ndarray) -> None:
        """Bind an array for a small result, whose shape follows from those of the feeds."""
        if array.nbytes <= _SMALL:
            bound = self._fetched[name] = np.empty_like(array)
            value = ort_value(bound)
            self.binding.bind_ortvalue_output(name, value)


def _starter(session: Any, binding: Any) -> Callable[[], Any]:
    """Return what runs a session: on a CPU a function of C, which the method has inside of it."""
    inner, own = getattr(session, "_sess", None), getattr(binding, "_iobinding", None)
    if inner is None or own is None or session.get_providers() != _CPU:
        return partial(session.run_with_iobinding, binding)
    return partial(inner.run_with_iobinding, own, None)
