"""Initial value problems: y' = f(t, y), solved step by step in the graph."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph.errors import DTypeError, ShapeError
from ..graph.op import op
from ..graph.variable import Operand, Variable, constant, describe
from . import math as m
from .control import for_loop, scan, while_loop
from .gather import gather
from .mode import stop_gradient
from .reduce import reduce_mean
from .shape import arange, concat, expand, reshape, shape_of, size_of, slice, unsqueeze

# Runge-Kutta 5(4) of Dormand & Prince (1980): nodes, stages, and the weights of the error.
_NODES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)

_SAFETY, _LEAST, _MOST = 0.9, 0.2, 10.0  # of the change of a step's length


@op
def odeint(
    function: Callable[[Variable, Variable], Variable],
    y0: Operand,
    times: Operand,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    method: str = "dopri5",
    max_steps: int = 1000,
    steps: int = 1,
) -> Variable:
    """Return the solution of y' = function(t, y) at times [T], from the first on: [T, *y0.shape].

    `y0` is the state at the first time. `dopri5` chooses its steps so that the estimated error of
    each is within atol + rtol |y| (Hairer, Norsett & Wanner 1993, II.4); a time that `max_steps`
    steps from the one before do not reach is NaN, and so are those after it. `euler` and `rk4` take
    `steps` equal steps between two times. Times increase or decrease. Gradients go through the
    steps to y0, times and what the function reads, with the lengths of adaptive steps as constants.

    Args:
        function: a function (t, y) -> y', of a scalar and the state.
        y0: floats of any shape.
        times: floats [T], two or more.
        rtol: the error that is allowed, as a share of |y|.
        atol: the error that is allowed besides.
        method: "dopri5", "euler" or "rk4".
        max_steps: the most steps of `dopri5` between two times.
        steps: the number of steps of the others between two times.

    Returns:
        Floats [T, *y0.shape].

    Raises:
        DTypeError: y0 or times are no floats.
        ShapeError: times is no vector of two or more, or the function gives another shape or dtype
            than y.
        ValueError: the method is another, or a number of steps below 1.
    """
    y0, times = constant(y0), constant(times)
    if y0.dtype.kind != "f" or times.dtype.kind != "f":
        raise DTypeError(f"takes floats, not {describe(y0)} and {describe(times)}")
    if times.rank != 1 or (isinstance(times.dims[0], int) and times.dims[0] < 2):
        raise ShapeError(f"takes two times or more, not {describe(times)}")
    if method not in ("dopri5", "euler", "rk4"):
        raise ValueError(f"the method is dopri5, euler or rk4, not {method!r}")
    if min(max_steps, steps) < 1:
        raise ValueError(f"takes a step or more, not {min(max_steps, steps)}")

    def slope(t: Variable, y: Variable) -> Variable:
        k = constant(function(m.cast(t, y.dtype), y))
        if k.rank != y.rank or k.dtype != y.dtype:
            raise ShapeError(f"the function gave {describe(k)} for y: {describe(y)}")
        return k

    times = m.cast(times, y0.dtype)
    if method == "dopri5":
        rest = _adaptive(slope, times, y0, rtol, atol, max_steps)
    else:
        rest = _fixed(slope, times, y0, _euler if method == "euler" else _rk4, steps)
    return concat([unsqueeze(y0, 0), rest], 0)


def _fixed(slope, times, y0, advance, steps):
    """The states at all times but the first, by equal steps between two times."""

    def interval(y, bounds):
        start, end = bounds
        h = (end - start) / float(steps)

        def body(k, y):
            return advance(slope, start + m.cast(k, h.dtype) * h, y, h), None

        y, _ = for_loop(steps, body, y)
        return y, y

    _, states = scan(interval, y0, [slice(times, [0], [-1]), slice(times, [1], [2**31])])
    return states


def _euler(slope, t, y, h):
    return y + h * slope(t, y)


def _rk4(slope, t, y, h):
    k1 = slope(t, y)
    k2 = slope(t + h / 2.0, y + h / 2.0 * k1)
    k3 = slope(t + h / 2.0, y + h / 2.0 * k2)
    k4 = slope(t + h, y + h * k3)
    return y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def _first_step(slope, times, y, rtol, atol):
    """A length by the size of the slope (Hairer, Norsett & Wanner 1993, II.4)."""
    start, end = times[0], times[1]
    scale = atol + rtol * abs(y)
    size, speed = _rms(y / scale), _rms(slope(start, y) / scale)
    least = constant(1e-6, y.dtype)
    guess = m.where(m.minimum(size, speed) < 1e-5, least, 0.01 * size / m.maximum(speed, least))
    return m.minimum(guess, abs(end - start))


def _adaptive(slope, times, y0, rtol, atol, max_steps):
    """The states at all times but the first, by steps of their own length.

    One loop goes through all times: loops of unequal length inside another cannot be stacked for
    its gradient.
    """
    count = size_of(times, 0) - 1
    places = arange(count)
    sign = m.sign(times[-1] - times[0])
    states = expand(unsqueeze(y0 * 0.0, 0), concat([reshape(count, [1]), shape_of(y0)]))

    def at(k):
        """A mask of the state number k."""
        return reshape(m.equal(places, k), [-1, *[1] * y0.rank])

    def unfinished(tries, k, t, y, h, states):
        return m.logical_and(k < count, tries < max_steps)

    def body(tries, k, t, y, h, states):
        end = gather(times, k + 1)
        left = (end - t) * sign
        is_last = h >= left
        step = sign * m.where(is_last, left, h)
        slopes = [slope(t, y)]
        for node, stage in zip(_NODES, _STAGES, strict=True):
            new = y + step * _combined(stage, slopes)
            slopes.append(slope(t + step * node, new))
        scale = atol + rtol * m.maximum(abs(y), abs(new))
        error = stop_gradient(_rms(step * _combined(_ERROR, slopes) / scale))
        accepted = error <= 1.0
        factor = m.clip(_SAFETY * m.pow(m.maximum(error, 1e-10), -0.2), _LEAST, _MOST)
        factor = m.where(m.is_nan(error), constant(_LEAST, y.dtype), factor)
        reached = m.logical_and(accepted, is_last)
        return [
            m.where(reached, constant(0), tries + 1),
            m.where(reached, k + 1, k),
            m.where(accepted, m.where(is_last, end, t + step), t),
            m.where(accepted, new, y),
            # a step that was cut short says little about the next one
            stop_gradient(m.where(reached, h, step * sign * factor)),
            m.where(m.logical_and(reached, at(k)), new, states),
        ]

    h = stop_gradient(_first_step(slope, times, y0, rtol, atol))
    zero = constant(np.int64(0))
    _, k, _, _, _, states = while_loop(unfinished, body, [zero, zero, times[0], y0, h, states])
    known = reshape(places < k, [-1, *[1] * y0.rank])
    return m.where(known, states, constant(np.nan, y0.dtype))


def _combined(weights, slopes):
    total: Any = sum(w * k for w, k in zip(weights, slopes, strict=True) if w)
    return total


def _rms(x):
    return m.sqrt(reduce_mean(m.square(x)))
