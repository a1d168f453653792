"""The functions of a file, and the bodies of the operators that ONNX defines by others."""

from collections.abc import Iterable, Sequence

from onnx import FunctionProto, NodeProto, TypeProto, defs

from ...graph.errors import ModelError
from ...graph.inference import CEILING, attribute, type_proto
from ...graph.variable import Variable
from .versions import attribute_value

Key = tuple[str, str, str]  # of a function: its domain, name and overload


def functions_of(functions: Iterable[FunctionProto]) -> dict[Key, FunctionProto]:
    """Return the functions of a file by what nodes call them."""
    return {(f.domain, f.name, f.overload): f for f in functions}


def called_by(node: NodeProto) -> Key:
    """Return the key of the function that a node calls, if it calls one."""
    return node.domain, node.op_type, node.overload


def function_of(
    op_type: str, version: int, inputs: Sequence[Variable | None], attributes: dict, outputs: int
) -> tuple[FunctionProto, dict] | None:
    """Return the body of an operator and its attributes with defaults; None if ONNX has no body.

    The types of the inputs choose between bodies that depend on types.
    """
    schema = defs.get_schema(op_type, version)
    complete = {**_defaults(schema), **attributes}
    proto = NodeProto(op_type=op_type, output=[f"o{k}" for k in range(outputs)])
    proto.input.extend("" if x is None else f"i{k}" for k, x in enumerate(inputs))
    proto.attribute.extend(attribute(k, v) for k, v in complete.items())
    body = _body(schema, proto, inputs)
    return None if body is None else (body, complete)


def _body(schema, proto, inputs):
    body = FunctionProto()
    if schema.has_function:
        version = _newest(schema.function_opset_versions)
        body.ParseFromString(schema.get_function_with_opset_version(version))
        return body
    if not schema.has_context_dependent_function:
        return None
    types = [TypeProto() if x is None else type_proto(x) for x in inputs]
    serialized = schema.get_context_dependent_function_with_opset_version(
        _newest(schema.context_dependent_function_opset_versions),
        proto.SerializeToString(),
        [t.SerializeToString() for t in types],
    )
    if not serialized:
        raise ModelError(f"ONNX gives no body of {schema.name} for these inputs")
    body.ParseFromString(serialized)
    return body


def _newest(versions):
    return max([v for v in versions if v <= CEILING] or versions)


def _defaults(schema):
    """Return the default values of attributes by name."""
    defaults = {k: a.default_value for k, a in schema.attributes.items()}
    return {k: attribute_value(v) for k, v in defaults.items() if v.type}
