"""The connection of this process to its ledger, and the leases that it holds."""

import atexit
import functools
import os
import platform
import threading
import time
import uuid
from collections import deque

from pd_v2.master.links import LocalLink, RemoteLink

_ONCE_SECONDS = 2.0  # for an answer that is not waited for again


class Connection:
    """A link with the leases that this process holds; a thread renews them if others may get them.

    `process` is this run of the program, `worker` its name: PD_WORKER, or one of its own.
    `returned` takes (lease, records) of iterators that were garbage collected: that happens
    anywhere, even inside an operation, so the next one releases them.
    """

    def __init__(self, link):
        self.link = link
        self.process = uuid.uuid4().hex
        name = f"{platform.node()}-{os.getpid()}-{self.process[:6]}"
        self.is_named = bool(os.environ.get("PD_WORKER"))
        self.worker = os.environ.get("PD_WORKER") or name
        self.returned = deque()
        self._held, self._renewing, self._lock = set(), False, threading.Lock()

    def lease(self, seconds, dataset, pass_id, worker):
        """Ask for a task of a pass; see `Ledger.lease`."""
        self._release_returned()
        answer = self.link.call(
            "lease", seconds, dataset=dataset, pass_id=pass_id, process=self.process, worker=worker
        )
        return self._hold(answer, seconds)

    def resume(self, seconds, **position):
        """Go to a position in a pass; return the lease of its chunk, or None: `Ledger.resume`."""
        self._release_returned()
        answer = self.link.call("resume", seconds, process=self.process, **position)
        return self._hold(answer, seconds)

    def finish(self, seconds, lease, records):
        """Say that a task is done; return False if another worker has got it."""
        accepted = self.link.call("finish", seconds, lease=lease, records=records)
        self._held.discard(lease)
        return accepted

    def fail(self, seconds, lease, error):
        """Say that a task cannot be read; return whether it was dropped."""
        self._held.discard(lease)
        return self.link.call("fail", seconds, lease=lease, error=error)

    def release(self, lease, records):
        """Return a task; without a master it returns by itself, when the lease expires."""
        self._held.discard(lease)
        self._call_once("release", lease=lease, records=records)

    def _release_returned(self):
        while self.returned:
            self.release(*self.returned.popleft())

    def _hold(self, answer, seconds):
        """Renew the lease in an answer from now on, if there is one."""
        if answer is not None and "lease" in answer:
            self._held.add(answer["lease"])
            with self._lock:
                begins, self._renewing = not self._renewing, True
            if begins and self.link.is_shared:
                pause = self.link.lease_seconds(seconds) / 4
                work = functools.partial(self._renew, pause)
                threading.Thread(target=work, name="pd_v2.master.renew", daemon=True).start()
                atexit.register(self._leave)
        return answer

    def _renew(self, pause):
        """Renew the leases for ever; one that is let go of expires."""
        while True:
            time.sleep(pause)
            self._release_returned()
            if held := [*self._held.copy()]:
                self._call_once("renew", leases=held)

    def _leave(self):
        """Return all tasks, at the end of the process."""
        if self._held:
            self._call_once("release_process", process=self.process)

    def _call_once(self, operation, **arguments):
        """Call an operation that may get lost, as leases expire."""
        try:
            self.link.call_once(operation, _ONCE_SECONDS, **arguments)
        except (OSError, ValueError):
            return


_connections = {}  # by the master's address


def connect():
    """Return the connection of this process: to the master at PD_MASTER, if that is set."""
    address = os.environ.get("PD_MASTER") or None
    if address not in _connections:
        made = Connection(RemoteLink(address) if address else LocalLink())
        _connections.setdefault(address, made)  # another thread may have been faster
    return _connections[address]


def clear_connections():
    """Let the next `connect` make a new connection: a forked process is another worker."""
    _connections.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=clear_connections)
