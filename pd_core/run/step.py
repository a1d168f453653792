"""Steps: evaluations of certain targets, and how many of them a session keeps."""

from collections import OrderedDict
from functools import partial
from math import prod
from weakref import ref

from ..graph.errors import BackendError, GraphError, ShapeError
from ..graph.variable import Variable
from .packed_feeds import PackedFeeds
from .programs import Program, graph_of, programs_of
from .structure import Structure


class Step:
    """One kind of evaluation: a program, what takes part in it, and what else it stores.

    Holds neither the targets nor their nodes, so that a graph which nobody uses any more can go.
    `seam` are values behind which the evaluation stops, to exchange them.
    """

    def __init__(self, backend, fetches, updates, fed, training, seam=()):
        changes = changes_of(updates)
        computed = [(v, new) for v, new in changes.items() if _is_computed(new)]
        self.constants = [(v, new.value) for v, new in changes.items() if _is_constant(new)]
        self.redrawn = [v for v, new in changes.items() if new is None]
        structure = Structure(fetches, computed, seam, fed, training)
        programs = programs_of(backend.device)
        program = programs.get(structure)
        self.compiled = program is None
        if program is None:
            graph, values = graph_of(fetches, computed, seam, fed, training)
            program = Program(backend, graph, values, structure)
            programs.add(structure, program)
        self.fed = [structure.leaves[k] for k in program.fed]
        states = [structure.leaves[k] for k in program.states]
        updated = [structure.leaves[k] for k in program.updated]
        self.states = [ref(v) for v in states]  # the targets hold them
        self.draws = [structure.draws[k] for k in program.draws]
        self.changes = bool(computed)
        self.bytes = sum(prod(v.dims) * v.dtype.itemsize for v, _ in computed)
        self.operators = program.operators
        self.equal = [
            tuple(d if k is None else structure.sizes[k] for d, k in pair) for pair in program.equal
        ]
        self.packed = PackedFeeds(fed, self.equal)
        compiled = program.compiled
        self.executable = None if compiled is None else compiled.bind(states, updated)
        self.checked = set()
        self.initialized = False  # whether all states have a value: they keep one from then on

    def run(self, fed, values, seed, exchange=None):
        """The fetches for these feeds; computed new values are stored in `values`."""
        if self.executable is None:
            return []
        arrays = [fed[v] for v in self.fed]
        shapes = tuple(a.shape for a in arrays)
        if shapes not in self.checked:
            self._check_sizes(shapes)
            self.checked.add(shapes)
        self.packed.check(fed)
        return self.executable.run(arrays, values, seed, exchange)

    def _check_sizes(self, shapes):
        """Sizes that the graph takes to be equal are equal in these feeds."""
        sizes, origin = {}, {}
        for v, shape in zip(self.fed, shapes, strict=True):
            for d, n in zip(v.dims, shape, strict=True):
                if sizes.setdefault(d, n) != n:
                    raise ShapeError(f"feeds disagree: {origin[d]} has {sizes[d]}, {v!r} has {n}")
                origin.setdefault(d, repr(v))
        for a, b in self.equal:
            left, right = (d if isinstance(d, int) else sizes.get(d) for d in (a, b))
            if left is not None and right is not None and left != right:
                who = " and ".join(origin[d] for d in (a, b) if d in origin)
                raise ShapeError(f"sizes {left} and {right} meet, from the feeds {who}")


class Steps:
    """The steps of a session by what they evaluate; beyond a limit the oldest in use goes.

    Targets are held weakly: with a target that is gone its steps go at once.
    """

    def __init__(self, limit=256):
        self.limit = limit
        self.steps = OrderedDict()  # key: (step, what watches its targets)
        self.spent = 0  # bytes that steps have stored whose targets are gone

    def __len__(self):
        return len(self.steps)

    def get(self, key):
        found = self.steps.get(key)
        if found is None:
            return None
        self.steps.move_to_end(key)
        return found[0]

    def add(self, key, step):
        # a target may die at any point of any thread: what is called then is one operation
        drop = partial(_forget, ref(self), key)
        self.steps[key] = step, [ref(target(), drop) for group in key[:3] for target in group]
        if len(self.steps) > self.limit:
            self.steps.popitem(last=False)

    def clear(self):
        self.steps.clear()


def step_key(fetches, updates, fed, training, stops):
    """What two evaluations must have in common to be the same step."""
    frozen = tuple(v.trainable for u in updates for v in u.owners)
    targets = tuple(map(ref, fetches)), tuple(map(ref, updates))
    return *targets, frozenset(map(ref, fed)), frozen, training, stops


def located(error, backend, fetches, updates, seam, fed, training):
    """The error of a program that other targets compiled, with the line of these targets."""
    computed = [(v, new) for v, new in changes_of(updates).items() if _is_computed(new)]
    graph, values = graph_of(fetches, computed, seam, fed, training)
    stage, place = error.place
    operator, site = backend.sites(graph, values)[stage][place]
    return BackendError(error.text, operator, site, error.place)


def _forget(steps, key, _):
    owner = steps()
    found = None if owner is None else owner.steps.pop(key, None)
    if found is not None:
        owner.spent += found[0].bytes


def _frozen(assignment):
    return assignment.owner is not None and not assignment.owner.trainable


def changes_of(updates):
    """{variable: its new value, or None if it is drawn anew}; each is changed once."""
    active = [(a.variable, a.value) for u in updates for a in u.assignments if not _frozen(a)]
    redrawn = [(v, None) for u in updates for v in u.initialize]
    changes = {}
    for v, new in active + redrawn:
        if changes.setdefault(v, new) is not new:
            raise GraphError(f"two updates of {v!r} in one evaluation")
    return changes


def _is_constant(new):
    return new is not None and new.value is not None


def _is_computed(new: Variable | None):
    return new is not None and new.value is None
