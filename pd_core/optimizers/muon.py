"""Muon, whose steps of a matrix are orthogonal."""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

from .. import ops
from ..graph.errors import GraphError
from ..graph.variable import Dims, Variable
from .adaptive import AdamWOptimizer
from .base import LearningRate
from .tracing import Changed, Counters, Rate, Slots

_COEFFICIENTS = 3.4445, -4.7750, 2.0315  # of X, X X' X and X X' X X' X, as in Jordan's Muon
_LEAST_NORM = 1e-7


@dataclass(eq=False, repr=False)
class MuonOptimizer(AdamWOptimizer):
    """Momentum whose steps are orthogonalised, for the matrices of hidden layers (Jordan 2024).

    With m := mu m + (1-mu) g and u = mu m + (1-mu) g, or u = m without `nesterov`,

        w := w (1 - rate decay) - rate s orthogonal(u)

    where `iterations` of Newton and Schulz bring the singular values of u near 1, and s is
    sqrt(max(1, outputs / inputs)) for w [inputs, outputs], as `x @ w` takes it; with `match_rms`
    0.2 sqrt(max(inputs, outputs)), the size of a step of Adam, whose rates and decays serve then
    (Liu et al. 2025). These are the steps of PyTorch's Muon.

    Biases and other vectors, embeddings and the layer of the outputs take steps of AdamW, in a
    group with `use_muon` False; `beta1`, `beta2`, `epsilon` and `amsgrad` are for them. A
    parameter of Muon that is no matrix, or `row_sparse`, is a GraphError.

    The other settings are those of `SGDOptimizer`.

    Args:
        learning_rate: a number, a scalar Variable or one of `schedules`.
        weight_decay: share of a parameter, times the learning rate, that each step subtracts from
            it.
        momentum: mu, in [0, 1).
        beta1: decay of the mean of gradients, in [0, 1).
        beta2: decay of the mean of squared gradients, in [0, 1).
        epsilon: a number above 0 that keeps the divisor from being 0.
        amsgrad: whether the largest mean of squared gradients divides, see `AdamOptimizer`.
        nesterov: whether u looks ahead.
        iterations: the number of iterations of Newton and Schulz.
        match_rms: whether steps have the size of Adam's.
        use_muon: False for steps of AdamW.
    """

    learning_rate: LearningRate = 0.001
    weight_decay: float = 0.1
    momentum: float = 0.95
    _: KW_ONLY
    nesterov: bool = True
    iterations: int = 5
    match_rms: bool = False
    use_muon: bool = True

    group_settings = (*AdamWOptimizer.group_settings, "use_muon")
    adjustable = ("weight_decay", "momentum")
    uses_norms = True

    def slots_of(self, w: Variable) -> dict[str, tuple[float, Dims]]:
        """Return the momentum of a matrix, or AdamW's means."""
        if not self.use_muon:
            return {slot: (initial, w.dims) for slot, initial in self.slots.items()}
        if w.row_sparse or w.rank != 2:
            what = "is row_sparse" if w.row_sparse else f"has rank {w.rank}"
            raise GraphError(
                f"MuonOptimizer: {w!r} {what}, and its steps are of whole matrices\n"
                "  hint: steps of AdamW for such parameters, "
                'groups=[{"params": lambda w: w.rank != 2, "use_muon": False}]'
            )
        return {"momentum": (0.0, w.dims)}

    def rule(self, w: Variable, g: Variable, slots: Slots, rate: Rate, step: Counters) -> Changed:
        if not self.use_muon:
            return super().rule(w, g, slots, rate, step)
        mu = self.momentum
        scaled = g * (1.0 - mu)
        m = slots["momentum"] * mu + scaled
        change = orthogonal(m * mu + scaled if self.nesterov else m, self.iterations)
        sizes: Any = w.shape
        inputs, outputs = sizes
        ratio = 0.04 * max(inputs, outputs) if self.match_rms else max(1.0, outputs / inputs)
        decayed = w * (1.0 - rate * self.weight_decay)
        return decayed - change * (rate * math.sqrt(ratio)), {"momentum": m}


def orthogonal(g: Variable, iterations: int = 5) -> Variable:
    """Return U S V' for a matrix U D V', with singular values S between about 0.7 and 1.2.

    They are those of D after a quintic iteration of Newton and Schulz that is steep at 0.
    """
    a, b, c = _COEFFICIENTS
    sizes: Any = g.shape
    is_tall = sizes[0] > sizes[1]
    x = ops.transpose(g) if is_tall else g  # X X' is the smaller product
    x = x / ops.maximum(ops.sqrt(ops.reduce_sum(ops.square(x))), _LEAST_NORM)
    for _ in range(iterations):
        gram = x @ ops.transpose(x)
        x = x * a + (gram * b + gram @ gram * c) @ x
    return ops.transpose(x) if is_tall else x
