"""Views of values in memory: a buffer, and the offset and strides of the elements in it."""

import itertools
from dataclasses import dataclass

from .sizes import ONE, ZERO, Dims, Size, product, quotient, strides
from .steps import Look


@dataclass(frozen=True)
class View:
    """A value in a buffer; `offset` and `strides` count elements, the offset is a sum."""

    buffer: str
    dims: Dims
    strides: tuple[Size, ...]
    offset: tuple[Size, ...] = ()

    def along(self, dims: Dims) -> tuple[Size, ...]:
        """Return the strides along the axes of sizes that the value is broadcast to."""
        lack = len(dims) - len(self.dims)
        own = zip(self.dims, self.strides, dims[lack:], strict=True)
        found = [ZERO] * lack + [s if d == e else ZERO for d, s, e in own]
        return tuple([s for d, s in zip(dims, found, strict=True) if d != ONE])


def whole(buffer: str, dims: Dims) -> View:
    """Return the view of all elements of a buffer."""
    return View(buffer, dims, tuple(strides(dims)))


def looked(view: View, step: Look, dims: Dims) -> View | None:
    """Return a view of a view, of these sizes; None where strides cannot describe it."""
    if step.how == "reshape":
        return _reshaped(view, dims)
    if step.how == "transpose":
        return View(
            view.buffer,
            dims,
            tuple(view.strides[k] for k in step.axes),
            view.offset,
        )
    if step.how == "expand":
        lack = len(dims) - len(view.dims)
        own = zip(view.dims, view.strides, dims[lack:], strict=True)
        along = [ZERO] * lack + [s if d == e else ZERO for d, s, e in own]
        return View(view.buffer, dims, tuple(along), view.offset)
    return part(view, step.axes[0], (step.start, ()), step.step, dims)


def part(view: View, axis: int, start: Size, step: int, dims: Dims) -> View:
    """Return the view of a part along an axis."""
    along = list(view.strides)
    begin = product(along[axis], start)
    along[axis] = product(along[axis], (step, ()))
    offset = (*view.offset, begin) if begin[0] else view.offset
    return View(view.buffer, dims, tuple(along), offset)


def _reshaped(view: View, dims: Dims) -> View | None:
    if all(
        d == ONE or s == t
        for d, s, t in zip(view.dims, view.strides, strides(view.dims), strict=True)
    ):
        return View(view.buffer, dims, tuple(strides(dims)), view.offset)
    before = [(d, s) for d, s in zip(view.dims, view.strides, strict=True) if d != ONE]
    after = [d for d in dims if d != ONE]
    found: list[Size] = []
    while before or after:
        taken, made = [before.pop(0)] if before else [], [after.pop(0)] if after else []
        if not taken or not made:
            return None
        while (a := product(*(d for d, _ in taken))) != (b := product(*made)):
            if before and quotient(b, a) is not None:
                taken.append(before.pop(0))
            elif after and quotient(a, b) is not None:
                made.append(after.pop(0))
            else:
                return None
        if any(s != product(t, e) for (_, s), (e, t) in itertools.pairwise(taken)):
            return None
        found += [product(taken[-1][1], s) for s in strides(made)]
    rest = iter(found)
    return View(
        view.buffer, dims, tuple(next(rest) if d != ONE else ZERO for d in dims), view.offset
    )


def is_same_order(before: Dims, after: Dims) -> bool:
    """Return whether two shapes are iterated over alike: they differ in axes of one element."""
    return [d for d in before if d != ONE] == [d for d in after if d != ONE]
