"""The events that a trainer passes to its event handler.

Passes and batches are numbered from 0, batches anew in each pass.
"""

import numbers
import operator

__all__ = [
    "BeginIteration",
    "BeginPass",
    "EndForwardBackward",
    "EndIteration",
    "EndPass",
    "TestResult",
]


class WithMetric:
    """An event with the metrics of the evaluators.

    Metrics are computed when they are read: an event that is kept shows those of a later batch.
    """

    def __init__(self, evaluator):
        if not callable(getattr(evaluator, "metrics", None)):
            raise TypeError(
                f"{type(self).__name__}: an evaluator has a method metrics(), "
                f"{type(evaluator).__name__} has none"
            )
        self.__evaluator__ = evaluator

    @property
    def metrics(self):
        """A new dict {metric name: float} of the current metrics."""
        return {name: float(value) for name, value in self.__evaluator__.metrics().items()}


class TestResult(WithMetric):
    """Cost per sample and metrics over a whole test reader."""

    __test__ = False  # the name looks like a test case to pytest

    def __init__(self, evaluator, cost):
        super().__init__(evaluator)
        self.cost = _cost(self, cost)


class BeginPass:
    """Start of a pass over the training data."""

    def __init__(self, pass_id):
        self.pass_id = _number(self, "pass_id", pass_id)


class EndPass(WithMetric):
    """End of a pass, with the metrics over the whole pass."""

    def __init__(self, pass_id, evaluator, gm):
        super().__init__(evaluator)
        self.pass_id = _number(self, "pass_id", pass_id)
        self.gm = gm


class BeginIteration:
    """Start of a minibatch."""

    def __init__(self, pass_id, batch_id):
        self.pass_id = pass_id if type(pass_id) is int else _number(self, "pass_id", pass_id)
        self.batch_id = batch_id if type(batch_id) is int else _number(self, "batch_id", batch_id)


class EndForwardBackward:
    """End of the backward pass: gradients are available, parameters are not updated yet."""

    def __init__(self, pass_id, batch_id, gm):
        self.pass_id = pass_id if type(pass_id) is int else _number(self, "pass_id", pass_id)
        self.batch_id = batch_id if type(batch_id) is int else _number(self, "batch_id", batch_id)
        self.gm = gm


class EndIteration(WithMetric):
    """End of a minibatch, after the update; cost per sample and metrics are from before it."""

    def __init__(self, pass_id, batch_id, cost, evaluator, gm):
        super().__init__(evaluator)
        self.pass_id = pass_id if type(pass_id) is int else _number(self, "pass_id", pass_id)
        self.batch_id = batch_id if type(batch_id) is int else _number(self, "batch_id", batch_id)
        self.cost = cost if type(cost) is float else _cost(self, cost)
        self.gm = gm


def _number(event, name, value):
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{type(event).__name__}: {name} must be an integer, got {value!r}"
        ) from None


def _cost(event, cost):
    if not isinstance(cost, numbers.Real):
        raise TypeError(f"{type(event).__name__}: cost must be a number, got {cost!r}")
    return float(cost)
