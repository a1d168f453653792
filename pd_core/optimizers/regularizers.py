"""Weight penalties and gradient clipping: functions (gradient, parameter) -> gradient.

Optimizers apply `clip` first, then `regularizer`; a variable's own replaces the optimizer's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, Union

import numpy as np

from .. import ops
from ..graph.variable import Variable

Penalty = Callable[[Variable, Variable], Variable]  # (gradient, parameter) -> gradient
Clip = Union[Penalty, "ClipGlobalNorm"]
_Parameter = TypeVar("_Parameter")


@dataclass(frozen=True)
class L2:
    """rate/2 |w|^2: adds rate w to the gradient.

    Args:
        rate: a number, at least 0; 0 adds nothing.
    """

    rate: float

    def __call__(self, gradient: Variable, parameter: Variable) -> Variable:
        return gradient if self.rate == 0 else gradient + parameter * self.rate


@dataclass(frozen=True)
class L1:
    """rate |w|_1: adds rate sign(w) to the gradient.

    Args:
        rate: a number, at least 0; 0 adds nothing.
    """

    rate: float

    def __call__(self, gradient: Variable, parameter: Variable) -> Variable:
        return gradient if self.rate == 0 else gradient + ops.sign(parameter) * self.rate


@dataclass(frozen=True)
class ClipElements:
    """Clip each element of the gradient to [-limit, limit].

    Args:
        limit: the largest absolute value, above 0.
    """

    limit: float

    def __call__(self, gradient: Variable, parameter: Variable) -> Variable:
        return ops.clip(gradient, -self.limit, self.limit)


@dataclass(frozen=True)
class ClipNorm:
    """Scale the gradient of a parameter down to at most this L2 norm (Pascanu et al. 2013).

    Args:
        limit: the largest norm, above 0.
    """

    limit: float

    def __call__(self, gradient: Variable, parameter: Variable) -> Variable:
        norm = ops.sqrt(ops.reduce_sum(ops.square(gradient)))
        return gradient * (self.limit / ops.maximum(norm, self.limit))


@dataclass(frozen=True)
class ClipGlobalNorm:
    """Scale all gradients of an update by one factor, to at most this L2 norm together.

    (Pascanu et al. 2013, algorithm 1.) The norm includes every variable of the update, frozen ones
    too.

    Args:
        limit: the largest norm, above 0.
    """

    limit: float

    def together(
        self, pairs: Sequence[tuple[_Parameter, Variable]]
    ) -> list[tuple[_Parameter, Variable]]:
        """Return the (parameter, gradient) pairs with scaled gradients."""
        dtypes = {g.dtype for _, g in pairs}
        widest = np.result_type(*dtypes)
        squares = [ops.cast(ops.reduce_sum(ops.square(g)), widest) for _, g in pairs]
        total = squares[0]
        for s in squares[1:]:
            total = total + s
        limit: Any = self.limit
        if isinstance(limit, Variable):
            limit = ops.cast(limit, widest)
        factor = limit / ops.maximum(ops.sqrt(total), limit)
        factors = {dtype: ops.cast(factor, dtype) for dtype in dtypes}
        return [(w, g * factors[g.dtype]) for w, g in pairs]
