"""The callback that reads: batches of a reader, of which each rank of a job has its part."""

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any

from ..graph.errors import GraphError
from ..graph.site import warn
from ..graph.variable import Variable
from ..run.states import each, entries, integer, maybe, text
from .batches import ArrayReader, Reader, batch_size_of, close, reader_of
from .checkpoint import CheckpointWarning, checking
from .context import RunnerContext
from .generators import check_generators, encoded, generators_state, set_generators
from .item import Following, Initialize, RunnerItem
from .positions import Reread, draws_ahead, positioned, resumed
from .ranks import is_writer, rows_of
from .rereading import first_sample, read_again, require_length

_END = object()  # of a pass


class Data(RunnerItem):
    """The batches of a reader, a function that returns an iterable of them.

    A batch is a dict of feeds, or a tuple or list of arrays for `inputs`: Variables, or names of
    them; only a TrainStep takes tuples without. A reader may also be a list of batches, or an
    object with `__iter__`.

    A checkpoint has the place in the data and the states of Python's and NumPy's global random
    generators. An iterator with methods `state()` and `restore(state)` goes back to its place; any
    other one is read from the beginning of the pass up to it, and a warning says so. The place is
    that of a sample: batches may have another size then, if one of them ends there. Other data are
    a GraphError, as far as they are known: arrays of another size, order or content, a reader
    whose first sample is another one.

    In a job of `pd.distributed` each rank reads batches of its own, of any number and size; one
    that has none left takes part in the steps of the others. With `split=True` the readers of all
    ranks give the same batches, of which each rank takes its rows, n rank // ranks up to
    n (rank + 1) // ranks; each pass begins with the global random generators of rank 0.
    """

    def __init__(
        self,
        reader: Reader,
        inputs: Sequence[Variable | str] | None = None,
        split: bool = False,
    ):
        self.split = split
        self.reader = reader_of(reader)
        self._length = len(reader) if isinstance(reader, Sized) else None
        self.inputs = None if inputs is None else list(inputs)
        self._iterator: Any = None
        self._resumed: dict[str, Any] | None = None
        self._begin_count()

    def _begin_count(self):
        # samples that were read in this pass, and the first of them where that may be asked for
        self._samples, self._first = 0, None

    def initialize(self, context: RunnerContext, following: Initialize) -> None:
        context.data, context.feeds = self, None
        if context.ranks is not None:
            context.ranks.splits = self.split
        self._iterator = self._resumed = self._before = self._last = None
        self._kind: type | None = None  # of batches
        self._is_fed = False
        self._begin_count()
        if self._length is not None:
            context.pass_batches = self._length
        super().initialize(context, following)

    def on_pass_begin(self, following: Following) -> None:
        following()
        if self._length is not None:  # a resumed pass may have had other batches
            self.context.pass_batches = self._length
        state, self._resumed = self._resumed, None
        self._begin_count()
        if state is None:
            self._iterator = self.begun()
            return
        with checking("Resume: the place in the data", GraphError):
            self._iterator = self.resumed(state)

    def begun(self) -> Any:
        """Return the iterator of a new pass."""
        ranks, reader = self.context.ranks, self.reader
        if ranks is not None and self.split:
            set_generators(ranks.on_first(generators_state))
        elif ranks is not None and hasattr(reader, "state"):
            self._before = reader.state()
        return self.opened()

    def opened(self) -> Any:
        """Return an iterator of the reader, which has a position."""
        return positioned(self.reader)

    def resumed(self, state: dict[str, Any]) -> Any:
        """Return the iterator of a pass that goes on at the place of a state."""
        self._before = state.get("before")
        part = self._part(state)
        if part is None:
            return self._nearby(state)
        iterator = self._at(part)
        if part["position"] is not None:
            set_generators(part["generators"], but=draws_ahead(iterator))
        return iterator

    def _at(self, state):
        """The iterator at the place of a state: in a pass, or at the beginning of the next one."""
        position, read, between = state["position"], state.get("read"), state["reader"]
        if position is None:
            if between is not None:
                reader: Any = self.reader
                if isinstance(between, Mapping) and not self._is_of_as_many(state):
                    # rank 0's data are not those of this one
                    between = {key: value for key, value in between.items() if key != "data"}
                reader.restore(between)
            return self.opened()
        if read is not None:
            self._samples, self._first = read["samples"], read["first"]
        if read is None or read["batches"] is None:
            return resumed(self.reader, position)
        items = read_again(self.reader, position, read, self.measured)
        require_length(read, items.count, self._length)
        return items

    def measured(self, batch: Any) -> tuple[Any, int]:
        """Return the feeds of a batch, or itself if it is none, and its number of samples."""
        if self.inputs is not None or isinstance(batch, Mapping):
            batch = self.feeds(batch)
        return batch, batch_size_of(batch)

    def _is_of_as_many(self, state):
        """Whether a state is one of as many readers as there are now."""
        ranks = self.context.ranks
        own = 1 if ranks is None or self.split else ranks.size
        return len(state.get("ranks", [state])) == own

    def _part(self, state):
        """The state of this rank; None for a place in a pass of another number of own readers."""
        ranks, parts = self.context.ranks, state.get("ranks", [state])
        if self.split or (ranks is None and len(parts) == 1):
            return state
        if ranks is not None and len(parts) == ranks.size:
            return parts[ranks.rank]
        return state if state["position"] is None else None

    def _nearby(self, state):
        """The iterator behind as many of the own samples as were read by other ranks in all."""
        ranks, parts = self.context.ranks, state.get("ranks", [state])
        there, here = len(parts), 1 if ranks is None else ranks.size
        done = sum([part["read"]["samples"] for part in parts]) // here
        if is_writer(ranks):
            warn(
                CheckpointWarning(
                    f"the checkpoint is of {there} ranks with batches of their own, there are "
                    f"{here} now: each leaves out the first {done} samples of its pass\n"
                    "  hint: Data(reader, split=True) goes on with any number of ranks exactly"
                )
            )
        reader: Any = self.reader
        if state.get("before") is not None:
            reader.restore(state["before"])
        items = self.begun()
        while self._samples < done and (batch := next(items, _END)) is not _END:
            self._samples += self.measured(batch)[1]
        return items

    def on_batch_begin(self, following: Following) -> Any:
        context, ranks, batch = self.context, self.context.ranks, next(self._iterator, _END)
        feeds, size = (_END, None) if batch is _END else self.measured(batch)
        if size is not None:
            if not self._samples:
                self._begin_pass(ranks, feeds, size)
            self._samples += size
        own: Any = batch, feeds
        if ranks is not None:
            own = (self._rows if self.split else self._own)(ranks, own, size)
        elif size is not None:
            context.batch_size = size
        if own is None or own[0] is _END:
            return True
        context.batch, feeds = own
        kind = type(context.batch)
        if kind is not self._kind:
            self._kind = kind
            self._is_fed = self.inputs is not None or issubclass(kind, Mapping)
        context.feeds = feeds if self._is_fed else None
        if ranks is None:
            return following()
        with ranks.weighing():
            return following()

    def _begin_pass(self, ranks, feeds, size):
        """Note the first sample of a pass, and compare it with those that other ranks have read."""
        is_compared = ranks is not None and self.split and self.context.forward is not None
        is_noted = isinstance(self._iterator, Reread)  # batches are read again to find a place
        first = self.digest(feeds) if is_compared or is_noted else None
        if is_noted:
            self._first = first
        if is_compared:
            ranks.compare_first(size, first)

    def digest(self, feeds: Any) -> str | None:
        """Return what tells the first sample of a batch from others, None for nothing."""
        return first_sample(feeds)

    def _rows(self, ranks, whole, size):
        """This rank's rows of a batch that all have read, and of its feeds; None at the end."""
        forward = self.context.forward
        if size is None:
            if forward is not None:
                ranks.end(self.context.batch_id)
            return None
        ranks.take_part(size)
        self.context.batch_size = size
        first, end = ranks.bounds(size)
        if first == end and not _takes_empty(forward):
            first, end = 0, 1  # a row that does not count
        return [self.rows(each, size, slice(first, end)) for each in whole]

    def rows(self, batch: Any, samples: int, rows: slice) -> Any:
        """Return some rows of a batch, or of its feeds, of so many samples."""
        return rows_of(batch, samples, rows)

    def _own(self, ranks, own, size):
        """A batch of this rank and its feeds; None if the pass is over on all ranks."""
        forward, total = self.context.forward, size
        if forward is None:  # each rank computes alone
            ranks.samples = size
        else:
            total = ranks.all_reduce_size(size)
        if total is None:
            return None
        self.context.batch_size = total
        if size or forward is None:
            self._last = None if _takes_empty(forward) else own
            return own
        if _takes_empty(forward):
            return None, None
        if self._last is None:
            raise GraphError(
                f"Data: rank {ranks.rank} has no batches, and {type(forward).__name__} takes no "
                "step without one"
            )
        return self._last

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
        """Return the place in the data; of ranks with own batches the places of all."""
        if self._resumed is not None:  # the pass that it belongs to has not begun again
            return self._resumed
        place, ranks = self._place(), self.context.ranks
        if ranks is None or self.split:
            return place
        return {**place, "ranks": ranks.gather(place), "before": self._before}

    def _place(self):
        position = None if self._iterator is None else self._iterator.state()
        reader: Any = self.reader
        between = reader.state() if position is None and hasattr(reader, "state") else None
        read = None
        if position is not None:
            batches = self._iterator.count if isinstance(self._iterator, Reread) else None
            read = {"samples": self._samples, "first": self._first}
            read |= {"batches": batches, "length": self._length}
        place = {"position": position, "reader": between, "read": read}
        return encoded({**place, "generators": generators_state()})

    def check(self, state: dict[str, Any]) -> None:
        if self.split and "ranks" in state:
            raise GraphError(
                f"Resume: the checkpoint is of {len(state['ranks'])} ranks with batches of their "
                "own, this runner splits them"
            )
        for part in [state, *state.get("ranks", ())]:
            entries("Data", part, _KINDS, optional=("read", "ranks", "before"))
            between = (
                part["reader"] is not None if part["position"] is not None else part.get("read")
            )
            if between:
                raise GraphError("Resume: the place in the data is both in a pass and between two")
        own = self._part(state)
        if own is None and not all(part.get("read") for part in state.get("ranks", [state])):
            raise GraphError("Resume: the place in the data is one of as many ranks alone")
        if own is not None and isinstance(self.reader, ArrayReader) and self._is_of_as_many(state):
            self.reader.check(own["reader"] if own["position"] is None else own["position"])

    def restore(self, state: dict[str, Any]) -> None:
        self._resumed, part = state, self._part(state)
        if part is not None and part["position"] is None:
            set_generators(part["generators"])

    def undoing(self) -> Callable[[], Any]:
        reader: Any = self.reader
        state = reader.state() if hasattr(reader, "state") else None
        before = self._iterator, self._resumed, self._samples, self._first

        def undo() -> None:
            if self._iterator is not before[0]:
                self._close()
            self._iterator, self._resumed, self._samples, self._first = before
            if state is not None:
                reader.restore(state)

        return undo


def _anything(value):
    return value


_READ = {"samples": integer, "first": maybe(text), "batches": maybe(integer)}
_READ["length"] = maybe(integer)
_KINDS = {
    "position": _anything,
    "reader": _anything,
    "generators": check_generators,
    "read": maybe(lambda read: entries("what was read", read, _READ)),
    "ranks": each(dict),
    "before": _anything,
}


def _takes_empty(forward):
    """Whether a step is told that there is no batch; others compute one that has no weight."""
    return getattr(forward, "takes_empty", False)
