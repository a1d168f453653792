"""Training steps of a rank that has no batch, while others have one."""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from ..graph.errors import GraphError
from ..graph.node import ancestors
from ..graph.update import Update
from ..graph.variable import static
from ..run.exchange import Exchange
from ..run.feeds import Feeds
from ..run.host_inputs import supply_nothing
from ..run.request import Request, request_of
from ..run.session import default_session
from .process import current

_bare: WeakKeyDictionary[Update, Update] = WeakKeyDictionary()


def empty_step(update: Update | Sequence[Update], feeds: Feeds | None = None) -> None:
    """Take part in a training step that other ranks take with data, without a batch.

    `update` are the targets of `eval` there that train, in the same order: one, or several. The
    gradients of this rank have no weight: those of the other ranks are averaged or summed up, and
    parameters and slots are updated as everywhere. Moving statistics stay as they are, and nothing
    is drawn. `feeds` are what the update itself is computed from, such as a fed learning rate. In
    the default session.

    Inside `no_sync()` it takes part in lookups of sharded tables alone; what was added up there
    before is exchanged by the next one outside of it. GraphError if no rank has a batch, for an
    update without gradients, inside `session.exchanging()`, and where a step sums over the ranks
    before its gradients, as batch normalization does with `sync_batch_norm`.
    """
    updates = [update] if isinstance(update, Update) else list(update)
    for u in updates:
        if not u.gradients:
            raise GraphError("empty_step: an update without gradients, which is no training step")
    session, process = default_session(), current()
    if session.observers.exchange is not None:
        raise GraphError(
            "empty_step: inside session.exchanging() the ranks exchange nothing themselves"
        )
    supply_nothing(session, [], updates)
    if not process.accumulating:
        update_without_batch(updates, feeds)


def update_without_batch(updates: Sequence[Update], feeds: Feeds | None) -> None:
    """Take part in an exchange of gradients and in what the updates do with them.

    As `empty_step`, which takes part in lookups before.
    """
    session, process = default_session(), current()
    part = process.of(session)
    if part is None:
        raise GraphError("empty_step: no rank has a batch in this step: there is one rank")
    bare = [_without_effects(u) for u in updates]
    fed = request_of(updates, feeds, True).fed
    exchange = Exchange(part, bare)
    if any(node.op_type == "SumOverRanks" for node in ancestors(exchange.seam)):
        raise GraphError(
            f"empty_step: rank {process.world.rank} has no batch, and the step sums over the ranks "
            "before its gradients\n  hint: with sync_batch_norm every rank needs rows of each batch"
        )
    for w, gradient in exchange.gradients.items():
        fed.update(_zeros(w, gradient))
    with part.without_batch(updates):
        session.evaluate(Request([], bare, fed, True, computed=True))


def _without_effects(update):
    """The update alone: no moving statistics, nothing that is drawn again."""
    if update not in _bare:
        own = [a for a in update.assignments if not a.is_effect]
        _bare[update] = Update(own, training=True, gradients=update.gradients)
    return _bare[update]


def _zeros(w, gradient):
    """{Variable: array} for a gradient: zeros, or no rows of a row-sparse one."""
    if not isinstance(gradient, tuple):
        return {gradient: np.zeros(static(w.dims), gradient.dtype)}
    rows, values = gradient
    no_values = np.zeros((0, *static(w.dims)[1:]), values.dtype)
    return {rows: np.zeros(0, rows.dtype), values: no_values}
