"""Layers of operators, by the names of the parameters that they read and their namespaces."""

from collections.abc import Iterable, Mapping
from typing import Any

from .node import Node
from .variable import Variable

# What a layer function applies to its sum, in the same line, belongs to the layer.
_ACTIVATIONS = {
    *("Relu", "Tanh", "Sigmoid", "Softmax", "LogSoftmax", "LeakyRelu", "Softplus", "Softsign"),
    "Gelu",
}


def layer_of(name: str) -> str:
    """Return the layer of a parameter by its name: `a/fc_0` of `a/fc_0.W`, `a` of `a/W`."""
    head, _, last = name.rpartition("/")
    stem = last.rpartition(".")[0]
    return "/".join(filter(None, (head, stem))) or name


def layers_of(order: Iterable[Node], known: Mapping[Variable, Variable]) -> dict[Node, str]:
    """Return the layer of each node: that of the parameters that it reads, else its namespace.

    A node comes after those that it needs. `known` are what the captured variables of a body
    stand for, see `captured`.
    """
    layers: dict[Node, str] = {}
    for node in order:
        scope, read = node.scope, parameters_of(node, known)
        names = dict.fromkeys([layer_of(v.name) for v in read])
        inside = [name for name in names if name.startswith(scope)]
        layers[node] = inside[0] if len(inside) == 1 else scope.rstrip("/")
        if node.op_type in _ACTIVATIONS:
            before: Any = node.inputs[0].node
            if before in layers and (before.scope, before.site) == (node.scope, node.site):
                layers[node] = layers[before]
    return layers


def parameters_of(node: Node, known: Mapping[Variable, Variable]) -> list[Variable]:
    """Return the persistent variables that a node reads."""
    read = []
    for x in node.inputs:  # a loop, since gradients ask this for every node
        if x is not None:
            v = known.get(x, x) if known else x
            v = v if v.source is None else v.source
            if v.initial is not None:
                read.append(v)
    return read


def captured(node: Node, known: Mapping[Variable, Variable]) -> dict[Variable, Variable]:
    """Return what the captured variables in the bodies of a node stand for."""
    return {
        v: known.get(x, x)
        for block in node.blocks.values()
        for v, x in zip(block.captured, node.captures, strict=True)
        if x is not None
    }
