"""Output types of a node: ONNX's own inference, with checks before and refinements after it.

Sizes that ONNX leaves unnamed get a fresh name, so a rank is always known.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from numpy.typing import DTypeLike
from onnx import (
    AttributeProto,
    NodeProto,
    TypeProto,
    checker,
    defs,
    helper,
    numpy_helper,
    shape_inference,
)

from .arrays import native
from .checks import checks
from .errors import DTypeError, GraphError, ShapeError
from .refinements import attention_state, fallbacks, refinements
from .size_entries import as_dims, settled_numbers
from .sized_results import sized_results, sizes_read
from .type_cache import remembered
from .variable import Dim, Inputs, OutputType, Variable, fresh_dim

OPSET = 21
CEILING = 26  # the newest opset that ONNX Runtime 1.31 loads
_SMALL = 64  # ONNX's inference sees constants up to this many elements (shapes, axes)


def opset_of(op_type: str, inputs: int, attributes: Iterable[str], newest: int = 0) -> int:
    """Return the opset that a program with this operator needs.

    It is OPSET, or the first later one that has the operator with this number of inputs and these
    attributes; if OPSET has no such operator, the last one up to `newest`.
    """
    versions = versions_of(op_type, inputs, frozenset(attributes))
    if versions and versions[0] <= OPSET:
        return OPSET
    if versions:
        return max((v for v in versions if v <= newest), default=versions[0])
    if any(s.since_version <= OPSET for s in _schemas(op_type)):
        return OPSET  # its schema reports what does not fit
    since = min((s.since_version for s in _schemas(op_type)), default=CEILING)
    later = f", only from {since} on" if since > CEILING else ""
    raise GraphError(f"ONNX has no operator {op_type!r} in opset {CEILING}{later}")


@cache
def versions_of(op_type: str, inputs: int, attributes: frozenset[str]) -> list[int]:
    """Return the versions of an operator that take these inputs and attributes, in order.

    They are versions that a runtime loads; of those up to OPSET only the one in force there.
    """
    loaded = [s for s in _schemas(op_type) if s.since_version <= CEILING]
    pinned = max((s.since_version for s in loaded if s.since_version <= OPSET), default=0)
    return sorted(
        s.since_version
        for s in loaded
        if s.since_version >= max(pinned, 1)
        and s.max_input >= inputs
        and attributes <= s.attributes.keys()
    )


def _schemas(op_type: str) -> Any:
    return _history().get(op_type, ())


@cache
def _history() -> Any:
    """{name: all schemas} of ONNX's own operators; ONNX takes milliseconds to list them."""
    schemas: dict[str, list[defs.OpSchema]] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            schemas.setdefault(schema.name, []).append(schema)
    return schemas


class Call(NamedTuple):
    """An operator with its arguments, before its node is built."""

    op_type: str
    inputs: Inputs
    attributes: dict[str, Any]
    opset: int = OPSET
    kind: int = 0  # see `signature.kind_of`


def replaced_inputs(call: Call, inputs: Inputs) -> Call:
    """Return the same operator on other inputs."""
    return Call(call.op_type, inputs, call.attributes, call.opset, call.kind)


def infer(
    call: Call, outputs: int, known: Sequence[Iterable[Dim] | None] = ()
) -> tuple[OutputType, ...]:
    """Return dims and dtype of each output of an operator of the ONNX domain.

    `known` are the dims of the first outputs where the caller knows them better than ONNX, or None.
    """
    return remembered(call, outputs, known, _SMALL, _inferred)


def _inferred(call: Call, outputs: int, known: Any) -> Any:
    if call.op_type in checks:
        checks[call.op_type](call)
    proto, types, data = _single_node(call, outputs)
    try:
        inferred = shape_inference.infer_node_outputs(
            defs.get_schema(call.op_type, call.opset),
            proto,
            types,
            data,
            opset_imports=[helper.make_opsetid("", call.opset)],
        )
    except checker.ValidationError as error:
        raise _validation_error(str(error)) from None
    for k in range(outputs):
        tensor = inferred[f"o{k}"].tensor_type if f"o{k}" in inferred else None
        if call.op_type in fallbacks and (tensor is None or not tensor.HasField("shape")):
            yield _with_sizes_read(call, k, *fallbacks[call.op_type](call, k))
            continue
        if tensor is None:
            raise ShapeError(f"ONNX cannot tell the type of output {k} from these inputs")
        yield _output_type(call, k, tensor, known)


