"""Supplied Variables: feeds that a function on the host computes before an evaluation.

What an evaluation reads from elsewhere, such as rows that other processes have, depends on values
that are known only when it begins. A Variable with a `supplier` is fed by it: the Variables that
the supplier asks for are evaluated first, with the same feeds and stored values.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import ref

import numpy as np

from ..backend.base import NO_SEAM
from ..graph.update import Update
from ..graph.variable import Variable
from .step import changes_of, computed_changes, step_key
from .structure import Structure


class Supplier(Protocol):
    """Function on the host that computes the values of the Variables with this `supplier`."""

    @property
    def name(self) -> str: ...

    def sources(self, wanted: Sequence[Variable]) -> list[Variable]:
        """Return the Variables that the values of `wanted` depend on."""

    def supply(
        self, session: Any, wanted: Sequence[Variable], arrays: Mapping[Variable, np.ndarray]
    ) -> dict[Variable, np.ndarray]:
        """Return the values of `wanted`, given those of the sources."""


class Needs:
    """The supplied Variables that an evaluation reads, by supplier, in the order of their names.

    Suppliers exchange values between processes, whose evaluations may differ in other targets.
    """

    def __init__(self, wanted: Sequence[Variable]):
        groups: dict[Any, list[ref]] = {}
        for v in wanted:
            groups.setdefault(v.supplier, []).append(ref(v))
        self.groups = sorted(groups.items(), key=lambda group: group[0].name)


_in_use: list[bool] = []


def supply_by(supplier: Supplier, variable: Variable) -> Variable:
    """Return a feed slot, after making it a supplied Variable."""
    _in_use[:] = [True]
    variable.supplier = supplier
    return variable


def values_are_supplied() -> bool:
    """Whether there is, or was, a supplied Variable in this process."""
    return bool(_in_use)


@contextmanager
def supplied(
    session: Any,
    run: Callable[..., list],
    fetches: Sequence[Variable],
    updates: Sequence[Update],
    fed: dict[Variable, np.ndarray],
    training: bool,
) -> Iterator[dict[Variable, np.ndarray]]:
    """Return the feeds of an evaluation, which is what the `with` does, with what is supplied.

    `run(fetches, updates, fed, training)` evaluates sources. They and the evaluation draw the same
    random numbers, which count once.
    """
    needs = _needs_of(session, fetches, updates, fed, training)
    if not needs.groups:
        yield fed
        return
    before, drawn = Counter(session.draws), Counter[int]()
    every = dict(fed)
    try:
        for supplier, references in needs.groups:
            wanted: list[Any] = [v() for v in references]
            sources = list(dict.fromkeys(supplier.sources(wanted)))
            unknown = [v for v in sources if v not in fed]
            arrays = {v: fed[v] for v in sources if v in fed}
            session.draws = Counter(before)
            if unknown:
                arrays.update(zip(unknown, run(unknown, [], fed, training), strict=True))
            drawn |= session.draws
            every.update(supplier.supply(session, wanted, arrays))
    finally:
        session.draws = before
    yield every
    session.draws |= drawn


def supply_nothing(session: Any, fetches: Sequence[Variable], updates: Sequence[Update]) -> None:
    """Let the suppliers take part in what other processes evaluate, for no values here."""
    if not values_are_supplied():
        return
    for supplier, references in _needs_of(session, fetches, updates, {}, True).groups:
        wanted: list[Any] = [v() for v in references]
        supply_nothing(session, supplier.sources(wanted), [])
        supplier.supply(session, [], {})


def _needs_of(session, fetches, updates, fed, training):
    key = step_key(fetches, updates, fed, training, NO_SEAM)
    needs = session.needs.get(key)
    if needs is None:
        new = computed_changes(changes_of(updates))
        leaves = Structure(fetches, new, NO_SEAM, fed, training).leaves
        needs = Needs([v for v in leaves if v.supplier is not None and v not in fed])
        session.needs.add(key, needs)
    return needs
