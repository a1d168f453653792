"""Plans: programs for recorded graphs, and how they are run on the leaves of a trace."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..backend.base import NO_SEAM
from ..graph.update import Update
from ..graph.variable import Variable
from ..run.compiler import Compiler
from ..run.program import Program
from ..run.programs import Source
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

    is_sized = False  # whether it is for certain sizes alone

    def __init__(
        self,
        compiler: Compiler,
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
        fed = {v: np.asarray(v.eager_value) for v in structure.leaves if v.eager_value is not None}
        source = Source(structure, fetches, updates, NO_SEAM, fed, False, [update])
        compiled, is_new = compiler.find(source)
        changes = dict(updates)
        # reads in use, and gradients that nobody has read yet, need the values before
        self.program = Program(compiled, structure, changes, is_new, kept=changes)
        self.updated, self.lengths = self.program.updated, compiled.lengths
        self.knows_lines = is_new  # of what it runs on for the first time
        used = structure.leaves
        self.fed = [places[leaves.get(used[k], used[k])] for k in compiled.fed]
        # a stream that only the update draws from is the session's
        self.draws = [streams.get(s, s) for s in self.program.draws]
        self.recorded = [s in streams for s in self.program.draws]

    def covers(self, trace: Trace) -> bool:
        """Return whether the program is right for the leaves of a trace."""
        return not self.lengths or self.program.covers(trace.arrays(self.fed))

    def run(self, session: Session, trace: Trace) -> list[Any]:
        """Return the values of the fetches on the leaves of a trace; store the updates."""
        arrays = trace.arrays(self.fed)
        draws: Any = self.draws
        if draws:
            own = trace.draws
            pairs = zip(draws, self.recorded, strict=True)
            draws = [own[s] if recorded else s for s, recorded in pairs]
        values = self.program.run(session.store, arrays, draws, keep=True)
        self.knows_lines = False
        return values
