"""Where the operators of a program come from: their layer, their line, and the pass.

The passes of a training step are told apart by what its updates know. What only their gradients
need, and was built by the line that asked for these, is the backward pass; what the new values need
besides is the update; all else is the forward pass.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from ..graph.node import Block, Node, ancestors, in_place_of, new_node
from ..graph.rewrite import rewrite
from ..graph.site import Site
from ..graph.update import Update
from ..graph.variable import Variable
from .differentiated import differentiated

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"

# What a layer function applies to its sum, in the same line, belongs to the layer.
_ACTIVATIONS = {
    *("Relu", "Tanh", "Sigmoid", "Softmax", "LogSoftmax", "LeakyRelu", "Softplus", "Softsign"),
    "Gelu",
}
_serial = attrgetter("serial")


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


class _Place(NamedTuple):
    """What `in_place_of` reads of a node."""

    scope: str
    site: Origin


def with_origins(
    targets: Iterable[Variable], origins: Mapping[Node, Origin], stop: set[Variable]
) -> list[Variable]:
    """Return the targets as outputs of the same operators, whose sites are their origins."""

    def again(node, inputs):
        blocks = {
            key: Block(b.formals, b.captured, rewrite(b.outputs, again, b.inputs))
            for key, b in node.blocks.items()
        }
        place: Any = _Place(node.scope, origins[node])
        with in_place_of(place):
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
    phases = dict.fromkeys(order, FORWARD)
    for update in updates:
        _mark(phases, update, stop)
    forward = [node for node in order if phases[node] == FORWARD]
    backward = sorted((node for node in order if phases[node] == BACKWARD), key=_serial)
    layers = _layers(forward, {})
    of_parameters = _layers_of_parameters(forward, layers)
    source = differentiated(forward, backward, [p for u in updates for p in _gradients(u)])
    served = _served([node for node in order if phases[node] == UPDATE], updates, of_parameters)
    origins: dict[Node, Origin] = {}
    for node in order:
        phase, f = phases[node], source.get(node)
        site = node.site if f is None else f.site
        layer = layers.get(node if f is None else f, served.get(node, ""))
        origins[node] = Origin.of(site, layer, phase)
        for inner, own in _inner_layers(node, layer).items():
            origins[inner] = Origin.of(inner.site if f is None else site, own, phase)
    return origins


def _gradients(update):
    """The (parameter, Variables of its gradient) pairs of an update."""
    return [(w, g if isinstance(g, tuple) else (g,)) for w, g in update.gradients]


def _mark(phases, update, stop):
    """Mark the backward pass of an update, and what its new values need besides."""
    gradients = [g for _, group in _gradients(update) for g in group if g.node is not None]
    behind = sorted(ancestors(gradients, stop), key=_serial)
    if not behind:
        return
    lines = {(g.node.scope, g.node.site) for g in gradients}
    for node in reversed(behind):
        if (node.scope, node.site) not in lines or hasattr(node, "alive"):  # recorded
            break
        phases[node] = BACKWARD
    needed, last = set(behind), behind[-1].serial
    for node in ancestors([a.value for a in update.assignments], stop):
        # what is older is the forward pass of moving statistics
        if node in phases and node not in needed and node.serial > last:
            phases[node] = UPDATE


# ---- layers


def layer_of(name: str) -> str:
    """Return the layer of a parameter by its name: `a/fc_0` of `a/fc_0.W`, `a` of `a/W`."""
    head, _, last = name.rpartition("/")
    stem = last.rpartition(".")[0]
    return "/".join(filter(None, (head, stem))) or name


def _layers(order, known):
    """The layer of each node: that of the parameters that it reads, else its namespace.

    `known` are what the captured variables of a body stand for.
    """
    layers: dict[Node, str] = {}
    for node in order:
        read = {layer_of(v.name) for v in _parameters(node, known)}
        inside = {name for name in read if name.startswith(node.scope)}
        layers[node] = inside.pop() if len(inside) == 1 else node.scope.rstrip("/")
        if node.op_type in _ACTIVATIONS:
            before: Any = node.inputs[0].node
            if before in layers and (before.scope, before.site) == (node.scope, node.site):
                layers[node] = layers[before]
    return layers


def _parameters(node, known):
    """The persistent variables that a node reads."""
    read = [known.get(x, x) for x in node.inputs if x is not None]
    owners = [v if v.source is None else v.source for v in read]
    return [v for v in owners if v.is_persistent]


def _inner_layers(node, layer):
    """The layers of the nodes in the bodies of a node of some layer."""
    layers: dict[Node, str] = {}
    for block in node.blocks.values():
        known = dict(zip(block.captured, node.captures, strict=True))
        for inner, own in _layers(ancestors(block.outputs, set(block.inputs)), known).items():
            layers[inner] = own or layer
            layers.update(_inner_layers(inner, layers[inner]))
    return layers


def _layers_of_parameters(forward, layers):
    """The layer of each parameter: that of the operators that read it, if they have one."""
    read: dict[Variable, set[str]] = {}
    for node in forward:
        for v in _parameters(node, {}):
            read.setdefault(v, set()).add(layers[node])
    return {v: names.pop() if len(names) == 1 else layer_of(v.name) for v, names in read.items()}


def _served(nodes, updates, of_parameters):
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
