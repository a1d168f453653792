"""AdaFactor, whose state is much smaller than its parameters."""

from dataclasses import KW_ONLY, dataclass

from .. import ops
from ..graph.errors import GraphError
from ..graph.variable import Dims, Variable
from .base import LearningRate, Optimizer
from .tracing import Changed, Counters, Rate, Slots

_EPSILON = 2.0**-23  # of float32


@dataclass(eq=False, repr=False)
class AdaFactorOptimizer(Optimizer):
    """Steps by running means of squares, of which rows and columns are kept alone.

    (Shazeer & Stern 2018, algorithms 4 and 5, as PyTorch computes them.) With the means R of
    the rows and C of the columns of g², which decay by 1 - t^beta2_decay,

        u = g / sqrt(R C / mean(R)); w := w (1 - rate decay) - a u / max(1, rms(u) / clip_threshold)

    and a = max(least_scale, rms(w)) min(rate, 1 / sqrt(t)). A parameter of rank 0 or 1 has all of
    its squares. `row_sparse` parameters are refused.

    The other settings are those of `SGDOptimizer`.

    Args:
        learning_rate: a number, a scalar Variable or one of `schedules`.
        beta2_decay: the exponent of t in the decay of means, below 0.
        least_scale: the least size of a parameter that a step counts with.
        clip_threshold: the largest root mean square of u.
        weight_decay: share of a parameter, times the learning rate, that each step subtracts from
            it.
    """

    learning_rate: LearningRate = 0.01
    beta2_decay: float = -0.8
    _: KW_ONLY
    least_scale: float = 1e-3
    clip_threshold: float = 1.0
    weight_decay: float = 0.0

    counters = {"steps": 0.0}
    group_settings = (*Optimizer.group_settings, "weight_decay")
    adjustable = ("weight_decay",)
    uses_norms = True

    def slots_of(self, w: Variable) -> dict[str, tuple[float, Dims]]:
        """Return the means of rows [..., N, 1] and columns [..., 1, M], or all squares."""
        if w.row_sparse:
            raise GraphError(
                f"AdaFactorOptimizer: {w!r} is row_sparse, and the means of its columns are of all "
                "rows\n  hint: row_sparse=False, or an optimizer of its own"
            )
        if w.rank < 2:
            return {"squares": (0.0, w.dims)}
        *outer, _, columns = w.dims
        return {"rows": (0.0, (*w.dims[:-1], 1)), "columns": (0.0, (*outer, 1, columns))}

    def advance(self, counters: Counters) -> dict[str, Variable]:
        return {"steps": counters["steps"] + 1.0}

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        steps, squares = step["steps"], ops.square(g)
        share = ops.pow(steps, self.beta2_decay)
        if "squares" in slots:
            new = {"squares": slots["squares"] + (squares - slots["squares"]) * share}
            variance = new["squares"]
        else:
            means = {"rows": _mean(squares, -1), "columns": _mean(squares, -2)}
            new = {name: slots[name] + (means[name] - slots[name]) * share for name in slots}
            total = ops.maximum(_mean(new["rows"], -2), _EPSILON)
            variance = new["rows"] * new["columns"] / total
        u = g / ops.sqrt(ops.maximum(variance, _EPSILON**2))
        a = ops.minimum(1.0 / ops.sqrt(steps), rate) * ops.maximum(_rms(w), self.least_scale)
        a = a / ops.maximum(_rms(u) / self.clip_threshold, 1.0)
        return w * (1.0 - rate * self.weight_decay) - u * a, new


def _mean(x, axis):
    return ops.reduce_mean(x, [axis], keep_dim=True)


def _rms(x):
    return ops.sqrt(ops.reduce_mean(ops.square(x)))
