"""Runtimes that take models and arrays; ONNX's evaluator, the ground truth of the tests."""

from collections.abc import Container, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary, ref

import numpy as np
from onnx import ModelProto

from ..graph.errors import BackendError
from ..graph.variable import Variable, static
from .base import NO_SEAM, Graph, Length, Seam, SeamExchange
from .over_ranks import sum_over_ranks
from .passes.forms import NO_KERNELS
from .stage_models import stage_models


class Runnable(Protocol):
    """A model in a runtime."""

    def run(self, names: list[str], inputs: dict[str, Any], /) -> Any:
        """Return the outputs of these names."""


class ReferenceBackend:
    """Run the models of the other backends in numpy; of values and stages all is here.

    A subclass runs them in another runtime, where values are arrays on the host: see `opened`.
    """

    device = "reference"
    layouts = ()
    kernels = NO_KERNELS

    def opened(self, model: ModelProto) -> Runnable:
        """Return a model in the runtime; the operators of its file are ONNX's."""
        from .evaluator import evaluator  # onnx.reference is a sixth of the time of importing pd

        return evaluator(model)

    def values(self) -> "HostValues":
        """Return an empty set of values."""
        return HostValues()

    def prepared(self, graph: Graph) -> Graph:
        """Return the graph: there is no faster form of an operator."""
        return graph

    def compile(self, graph: Graph, seam: Seam = NO_SEAM) -> "ReferenceProgram":
        """Return an evaluator of the graph."""
        return ReferenceProgram(graph, seam, self)

    def sites(
        self, graph: Graph, seam: Seam = NO_SEAM
    ) -> list[list[tuple[str, tuple[str, int] | None]]]:
        """Return (name, line that built it) of each operator of each stage, in program order."""
        return [list(stage.sites.items()) for stage in stage_models(graph, seam)]


class HostValues:
    """Values of persistent variables as arrays."""

    def __init__(self) -> None:
        self.current: WeakKeyDictionary[Variable, np.ndarray] = WeakKeyDictionary()
        self.previous: WeakKeyDictionary[Variable, np.ndarray | None] = WeakKeyDictionary()

    def __contains__(self, variable: Variable) -> bool:
        return variable in self.current

    def variables(self) -> list[Variable]:
        """Return the variables that have a value."""
        return list(self.current)

    def view(self, variable: Variable) -> np.ndarray:
        """Return the value itself, not a copy."""
        return self.current[variable]

    def set(self, variable: Variable, array: np.ndarray, copy: bool = True) -> None:
        """Store a copy of an array of the variable's shape and dtype; `copy` has no effect."""
        self.current[variable] = np.array(array, variable.dtype).reshape(static(variable.dims))
        self.previous.pop(variable, None)

    def numpy(self, variable: Variable) -> np.ndarray:
        """Return a copy of the value."""
        return self.current[variable].copy()

    def before(self, variable: Variable) -> np.ndarray | None:
        """Return a copy of the value before the last step that wrote it; None if it is not kept."""
        previous = self.previous.get(variable)
        return None if previous is None else previous.copy()

    def release(self, variable: Variable) -> np.ndarray | None:
        """Return the value before the last step."""
        return self.previous.get(variable)

    def kept(self, variable: Variable) -> tuple[np.ndarray | None, ...]:
        """Return what is stored of a variable, for `put_back` once `set` has replaced it."""
        return self.current.get(variable), self.previous.get(variable)

    def put_back(self, variable: Variable, kept: tuple[np.ndarray | None, ...] | None) -> None:
        """Store again what `kept` returned; None for no value."""
        every: list[Any] = [self.current, self.previous]
        for values, array in zip(every, kept or (None, None), strict=True):
            values.pop(variable, None)
            if array is not None:
                values[variable] = array

    def update(self, variable: Variable, array: np.ndarray) -> None:
        """Store a value that a step has computed, and keep the one before it."""
        old = self.current.get(variable)
        self.set(variable, array)
        self.previous[variable] = old


class ReferenceProgram:
    """A compiled graph: an evaluator for each of its stages."""

    def __init__(self, graph: Graph, seam: Seam, backend: ReferenceBackend):
        self.name = backend.device
        self.stages = stage_models(graph, seam)
        try:
            self.evaluators = [backend.opened(stage.lowered.model) for stage in self.stages]
        except Exception as error:
            raise BackendError(f"{self.name}: {error}") from error
        for stage in self.stages:
            del stage.lowered  # it knows variables of the graph, which is freed without it
        self.fetched = len(graph.fetches)
        self.seam = range(len(seam))  # slots
        self.lengths: list[Length] = []

    def bind(
        self,
        states: Sequence[Variable],
        updated: Sequence[Variable],
        kept: Container[Variable] = (),
    ) -> "ReferenceExecutable":
        """Return an executable on these variables, in the order of the graph's states, updates.

        It keeps the values of all before a run.
        """
        return ReferenceExecutable(self, states, updated)


class ReferenceExecutable:
    """A program on the values of certain variables."""

    written: Sequence[int] = ()

    def __init__(
        self, program: ReferenceProgram, states: Sequence[Variable], updated: Sequence[Variable]
    ):
        self.program = program
        # references to Variables, which the targets keep alive
        self.states: list[Any] = [ref(v) for v in states]
        self.updated: list[Any] = [ref(v) for v in updated]

    def run(
        self,
        feeds: list[np.ndarray],
        values: HostValues,
        seed: np.ndarray | None = None,
        exchange: SeamExchange | None = None,
        keep: bool = False,
    ) -> list[np.ndarray]:
        """Return the fetches, and store new values of the updated variables in `values`."""
        fetched: list[Any] = [None] * self.program.fetched
        handed: dict[int, np.ndarray] = {}
        new: dict[Variable, np.ndarray] = {}
        for number, stage in enumerate(self.program.stages):
            if stage.exchanged and exchange is not None:
                seam = self.program.seam
                handed |= zip(seam, exchange([handed[k] for k in seam]), strict=True)
            elif stage.summed:
                sums = sum_over_ranks([handed[k] for k in stage.summed], stage.weighted)
                handed |= zip(stage.summed, sums, strict=True)
            elif stage.divided and exchange is not None:
                exchange.start({k: handed[k] for k in self.program.seam if k in handed})
            inputs: dict[str, Any] = {name: feeds[k] for k, name in stage.feeds}
            inputs |= {name: handed[k] for k, name in stage.given}
            inputs |= {name: values.view(self.states[k]()) for k, name in stage.states}
            if stage.seed is not None:
                inputs[stage.seed] = seed
            names = [name for _, name in (*stage.fetches, *stage.hands, *stage.updates)]
            try:
                out = iter(self.program.evaluators[number].run(names, inputs))
            except Exception as error:
                raise BackendError(f"{self.program.name}: {error}") from error
            for k, _ in stage.fetches:
                fetched[k] = np.asarray(next(out))
            for k, _ in stage.hands:
                handed[k] = np.asarray(next(out))
            for k, _ in stage.updates:
                new[self.updated[k]()] = next(out)
        self._check(new)
        for variable, array in new.items():
            values.update(variable, array)
        return fetched

    def _check(self, new):
        """Check all new values before any is stored."""
        for variable, array in new.items():
            if array.shape != variable.dims:
                raise BackendError(f"{variable!r} cannot take an array of {list(array.shape)}")
