"""ONNX's reference evaluator as a backend: slow, the ground truth of the tests."""

from weakref import WeakKeyDictionary, ref

import numpy as np

from ..graph.errors import BackendError
from ..graph.variable import Variable
from .evaluator import evaluator
from .parts import parts


class ReferenceBackend:
    """Runs the models of the other backends in numpy."""

    device = "reference"

    def values(self) -> "HostValues":
        return HostValues()

    def compile(self, graph, seam=()):
        return ReferenceProgram(graph, seam)


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


class ReferenceProgram:
    """A compiled graph: an evaluator for each of its stages."""

    def __init__(self, graph, seam):
        self.parts = list(parts(graph, seam))
        self.evaluators = [evaluator(part.model) for part in self.parts]
        self.fetched = len(graph.fetches)
        self.seam = range(len(seam))

    def bind(self, states, updated):
        """An executable on these persistent variables, as the graph's states and updates."""
        return ReferenceExecutable(self, states, updated)


class ReferenceExecutable:
    """A program on the values of certain variables."""

    def __init__(self, program, states, updated):
        self.program = program
        self.states = [ref(v) for v in states]  # who evaluates it holds them
        self.updated = [ref(v) for v in updated]

    def run(self, feeds, values, seed=None, exchange=None):
        """The fetches; new values become those of the updated variables in `values`."""
        fetched, handed, new = [None] * self.program.fetched, {}, {}
        for number, part in enumerate(self.program.parts):
            if number == 1 and exchange is not None:
                seam = self.program.seam
                handed |= zip(seam, exchange([handed[k] for k in seam]), strict=True)
            inputs = {name: feeds[k] for k, name in part.feeds}
            inputs |= {name: handed[k] for k, name in part.given}
            inputs |= {name: values.get(self.states[k]()) for k, name in part.states}
            if part.seed is not None:
                inputs[part.seed] = seed
            names = [name for _, name in (*part.fetches, *part.hands, *part.updates)]
            try:
                out = iter(self.program.evaluators[number].run(names, inputs))
            except Exception as error:
                raise BackendError(f"reference evaluator: {error}") from error
            for k, _ in part.fetches:
                fetched[k] = np.asarray(next(out))
            for k, _ in part.hands:
                handed[k] = np.asarray(next(out))
            for k, _ in part.updates:
                new[self.updated[k]()] = next(out)
        self._check(new)
        for variable, array in new.items():
            values.update(variable, array)
        return fetched

    def _check(self, new):
        """Either all new values fit or none is stored."""
        for variable, array in new.items():
            if array.shape != variable.dims:
                raise BackendError(f"{variable!r} cannot take an array of {list(array.shape)}")
