"""Nested targets of evaluations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, cast, overload

import numpy as np

from ..graph.update import Update
from ..graph.variable import Variable
from .feeds import Feeds

# What `eval` takes; its result has the same nesting, with an array for each Variable and None for
# each Update.
Targets: TypeAlias = Variable | Update | Sequence["Targets"] | Mapping[Any, "Targets"]

_Key = TypeVar("_Key")


class Evaluation(Protocol):
    """The types of `eval`, by those of its targets, for type checkers.

    In lists, tuples and dicts of other targets than Variables alone, the elements are not told
    apart.
    """

    @overload
    def __call__(
        self, targets: Variable, feeds: Feeds | None = None, training: bool | None = None
    ) -> np.ndarray: ...

    @overload
    def __call__(
        self, targets: Update, feeds: Feeds | None = None, training: bool | None = None
    ) -> None: ...

    @overload
    def __call__(
        self, targets: list[Variable], feeds: Feeds | None = None, training: bool | None = None
    ) -> list[np.ndarray]: ...

    @overload
    def __call__(
        self,
        targets: tuple[Variable, ...],
        feeds: Feeds | None = None,
        training: bool | None = None,
    ) -> tuple[np.ndarray, ...]: ...

    @overload
    def __call__(
        self,
        targets: dict[_Key, Variable],
        feeds: Feeds | None = None,
        training: bool | None = None,
    ) -> dict[_Key, np.ndarray]: ...

    @overload
    def __call__(
        self, targets: tuple[Targets, ...], feeds: Feeds | None = None, training: bool | None = None
    ) -> tuple[Any, ...]: ...

    @overload
    def __call__(
        self, targets: list[Targets], feeds: Feeds | None = None, training: bool | None = None
    ) -> list[Any]: ...

    @overload
    def __call__(
        self, targets: Sequence[Targets], feeds: Feeds | None = None, training: bool | None = None
    ) -> Sequence[Any]: ...

    @overload
    def __call__(
        self,
        targets: Mapping[_Key, Targets],
        feeds: Feeds | None = None,
        training: bool | None = None,
    ) -> dict[_Key, Any]: ...


class EvaluationMethod(Protocol):
    """The same of a method."""

    def __get__(self, x: Any, owner: Any) -> Evaluation: ...


def evaluation(function: Callable[..., Any]) -> Evaluation:
    """Decorate a function that has the types of an Evaluation."""
    return cast(Evaluation, function)


def evaluation_method(function: Callable[..., Any]) -> EvaluationMethod:
    """Decorate a method that has the types of an Evaluation."""
    return cast(EvaluationMethod, function)


def computed_variables(targets: Sequence[Variable | Update]) -> list[Variable]:
    """Return the Variables among targets, and the new values of the Updates."""
    updates = [t for t in targets if isinstance(t, Update)]
    new = [a.value for u in updates for a in u.assignments]
    return [t for t in targets if isinstance(t, Variable)] + new


def flatten(targets: Targets, out: list[Variable | Update]) -> None:
    """Append the Variables and Updates of nested targets to a list."""
    if isinstance(targets, (Variable, Update)):
        out.append(targets)
    elif isinstance(targets, (list, tuple)):
        for t in targets:
            flatten(t, out)
    elif isinstance(targets, dict):
        for t in targets.values():
            flatten(t, out)
    else:
        raise TypeError(f"a target is a Variable or an Update, not {targets!r}")


def restructure(targets: Targets, values: Iterator[Any]) -> Any:
    """Return values, in the order of the Variables and Updates, in the nesting of the targets."""
    if isinstance(targets, (Variable, Update)):
        return next(values)
    if isinstance(targets, dict):
        return {k: restructure(t, values) for k, t in targets.items()}
    kind: Any = type(targets)
    if kind is list:
        return [restructure(t, values) for t in targets]
    make = getattr(kind, "_make", kind)  # a named tuple takes its fields as separate arguments
    return make([restructure(t, values) for t in targets])
