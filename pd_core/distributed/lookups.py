"""Rows of sharded tables that are looked up before what reads them is evaluated."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..graph.update import Update
from ..graph.variable import Variable
from ..run.host_inputs import supply_before, supply_nothing
from ..run.session import Session
from ..run.targets import computed_variables, flatten


def look_up(
    session: Session,
    targets: Any,
    feeds: Mapping[Variable, np.ndarray] | None,
    training: bool,
) -> dict[Variable, np.ndarray]:
    """Return the feeds by which targets are evaluated later, without the other ranks.

    All ranks call it with the same nested targets, one without rows with `feeds` None. The rows are
    those of now, whatever updates the tables until then.
    """
    flat: list[Variable | Update] = []
    flatten(targets, flat)
    wanted = computed_variables(flat)
    with session:
        if feeds is None:
            supply_nothing(session, wanted, [])
            return {}
        return supply_before(session, wanted, [], feeds, training)
