"""Output types of operators that were inferred before, found by what they depend on."""

from collections.abc import Callable, Iterable, Sequence

from .operator import IdentifiedOperator
from .variable import Dim, OutputType, fresh_dim, is_open, open_dim

_LIMIT = 1 << 13
# Tuples of tuples of numbers, which the garbage collector leaves out.
# By the types of the inputs, names of sizes included: the types, where no name in them is new.
_exact: dict[tuple, tuple] = {}
# By the types of the inputs with places for names: the types, with places too.
_general: dict[tuple, tuple] = {}


def remembered(
    call: IdentifiedOperator,
    outputs: int,
    known: Sequence[Iterable[Dim] | None],
    small: int,
    infer: Callable[..., Iterable[OutputType]],
) -> tuple[OutputType, ...]:
    """The types that `infer(call, outputs, known)` yields, cached by what they depend on.

    An operator that it refuses is no entry, so that every error is found anew. Constants of up to
    `small` elements are those whose values count.
    """
    described = _described(call, known, small)
    if described is None:
        return tuple(infer(call, outputs, known))
    types = _exact.get(described)
    if types is not None:
        return types
    names: dict[str, tuple] = {}
    key = (described[0], *[_general_form(part, names) for part in described[1:]])
    cached = _general.get(key)
    if cached is None:
        types = tuple(infer(call, outputs, known))
        _keep(_general, key, _with_places(types, names))
    else:
        types = _with_names(cached, names)
    if all(isinstance(d, int) or d in names for dims, _ in types for d in dims):
        _keep(_exact, described, types)
    return types


def _described(call, known, small):
    """All that the output types depend on; None where that is more than can be said."""
    described = [call.kind]
    for x in call.inputs:  # of every input of every node: no generators, no calls
        if x is None:
            described.append(None)
        elif x.value is None:
            # Reshape and Expand to the shape of a variable take over that variable's sizes
            if x.node is not None and x.node.op_type == "Shape":
                return None
            described.append((x.dtype.num, x.dims))
        elif x.value.size > small:
            described.append((x.dtype.num, x.dims))
        else:
            described.append(x.content)
    for k, dims in enumerate(known):
        if dims is not None:
            described.append((-1 - k, tuple(dims)))  # no element type has a negative number
    return tuple(described)


def _keep(cache, key, types):
    if len(cache) >= _LIMIT:
        cache.clear()
    cache[key] = types


def _general_form(part, names):
    """A part of a description with places for the names of sizes."""
    if part is None or len(part) != 2:
        return part
    return part[0], _sizes(part[1], names)


def _sizes(dims, names):
    return tuple([d if isinstance(d, int) else names.get(d) or _place(d, names) for d in dims])


def _place(name, names):
    """The key of a symbolic size: its number, in order of appearance, and whether it may be 1."""
    return names.setdefault(name, (len(names), is_open(name)))


def _with_places(types, names):
    """Types with places for names; a name that no input has gets a place after theirs."""
    places = dict(names)
    return tuple([(_sizes(dims, places), dtype) for dims, dtype in types])


def _with_names(types, names):
    """Types with names for places: those of the inputs, or fresh ones."""
    sizes = {place: name for name, place in names.items()}

    def size(d):
        if isinstance(d, int):
            return d
        if d not in sizes:
            sizes[d] = open_dim() if d[1] else fresh_dim()
        return sizes[d]

    return tuple([(tuple(map(size, dims)), dtype) for dims, dtype in types])
