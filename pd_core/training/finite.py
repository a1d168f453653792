"""The callback that stops a training at a cost that is NaN or infinite."""

import math
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..graph.errors import GraphError, NumericError
from ..run.numerics.checking import check_numerics
from .context import RunnerContext
from .item import Following, Initialize, RunnerItem
from .precision import lost_scale


class StopAtNaN(RunnerItem):
    """A NumericError at the first batch whose cost is NaN or infinite, which names the batch.

    It names the array of the batch that is not finite, too, if there is one. No checkpoint of that
    batch is written. In mixed_float16 a step whose gradients overflow is left out, and no error;
    the batch after which the loss scale is so small that no gradient can be finite is one. With
    `operators` it also names the first operator whose output is not finite, and the line that built
    it, before parameters change: see `pd.check_numerics`, which computes everything twice. It
    stands before the step then.
    """

    def __init__(self, operators: bool = False):
        self.operators = operators

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        if self.operators and context.forward is not None:
            raise GraphError(
                "StopAtNaN: operators are checked in steps inside, there is one around it\n"
                "  hint: add it before the ForwardBackward or TrainStep"
            )
        super().initialize(context, following)

    def on_batch_begin(self, following: Following) -> Any:
        with check_numerics() if self.operators else nullcontext():
            try:
                return following()
            except NumericError as error:
                error.add_note(f"  in     {self._place()}")
                raise

    def on_batch_end(self, following: Following) -> Any:
        context = self.context
        if not math.isfinite(context.cost):
            batch = context.batch if context.feeds is None else context.feeds
            found = next(_not_finite(batch), "the arrays of the batch are finite")
            raise NumericError(
                f"StopAtNaN: the cost of {self._place()} is {context.cost}\n  {found}\n"
                "  hint: StopAtNaN(operators=True) names the first operator that makes one"
            )
        for scale in [] if context.forward is None else context.forward.loss_scales():
            if (lost := lost_scale(scale)) is not None:
                raise NumericError(
                    f"StopAtNaN: after {self._place()} {lost}\n  hint: with precision='float32' "
                    "StopAtNaN(operators=True) names the operator that makes them"
                )
        return following()

    def _place(self):
        return f"batch {self.context.batch_id} of pass {self.context.pass_id} (counted from 0)"


def _not_finite(batch: Any) -> Iterator[str]:
    """Texts about the arrays of a batch that hold a NaN or an infinity."""
    pairs: Any = batch.items() if isinstance(batch, Mapping) else None
    if pairs is None:
        pairs = enumerate(batch if isinstance(batch, (tuple, list)) else [batch])
    for key, value in pairs:
        array = np.asarray(value)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            name = (
                f"array {key} of the batch" if isinstance(key, int) else getattr(key, "name", key)
            )
            yield f"{name} {list(array.shape)} is {array[place]} at {list(place)}"
