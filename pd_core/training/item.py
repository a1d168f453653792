"""Items of a Runner: callbacks, each around those after it."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..graph.handlers import check_takes
from ..graph.other_words import Signature, check_arguments
from ..graph.shown import with_settings
from ..storage.tree import copied
from .context import RunnerContext

_ARGUMENTS = {
    "initialize": ("context", "following"),
    "finalize": ("following",),
    "on_pass_begin": ("following",),
    "on_batch_begin": ("following",),
    "on_batch_end": ("following",),
    "on_pass_end": ("following",),
    "state": (),
    "check": ("state",),
    "restore": ("state",),
    "undoing": (),
}
Following = Callable[[], Any]
Initialize = Callable[[RunnerContext], None]


class RunnerItem:
    """One callback of a Runner. A method that is not defined only calls the item inside."""

    context: RunnerContext
    # whether only rank 0 of a job has this item: it prints or writes, and has no state
    first_rank_only = False

    if not TYPE_CHECKING:
        __signature__ = Signature()

        def __new__(cls, *args, **kwargs):
            check_arguments(cls, kwargs)
            return object.__new__(cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check that the methods which a class defines take what a Runner calls them with."""
        super().__init_subclass__(**kwargs)
        for name, arguments in _ARGUMENTS.items():
            if inspect.isfunction(function := vars(cls).get(name)):
                check_takes(f"{cls.__name__}.{name}", function, "self", *arguments)

    def __repr__(self) -> str:
        return with_settings(self)

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        """Prepare for what the `with` of the runner contains."""
        self.context = context
        following(context)

    def finalize(self, following: Following) -> None:
        """Release what `initialize` took; called after errors and Ctrl-C, too."""
        following()

    def on_pass_begin(self, following: Following) -> None:
        """Start a pass over the data."""
        following()

    def on_batch_begin(self, following: Following) -> Any:
        """Compute a batch; a result that is true says that the pass has no more batches."""
        return following()

    def on_batch_end(self, following: Following) -> Any:
        """End a batch; a result that is true ends the pass."""
        return following()

    def on_pass_end(self, following: Following) -> None:
        """End a pass."""
        following()

    def state(self) -> Any:
        """Return what a checkpoint stores of this item, None for nothing.

        Nested dicts and lists of numbers, strings and arrays. It is called between two batches, or
        two passes.
        """

    def check(self, state: Any) -> None:
        """Raise a GraphError if a state is not one of such an item; change nothing.

        The states of all items are checked before the first one is restored.
        """

    def restore(self, state: Any) -> None:
        """Go back to what `state` returned; called after all items are initialized.

        If it raises, everything that was restored is taken back, see `undoing`.
        """

    def undoing(self) -> Callable[[], Any]:
        """Return a function that takes back what a `restore` is about to change.

        By default it restores a copy of the state of now. The values of the session, its seed and
        its draws go back without it.
        """
        state = copied(self.state())
        return lambda: None if state is None else self.restore(state)
