"""Weights that a file stored as integers, stored as these again as long as they are unchanged."""

from collections.abc import Iterable, Sequence

import numpy as np

from ...backend import program
from ...graph.recording import not_recording
from ...graph.rewrite import substitute
from ...graph.variable import Variable
from ...run.session import Session


def as_stored(targets: Sequence[Variable], session: Session) -> list[Variable]:
    """Return targets that read the integers of a file for weights whose values are still theirs."""
    same = unchanged(program.leaves(targets), session)
    return substitute(targets, same) if same else list(targets)


def unchanged(variables: Iterable[Variable], session: Session) -> dict[Variable, Variable]:
    """Return {weight with the value of the integers of its file: its computation from these}."""
    with not_recording():
        computed = {
            v: v.storage.integers()
            for v in variables
            if v.is_persistent and v.storage.integers is not None
        }
    floats = session.eval(computed, training=False)
    return {v: y for v, y in computed.items() if np.array_equal(session.get(v), floats[v])}
