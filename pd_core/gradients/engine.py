"""Reverse-mode differentiation: one walk back over the nodes that accumulates their gradients."""

from collections.abc import Iterable, Sequence
from typing import Any

from .. import ops
from ..graph.checks import differ
from ..graph.errors import DTypeError, GraphError, NoGradient, ShapeError
from ..graph.node import ancestors, in_place_of, refined
from ..graph.recording import recorder
from ..graph.site import site_text
from ..graph.variable import Operand, Variable, constant
from .places import Places
from .registry import rule_of, zeros

BOTH, TRAINING, INFERENCE = None, True, False  # the modes in which an adjoint holds
Mode = bool | None


def gradients(
    cost: Variable | Sequence[Variable],
    variables: Iterable[Variable],
    seeds: Sequence[Operand | None] | None = None,
) -> list[Variable | None]:
    """Return d cost / d v for each v, of v's shape; None where cost does not depend on v.

    A list of costs is summed. A cost that is not a scalar is differentiated as the sum of its
    elements, or weighted by `seeds`, one of the cost's shape (or None) for each cost, as
    `grad_outputs` of PyTorch. Second derivatives: differentiate the result. TypeError for what is
    no Variable, NoGradient for a Variable that is no float and for operators without a gradient,
    ShapeError and DTypeError for a seed that does not fit its cost.
    """
    costs: Any = list(cost) if isinstance(cost, (list, tuple)) else [cost]
    if isinstance(variables, Variable):  # whose rows the list would be
        raise TypeError(f"gradients: takes a list of Variables, not {variables!r}")
    variables = list(variables)
    for v in [*costs, *variables]:
        if not isinstance(v, Variable):
            raise TypeError(f"gradients: takes Variables, not {v!r}")
        if v.dtype.kind != "f":
            raise NoGradient(f"gradients: {v!r} is no float, so it has no gradient")
    order = ancestors(costs)
    if recorder() is not None:
        return _recorded_gradients(costs, variables, seeds, order)
    return _gradients(costs, variables, seeds, order, Places(order))


def _recorded_gradients(costs, variables, seeds, order):
    """Gradients while values are at hand: those of all reads of a variable, at any line."""
    reads: dict[Variable, list[Variable]] = {v: [] for v in variables}
    for x in dict.fromkeys(x for node in order for x in node.inputs if x is not None):
        if x in reads:
            reads[x].append(x)
        elif x.source in reads:
            reads[x.source].append(x)
    for c in costs:
        if c in reads and c not in reads[c]:
            reads[c].append(c)
    every = [x for v in variables for x in reads[v]]
    places = Places(order)
    partials = iter(_gradients(costs, every, seeds, order, places))
    return [_sum(v, [next(partials) for _ in reads[v]], places) for v in variables]


def _sum(v, gradients, places):
    """The gradient of a Variable from those of its reads."""
    parts = [g for g in gradients if g is not None]
    if len(parts) < 2:
        return parts[0] if parts else None
    with in_place_of(places.of_variable(v)):
        return sum(parts[1:], parts[0])


def _gradients(costs, variables, seeds, order, places):
    active = _active(order, variables)
    adjoints = Adjoints(places)
    for c, seed in zip(costs, _seeds(costs, seeds, places), strict=True):
        adjoints.add(c, seed, BOTH)
    for node in reversed(order):
        if not active.isdisjoint(node.outputs):
            with in_place_of(places.of(node)):
                _backpropagate(node, active, adjoints)
    return [adjoints.result(v) for v in variables]


