"""Reverse-mode differentiation: one walk back over the nodes, adding up what the rules say."""

from .. import ops
from ..graph.checks import differ
from ..graph.errors import DTypeError, GraphError, NoGradient, ShapeError
from ..graph.node import ancestors, refined
from ..graph.site import site_text
from ..graph.variable import Variable, constant
from .registry import rule_of, zeros

BOTH, TRAINING, INFERENCE = None, True, False  # where an adjoint holds


def gradients(cost, variables, seeds=None) -> list:
    """d cost / d v for each v, as Variables of v's shape; None where cost does not depend on v.

    `cost` may be a list, whose sum is meant. A cost that is no scalar is differentiated as the
    sum of its elements, or weighted by `seeds`, one of the cost's shape (or None) for each cost.
    Second derivatives: differentiate the result.
    """
    costs = list(cost) if isinstance(cost, (list, tuple)) else [cost]
    variables = list(variables)
    for v in [*costs, *variables]:
        if not isinstance(v, Variable):
            raise TypeError(f"gradients: takes Variables, not {v!r}")
        if v.dtype.kind != "f":
            raise NoGradient(f"gradients: {v!r} is no float, so it has no gradient")
    order = ancestors(costs)
    wanted = _dependents(order, variables)
    adjoints = Adjoints()
    for c, seed in zip(costs, _seeds(costs, seeds), strict=True):
        adjoints.add(c, seed, BOTH)
    for node in reversed(order):
        if not wanted.isdisjoint(node.outputs):
            _step_back(node, wanted, adjoints)
    return [adjoints.result(v) for v in variables]


def _seeds(costs, seeds):
    """What each cost is weighted with, as Variables of its shape."""
    seeds = [None] * len(costs) if seeds is None else list(seeds)
    if len(seeds) != len(costs):
        raise GraphError(f"gradients: {len(seeds)} seeds for {len(costs)} costs")
    found = [
        ops.ones_like(c) if seed is None else constant(seed, c.dtype)
        for c, seed in zip(costs, seeds, strict=True)
    ]
    for c, seed in zip(costs, found, strict=True):
        if differ(seed, c):
            raise ShapeError(f"gradients: the seed {seed!r} does not fit the cost {c!r}")
        if seed.dtype != c.dtype:
            raise DTypeError(f"gradients: the seed {seed!r} does not fit the cost {c!r}")
    return found


def _dependents(order, variables):
    """The variables and all that changes with them: floats, and none behind a zero derivative."""
    wanted = set(variables)
    for node in order:
        if node.op_type not in zeros and not wanted.isdisjoint(node.inputs):
            wanted.update(y for y in node.outputs if y.dtype.kind == "f")
    return wanted


def _step_back(node, wanted, adjoints):
    totals = [adjoints.total(y) for y in node.outputs]
    modes = {mode for dy, mode in totals if dy is not None}
    if not modes:
        return
    mode, dys = modes.pop(), [dy for dy, _ in totals]
    if modes:  # outputs whose adjoints hold in different modes
        mode, dys = BOTH, [adjoints.result(y) for y in node.outputs]
    if node.op_type == "ModeSwitch":
        for x, side in zip(node.inputs, (TRAINING, INFERENCE), strict=True):
            if x in wanted and mode in (BOTH, side):
                adjoints.add(x, dys[0], side)
        return
    for x, g in _partials(node, dys, wanted):
        adjoints.add(x, _shaped(g, x, node), mode)


def _partials(node, dys, wanted):
    """(input, its gradient) by the rule of a node, where one is wanted and there is one."""
    try:
        found = zip(node.inputs, rule_of(node)(node, *dys), strict=True)
        pairs = [(x, g) for x, g in found if x in wanted and g is not None]
        return [(x, g() if callable(g) else g) for x, g in pairs]
    except NoGradient as error:
        if "\n" in str(error):  # of a node in the body of this one
            raise
        where = f"\n  node   built at {site_text(node.site)}"
        raise NoGradient(f"{node.op_type}: {error}{where}") from None


def _shaped(g, x, node):
    """A gradient has the sizes of its variable, also where inference lost them."""
    if differ(g, x):
        raise GraphError(f"the rule of {node.op_type} gave {g!r} for {x!r}")
    if g.dims != x.dims and g.node is not None:
        return refined(g, x.dims)
    return g


class Adjoints:
    """What was found so far, by variable: sums that hold in both modes or in one of them."""

    def __init__(self):
        self.sums = {}

    def add(self, x, g, mode):
        sums = self.sums.setdefault(x, {})
        sums[mode] = sums[mode] + g if mode in sums else g

    def total(self, x):
        """(sum, the mode it holds in); (None, BOTH) where nothing arrived."""
        sums = self.sums.get(x)
        if not sums:
            return None, BOTH
        if len(sums) == 1:
            return next((g, mode) for mode, g in sums.items())
        both, training, inference = (sums.get(m) for m in (BOTH, TRAINING, INFERENCE))
        if training is inference and both is None:
            return training, BOTH
        return ops.mode_switch(_plus(both, training), _plus(both, inference)), BOTH

    def result(self, x):
        g, mode = self.total(x)
        if g is None or mode is BOTH:
            return g
        sides = (g, ops.zeros_like(x)) if mode is TRAINING else (ops.zeros_like(x), g)
        return ops.mode_switch(*sides)


def _plus(a, b):
    return b if a is None else a if b is None else a + b
