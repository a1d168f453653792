"""Errors of evaluations: the line that built the operator, and an index that is outside."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend.base import Backend, Seam
from ..graph.errors import BackendError
from ..graph.node import ancestors
from ..graph.update import Update
from ..graph.variable import Variable
from .index_errors import explained, is_index_error
from .programs import build_graph
from .step import Step, changes_of, computed_changes
from .structure import Structure


def failure(
    error: BackendError,
    session: Any,
    knows_lines: bool,
    fetches: Sequence[Variable],
    updates: Sequence[Update],
    seam: Seam,
    fed: dict[Variable, np.ndarray],
    training: bool,
) -> BackendError:
    """Return the error of a program, to be raised: OutOfRange if an index was outside.

    `knows_lines` if the program was compiled for these targets: others have lines of their own.
    """
    if not knows_lines and error.place is not None:
        error = located(error, session.backend, fetches, updates, seam, fed, training)
    if not is_index_error(error):
        return error

    def compute(variables):
        if all(v in fed for v in variables):
            return [fed[v] for v in variables]
        try:
            return session.peek(Step(session.backend, variables, [], fed, training), fed)
        except BackendError:  # of an operator before: its own index is found first
            return None

    computed = computed_changes(changes_of(updates))
    return explained(error, ancestors([*fetches, *(new for _, new in computed)], fed), compute)


def located(
    error: BackendError,
    backend: Backend,
    fetches: Sequence[Variable],
    updates: Sequence[Update],
    seam: Seam,
    fed: dict[Variable, np.ndarray],
    training: bool,
) -> BackendError:
    """Return an error with the line that built these targets.

    A cached program knows only the lines of the targets that it was first compiled for.
    """
    computed = computed_changes(changes_of(updates))
    constants = Structure(fetches, computed, seam, fed, training).constants
    graph, values = build_graph(fetches, computed, seam, fed, training, backend, constants)
    stage, index = error.place  # type: ignore[misc]  # callers have checked that it has one
    operator, site = backend.sites(graph, values)[stage][index]
    return BackendError(error.text, operator, site, error.place)
