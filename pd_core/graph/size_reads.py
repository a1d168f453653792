"""Recording of the tensor sizes that compilation depends on, so that a program serves other sizes.

A compiler may read a size to compare it with a threshold, or only to tell whether two are the same.
If nothing has read a size itself, the program for another one is the same with that size in its
place. A `Variable` that is made meanwhile records each read of its `dims` as one of the sizes
themselves. Whoever only compares sizes with each other, with 0 and with 1, or hands them on to the
types of other Variables, takes `symbolic_dims`; whoever asks a question about sizes whose answer
may be the same for others takes `holds`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .variable import Dim, Dims, Variable, size_reads, static

_SMALL = 64  # numbers in a constant that may be sizes


class SizeReads:
    """The reads of sizes in a `with` block of one thread.

    `fixed` are the sizes that were read themselves, and all others that are beside them without
    being those of a graph, such as those of constants: the same program is for other sizes only if
    these stay, and none becomes one of them. `conditions` are (test, sizes, answer).
    """

    def __init__(self) -> None:
        self.fixed: set[int] = set()
        self.conditions: list[tuple[Callable[..., bool], tuple[int, ...], bool]] = []
        self.filled: dict[str, tuple[Dims, Any]] = {}  # see `filled`, by name in the model
        self.results: Counter[tuple[Dims, int]] = Counter()  # (dims, bytes of an element)

    def __enter__(self) -> "SizeReads":
        self._token = size_reads.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        size_reads.reset(self._token)

    def fix(self, dims: Iterable[Dim]) -> None:
        """Note that a program is for these sizes only."""
        self.fixed.update([d for d in dims if isinstance(d, int)])

    def fix_constant(self, array: np.ndarray) -> None:
        """Note that a program has a constant: its shape, and numbers that may be sizes."""
        self.fixed.update(array.shape)
        if array.dtype.kind in "iu" and array.size <= _SMALL:
            self.fixed.update(array.reshape(-1).tolist())

    def new(self, state: Mapping[str, Any]) -> Variable:
        """Return a Variable without attributes yet, which is to get these."""
        if state.get("value") is not None:
            self.fix_constant(state["value"])
        return RecordedVariable.__new__(RecordedVariable)

    def stand_in(self, v: Variable) -> Variable:
        """Return a Variable with the attributes of another one."""
        new = RecordedVariable.__new__(RecordedVariable)
        vars(new).update(vars(v))
        return new

    def renamed(self, old: Sequence[int], new: Sequence[int]) -> dict[Dim, Dim] | None:
        """Return the sizes that others take the place of; None if the program is not for them.

        `old` and `new` are sizes above 1, each once.
        """
        renamed: dict[Dim, Dim] = {a: b for a, b in zip(old, new, strict=True) if a != b}
        if not self.fixed.isdisjoint(renamed) or not self.fixed.isdisjoint(renamed.values()):
            return None
        for test, sizes, answer in self.conditions:
            if test(*[renamed.get(n, n) for n in sizes]) != answer:
                return None
        return renamed


class RecordedVariable(Variable):
    """A Variable of which each read of the sizes is recorded."""

    @property
    def dims(self) -> Dims:  # type: ignore[override]
        """The sizes themselves."""
        dims: Dims = self.__dict__["dims"]
        reads = size_reads.get()
        if reads is not None:
            reads.fix(dims)
        return dims

    @property
    def symbolic_dims(self) -> Dims:
        """The sizes, to compare them with each other, and to hand them on."""
        dims: Dims = self.__dict__["dims"]
        return dims

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.__dict__["dims"])

    ndim = rank

    @property
    def is_static(self) -> bool:
        """Whether every size is known."""
        return all(isinstance(d, int) for d in self.__dict__["dims"])


class Filled(RecordedVariable):
    """A constant whose sizes, or numbers, are sizes: see `filled`. It has no `value`."""

    filling: tuple[Dims, Any]

    def array(self) -> np.ndarray:
        """Return the data."""
        return filled_array(*self.filling, self.dtype)


def filled(dims: Dims, value: Any, dtype: DTypeLike) -> Filled:
    """Return a constant of these sizes, all elements `value`; the sizes as a vector if it is None.

    The sizes are `symbolic_dims`: it is another constant in the program for others.
    """
    out = Filled.of(dims if value is not None else (len(dims),), dtype, "const")
    out.filling = dims, value
    return out


def filled_array(dims: Dims, value: Any, dtype: np.dtype) -> np.ndarray:
    """Return the data of what `filled` makes."""
    return np.array(dims, dtype) if value is None else np.full(static(dims), value, dtype)


def holds(test: Callable[..., bool], dims: Iterable[Dim]) -> bool:
    """Return test(the numbers among some sizes): the same program is for sizes of one answer."""
    sizes = tuple([d for d in dims if isinstance(d, int)])
    answer, reads = test(*sizes), size_reads.get()
    if reads is not None:
        reads.conditions.append((test, sizes, answer))
    return answer


def at_most(dims: Iterable[Dim], most: int, times: int = 1) -> bool:
    """Return whether the product of the numbers among some sizes, and a factor, is so small."""
    return holds(lambda *sizes: times * prod(sizes) <= most, dims)


def read_sizes(dims: Iterable[Dim]) -> None:
    """Record a read of the numbers among `symbolic_dims`."""
    reads = size_reads.get()
    if reads is not None:
        reads.fix(dims)
