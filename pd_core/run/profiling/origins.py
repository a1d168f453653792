"""Where the operators of a program come from: their layer, their line, and the pass.

What gradient rules have added is the backward pass. What the new values of an update need besides
the gradients is the update, and all else is the forward pass.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...graph.layers import captured, layer_of, layers_of, parameters_of
from ...graph.node import Block, Location, Node, ancestors, located_at, new_node
from ...graph.rewrite import rewrite
from ...graph.site import GradientSite, Site
from ...graph.update import Update
from ...graph.variable import Variable

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"


class Origin(tuple):
    """The line of an operator, (file, line) or () if there is none, with its layer and pass.

    As the site of a node it survives the rewriting of a graph, and leaves names, models and errors
    as they are.
    """

    layer: str
    phase: str

    @classmethod
    def of(cls, site: Site | None, layer: str, phase: str) -> "Origin":
        """Return the origin of an operator that was built at `site`."""
        origin = cls(site or ())
        origin.layer, origin.phase = layer, phase
        return origin


def with_origins(
    targets: Iterable[Variable], origins: Mapping[Node, Origin], stop: set[Variable]
) -> list[Variable]:
    """Return the targets as outputs of the same operators, whose sites are their origins."""

    def again(node: Node, inputs: Sequence[Variable | None]) -> Sequence[Variable]:
        blocks = {
            key: Block(b.block_inputs, b.captured, rewrite(b.outputs, again, b.inputs))
            for key, b in node.blocks.items()
        }
        with located_at(Location(node.scope, origins[node])):
            return new_node(
                node.op_type,
                inputs,
                node.attributes,
                node.types,
                domain=node.domain,
                opset=node.opset,
                blocks=blocks,
                visible=node.visible,
                output_names=[y.name for y in node.outputs],
            ).outputs

    return rewrite(targets, again, stop)


def origins_of(
    targets: Sequence[Variable], updates: Sequence[Update], stop: set[Variable]
) -> dict[Node, Origin]:
    """Return the origin of each node behind targets, those in bodies included.

    `updates` are those that the targets are of. Nothing behind `stop` runs.
    """
    order = ancestors(targets, stop)
    phases = {node: _phase(node, FORWARD) for node in order}
    for update in updates:
        _mark(phases, update, stop)
    layers = layers_of(order, {})
    read = _layers_of_parameters([node for node in order if phases[node] == FORWARD], layers)
    served = _served([node for node in order if phases[node] == UPDATE], updates, read)
    origins: dict[Node, Origin] = {}
    for node in order:
        layer = served.get(node, "") if phases[node] == UPDATE else layers[node]
        _add(origins, node, layer, phases[node], {})
    return origins


def _phase(node: Node, other: str) -> str:
    """The pass of a node: what a gradient rule has added is the backward one."""
    return BACKWARD if isinstance(node.site, GradientSite) else other


def _mark(phases: dict[Node, str], update: Update, stop: set[Variable]) -> None:
    """Mark what the new values of an update need besides the gradients."""
    if not update.gradients:
        return
    groups = [g if isinstance(g, tuple) else (g,) for _, g in update.gradients]
    needed = set(ancestors([g for group in groups for g in group], stop))
    last = max((node.serial for node in needed), default=-1)
    for node in ancestors([a.value for a in update.assignments], stop):
        # what is older is the forward pass of moving statistics
        if phases.get(node) == FORWARD and node not in needed and node.serial > last:
            phases[node] = UPDATE


def _add(
    origins: dict[Node, Origin],
    node: Node,
    layer: str,
    phase: str,
    known: Mapping[Variable, Variable],
) -> None:
    """Add the origins of a node and of those in its bodies."""
    site: Any = node.site
    if isinstance(site, GradientSite):
        site, layer = site.line, site.layer
    origins[node] = Origin.of(site, layer, phase)
    inside = captured(node, known)
    for block in node.blocks.values():
        order = ancestors(block.outputs, set(block.inputs))
        for inner, own in layers_of(order, inside).items():
            _add(origins, inner, own or layer, _phase(inner, phase), inside)


def _layers_of_parameters(
    forward: Sequence[Node], layers: Mapping[Node, str]
) -> dict[Variable, str]:
    """The layer of each parameter: that of the operators that read it, if they have one."""
    read: dict[Variable, set[str]] = {}
    for node in forward:
        for v in parameters_of(node, {}):
            read.setdefault(v, set()).add(layers[node])
    return {v: names.pop() if len(names) == 1 else layer_of(v.name) for v, names in read.items()}


def _served(
    nodes: Sequence[Node], updates: Sequence[Update], of_parameters: Mapping[Variable, str]
) -> dict[Node, str]:
    """The layer of each node of an update whose parameters are all of one layer."""
    served: dict[Node, set[str]] = {node: set() for node in nodes}
    for a in (a for update in updates for a in update.assignments):
        if a.owner is not None and a.value.node in served:
            served[a.value.node].add(of_parameters.get(a.owner, layer_of(a.owner.name)))
    for node in reversed(nodes):
        for x in node.inputs:
            if x is not None and x.node in served:
                served[x.node] |= served[node]
    return {node: next(iter(names)) for node, names in served.items() if len(names) == 1}
