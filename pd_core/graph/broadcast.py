"""Broadcasting of sizes, and the sizes that an operator requires to be equal at run time."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from .operator import BuiltOperator
from .variable import Dim, Dims, is_open, open_dim


def broadcast_size(a: Dim, b: Dim) -> Dim | None:
    """Return the size that two sizes broadcast to, or None where they do not.

    A 1 broadcasts; a named size is never assumed to be 1 at run time, so beside another name or a
    number above 1 the two must be equal (`equal_sizes` lists them for the session to check). Only
    an open size may be 1.
    """
    if is_open(a) and is_open(b) and a != b:
        return open_dim()
    if a == 1 or is_open(a):
        return b if b != 1 else a
    if b == 1 or a == b or isinstance(b, str):
        return a
    return b if isinstance(a, str) else None


def broadcast_dims(*operands: Dims) -> Dims | None:
    """Return the dims of an elementwise result, or None where the operands do not broadcast."""
    rank = max(map(len, operands))
    padded = [(1,) * (rank - len(dims)) + tuple(dims) for dims in operands]
    out = []
    for sizes in zip(*padded, strict=True):
        size: Dim = 1
        for d in sizes:
            common = broadcast_size(size, d)
            if common is None:
                return None
            size = common
        out.append(size)
    return tuple(out)


def equal_sizes(node: BuiltOperator) -> Iterator[tuple[Dim, Dim]]:
    """Yield pairs of sizes that a node requires to be equal at run time; at least one is a name."""
    if node.op_type not in _ALIGNED:
        return
    dims = [x.symbolic_dims for x in (*node.inputs, *node.outputs) if x is not None]
    if _NUMBERS.issuperset(map(type, chain.from_iterable(dims))):
        return
    for operands in _aligned(node):
        if all(dims == operands[0] for dims in operands):
            continue
        rank = max(map(len, operands))
        padded = [(1,) * (rank - len(dims)) + tuple(dims) for dims in operands]
        for sizes in zip(*padded, strict=True):
            definite = (d for d in sizes if d != 1 and not is_open(d))
            first, *others = dict.fromkeys(definite) or [1]
            yield from ((first, d) for d in others if isinstance(first, str) or isinstance(d, str))


def _aligned(node: Any) -> Any:
    """Groups of dims that a node broadcasts against each other, aligned at their last axes."""
    dims = [x.symbolic_dims for x in node.inputs if x is not None]
    if node.op_type in BROADCASTING:
        return [dims]
    if node.op_type == "MatMul":
        a, b = dims
        return [(a[:-2], b[:-2]), (a[-1:], b[-2:-1] or b)]
    if node.op_type == "Expand":
        return [(dims[0], node.outputs[0].symbolic_dims)]
    if node.op_type in ("GatherElements", "ScatterElements"):
        axis = node.attributes.get("axis", 0) % len(dims[0])
        return [[d[:axis] + d[axis + 1 :] for d in dims[:2]], dims[1:]]
    if node.op_type in _ROWS:
        return [(dims[0][:1], dims[_ROWS[node.op_type]][:1])]
    return []


# composites on packed rows: the index of the input that has as many rows as the first
_ROWS = dict.fromkeys(("PadRows", "PermuteRows", "SegmentSum", "SegmentMax"), 2)
_ROWS |= dict.fromkeys(("PackRows", "RepeatRows"), 1)


BROADCASTING = (
    *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Where", "PRelu"),
    *("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "And", "Or", "Xor"),
)
_NUMBERS = {int}
_ALIGNED = {*BROADCASTING, "MatMul", "Expand", "GatherElements", "ScatterElements", *_ROWS}
