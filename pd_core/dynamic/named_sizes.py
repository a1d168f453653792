"""Types of what is recorded: sizes with names, so that programs are for any size, and numbers."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx.shape_inference import InferenceError

from ..graph.broadcast import equal_sizes
from ..graph.errors import GraphError, ShapeError
from ..graph.inference import Call, infer, replaced_inputs
from ..graph.recording import as_number, named_size
from ..graph.site import Site
from ..graph.variable import Dim, Inputs, OutputType, Variable, format_dims

# by line, rank and dtype: of each axis its size, None if it differs; and the types by shape
_sizes: dict[tuple, tuple[list, dict[tuple, dict[str, Any]]]] = {}
_resolutions: dict[tuple, Sequence[OutputType]] = {}
_LIMIT = 1 << 14
_SHAPES = 1 << 8  # of a line


def leaf_type(site: Site | None, array: np.ndarray) -> Mapping[str, Any]:
    """Return the attributes of a leaf that tell its type, for all leaves like it.

    Its sizes are names for the first axis and for those that differ at this line.
    """
    shape, number = array.shape, array.dtype.num
    key = site, number, len(shape)
    sizes = _sizes.get(key)
    if sizes is None:
        if len(_sizes) >= _LIMIT:
            _sizes.clear()
        sizes = _sizes[key] = [None, *shape[1:]][: len(shape)], {}
    constant, known = sizes
    attributes = known.get(shape)
    if attributes is None:
        for axis, n in enumerate(shape):
            if constant[axis] not in (n, None):
                constant[axis] = None
                known.clear()
        if len(known) >= _SHAPES:
            known.clear()
        dims = tuple(
            [
                named_size((key, axis), n) if fixed is None else n
                for axis, (n, fixed) in enumerate(zip(shape, constant, strict=True))
            ]
        )
        attributes = known[shape] = {"dims": dims, "dtype": array.dtype, "name": "value"}
        attributes["type_key"] = number, dims
    return attributes


def _check_sizes(call: Call, types: Sequence[OutputType]) -> None:
    """Check the sizes that an operator requires to be equal."""
    outputs = tuple([Variable.of(dims, dtype) for dims, dtype in types])
    for a, b in equal_sizes(_Built(call.op_type, call.inputs, call.attributes, outputs)):
        left, right = as_number(a), as_number(b)
        if left is not None and right is not None and left != right:
            shapes = " and ".join(format_dims(x.dims) for x in call.inputs if x is not None)
            raise ShapeError(f"sizes {left} and {right} differ, of {shapes}")


def checked_types(call: Call, types: Sequence[OutputType]) -> Sequence[OutputType]:
    """Return types with names of known number; ShapeError where sizes must be equal and are not."""
    _check_sizes(call, types)
    known = {d: d for x in call.inputs if x is not None for d in x.dims}
    types = [(tuple([known.get(d, d) for d in dims]), dtype) for dims, dtype in types]
    if all(type(d) is not str for dims, _ in types for d in dims):
        return types
    return _resolved(call, types)


def with_hash(known: Sequence) -> tuple:
    """Return known dims as something that has a hash."""
    return tuple([tuple(d) if isinstance(d, (list, tuple)) else d for d in known])


class _Built(NamedTuple):
    op_type: str
    inputs: Inputs
    attributes: Mapping[str, Any]
    outputs: tuple[Variable, ...]


def _resolved(call: Call, types: Sequence[OutputType]) -> Sequence[OutputType]:
    """Types with names of known number for the sizes that follow from those of the inputs."""
    key = (call.kind, *[None if x is None else _type_key(x) for x in call.inputs])
    concrete = _resolutions.get(key)
    if concrete is None:
        inputs = tuple([None if x is None else _with_numbers(x) for x in call.inputs])
        try:
            concrete = infer(replaced_inputs(call, inputs), len(types))
        except (GraphError, InferenceError):
            return types
        if len(_resolutions) >= _LIMIT:
            _resolutions.clear()
        _resolutions[key] = concrete
    resolved = []
    for k, ((dims, dtype), (numbers, _)) in enumerate(zip(types, concrete, strict=True)):
        pairs = enumerate(zip(dims, numbers, strict=True))
        resolved.append((tuple([_named(key, d, n, k, axis) for axis, (d, n) in pairs]), dtype))
    return resolved


def _type_key(x: Variable) -> tuple:
    return x.content if x.value is not None and x.value.size <= 64 else (x.dtype.num, x.dims)


def _with_numbers(x: Variable) -> Variable:
    if x.value is not None or all(isinstance(d, int) for d in x.dims):
        return x
    numbers = [(d, as_number(d)) for d in x.dims]
    return Variable.of([d if n is None else n for d, n in numbers], x.dtype, x.name)


def _named(key: tuple, d: Dim, number: Dim, k: int, axis: int) -> Dim:
    if type(d) is str and isinstance(number, int):
        return named_size((key, k, axis), number)
    return d


# ---- integers that are sizes

_SAME_NUMBERS = frozenset(("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"))
_MOST = 64  # elements

Sizes = Sequence[Dim | None]


def sizes_within(call: Call, types: Sequence[OutputType]) -> tuple[Dim | None, ...] | None:
    """Return the sizes of Variables that an integer or a vector consists of, a None for others.

    What reads such a result may take its own sizes from them, so that they are a part of its type:
    zeros of the shape of one Variable have other sizes than those of another's. None if it has
    none of them.
    """
    dims, dtype = types[0]
    if len(types) > 1 or dtype.kind not in "iu" or len(dims) > 1:
        return None
    inputs: Any = call.inputs
    if call.op_type == "Shape":
        bounds = (call.attributes.get(name) for name in ("start", "end"))
        return inputs[0].dims[slice(*bounds)]
    if not any(x is not None and len(_key(x)) == 3 and x.value is None for x in inputs):
        return None
    found: Sizes | None = None
    if call.op_type in _SAME_NUMBERS:
        found = _sizes_in(inputs[0])
    elif call.op_type == "Concat":
        parts = [_sizes_in(x) for x in inputs]
        found = None if None in parts else [d for part in parts for d in part or ()]
    elif call.op_type in ("Gather", "Slice"):
        known, numbers = _sizes_in(inputs[0]), [None if x is None else x.value for x in inputs[1:]]
        if known is not None and all(
            n is not None or x is None for n, x in zip(numbers, inputs[1:], strict=True)
        ):
            found = (_taken if call.op_type == "Gather" else _cut)(known, *numbers)
    return None if found is None or all(d is None for d in found) else tuple(found)


def _key(x: Variable) -> tuple:
    return x.__dict__.get("type_key") or ()


def _sizes_in(x: Variable) -> Sizes | None:
    """The sizes in an operand; None if their number is not known, or large."""
    if x.value is not None:
        return x.value.reshape(-1).tolist() if x.value.size <= _MOST else None
    key, count = _key(x), 1 if not x.dims else x.dims[0]
    if len(key) == 3:
        return list(key[2])
    return [None] * count if isinstance(count, int) and count <= _MOST else None


def _taken(sizes: Sizes, index: Any) -> Sizes | None:
    places = index.reshape(-1).tolist()
    return (
        [sizes[k] for k in places] if all(-len(sizes) <= k < len(sizes) for k in places) else None
    )


def _cut(sizes: Sizes, first: Any, end: Any, axes: Any = None, steps: Any = None) -> Sizes | None:
    step = 1 if steps is None else int(steps[0])
    return sizes[int(first[0]) : int(end[0]) : step] if step > 0 else None
