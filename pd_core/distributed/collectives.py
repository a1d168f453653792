"""Operations in which all ranks take part: values from one rank, sums over all."""

import gc
import pickle
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ..graph.namespace import persistent_variables
from ..graph.variable import Variable
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

    `op` is "sum", "mean" or "max". Numbers are added in the order of the ranks: the result has the
    same bits on all of them, and in every run. The mean of integers is float64.
    """
    if op not in _FUNCTIONS:
        raise ValueError(f"allreduce: op is one of {', '.join(_FUNCTIONS)}, not {op!r}")
    world, own = current().world, np.asarray(array)
    if own.dtype.kind not in "iuf":
        raise TypeError(f"allreduce: takes numbers, not {own.dtype}")
    if op == "mean" and own.dtype.kind != "f":
        own = own.astype(np.float64)
    world.barrier(ALLREDUCE, Description([f"op={op}", f"{own.dtype}{list(own.shape)}"]))

    def operation():
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
    current().samples = samples


def no_sync() -> AbstractContextManager[None]:
    """Return a context in which training steps add up gradients instead of updating.

    The next step outside of it adds its own gradients to the sum, exchanges it and updates. Other
    assignments of a step, such as moving statistics, are made in each of them.
    """
    return current().no_sync()
