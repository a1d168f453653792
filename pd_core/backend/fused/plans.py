"""The plan of a group: what `run_group` of kernels.c does, as numbers.

A compiler takes longer for the same as C than for the loops of the group.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from .sizes import Dims, Size
from .steps import Unfit

_KERNELS = (Path(__file__).parent / "kernels.c").read_text(encoding="utf-8")


def _names(first: str) -> list[str]:
    """The names of an enumeration in kernels.c."""
    found = re.search(rf"enum {{ ({first}[^}}]*) }};", _KERNELS)
    assert found is not None
    return found[1].split(", ")


_CODES = {name: k for k, name in enumerate(_names("SHAPE"))}
Call = tuple[str, int, list[int], Iterable[Size]]  # a function, its call, buffers, sizes
ERRORS = 1 << 30  # the first of the buffers that are marks of an index out of range


class Plan:
    """Numbers, which are C's `Group.plan` in the order of the calls, and what they count.

    Sizes are products of names that shapes of inputs tell; Unfit is raised for any other name.
    """

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.functions: list[str] = []
        self.sizes: dict[Size, int] = {}
        self.calls = self.places = 0

    def shape(self, k: int, dims: Dims) -> None:
        """Read the sizes of input k, and check those that are known."""
        self._add("SHAPE", k, len(dims))
        for axis, d in enumerate(dims):
            if d[0] == 1 and len(d[1]) == 1 and d not in self.sizes:
                self._add("NAME", axis)
                self.sizes[d] = len(self.sizes)
            else:
                size = self.size(d)
                self._add("EQUAL", axis, size)

    def size(self, s: Size) -> int:
        """Return the number of a size, which is worked out unless it is known."""
        if s not in self.sizes:
            for name in s[1]:
                if (1, (name,)) not in self.sizes:
                    raise Unfit(f"size {name}")
            self._add("SIZE", s[0], len(s[1]), *(self.sizes[1, (name,)] for name in s[1]))
            self.sizes[s] = len(self.sizes)
        return self.sizes[s]

    def rounds(self, count: Size, work: Iterable[tuple[float, Size]], block: int) -> int:
        """Divide the rounds of a function between threads; return the number of its call.

        `work` are operations on elements, as products of a number and a size.
        """
        terms = [(round(4 * cost), self.size(s)) for cost, s in work]
        known = self.size(count)
        self._add("ROUNDS", known, block, len(terms), *(n for term in terms for n in term))
        self.calls += 1
        return self.calls - 1

    def place(self, elements: Size, size: int, call: int = -1) -> int:
        """Add elements of so many bytes to the memory; return the number of the buffer.

        With a call each of its parts has so many.
        """
        self._add("PLACE", self.size(elements), size, call)
        self.places += 1
        return -self.places

    def output(self, k: int, dims: Dims) -> None:
        """Make output k."""
        sizes = [self.size(d) for d in dims]
        self._add("OUTPUT", k, len(dims), *sizes)

    def memory(self, k: int) -> None:
        """Make output k the memory of the places."""
        self._add("MEMORY", k)

    def repeat(
        self,
        count: Size,
        moved: Iterable[tuple[int, Size, int, bool]],
        states: Iterable[tuple[int, int, int, Size, int]],
    ) -> None:
        """Run what follows so many times.

        `moved` are buffers of which each step has the next elements, (buffer, elements, bytes of
        each, whether the last come first); `states` are (what a step reads, what it writes, memory
        that takes turns with that, elements, bytes of each).
        """
        rows = [(b, self.size(n), size, int(is_last)) for b, n, size, is_last in moved]
        pairs = [(*places, self.size(n), size) for *places, n, size in states]
        steps = self.size(count)
        self._add("REPEAT", steps, len(rows), len(pairs), *(n for r in (*rows, *pairs) for n in r))

    def call(self, alike: Iterable[Call]) -> None:
        """Run functions, all in one call to the threads."""
        calls = [(self._function(f), k, b, [*map(self.size, n)]) for f, k, b, n in alike]
        buffers_of_all = sum(len(buffers) for _, _, buffers, _ in calls)
        numbers_of_all = sum(len(numbers) for *_, numbers in calls)
        self._add("CALL", len(calls), buffers_of_all, numbers_of_all)
        for function, call, buffers, numbers in calls:
            self.numbers += [function, call, len(buffers), *buffers, len(numbers), *numbers]

    def combine(
        self, function: str, to: int, where: int, elements: Size, call: int, count: Size
    ) -> None:
        """Reduce what the parts of a call have left in a buffer."""
        sizes = [self.size(elements), self.size(count)]
        self._add("COMBINE", self._function(function), to, where, sizes[0], call, sizes[1])

    def counts(self) -> str:
        """Return how many sizes, calls and places there are, as C."""
        return f"{len(self.sizes)}, {self.calls}, {self.places}"

    def end(self) -> str:
        """Return all numbers as C."""
        return ", ".join(map(str, [*self.numbers, _CODES["END"]]))

    def _add(self, code: str, *numbers: int) -> None:
        self.numbers += [_CODES[code], *numbers]

    def _function(self, name: str) -> int:
        if name not in self.functions:
            self.functions.append(name)
        return self.functions.index(name)
