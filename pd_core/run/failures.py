"""Errors of evaluations: the line that built the operator, and an index that is outside."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend.base import Backend
from ..graph.errors import BackendError
from ..graph.node import ancestors
from ..graph.variable import Variable
from .changes import changes_of, computed_changes
from .index_errors import explained, is_index_error
from .programs import Source
from .request import Request


def failure(error: BackendError, session: Any, request: Request) -> BackendError:
    """Return the error of a program, to be raised: OutOfRange if an index was outside.

    If it was not compiled for these very targets, the error gets their lines.
    """
    program, fed = request.program, request.fed
    if program is not None:
        fed = {**program.inputs.held, **fed}
    fetches, updates, training = request.fetches, request.updates, request.training
    computed = computed_changes(changes_of(updates))
    if program is not None and not program.has_lines and error.place is not None:
        source = Source.of(fetches, computed, request.seam, fed, training)
        error = located(error, session.backend, source)
    if not is_index_error(error):
        return error

    def compute(variables: Sequence[Variable]) -> list[np.ndarray] | None:
        if all(v in fed for v in variables):
            return [fed[v] for v in variables]
        try:
            return session.compiler.new(Request(variables, [], fed, training)).peek(
                session.store, fed
            )
        except BackendError:  # of an operator before: its own index is found first
            return None

    return explained(error, ancestors([*fetches, *(new for _, new in computed)], fed), compute)


def located(error: BackendError, backend: Backend, source: Source) -> BackendError:
    """Return an error with the line that built what a program was made of.

    A cached program knows only the lines of the targets that it was first compiled for.
    """
    stage, index = error.place  # type: ignore[misc]  # callers have checked that it has one
    operator, site = backend.sites(*source.graph(backend))[stage][index]
    return BackendError(error.text, operator, site, error.place)
