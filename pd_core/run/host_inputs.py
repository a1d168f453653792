"""Host inputs: feeds that a function on the host computes before an evaluation.

What an evaluation reads from elsewhere, such as rows that other processes have, depends on values
that are known only when it begins. A Variable with a `supplier` is fed by it: the Variables that
the supplier asks for are evaluated first, with the same feeds and stored values.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol
from weakref import ref

import numpy as np

from ..backend.base import NO_SEAM
from ..graph.update import Update
from ..graph.variable import Variable
from .changes import changes_of, computed_changes
from .observer import Observer
from .request import Request
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
    """The host inputs that an evaluation reads, by supplier, in the order of their names.

    Suppliers exchange values between processes, whose evaluations may differ in other targets.
    """

    def __init__(self, wanted: Sequence[Variable]):
        groups: dict[Any, list[ref]] = {}
        for v in wanted:
            groups.setdefault(v.feed.supplier, []).append(ref(v))
        self.groups = sorted(groups.items(), key=lambda group: group[0].name)


in_use: list[bool] = []  # whether there is, or was, a host input in this process


def supply_by(supplier: Supplier, variable: Variable) -> Variable:
    """Return a feed slot, after making it a host input."""
    in_use[:] = [True]
    variable.feed = replace(variable.feed, supplier=supplier)
    return variable


class HostInputs(Observer):
    """Feeds an evaluation with its host inputs.

    The sources, which are evaluated before, and the evaluation draw the same random numbers, which
    count once.
    """

    @staticmethod
    def takes_part(session: Any, request: Request) -> bool:
        """Return whether there are host inputs."""
        return bool(in_use) and not request.recorded

    def start(self) -> None:
        """Evaluate the sources, and feed what is computed from them."""
        supplied, self._drawn = _supplied(self.session, self.request)
        if supplied:
            self.request.fed = {**self.request.fed, **supplied}

    def after(self, results: list[Any] | None) -> None:
        """Count the draws of the sources."""
        if results is not None:
            self.session.store.draws |= self._drawn


def supply_before(
    session: Any,
    fetches: Sequence[Variable],
    updates: Sequence[Update],
    fed: Mapping[Variable, np.ndarray],
    training: bool,
) -> dict[Variable, np.ndarray]:
    """Return the host inputs of an evaluation that is made later, and is given them as feeds."""
    if not in_use:
        return {}
    return _supplied(session, Request(fetches, updates, dict(fed), training))[0]


def _supplied(session: Any, request: Request) -> tuple[dict[Variable, np.ndarray], Counter[int]]:
    """Return the host inputs of a request that are not fed, and the draws of their sources."""
    store, drawn = session.store, Counter[int]()
    before, given = store.draws, request.fed
    every: dict[Variable, np.ndarray] = {}
    try:
        for supplier, references in _needs_of(session, request).groups:
            wanted: list[Any] = [v() for v in references]
            sources = list(dict.fromkeys(supplier.sources(wanted)))
            store.draws = Counter(before)
            unknown = [v for v in sources if v not in given]
            arrays = {v: given[v] for v in sources if v in given}
            if unknown:
                asked = Request(unknown, [], dict(given), request.training)
                arrays.update(session.evaluate(asked))
            drawn |= store.draws
            every.update(supplier.supply(session, wanted, arrays))
    finally:
        store.draws = before
    return every, drawn


def supply_nothing(session: Any, fetches: Sequence[Variable], updates: Sequence[Update]) -> None:
    """Let the suppliers take part in what other processes evaluate, for no values here."""
    if not in_use:
        return
    for supplier, references in _needs_of(session, Request(fetches, updates, {}, True)).groups:
        wanted: list[Any] = [v() for v in references]
        supply_nothing(session, supplier.sources(wanted), [])
        supplier.supply(session, [], {})


def _needs_of(session: Any, request: Request) -> Needs:
    cache, key = session.compiler.cache, request.key("host inputs")
    needs = cache.get(key)
    if needs is None:
        new, fed = computed_changes(changes_of(request.updates)), request.fed
        leaves = Structure(request.fetches, new, NO_SEAM, fed, request.training).leaves
        needs = Needs([v for v in leaves if v.feed.supplier is not None and v not in fed])
        cache.add(key, needs, request.owners())
    return needs
