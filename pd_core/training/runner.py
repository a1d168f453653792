"""Runner: a training, test or inference as callbacks around each other.

Every item is a callback: it is called with `following`, which calls the items inside, and may do
its part before, after or instead. Without the one that updates, a training is a test; without the
cost, it is inference.
"""

import os
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Any, Self

from ..graph.errors import GraphError
from .checkpoint import checkpoint_of
from .context import RunnerContext
from .functions import item_of
from .item import RunnerItem
from .ranks import INTERRUPTED, is_writer, job
from .tables import save_checkpoint


class Runner:
    """Items that are run together, the first one added outside.

        with runner:
            runner.run(num_passes=10)

    Items are initialized when the `with` begins, and finalized in the same order when it ends,
    however it ends: each one that was initialized, even if another one raises.

    In a job of `pd.distributed` every rank runs the same runner: counts, costs and metrics are
    those of all ranks together, and Ctrl-C on one of them ends all after the same batch.
    """

    def __init__(self) -> None:
        self.items: list[RunnerItem] = []
        self.context = RunnerContext()
        self._active: list[RunnerItem] = []  # those of this rank
        self._entered: list[RunnerItem] = []  # whose initialize was called
        self._is_open = False

    def __repr__(self) -> str:
        return f"Runner({', '.join(map(repr, self.items))})"

    def add_item(self, item: RunnerItem | Callable[[RunnerContext], Any]) -> Self:
        """Add an item inside of those that were added before; return the runner.

        Args:
            item: a RunnerItem, or a function, which is called with the context after each pass.

        Returns:
            The runner.

        Raises:
            GraphError: the runner is running.
            TypeError: it is neither.
            ValueError: it was added before.
        """
        item = item_of("add_item", item)
        if self._is_open:
            raise GraphError("add_item: the runner is running already")
        if any(item is other for other in self.items):
            raise ValueError(f"add_item: this {type(item).__name__} was added before")
        self.items.append(item)
        return self

    def __enter__(self) -> Self:
        if not self.items:
            raise ValueError("a Runner without items does nothing\n  hint: add_item()")
        if self._is_open:
            raise GraphError("this runner is running already")
        self._is_open = True
        self.context = RunnerContext()
        self.context.runner = self
        self.context.ranks = ranks = job()
        self._active = self.items
        if ranks is not None:
            ranks.open()
            self._active = [i for i in self.items if ranks.is_first or not i.first_rank_only]
        self._pass_begin = self._chain("on_pass_begin")
        self._batch_begin = self._chain("on_batch_begin")
        self._batch_end = self._chain("on_batch_end")
        self._pass_end = self._chain("on_pass_end")
        try:
            self._initializer(0)(self.context)
            self.context.call_deferred()
        except BaseException as error:
            self._take_back(error)
            self._finalize(error)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._finalize(error)

    def _chain(self, method):
        """Return a function that calls a method of all items that define it, outermost first."""
        following = _nothing
        for item in reversed(self._active):
            if getattr(type(item), method) is not getattr(RunnerItem, method):
                following = partial(getattr(item, method), following)
        return following

    def _initializer(self, number):
        """Return the function that initializes the items from a number on."""

        def initialize(context):
            if number:
                self._entered.append(self._active[number - 1])  # its own part succeeded
            if number < len(self._active):
                self._active[number].initialize(context, self._initializer(number + 1))

        return initialize

    def _finalize(self, reason):
        """Finalize the items in their order, each one once.

        Their first error is raised, Ctrl-C and SystemExit before others; if there was an error
        already, that gets theirs as notes.
        """
        remaining, errors = list(self._entered), []
        self._entered, self._is_open = [], False
        self.context.undo = None
        ranks = self.context.ranks
        if ranks is not None:
            ranks.close()

        def following():
            if remaining:
                remaining.pop(0).finalize(following)

        while remaining:
            try:
                following()
            except BaseException as error:
                errors.append(error)
        if not errors:
            if reason is None and ranks is not None and ranks.signals & INTERRUPTED:
                raise KeyboardInterrupt  # after the last batch
            return
        exits = [error for error in errors if not isinstance(error, Exception)]
        first = reason or (exits or errors)[0]
        for later in errors:
            if later is not first:
                first.add_note(f"  then, in finalize: {later!r}")
        if reason is None:
            raise first

    # ---- running

    def run_one_pass(self) -> RunnerContext:
        """Run batches until the data end, an item ends the pass or `context.stop()` was called.

        Returns:
            The context.

        Raises:
            GraphError: the runner is not inside of `with`.
        """
        context = self._open_context()
        try:
            self._pass_begin()
        except BaseException as error:
            self._take_back(error)
            raise
        context.undo = None
        while not (context.is_pass_over or context.is_stopped):
            self._run_one_batch(context)
        self._pass_end()
        context.is_pass_over = False
        if context.has_deferred:
            context.call_deferred()
        return context

    def run(self, num_passes: int = 1) -> RunnerContext:
        """Run passes until there were so many, a resumed training's passes included.

        Args:
            num_passes: the number of passes that there are at the end.

        Returns:
            The context.

        Raises:
            GraphError: the runner is not inside of `with`, or no item counts passes.
        """
        context = self._open_context()
        context.num_passes = num_passes
        while context.is_in_pass or (not context.is_stopped and context.pass_id + 1 < num_passes):
            number, is_continued = context.pass_id, context.is_in_pass
            self.run_one_pass()
            if context.pass_id == number and not is_continued:
                raise GraphError("run: no item counts the passes\n  hint: add a Counter()")
        return context

    def save(self, path: str | os.PathLike) -> None:
        """Write a checkpoint of all items, a folder at this path, whole or not at all.

        All ranks of a job call it, and rank 0 writes; of a sharded table each rank writes its own
        rows. OSError if that fails, with sharded tables on all ranks; GraphError, and nothing is
        written, if ranks have other values of what their steps keep the same.

        Args:
            path: a folder.

        Raises:
            GraphError: the runner is not inside of `with`, or the ranks have different values.
        """
        context, checkpoint = self._open_context(), None
        if context.ranks is not None:
            context.ranks.settle(context.session)
            context.ranks.compare(context.session)
        if is_writer(context.ranks):
            checkpoint = checkpoint_of(self.items, context)
        elif context.data is not None:
            context.data.state()  # in which rank 0 gathers the places of all
        save_checkpoint(path, checkpoint, context.ranks)

    def _take_back(self, error):
        """Take back what was restored for a training that cannot begin."""
        undo, self.context.undo = self.context.undo, None
        if undo is not None:
            undo.run(error)

    def _run_one_batch(self, context):
        """Run a batch, or find that the pass is over."""
        if self._batch_begin():
            context.is_pass_over = True
            return
        if self._batch_end():
            context.is_pass_over = True
        if context.has_deferred:
            context.call_deferred()
        if context.ranks is not None:
            context.ranks.check_interrupt()

    def _open_context(self):
        if not self._is_open:
            raise GraphError("a runner runs inside of `with runner:`")
        return self.context


def runner_of(items: Iterable[RunnerItem | Callable[[RunnerContext], Any]]) -> Runner:
    """Return a Runner of some items, each a RunnerItem or a function, see `add_item`."""
    runner = Runner()
    for item in items:
        runner.add_item(item)
    return runner


def _nothing():
    """The innermost item."""
