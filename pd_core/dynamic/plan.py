"""Plans: programs for recorded graphs, found by structure and run on the leaves of a trace."""

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import ref

import numpy as np

from ..backend.base import NO_SEAM
from ..graph.update import Update
from ..graph.variable import Variable
from ..run.profiling.profile import current_profile
from ..run.programs import program_cache
from ..run.session import Session
from ..run.structure import Structure
from .trace import Trace

# Fetches, updates, what the fetches are, and the update of an optimizer that they belong to: one
# without assignments where there are only gradients.
Targets = tuple[Sequence[Variable], Sequence[tuple[Variable, Variable]], Any, Update]


class Plan:
    """A program, and where its inputs are among the leaves and draws of a trace.

    Holds persistent variables weakly and nothing of the graph that it was made for.
    """

    def __init__(
        self,
        session: Session,
        trace: Trace,
        targets: Targets,
        structure: Structure | None,
        leaves: Mapping[Variable, Variable],
    ) -> None:
        """`structure` is that of the targets, if known.

        `leaves` are the leaves of the trace by those that stand for them in the targets.
        """
        fetches, updates, self.result, update = targets
        structure = structure or Structure(fetches, updates, NO_SEAM, (), False)
        places = {v: k for k, v in enumerate(trace.leaves)}
        streams = {s: k for k, s in enumerate(trace.draws)}
        profile = current_profile()
        cache = program_cache(session.backend) if profile is None else profile.programs([update])
        fed = {v: np.asarray(v.held) for v in structure.leaves if v.held is not None}
        program = cache.get(structure, fed)
        self.compiled = program is None
        if program is None:
            whole = fetches, updates, NO_SEAM
            program = cache.compile(session.backend, structure, whole, fed, False)
        self.program = program
        used = structure.leaves
        self.fed = [places[leaves.get(used[k], used[k])] for k in program.fed]
        states, updated = ([used[k] for k in ks] for ks in (program.states, program.updated))
        self.states, self.updated = list(map(ref, states)), list(map(ref, updated))
        draws = [structure.draws[k] for k in program.draws]
        # a stream that only the update draws from is the session's
        self.draws = [streams.get(s, s) for s in draws]
        self.recorded = [s in streams for s in draws]
        self.operators = program.operators
        self.executable = None
        if program.compiled is not None:
            self.executable = program.compiled.bind(states, updated)
        self.constants = [(ref(v), new.value) for v, new in updates if new.value is not None]
        self.initialized = False
        self.covered: set[tuple] = set()  # shapes of feeds that the program is right for

    def covers(self, trace: Trace) -> bool:
        """Return whether the program is right for the leaves of a trace."""
        if not self.program.lengths:
            return True
        shapes = tuple([np.shape(trace.leaves[k].held) for k in self.fed])
        if shapes not in self.covered:
            if not self.program.covers(shapes):
                return False
            self.covered.add(shapes)
        return True

    def run(self, session: Session, trace: Trace) -> list[Any]:
        """Return the values of the fetches on the leaves of a trace; store the updates."""
        leaves = trace.leaves
        arrays = [leaves[k].held for k in self.fed]
        draws = [
            trace.draws[s] if recorded else s
            for s, recorded in zip(self.draws, self.recorded, strict=True)
        ]
        values = session.run_recorded(self, arrays, draws)
        self.compiled = False
        return values
