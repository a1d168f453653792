"""A queue of tasks that is shared by several clients, pass after pass."""

import sys
import threading
import time
from collections import deque

_POLL_SECONDS = 1.0  # interval at which a waiting client checks which threads are alive


class TaskQueue:
    """Queue that gives each task to one client in each pass.

    A pass is over when all tasks are finished, or when no client is in it any more; clients that
    want to enter the next one wait for that. They do not wait for a client that cannot go on, as it
    was last used in the waiting thread, or in one that has ended. A task that is not finished
    within lease_seconds goes to another client.
    """

    def __init__(self, tasks, lease_seconds=1200):
        self._tasks = list(tasks)
        self._lease_seconds = lease_seconds
        self._lock = threading.RLock()  # its `with` is C code, safe against KeyboardInterrupt
        self._changed = threading.Condition(self._lock)
        self._begin(0)

    def enter(self, client, pass_id):
        """Enter a pass, after waiting for the clients in an earlier one."""
        with self._lock:
            self._give_back(client)
            while self._pass < pass_id and self._has_live_clients():
                self._changed.wait(min(self._seconds_to_next_expiry(), _POLL_SECONDS))
                self._expire()
            if self._pass < pass_id:
                self._begin(pass_id)
            if self._pass == pass_id:
                self._clients[client] = threading.get_ident()

    def take(self, client, pass_id):
        """Return the next task of a pass, or None if there is none for this client."""
        with self._lock:
            self._expire()
            if self._pass != pass_id or client not in self._clients:
                return None
            if not self._todo:
                self._give_back(client)
                return None
            self._clients[client] = threading.get_ident()
            task = self._todo.popleft()
            self._pending[task] = (client, time.monotonic() + self._lease_seconds)
            return task

    def finish(self, client, task):
        """Mark a task as finished; after its lease has expired this has no effect."""
        with self._lock:
            holder, _ = self._pending.get(task, (None, None))
            if holder is not client:
                return
            del self._pending[task]
            if not self._todo and not self._pending:
                self._begin(self._pass + 1)

    def leave(self, client, pass_id):
        """Leave a pass; the client's unfinished tasks return to the queue."""
        with self._lock:
            if self._pass == pass_id:
                self._give_back(client)

    def _begin(self, pass_id):
        self._pass = pass_id
        self._todo = deque(self._tasks)
        self._pending = {}
        self._clients = {}  # client: the thread that used it last
        with self._lock:
            self._changed.notify_all()

    def _give_back(self, client):
        unfinished = [task for task, (holder, _) in self._pending.items() if holder is client]
        for task in unfinished:
            del self._pending[task]
        self._todo.extend(unfinished)
        self._clients.pop(client, None)
        self._changed.notify_all()

    def _has_live_clients(self):
        """Return whether clients are in this pass; those that cannot go on are removed."""
        threads = sys._current_frames().keys() - {threading.get_ident()}
        for client in [c for c, thread in self._clients.items() if thread not in threads]:
            self._give_back(client)
        return bool(self._clients)

    def _expire(self):
        now = time.monotonic()
        for holder in {holder for holder, end in self._pending.values() if end <= now}:
            self._give_back(holder)

    def _seconds_to_next_expiry(self):
        ends = [end for _, end in self._pending.values()]
        return max(0.0, min(ends) - time.monotonic()) if ends else _POLL_SECONDS
