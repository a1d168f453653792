"""The ranks of an MPI job: how they wait for each other, and see that they disagree."""

import itertools
import json
import os
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

import numpy as np

from ..graph.errors import GraphError
from .calls import Calls
from .recovery import Recovery, ranks_text

T = TypeVar("T")

# What a rank has come to, in its header.
INIT, STEP, BARRIER, BROADCAST, ALLREDUCE, ALLGATHER, SUM, TABLE, BATCH, END = range(10)
NUMBER, COMPARE, AVERAGE, CALL = range(10, 14)
FEW = 16  # ranks up to which messages go straight to all others: fewer of them wait for others
NO_BATCH = -1.0  # the weight of a rank in an empty step
_NAMES = {
    INIT: "init()",
    STEP: "a training step",
    BARRIER: "barrier()",
    BROADCAST: "broadcast()",
    ALLREDUCE: "allreduce()",
    ALLGATHER: "allgather()",
    SUM: "a sum over the ranks inside a program",
    END: "its end",
    TABLE: "an exchange of a sharded table",
    BATCH: "a batch of a Runner",
    NUMBER: "a number that decides for all ranks",
    COMPARE: "compare()",
    AVERAGE: "the mean of parameters after local steps",
    CALL: "a call for all, such as to save a table,",
}
_HEADER_TAG, _LINES_TAG, _ROLL_TAG, _END_TAG = 7101, 7102, 7103, 7104
# What a header has: place, digest and size of the description, weight, flags, digest of values
_PLACE, _DIGEST, _SIZE, _WEIGHT, _FLAGS, _VALUES = range(6)
# How long a rank asks without a pause for others that compute, and for data that is under way
_BARRIER_SECONDS, DATA_SECONDS = 0.002, 1.0
_NAP_SECONDS, _ROLL_SECONDS = 0.0002, 5.0
_ANSWER_SECONDS = 0.5  # from which on a rank that waits asks whether others have waited in vain


class Description:
    """Lines of text that have to be the same on all ranks, and their digest.

    For the error alone where they are not: `sites` are the lines of the program that built what the
    lines are about; `reasons` are lists of (text, site) that tell a user more, in the order in
    which they are looked through.
    """

    def __init__(
        self,
        lines: Sequence[str] = (),
        sites: Sequence[str] = (),
        reasons: Sequence[Sequence[tuple[str, str]]] = (),
    ):
        digest = blake2b(json.dumps(list(lines)).encode(), digest_size=8).digest()
        self.digest = int.from_bytes(digest, "little", signed=True)
        pairs = list(zip(lines, sites or [""] * len(lines), strict=True))
        self.text = json.dumps([*reasons, pairs]).encode()


class BarrierResult(NamedTuple):
    """What the ranks have told each other: weights by their `ids`, and the union of their flags.

    `agree` says whether all had the same digest of values.
    """

    weights: dict[int, float]
    flags: int
    agree: bool


