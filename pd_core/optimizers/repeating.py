"""An optimizer's rule for one parameter after the other: traced once, and repeated for the rest.

A rule of elementwise operators adds the same nodes for each parameter, only with other sizes and
names. To make them again takes a third of the time of the rule.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..graph.node import Node, ancestors, latest_serial, repeated
from ..graph.recording import recorder
from ..graph.variable import Variable

Changed = tuple[Variable, dict[str, Variable]]  # a new parameter, and its new slots
_NUMBERS = (bool, int, float, str, type(None))
_BEFORE = {"regularizer", "clip"}  # applied to the gradient that a rule gets


class Repetition:
    """The rules of one update that were traced, built at one line and in one namespace."""

    def __init__(self) -> None:
        self._traced: dict[tuple, list[_Traced]] = {}

    def changed(
        self,
        optimizer: Any,
        w: Variable,
        g: Variable,
        slots: Mapping[str, Variable],
        rate: Any,
        step: Mapping[str, Variable],
    ) -> Changed:
        """Return optimizer.rule(w, g, slots, rate, step)."""
        inputs = [w, g, *slots.values()]
        alike = all(v.dims == w.dims for v in inputs)
        if not optimizer.elementwise or not alike or not w.rank or recorder() is not None:
            return optimizer.rule(w, g, slots, rate, step)
        types = [v.dtype.num for v in inputs]
        # a clip or a penalty may return the parameter itself: a rule that reads one Variable as
        # two inputs is not that of two
        wiring = [inputs.index(v) for v in inputs]
        key = type(optimizer), rate, *types, *wiring, *slots, *step.values()
        known = self._traced.setdefault(key, [])
        for traced in known:
            if traced.has_settings(vars(optimizer)):
                return traced.repeated(inputs)
        serial = latest_serial()
        new_w, new = optimizer.rule(w, g, slots, rate, step)
        added = latest_serial() - serial - 1
        results = [new_w, *new.values()]
        behind = ancestors(results, {*inputs, rate, *step.values()})
        nodes = [node for node in behind if node.serial > serial]
        if len(nodes) == added and all(_is_elementwise(node, w) for node in nodes):
            nodes.sort(key=lambda node: node.serial)
            known.append(_Traced(dict(vars(optimizer)), inputs, nodes, results, list(new)))
        return new_w, new


class _Traced:
    """The nodes that a rule has added for a parameter, the first of `inputs`."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        inputs: Sequence[Variable],
        nodes: Sequence[Node],
        results: Sequence[Variable],
        names: Sequence[str],
    ):
        self.settings, self.inputs, self.nodes = settings, inputs, nodes
        self.results, self.names = results, names

    def has_settings(self, settings: Mapping[str, Any]) -> bool:
        """Whether an optimizer with these attributes has the same rule."""
        own = self.settings
        return own.keys() == settings.keys() and all(
            v is own[k] or (type(v) in _NUMBERS and type(own[k]) is type(v) and v == own[k])
            for k, v in settings.items()
            if k not in _BEFORE
        )

    def repeated(self, inputs: Sequence[Variable]) -> Changed:
        """Return what the rule returns for other inputs."""
        before, dims = self.inputs[0].dims, inputs[0].dims
        new = dict(zip(self.inputs, inputs, strict=True))
        get: Callable[..., Any] = new.get
        for node in self.nodes:
            types = [(dims if y.dims == before else y.dims, y.dtype) for y in node.outputs]
            copy = repeated(node, tuple([get(x, x) for x in node.inputs]), types)
            new.update(zip(node.outputs, copy.outputs, strict=True))
        w, *slots = [get(v, v) for v in self.results]
        return w, dict(zip(self.names, slots, strict=True))


def _is_elementwise(node: Node, w: Variable) -> bool:
    """Whether a node has results of the sizes of a parameter, or scalars."""
    sizes = all(y.dims in (w.dims, ()) for y in node.outputs)
    return type(node) is Node and not node.blocks and not node.effects and sizes
