"""A queue of tasks that several clients work off together, pass after pass."""

import threading
import time
from collections import deque


class TaskQueue:
    """Hands out each task to one client in each pass.

    A pass is over when all tasks are finished, or when no client is in it any more: clients that
    are ahead wait for that. A task that is not finished within lease_seconds goes to another.
    """

    def __init__(self, tasks, lease_seconds=1200):
        self._tasks = list(tasks)
        self._lease_seconds = lease_seconds
        self._changed = threading.Condition()
        with self._changed:
            self._begin(0)

    def enter(self, client, pass_id):
        """Take part in a pass; waits while clients are in an earlier one."""
        with self._changed:
            self._give_back(client)
            while self._pass < pass_id and self._clients:
                self._changed.wait(self._seconds_to_next_expiry())
                self._expire()
            if self._pass < pass_id:
                self._begin(pass_id)
            if self._pass == pass_id:
                self._clients.add(client)

    def take(self, client, pass_id):
        """The next task of a pass, or None when there is no more for this client."""
        with self._changed:
            self._expire()
            if self._pass != pass_id or client not in self._clients:
                return None
            if not self._todo:
                self._give_back(client)
                return None
            task = self._todo.popleft()
            self._pending[task] = (client, time.monotonic() + self._lease_seconds)
            return task

    def finish(self, client, task):
        """Say that a task is done; later than its lease, that changes nothing."""
        with self._changed:
            holder, _ = self._pending.get(task, (None, None))
            if holder is not client:
                return
            del self._pending[task]
            if not self._todo and not self._pending:
                self._begin(self._pass + 1)

    def leave(self, client, pass_id):
        """Give back the tasks of a client, which takes part in a pass no longer."""
        with self._changed:
            if self._pass == pass_id:
                self._give_back(client)

    def _begin(self, pass_id):
        self._pass = pass_id
        self._todo = deque(self._tasks)
        self._pending = {}
        self._clients = set()
        self._changed.notify_all()

    def _give_back(self, client):
        held = [task for task, (holder, _) in self._pending.items() if holder is client]
        for task in held:
            del self._pending[task]
        self._todo.extend(held)
        self._clients.discard(client)
        self._changed.notify_all()

    def _expire(self):
        now = time.monotonic()
        for holder in {holder for holder, end in self._pending.values() if end <= now}:
            self._give_back(holder)

    def _seconds_to_next_expiry(self):
        ends = [end for _, end in self._pending.values()]
        return max(0.0, min(ends) - time.monotonic()) if ends else None
