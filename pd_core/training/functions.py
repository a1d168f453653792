"""The callback that calls a function of the user."""

from collections.abc import Callable
from typing import Any

from ..graph.errors import GraphError
from ..graph.handlers import check_takes
from .context import RunnerContext
from .evaluate import every
from .item import Following, RunnerItem


class CallEvery(RunnerItem):
    """A function that is called with the context after every so many batches, or passes.

    Its numbers are there: `pass_id`, `batches`, `cost`, `pass_metrics`, `test_metrics`;
    `context.stop()` ends the training. What the function returns is not used, and it has no state
    in checkpoints. In a job every rank calls it.

    A function among the items of a Runner, or the callbacks of `Module.fit`, is called after each
    pass, as `CallEvery(function, passes=1)` is.
    """

    def __init__(
        self,
        function: Callable[[RunnerContext], Any],
        batches: int | None = None,
        passes: int | None = None,
    ):
        check_takes("CallEvery: the function", function, "context")
        self.function = function
        self.batches, self.passes = every("CallEvery", batches, passes)

    def on_batch_end(self, following: Following) -> Any:
        result = following()
        if self.batches:
            if not self.context.batches:
                raise GraphError("CallEvery: no item counts the batches\n  hint: add a Counter()")
            if self.context.batches % self.batches == 0:
                self.context.after(self._call)
        return result

    def on_pass_end(self, following: Following) -> None:
        following()
        if self.passes and (self.context.pass_id + 1) % self.passes == 0:
            self.context.after(self._call)  # when tests of this pass are done

    def _call(self):
        self.function(self.context)


def item_of(who: str, value: Any) -> RunnerItem:
    """Return an item as it is, and a function as one that calls it after each pass."""
    if isinstance(value, RunnerItem):
        return value
    if isinstance(value, type) or not callable(value):
        is_item = isinstance(value, type) and issubclass(value, RunnerItem)
        hint = f"\n  hint: {value.__name__}(...)" if is_item else ""
        raise TypeError(f"{who}: a RunnerItem or a function of the context, not {value!r}{hint}")
    check_takes(f"{who}: a callback", value, "context")
    return CallEvery(value, passes=1)
