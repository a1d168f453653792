"""Evaluation in the default session, and what an evaluation would run."""

from collections.abc import Iterable, Sequence
from typing import Any

from ..backend import program
from ..graph.errors import concise
from ..graph.method import provide
from ..graph.namespace import persistent_variables
from ..graph.node import Node, ancestors
from ..graph.update import Update
from ..graph.variable import Variable
from .feeds import Feeds
from .feeds import variable as fed_variable
from .session import default_session
from .targets import Targets, computed_variables, evaluation, flatten


@evaluation
@concise
def eval(targets: Targets, feeds: Feeds | None = None, training: bool | None = None) -> Any:
    """Compute targets in the default session; see `Session.eval`.

    Args:
        targets: a Variable, an update, or nested lists, tuples and dicts of them.
        feeds: {feed slot or its name: array}.
        training: whether modes such as dropout's are those of training; True by default with an
            update.

    Returns:
        Arrays, nested as the targets are; None for an update.

    Raises:
        FeedError: a name that is fed is no variable of the targets, or a value has another kind of
            dtype.
        MissingFeed: a slot that the targets depend on has no array.
        OutOfRange: an index is outside.
        ShapeError: an array does not have the shape of its variable.
        TypeError: a target is no Variable and no update.
    """
    return default_session().eval(targets, feeds, training)


@concise
def run_steps(targets: Targets, feeds: Feeds, training: bool | None = None) -> Any:
    """Run several steps in one call in the default session; see `Session.run_steps`.

    Args:
        targets: a Variable, an update, or nested lists, tuples and dicts of them.
        feeds: {Variable or its name: array [steps, ...]}.
        training: whether modes such as dropout's are those of training; True by default with an
            update.

    Returns:
        Arrays [steps, ...], nested as the targets are; None for an update.

    Raises:
        FeedError: nothing is fed, or a name that is no variable of the targets.
        ShapeError: the feeds are of different numbers of steps, or of none.
    """
    return default_session().run_steps(targets, feeds, training)


def stats() -> dict[str, int]:
    """Return counts of the default session's work so far; see `Session.stats`."""
    return default_session().stats()


def subgraph(
    targets: Targets, feeds: Iterable[Variable | str] = (), training: bool = False
) -> list[Node]:
    """Return the nodes that evaluating these targets would run, in order.

    Args:
        targets: Variables or updates.
        feeds: {Variable or name: array}.
        training: as in `eval`.

    Returns:
        A list of nodes.

    Raises:
        FeedError: a name that is fed is no slot of the targets.
        TypeError: a target is no Variable, or a key no name.
    """
    flat: list[Variable | Update] = []
    flatten(targets, flat)
    variables = computed_variables(flat)
    cut = [fed_variable(key, lambda: variables) for key in feeds]
    return ancestors(program.build(variables, [], cut, training, {}, complete=False).fetches)


def variable_initializers(vars: Sequence[Variable] | None = None) -> Update:
    """Return a target that draws initial values for these variables, or for all, again."""
    return Update(initialize=persistent_variables() if vars is None else vars)


provide(
    val=lambda v: default_session().val(v),
    eval=eval,
    initializer=lambda v: Update(initialize=[v]),
    redraw=lambda v, initializer: default_session().store.redraw(v, initializer),
)
