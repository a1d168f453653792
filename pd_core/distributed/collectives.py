"""Operations in which all ranks take part: values from one rank, sums over all."""

import gc
import pickle
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ..graph.errors import DTypeError, GraphError, ShapeError
from ..graph.namespace import persistent_variables
from ..graph.variable import Variable, static
from ..run.session import default_session
from .buffers import Buffer
from .exchange import send_values
from .process import current
from .world import ALLGATHER, ALLREDUCE, BROADCAST, Description

T = TypeVar("T")

_FUNCTIONS = {"sum": np.add, "mean": np.add, "max": np.maximum}


def broadcast(variables: Iterable[Variable] | None = None, root: int = 0) -> None:
    """Give all ranks the values that persistent variables have on the rank `root`.

    By default all variables but the rows of sharded tables; in the default session. The first step
    of a session does it for those that it reads, from rank 0.
    """
    exchange, session = current(), default_session()
    world = exchange.world
    if not 0 <= root < world.size:
        raise ValueError(f"broadcast: root is a rank below {world.size}, not {root}")
    if variables is None:
        gc.collect()  # the collectors of the ranks have not found the same dropped graphs
        variables = [v for v in persistent_variables() if not v.is_shard]
    every = list(variables)
    lines = [f"root={root}", *(f"{v.name}: {v.dtype}{list(v.dims)}" for v in every)]
    world.barrier(BROADCAST, Description(lines))
    for v, array in zip(
        every, send_values(world, session, every, root, "broadcast()"), strict=True
    ):
        session.set(v, array)


def compare(variables: Iterable[Variable] | None = None) -> None:
    """Check that all ranks have the same values of persistent variables, all bytes of them.

    By default of all that training steps of the default session keep the same: parameters, slots,
    counters. GraphError on all ranks that names variables, ranks and values. All ranks call it.
    """
    part = current().of(default_session())
    if part is not None:
        part.compare(None if variables is None else list(variables), "compare()")


def allreduce(array: ArrayLike, op: str = "sum") -> np.ndarray:
    """Return the sum, mean or maximum over the ranks of arrays of one shape and dtype.

    `op` is "sum", "mean" or "max". Numbers are added in an order that depends on the number of
    ranks alone: the result has the same bits on all of them, and in every run. With
    `init(reproducible=True)` it is exact, and rounded once. The mean of integers is float64.
    """
    if op not in _FUNCTIONS:
        raise ValueError(f"allreduce: op is one of {', '.join(_FUNCTIONS)}, not {op!r}")
    world, own = current().world, np.asarray(array)
    if own.dtype.kind not in "iuf":
        raise TypeError(f"allreduce: takes numbers, not {own.dtype}")
    if op == "mean" and own.dtype.kind != "f":
        own = own.astype(np.float64)
    world.barrier(ALLREDUCE, Description([f"op={op}", f"{own.dtype}{list(own.shape)}"]))

    exactly = current().settings.reproducible and own.dtype.kind == "f" and op != "max"

    def operation():
        if exactly:
            return current().exact_sums([own], world.size if op == "mean" else 1.0)[0]
        (result,) = Buffer(world, [own.shape], own.dtype).reduce([own], function=_FUNCTIONS[op])
        if op == "mean":
            result /= world.size
        return result

    return world.recovering(operation).copy()  # the other ranks may need it as it is


def allgather(value: T) -> list[T]:
    """Return the values of all ranks, in their order: arrays of any shape, or anything picklable.

    Ranks trust each other: what one of them sends is unpickled by the others.
    """
    world = current().world
    if world.size == 1:
        return [value]
    world.barrier(ALLGATHER, Description())
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    every = world.recovering(lambda: world.gather_bytes(data, "allgather()"))
    return [pickle.loads(each) for each in every]  # noqa: S301  the ranks trust each other


def set_batch_size(samples: float | None) -> None:
    """Set the weight of this rank's gradients in the means of the next steps.

    It is the number of samples that its cost is the mean over. With 0 its gradients do not count.
    None is the default: equal weights. Either all ranks have a number or none has.
    """
    if samples is not None and not samples >= 0:
        raise ValueError(f"set_batch_size: a number of samples, not {samples!r}")
    is_whole = samples is None or (samples == int(samples) and samples < 1 << 22)
    if current().settings.reproducible and not is_whole:
        raise ValueError(
            "set_batch_size: with init(reproducible=True) a whole number below 2^22, not "
            f"{samples!r}"
        )
    current().samples = samples


def average_parameters() -> None:
    """Average what the ranks have changed in their local steps so far, see `init(local_steps=)`.

    Parameters and the state of optimizers of the default session are the same on all ranks then,
    as after every `local_steps`-th step. All ranks call it, before parameters are tested or saved;
    Runners and `Module.fit` do it themselves at the end of each pass, for tests and for
    checkpoints. It changes nothing without `local_steps`, or if there was no step.
    """
    part = current().of(default_session())
    if part is not None and part.local.count:
        part.average()


def state() -> dict[str, np.ndarray]:
    """Return what compressed gradients of this rank have lost so far: {parameter: array}.

    It is added to the gradients of the next steps of the default session. A training that goes on
    with the same bits needs it, see `restore`; checkpoints of Runners have that of all ranks.
    """
    part = current().part(default_session())
    return {w.name: np.array(lost) for w, lost in part.errors.items()}


def restore(state: Mapping[str, np.ndarray]) -> None:
    """Go on with what `state` has returned on this rank; all of the default session.

    GraphError for a name that is no parameter, or without `init(compression=...)`; ShapeError and
    DTypeError for an array that does not fit. Then nothing is changed.
    """
    process = current()
    if state and process.settings.compression is None:
        raise GraphError("restore: gradients are not compressed\n  hint: init(compression=...)")
    known = {v.name: v for v in persistent_variables()}
    errors = {}
    for name, array in state.items():
        if name not in known:
            raise GraphError(f"restore: there is no parameter {name!r}")
        v, own = known[name], np.asarray(array)
        if own.shape != static(v.dims):
            raise ShapeError(f"restore: {v!r} cannot take the shape {list(own.shape)}")
        if own.dtype != v.dtype:
            raise DTypeError(f"restore: {v!r} cannot take {own.dtype}")
        errors[v] = np.array(own)
    part = process.part(default_session())
    part.errors.clear()
    part.errors.update(errors)


def no_sync() -> AbstractContextManager[None]:
    """Return a context in which training steps add up gradients instead of updating.

    The next step outside of it adds its own gradients to the sum, exchanges it and updates. Other
    assignments of a step, such as moving statistics, are made in each of them.
    """
    return current().no_sync()
