"""Steps as loops over all elements of a shape, in an order in which they can run."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .sizes import ONE, ZERO, Dims, Size, Values, estimate, product, strides, summed, without_ones
from .steps import Join, Look, Map, Product, Reduce, Step, late, merged, picked, read_by
from .views import View, is_same_order, looked, part, whole

_FEW = 64  # elements; loops over so few are one, whatever they read
_STREAMS = 6  # buffers of one loop that statements without one in common may read
_MOST = 48  # statements of a loop, of which each may keep a register


@dataclass(eq=False)
class Statement:
    """A statement of a loop, for one element: `how` is "map", or that of a reduction.

    `reads` has for each input its view's strides along the loop's axes and its view; None where
    it is in a register or a literal.
    """

    how: str
    y: str
    text: str
    inputs: list[str]
    reads: list[tuple[View, tuple[Size, ...]] | None]
    written: View
    along: tuple[Size, ...]  # strides of what is written
    number: Size | None = None  # what {n} in the text stands for
    place: tuple[Size, ...] = ()  # strides of {i} in the text
    is_plain: bool = False  # no vectors of it
    # the stride of the first input, and of the third, along the axis that the second tells
    at: Size | None = None


@dataclass(eq=False)
class Loop:
    """Statements for each element of a shape; or one product for each matrix of a batch."""

    dims: Dims
    statements: list[Statement] = field(default_factory=list)
    registers: set[str] = field(default_factory=set)
    buffers: set[str] = field(default_factory=set)  # that it reads
    product: Product | None = None


class Body:
    """The loops of a group.

    `wanted` are the values that others read. `inputs` and `stored` are the buffers that the loops
    read from outside, and those that they write; those that are `shared` may be the same memory.
    """

    def __init__(self, found: Sequence[Step], wanted: Iterable[str], values: Values):
        self.values = values
        self.wanted = set(wanted)
        steps = merged(_needed(found, self.wanted), self.wanted, values)
        steps = picked(_needed(steps, self.wanted), self.wanted, values)
        self.steps = late(_needed(steps, self.wanted), self.wanted)
        self.made = {step.y for step in self.steps}
        self.views: dict[str, View] = {}
        self.roots: dict[str, str] = {}  # a value in another shape -> the value
        self.at: dict[str, int] = {}  # of a value, the loop that completes it
        self.loops: list[Loop] = []
        self._alike: dict[Dims, list[int]] = {}  # the numbers of loops, but for products, by sizes
        self.inputs: list[str] = []
        self.stored: list[str] = []
        self.shared: Container[str] = ()
        for step in self.steps:
            self._add(step)
        # in order, not that of a set: the source is the key of the library, in all processes
        for y in (step.y for step in self.steps if step.y in self.wanted):
            self._memory(y)

    def literal(self, x: str) -> Any:
        """Return the single value of a constant, to be written into the code."""
        return None if x in self.made else self.values.scalar(x)

    def root(self, x: str) -> str:
        """Return the value that is in registers under another shape."""
        while x in self.roots:
            x = self.roots[x]
        return x

    def _add(self, step: Step) -> None:
        if isinstance(step, Map):
            self._map(step, self.values.dims(step.y))
        elif isinstance(step, Reduce):
            self._reduce(step)
        elif isinstance(step, Product):
            self._product(step)
        elif isinstance(step, Join):
            self._join(step)
        else:
            self._look(step)

    def _view(self, x: str) -> View:
        """The view of a value, or that it would have if it is stored."""
        if x not in self.views:
            self.views[x] = whole(x, self.values.dims(x))
        return self.views[x]

    def _memory(self, x: str) -> View:
        """The view of a value, which is in memory from now on."""
        view = self._view(x)
        known = self.stored if view.buffer in self.made else self.inputs
        if view.buffer not in known:
            known.append(view.buffer)
        return view

    def _map(self, step: Map, dims: Dims) -> None:
        axes, inputs = without_ones(dims), step.inputs
        number = self._place(axes, inputs, dims, step.at is not None)
        loop = self.loops[number]
        reads = [
            self._read(x, loop, dims, step.at if k != 1 else None) for k, x in enumerate(inputs)
        ]
        view = self._view(step.y)
        statement = Statement("map", step.y, step.text, inputs, reads, view, view.along(dims))
        statement.number, statement.is_plain = step.number, step.is_plain
        if step.axis is not None:
            along = [ONE if k == step.axis else ZERO for k in range(len(dims))]
            statement.place = tuple([s for s, d in zip(along, dims, strict=True) if d != ONE])
        if step.at is not None:
            statement.at = self._view(inputs[0]).strides[step.at]
        loop.statements.append(statement)
        loop.registers.add(step.y)
        self.at[step.y] = number

    def _reduce(self, step: Reduce) -> None:
        dims = self.values.dims(step.x)
        number = self._place(without_ones(dims), [step.x], dims)
        loop = self.loops[number]
        reads = [self._read(step.x, loop, dims)]
        view = self._memory(step.y)
        kept = [ONE if k in step.axes else d for k, d in enumerate(dims)]
        all_strides = strides(kept)
        along = [ZERO if k in step.axes else all_strides[k] for k in range(len(dims))]
        along = [s for s, d in zip(along, dims, strict=True) if d != ONE]
        loop.statements.append(
            Statement(step.how, step.y, "{0}", [step.x], reads, view, tuple(along))
        )
        self.at[step.y] = number

    def _product(self, step: Product) -> None:
        dims = self.values.dims(step.y)
        loop = Loop(dims, product=step)
        reads: list[tuple[View, tuple[Size, ...]] | None] = []
        for x, turned in zip((step.a, step.b), step.transposed, strict=True):
            view = self._memory(x)
            if turned:
                axes = [*range(len(view.dims) - 2), len(view.dims) - 1, len(view.dims) - 2]
                view = View(
                    view.buffer,
                    tuple(view.dims[k] for k in axes),
                    tuple(view.strides[k] for k in axes),
                    view.offset,
                )
            batch = View(view.buffer, view.dims[:-2], view.strides[:-2], view.offset)
            lack = len(dims) - len(view.dims)
            along = [ZERO] * lack + [
                s if d != ONE else ZERO for d, s in zip(batch.dims, batch.strides, strict=True)
            ]
            reads.append((view, (*along, *view.strides[-2:])))
            loop.buffers.add(view.buffer)
        view = self._memory(step.y)
        loop.statements.append(
            Statement("product", step.y, "", [step.a, step.b], reads, view, view.strides)
        )
        self.loops.append(loop)
        self.at[step.y] = len(self.loops) - 1

    def _join(self, step: Join) -> None:
        view, parts = self._memory(step.y), [ZERO]
        for k, x in enumerate(step.inputs):
            dims, name = self.values.dims(x), f"{step.y}/{k}"
            self.made.add(name)
            self.values.add(name, self.values.kind(x), dims)
            start = summed(parts)
            assert start is not None  # the sum of all of them is known
            self.views[name] = part(view, step.axis, start, 1, dims)
            self._map(Map(name, "{0}", [x]), dims)
            self._memory(name)
            self.at[step.y] = max(self.at.get(step.y, 0), self.at[name])
            parts.append(dims[step.axis])

    def _look(self, step: Look) -> None:
        dims, before = self.values.dims(step.y), self.values.dims(step.x)
        view = looked(self._view(step.x), step, dims)
        if view is None:  # the elements are not in such an order: write them in order
            copy = f"{step.y}/copy"
            self.made.add(copy)
            self.values.add(copy, self.values.kind(step.x), before)
            self._map(Map(copy, "{0}", [step.x]), before)
            self._memory(copy)
            view = looked(self._view(copy), step, dims)
            assert view is not None
            self.at[step.y] = self.at[copy]
        elif self.root(step.x) in self.at:
            self.at[step.y] = self.at[self.root(step.x)]
        self.views[step.y] = view
        if step.how in ("reshape", "expand") and is_same_order(before, dims):
            self.roots[step.y] = step.x

    def _in_register(self, x: str, loop: Loop, dims: Dims) -> bool:
        same = is_same_order(self.values.dims(x), dims)
        return same and self.root(x) in loop.registers

    def _read(
        self, x: str, loop: Loop, dims: Dims, at: int | None = None
    ) -> tuple[View, tuple[Size, ...]] | None:
        if at is None and (self.literal(x) is not None or self._in_register(x, loop, dims)):
            return None
        view = self._memory(x)
        loop.buffers.add(view.buffer)
        if at is not None:  # the rest of its axes are the last ones
            view = View(view.buffer, view.dims[at + 1 :], view.strides[at + 1 :], view.offset)
        return view, view.along(dims)

    def _place(self, axes: Dims, inputs: list[str], dims: Dims, whole_first: bool = False) -> int:
        """The number of the loop of a statement.

        It is the first one in which its inputs are known, or a new one.
        """
        first, near = 0, set()
        for k, x in enumerate(inputs):
            known = self.at.get(self.root(x), self.at.get(x))
            if whole_first and k != 1:
                first = max(first, -1 if known is None else known) + (known is not None)
                near.add(self._view(x).buffer)
            elif known is None:
                near.add(self._view(x).buffer)
            elif self._in_register(x, self.loops[known], dims) and self.loops[known].dims == axes:
                first = max(first, known)
            else:
                first = max(first, known + 1)
                near.add(self._view(x).buffer)
        few = estimate(product(*axes)) <= _FEW
        follows = not near or not near.isdisjoint(self.made) or estimate(product(*axes)) == 1
        wide = {b for b in near if product(*self.values.dims(b)) != ONE}
        alike = self._alike.setdefault(axes, [])  # of a step for each parameter, most are not
        for k in alike:
            loop = self.loops[k]
            if k >= first and len(loop.statements) < _MOST:
                shared = any(self.root(x) in loop.registers for x in inputs)
                near_by = not wide.isdisjoint(loop.buffers)
                near_by |= follows and len(near | loop.buffers) <= _STREAMS
                if shared or near_by or (few and follows):
                    return k
        alike.append(len(self.loops))
        self.loops.append(Loop(axes))
        return alike[-1]


def _needed(found: Sequence[Step], wanted: set[str]) -> list[Step]:
    """The steps that wanted values need."""
    needed, kept = set(wanted), []
    for step in reversed(found):
        if step.y in needed:
            kept.append(step)
            needed.update(read_by(step))
    return kept[::-1]
