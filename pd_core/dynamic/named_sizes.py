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
from ..graph.size_entries import Entries, entries_of, holds_sizes, propagated
from ..graph.variable import Dim, Inputs, OutputType, Variable, constant, format_dims
from .seen import earlier_sizes, sizes

_resolutions: dict[tuple, Sequence[OutputType]] = {}
_LIMIT = 1 << 14
_SHAPES = 1 << 8  # of a line


def leaf_type(site: Site | None, shape: tuple[int, ...], dtype: np.dtype) -> Mapping[str, Any]:
    """Return the attributes of a leaf that tell its type, for all leaves like it.

    Its sizes are names for the first axis and for those that differ at this line.
    """
    number = dtype.num
    key = site, number, len(shape)
    found = sizes.get(key)
    if found is None:
        if len(sizes) >= _LIMIT:
            sizes.clear()
        first = earlier_sizes(key, dtype) or [None, *shape[1:]][: len(shape)]
        found = sizes[key] = first, {}
    constant, known = found
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
        attributes = known[shape] = {"dims": dims, "dtype": dtype, "name": "value"}
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
    if x.value is not None and x.value.size <= 64:
        return x.content
    return x.dtype.num, x.dims, entries_of(x) if holds_sizes(x) else None


def _with_numbers(x: Variable) -> Variable:
    """The same type with numbers for sizes; a constant where all of its entries are known."""
    entries = entries_of(x) if holds_sizes(x) else None
    if entries is not None:
        known = [as_number(d) for d in entries]
        if None not in known:
            array = np.array(known, x.dtype).reshape([len(known)] * x.rank)
            return constant(array, x.dtype)
    if x.value is not None or all(isinstance(d, int) for d in x.dims):
        return x
    numbers = [(d, as_number(d)) for d in x.dims]
    return Variable.of([d if n is None else n for d, n in numbers], x.dtype, x.name)


def _named(key: tuple, d: Dim, number: Dim, k: int, axis: int) -> Dim:
    if type(d) is str and isinstance(number, int):
        return named_size((key, k, axis), number)
    return d


# ---- integers that are sizes


def sizes_within(call: Call, types: Sequence[OutputType]) -> tuple[Entries | None, ...]:
    """Return what integers or vectors consist of, of each output: see `size_entries`.

    What reads such a result may take its own sizes from them, so that they are a part of its type:
    zeros of the shape of one Variable have other sizes than those of another's.
    """
    return tuple(
        [
            propagated(call, k) if dtype.kind in "iub" and len(dims) <= 1 else None
            for k, (dims, dtype) in enumerate(types)
        ]
    )
