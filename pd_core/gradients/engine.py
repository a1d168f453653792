"""Reverse-mode differentiation: one walk back over the nodes that accumulates their gradients."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any

from .. import ops
from ..graph.arrays import is_float
from ..graph.checks import differ
from ..graph.errors import DTypeError, GraphError, NoGradient, ShapeError
from ..graph.node import Node, ancestors, located_at
from ..graph.site import site_text
from ..graph.variable import Operand, Variable, constant
from .locations import Locations
from .modes import Adjoints
from .partials import partials
from .reads import check_reached, passes_gradients, reads_of
from .registry import QUANTIZING, ROUNDED, reasons, zeros


def gradients(
    cost: Variable | Sequence[Variable],
    variables: Iterable[Variable],
    seeds: Sequence[Operand | None] | None = None,
) -> list[Variable | None]:
    """Return d cost / d v for each v, of v's shape; None where cost does not depend on v.

    A list of costs is summed. A cost that is not a scalar is differentiated as the sum of its
    elements, or weighted by `seeds`, one of the cost's shape (or None) for each cost, as
    `grad_outputs` of PyTorch. Second derivatives: differentiate the result.

    Args:
        cost: a float Variable, or several.
        variables: float Variables.
        seeds: one weight of the shape of its cost, or None, for each cost.

    Returns:
        A list of Variables and None.

    Raises:
        DTypeError: a seed has another dtype than its cost.
        GraphError: there is another number of seeds than of costs; inside `pd.guard()`, the graph
            on the way was used by a `backward`, or computed while a variable was data.
        NoGradient: a Variable is no float, or an operator has no gradient.
        ShapeError: a seed has another shape than its cost.
        TypeError: what is given is no Variable.
    """
    costs: Any = list(cost) if isinstance(cost, (list, tuple)) else [cost]
    if isinstance(variables, Variable):  # whose rows the list would be
        raise TypeError(f"gradients: takes a list of Variables, not {variables!r}")
    variables = list(variables)
    for v in [*costs, *variables]:
        if not isinstance(v, Variable):
            raise TypeError(f"gradients: takes Variables, not {v!r}")
        if not is_float(v.dtype):
            raise NoGradient(f"gradients: {v!r} is no float, so it has no gradient")
    order = ancestors(costs)
    check_reached(variables, costs, order)
    reads = reads_of(variables, costs, order)
    locations = Locations(order)
    adjoints = Adjoints(locations)
    for c, seed in zip(costs, _seeds(costs, seeds, locations), strict=True):
        adjoints.add(c, seed)
    backward_pass(order, adjoints, *_active(order, chain(*reads.values())))
    return [_sum(v, map(adjoints.result, reads[v]), locations) for v in variables]


def backward_pass(
    order: Sequence[Node],
    adjoints: Adjoints,
    active: AbstractSet[Variable],
    quantized: AbstractSet[Variable],
) -> None:
    """Add to the adjoints of all that is active, from the last of the nodes to the first.

    NoGradient where one comes to integers that are `quantized`.
    """
    for node in reversed(order):
        if not active.isdisjoint(node.outputs):
            with located_at(adjoints.locations.of(node)):
                dys, modes = adjoints.of(node)
                if quantized and any(dy is not None for dy in dys):
                    _check_integers(node, quantized)
                for x, g, mode in zip(node.inputs, partials(node, dys, active), modes, strict=True):
                    if g is not None:
                        adjoints.add(x, g, mode)


def _seeds(
    costs: Sequence[Variable], seeds: Sequence[Operand | None] | None, locations: Locations
) -> list[Variable]:
    """Return the weight of each cost, as Variables of its shape."""
    seeds = [None] * len(costs) if seeds is None else list(seeds)
    if len(seeds) != len(costs):
        raise GraphError(f"gradients: {len(seeds)} seeds for {len(costs)} costs")
    weights = []
    for c, seed in zip(costs, seeds, strict=True):
        with located_at(locations.of_variable(c)):
            weights.append(ops.ones_like(c) if seed is None else constant(seed, c.dtype))
    for c, seed in zip(costs, weights, strict=True):
        if differ(seed, c):
            raise ShapeError(f"gradients: the seed {seed!r} does not fit the cost {c!r}")
        if seed.dtype != c.dtype:
            raise DTypeError(f"gradients: the seed {seed!r} does not fit the cost {c!r}")
    return weights


def _active(
    order: Sequence[Node], variables: Iterable[Variable]
) -> tuple[set[Variable], set[Variable]]:
    """Return the variables and the floats that depend on them with a derivative other than zero.

    And the integers in quantized models that stand for such floats.
    """
    active, integers = set(variables), set[Variable]()
    for node in order:
        if node.op_type in zeros:
            continue
        rounded = bool(integers) and not integers.isdisjoint(node.inputs)
        if rounded or not active.isdisjoint(node.inputs):
            active.update(y for y in node.outputs if is_float(y.dtype) and passes_gradients(y))
            if rounded or node.op_type in QUANTIZING:
                integers.update(y for y in node.outputs if not is_float(y.dtype))
    return active, integers


def _check_integers(node: Node, quantized: AbstractSet[Variable]) -> None:
    """Raise NoGradient if a gradient comes to a node that makes floats of quantized values.

    The message names the operator that they come from. As indices they are no path of gradients.
    """
    if node.op_type not in ("Cast", "CastLike", "DequantizeLinear"):
        return
    x = node.inputs[0]
    if x in quantized:
        source: Any = x.node
        while source.op_type not in (*reasons, *QUANTIZING):
            source = next(i for i in source.inputs if i in quantized).node
        y, why = source.outputs[0].name, reasons.get(source.op_type, ROUNDED)
        raise NoGradient(
            f"{source.op_type}, which gives {y!r}: {why}\n"
            f"  node   built at {site_text(source.site)}\n"
            "  hint: freeze what is in front of it, or stop the gradient there"
        )


def _sum(
    v: Variable, gradients: Iterable[Variable | None], locations: Locations
) -> Variable | None:
    """The gradient of a Variable from those of its reads."""
    parts = [g for g in gradients if g is not None]
    if len(parts) < 2:
        return parts[0] if parts else None
    with located_at(locations.of_variable(v)):
        return sum(parts[1:], parts[0])
