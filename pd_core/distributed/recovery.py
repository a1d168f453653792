"""Ranks that are killed: the others go on without them, or end with one message."""

import os
import pickle
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

# Open MPI's option `mpiexec --with-ft ulfm`, in the environment of the ranks
_FAULT_TOLERANCE = "OMPI_MCA_mpi_ft_enable"
_TRUE = "1", "true", "yes", "on", "enabled"

_NEWS_SECONDS = 5.0  # in which a rank hears which others are lost

GO_ON = "start the program again: Resume goes on from its newest checkpoint"


class RankLost(RuntimeError):
    """Other ranks were killed, or their machines are down, and this one cannot go on alone."""


def tolerates_faults() -> bool:
    """Return whether the job's MPI tells the ranks that others are lost, instead of ending all."""
    return os.environ.get(_FAULT_TOLERANCE, "").lower() in _TRUE


class Recovery:
    """Operations of all ranks of a world, each of which ends on all of them or on none.

    A rank can be lost when an operation has ended on some of the others only. Each counts the
    operations that have ended on it, and keeps what the last one returned: those that are behind
    get that from one that is ahead, and do not take part in the operation twice. They are never
    behind by more than one, as no operation ends anywhere before all have begun it.

    The protocol is that of Bland et al. 2013, "Post-failure recovery of MPI communication
    capability": revoke, which fails all that is under way, and shrink.
    """

    def __init__(self, world: Any):
        self.world = world
        self.completed, self.last = 0, None
        self._is_inside = False

    def run(self, operation: Callable[[], Any]) -> Any:
        """Return the result of an operation, see `World.recovering`."""
        world = self.world
        if world.size == 1 or self._is_inside:
            return operation()
        self._is_inside = True
        try:
            while True:
                try:
                    result = operation()
                    break
                except world.mpi.Exception as error:
                    # its frames hold the arrays that MPI may still write to
                    world.keep(error)
                    self._check(error)
                    self._agree(0)
                    if self._rejoin():
                        result = self.last
                        break
        finally:
            self._is_inside = False
        if self.world.size > 1:
            self.completed, self.last = self.completed + 1, result
        return result

    def end(self, barrier: Callable[[], None]) -> None:
        """Wait until all ranks have come to their ends, and help those that are behind."""
        world = self.world
        while world.size > 1 and world.broken is None:
            met = 1
            if not world.ended:
                try:
                    barrier()
                except world.mpi.Exception as error:
                    world.keep(error)
                    self._check(error)
                    met = 0
            # All of them get the same answer, so that none leaves while another needs it
            if self._agree(met, limited=not met):
                return
            self._rejoin()

    def _check(self, error):
        """Raise RankLost if nobody can go on after an error of MPI."""
        world = self.world
        if world.broken is not None:
            raise RankLost(f"{world.broken}\n  hint: {GO_ON}") from error
        if world.can_shrink and not world.divided:
            return
        with suppress(world.mpi.Exception, NotImplementedError):
            world.comm.Revoke()  # the others wait for this rank then
        lost = self._failed()
        world.give_up(error, f"{ranks_text(lost)} of {world.size} was lost" if lost else str(error))
        names = ", ".join(sorted(f"the table {table.name}" for table in world.divided))
        because = f"; each rank has a part of {names}" if names else ""
        raise RankLost(lost_text(lost, world.size) + because + f"\n  hint: {GO_ON}") from error

    def _failed(self):
        """The ranks that are lost; a rank that was told of a loss hears of whom a little later."""
        mpi, comm = self.world.mpi, self.world.comm
        end = time.monotonic() + min(_NEWS_SECONDS, self.world.timeout)
        lost: list[int] = []
        with suppress(NotImplementedError):
            while not lost and time.monotonic() < end:
                with suppress(mpi.Exception):
                    lost = _members(mpi, comm.Get_failed(), comm.Get_group())
                with suppress(mpi.Exception):
                    mpi.COMM_WORLD.Iprobe()  # news arrive in calls of MPI only
        return lost

    def _agree(self, flag, limited=True):
        """Whether all ranks that are left have the flag 1: the same on all of them."""
        world = self.world
        if not flag:
            world.comm.Revoke()
        flags = np.array([flag], np.int32)
        try:
            self._wait(world.comm.Iagree(flags), flags, None if limited else np.inf)
        except world.mpi.Exception:  # on all of them, if one was lost that some do not know of
            return False
        return bool(flags[0])

    def _rejoin(self):
        """Leave the lost ranks behind; whether this rank was behind, and `last` is set for it."""
        world = self.world
        while True:
            world.comm.Revoke()
            comm = world.comm.Shrink()  # at once, for all have agreed; Ishrink fails in Open MPI 5
            if comm.Get_size() == world.size:
                raise RankLost(f"MPI reports an error, but no rank is lost\n  hint: {GO_ON}")
            self._adopt(comm)
            try:
                return self._catch_up()
            except world.mpi.Exception as error:
                world.keep(error)
                self._agree(0)

    def _adopt(self, comm):
        world = self.world
        kept = _members(world.mpi, comm.Get_group(), world.comm.Get_group())
        lost = [r for r in range(world.size) if r not in kept]
        count = world.size
        world.keep(world.comm)
        world.comm = comm
        world.rank, world.size = comm.Get_rank(), comm.Get_size()
        world.ids = tuple(world.ids[r] for r in kept)
        if world.rank == 0:
            left = "1 rank goes on" if world.size == 1 else f"{world.size} ranks go on"
            write_line(f"{lost_text(lost, count)}; {left}")

    def _catch_up(self):
        """Give the ranks that are behind what the last operation returned; whether this one was."""
        world = self.world
        what = "the ranks that are left"
        counts = world.gather(np.array([self.completed], np.int64), what)[:, 0]
        newest = int(counts.max())
        if newest == counts.min():
            return False
        if newest > counts.min() + 1:
            raise RankLost(f"the ranks are at different places: {counts.tolist()}")
        root = int(counts.argmax())
        data = pickle.dumps(self.last, pickle.HIGHEST_PROTOCOL) if world.rank == root else b""
        size = np.array([len(data)], np.int64)
        world.send_from(root, size, what)
        array = np.frombuffer(bytearray(data) or bytearray(int(size[0])), np.uint8)
        world.send_from(root, array, what)
        if self.completed == newest:
            return False
        self.last = pickle.loads(array.tobytes())  # noqa: S301  the ranks trust each other
        return True

    def _wait(self, request, arrays, limit):
        """Wait for the ranks that are left, which may compute before they see that one is lost."""
        world = self.world
        if world.poll(request.Test, limit):
            return
        world.give_up((request, arrays), "the ranks that are left did not meet")
        others = [i for i in world.ids if i != world.ids[world.rank]]
        missing = [world.ids.index(i) for i in world.silent(world.mpi.COMM_WORLD, others)]
        who = f"{ranks_text(missing)} of {world.size}" if missing else "the other ranks"
        raise TimeoutError(
            f"{who} did not come within {world.timeout:g} s after a rank was lost\n  hint: {GO_ON}"
        )


def write_line(text: str) -> None:
    """Write a text and the end of its line to stderr in one piece.

    `mpiexec` joins what all ranks write, and puts pieces of others between those of one.
    """
    sys.stderr.flush()
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def lost_text(lost: Sequence[int], size: int) -> str:
    """Return the text about ranks of a job that do not run any more."""
    who = f"{ranks_text(lost)} of {size}" if lost else f"a rank of {size}"
    return f"{who} {'were' if len(lost) > 1 else 'was'} lost: killed, or the machine is down"


def ranks_text(ranks: Sequence[int]) -> str:
    """Return "rank 1" or "ranks 1, 3"."""
    names = ", ".join(map(str, ranks))
    return f"rank {names}" if len(ranks) == 1 else f"ranks {names}"


def _members(mpi, group, of):
    """The ranks in the group `of` of the members of a group."""
    ranks = group.Translate_ranks(None, of)
    return [r for r in ranks if r != mpi.UNDEFINED]
