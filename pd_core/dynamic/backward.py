"""Gradients of recorded graphs: `backward()`, and what it leaves on Variables."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph.errors import GraphError, ShapeError
from ..graph.recording import recorder
from ..graph.variable import Operand, Variable, as_array, static
from ..optimizers.row_sparse import RowGradient, gradients_by_rows
from .state import current_state
from .trace import Trace, label


def backward(loss: Variable, gradient: Operand | None = None, retain_graph: bool = False) -> None:
    """Add the gradients of a cost to those of everything that it was computed from.

    These are trainable parameters, Variables whose `stop_gradient` is False, and what was computed
    on the way and is held by somebody. GraphError if the cost was computed from nothing that has a
    gradient.
    """
    state = current_state()
    check_tracked("backward", [loss])
    seed = None if gradient is None else _seed(loss, gradient)
    with state.session.exclusive():
        seeds = [] if seed is None else [seed]
        trace = Trace([loss], state, through=True, operands=seeds)
        trace.check_history()
        reached = trace.differentiated()
        wrt = differentiated(trace, reached)
        name = ("backward", seed is None, trace.flows, tuple([trace.number(v) for v in wrt]))

        def make(of):
            inputs = [of(v) for v in wrt]
            gradients = gradients_by_rows([of(loss)], inputs, seeds or None)
            flat, places = _flattened(gradients)
            return [*map(of, trace.fetches), *flat], [(v, of(x)) for v, x in trace.updates], places

        plan, values = state.evaluate(name, trace, make)
        count = len(trace.fetches)
        state.finish(trace, plan, values[:count], set() if retain_graph else reached)
        _accumulate(state, wrt, plan.result, values[count:])
    sources = [v.source for v in wrt if v.source is not None]
    parameters = [v for v in sources if v.is_persistent]
    loss.__dict__["parameters"] = parameters


def check_tracked(name: str, costs: Sequence[Variable]) -> None:
    """Check that gradients flow to some cost."""
    for c in costs:
        if not isinstance(c, Variable):
            raise TypeError(f"{name}: takes Variables, not {c!r}")
        if c.__dict__.get("consumed"):
            raise GraphError(
                f"{name}: the graph behind {label(c)} ended with an earlier backward() or "
                "minimize()\n  hint: retain_graph=True there keeps it"
            )
    if recorder() is None and not any(c.is_recorded for c in costs):
        raise GraphError(
            f"{name}: {label(costs[0])} was built outside of `with pd.guard():`, without values\n"
            "  hint: a static graph has pd.gradients() and minimize(), which returns an update"
        )
    if not any(c.tracked for c in costs):
        raise GraphError(
            f"{name}: {label(costs[0])} was computed from nothing that has a gradient\n"
            "  hint: it has to depend on trainable parameters or on Variables whose stop_gradient "
            "is False, outside of no_grad()"
        )


def differentiated(trace: Trace, reached: set[Variable], computed: bool = True) -> list[Variable]:
    """The Variables of a trace that get a gradient: leaves, then what somebody holds.

    The latter only if `computed`.
    """
    leaves = [v for v in trace.reads if v in reached]
    leaves += [v for v in trace.leaves if v.held is not None and v in reached]
    if not computed:
        return leaves
    return leaves + [v for v in trace.fetches if v in reached and v.dtype.kind == "f"]


def _seed(loss, gradient):
    array = as_array(gradient, loss.dtype, "backward")
    if array.shape != loss.shape:
        raise ShapeError(f"backward: a gradient of {list(array.shape)} for {label(loss)}")
    return Variable.of(loss.dims, loss.dtype, "gradient", held=array)


def _flattened(gradients):
    """Gradients in one list, and the places of each in it: one, two if by rows, or none."""
    flat: list[Variable] = []
    places: list[tuple[int, ...]] = []
    for g in gradients:
        parts = () if g is None else (g.rows, g.values) if isinstance(g, RowGradient) else (g,)
        places.append(tuple(range(len(flat), len(flat) + len(parts))))
        flat += parts
    return flat, places


def _accumulate(state, wrt, places, values):
    """Add the gradients to those of the Variables."""
    for v, place in zip(wrt, places, strict=True):
        if not place:
            continue
        owner = v if v.source is None else v.source
        new = Gradient(*[values[k] for k in place])
        old = state.gradients.get(owner)
        state.gradients[owner] = new if old is None else old.plus(new, owner)


class Gradient:
    """The gradient of a Variable: values on the device, of some rows if it is row-sparse."""

    __slots__ = ("rows", "values")

    def __init__(self, *parts: Any) -> None:
        *rows, self.values = parts
        self.rows = rows[0] if rows else None

    def numpy(self, v: Variable) -> np.ndarray:
        """Return the gradient in the shape of its Variable."""
        values = as_host(self.values)
        if self.rows is None:
            return values
        whole = np.zeros(static(v.dims), values.dtype)
        np.add.at(whole, as_host(self.rows), values)
        return whole

    def plus(self, other: "Gradient", v: Variable) -> "Gradient":
        """Return the sum of two gradients of a Variable."""
        if self.rows is None and other.rows is None:
            # NumPy returns the sum of two scalars as a number
            return Gradient(np.asarray(as_host(self.values) + as_host(other.values)))
        if self.rows is None or other.rows is None:
            return Gradient(self.numpy(v) + other.numpy(v))
        rows = np.concatenate([as_host(self.rows), as_host(other.rows)])
        values = np.concatenate([as_host(self.values), as_host(other.values)])
        distinct, place = np.unique(rows, return_inverse=True)
        sums = np.zeros((len(distinct), *values.shape[1:]), values.dtype)
        np.add.at(sums, place, values)
        return Gradient(distinct, sums)


def as_host(value: Any) -> np.ndarray:
    """Return a value on the device as an array."""
    return value if isinstance(value, np.ndarray) else value.numpy()


def gradient(v: Variable) -> np.ndarray | None:
    """Return the gradient of a Variable, None without one."""
    g = current_state().gradients.get(v)
    return None if g is None else np.array(g.numpy(v))


def clear_gradient(v: Variable) -> None:
    """Forget the gradient of a Variable."""
    current_state().gradients.pop(v, None)