def _validation_error(text: str) -> Any:
    """Translate ONNX's message about an element type or a number of inputs."""
    match = re.match(r"(\w+) (typestr: .*)?has \w+ type:? tensor\((\w+)\)", text)
    if match is None:
        return GraphError(text)
    what, unsupported, tensor = match.groups()
    dtype = {"float": "float32", "double": "float64"}.get(tensor, tensor)
    if unsupported or what == "output":
        return DTypeError(f"{what} cannot be {dtype}")
    return DTypeError(f"{what} is {dtype}, other inputs are not\n  hint: cast() one of them")


def _output_type(call: Call, k: int, tensor: Any, known: Any) -> Any:
    dims = known[k] if k < len(known) else None
    if dims is None and k == 0 and call.op_type in refinements:
        dims = refinements[call.op_type](call)
    if dims is None and k and call.op_type == "Attention":
        dims = attention_state(call, k)
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if dims is not None:
        return tuple([fresh_dim() if d is None else d for d in dims]), dtype
    sizes = sizes_read(call, k)
    if not tensor.HasField("shape"):
        if sizes is None:
            raise ShapeError("the rank of the result is not known before it runs")
        return as_dims(sizes), dtype
    inferred = [
        d.dim_value if d.HasField("dim_value") else d.dim_param or fresh_dim()
        for d in tensor.shape.dim
    ]
    if call.op_type == "Slice" and sizes is not None:
        inferred = [d if n is None else n for d, n in zip(inferred, sizes, strict=True)]
    return _merged(inferred, sizes), dtype


def _with_sizes_read(call: Call, k: int, dims: Any, dtype: Any) -> Any:
    return _merged(dims, sizes_read(call, k)), dtype


def _merged(inferred: Any, sizes: Any) -> Any:
    """Sizes that ONNX infers, or those that operands tell where it has no number."""
    if sizes is None or len(sizes) != len(inferred):
        return tuple(inferred)
    return tuple(
        [d if isinstance(d, int) or n is None else n for d, n in zip(inferred, sizes, strict=True)]
    )


def _single_node(call: Call, outputs: int) -> Any:
    """The NodeProto of an operator, with the types and small constants of its inputs by name."""
    proto = NodeProto(op_type=call.op_type, output=[f"o{k}" for k in range(outputs)])
    types, data = {}, {}
    for k, x in enumerate(call.inputs):
        if x is None:
            proto.input.append("")
            continue
        name = f"i{k}"
        proto.input.append(name)
        types[name] = type_proto(x)
        known = settled_numbers(x) if call.op_type in sized_results else x
        if known.value is not None and known.value.size <= _SMALL:
            data[name] = numpy_helper.from_array(known.value, name)
    proto.attribute.extend(attribute(k, v) for k, v in call.attributes.items())
    return proto, types, data


def attribute(name: str, value: Any) -> AttributeProto:
    """Return an ONNX attribute; an empty list is a list of ints."""
    if isinstance(value, (list, tuple)) and not value:
        return AttributeProto(name=name, type=AttributeProto.INTS)
    return helper.make_attribute(name, value)


def element_type(dtype: DTypeLike) -> int:
    """Return ONNX's number of an element type; DTypeError if it has none."""
    try:
        return helper.np_dtype_to_tensor_dtype(native(dtype))
    except (KeyError, ValueError, TypeError):
        raise DTypeError(f"ONNX has no element type for {dtype}") from None


def type_proto(x: Variable) -> TypeProto:
    """Return the ONNX type of a variable."""
    return helper.make_tensor_type_proto(element_type(x.dtype), x.symbolic_dims)
