"""Curves of bounded size: what is left of long logs keeps every extreme."""

import math

MOST_POINTS = 2000
_MOST_OPEN = 8  # points of a group that is being filled

Point = tuple[int, float]  # step and value


class Curve:
    """Points (step, value) of one tag, at most `most` of them.

    All are kept while there is room. Then neighbours are merged, again and again: of each group the
    lowest and the highest value stay, and the first one that is not finite. The last point stays.
    """

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most_grouped = most - _MOST_OPEN - 1
        self._groups: list[list[Point]] = []  # each of as many added points
        self._group_size = 1
        self._count = 0  # points in the groups
        self._open: list[Point] = []  # what is left of the group that is being filled
        self._added = 0  # points that were added to it
        self.last: Point | None = None

    def add(self, step: int, value: float) -> None:
        """Append a point."""
        self.last = (step, value)
        self._open.append(self.last)
        self._added += 1
        if self._added == self._group_size:
            self._groups.append(_extremes(self._open))
            self._count += len(self._groups[-1])
            self._open, self._added = [], 0
            if self._count > self._most_grouped:
                self._merge()
        elif len(self._open) > _MOST_OPEN:
            self._open = _extremes(self._open)

    def _merge(self):
        """Join neighbouring groups, which halves the points."""
        groups = self._groups
        if len(groups) % 2:  # the last one begins the open group
            self._open, self._added = groups.pop(), self._group_size
        self._groups = [
            _extremes([*first, *second])
            for first, second in zip(groups[::2], groups[1::2], strict=True)
        ]
        self._group_size *= 2
        self._count = sum(map(len, self._groups))

    def purge(self, step: int) -> None:
        """Remove the points from a step on: a training was resumed there."""
        self._groups = [kept for group in self._groups if (kept := _before(group, step))]
        self._count = sum(map(len, self._groups))
        self._open = _before(self._open, step)
        self.last = None
        self.last = next(reversed(self.points()), None)

    def points(self) -> list[Point]:
        """Return the points in the order in which they were added, the last one included."""
        points = [point for group in self._groups for point in group] + self._open
        if self.last is not None and points[-1:] != [self.last]:
            points.append(self.last)
        return points


def _before(points, step):
    return [point for point in points if point[0] < step]


def _extremes(points):
    """The lowest, the highest and the first not finite of some points, in their order."""
    if len(points) <= 1:
        return list(points)
    finite = [k for k, (_, value) in enumerate(points) if math.isfinite(value)]
    kept = set()
    if finite:
        kept = {min(finite, key=lambda k: points[k][1]), max(finite, key=lambda k: points[k][1])}
    if len(finite) < len(points):
        kept.add(next(k for k, (_, value) in enumerate(points) if not math.isfinite(value)))
    return [points[k] for k in sorted(kept)]
