"""Line search for the strong Wolfe conditions (Nocedal & Wright 2006, algorithms 3.5 and 3.6)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_DECREASE, _CURVATURE = 1e-4, 0.9  # c1 and c2, for quasi-Newton directions


@dataclass(frozen=True)
class Point:
    """A point of the line: step length, cost, gradient [n] and its slope along the direction."""

    length: float
    cost: float
    gradient: np.ndarray
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Point],
    start: Point,
    length: float,
    most: int,
    scale: float,
    tolerance: float,
) -> tuple[Point, int]:
    """Return a point where cost and slope have become small enough, and the evaluations it took.

    `start` has length 0, and `length` is the first one to try, with `most` evaluations after it.
    `scale` is the largest element of the direction: the search ends with an interval in which no
    element changes by `tolerance`. If no point meets the conditions, the better end of the interval
    is returned. Steps and
    interpolations are chosen as PyTorch does, after minFunc (Schmidt 2005).
    """
    search = _Search(evaluate, start, most)
    low, high = search.bracket(length)
    while not search.is_met and search.count <= most:
        if abs(high.length - low.length) * scale < tolerance:
            break
        low, high = search.narrow(low, high)
    return low, search.count


class _Search:
    def __init__(self, evaluate, start, most):
        self.evaluate, self.start, self.most = evaluate, start, most
        self.count, self.is_met, self._is_slow = 0, False, False

    def bracket(self, length):
        """Go on to longer steps until an interval has a good point; return its ends, best first."""
        before, point = self.start, self._at(length)
        while self.count <= self.most:
            if self._is_worse(point) or (self.count > 2 and point.cost >= before.cost):
                return _ordered(before, point)
            if self._is_flat(point):
                self.is_met = True
                return point, point
            if point.slope >= 0:
                return _ordered(before, point)
            step = point.length - before.length
            bounds = point.length + 0.01 * step, point.length * 10.0
            before, point = point, self._at(cubic_minimum(before, point, bounds))
        return _ordered(self.start, point)

    def narrow(self, low, high):
        """Evaluate a point inside the interval; return the ends of a smaller one, best first."""
        point = self._at(self._inside(low, high))
        if self._is_worse(point) or point.cost >= low.cost:
            return _ordered(low, point)
        if self._is_flat(point):
            self.is_met = True
        elif point.slope * (high.length - low.length) >= 0:
            high = low
        return point, high

    def _inside(self, low, high):
        """The minimum of a cubic; off the ends of the interval if it comes close repeatedly."""
        first, last = sorted((low.length, high.length))
        left, right = (low, high) if low.length == first else (high, low)
        length = cubic_minimum(left, right, (first, last))
        margin = 0.1 * (last - first)
        is_close = min(last - length, length - first) < margin
        if is_close and (self._is_slow or not first < length < last):
            is_close = False
            length = last - margin if last - length < length - first else first + margin
        self._is_slow = is_close
        return length

    def _at(self, length):
        self.count += 1
        return self.evaluate(length)

    def _is_worse(self, point):
        """Whether the cost decreases too little for the length of the step."""
        return point.cost > self.start.cost + _DECREASE * point.length * self.start.slope

    def _is_flat(self, point):
        return abs(point.slope) <= -_CURVATURE * self.start.slope


def _ordered(a, b):
    return (a, b) if a.cost <= b.cost else (b, a)


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float]) -> float:
    """Return where the cubic through two points with their slopes is least, within bounds.

    (Nocedal & Wright 2006, equation 3.59.) The middle of the bounds if it has no minimum.
    """
    middle = 0.5 * (bounds[0] + bounds[1])
    if a.length == b.length:
        return middle
    d1 = a.slope + b.slope - 3.0 * (a.cost - b.cost) / (a.length - b.length)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:  # not a number where a cost is none
        return middle
    d2 = math.copysign(math.sqrt(square), b.length - a.length)
    curvature = b.slope - a.slope + 2.0 * d2
    if curvature == 0:
        return middle
    least = b.length - (b.length - a.length) * ((b.slope + d2 - d1) / curvature)
    return min(max(least, bounds[0]), bounds[1])