def _seeds(costs, seeds, places):
    """Return the weight of each cost, as Variables of its shape."""
    seeds = [None] * len(costs) if seeds is None else list(seeds)
    if len(seeds) != len(costs):
        raise GraphError(f"gradients: {len(seeds)} seeds for {len(costs)} costs")
    weights = []
    for c, seed in zip(costs, seeds, strict=True):
        with in_place_of(places.of_variable(c)):
            weights.append(ops.ones_like(c) if seed is None else constant(seed, c.dtype))
    for c, seed in zip(costs, weights, strict=True):
        if differ(seed, c):
            raise ShapeError(f"gradients: the seed {seed!r} does not fit the cost {c!r}")
        if seed.dtype != c.dtype:
            raise DTypeError(f"gradients: the seed {seed!r} does not fit the cost {c!r}")
    return weights


def _active(order, variables):
    """Return the variables and the floats that depend on them with a derivative other than zero."""
    active = set(variables)
    for node in order:
        if node.op_type not in zeros and not active.isdisjoint(node.inputs):
            active.update(y for y in node.outputs if y.dtype.kind == "f" and passes_gradients(y))
    return active


def passes_gradients(y: Variable) -> bool:
    """Return whether gradients pass a Variable; they do not where a recorded one is detached.

    In the body of a loop nothing is tracked.
    """
    node = y.node
    return not y.is_recorded or not (node.detached or (node.tracked and not y.tracked))


def _backpropagate(node, active, adjoints):
    """Add the gradients that a node passes on from its outputs to its inputs."""
    totals = [adjoints.total(y) for y in node.outputs]
    modes = {mode for dy, mode in totals if dy is not None}
    if not modes:
        return
    mode, dys = modes.pop(), [dy for dy, _ in totals]
    if modes:  # outputs whose adjoints hold in different modes
        mode, dys = BOTH, [adjoints.result(y) for y in node.outputs]
    if node.op_type == "ModeSwitch":
        for x, side in zip(node.inputs, (TRAINING, INFERENCE), strict=True):
            if x in active and mode in (BOTH, side):
                adjoints.add(x, dys[0], side)
        return
    for x, g in _partials(node, dys, active):
        adjoints.add(x, _shaped(g, x, node), mode)


def _partials(node, dys, active):
    """Return (input, its gradient) by the rule of a node for the active inputs that have one."""
    try:
        pairs = zip(node.inputs, rule_of(node)(node, *dys), strict=True)
        partials = [(x, g) for x, g in pairs if x in active and g is not None]
        return [(x, g() if callable(g) else g) for x, g in partials]
    except NoGradient as error:
        if "\n" in str(error):  # it names a node in the body of this one already
            raise
        where = f"\n  node   built at {site_text(node.site)}"
        raise NoGradient(f"{node.op_type}: {error}{where}") from None


def _shaped(g, x, node):
    """Give a gradient the sizes of its variable, also where inference lost them."""
    if differ(g, x):
        raise GraphError(f"the rule of {node.op_type} gave {g!r} for {x!r}")
    if g.dims != x.dims and g.node is not None:
        return refined(g, x.dims)
    return g


class Adjoints:
    """The gradients accumulated so far, by variable and by the mode in which they hold."""

    def __init__(self, places: Places) -> None:
        self.sums: dict[Variable, dict[Mode, Variable]] = {}
        self.places = places

    def add(self, x: Variable, g: Variable, mode: Mode) -> None:
        """Add to the gradient of x in one mode, or in both."""
        sums = self.sums.setdefault(x, {})
        if mode not in sums:
            sums[mode] = g
            return
        with in_place_of(self.places.of_variable(x)):
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
        with in_place_of(self.places.of_variable(x)):
            return ops.mode_switch(_plus(both, training), _plus(both, inference)), BOTH

    def result(self, x: Variable) -> Variable | None:
        """Return the gradient of x in both modes: zero in a mode that it does not hold in."""
        g, mode = self.total(x)
        if g is None or mode is BOTH:
            return g
        with in_place_of(self.places.of_variable(x)):
            sides = (g, ops.zeros_like(x)) if mode is TRAINING else (ops.zeros_like(x), g)
            return ops.mode_switch(*sides)


def _plus(a, b):
    return b if a is None else a if b is None else a + b
