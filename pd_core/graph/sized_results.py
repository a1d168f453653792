"""Sizes of results that operators read from their operands, such as the shape of a Reshape.

`sized_results[op_type](node, k)` returns the dims of output k, a None for each that is not known,
or None. What the operands consist of is what `entries_of` knows. ONNX's inference knows constants
alone: with any other bounds it loses the sizes of axes that a Slice leaves as they are.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from .broadcast import broadcast_dims
from .operator import Operator
from .size_entries import Entries, Entry, as_dims, entries_of, sliced
from .variable import Dim, Dims, Variable

Sizes = Sequence[Entry] | None
_Sized = Callable[[Any, int], Sizes]

sized_results: dict[str, _Sized] = {}


def _sized(*op_types: str) -> Callable[[_Sized], _Sized]:
    """Register fn(node, k) -> dims of output k."""
    return lambda fn: sized_results.update(dict.fromkeys(op_types, fn)) or fn


def sizes_read(node: Operator, k: int) -> Sizes:
    """Return the dims of output k as far as its operands tell them, or None."""
    fn = sized_results.get(node.op_type)
    return None if fn is None else fn(node, k)


def inferred_size(dims: Dims, sizes: Sequence[Entry]) -> Dim | None:
    """Return the size that a -1 among new sizes of a shape stands for; None if it is not known.

    It is the quotient of the products of both, as far as each name of the new ones is in the shape.
    """
    given = [d for d in sizes if isinstance(d, str)]
    rest = Counter(d for d in dims if isinstance(d, str))
    own = Counter(given)
    whole = prod(d for d in dims if isinstance(d, int))
    part = prod(d for d in sizes if isinstance(d, int) and d != -1)
    if sizes.count(-1) != 1 or None in sizes or own - rest or not part or whole % part:
        return None
    left = list((rest - own).elements())
    if not left:
        return whole // part
    return left[0] if len(left) == 1 and whole == part else None


def reshaped_sizes(dims: Dims, entries: Entries, allowzero: bool = False) -> list[Entry]:
    """Return the sizes of a Reshape: 0 is that of the same axis, -1 what is left, if known."""
    sizes = [
        dims[k] if d == 0 and not allowzero and k < len(dims) else d for k, d in enumerate(entries)
    ]
    return [inferred_size(dims, sizes) if d == -1 else d for d in sizes]


@_sized("Reshape")
def _reshape(node: Any, k: int) -> Sizes:
    x, target = node.inputs
    entries = entries_of(target)
    if entries is None:
        return None
    return reshaped_sizes(x.dims, entries, bool(node.attributes.get("allowzero", 0)))


@_sized("Expand")
def _expand(node: Any, k: int) -> Sizes:
    x, target = node.inputs
    entries = entries_of(target)
    return None if entries is None else broadcast_dims(x.dims, as_dims(entries))


@_sized("ConstantOfShape")
def _filled(node: Any, k: int) -> Sizes:
    return entries_of(node.inputs[0])


@_sized("Tile")
def _tile(node: Any, k: int) -> Sizes:
    x, counts = node.inputs
    entries = entries_of(counts)
    return None if entries is None else [_times(d, n) for d, n in zip(x.dims, entries, strict=True)]


def _times(size: Dim, count: Entry) -> Entry:
    if isinstance(size, int) and isinstance(count, int):
        return size * count
    return count if size == 1 else size if count == 1 else None


@_sized("Pad")
def _pad(node: Any, k: int) -> Sizes:
    x, pads, _, axes = (*node.inputs, None, None)[:4]
    dims, chosen = _kept(x, axes)
    entries = entries_of(pads)
    if dims is None or chosen is None:
        return None
    for n, axis in enumerate(chosen):
        widths = None if entries is None else (entries[n], entries[len(chosen) + n])
        dims[axis] = _longer(x.dims[axis], widths)
    return dims


def _longer(size: Dim, widths: Any) -> Entry:
    if widths is None:
        return None
    sizes = [d for d in (size, *widths) if d != 0]
    if all(isinstance(d, int) for d in sizes):
        return sum(sizes)
    return sizes[0] if len(sizes) == 1 else None


def _kept(x: Variable, axes: Variable | None) -> tuple[list[Entry] | None, list[int] | None]:
    """The dims of x, and those axes that an operator changes; all of them if it names none."""
    dims: list[Entry] = list(x.dims)
    if axes is None:
        return dims, list(range(len(dims)))
    entries = entries_of(axes)
    if entries is None or not all(isinstance(a, int) and -x.rank <= a < x.rank for a in entries):
        return None, None
    return dims, [a % x.rank for a in entries if isinstance(a, int)]


@_sized("Slice")
def _slice(node: Any, k: int) -> Sizes:
    x, starts, ends, axes, steps = (*node.inputs, None, None)[:5]
    dims, chosen = _kept(x, axes)
    count = starts.dims[0] if starts.rank else 1
    if dims is None or chosen is None or not isinstance(count, int):
        return None
    unknown = (None,) * count
    first, end = (entries_of(v) or unknown for v in (starts, ends))
    step = (1,) * count if steps is None else entries_of(steps) or unknown
    for axis, *bounds in zip(chosen[:count], first, end, step, strict=True):
        dims[axis] = _taken(x.dims[axis], *bounds)
    return dims


def _taken(size: Dim, first: Entry, end: Entry, step: Entry) -> Entry:
    """How many elements a slice takes of an axis."""
    if not isinstance(step, int) or first is None or end is None:
        return None
    if isinstance(size, int) and isinstance(first, int) and isinstance(end, int) and step:
        return len(range(size)[sliced(size, first, end, step)])
    if step != 1 or first not in (0, size):
        return None
    if first == size:
        return 0
    # `end` may be beyond the axis
    return size if end == size or (isinstance(end, int) and end >= _FAR) else None


_FAR = np.iinfo(np.int32).max


@_sized("Range")
def _range(node: Any, k: int) -> Sizes:
    first, end, step = map(entries_of, node.inputs)
    return None if first != (0,) or step != (1,) or end is None else end


@_sized("OneHot")
def _one_hot(node: Any, k: int) -> Sizes:
    index, depth = node.inputs[:2]
    entries = entries_of(depth)
    axis = node.attributes.get("axis", -1) % (index.rank + 1)
    return None if entries is None else [*index.dims[:axis], entries[0], *index.dims[axis:]]


@_sized("TopK")
def _top_k(node: Any, k: int) -> Sizes:
    x, count = node.inputs
    entries, dims = entries_of(count), list(x.dims)
    dims[node.attributes.get("axis", -1)] = None if entries is None else entries[0]
    return dims


@_sized("Split")
def _split(node: Any, k: int) -> Sizes:
    x, sizes = (*node.inputs, None)[:2]
    if sizes is None:
        return None
    entries, dims = entries_of(sizes), list(x.dims)
    dims[node.attributes.get("axis", 0)] = None if entries is None else entries[k]
    return dims


@_sized("Resize")
def _resize(node: Any, k: int) -> Sizes:
    x, _, _, sizes = (*node.inputs, None, None, None)[:4]
    policy = node.attributes.get("keep_aspect_ratio_policy", "stretch")
    entries = None if sizes is None or policy not in ("stretch", b"stretch") else entries_of(sizes)
    return None if entries is None else _replaced(x, node.attributes.get("axes"), entries)


@_sized("CenterCropPad")
def _crop(node: Any, k: int) -> Sizes:
    entries = entries_of(node.inputs[1])
    if entries is None:
        return None
    return _replaced(node.inputs[0], node.attributes.get("axes"), entries)


def _replaced(x: Variable, axes: Sequence[int] | None, entries: Entries) -> Sizes:
    """The dims of x with other sizes of some axes."""
    dims: list[Entry] = list(x.dims)
    for axis, size in zip(range(x.rank) if axes is None else axes, entries, strict=True):
        dims[axis] = size
    return dims


@_sized("AffineGrid")
def _affine_grid(node: Any, k: int) -> Sizes:
    theta, size = node.inputs
    entries = entries_of(size)
    return None if entries is None else (theta.dims[0], *entries[2:], len(entries) - 2)
