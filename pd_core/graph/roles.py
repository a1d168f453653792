"""The roles that a Variable may have: small records, which are replaced and never changed.

A Variable without a role shares the record of defaults, so that roles cost nothing but where they
are used.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # they are above
    from .variable import Dim, GradientFunction, Variable


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """How optimizers treat a parameter."""

    learning_rate: float = 1.0  # a factor of the optimizer's
    regularizer: "GradientFunction | None" = None  # instead of the optimizer's
    clip: "GradientFunction | None" = None  # instead of the optimizer's
    row_sparse: bool = False  # whether only the rows that a step gathers are updated
    uses: Sequence[Any] = ()  # updates of static graphs that train it


@dataclass(frozen=True, slots=True)
class Feed:
    """Properties of a feed slot besides its type."""

    counts: "Dim | None" = None  # of sequence lengths: the name of the size that is their sum
    supplier: Any = None  # what computes its value on the host, see `run.host_inputs`
    unfeedable: Exception | None = None  # the error if a target needs it and it cannot be fed


@dataclass(frozen=True, slots=True)
class Storage:
    """Where the value of persistent state is, besides the session."""

    table: Any = None  # the ShardedTable of whose rows it has a value for each
    setting: Any = None  # the Setting that it stands for
    state: Callable[[], Any] | None = None  # of a read: refers to the recorded state of a session
    integers: "Callable[[], Variable] | None" = None  # builds it from what a file stored


class History(NamedTuple):
    """The effect of `backward` on the recorded graph behind a Variable.

    A tuple, since steps inside `pd.guard()` make them: a frozen dataclass takes four times as long.
    """

    ended: bool = False  # whether the graph behind it was used up
    parameters: "Sequence[Variable] | None" = None  # of a cost: those that got a gradient


NO_OPTIONS, NO_FEED, NO_STORAGE, NO_HISTORY = TrainingOptions(), Feed(), Storage(), History()
