"""ONNX's reference evaluator as a backend: slow, and the truth that tests compare with."""

import numpy as np
from onnx.reference import ReferenceEvaluator

from ..errors import BackendError
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
        self.current = {}

    def __contains__(self, variable):
        return variable in self.current

    def variables(self):
        return list(self.current)

    def get(self, variable):
        return self.current[variable]

    def set(self, variable, array):
        """Store a copy of an array of the variable's shape and dtype."""
        self.current[variable] = np.array(array, variable.dtype).reshape(variable.dims)

    def numpy(self, variable):
        """A copy."""
        return self.current[variable].copy()


class ReferenceExecutable:
    """A program as a ReferenceEvaluator."""

    def __init__(self, graph):
        self.graph = graph
        lowered = lower(graph)
        self.evaluator = ReferenceEvaluator(lowered.model)
        self.names, self.outputs = [lowered.names[v] for v in graph.inputs], lowered.outputs

    def run(self, feeds, values, seed=None):
        inputs = [*feeds, *(values.get(v) for v in self.graph.states)]
        inputs += [] if seed is None else [seed]
        try:
            out = self.evaluator.run(
                self.outputs, dict(zip(self.names, inputs, strict=True))
            )
        except Exception as error:
            raise BackendError(f"reference evaluator: {error}") from error
        count = len(self.graph.fetches)
        for (variable, _), array in zip(self.graph.updates, out[count:], strict=True):
            values.set(variable, array)
        return [np.asarray(x) for x in out[:count]]
