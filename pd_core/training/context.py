"""The context of a runner: what its items share, with checked types."""

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from operator import itemgetter
from typing import Any, Generic, TypeVar, overload

import numpy as np

from ..graph.variable import Variable
from ..run.session import Session

_T = TypeVar("_T")


class _Typed(Generic[_T]):
    """A field of the context that converts what it is set to, or raises TypeError."""

    def __init__(self, kind: type, convert: Callable[[str, Any], _T]):
        self.kind, self.convert = kind, convert

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.slot = name, owner.__dict__[f"_{name}"]

    @overload
    def __get__(self, context: None, owner: type) -> "_Typed[_T]": ...

    @overload
    def __get__(self, context: object, owner: type) -> _T: ...

    def __get__(self, context, owner):
        if context is None:
            return self
        try:
            return self.slot.__get__(context)
        except AttributeError:
            raise AttributeError(f"the context has no {self.name} yet") from None

    def __set__(self, context: object, value: _T) -> None:
        if type(value) is not self.kind:
            value = self.convert(self.name, value)
        self.slot.__set__(context, value)


def _integer(name, value):
    if isinstance(value, Integral) and not isinstance(value, (bool, np.bool_)):
        return int(value)
    raise TypeError(f"context.{name} is an integer, not {value!r}")


def _optional_integer(name, value):
    return None if value is None else _integer(name, value)


def _number(name, value):
    if isinstance(value, Real) and not isinstance(value, (bool, np.bool_)):
        return float(value)
    raise TypeError(f"context.{name} is a number, not {value!r}")


def _optional_number(name, value):
    return None if value is None else _number(name, value)


def _truth(name, value):
    if isinstance(value, np.bool_):
        return bool(value)
    raise TypeError(f"context.{name} is a bool, not {value!r}")


def _numbers(name, value):
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise TypeError(f"context.{name} is a dict of numbers by name, not {value!r}")
    return Numbers(name, value)


class Numbers(dict[str, float]):
    """Numbers by name, converted to float; TypeError for anything else."""

    def __init__(self, name: str, values: Mapping[str, float]):
        self.name = name
        super().__init__({key: _number(f"{name}[{key!r}]", v) for key, v in values.items()})

    def __setitem__(self, key: str, value: float) -> None:
        if not isinstance(key, str):
            raise TypeError(f"context.{self.name} is a dict of numbers by name, not {key!r}")
        super().__setitem__(key, _number(f"{self.name}[{key!r}]", value))


class _LazyNumbers(_Typed[Numbers]):
    """Numbers by name, or a function that returns them, which is called when they are read."""

    def __init__(self) -> None:
        super().__init__(Numbers, _numbers_or_function)

    def __get__(self, context, owner):
        value = super().__get__(context, owner)
        if callable(value):
            value = Numbers(self.name, value())
            self.slot.__set__(context, value)
        return value


def _numbers_or_function(name, value):
    return value if callable(value) else _numbers(name, value)


class RunnerContext:
    """What the items of a runner share.

    Fields convert numbers of numpy, and raise TypeError for values of another type. There are no
    other fields: a misspelt name is an AttributeError.
    """

    pass_id = _Typed(int, _integer)  # number of the current pass, from 0; -1 before the first
    batch_id = _Typed(int, _integer)  # number of the current batch in its pass, from 0
    batches = _Typed(int, _integer)  # finished batches of all passes
    samples = _Typed(int, _integer)  # samples of these
    batch_size = _Typed(int, _integer)  # samples of the current batch
    num_passes = _Typed(int, _optional_integer)  # passes to run, None if unknown
    pass_batches = _Typed(int, _optional_integer)  # batches of a pass, None if unknown
    cost = _Typed(float, _number)  # of the last batch, per sample
    # by which learning rates are multiplied, None if they are not
    rate_factor: _Typed[float | None] = _Typed(float, _optional_number)
    metrics = _LazyNumbers()  # of the last batch, by name
    pass_metrics = _Typed(Numbers, _numbers)  # of the pass so far
    test_metrics = _Typed(Numbers, _numbers)  # of the last test, `cost` among them
    wants_gradients = _Typed(bool, _truth)  # whether this batch is to fill `gradients`
    is_in_pass = _Typed(bool, _truth)  # whether a pass has begun that has not ended
    is_stopped = _Typed(bool, _truth)  # whether the training ends after this batch

    # Slots reject misspelt names, and are set without a call of Python.
    __slots__ = (
        *(f"_{name}" for name, field in vars().items() if isinstance(field, _Typed)),
        *("batch", "costs", "data", "feeds", "forward", "gradients", "parameters", "runner"),
        *("session", "settings", "_deferred", "__weakref__"),
    )
    runner: Any  # the Runner, whose `items` and `save(path)` items use
    session: Session
    parameters: dict[str, Variable]  # what is trained, by name
    costs: list[Variable]
    gradients: dict[str, np.ndarray]  # of the last batch that wanted them, by parameter
    settings: dict[str, str | int | float | bool]  # of the run, for logs and reports
    data: Any  # the item that reads batches
    batch: Any  # what it has read
    feeds: Any  # the same as feeds of an evaluation
    forward: Any  # the item that computes, to which updates and metrics attach

    def __init__(self) -> None:
        self.pass_id = self.batch_id = -1
        self.batches = self.samples = self.batch_size = 0
        self.num_passes = self.pass_batches = self.rate_factor = None
        self.metrics = Numbers("metrics", {})
        self.pass_metrics = Numbers("pass_metrics", {})
        self.test_metrics = Numbers("test_metrics", {})
        self.wants_gradients = self.is_in_pass = self.is_stopped = False
        self.parameters, self.costs, self.gradients, self.settings = {}, [], {}, {}
        self.data = self.batch = self.feeds = self.forward = None
        self._deferred: list[tuple[bool, Callable[[], None]]] = []

    def stop(self) -> None:
        """End the training after this batch."""
        self.is_stopped = True

    def after(self, function: Callable[[], None], last: bool = False) -> None:
        """Call a function when all items are through with what is going on: a batch, a pass, …

        With `last` it is called after the functions without: to save what these have changed.
        """
        self._deferred.append((last, function))

    @property
    def has_deferred(self) -> bool:
        """Whether `after` was called since the last `call_deferred`."""
        return bool(self._deferred)

    def call_deferred(self) -> None:
        """Call the functions that were given to `after`."""
        deferred, self._deferred = self._deferred, []
        for _, function in sorted(deferred, key=itemgetter(0)):
            function()
