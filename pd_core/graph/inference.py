"""Output types of a node: ONNX's own inference, checked and refined.

Sizes that stay unnamed get a fresh name, so a rank is always known.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
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

from .checks import checks
from .errors import DTypeError, GraphError, ShapeError
from .refinements import refinements, unshaped
from .type_cache import remembered
from .variable import Dim, Inputs, OutputType, Variable, fresh_dim

OPSET = 21
CEILING = 26  # the newest opset that ONNX Runtime 1.31 loads
_SMALL = 64  # constants up to this many elements are shown to ONNX's inference (shapes, axes)


def opset_of(op_type: str, inputs: int, attributes: Iterable[str], newest: int = 0) -> int:
    """The opset that a program with this operator needs: OPSET, or the first later one that has it
    with so many inputs and these attributes; one up to `newest`, if OPSET has no such operator.
    """
    versions = versions_of(op_type, inputs, frozenset(attributes))
    if versions and versions[0] <= OPSET:
        return OPSET
    if versions:
        return max((v for v in versions if v <= newest), default=versions[0])
    if any(s.since_version <= OPSET for s in _schemas(op_type)):
        return OPSET  # whose schema says what does not fit
    since = min((s.since_version for s in _schemas(op_type)), default=CEILING)
    later = f", only from {since} on" if since > CEILING else ""
    raise GraphError(f"ONNX has no operator {op_type!r} in opset {CEILING}{later}")


@cache
def versions_of(op_type: str, inputs: int, attributes: frozenset[str]) -> list[int]:
    """The versions of an operator that a runtime loads and that take these; the pinned one alone
    of those up to OPSET.
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


def _schemas(op_type):
    return _history().get(op_type, ())


@cache
def _history():
    """All schemas of ONNX's own operators by name; ONNX takes milliseconds to list them."""
    found: dict[str, list[defs.OpSchema]] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            found.setdefault(schema.name, []).append(schema)
    return found


class Call(NamedTuple):
    """An operator with its arguments, before there is a node."""

    op_type: str
    inputs: Inputs
    attributes: dict[str, Any]
    opset: int = OPSET
    kind: int = 0  # see `signature.kind_of`


def infer(call: Call, outputs: int, known: Sequence[Iterable[Dim] | None] = ()) -> list[OutputType]:
    """Dims and dtype of each output of an operator of the ONNX domain.

    `known` are dims of the first outputs that are known better than ONNX infers them, or None.
    """
    return remembered(call, outputs, known, _SMALL, _inferred)


def _inferred(call, outputs, known):
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
        raise _invalid(str(error)) from None
    for k in range(outputs):
        tensor = inferred[f"o{k}"].tensor_type if f"o{k}" in inferred else None
        if call.op_type in unshaped and (tensor is None or not tensor.HasField("shape")):
            yield unshaped[call.op_type](call, k)
            continue
        if tensor is None:
            raise ShapeError(f"ONNX cannot tell the type of output {k} from these inputs")
        yield _output_type(call, k, tensor, known)


def _invalid(text):
    """ONNX's complaint about an element type or a number of inputs, in our words."""
    found = re.match(r"(\w+) (typestr: .*)?has \w+ type:? tensor\((\w+)\)", text)
    if found is None:
        return GraphError(text)
    what, unsupported, tensor = found.groups()
    dtype = {"float": "float32", "double": "float64"}.get(tensor, tensor)
    if unsupported or what == "output":
        return DTypeError(f"{what} cannot be {dtype}")
    return DTypeError(f"{what} is {dtype}, other inputs are not\n  hint: cast() one of them")


def _output_type(call, k, tensor, known):
    dims = known[k] if k < len(known) else None
    if dims is None and k == 0 and call.op_type in refinements:
        dims = refinements[call.op_type](call)
    if dims is None:
        if not tensor.HasField("shape"):
            raise ShapeError("the rank of the result is not known before it runs")
        dims = tuple(
            d.dim_value if d.HasField("dim_value") else d.dim_param or fresh_dim()
            for d in tensor.shape.dim
        )
    return tuple(dims), helper.tensor_dtype_to_np_dtype(tensor.elem_type)


def _single_node(call, outputs):
    proto = NodeProto(op_type=call.op_type, output=[f"o{k}" for k in range(outputs)])
    types, data = {}, {}
    for k, x in enumerate(call.inputs):
        if x is None:
            proto.input.append("")
            continue
        name = f"i{k}"
        proto.input.append(name)
        types[name] = type_proto(x)
        if x.value is not None and x.value.size <= _SMALL:
            data[name] = numpy_helper.from_array(x.value, name)
    proto.attribute.extend(attribute(k, v) for k, v in call.attributes.items())
    return proto, types, data


def attribute(name: str, value: Any) -> AttributeProto:
    """An ONNX attribute; an empty list is a list of ints."""
    if isinstance(value, (list, tuple)) and not value:
        return AttributeProto(name=name, type=AttributeProto.INTS)
    return helper.make_attribute(name, value)


def element_type(dtype: DTypeLike) -> int:
    try:
        return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    except (KeyError, ValueError, TypeError):
        raise DTypeError(f"ONNX has no element type for {dtype}") from None


def type_proto(x: Variable) -> TypeProto:
    """The ONNX type of a variable."""
    return helper.make_tensor_type_proto(element_type(x.dtype), x.dims)
