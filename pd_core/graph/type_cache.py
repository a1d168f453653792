"""Output types of nodes that were inferred before, found by what they depend on."""

from .variable import fresh_dim, is_open, open_dim

_LIMIT = 1 << 14
_PLAIN = (int, float, str, bytes)

_types = {}  # signature of a node -> dims and dtype of its outputs, with places for names


def remembered(node, outputs, known, small, infer):
    """The types that `infer(node, outputs, known)` yields, cached by the signature of the node.

    A node that it refuses is no entry, so that every error is found anew. Constants of up to
    `small` elements are those whose values count.
    """
    names = {}
    key = _signature(node, outputs, known, small, names)
    if key is None:
        return list(infer(node, outputs, known))
    found = _types.get(key)
    if found is None:
        types = list(infer(node, outputs, known))
        if len(_types) >= _LIMIT:
            _types.clear()
        _types[key] = _with_places(types, names)
        return types
    return _with_names(found, names)


def _signature(node, outputs, known, small, names):
    """All that the types of a node's outputs depend on; None where that is more than can be said.

    A symbolic size is the place of its first appearance, which `names` takes, so that it fits the
    same sizes under other names.
    """
    attributes, inputs = [], []
    for name, value in node.attributes.items():
        frozen = _frozen(name, value)
        if frozen is None:
            return None
        attributes.append(frozen)
    for x in node.inputs:
        if _is_shape(x):
            return None
        inputs.append(_input(x, small, names))
    known = None if known is None else _sizes(known, names)
    return node.op_type, node.opset, outputs, known, tuple(attributes), tuple(inputs)


def _frozen(name, value):
    """An attribute with its types, since 1 equals 1.0; None if it is no number or text."""
    if type(value) in _PLAIN:
        return name, value, type(value)
    if type(value) in (list, tuple) and all(type(v) in _PLAIN for v in value):
        return name, tuple(value), tuple(map(type, value))
    return None


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
