"""The callback that averages parameters."""

from collections.abc import Iterable
from typing import Any

from ..graph.errors import GraphError
from ..graph.variable import Variable
from ..optimizers.averaging import MovingAverage, create_averages
from .context import RunnerContext
from .item import Following, Initialize, RunnerItem


class Average(RunnerItem):
    """A MovingAverage of the parameters, updated with each batch that updates them.

    So of an optimizer with accumulate=k every k-th batch counts, as in `MovingAverage.follow`.

    `parameters` are by default those that the updates of the runner train, or those that TrainStep
    was given. Tests of the averages are `TestEvery(average=...)`.
    """

    def __init__(self, average: MovingAverage, parameters: Iterable[Variable] | None = None):
        self.average = average
        self.parameters = None if parameters is None else list(parameters)

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        super().initialize(context, following)
        parameters = self._parameters()
        if parameters:  # a training that is resumed at its end takes no step that would make them
            create_averages(self.average, parameters)

    def on_batch_end(self, following: Following) -> Any:
        parameters = self._parameters()
        if not parameters:
            raise GraphError("Average: no item trains parameters\n  hint: Average(..., parameters)")
        forward = self.context.forward
        if forward is None or forward.has_updated():
            self.average.record(parameters, self.context.session)
        return following()

    def finalize(self, following: Following) -> None:
        following()
        parameters = self._parameters()
        if parameters:  # of a module that was built in the meantime
            create_averages(self.average, parameters)

    def _parameters(self):
        return self.parameters or list(self.context.parameters.values())
