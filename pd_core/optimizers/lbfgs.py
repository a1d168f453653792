"""L-BFGS, whose steps evaluate the cost several times."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ..gradients import gradients
from ..graph.errors import GraphError, ShapeError
from ..graph.names import names
from ..graph.recording import recorder
from ..graph.shown import with_settings
from ..graph.update import effects
from ..graph.variable import Variable
from ..run.exchange import exchanges
from ..run.session import Session, default_session
from .base import parameters_of
from .lbfgs_history import KeptHistory, size_of
from .line_search import Point, strong_wolfe

Closure = Callable[[], Variable]


class LBFGSOptimizer:
    """L-BFGS (Liu & Nocedal 1989; Nocedal & Wright 2006, algorithm 7.4), for whole data sets.

    A `step` makes up to `max_iter` iterations with up to `max_eval` evaluations of the cost, by
    default 1.25 times as many, and ends before if no gradient exceeds `tolerance_grad`, or if cost
    or parameters change by no more than `tolerance_change`. The last `history_size` iterations
    approximate the curvature; they are kept from step to step. `line_search` finds a step length,
    `learning_rate` is the one it begins with; with None it is the length itself. These are the
    iterations of PyTorch's `torch.optim.LBFGS`, whose default is no line search.

    The vectors of all parameters together are computed in float64, on the host. History and counts
    are state of the session, `<name>/...`, and so they are in its checkpoints. The cost must be the
    same function throughout a step: without dropout, say.

    Args:
        learning_rate: a number: the step length that a search begins with.
        max_iter: the most iterations of a step.
        max_eval: the most evaluations of the cost; None for 1.25 times `max_iter`.
        tolerance_grad: the largest gradient that ends a step.
        tolerance_change: the largest change that ends a step.
        history_size: the number of iterations that are kept.
        line_search: "strong_wolfe" or None.
        name: prefix of the names of the state; automatic if None.

    Raises:
        ValueError: `line_search` is another, or a count is below 1 or leaves no line search.
    """

    def __init__(
        self,
        learning_rate: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search: Literal["strong_wolfe"] | None = "strong_wolfe",
        name: str | None = None,
    ):
        if line_search not in (None, "strong_wolfe"):
            raise ValueError(
                f"LBFGSOptimizer: line_search is 'strong_wolfe' or None, not {line_search!r}"
            )
        for what, n in (("max_iter", max_iter), ("history_size", history_size)):
            if n < 1:
                raise ValueError(f"LBFGSOptimizer: {what} is at least 1, not {n}")
        self.learning_rate, self.max_iter = learning_rate, max_iter
        self.max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        if line_search and self.max_eval < 2:
            raise ValueError(f"LBFGSOptimizer: max_eval={self.max_eval} leaves no line search")
        self.tolerance_grad, self.tolerance_change = tolerance_grad, tolerance_change
        self.history_size, self.line_search = history_size, line_search
        self.name = name or names().next("lbfgsoptimizer_", "")
        self._kept: KeptHistory | None = None
        # cost and var_list of the last step, with their _gradients
        self._graph: tuple[Any, ...] = (None, None, [])

    def __repr__(self) -> str:
        return with_settings(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("history_size", "name") and vars(self).get("_kept") is not None:
            raise AttributeError(
                f"LBFGSOptimizer: {name}={getattr(self, name)!r} is that of its history\n"
                "  hint: make a new optimizer"
            )
        object.__setattr__(self, name, value)

    def step(
        self,
        cost: Variable | Closure,
        feeds: Mapping[Any, Any] | None = None,
        var_list: Sequence[Variable] | None = None,
        session: Session | None = None,
    ) -> float:
        """Take a step; return the cost before it.

        `cost` is a scalar of a static graph, evaluated with `feeds`; `var_list` are by default all
        trainable parameters that it depends on. Inside `pd.guard()` it is a function without
        arguments that computes the cost, of the parameters `var_list`. After an error the
        parameters are what they were.

        Args:
            cost: a scalar Variable, or inside `pd.guard()` a function that returns one.
            feeds: {Variable or name: array}.
            var_list: the parameters.
            session: by default the session in force.

        Returns:
            The cost before the step, a float.

        Raises:
            GraphError: the cost depends on none of the parameters, all are frozen, or there are
                other ranks.
            ShapeError: the cost is no scalar.
            TypeError: `cost` is a function outside of `pd.guard()`, or comes without `var_list`.
        """
        session = session or default_session()
        if exchanges(session):
            raise GraphError(
                "LBFGSOptimizer: there is no exchange with other ranks within its steps"
            )
        problem = self._problem(cost, feeds, var_list, session)
        if not problem.parameters:
            raise GraphError("LBFGSOptimizer: all parameters are frozen")
        if self._kept is None:
            self._kept = KeptHistory(self.name, problem.parameters, self.history_size)
        self._kept.check(problem.parameters)
        history = self._kept.load(session)
        start = problem.read()
        try:
            x, before = self._minimized(problem, start, history)
        except BaseException:
            problem.write(start)
            raise
        problem.write(x)
        self._kept.store(session, history)
        return before

    def _problem(self, cost, feeds, var_list, session):
        if isinstance(cost, Variable):
            key = None if var_list is None else tuple(var_list)
            if self._graph[0] is not cost or self._graph[1] != key:
                self._graph = cost, key, _gradients(cost, key)
            pairs = [(w, g) for w, g in self._graph[2] if w.trainable]
            return _Static(cost, pairs, feeds, session)
        if recorder() is None or not callable(cost) or feeds is not None or var_list is None:
            raise TypeError(
                "LBFGSOptimizer: step takes a cost and its feeds, or inside pd.guard() a function "
                "and var_list"
            )
        return _Dynamic(cost, [w for w in var_list if w.trainable], session)

    def _minimized(self, problem, x, history):
        """Return the parameters [n] after the iterations, and the cost before them."""
        cost, g = problem.evaluate(x)
        before, evaluations = cost, 1
        if self._is_done(g):
            return x, before
        for k in range(1, self.max_iter + 1):
            direction = history.direction(g)
            slope = float(g @ direction)
            length = self.learning_rate
            if history.iterations == 1:
                length *= min(1.0, 1.0 / float(np.abs(g).sum()))
            history.length = length
            if slope > -self.tolerance_change:
                break
            old = cost
            if self.line_search is not None:
                begin, most = Point(0.0, cost, g, slope), self.max_eval - evaluations
                point, count = self._searched(problem, x, direction, length, most, begin)
                cost, g, history.length = point.cost, point.gradient, point.length
                x = x + direction * history.length
            else:
                x = x + direction * length
                if k == self.max_iter:
                    break  # the next step evaluates it
                (cost, g), count = problem.evaluate(x), 1
            evaluations += count
            if evaluations >= self.max_eval or self._is_done(g):
                break
            change = np.abs(direction * history.length).max()
            if change <= self.tolerance_change or abs(cost - old) < self.tolerance_change:
                break
        return x, before

    def _is_done(self, g):
        return np.abs(g).max() <= self.tolerance_grad

    def _searched(self, problem, x, direction, length, most, start):
        def evaluate(length):
            cost, g = problem.evaluate(x + direction * length)
            return Point(length, cost, g, float(g @ direction))

        scale = float(np.abs(direction).max())
        return strong_wolfe(evaluate, start, length, most, scale, self.tolerance_change)


class _Problem:
    """A cost as a function of the vector [n] of all parameters."""

    def __init__(self, parameters, session):
        self.parameters, self.session = parameters, session

    def read(self):
        return _flat([self.session.get(w) for w in self.parameters])

    def write(self, x):
        for w, value in self.split(x).items():
            self.session.set(w, value)

    def split(self, x):
        """{parameter: its part of the vector}."""
        ends = np.cumsum([size_of(w) for w in self.parameters])
        parts = np.split(x, ends[:-1])
        return {
            w: part.reshape(w.dims).astype(w.dtype)
            for w, part in zip(self.parameters, parts, strict=True)
        }


class _Static(_Problem):
    """Parameters are fed, so that nothing is stored before the end of the step."""

    def __init__(self, cost, pairs, feeds, session):
        super().__init__([w for w, _ in pairs], session)
        self.targets, self.feeds = [cost, [g for _, g in pairs]], feeds or {}

    def evaluate(self, x):
        feeds = {**self.feeds, **self.split(x)}
        cost, slopes = self.session.eval(self.targets, feeds, training=True)
        return float(cost), _flat(slopes)


class _Dynamic(_Problem):
    def __init__(self, closure, parameters, session):
        super().__init__(parameters, session)
        self.closure = closure

    def evaluate(self, x):
        self.write(x)
        for w in self.parameters:
            w.clear_gradient()
        cost = self.closure()
        cost.backward()
        slopes = [w.gradient() for w in self.parameters]
        for w in self.parameters:
            w.clear_gradient()
        pairs = zip(self.parameters, slopes, strict=True)
        return float(cost), _flat([np.zeros(w.dims) if g is None else g for w, g in pairs])


def _gradients(cost, var_list):
    """(parameter, its gradient) pairs of a cost in a static graph."""
    if cost.rank != 0:
        raise ShapeError(f"LBFGSOptimizer: the cost is a scalar, not {cost!r}")
    variables = parameters_of([cost], effects([cost])) if var_list is None else var_list
    variables = list(dict.fromkeys(variables))
    found = zip(variables, gradients(cost, variables), strict=True)
    pairs = [(w, g) for w, g in found if g is not None]
    if not pairs:
        raise GraphError(f"LBFGSOptimizer: {cost!r} depends on none of {variables}")
    return pairs


def _flat(arrays):
    return np.concatenate([np.asarray(a, np.float64).ravel() for a in arrays])
