"""ONNX's reference evaluator as a backend: slow, and the truth that tests compare with."""

from weakref import WeakKeyDictionary, ref

import numpy as np

from ..graph.errors import BackendError
from .evaluator import evaluator
from .lowering import lower


class ReferenceBackend:
    """Runs the same models as every other backend, in numpy."""

    device = "reference"

    def values(self):
        return HostValues()

    def compile(self, graph):
        return ReferenceExecutable(graph)


class HostValues:
    """Values of persistent variables as arrays."""

    def __init__(self):
        self.current, self.previous = WeakKeyDictionary(), WeakKeyDictionary()

    def __contains__(self, variable):
        return variable in self.current

    def variables(self):
        return list(self.current)

    def get(self, variable):
        return self.current[variable]

    def set(self, variable, array, copy=True):
        """Store an array of the variable's shape and dtype, a copy in any case."""
        self.current[variable] = np.array(array, variable.dtype).reshape(variable.dims)
        self.previous.pop(variable, None)

    def numpy(self, variable):
        """A copy."""
        return self.current[variable].copy()

    def before(self, variable):
        """A copy of the value before the last step that wrote it; None if it is not kept."""
        found = self.previous.get(variable)
        return None if found is None else found.copy()

    def update(self, variable, array):
        """Store what a step has computed."""
        old = self.current.get(variable)
        self.set(variable, array)
        self.previous[variable] = old


class ReferenceExecutable:
    """A program run by the evaluator."""

    def __init__(self, graph):
        lowered = lower(graph)
        self.evaluator = evaluator(lowered.model)
        self.names, self.outputs = [lowered.names[v] for v in graph.inputs], lowered.outputs
        self.states = [ref(v) for v in graph.states]  # who evaluates it holds them
        self.updated = [ref(v) for v, _ in graph.updates]

    def run(self, feeds, values, seed=None):
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
        """Either all new values fit or none is stored."""
        for variable, array in new:
            if array.shape != variable.dims:
                raise BackendError(f"{variable!r} cannot take an array of {list(array.shape)}")
