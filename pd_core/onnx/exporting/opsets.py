"""Graphs for a given opset: newer operators expressed by older ones, which have their older form.

ONNX's own version converter knows few operators, and none inside of loops.
"""

from collections.abc import Sequence
from functools import cache, partial

from onnx import TensorProto, defs

from ...backend.passes import EXPORT
from ...backend.passes.context import Context, apply_passes
from ...backend.passes.identities import without_identities
from ...gradients.registry import expressions
from ...graph.errors import ExportError
from ...graph.inference import CEILING, element_type
from ...graph.node import Node, all_nodes
from ...graph.rewrite import rewrite
from ...graph.site import site_text
from ...graph.variable import Variable
from .expressed import EXPRESSED
from .older_forms import FORMS

OLDEST = 13  # the first opset whose axes of sums, squeezes and splits are inputs, as ours are
# Operators whose meaning changed: they are expressed by others before these opsets.
_CHANGED = {"GroupNormalization": 21, "GridSample": 16, "RoiAlign": 16}
# The first opset in which an attribute may have a value.
_VALUES = {
    ("Pad", "mode", "wrap"): 19,
    ("Resize", "coordinate_transformation_mode", "half_pixel_symmetric"): 19,
    ("ScatterElements", "reduction", "max"): 18,
    ("ScatterElements", "reduction", "min"): 18,
    ("ScatterND", "reduction", "max"): 18,
    ("ScatterND", "reduction", "min"): 18,
}
_VOLUMES = 20  # the first opset whose GridSample takes volumes


def check_opset(caller: str, opset: int) -> None:
    """Raise an ExportError unless models can be written in this opset."""
    if not OLDEST <= opset <= CEILING:
        raise ExportError(f"{caller}: opset is {OLDEST} … {CEILING}, not {opset}")


def in_operators_of(targets: Sequence[Variable], opset: int) -> list[Variable]:
    """Return the targets with operators that are newer than an opset expressed by others."""

    def express(node: Node, inputs: tuple) -> Sequence[Variable] | None:
        since, function = EXPRESSED.get(node.op_type, (0, None))
        if function is not None and opset < since:
            return (function(node, inputs),)
        if node.op_type not in expressions or _since(node) <= opset:
            return None
        outputs = expressions[node.op_type](node.attributes, *inputs)
        outputs = (outputs,) if isinstance(outputs, Variable) else tuple(outputs)
        return outputs[: len(node.outputs)]

    expressed = rewrite(targets, express)
    if expressed == list(targets):
        return expressed
    expressed = without_identities(expressed)
    # what they are expressed by may be too new as well
    return in_operators_of(apply_passes(expressed, EXPORT, Context()), opset)


def in_forms_of(targets: Sequence[Variable], opset: int, caller: str) -> list[Variable]:
    """Return the targets with operators in the forms that they have in an opset.

    ExportError names the operators for which there is no way, and the opset that each needs.
    """
    older = list(targets)
    for before, rules in FORMS:
        if opset < before:
            rule = partial(_in_form, rules, opset)
            older = rewrite(older, rule, only=rules.keys())
    _check(older, opset, caller)
    return older


def _in_form(rules, opset, node, inputs):
    return rules[node.op_type](node, inputs, opset)


def _since(node):
    """The first opset in which an operator means what it does today."""
    if node.op_type == "GridSample" and node.inputs[0].rank != 4:
        return _VOLUMES
    return _CHANGED.get(node.op_type) or min(_versions(node.op_type), default=CEILING)


def _versions(op_type):
    return _history().get(op_type, [])


@cache
def _history():
    """{operator: its versions}; ONNX takes milliseconds to list them."""
    versions: dict[str, list[int]] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            versions.setdefault(schema.name, []).append(schema.since_version)
    return versions


def _check(targets, opset, caller):
    """Check that each operator is one of the opset."""
    missing: dict[str, tuple[int | None, Node]] = {}
    for node in all_nodes(targets):
        if not _fits(node, opset):
            missing.setdefault(node.op_type, (_needed(node, opset), node))
    if missing:
        lines = [
            f"\n  {op_type} needs opset {needed}" + _built(node)
            if needed
            else f"\n  {op_type} does not exist in this form in any opset" + _built(node)
            for op_type, (needed, node) in sorted(missing.items())
        ]
        raise ExportError(f"{caller}: not in opset {opset}:" + "".join(lines))


def _built(node):
    return f", built at {site_text(node.site)}" if node.site else ""


def _needed(node, opset):
    """The first later opset that has an operator, or None."""
    return next((k for k in range(opset + 1, CEILING + 1) if _fits(node, k)), None)


def _texts(attributes):
    return [(key, value) for key, value in attributes.items() if isinstance(value, str)]


def _fits(node, opset):
    """Whether an opset has an operator with these attributes and inputs, of these types."""
    if node.domain:
        return True
    versions = [v for v in _versions(node.op_type) if v <= opset]
    if not versions:
        return False
    schema = defs.get_schema(node.op_type, opset)
    explicit = node.inputs[: len(node.inputs) - len(node.captures)]
    if len(explicit) > schema.max_input or not node.attributes.keys() <= schema.attributes.keys():
        return False
    if any(_VALUES.get((node.op_type, *a), 0) > opset for a in _texts(node.attributes)):
        return False
    return all(
        x is None or _type(x) in schema.inputs[min(k, len(schema.inputs) - 1)].types
        for k, x in enumerate(explicit)
    )


@cache
def _type_name(dtype):
    return f"tensor({TensorProto.DataType.Name(element_type(dtype)).lower()})"


def _type(x):
    return _type_name(x.dtype)
