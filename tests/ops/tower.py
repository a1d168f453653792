"""A row with its gradients up to some order, and the central differences that judge them."""

from dataclasses import dataclass

import numpy as np

import pd_core as pd

from .case import as_list


@dataclass(frozen=True)
class Level:
    """A scalar and its gradients, None where it does not depend on a variable."""

    value: pd.Variable
    gradients: list


@dataclass(frozen=True)
class Tower:
    """Levels over the same variables: each scalar is a random projection of the gradients below.

    `variables` are the row's float samples and a weight for each element of each result; the
    first scalar is the sum of results times weights, so that a level above the first also
    differentiates by what came from above.
    """

    results: list
    variables: list
    levels: list

    @property
    def fetches(self):
        return [level.value for level in self.levels]

    @property
    def gradients(self):
        return [g for level in self.levels for g in level.gradients if g is not None]


def slots(row, arrays, batch=False):
    """A feed slot for each sample, whose first axis is unknown where it is a batch."""
    return [
        pd.Variable([None, *a.shape[1:]] if batch and k in row.batch else a.shape, dtype=a.dtype)
        for k, a in enumerate(arrays)
    ]


def build(row, inputs):
    """The results of a row for these slots, a list."""
    return as_list(row.function(*inputs, **row.options))


def tower(row, inputs, directions):
    """The tower of a row; `directions` draws the projection of a gradient of level n at place k."""
    results = build(row, inputs)
    weights = [pd.Variable(y.shape, dtype=y.dtype) for y in results]
    variables = [x for x in inputs if x.dtype.kind == "f"] + weights
    value = sum(pd.reduce_sum(y * w) for y, w in zip(results, weights, strict=True))
    levels = []
    for order in range(row.order):
        found = pd.gradients(value, variables)
        levels.append(Level(value, found))
        terms = [
            pd.reduce_sum(g * directions(order, k)) for k, g in enumerate(found) if g is not None
        ]
        if order + 1 == row.order or all(g is None for g in pd.gradients(sum(terms), variables)):
            break
        value = sum(terms)
    return Tower(results, variables, levels)


class Directions:
    """Fixed random arrays by (order, place), of the shape of the variable at that place."""

    def __init__(self, rng, shapes):
        self.rng, self.shapes, self.drawn = rng, shapes, {}

    def __call__(self, order, place):
        key = (order, place)
        if key not in self.drawn:
            self.drawn[key] = self.rng.standard_normal(self.shapes[place])
        return self.drawn[key]


def run(session, targets, feeds, training):
    """Evaluate as step 0, so that random draws stay the same."""
    session.step = 0
    return session.eval(targets, feeds, training)


def slopes(session, levels, feeds, points, row, epsilon=1e-6):
    """(numeric, analytic) slope of every level along the direction of `points`."""
    shifted = [
        {**feeds, **{x: feeds[x] + sign * epsilon * v for x, v in points.items()}}
        for sign in (1, -1)
    ]
    values = [level.value for level in levels]
    high, low = (run(session, values, at, row.training) for at in shifted)
    present = [[g for g in level.gradients if g is not None] for level in levels]
    found = run(session, present, feeds, row.training)
    for k, level in enumerate(levels):
        along = [v for v, g in zip(points.values(), level.gradients, strict=True) if g is not None]
        analytic = sum(np.vdot(g, v) for g, v in zip(found[k], along, strict=True))
        yield (high[k] - low[k]) / (2 * epsilon), analytic
