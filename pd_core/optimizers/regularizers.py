"""Weight penalties and gradient clipping: functions of (gradient, parameter) that give a gradient.

Optimizers apply `clip` first, then `regularizer`; a variable's own replaces the optimizer's.
"""

from dataclasses import dataclass

from .. import ops


@dataclass(frozen=True)
class L2:
    """rate/2 |w|^2: adds rate w to the gradient."""

    rate: float

    def __call__(self, gradient, parameter):
        return gradient + parameter * self.rate if self.rate else gradient


@dataclass(frozen=True)
class L1:
    """rate |w|_1: adds rate sign(w) to the gradient."""

    rate: float

    def __call__(self, gradient, parameter):
        return gradient + ops.sign(parameter) * self.rate if self.rate else gradient


@dataclass(frozen=True)
class ClipElements:
    """Each element of the gradient held within [-limit, limit]."""

    limit: float

    def __call__(self, gradient, parameter):
        return ops.clip(gradient, -self.limit, self.limit)


@dataclass(frozen=True)
class ClipNorm:
    """The gradient of a parameter scaled down to at most this length (Pascanu et al. 2013)."""

    limit: float

    def __call__(self, gradient, parameter):
        length = ops.sqrt(ops.reduce_sum(ops.square(gradient)))
        return gradient * (self.limit / ops.maximum(length, self.limit))


@dataclass(frozen=True)
class ClipGlobalNorm:
    """All gradients of an update scaled by one factor, to at most this length together.

    (Pascanu et al. 2013, algorithm 1.) The length counts every variable of the update, frozen ones
    too.
    """

    limit: float

    def together(self, pairs):
        """The (parameter, gradient) pairs, scaled."""
        squares = [ops.reduce_sum(ops.square(g)) for _, g in pairs]
        total = squares[0]
        for s in squares[1:]:
            total = total + s
        factor = self.limit / ops.maximum(ops.sqrt(total), self.limit)
        return [(w, g * factor) for w, g in pairs]
