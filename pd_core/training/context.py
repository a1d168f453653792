"""The context of a runner: what its items share, with checked types."""

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from ..graph.errors import GraphError
from ..graph.variable import Variable
from ..run.session import Session
from ..run.undo import Undo
from .ranks import Ranks


def _typed(name: str, kind: type, optional: bool = False) -> Any:
    """Return a property that converts what it is set to, or raises TypeError.

    Reading it takes no call of Python: a runner reads some twenty of them with each batch.
    """
    slot = f"_{name}"

    def assign(context, value):
        if type(value) is not kind and not (optional and value is None):
            value = _converted(name, value, kind)
        setattr(context, slot, value)

    return property(attrgetter(slot), assign)


def _converted(name, value, kind):
    """The value as an int, a float, a bool or Numbers, where it is one of numpy's."""
    is_truth = isinstance(value, (bool, np.bool_))
    if kind is int and isinstance(value, Integral) and not is_truth:
        return int(value)
    if kind is float and isinstance(value, Real) and not is_truth:
        return float(value)
    if kind is bool and is_truth:
        return bool(value)
    if kind is Numbers and isinstance(value, Mapping):
        return Numbers(name, value)
    raise TypeError(f"context.{name} is {_KINDS[kind]}, not {value!r}")


class Numbers(dict[str, float]):
    """Numbers by name, converted to float; TypeError for anything else.

    Copies and pickles of it are plain dicts.
    """

    def __init__(self, name: str, values: Mapping[str, float]):
        self.name = name
        super().__init__()
        for key, value in values.items():
            self[key] = value

    def __setitem__(self, key: str, value: float) -> None:
        if not isinstance(key, str):
            raise TypeError(f"context.{self.name} has names, not {key!r}")
        super().__setitem__(key, _converted(f"{self.name}[{key!r}]", value, float))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def update(self, *others: Any, **values: float) -> None:
        """Set several numbers, as a dict does."""
        for key, value in dict(*others, **values).items():
            self[key] = value


_KINDS = {int: "an integer", float: "a number", bool: "a bool", Numbers: "a dict of numbers"}


class RunnerContext:
    """The state that the items of a runner share.

    Fields convert numbers of numpy, and raise TypeError for values of another type. There are no
    other fields: a misspelt name is an AttributeError.
    """

    # number of the current pass, from 0; -1 before the first
    pass_id: int = _typed("pass_id", int)
    # number of the current batch in its pass, from 0
    batch_id: int = _typed("batch_id", int)
    # finished batches, and their samples, of all passes
    batches: int = _typed("batches", int)
    samples: int = _typed("samples", int)
    # samples of the current batch, of all ranks together
    batch_size: int = _typed("batch_size", int)
    # passes to run, and batches of a pass, where these are known
    num_passes: int | None = _typed("num_passes", int, optional=True)
    pass_batches: int | None = _typed("pass_batches", int, optional=True)
    # of the last batch, per sample of all ranks
    cost: float = _typed("cost", float)
    # of the pass so far, and of the last test, `cost` among them
    pass_metrics: dict[str, float] = _typed("pass_metrics", Numbers)
    test_metrics: dict[str, float] = _typed("test_metrics", Numbers)
    # by which learning rates are multiplied, None if they are not
    rate_factor: float | None = _typed("rate_factor", float, optional=True)
    # whether this batch is to fill `gradients`
    wants_gradients: bool = _typed("wants_gradients", bool)
    # whether a pass has begun that has not ended
    is_in_pass: bool = _typed("is_in_pass", bool)
    # whether the pass ends after this batch
    is_pass_over: bool = _typed("is_pass_over", bool)
    # whether the training ends after this batch
    is_stopped: bool = _typed("is_stopped", bool)

    # Slots reject misspelt names.
    __slots__ = (
        *(f"_{name}" for name, field in vars().items() if isinstance(field, property)),
        *("batch", "costs", "data", "feeds", "forward", "gradients", "parameters", "ranks"),
        *("runner", "settings", "undo", "_deferred", "_metrics", "_session", "__weakref__"),
    )
    _metrics: Any
    _session: Session | None
    ranks: Ranks | None  # the job that the runner is part of, None for a process alone
    runner: Any  # the Runner, whose `items` and `save(path)` items use
    parameters: dict[str, Variable]  # what is trained, by name
    costs: list[Variable]
    gradients: dict[str, np.ndarray]  # of the last batch that wanted them, by parameter
    settings: dict[str, str | int | float | bool]  # of the run, for logs and reports
    data: Any  # the item that reads batches
    batch: Any  # what it has read: of this rank
    feeds: Any  # the same as feeds of an evaluation
    forward: Any  # the item that computes, to which updates and metrics attach
    undo: Undo | None  # of what was restored, until the first pass has begun

    def __init__(self) -> None:
        self.pass_id = self.batch_id = -1
        self.batches = self.samples = self.batch_size = 0
        self.num_passes = self.pass_batches = self.rate_factor = None
        self.cost = math.nan
        self.metrics = {}
        self.pass_metrics, self.test_metrics = {}, {}
        self.wants_gradients = self.is_in_pass = False
        self.is_pass_over = self.is_stopped = False
        self.parameters, self.costs, self.gradients, self.settings = {}, [], {}, {}
        self._session = self.ranks = self.undo = None
        self.data = self.batch = self.feeds = self.forward = None
        self._deferred: list[tuple[bool, Callable[[], None]]] = []

    @property
    def session(self) -> Session:
        """The session whose values are trained; GraphError if no item has set it."""
        if self._session is None:
            raise GraphError("this runner has no session\n  hint: add a Device() before the others")
        return self._session

    @session.setter
    def session(self, value: Session) -> None:
        if not isinstance(value, Session):
            raise TypeError(f"context.session is a Session, not {value!r}")
        self._session = value

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the last batch, by name.

        They may be set to a function that returns them, which is called when they are read.
        """
        if callable(self._metrics):
            self._metrics = Numbers("metrics", self._metrics())
        return self._metrics

    @metrics.setter
    def metrics(self, value: dict[str, float] | Callable[[], Mapping[str, float]]) -> None:
        self._metrics = value if callable(value) else _converted("metrics", value, Numbers)

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
