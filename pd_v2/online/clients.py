"""The sockets of a server: the one that listens, and those of its clients."""

import selectors
import socket
import time
from contextlib import suppress
from dataclasses import dataclass

from .connection import Connection
from .messages import Answer

_MOST_AT_ONCE = 64  # clients that are accepted before it is the turn of others
_ACCEPT_AGAIN_SECONDS = 1.0  # after the system ran out of file descriptors
_FLUSH_SECONDS = 1.0  # at the end, for all clients together


@dataclass(frozen=True)
class Limits:
    """The limits of a server: bytes of a line, connections, seconds without progress."""

    max_message: int
    max_connections: int
    timeout: float


class Clients:
    """The connections of a server, in the order in which they were accepted.

    `are_trusted`: they need no token. `dropped` counts those that the server ended.
    """

    def __init__(self, listener, limits, are_trusted):
        self.connections, self.dropped = [], 0
        self._listener, self._limits, self._are_trusted = listener, limits, are_trusted
        self._waker, self._wakes = socket.socketpair()
        for sock in (self._waker, self._wakes, listener):
            sock.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._wakes, selectors.EVENT_READ)
        self._accepts_at = None  # after an error

    def wake(self):
        """End a `wait`, from any thread."""
        with suppress(OSError):  # full, so that it wakes up anyway; or closed
            self._waker.send(b"\0")

    def wait(self):
        """Wait for something to do; return the connections that are ready."""
        times = [c.deadline for c in self.connections] + [self._accepts_at]
        first = min((t for t in times if t is not None), default=None)
        seconds = None if first is None else max(0.0, first - time.monotonic())
        ready = {key.fileobj for key, _ in self._selector.select(seconds)}
        if self._wakes in ready:
            with suppress(BlockingIOError):
                self._wakes.recv(4096)
        connections = [c for c in self.connections if c.socket in ready]
        if self._listener in ready or self._accepts_at is not None:
            self.accept()
        return connections

    def accept(self):
        """Accept clients that wait for it."""
        now = time.monotonic()
        if self._accepts_at is not None:
            if now < self._accepts_at:
                return
            self._accepts_at = None
            self._selector.register(self._listener, selectors.EVENT_READ)
        for _ in range(_MOST_AT_ONCE):
            try:
                sock, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no file descriptor or no memory is left
                self._selector.unregister(self._listener)
                self._accepts_at = now + _ACCEPT_AGAIN_SECONDS
                return
            self._add(sock, now)

    def _add(self, sock, now):
        limits = self._limits
        if len(self.connections) < limits.max_connections:
            trusted = self._are_trusted
            self.connections.append(
                Connection(sock, limits.max_message, limits.timeout, trusted, now)
            )
            return
        self.dropped += 1
        with sock, suppress(OSError):
            sock.setblocking(False)
            sock.send(Answer().fail("too many connections").line)

    def refuse(self, connection, error):
        """Answer a client once more, and close."""
        self.dropped += 1
        connection.close_after(error, time.monotonic())

    def tend(self):
        """Close connections that are finished or too slow; watch for what the others do next."""
        now = time.monotonic()
        for connection in list(self.connections):
            reason = connection.overdue(now)
            if reason is not None and not connection.is_closing:
                if connection.has_output:
                    self.dropped += 1
                else:
                    self.refuse(connection, reason)
                    reason = None
            if reason is not None or connection.is_finished:
                self._watch(connection, 0)
                self.connections.remove(connection)
                connection.close()
                continue
            events = selectors.EVENT_READ if connection.wants_input else 0
            events |= selectors.EVENT_WRITE if connection.wants_output(now) else 0
            self._watch(connection, events)

    def _watch(self, connection, events):
        """Let the selector wait for events of a connection, 0 for none."""
        key = self._selector.get_map().get(connection.socket)
        if key is None:
            if events:
                self._selector.register(connection.socket, events)
        elif not events:  # a socket that is watched for nothing would report its end for ever
            self._selector.unregister(connection.socket)
        elif key.events != events:
            self._selector.modify(connection.socket, events)

    def close(self):
        """Answer what is left with an error, and close all sockets."""
        self._listener.close()
        self._selector.close()
        self._selector = selectors.DefaultSelector()  # for the clients alone
        now = time.monotonic()
        for connection in self.connections:
            if not connection.is_closing:
                connection.fail_unanswered("the training has ended", now)
        deadline, is_sent = now + _FLUSH_SECONDS, False
        while now < deadline and not is_sent:
            for connection in self.connections:
                connection.flush(True, now)
                self._watch(connection, selectors.EVENT_WRITE if connection.has_output else 0)
            is_sent = not any(c.has_output for c in self.connections)
            if not is_sent:
                self._selector.select(deadline - now)
            now = time.monotonic()
        for connection in self.connections:
            connection.close()
        self._selector.close()
        self._waker.close()
        self._wakes.close()
