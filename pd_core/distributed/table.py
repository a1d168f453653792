"""Embedding tables whose rows are spread over the ranks, for tables larger than one of them."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import ops
from ..graph.errors import DTypeError, GraphError, ShapeError
from ..graph.initializers import Gaussian, Initializer
from ..graph.names import names
from ..graph.op import op
from ..graph.recording import not_recording, recorder
from ..graph.roles import Storage
from ..graph.variable import Operand, Variable, constant, fresh_dim, static
from ..graph.whole import whole
from ..ops.gather import gather_stored
from ..run.host_inputs import supply_by
from ..run.session import Session, default_session
from . import process
from .table_draws import RowInitializer, distribution
from .table_files import read_table, write_table
from .table_routes import Route
from .world import TABLE, Description, World

_OUT_OF_RANGE = 1  # a flag: this rank looks up an id that the table does not have
_BLOCK_ELEMENTS = 1 << 22  # of all ranks together, read at a time


class Places(Variable):
    """The place of each of the `ids` of a lookup among the fetched rows."""

    ids: Variable


class ShardedTable:
    """A table [V, D] whose row `id` lives on the rank id % ranks, with its optimizer's slots.

    `lookup` fetches the rows that a batch needs from their owners, each row once; the gradients
    travel back, and the owner updates. On one process it is a `row_sparse` parameter of the same
    name. `init()` comes first, and every rank creates the same tables.

    Initial values are drawn from a Constant, Uniform or Gaussian `initializer`, or "zeros",
    "uniform" and the like; N(0, 1/V) by default. They depend on the session's seed, the name and
    the row, and are the same for any number of ranks. The other arguments are those of Variable.
    """

    @whole
    def __init__(
        self,
        shape: Sequence[int],
        name: str | None = None,
        initializer: str | Initializer | None = None,
        **attributes: Any,
    ):
        sizes = tuple(shape)
        if len(sizes) < 2 or any(not isinstance(n, int | np.integer) or n < 1 for n in sizes):
            raise ShapeError(f"ShardedTable: a shape is [rows, width], not {list(sizes)}")
        self.shape = tuple(map(int, sizes))
        self.rank, self.ranks = process.rank(), process.world_size()
        drawn = distribution(
            Gaussian(0.0, self.height**-0.5) if initializer is None else initializer
        )
        with not_recording():
            self.shard = Variable(
                name=name or names().next("table_", ""),
                shape=[-(-self.height // self.ranks), *self.shape[1:]],
                initializer=RowInitializer(drawn, self.rank, self.ranks),
                row_sparse=True,
                **attributes,
            )
            if self.shard.dtype != np.float32:
                raise DTypeError(f"ShardedTable: {self.shard!r} holds float32")
        self._share()

    @classmethod
    def around(cls, height: int, shard: Variable) -> "ShardedTable":
        """Return the table of `height` rows whose part on this rank a parameter holds.

        That is float32 [height / ranks, ...], rounded up.
        """
        table = object.__new__(cls)
        table.shape = (height, *static(shard.dims)[1:])
        table.rank, table.ranks = process.rank(), process.world_size()
        table.shard = shard
        table._share()
        return table

    def _share(self):
        """Make the shard known as the part of the table, and what lookups read."""
        with not_recording():
            self._asked = Variable.of((fresh_dim(),), np.int64, f"{self.name}_asked")
            count = fresh_dim()
            self._rows = self._slot((count,), np.int64, "rows")
            self._fetched = self._slot((count, *self.shape[1:]), np.float32, "fetched")
        self.shard.storage = Storage(table=self)
        if self.ranks > 1:
            process.current().world.divided.add(self)
        self.sent: Counter[str] = Counter()
        self._answer = self.reader(self.shard)

    @property
    def name(self) -> str:
        """The name of the parameter."""
        return self.shard.name

    @property
    def height(self) -> int:
        """The number of rows on all ranks together."""
        return self.shape[0]

    def __repr__(self) -> str:
        return f"ShardedTable({self.name!r}, {list(self.shape)}, {self.ranks} ranks)"

    # ---- in graphs

    def lookup(self, ids: Operand) -> Variable:
        """Return the rows of integer ids [...] as [..., D].

        All ranks evaluate it together, in inference too, each with ids of its own, or with none. An
        id that is not in the table is a ValueError. Inside `pd.guard()` the rows are fetched at
        once.
        """
        index = constant(ids)
        if index.dtype.kind not in "iu":
            raise DTypeError(f"lookup in {self.name}: takes integer ids, not {index!r}")
        if self.ranks == 1:
            return ops.gather(self.shard, index)
        recording = recorder()
        if recording is None:
            places = self._slot(index.dims, np.int64, "places", Places)
            places.ids = index
            return _looked_up(self._fetched, self.shard, self._rows, places)
        array = index.numpy()
        rows, at, fetched = self._fetch(default_session(), [array])
        leaves = [recording.leaf(a, copy=False) for a in (fetched, rows, *at)]
        return _looked_up(leaves[0], self.shard, *leaves[1:])

    def sources(self, wanted: Sequence[Variable]) -> list[Variable]:
        """Return the ids of the lookups of an evaluation."""
        return [v.ids for v in wanted if isinstance(v, Places)]

    def supply(
        self, session: Session, wanted: Sequence[Variable], arrays: Any
    ) -> dict[Variable, np.ndarray]:
        """Return the rows for all lookups of an evaluation, and the places of their ids in them."""
        places = [v for v in wanted if isinstance(v, Places)]
        rows, at, fetched = self._fetch(session, [arrays[v.ids] for v in places])
        return {self._rows: rows, self._fetched: fetched, **dict(zip(places, at, strict=True))}

    def _slot(self, dims, dtype, what, kind=Variable):
        slot = kind.of(dims, dtype, f"{self.name}_{what}")
        return supply_by(self, slot) if self.ranks > 1 else slot

    # ---- files

    def save(self, path: str | os.PathLike) -> None:
        """Write the table with its optimizer's slots to a new folder; all ranks call it.

        Each rank writes its own rows, to a file system that all of them see. `load` takes them for
        any number of ranks. FileExistsError if there is a table in the folder; one whose writers
        were killed is none.
        """
        write_table(self, default_session(), Path(path))

    def load(self, path: str | os.PathLike) -> None:
        """Read a table that was saved by any number of ranks; all ranks call it.

        Each rank reads its own rows. Slots belong to those of the same name, which may be created
        later. ShapeError for a table of another shape, GraphError for one of another name or
        without the slots that there are, DamagedFile for one that is not whole.
        """
        read_table(self, default_session(), Path(path))

    # ---- between the ranks

    def rows(self, ids: ArrayLike, session: Session | None = None) -> np.ndarray:
        """Return the rows of ids [...] as an array [..., D]; all ranks call it, with their own.

        They are those of the default session, or of another one.
        """
        array = np.asarray(ids)
        if array.dtype.kind not in "iu" and array.size:
            raise TypeError(f"rows of {self.name}: takes integer ids, not {array.dtype}")
        session = default_session() if session is None else session
        _, (places,), fetched = self._fetch(session, [array.astype(np.int64)])
        return fetched[places]

    def blocks(self, session: Session) -> Iterator[np.ndarray]:
        """Yield all rows, some of them at a time and in their order; all ranks call it together.

        They are the values of a session, which keeps them as they are meanwhile. A rank that only
        takes part in the call of another one gets none.
        """
        world, what = self.world(session), f"reading all of {self.name}"
        try:
            self.barrier(world, what)
        except GraphError as error:
            error.add_note(
                f"  hint: all ranks read or write the table {self.name} together, not one alone"
            )
            raise
        start = 0
        for own in self.own_blocks(session):
            every = world.recovering(lambda own=own: world.gather_at_callers(own, what))
            if every is None:
                continue
            rows = every.swapaxes(0, 1).reshape(-1, *self.shape[1:])
            yield rows[: self.height - start]
            start += len(rows)

    def own_blocks(self, session: Session) -> Iterator[np.ndarray]:
        """Yield the rows of this rank, some of them at a time and in their order."""
        own_height = static(self.shard.dims)[0]
        width = max(1, int(np.prod(self.shape[1:], dtype=np.int64)))
        count = max(1, _BLOCK_ELEMENTS // (width * self.ranks))
        for start in range(0, own_height, count):
            places = np.arange(start, min(start + count, own_height))
            yield self.own_rows(session, places, self._answer)

    def _fetch(self, session, ids):
        """The distinct ids [K] in arrays of ids, the places of all of them there, and their rows.

        Rows are of the values that the owners have now.
        """
        world, what = self.world(session), f"a lookup in {self.name}"
        parts = [np.asarray(each, np.int64).reshape(-1) for each in ids]
        flat = np.concatenate([np.zeros(0, np.int64), *parts])
        distinct, inverse = np.unique(flat, return_inverse=True)
        wrong = len(distinct) > 0 and not 0 <= distinct[0] <= distinct[-1] < self.height
        flags = self.barrier(world, what, _OUT_OF_RANGE * wrong)
        if wrong:
            bad = distinct[0] if distinct[0] < 0 else distinct[-1]
            raise ValueError(f"{what}: there is no row {bad}, the last one is {self.height - 1}")
        if flags:
            raise GraphError(f"{what}: another rank looks up an id that the table does not have")

        def operation():
            route = Route(world, distinct, what, self.sent)
            asked = np.concatenate(route.ids) // self.ranks
            return route.back(self.own_rows(session, asked, self._answer), "rows")

        fetched = world.recovering(operation)
        at = zip(ids, np.cumsum([part.size for part in parts]), strict=True)
        places = [inverse[end - each.size : end].reshape(each.shape) for each, end in at]
        return distinct, places, fetched

    def reader(self, part: Variable) -> Variable:
        """Return the rows of the shard or one of its slots whose places `own_rows` gets."""
        with not_recording():
            return gather_stored(part, self._asked)

    def own_rows(self, session: Session, places: np.ndarray, reader: Variable) -> np.ndarray:
        """Return the values of a `reader`, without a copy of any other rows."""
        with not_recording():
            return session.eval(reader, {self._asked: places}, training=False)

    def own_part(self, whole: np.ndarray) -> np.ndarray:
        """Return the rows of this rank in an array with a row for each of the table."""
        rows = whole[self.rank :: self.ranks]
        part = np.zeros((static(self.shard.dims)[0], *whole.shape[1:]), whole.dtype)
        part[: len(rows)] = rows
        return part

    def world(self, session: Session) -> Any:
        """Return the ranks, after a check that they are those that the table was created for."""
        if process.world_size() != self.ranks:
            raise GraphError(
                f"{self!r} was created for {self.ranks} ranks, and there are "
                f"{process.world_size()}\n  hint: init() comes before a table, shutdown() after it"
            )
        if session.observers.exchange is not None:
            raise GraphError(
                f"{self!r}: inside exchanging() its gradients would not reach the ranks that own "
                "the rows"
            )
        return process.current().world if process.is_initialized() else World(None, 0.0)

    def barrier(self, world: Any, what: str, flags: int = 0) -> int:
        """Wait until all ranks have come to the same exchange of this table; join their flags."""
        line = f"{what}, float32{list(self.shape)}"
        return world.barrier(TABLE, Description([line]), flags=flags).flags


@op
def _looked_up(fetched: Variable, shard: Variable, rows: Variable, places: Variable) -> Variable:
    """Fetched rows at their places; the gradient goes to the rows, by number, of the shard."""
    return ops.gather(ops.straight_through(fetched, gather_stored(shard, rows)), places)
