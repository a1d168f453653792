"""What a trainer tells its event handler.

Numbers of passes and batches start at 0, those of batches anew in each pass.
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
    """An event with the values of the evaluators.

    The evaluator is alive: the metrics of an event kept for later are those of a later batch.
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
        """A new dict {metric name: float}."""
        return {name: float(value) for name, value in self.__evaluator__.metrics().items()}


class TestResult(WithMetric):
    """Cost per sample and metrics over a whole test reader."""

    __test__ = False  # the name looks like a test case to pytest

    def __init__(self, evaluator, cost):
        super().__init__(evaluator)
        self.cost = _cost(self, cost)


class BeginPass:
    """A pass over the training data starts."""

    def __init__(self, pass_id):
        self.pass_id = _number(self, "pass_id", pass_id)


class EndPass(WithMetric):
    """A pass has ended; metrics are over the whole pass."""

    def __init__(self, pass_id, evaluator, gm):
        super().__init__(evaluator)
        self.pass_id = _number(self, "pass_id", pass_id)
        self.gm = gm


class BeginIteration:
    """A minibatch is about to be used."""

    def __init__(self, pass_id, batch_id):
        self.pass_id = _number(self, "pass_id", pass_id)
        self.batch_id = _number(self, "batch_id", batch_id)


class EndForwardBackward:
    """The gradients of a minibatch are there, parameters are not updated yet."""

    def __init__(self, pass_id, batch_id, gm):
        self.pass_id = _number(self, "pass_id", pass_id)
        self.batch_id = _number(self, "batch_id", batch_id)
        self.gm = gm


class EndIteration(WithMetric):
    """Parameters are updated; cost per sample and metrics are those before the update."""

    def __init__(self, pass_id, batch_id, cost, evaluator, gm):
        super().__init__(evaluator)
        self.pass_id = _number(self, "pass_id", pass_id)
        self.batch_id = _number(self, "batch_id", batch_id)
        self.cost = _cost(self, cost)
        self.gm = gm


def _number(event, name, value):
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{type(event).__name__}: {name} must be an integer, got {value!r}"
        ) from None


def _cost(event, cost):
    if type(cost) is not float and not isinstance(cost, numbers.Real):
        raise TypeError(f"{type(event).__name__}: cost must be a number, got {cost!r}")
    return float(cost)
