"""The feeds of a program: their order, and whether they fit each other."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..graph.errors import ShapeError
from ..graph.variable import Dim, Variable
from .feeds import fed_shape
from .packed_feeds import PackedFeeds


class Inputs:
    """What a program reads besides stored values.

    `fed` are the variables in the order of the program, `held` the values of those that are fed in
    any case. `equal` are pairs of sizes that must be equal. What is fed may be more than that.
    """

    def __init__(
        self,
        fed: Sequence[Variable],
        held: dict[Variable, np.ndarray],
        equal: Sequence[tuple[Dim, Dim]],
        given: Iterable[Variable],
    ):
        self.fed, self.held, self.equal = fed, held, equal
        self.packed = PackedFeeds(given, equal)
        self._checked: set[tuple] = set()  # shapes that fit each other

    def arrays(self, fed: Mapping[Variable, np.ndarray]) -> list[np.ndarray]:
        """Return what the program reads, in its order; ShapeError where it does not fit.

        Sizes that the graph requires to be equal are, and lengths add up to the rows that there
        are.
        """
        held = self.held
        arrays = [fed[v] if v in fed else held[v] for v in self.fed]
        shapes = tuple([a.shape if type(a) is np.ndarray else fed_shape(a) for a in arrays])
        if shapes not in self._checked:
            sizes: dict[Dim, int] = {}
            origin: dict[Dim, Variable] = {}  # the feed of each size
            for v, shape in zip(self.fed, shapes, strict=True):
                for d, n in zip(v.dims, shape, strict=True):
                    if sizes.setdefault(d, n) != n:
                        other = f"{origin[d]!r} has {sizes[d]}"
                        raise ShapeError(f"feeds disagree: {other}, {v!r} has {n}")
                    origin.setdefault(d, v)
            for pair in self.equal:
                left, right = (d if isinstance(d, int) else sizes.get(d) for d in pair)
                if left is not None and right is not None and left != right:
                    feeds = " and ".join(repr(origin[d]) for d in pair if d in origin)
                    unequal = f"sizes {left} and {right} must be equal"
                    raise ShapeError(f"{unequal}, from the feeds {feeds}")
            self._checked.add(shapes)
        if self.packed.lengths:
            self.packed.check({**held, **fed} if held else fed)
        return arrays


NO_INPUTS = Inputs((), {}, (), ())
