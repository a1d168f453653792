"""A queue of tasks that several clients work off together, pass after pass."""

import sys
import threading
import time
from collections import deque

_THREADS_SECONDS = 1.0  # how often who waits looks which threads there still are


class TaskQueue:
    """Hands out each task to one client in each pass.

    A pass is over when all tasks are finished, or when no client is in it any more: clients that
    are ahead wait for that. They do not wait for one that cannot go on: it was last used in the
    thread that would wait, or in one that has ended. A task that is not finished within
    lease_seconds goes to another.
    """

    def __init__(self, tasks, lease_seconds=1200):
        self._tasks = list(tasks)
        self._lease_seconds = lease_seconds
        self._lock = threading.RLock()  # entered as it is: an interrupt leaves it in one piece
        self._changed = threading.Condition(self._lock)
        self._begin(0)

    def enter(self, client, pass_id):
        """Take part in a pass; waits while clients are in an earlier one."""
        with self._lock:
            self._give_back(client)
            while self._pass < pass_id and self._others_go_on():
                self._changed.wait(min(self._seconds_to_next_expiry(), _THREADS_SECONDS))
                self._expire()
            if self._pass < pass_id:
                self._begin(pass_id)
            if self._pass == pass_id:
                self._clients[client] = threading.get_ident()

    def take(self, client, pass_id):
        """The next task of a pass, or None when there is no more for this client."""
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
        """Say that a task is done; later than its lease, that changes nothing."""
        with self._lock:
            holder, _ = self._pending.get(task, (None, None))
            if holder is not client:
                return
            del self._pending[task]
            if not self._todo and not self._pending:
                self._begin(self._pass + 1)

    def leave(self, client, pass_id):
        """Give back the tasks of a client, which takes part in a pass no longer."""
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
        held = [task for task, (holder, _) in self._pending.items() if holder is client]
        for task in held:
            del self._pending[task]
        self._todo.extend(held)
        self._clients.pop(client, None)
        self._changed.notify_all()

    def _others_go_on(self):
        """Whether clients are in this pass, once those are left out that cannot go on."""
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
        return max(0.0, min(ends) - time.monotonic()) if ends else _THREADS_SECONDS
