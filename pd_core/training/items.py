"""The rings around a step: where it runs, what is counted and read."""

from collections.abc import Mapping, Sequence, Sized
from contextlib import ExitStack
from typing import Any

from ..graph.errors import GraphError
from ..graph.variable import Variable
from ..run.session import Session, default_session, use_device
from .batches import Reader, batch_size_of, close, reader_of
from .checkpoint import checking
from .context import RunnerContext
from .generators import check_generators, encoded, generators_state, set_generators
from .item import Following, Initialize, RunnerItem
from .positions import draws_ahead, positioned, resumed


class Device(RunnerItem):
    """The session whose values the items inside use: by default the one in force.

    `device` is a Session, or a device to which the default session moves, see `pd.use_device`. A
    checkpoint has all values of the session, its seed and its random draws.
    """

    def __init__(self, device: str | Session | None = None):
        self.device = device

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        self._stack = ExitStack()
        with ExitStack() as stack:
            if isinstance(self.device, str):
                use_device(self.device)
            session = self.device if isinstance(self.device, Session) else default_session()
            context.session = stack.enter_context(session)
            super().initialize(context, following)
            self._stack = stack.pop_all()

    def finalize(self, following: Following) -> None:
        with self._stack:
            following()

    def state(self) -> dict[str, Any]:
        return self.context.session.state()

    def check(self, state: dict[str, Any]) -> None:
        known = {*state["values"], *state.get("tables", ())}
        lacking = [name for name in self.context.parameters if name not in known]
        if lacking:
            raise GraphError(
                f"Resume: the checkpoint is of another network, it lacks {', '.join(lacking)}"
            )
        self.context.session.check_state(state)

    def restore(self, state: dict[str, Any]) -> None:
        self.context.session.restore(state)


class Counter(RunnerItem):
    """The counts of the context: passes, batches, samples.

    Inside of it, `on_batch_end` and `on_pass_end` see counts that include the batch. A checkpoint
    has the counts, whether the training was stopped, and the results of the last test.
    """

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        self._finished = -1  # number of the last finished batch in its pass
        super().initialize(context, following)

    def on_pass_begin(self, following: Following) -> None:
        context = self.context
        if not context.is_in_pass:  # else a resumed training goes on in the middle
            context.pass_id, context.batch_id = context.pass_id + 1, -1
            context.is_in_pass, self._finished = True, -1
        following()

    def on_batch_begin(self, following: Following) -> Any:
        context = self.context
        context.batch_id += 1
        if following():
            context.batch_id -= 1
            return True
        return False

    def on_batch_end(self, following: Following) -> Any:
        context = self.context
        context.batches += 1
        context.samples += context.batch_size
        self._finished = context.batch_id
        return following()

    def on_pass_end(self, following: Following) -> None:
        context = self.context
        if not context.is_stopped:
            context.pass_batches = context.batch_id + 1
        following()
        context.is_in_pass = False

    def state(self) -> dict[str, Any]:
        counts = {name: getattr(self.context, name) for name in _COUNTS}
        counts["batch_id"] = self._finished  # a reader that saves is asked for the next one
        return {**counts, "test_metrics": self.context.test_metrics}

    def check(self, state: dict[str, Any]) -> None:
        _set_counts(RunnerContext(), state)

    def restore(self, state: dict[str, Any]) -> None:
        _set_counts(self.context, state)
        self._finished = self.context.batch_id


_COUNTS = (
    *("pass_id", "batch_id", "batches", "samples", "pass_batches"),
    *("is_in_pass", "is_pass_over", "is_stopped"),
)


def _set_counts(context, state):
    for name in _COUNTS:
        setattr(context, name, state[name])
    # in place: a new dict is a new test to logs
    context.test_metrics.update(state["test_metrics"])


class Data(RunnerItem):
    """The batches of a reader, a function that returns an iterable of them.

    A batch is a dict of feeds, or a tuple or list of arrays for `inputs`: Variables, or names of
    them; only a TrainStep takes tuples without. A reader may also be a list of batches, or an
    object with `__iter__`.

    A checkpoint has the place in the data and the states of Python's and NumPy's global random
    generators. An iterator with methods `state()` and `restore(state)` goes back to its place; any
    other one is read from the beginning of the pass up to it, and a warning says so.
    """

    def __init__(self, reader: Reader, inputs: Sequence[Variable | str] | None = None):
        self.reader = reader_of(reader)
        self._length = len(reader) if isinstance(reader, Sized) else None
        self.inputs = None if inputs is None else list(inputs)
        self._iterator: Any = None
        self._resumed: dict[str, Any] | None = None

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        context.data, context.feeds = self, None
        self._iterator = self._resumed = None
        if self._length is not None:
            context.pass_batches = self._length
        super().initialize(context, following)

    def on_pass_begin(self, following: Following) -> None:
        following()
        state, self._resumed = self._resumed, None
        if state is None:
            self._iterator = positioned(self.reader)
            return
        with checking("Resume: the place in the data", GraphError):
            self._iterator = self._at(state)
        if state["position"] is not None:
            set_generators(state["generators"], but=draws_ahead(self._iterator))

    def _at(self, state):
        """The iterator at the place of a state: in a pass, or at the beginning of the next one."""
        if state["position"] is not None:
            return resumed(self.reader, state["position"])
        if state["reader"] is not None:
            reader: Any = self.reader
            reader.restore(state["reader"])
        return positioned(self.reader)

    def on_batch_begin(self, following: Following) -> Any:
        try:
            batch = next(self._iterator)
        except StopIteration:
            return True
        context = self.context
        context.batch = batch
        if self.inputs is not None or isinstance(batch, Mapping):
            context.feeds = batch = self.feeds(batch)
        context.batch_size = batch_size_of(batch)
        return following()

    def feeds(self, batch: Any) -> Mapping[Variable | str, Any]:
        """Return the feeds of a batch."""
        if isinstance(batch, Mapping):
            return batch
        if self.inputs is None:
            raise TypeError(
                "Data: a batch is a dict of feeds, not "
                f"{type(batch).__name__}\n  hint: Data(reader, inputs=[x, y]) takes tuples"
            )
        if not isinstance(batch, (tuple, list)) or len(batch) != len(self.inputs):
            size = f" of {len(batch)}" if isinstance(batch, (tuple, list)) else ""
            raise TypeError(
                f"Data: a batch is a tuple of {len(self.inputs)} arrays, not "
                f"{type(batch).__name__}{size}"
            )
        return dict(zip(self.inputs, batch, strict=True))

    def on_pass_end(self, following: Following) -> None:
        self._close()
        following()

    def finalize(self, following: Following) -> None:
        self._close()
        following()

    def _close(self):
        iterator, self._iterator = self._iterator, None
        if iterator is not None:
            close(iterator)

    def state(self) -> dict[str, Any]:
        if self._resumed is not None:  # the pass that it belongs to has not begun again
            return self._resumed
        position = None if self._iterator is None else self._iterator.state()
        reader: Any = self.reader
        between = reader.state() if position is None and hasattr(reader, "state") else None
        return encoded({"position": position, "reader": between, "generators": generators_state()})

    def check(self, state: dict[str, Any]) -> None:
        check_generators(state["generators"])
        if state.keys() != {"position", "reader", "generators"}:
            raise KeyError(f"the place in the data has {', '.join(state)}")

    def restore(self, state: dict[str, Any]) -> None:
        self._resumed = state
        if state["position"] is None:
            set_generators(state["generators"])
