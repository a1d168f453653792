"""Integers that are sizes: what the entries of a scalar or vector are, as far as that is known.

Programs compute the shape of one Variable from those of others: `concat([size_of(x, 0), [4]])`.
For every entry of such a vector `entries_of` knows the number, the name of the size that it is, or
None. It follows the operators that programs and exporters compute shapes with; `_RULES` has one
for each. A name stands for a number that is not negative, and for the same one everywhere.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from .operator import Operator
from .recording import as_number, named_size
from .variable import Dim, Dims, Variable, constant, fresh_dim

Entry = Dim | None  # a number or bool, the name of a size, or None
Entries = Sequence[Entry]

MOST_ENTRIES = 64  # of vectors that are followed
LARGEST = (np.iinfo(np.int32).max, np.iinfo(np.int64).max)  # the end of an axis, as that of a slice

_Rule = Callable[..., Entries | None]  # fn(operator, entries of each input) -> of the first output
_RULES: dict[str, _Rule] = {}
_UNKNOWN: Any = object()


def entries_of(x: Variable | None) -> Entries | None:
    """Return the entries of an integer or bool scalar or vector; None if none of them is known."""
    if x is None or not _is_candidate(x):
        return None
    known = _known(x)
    if known is not _UNKNOWN:
        return known
    stack = [x]
    while stack:  # no recursion: a loop that counts up may be thousands of operators long
        node = stack[-1].node
        followed = node.inputs if node.op_type in _RULES else ()
        waiting = [
            v for v in followed if v is not None and _is_candidate(v) and _known(v) is _UNKNOWN
        ]
        if waiting:
            stack += waiting
            continue
        for k, y in enumerate(node.outputs):
            y.__dict__["entries"] = propagated(node, k) if _is_candidate(y) else None
        stack.pop()
    return x.__dict__["entries"]


def holds_sizes(x: Variable) -> bool:
    """Return whether an operand may be sizes that are known, though it is no constant."""
    return x.value is None and x.dtype.kind == "i" and len(x.symbolic_dims) <= 1


def settled_numbers(x: Variable) -> Variable:
    """Return a constant in the place of a scalar or vector whose entries are all numbers."""
    entries = None if x.value is not None else entries_of(x)
    if entries is None or not all(isinstance(d, int) for d in entries):
        return x
    return constant(np.array(entries, x.dtype).reshape([len(entries)] * x.rank), x.dtype)


def propagated(op: Operator, k: int = 0) -> Entries | None:
    """Return the entries of output k of an operator, of rank 0 or 1, from those of its inputs.

    None if none of them is known, or the operator has no rule.
    """
    rule = _RULES.get(op.op_type)
    if rule is None or getattr(op, "domain", "") not in ("", "pd"):
        return None
    found = _piece(op, k) if op.op_type == "Split" else None if k else rule(op)
    if found is None or len(found) > MOST_ENTRIES or all(d is None for d in found):
        return None
    return tuple(found)


def as_dims(entries: Entries) -> Dims:
    """Return the sizes that a vector consists of, with new names for those that are not known."""
    return tuple([fresh_dim() if d is None else d for d in entries])


def _is_candidate(x: Variable) -> bool:
    return x.dtype.kind in "iub" and len(x.symbolic_dims) <= 1


def _known(x: Variable) -> Any:
    """The entries of a Variable without any look at what computes it; _UNKNOWN if that is it."""
    if x.value is not None:
        return tuple(x.value.reshape(-1).tolist()) if x.value.size <= MOST_ENTRIES else None
    if x.node is None or x.eager_value is not None or x.is_recorded:
        # a recorded result has its sizes as the third part of its type
        key = x.__dict__.get("type_key", ())
        return key[2] if len(key) == 3 else None
    return x.__dict__.get("entries", _UNKNOWN)


def _listed(x: Variable | None) -> list[Entry] | None:
    """The entries of an operand, a None for each that is not known; None if it is left out.

    Its number of entries may be unknown, too: then it has no rank or size to be followed with.
    """
    found = entries_of(x)
    if found is not None or x is None:
        return None if found is None else list(found)
    dims = x.symbolic_dims
    count = 1 if not dims else dims[0] if len(dims) == 1 else None
    return [None] * count if isinstance(count, int) and count <= MOST_ENTRIES else None


def _numbers(x: Variable | None, default: Sequence[int] | None = None) -> list[int] | None:
    """The entries of an operand that are all numbers, `default` if it is left out, else None."""
    if x is None:
        return None if default is None else list(default)
    found = entries_of(x)
    if found is None or not all(isinstance(d, int) for d in found):
        return None
    return [int(d) for d in found if d is not None]


def _optional(op: Operator, k: int) -> Variable | None:
    return op.inputs[k] if len(op.inputs) > k else None


# ---- rules


def _rule(*op_types: str) -> Callable[[_Rule], _Rule]:
    """Register fn(operator) -> entries of its first output, or None."""
    return lambda fn: _RULES.update(dict.fromkeys(op_types, fn)) or fn


@_rule("Shape")
def _shape(op: Operator) -> Entries | None:
    return op.inputs[0].dims[op.attributes.get("start", 0) : op.attributes.get("end")]


@_rule("Size")
def _size(op: Operator) -> Entries | None:
    return [_folded(_product, op.inputs[0].dims, 1)]


@_rule("Identity", "Reshape", "Squeeze", "Unsqueeze", "StopGradient")
def _same(op: Operator) -> Entries | None:
    return _listed(op.inputs[0])


@_rule("Cast")
def _cast(op: Operator) -> Entries | None:
    """A size fits into 32 bits; a number is what it is cast to."""
    entries = _listed(op.inputs[0])
    dtype = helper.tensor_dtype_to_np_dtype(op.attributes["to"])
    if entries is None or dtype.kind not in "iub":
        return None
    wide = dtype.kind != "b" and dtype.itemsize >= 4
    return [
        np.array(d).astype(dtype).item() if isinstance(d, int) else d if wide else None
        for d in entries
    ]


@_rule("Concat")
def _concat(op: Operator) -> Entries | None:
    parts = [_listed(x) for x in op.inputs]
    return None if None in parts else [d for part in parts for d in part or ()]


@_rule("Gather", "GatherElements")
def _gather(op: Operator) -> Entries | None:
    entries, index = _listed(op.inputs[0]), _numbers(op.inputs[1])
    if entries is None or index is None:
        return None
    n = len(entries)
    return [entries[k] if -n <= k < n else None for k in index]


@_rule("ScatterElements")
def _scatter(op: Operator) -> Entries | None:
    entries, index, new = _listed(op.inputs[0]), _numbers(op.inputs[1]), _listed(op.inputs[2])
    if entries is None or index is None or new is None or len(index) != len(new):
        return None
    if op.attributes.get("reduction", "none") not in ("none", b"none"):
        return None
    n = len(entries)
    if not all(-n <= k < n for k in index):
        return None
    for k, d in zip(index, new, strict=True):
        entries[k] = d
    return entries


@_rule("Slice")
def _slice(op: Operator) -> Entries | None:
    entries, first, end = _listed(op.inputs[0]), _numbers(op.inputs[1]), _numbers(op.inputs[2])
    steps = _numbers(_optional(op, 4), [1])
    if entries is None or first is None or end is None or steps is None or not steps[0]:
        return None
    return entries[sliced(len(entries), first[0], end[0], steps[0])]


def sliced(size: int, first: int, end: int, step: int) -> slice:
    """Return Python's slice of what ONNX's Slice takes: it moves a start before the axis to it.

    The largest integer as an end is that of the axis in either direction, by ONNX Runtime.
    """
    if step > 0:
        return slice(first, end, step)
    return slice(max(first, -size), None if end < -size or end in LARGEST else end, step)


@_rule("Split")
def _split(op: Operator) -> Entries | None:
    return _piece(op, 0)


def _piece(op: Operator, k: int) -> Entries | None:
    """The entries of an output of Split."""
    entries, sizes = _listed(op.inputs[0]), _numbers(_optional(op, 1))
    count = op.attributes.get("num_outputs")
    if entries is not None and count and _optional(op, 1) is None:
        each = -(-len(entries) // count)
        sizes = [each] * count  # the last one may be shorter
    if entries is None or sizes is None:
        return None
    first = sum(sizes[:k])
    return entries[first : first + sizes[k]]


@_rule("ConstantOfShape")
def _filled(op: Operator) -> Entries | None:
    count, value = _numbers(op.inputs[0]), op.attributes.get("value")
    if count is None or len(count) > 1 or value is None:
        return None
    array = numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)
    times = count[0] if count else 1
    return array.reshape(-1).tolist() * times if times <= MOST_ENTRIES else None


@_rule("Expand")
def _expand(op: Operator) -> Entries | None:
    entries, count = _listed(op.inputs[0]), _numbers(op.inputs[1])
    if entries is None or count is None or len(count) > 1:
        return None
    times = count[0] if count and len(entries) == 1 else 1
    return entries * times if times <= MOST_ENTRIES else None


@_rule("Tile")
def _tile(op: Operator) -> Entries | None:
    entries, count = _listed(op.inputs[0]), _numbers(op.inputs[1])
    if entries is None or count is None or len(count) != 1:
        return None
    return entries * count[0] if len(entries) * count[0] <= MOST_ENTRIES else None


@_rule("Range")
def _range(op: Operator) -> Entries | None:
    bounds = [_numbers(x) for x in op.inputs]
    if any(b is None for b in bounds):
        return None
    first, end, step = (b[0] for b in bounds if b is not None)
    found = range(first, end, step) if step else range(0)
    return list(found) if len(found) <= MOST_ENTRIES else None


# ---- arithmetic

Numbers = Callable[[Any, Any], Any]


def _arithmetic(
    op_type: str, of_names: Callable[[Entry, Entry], Entry], of_numbers: Numbers
) -> Any:
    """A function of two entries: `of_names` where one is a name, else of the numbers."""

    def combined(a: Entry, b: Entry) -> Entry:
        if isinstance(a, int) and isinstance(b, int):
            return of_numbers(a, b)
        found = None if a is None or b is None else of_names(a, b)
        if found is not None:
            return found
        p, q = as_number(a), as_number(b)
        if p is None or q is None:
            return None
        # while values are at hand: a size whose number is known at this line
        n = of_numbers(p, q)
        return named_size((op_type, a, b), n) if type(n) is int and n >= 0 else None

    return combined


def _sum(a: Entry, b: Entry) -> Entry:
    return a if b == 0 else b if a == 0 else None


def _difference(a: Entry, b: Entry) -> Entry:
    return a if b == 0 else 0 if a == b else None


def _multiple(a: Entry, b: Entry) -> Entry:
    return 0 if 0 in (a, b) else a if b == 1 else b if a == 1 else None


def _share(a: Entry, b: Entry) -> Entry:
    return a if b == 1 else None


def _rest(a: Entry, b: Entry) -> Entry:
    return 0 if b == 1 else None


def _largest(a: Entry, b: Entry) -> Entry:
    """The larger one: no size is negative."""
    if a == b or (isinstance(b, int) and b <= 0):
        return a
    return b if isinstance(a, int) and a <= 0 else None


def _smallest(a: Entry, b: Entry) -> Entry:
    if a == b or (isinstance(a, int) and a <= 0):
        return a
    return b if isinstance(b, int) and b <= 0 else None


def _toward_zero(a: int, b: int) -> int | None:
    return None if b == 0 else a // b if (a < 0) == (b < 0) else -(-a // b)


def _remainder(a: int, b: int) -> int | None:
    return None if b == 0 else a % b


_product = _arithmetic("Mul", _multiple, lambda a, b: a * b)
_BINARY: dict[str, Any] = {
    "Add": _arithmetic("Add", _sum, lambda a, b: a + b),
    "Sub": _arithmetic("Sub", _difference, lambda a, b: a - b),
    "Mul": _product,
    "Div": _arithmetic("Div", _share, _toward_zero),
    "Mod": _arithmetic("Mod", _rest, _remainder),
    "Max": _arithmetic("Max", _largest, max),
    "Min": _arithmetic("Min", _smallest, min),
}


def _folded(
    function: Callable[[Entry, Entry], Entry], values: Iterable[Entry], first: Any
) -> Entry:
    """A function of the first two, of the result and the third, …"""
    for d in values:
        first = function(first, d)
    return first


def _aligned(op: Operator) -> list[tuple[Entry, ...]] | None:
    """The entries of the operands that stand beside each other; None if they are not known."""
    operands = [_listed(x) for x in op.inputs]
    sizes = {len(d) for d in operands if d is not None} - {1}
    if len(sizes) > 1 or None in operands:
        return None
    count = max(sizes, default=1)
    wide = [d * count if len(d) == 1 else d for d in operands if d is not None]
    return list(zip(*wide, strict=True))


def _in_range(values: list[Entry], dtype: np.dtype) -> Entries:
    """Entries, None in the place of numbers that the element type does not hold."""
    bounds = np.iinfo(dtype)
    return [None if isinstance(d, int) and not bounds.min <= d <= bounds.max else d for d in values]


@_rule(*_BINARY)
def _elementwise(op: Operator) -> Entries | None:
    columns, dtype = _aligned(op), op.inputs[0].dtype
    if columns is None or dtype.kind not in "iu" or op.attributes.get("fmod"):
        return None
    function = _BINARY[op.op_type]
    return _in_range([_folded(function, c[1:], c[0]) for c in columns], dtype)


@_rule("Clip")
def _clip(op: Operator) -> Entries | None:
    values = _listed(op.inputs[0])
    for k, name in ((1, "Max"), (2, "Min")):
        if values is not None and _optional(op, k) is not None:
            bound = _listed(op.inputs[k])
            values = None if bound is None else [_BINARY[name](d, bound[0]) for d in values]
    return values


@_rule("Neg", "Abs")
def _unary(op: Operator) -> Entries | None:
    values = _listed(op.inputs[0])
    if values is None or op.inputs[0].dtype.kind not in "iu":
        return None
    if op.op_type == "Abs":
        return [abs(d) if isinstance(d, int) else d for d in values]
    return _in_range([-d if isinstance(d, int) else None for d in values], op.inputs[0].dtype)


_REDUCTIONS = {
    "ReduceProd": (_product, 1),
    "ReduceSum": (_BINARY["Add"], 0),
    "ReduceMax": (_BINARY["Max"], None),
    "ReduceMin": (_BINARY["Min"], None),
}


@_rule(*_REDUCTIONS)
def _reduced(op: Operator) -> Entries | None:
    values, axes = _listed(op.inputs[0]), _optional(op, 1)
    if values is None or op.inputs[0].dtype.kind not in "iu":
        return None
    if axes is not None or op.attributes.get("noop_with_empty_axes"):
        given = _numbers(axes, [])
        if given is None or (not given and op.attributes.get("noop_with_empty_axes")):
            return None if given is None else values
    if op.inputs[0].rank == 0:
        return values
    function, neutral = _REDUCTIONS[op.op_type]
    if neutral is None and not values:
        return None
    found = _folded(function, values[1:], values[0]) if values else neutral
    return _in_range([found], op.inputs[0].dtype)


# ---- conditions: exporters choose sizes by them


def _sign_of_difference(a: Entry, b: Entry) -> int | None:
    """-1, 0 or 1 of a - b; 2 where a is above or equal, -2 below or equal; None if not known."""
    if isinstance(a, int) and isinstance(b, int):
        return (a > b) - (a < b)
    if a is None or b is None:
        return None
    if a == b:
        return 0
    if isinstance(b, int) and b <= 0:
        return 1 if b < 0 else 2
    if isinstance(a, int) and a <= 0:
        return -1 if a < 0 else -2
    return None


_COMPARISONS = {  # what is true, and what is not, by the sign of the difference
    "Equal": ((0,), (-1, 1)),
    "Less": ((-1,), (0, 1, 2)),
    "LessOrEqual": ((-2, -1, 0), (1,)),
    "Greater": ((1,), (-2, -1, 0)),
    "GreaterOrEqual": ((0, 1, 2), (-1,)),
}


@_rule(*_COMPARISONS)
def _compared(op: Operator) -> Entries | None:
    columns = _aligned(op)
    if columns is None:
        return None
    true, false = _COMPARISONS[op.op_type]
    signs = [_sign_of_difference(a, b) for a, b in columns]
    return [True if s in true else False if s in false else None for s in signs]


_LOGIC: dict[str, tuple[bool, Callable]] = {  # the operand that settles it, and the function
    "And": (False, lambda a, b: a and b),
    "Or": (True, lambda a, b: a or b),
}


@_rule(*_LOGIC)
def _logic(op: Operator) -> Entries | None:
    columns = _aligned(op)
    if columns is None:
        return None
    settling, function = _LOGIC[op.op_type]
    return [
        settling if settling in pair else None if None in pair else function(*pair)
        for pair in columns
    ]


@_rule("Xor")
def _xor(op: Operator) -> Entries | None:
    columns = _aligned(op)
    return None if columns is None else [None if None in c else c[0] != c[1] for c in columns]


@_rule("Not")
def _not(op: Operator) -> Entries | None:
    values = _listed(op.inputs[0])
    return None if values is None else [None if d is None else not d for d in values]


@_rule("Where")
def _where(op: Operator) -> Entries | None:
    columns = _aligned(op)
    if columns is None or op.inputs[1].dtype.kind not in "iu":
        return None
    return [a if c or a == b else b if c is False else None for c, a, b in columns]
