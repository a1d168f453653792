"""The locations of operators that gradient rules add: which operator they differentiate.

It is noted in their sites, which survive the rewriting of a graph, and not as a reference to the
operator: a gradient keeps no more of the forward pass than it reads.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ..graph.layers import captured, layer_of, layers_of
from ..graph.node import Location, Node, current_location, located_at, location_in_force
from ..graph.site import GradientSite, user_site
from ..graph.variable import Variable
from .registry import is_ours


class _RuleLocation:
    """The location of what is built while the rule of a node runs.

    Its line is the one that asks for the gradients. If `moves`, as for a rule outside of our
    packages, it is that of the rule that calls an op.
    """

    __slots__ = ("_site", "known", "moves", "node", "scope")

    def __init__(
        self, node: Node, scope: str, site: GradientSite, known: Mapping, moves: bool
    ) -> None:
        self.node, self.scope, self._site, self.known, self.moves = node, scope, site, known, moves

    @property
    def site(self) -> GradientSite:
        """The line, with layer and line of the node."""
        line = user_site() if self.moves else self._site
        if line is None or line == self._site:
            return self._site
        return GradientSite.of(line, self._site.layer, self._site.line)


class Locations:
    """The locations of what differentiates the nodes of a graph; `order` are its nodes in order.

    Where gradients are differentiated, the location is that of the operator of the forward pass. A
    node in the body of a loop that has no layer is in that of the loop.
    """

    def __init__(self, order: Iterable[Node]) -> None:
        outer = location_in_force()
        self._scope, self._line = current_location()
        self._moves, self._known, self._layer = outer is None, {}, ""
        if isinstance(outer, _RuleLocation):  # a rule that asks for gradients
            self._moves, self._layer = True, outer.site.layer
            self._known = captured(outer.node, outer.known)
        self._layers = layers_of(order, self._known)
        self._locations: dict[Node, _RuleLocation] = {}
        self._sites: dict[tuple, GradientSite] = {}  # a few operators in a line share one
        self._ours: dict[str, bool] = {}

    def of(self, node: Node) -> _RuleLocation:
        """Return the location of what differentiates a node."""
        location = self._locations.get(node)
        if location is None:
            site: Any = node.site
            layer = self._layers.get(node) or self._layer
            if isinstance(site, GradientSite):
                site, layer = site.line, site.layer
            moves = self._moves and not self._is_ours(node.op_type)
            own = self._sites.get((layer, site))
            if own is None:
                own = self._sites[layer, site] = GradientSite.of(self._line, layer, site)
            location = _RuleLocation(node, self._scope, own, self._known, moves)
            self._locations[node] = location
        return location

    def _is_ours(self, op_type: str) -> bool:
        ours = self._ours.get(op_type)
        if ours is None:
            ours = self._ours[op_type] = is_ours(op_type)
        return ours

    def of_variable(self, v: Variable) -> Location | _RuleLocation:
        """Return the location of what adds up to the gradient of a Variable.

        That of what differentiates the operator that computes it. What no operator computes has
        that of the running rule; outside of rules a parameter has its layer.
        """
        if v.node is not None:
            return self.of(v.node)
        running = location_in_force()
        if isinstance(running, _RuleLocation):
            return running
        owner = v if v.source is None else v.source
        layer = layer_of(owner.name) if owner.is_persistent else ""
        return Location(self._scope, GradientSite.of(self._line, layer, self._line))


def gradient_of(v: Variable) -> located_at:
    """Return a context in which what is built belongs to the gradient of a Variable."""
    return located_at(Locations([] if v.node is None else [v.node]).of_variable(v))
