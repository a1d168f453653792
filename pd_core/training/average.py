"""The callback that averages parameters."""

from collections.abc import Iterable
from typing import Any

from ..graph.errors import GraphError
from ..graph.variable import Variable
from ..optimizers.averaging import MovingAverage
from .item import Following, RunnerItem


class Average(RunnerItem):
    """A MovingAverage of the parameters, updated with each batch.

    `parameters` are by default those that the updates of the runner train, or those that TrainStep
    was given. Tests of the averages are `TestEvery(average=...)`.
    """

    def __init__(self, average: MovingAverage, parameters: Iterable[Variable] | None = None):
        self.average = average
        self.parameters = None if parameters is None else list(parameters)

    def on_batch_end(self, following: Following) -> Any:
        context = self.context
        parameters = self.parameters or list(context.parameters.values())
        if not parameters:
            raise GraphError("Average: no item trains parameters\n  hint: Average(..., parameters)")
        self.average.record(parameters, context.session)
        return following()
