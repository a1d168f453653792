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
    differentiates by what came from above. `feeds` are values for all of them, `points` the
    direction in which slopes are taken.
    """

    results: list
    levels: list
    feeds: dict
    points: dict

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


def tower(row, rng, dtype, batch):
    """The tower of a row over samples of this precision; equal generators give equal numbers."""
    arrays = row.arrays(rng, dtype)
    inputs = slots(row, arrays, batch)
    results = build(row, inputs)
    weights = [pd.Variable(y.shape, dtype=y.dtype) for y in results]
    variables = [x for x in inputs if x.dtype.kind == "f"] + weights
    shapes = [a.shape for a in arrays if a.dtype.kind == "f"]
    shapes += [np.shape(y) for y in row.expected(arrays)]
    directions = [[rng.standard_normal(s) for s in shapes] for _ in range(row.order + 2)]
    feeds = dict(zip(inputs, arrays, strict=True))
    feeds.update(zip(weights, directions[-1][len(shapes) - len(weights) :], strict=True))
    value = sum(pd.reduce_sum(y * w) for y, w in zip(results, weights, strict=True))
    levels = list(_levels(value, variables, directions[: row.order]))
    return Tower(results, levels, feeds, dict(zip(variables, directions[-2], strict=True)))


def _levels(value, variables, directions):
    """Up to one level per list of directions; none where nothing depends on a variable."""
    for direction in directions:
        partials = pd.gradients(value, variables)
        if all(g is None for g in partials):
            return
        yield Level(value, partials)
        value = sum(
            pd.cast(pd.reduce_sum(g * v), value.dtype)
            for g, v in zip(partials, direction, strict=True)
            if g is not None
        )


def run(session, targets, feeds, training):
    """Evaluate as if nothing was drawn before, so that random draws stay the same."""
    session.draws.clear()
    return session.eval(targets, feeds, training)


def slopes(session, built, training, gradients, epsilon=1e-6):
    """[(numeric, analytic)] slope of every level along the tower's direction.

    `gradients` are the values of `built.gradients`.
    """
    values = [level.value for level in built.levels]
    above, below = (
        run(session, values, {**built.feeds, **_shifted(built, sign * epsilon)}, training)
        for sign in (1, -1)
    )
    numeric = [(a - b) / (2 * epsilon) for a, b in zip(above, below, strict=True)]
    values = iter(gradients)
    analytic = [
        sum(
            np.vdot(next(values), v)
            for g, v in zip(level.gradients, built.points.values(), strict=True)
            if g is not None
        )
        for level in built.levels
    ]
    return list(zip(numeric, analytic, strict=True))


def _shifted(built, step):
    return {x: built.feeds[x] + step * v for x, v in built.points.items()}
