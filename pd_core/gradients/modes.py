"""Adjoints, and the mode in which each of them holds: a side of a `mode_switch` has its own."""

from collections.abc import Sequence
from typing import Any, Literal

from .. import ops
from ..graph.node import Node, located_at
from ..graph.variable import Variable
from .locations import Locations

BOTH, TRAINING, INFERENCE = None, True, False  # the modes in which an adjoint holds
Mode = bool | None
NEITHER: Literal["neither"] = "neither"


class Adjoints:
    """The gradients accumulated so far, by variable and by the mode in which they hold."""

    def __init__(self, locations: Locations) -> None:
        self.sums: dict[Variable, dict[Mode, Variable]] = {}
        self.locations = locations

    def add(self, x: Variable, g: Variable, mode: Mode | Literal["neither"] = BOTH) -> None:
        """Add to the gradient of x in one mode, or in both."""
        if mode == NEITHER:
            return
        sums = self.sums.setdefault(x, {})
        if mode not in sums:
            sums[mode] = g
            return
        with located_at(self.locations.of_variable(x)):
            sums[mode] = sums[mode] + g

    def total(self, x: Variable) -> tuple[Variable | None, Mode]:
        """Return (sum, the mode it holds in); (None, BOTH) if x has no gradient."""
        sums = self.sums.get(x)
        if not sums:
            return None, BOTH
        if len(sums) == 1:
            return next((g, mode) for mode, g in sums.items())
        both, training, inference = (sums.get(m) for m in (BOTH, TRAINING, INFERENCE))
        if training is inference and both is None:
            return training, BOTH
        with located_at(self.locations.of_variable(x)):
            return ops.mode_switch(_plus(both, training), _plus(both, inference)), BOTH

    def result(self, x: Variable) -> Variable | None:
        """Return the gradient of x in both modes: zero in a mode that it does not hold in."""
        g, mode = self.total(x)
        if g is None or mode is BOTH:
            return g
        with located_at(self.locations.of_variable(x)):
            sides = (g, ops.zeros_like(x)) if mode is TRAINING else (ops.zeros_like(x), g)
            return ops.mode_switch(*sides)

    def of(self, node: Node) -> tuple[list[Variable | None], Sequence[Mode | Literal["neither"]]]:
        """Return the adjoints of a node's outputs, and in which mode that of each input holds."""
        totals = [self.total(y) for y in node.outputs]
        modes = {mode for dy, mode in totals if dy is not None}
        if len(modes) > 1:  # outputs whose adjoints hold in different modes
            return [self.result(y) for y in node.outputs], [BOTH] * len(node.inputs)
        mode = next(iter(modes), BOTH)
        of_inputs: Sequence[Mode | Literal["neither"]] = [mode] * len(node.inputs)
        if node.op_type == "ModeSwitch":
            of_inputs = [m if mode in (BOTH, m) else NEITHER for m in (TRAINING, INFERENCE)]
        return [dy for dy, _ in totals], of_inputs


def _plus(a: Variable | None, b: Variable | None) -> Any:
    return b if a is None else a if b is None else a + b
