"""Sizes of inputs that the file leaves open, where operands meet: each may turn out to be 1."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...graph.broadcast import BROADCASTING
from ...graph.node import apply
from ...graph.variable import Dim, Variable, is_open, open_dim
from .versions import Operator

_ELEMENTWISE = {*BROADCASTING, "Sum", "Mean", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}
_PARTS = ("GatherElements", "ScatterElements")  # whose indices may cover a part of an axis


@dataclass
class MeetingSizes:
    """Which sizes of inputs may be 1, as nothing says that they are those beside them.

    `names` are the names that the file gives to the sizes of this call's inputs: sizes of one name
    are equal. `opened` has the open size of each size that met another one.
    """

    names: dict[Dim, str] = field(default_factory=dict)
    opened: dict[Dim, str] = field(default_factory=dict)

    def with_open_operands(self, op: Operator, target: Sequence[Any] | None = None) -> Operator:
        """Return the operator on operands whose sizes are open where they may differ.

        `target` are the sizes that Expand is given, as far as they are known.
        """
        for places, dims in _meetings(op, target):
            for place, axis in self._undecided(places, dims):
                op.inputs[place] = self._opened(op.inputs[place], axis)
        return op

    def _undecided(self, places, dims):
        """Yield (place of an operand, axis from the end) of sizes that may differ from others."""
        rank = max(map(len, dims))
        for axis in range(-rank, 0):
            sizes = [d[axis] if -axis <= len(d) else 1 for d in dims]
            for place, d in zip(places, sizes, strict=False):
                if isinstance(d, str) and not is_open(d) and self._meets(d, sizes):
                    yield place, axis

    def _meets(self, d, sizes):
        """Whether a size stands beside another one that it need not be equal to.

        A size that the file names is taken for one that is computed, as those of masks are.
        """
        mixed = set(self.opened.values())
        return any(
            e not in (1, d, None)
            and (not is_open(e) or e in mixed or d not in self.names)
            and (e not in self.names or self.names[e] != self.names.get(d))
            for e in sizes
        )

    def _opened(self, x, axis):
        dims = list(x.dims)
        dims[axis] = self.opened.setdefault(dims[axis], open_dim())
        return apply("Identity", x, known=dims)

    def note(self, op: Operator, outputs: Iterable[Variable]) -> None:
        """Record sizes that come of operands with open sizes: they may be those of either."""
        mixed = set(self.opened.values())
        spreads = op.op_type in _ELEMENTWISE or op.op_type in ("MatMul", "Expand")
        if spreads and any(d in mixed for x in op.inputs if x is not None for d in x.dims):
            for y in outputs:
                self.opened.update({d: str(d) for d in y.dims if is_open(d)})


def _meetings(op, target):
    """Yield (places of operands, their dims) whose last axes are aligned."""
    xs = op.inputs
    if op.op_type in _ELEMENTWISE:
        there = [k for k, x in enumerate(xs) if x is not None]
        yield there, [xs[k].dims for k in there]
    elif op.op_type == "MatMul":
        places = [k for k in (0, 1) if xs[k].rank > 2]
        if len(places) == 2:
            yield from _batches(xs)
    elif op.op_type == "Expand" and target is not None:
        yield [0], [xs[0].dims, tuple(target)]
    elif op.op_type == "Gemm" and op.input(2) is not None:
        a, b = op.attributes.get("transA", 0), op.attributes.get("transB", 0)
        sizes = (xs[0].dims[1 if a else 0], xs[1].dims[0 if b else 1])
        yield [2], [xs[2].dims, sizes]
    elif op.op_type in _PARTS:
        there = [k for k, x in enumerate(xs) if x is not None]
        yield there, [xs[k].dims for k in there]


def _batches(xs):
    """Yield the batch axes of both factors, with the last two axes as ones."""
    yield [0, 1], [(*x.dims[:-2], 1, 1) for x in xs]
