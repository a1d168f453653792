"""Messages of a job that ends because of one rank: each is printed once, not by every rank."""

import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from .recovery import GO_ON, RankLost, lost_text, write_line
from .world import World

_SECONDS = 10.0  # for the end of all ranks, which another one has begun


class Report:
    """The right of one rank of each machine to say why the job ends, and how to go on.

    The ranks of a machine have a file in common: the one that removes it speaks.
    """

    def __init__(self, world: World):
        self.world = world
        local = world.comm.Split_type(world.mpi.COMM_TYPE_SHARED)
        path = ""
        self._is_first = local.Get_rank() == 0
        if self._is_first:
            handle, path = tempfile.mkstemp(prefix="pd-job-")
            os.close(handle)
        self._file = Path(local.bcast(path))
        self._pids = dict(local.allgather((world.rank, os.getpid())))
        local.Free()

    def begin(self) -> None:
        """Report uncaught errors, which end all ranks, and the SIGTERM with which MPI does it."""
        if hasattr(sys, "ps1") or sys.flags.interactive:
            return  # in an interpreter an error ends nothing
        self._previous = sys.excepthook
        sys.excepthook = self._end_all
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._terminate)

    def close(self) -> None:
        """Remove the file at the end of this rank, unless others may still have to speak."""
        if self._is_first or self.world.can_shrink:
            self.claim()

    def claim(self) -> bool:
        """Return whether this rank is the one that speaks; no other one does from then on."""
        try:
            self._file.unlink()
        except OSError:
            return False
        return True

    def _end_all(self, kind, error, trace):
        """Print an uncaught error, and end the ranks that would wait for this one in vain."""
        world, is_first = self.world, self.claim()
        if isinstance(error, RankLost | TimeoutError) and not is_first:
            pass  # it says the same as the first
        elif isinstance(error, RankLost):
            write_line(f"rank {world.rank} of {world.size}: {error}")
        elif self._previous is sys.__excepthook__:
            text = "".join(traceback.format_exception(kind, error, trace))
            place = f"rank {world.rank} of {world.size}: "
            write_line(place + text.rstrip("\n").replace("\n", f"\n{place}"))
        else:
            self._previous(kind, error, trace)
        self._abort(is_first)

    def give_up(self, why: str) -> None:
        """End all ranks, of which one does not come to the end."""
        is_first = self.claim()
        if is_first:
            write_line(f"rank {self.world.rank}: ends all ranks: {why}")
        self._abort(is_first)

    def _abort(self, is_first):
        """End all ranks: one of them, for Open MPI 5.0 may hang if several do it after a loss."""
        sys.stdout.flush()
        sys.stderr.flush()
        if not is_first:
            time.sleep(_SECONDS)
        self.world.mpi.COMM_WORLD.Abort(1)

    def _terminate(self, number: int, frame: Any) -> None:
        """Name the ranks of this machine that do not run any more, and end."""
        ids = self.world.ids
        pids = {r: self._pids[i] for r, i in enumerate(ids) if i in self._pids}
        lost = [r for r, pid in pids.items() if not _is_running(pid)]
        if self.claim() and lost:
            text = f"{lost_text(lost, len(ids))}\n  hint: {GO_ON}\n"
            os.write(2, text.encode())  # print() is not for handlers of signals
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        return True
    return True
