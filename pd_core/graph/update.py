"""Updates: targets that change what a session stores."""

from collections.abc import Iterable

from .arrays import as_array
from .errors import DTypeError, GraphError, ShapeError
from .node import ancestors
from .recording import recorder
from .variable import Operand, Variable


class Update:
    """A target that changes what the session stores, and evaluates to None.

    `assignments` store computed values; `initialize` are variables whose initial value is drawn
    again. `training` makes the evaluation a training step: mode switches take their training side.
    `gradients` are the (parameter, gradient) pairs that the assignments are computed from, which a
    session may exchange in between; a gradient is a Variable or a tuple of them, such as the rows
    and values of a row-sparse one, in which a row may occur twice. `is_due`, a bool
    scalar, says which evaluations update parameters; None for all of them. `settings` are lines of
    text on what the assignments were built from, for errors.
    """

    def __init__(
        self,
        assignments: Iterable["Assignment"] = (),
        initialize: Iterable[Variable] = (),
        training: bool = False,
        gradients: Iterable[tuple[Variable, Variable | tuple[Variable, ...]]] = (),
        is_due: Variable | None = None,
        settings: Iterable[str] = (),
    ) -> None:
        self.assignments, self.initialize = tuple(assignments), tuple(initialize)
        self.training, self.gradients, self.is_due = training, tuple(gradients), is_due
        self.settings = tuple(settings)
        owners = (a.owner for a in self.assignments)
        self.owners = tuple(dict.fromkeys(v for v in owners if v is not None))

    def __repr__(self) -> str:
        counts = {
            "parameters": len(self.owners),
            "other_values": len(self.assignments) - len(self.owners),
            "initial_values": len(self.initialize),
        }
        return f"Update({', '.join(f'{what}={n}' for what, n in counts.items() if n)})"

    def including(self, assignments: Iterable["Assignment"]) -> "Update":
        """Return the same update with more assignments."""
        assignments = (*self.assignments, *assignments)
        return Update(
            assignments,
            self.initialize,
            self.training,
            self.gradients,
            self.is_due,
            self.settings,
        )

    def variables(self) -> list[Variable]:
        """Return its own state: the variables that it assigns besides the parameters it trains.

        For the Update of an optimizer these are the slots, by parameter, and the counters.
        """
        assigned = dict.fromkeys(a.variable for a in self.assignments)
        return [v for v in assigned if v not in self.owners]


def effects(targets: Iterable[Variable]) -> list["Assignment"]:
    """Return the assignments that training steps on these targets make besides their own.

    Such as the moving statistics of batch normalization.
    """
    return [a for node in ancestors(targets) for a in node.effects]


class Assignment:
    """A new value for a persistent variable; skipped while `owner` is not trainable.

    `is_effect` is true of what a training step assigns besides its update, see `effects`.
    """

    __slots__ = ("is_effect", "owner", "value", "variable")

    def __init__(
        self,
        variable: Variable,
        value: Variable,
        owner: Variable | None = None,
        is_effect: bool = False,
    ) -> None:
        if not variable.is_persistent:
            raise GraphError(f"assign: {variable!r} keeps no value that could be set")
        if variable.dtype != value.dtype:
            raise DTypeError(f"assign: {variable!r} cannot take {value!r}")
        if variable.rank != value.rank or any(
            a != b for a, b in zip(variable.dims, value.dims, strict=True) if isinstance(b, int)
        ):
            raise ShapeError(f"assign: {variable!r} cannot take {value!r}")
        self.variable, self.value, self.owner = variable, value, owner
        self.is_effect = is_effect


def assign(variable: Variable, value: Operand) -> Update:
    """Return a target that stores `value` (Variable, array or number) in a persistent variable.

    Inside `pd.guard()` it is stored at once, and the target does nothing.

    Args:
        variable: a persistent Variable.
        value: a value of its shape.

    Returns:
        An Update for `eval`; an empty one inside `pd.guard()`.

    Raises:
        GraphError: the variable keeps no value.
        ShapeError: the value has another shape.
        TypeError: `variable` is no Variable.
    """
    if not isinstance(variable, Variable):
        raise TypeError(f"assign: variable is a Variable, not {variable!r}")
    recording = recorder()
    if not isinstance(value, Variable):
        array = as_array(value, variable.dtype, f"assign: {variable!r}")
        value = Variable.of(array.shape, array.dtype, "const", value=array)
    assignment = Assignment(variable, value)
    if recording is None:
        return Update([assignment])
    recording.store(variable, value)
    return Update()
