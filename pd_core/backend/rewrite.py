"""Graph to graph: the walk that every pass is written with."""

from ..node import Node, ancestors
from ..variable import Variable


def rewrite(targets, rule, stop=(), select=None):
    """The targets after rule(node, inputs) -> outputs, or None to keep the node.

    `inputs` are the node's inputs after the rewriting of what is behind them. A kept node whose
    inputs changed is built again with the same types; new nodes inherit the line and namespace
    of the one they replace.
    """
    new = {}
    for node in ancestors(targets, stop, select):
        inputs = tuple(new.get(x, x) for x in node.inputs)
        outputs = rule(node, inputs)
        if outputs is not None:
            _inherit(node, inputs, outputs)
        elif inputs != node.inputs:
            outputs = _rebuilt(node, inputs)
        if outputs is not None:
            new.update(zip(node.outputs, outputs, strict=True))
    return [new.get(v, v) for v in targets]


def _rebuilt(node, inputs):
    copy = Node(node.op_type, inputs, node.attributes, node.domain, node.scope, node.site)
    copy.outputs = tuple(Variable.of(y.dims, y.dtype, y.name, node=copy) for y in node.outputs)
    return copy.outputs


def _inherit(node, inputs, outputs):
    for made in ancestors(outputs, stop=set(x for x in inputs if x is not None)):
        made.site, made.scope = node.site, node.scope
