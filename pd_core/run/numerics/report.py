"""The messages of NumericErrors: which operator, where it was built, and what it was given."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...graph.errors import NumericError
from ...graph.node import Node
from ...graph.site import site_text
from ...graph.variable import Variable, format_dims
from .finiteness import FloatValues, Found

Compute = Callable[[list[Variable]], list[np.ndarray]]


class Place(NamedTuple):
    """A faulty value: its number among those of an evaluation, with its feeds and findings.

    `path` are the runs of bodies around it, from the outermost on.
    """

    values: FloatValues
    number: int
    found: Found
    fed: dict[Variable, np.ndarray]
    path: tuple[str, ...] = ()

    @property
    def variable(self) -> Variable:
        """The value itself."""
        return self.values.all[self.number]

    @property
    def node(self) -> Node | None:
        """The operator that computes it; None if it is fed or stored."""
        return None if self.number < self.values.leaves else self.variable.node


def report(place: Place, compute: Compute) -> NumericError:
    """Return the error of a faulty value; `compute` evaluates Variables."""
    v, node = place.variable, place.node
    if node is None:
        (array,) = compute([v])
        created = f"\n  created at {site_text(v.site)}" if v.site else ""
        return NumericError(
            f"{_leaf(place, place.number)} is not finite: {_counts(array)}{created}"
        )
    inputs = list(dict.fromkeys(x for x in place.values.inputs_of(node) if x is not None))
    array, *arrays = compute([v, *inputs])
    scope = f" in {node.scope.rstrip('/')!r}" if node.scope else ""
    lines = [f"{node.op_type}{scope}: its output has {_counts(array)}"]
    lines.append(f"  node   {node.op_type}, built at {site_text(node.site)}")
    lines += [f"  in     {where}" for where in reversed(place.path)]
    lines.append(f"  output {_described(v, array)}")
    lines += [f"  input  {_described(x, a)}" for x, a in zip(inputs, arrays, strict=True)]
    return NumericError("\n".join(lines + _beginning(place)), node.op_type, node.site)


def exchange_error(parameter: Variable, gradient: np.ndarray) -> NumericError:
    """Return the error of a gradient that is not finite after the exchange."""
    whose = f"the gradient of {parameter!r} that the function returned"
    return NumericError(f"exchanging: {whose} has {_counts(gradient)}")


def _leaf(place: Place, index: int) -> str:
    v = place.values.all[index]
    kind = "the feed" if v in place.fed else "the parameter" if v.trainable else "the stored value"
    return f"{kind} {v!r}"


def _beginning(place: Place) -> list[str]:
    """A line on where the infinities of the inputs begin, if there are any."""
    rules, infinite = place.values.rules, place.found.infinite
    inputs = [i for i in rules.inputs[place.number] if i in infinite]
    if not inputs:
        return []
    begin = rules.origin(inputs[0], infinite)
    if begin < rules.leaves:
        return [f"  Inf    from {_leaf(place, begin)}"]
    node = place.values.all[begin].node
    return [f"  Inf    from {node.op_type}, built at {site_text(node.site)}"]


def _counts(array: np.ndarray) -> str:
    nan, inf = np.isnan(array), np.isinf(array)
    first = np.argwhere(nan | inf)[:1].tolist()
    where = f", the first at {first[0]}" if first and first[0] else ""
    return f"{nan.sum()} NaN and {inf.sum()} Inf of {array.size} elements{where}"


def _described(x: Variable, array: np.ndarray) -> str:
    """Name, type and shape of an array, and the range of its finite elements."""
    text = f"{x.name}: {array.dtype}{format_dims(array.shape)}"
    if array.dtype.kind not in "fiu":
        return text
    finite = array[np.isfinite(array)]
    between = f"from {finite.min():.6g} to {finite.max():.6g}" if finite.size else "none finite"
    if not array.size:
        between = "empty"
    return f"{text}, {between}, {np.isnan(array).sum()} NaN, {np.isinf(array).sum()} Inf"
