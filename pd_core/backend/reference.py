"""ONNX's reference evaluator as a backend: slow, the ground truth of the tests."""

from weakref import WeakKeyDictionary, ref

import numpy as np

from ..graph.errors import BackendError
from ..graph.variable import Variable
from .base import Graph
from .evaluator import evaluator
from .lowering import lower


class ReferenceBackend:
    """Runs the models of the other backends in numpy."""

    device = "reference"

    def values(self) -> "HostValues":
        return HostValues()

    def compile(self, graph: Graph) -> "ReferenceExecutable":
        return ReferenceExecutable(graph)


class HostValues:
    """Values of persistent variables as arrays."""

    def __init__(self):
        self.current, self.previous = WeakKeyDictionary(), WeakKeyDictionary()

    def __contains__(self, variable: Variable) -> bool:
        return variable in self.current

    def variables(self) -> list[Variable]:
        return list(self.current)

    def get(self, variable: Variable) -> np.ndarray:
        return self.current[variable]

    def set(self, variable: Variable, array: np.ndarray, copy: bool = True):
        """Store a copy of an array of the variable's shape and dtype, whatever `copy` says."""
        self.current[variable] = np.array(array, variable.dtype).reshape(variable.dims)
        self.previous.pop(variable, None)

    def numpy(self, variable: Variable) -> np.ndarray:
        """Return a copy."""
        return self.current[variable].copy()

    def before(self, variable: Variable) -> np.ndarray | None:
        """Return a copy of the value before the last step that wrote it; None if it is not kept."""
        previous = self.previous.get(variable)
        return None if previous is None else previous.copy()

    def update(self, variable: Variable, array: np.ndarray):
        """Store a value that a step has computed."""
        old = self.current.get(variable)
        self.set(variable, array)
        self.previous[variable] = old


class ReferenceExecutable:
    """A program run by the evaluator."""

    def __init__(self, graph: Graph):
        lowered = lower(graph)
        self.evaluator = evaluator(lowered.model)
        self.names, self.outputs = [lowered.names[v] for v in graph.inputs], lowered.outputs
        self.states = [ref(v) for v in graph.states]  # the caller keeps them alive
        self.updated = [ref(v) for v, _ in graph.updates]

    def run(
        self, feeds: list[np.ndarray], values: HostValues, seed: np.ndarray | None = None
    ) -> list[np.ndarray]:
        """Return the fetches; store the new values of the updated states."""
        inputs = [*feeds, *(values.get(v()) for v in self.states)]
        inputs += [] if seed is None else [seed]
        try:
            out = self.evaluator.run(self.outputs, dict(zip(self.names, inputs, strict=True)))
        except Exception as error:
            raise BackendError(f"reference evaluator: {error}") from error
        count = len(out) - len(self.updated)
        new = [(v(), array) for v, array in zip(self.updated, out[count:], strict=True)]
        self._check(new)
        for variable, array in new:
            values.update(variable, array)
        return [np.asarray(x) for x in out[:count]]

    def _check(self, new):
        """Check all new values before any is stored."""
        for variable, array in new:
            if array.shape != variable.dims:
                raise BackendError(f"{variable!r} cannot take an array of {list(array.shape)}")
