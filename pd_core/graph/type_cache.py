"""Output types of nodes that were inferred before, found by what they depend on."""

from collections.abc import Callable, Hashable, Iterable, Sequence

from .operator import Operator
from .variable import Dim, OutputType, fresh_dim, is_open, open_dim

_LIMIT = 1 << 14
_types: dict[
    Hashable, list
] = {}  # signature of a node -> dims and dtype of its outputs, with places for names


def remembered(
    call: Operator,
    outputs: int,
    known: Sequence[Iterable[Dim] | None],
    small: int,
    infer: Callable[..., Iterable[OutputType]],
) -> list[OutputType]:
    """The types that `infer(call, outputs, known)` yields, cached by what they depend on.

    An operator that it refuses is no entry, so that every error is found anew. Constants of up to
    `small` elements are those whose values count.
    """
    names: dict[str, tuple[int, bool]] = {}
    key = _signature(call, outputs, known, small, names)
    if key is None:
        return list(infer(call, outputs, known))
    cached = _types.get(key)
    if cached is None:
        types = list(infer(call, outputs, known))
        if len(_types) >= _LIMIT:
            _types.clear()
        _types[key] = _with_places(types, names)
        return types
    return _with_names(cached, names)


def _signature(call, outputs, known, small, names):
    """All that the output types depend on; None where that is more than can be said.

    A symbolic size is the place of its first appearance, which `names` takes, so that it fits the
    same sizes under other names.
    """
    inputs = []
    for x in call.inputs:
        if _is_shape(x):
            return None
        inputs.append(_input(x, small, names))
    known = tuple([None if dims is None else _sizes(dims, names) for dims in known])
    return call.kind, outputs, known, tuple(inputs)


def _is_shape(x):
    """The shape of a variable: Reshape and Expand to it take over that variable's sizes."""
    return x is not None and x.node is not None and x.node.op_type == "Shape"


def _input(x, small, names):
    if x is None:
        return None
    value = None if x.value is None or x.value.size > small else x.value.tobytes()
    return x.dtype, _sizes(x.dims, names), value


def _sizes(dims, names):
    found = []
    for d in dims:  # of every input of every node: no generators
        found.append(d if isinstance(d, int) else names.get(d) or _place(d, names))
    return tuple(found)


def _place(name, names):
    """The key of a symbolic size: its number, in order of appearance, and whether it may be 1."""
    return names.setdefault(name, (len(names), is_open(name)))


def _with_places(types, names):
    """Types with places for names; a name that no input has gets a place after theirs."""
    places = dict(names)
    return [(_sizes(dims, places), dtype) for dims, dtype in types]


def _with_names(types, names):
    """Types with names for places: those of the inputs, or fresh ones."""
    sizes = {place: name for name, place in names.items()}

    def size(d):
        if isinstance(d, int):
            return d
        if d not in sizes:
            sizes[d] = open_dim() if d[1] else fresh_dim()
        return sizes[d]

    return [(tuple(map(size, dims)), dtype) for dims, dtype in types]