class World:
    """The ranks that train together.

    `timeout` (seconds) limits how long a rank waits for the others in each exchange. `mpi` is the
    module `mpi4py.MPI`, None in a world of one. A rank that has waited in vain is `broken`: its
    messages are still under way, so that it cannot exchange any more. If ranks may be lost
    (`can_shrink`), `rank` and `size` change when it happens; `ids` are the numbers that the ranks
    had at the start, which stay.
    """

    def __init__(self, mpi: Any, timeout: float, can_shrink: bool = False):
        self.mpi, self.timeout = mpi, timeout
        self.comm: Any = None if mpi is None else mpi.COMM_WORLD
        self.rank = 0 if mpi is None else mpi.COMM_WORLD.Get_rank()
        self.size = 1 if mpi is None else mpi.COMM_WORLD.Get_size()
        self.ids = tuple(range(self.size))
        self.can_shrink = can_shrink
        self.divided: WeakSet[Any] = WeakSet()  # tables of which each rank has a part
        self.broken: str | None = None
        self.ended = False  # whether another rank takes no more steps
        self.met = 0  # how often this rank has come to a point where all meet
        self.recovery = Recovery(self)
        self.calls = Calls(self)
        self._pending: list[Any] = []  # requests and their arrays, after a timeout
        self._met = 0  # how often the ranks have met
        self._ends: dict[int, int] = {}  # how often ranks that have ended had met
        self._told: set[int] = set()  # ranks that know that this one waits

    @property
    def id(self) -> int:
        """The number that this rank had at the start."""
        return self.ids[self.rank]

    def separate(self) -> None:
        """Exchange by messages that no other user of MPI in the process can see."""
        if self.mpi is not None:
            self.comm = self.mpi.COMM_WORLD.Dup()

    def recovering(self, operation: Callable[[], T]) -> T:
        """Return what an operation of all ranks returns, also if ranks are lost in it.

        The operation ends on all ranks or is repeated by those that are left: it reads `rank`,
        `size` and `comm` each time, changes nothing but what it returns, sends and receives between
        all ranks, and returns the same on all of them, something picklable. A rank on which it had
        not ended is given the result of one on which it had. RankLost where that is impossible.
        """
        return self.recovery.run(operation)

    def barrier(
        self,
        kind: int,
        description: Description,
        weight: float = np.nan,
        flags: int = 0,
        values: int = 0,
    ) -> BarrierResult:
        """Wait until all ranks have come to the same point.

        `description` is that of what is exchanged there, the same on all ranks; `values` a digest
        of what should be. GraphError on all ranks if they have come to different points;
        TimeoutError names those that have not come. It takes part in `calls` of others meanwhile.
        """
        while True:
            self.met += 1
            if self.size == 1:
                return BarrierResult({self.id: weight}, flags, True)
            ids, headers = self.recovering(
                lambda: (self.ids, self._headers(kind, description, weight, flags, values))
            )
            kinds = headers[:, _PLACE]
            if not (kinds == CALL).any():
                break
            self.calls.serve()
        self.calls.met()
        if (kinds == END).any():
            self.ended = self.can_shrink
            gone = [r for r in range(len(ids)) if kinds[r] == END]
            raise self._end_of(gone, kind)
        if (kinds != kinds[0]).any():
            places = [f"rank {r} has come to {_NAMES[int(k)]}" for r, k in enumerate(kinds)]
            raise GraphError(f"the ranks disagree: {', '.join(places)}")
        if (headers[:, _DIGEST] != headers[0, _DIGEST]).any():
            sizes = dict(zip(ids, headers[:, _SIZE].tolist(), strict=True))
            raise GraphError(self._difference(_NAMES[kind], description, sizes))
        weights = np.ascontiguousarray(headers[:, _WEIGHT]).view(np.float64).tolist()
        return BarrierResult(
            dict(zip(ids, weights, strict=True)),
            int(np.bitwise_or.reduce(headers[:, _FLAGS])),
            not (headers[:, _VALUES] != headers[0, _VALUES]).any(),
        )

    def meet_for_call(self) -> None:
        """Wait until all ranks have come to some point, to take part in a call."""
        self.met += 1
        self.recovering(lambda: self._headers(CALL, Description(), np.nan, 0, 0))

    def finish(self) -> None:
        """Take part in calls of the others until all ranks have ended, or come to something else.

        Only if there may be calls. Another rank that is lost meanwhile is the concern of `leave`.
        """
        end = np.array([END, 0, 0, 0, 0, 0], np.int64)
        while self.size > 1 and self.calls and self.broken is None and not self.ended:
            try:
                kinds = self._meet(end, np.inf)[:, _PLACE]
            except RuntimeError:  # one of MPI, or another rank has ended without a meeting
                return
            if not (kinds == CALL).any():
                self.ended = self.can_shrink
                return
            self.calls.serve()

    def leave(self) -> None:
        """Tell the other ranks that this one takes no more steps.

        It waits for their end only if ranks may be lost: those that are behind need its results.
        """
        if self.size > 1 and self.can_shrink:
            self.recovery.end(lambda: self._meet(np.array([END, 0, 0, 0, 0, 0], np.int64), np.inf))
        elif self.size > 1 and self.broken is None:
            met = np.array([self._met], np.int64)
            requests = [self.comm.Isend(met, r, _END_TAG) for r in self._others()]
            self._pending.append((requests, met))
            self.mpi.Request.Testall(requests)

    def gather(self, array: np.ndarray, what: str) -> np.ndarray:
        """Return the arrays [N] of all ranks, of the same N and dtype, as [ranks, N]."""
        every = np.empty((self.size, *array.shape), array.dtype)
        if self.size == 1:
            every[0] = array
            return every
        array = np.ascontiguousarray(array)
        sent, received = as_bytes(array), as_bytes(every)
        self.wait(self.comm.Iallgather(sent, received), what, (sent, received))
        return every

    def gather_at_callers(self, array: np.ndarray, what: str) -> np.ndarray | None:
        """Return the arrays of all ranks as `gather` does; in a call None but on those that call.

        For what cannot go on without a rank that is lost, such as a table.
        """
        callers = self.calls.callers
        if callers is None or len(callers) == self.size:
            return self.gather(array, what)
        array = np.ascontiguousarray(array)
        found = None
        for root in callers:
            sent, received = as_bytes(array), None
            if root == self.rank:
                found = np.empty((self.size, *array.shape), array.dtype)
                received = as_bytes(found)
            self.wait(self.comm.Igather(sent, received, root), what, (sent, received))
        return found

    def gather_bytes(self, data: bytes, what: str) -> list[bytes]:
        """Return the bytes of all ranks, which may be of different lengths."""
        if self.size == 1:
            return [data]
        sizes = self.gather(np.array([len(data)], np.int64), what)[:, 0].tolist()
        places = [0, *itertools.accumulate(sizes)]
        sent, received = np.frombuffer(data, np.uint8), np.empty(places[-1], np.uint8)
        message = [received, sizes, places[:-1], self.mpi.BYTE]
        self.wait(self.comm.Iallgatherv(sent, message), what, (sent, received))
        return [received[a:b].tobytes() for a, b in itertools.pairwise(places)]

    def send_from(self, root: int, array: np.ndarray, what: str) -> None:
        """Overwrite an array by that of the rank `root`."""
        if self.size > 1:
            data = as_bytes(array)
            self.wait(self.comm.Ibcast(data, root), what, data)

    def wait(self, request: Any, what: str, arrays: Any, spin: float = DATA_SECONDS) -> None:
        """Wait for a collective operation that all ranks have come to; `arrays` are its buffers.

        It asks for `spin` seconds without a pause, which takes a core.
        """
        self.wait_until(request.Test, what, (request, arrays), spin)

    def wait_until(
        self, is_done: Callable[[], bool], what: str, kept: Any, spin: float = DATA_SECONDS
    ) -> None:
        """Wait for an exchange that all ranks have come to; `kept` is what MPI may write to."""
        if self.poll(is_done, spin=spin):
            return
        self.give_up(kept, "it did not end in time")
        missing = self.silent(self.comm, self._others())
        who = f"{ranks_text(missing)} stopped in it" if missing else "the network is slow or down"
        raise TimeoutError(
            f"{what}: all {self.size} ranks began the exchange, but it did not end within "
            f"{self.timeout:g} s: {who}"
        )

    def _headers(self, kind, description, weight, flags, values):
        """The headers of all ranks."""
        if self.broken is not None:
            raise RuntimeError(f"an earlier exchange has failed: {self.broken}")
        if self.ended:
            raise RuntimeError("another rank has ended")
        bits = int(np.array([weight], np.float64).view(np.int64)[0])
        digest, size = description.digest, len(description.text)
        return self._meet(np.array([kind, digest, size, bits, flags, values], np.int64))

    def _meet(self, header, limit=None):
        """Return the headers of all ranks.

        Few ranks send theirs to all others; more take ceil(log2 N) rounds (Bruck et al. 1997), each
        of which doubles the number of headers that a rank knows.
        """
        self._met += 1
        every = np.empty((self.size, len(header)), np.int64)
        if self.size <= FEW:
            every[self.rank] = header
            receiving = {
                r: self.comm.Irecv(as_bytes(every[r]), r, _HEADER_TAG) for r in self._others()
            }
            sending = [self.comm.Isend(as_bytes(header), r, _HEADER_TAG) for r in self._others()]
            self._wait_for_headers(receiving, sending, header, limit, every)
            return every
        every[0], known = header, 1
        while known < self.size:
            more = min(known, self.size - known)
            source, to = (self.rank + known) % self.size, (self.rank - known) % self.size
            into = as_bytes(every[known : known + more])
            receiving = {source: self.comm.Irecv(into, source, _HEADER_TAG)}
            sending = [self.comm.Isend(as_bytes(every[:more]), to, _HEADER_TAG)]
            self._wait_for_headers(receiving, sending, header, limit, every)
            known += more
        return np.concatenate([every[self.size - self.rank :], every[: self.size - self.rank]])

    def _wait_for_headers(self, receiving, sending, header, limit, every):
        """Wait for messages of a meeting, to which a rank that has ended does not come."""
        gone: list[int] = []
        requests = [*receiving.values(), *sending]

        def is_done():
            return self.mpi.Request.Testall(requests) or bool(gone)

        if not self.poll(is_done, limit, ended=gone):
            missing = [r for r, request in receiving.items() if not request.Test()]
            self.give_up((requests, header, every), "the other ranks did not come")
            if self.size > FEW:  # what has not come is the message of a rank that waits, too
                missing = self.silent(self.comm, self._others())
            missing = missing or self._others()
            self.broken = f"{ranks_text(missing)} did not come"
            raise self._absence(missing, int(header[_PLACE]))
        if gone:
            self.keep((requests, header, every))
            raise self._end_of(sorted(gone), header[_PLACE])

    def _end_of(self, gone, kind):
        return RuntimeError(
            f"{ranks_text(gone)} of {self.size} ended while rank {self.rank} has come to "
            f"{_NAMES[int(kind)]}\n  hint: every rank takes the same number of steps; batches that "
            "are left over on some ranks are skipped, or have the weight 0"
        )

    def _absence(self, missing, kind):
        return TimeoutError(
            f"{ranks_text(missing)} of {self.size} did not come to {_NAMES[kind]} of rank "
            f"{self.rank} within {self.timeout:g} s\n  hint: a rank hangs, has fewer batches, or "
            "needs longer: init(timeout=...) takes seconds"
        )

    def _difference(self, what, description, sizes):
        """The text about ranks whose lines are not those of rank 0; sizes of texts by `ids`."""

        def exchange():
            texts = [np.empty(sizes[i], np.uint8) for i in self.ids]
            texts[self.rank][:] = np.frombuffer(description.text, np.uint8)
            self._swap(texts, _LINES_TAG, STEP)
            return [json.loads(text.tobytes()) for text in texts]

        first, *others = self.recovering(exchange)
        differences = [
            f"rank {r} {text}"
            for r, other in enumerate(others, 1)
            if (text := _difference_text(first, other))
        ]
        return "\n  ".join([f"{what}: the ranks disagree", *differences])

    def _swap(self, arrays, tag, kind):
        """Send the array of this rank to all others, and fill theirs."""
        mine = arrays[self.rank]
        receiving = {r: self.comm.Irecv(as_bytes(arrays[r]), r, tag) for r in self._others()}
        sending = [self.comm.Isend(as_bytes(mine), r, tag) for r in self._others()]
        requests = [*receiving.values(), *sending]
        if self.poll(lambda: self.mpi.Request.Testall(requests)):
            return
        missing = [r for r, request in receiving.items() if not request.Test()] or self._others()
        self.give_up((requests, arrays), f"{ranks_text(missing)} did not come")
        raise self._absence(missing, kind)

    def silent(self, comm: Any, others: Sequence[int]) -> list[int]:
        """Return which ranks of `comm` do not say, within seconds, that they wait in vain too."""
        arrays = np.zeros((len(others) + 1, 1), np.uint8)
        receiving = [comm.Irecv(arrays[k], r, _ROLL_TAG) for k, r in enumerate(others)]
        told = self._told if comm is self.comm else set()
        sending = [comm.Isend(arrays[-1], r, _ROLL_TAG) for r in others if r not in told]
        self._pending.append((receiving, sending, arrays))

        def is_done(request):
            try:
                return request.Test()
            except self.mpi.Exception:  # lost while this rank waited
                return False

        limit = min(self.timeout, _ROLL_SECONDS)
        self.poll(lambda: all(map(is_done, receiving)), limit)
        return [r for r, request in zip(others, receiving, strict=True) if not is_done(request)]

    def poll(
        self,
        is_done: Callable[[], bool],
        limit: float | None = None,
        spin: float = _BARRIER_SECONDS,
        ended: list[int] | None = None,
    ) -> bool:
        """Wait until something is done; return False after `limit` seconds, by default `timeout`.

        Ranks that do not come any more are added to `ended`.

        MPI moves messages only while it is asked, a piece at a time, and a nap is longer than a
        piece takes: there are none in the first `spin` seconds. `sched_yield` lets other ranks on
        the same core run meanwhile.
        """
        start, limit = time.monotonic(), self.timeout if limit is None else limit
        while not is_done():
            waited = time.monotonic() - start
            if waited > limit:
                return False
            if waited > spin:
                if ended is not None:
                    self._see_ends(ended)
                if waited > _ANSWER_SECONDS:
                    self._answer()
                time.sleep(_NAP_SECONDS)
            elif hasattr(os, "sched_yield"):
                os.sched_yield()
        return True

    def _see_ends(self, ended):
        """Add the ranks that have ended before they came to the present meeting."""
        status = self.mpi.Status()
        while self.comm.Iprobe(self.mpi.ANY_SOURCE, _END_TAG, status):
            met = np.zeros(1, np.int64)
            self.comm.Recv(met, status.Get_source(), _END_TAG)
            self._ends[status.Get_source()] = int(met[0])
        ended += [r for r, met in self._ends.items() if met < self._met]

    def _answer(self):
        """Tell the ranks that have waited in vain that this one waits, too."""
        for r in self._others():
            if r not in self._told and self.comm.Iprobe(r, _ROLL_TAG):
                self._told.add(r)
                array = np.zeros(1, np.uint8)
                self.keep((self.comm.Isend(array, r, _ROLL_TAG), array))

    def give_up(self, pending: Any, why: str) -> None:
        """Keep what MPI may still write to, and exchange nothing any more."""
        self.broken = why
        self.keep(pending)

    def keep(self, pending: Any) -> None:
        """Keep what MPI may still write to."""
        self._pending.append(pending)

    def _others(self):
        return [r for r in range(self.size) if r != self.rank]


def as_bytes(array: np.ndarray) -> np.ndarray:
    """Return the memory of a contiguous array as bytes, uint8 [bytes]."""
    return array.reshape(-1).view(np.uint8)


def _difference_text(first, other):
    """Text on how the Description of a rank differs from that of rank 0; empty if it does not."""
    if _texts(first[-1]) == _texts(other[-1]):
        return ""
    pair = next((a, b) for a, b in zip(first, other, strict=True) if _texts(a) != _texts(b))
    lines, own = pair
    common = min(len(lines), len(own))
    k = next((k for k in range(common) if own[k][0] != lines[k][0]), common)
    if k < common:
        text = f"has {own[k][0]}; rank 0 has {lines[k][0]}"
    elif len(own) > k:
        text = f"has {own[k][0]}; rank 0 does not"
    else:
        text = f"does not have {lines[k][0]}; rank 0 does"
    places = dict.fromkeys(each[k][1] for each in (own, lines) if k < len(each))
    named = " and ".join(place for place in places if place)
    return f"{text}\n    built at {named}" if named else text


def _texts(pairs):
    return [text for text, _ in pairs]
