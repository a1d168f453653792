"""The server of an online reader: one thread that owns the connections and the queue.

The training shares no state with it: it puts requests, and waits for replies. So a
KeyboardInterrupt in the training leaves no lock behind.
"""

import hmac
import re
import time
from collections import deque
from dataclasses import dataclass
from queue import SimpleQueue

from .clients import Clients
from .messages import Answer, MessageError, finite, parse
from .schedule import Command

_READS = 64  # of one client before it is the turn of others
_HTTP = re.compile(rb"[A-Z]+ \S+ HTTP/")


@dataclass
class Progress:
    """How far the training is: what the last batch left, numbers as they are in its context."""

    batches: int = 0
    samples: int = 0
    cost: float | None = None
    metrics: dict | None = None


class End:
    """The reply that there is nothing more; `error` is why, unless the server was closed."""

    def __init__(self, error=None):
        self.error = error


@dataclass(eq=False)
class _Held:
    """A message of samples, as far as they are not queued: waiting for room or for a training."""

    samples: deque
    count: int
    size: int  # bytes of JSON of a sample
    id: object
    is_single: bool
    is_checked: bool = False


class Server:
    """Clients, their messages, and the queue of a training.

    `replies` gets lists of samples, Commands (save, stop) and an End.
    """

    def __init__(self, listener, schedule, limits, token):
        self.replies, self._requests = SimpleQueue(), SimpleQueue()
        self._clients = Clients(listener, limits, are_trusted=token is None)
        self._schedule = schedule
        self._token = None if token is None else token.encode()
        self._waiting = deque()  # connections whose samples wait for room or for a training
        self._check = None
        self._is_open, self._is_settling = True, False
        self._is_awaited = self._was_batch = False  # the training waits; for what follows a batch
        self._progress, self._malformed = Progress(), 0
        self._batch_ended = None

    # ---- called by the training and by the user, in their threads

    def attach(self, check):
        """Take samples from now on that `check` does not refuse by a MessageError."""
        self._request(self._attach, check)

    def ask(self, progress):
        """Ask for the next reply."""
        self._request(self._ask, progress)

    def report(self, command, error):
        """Tell that a command was carried out; `error` is why not, or None."""
        self._request(self._report, command, error)

    def close(self):
        """End the thread."""
        self._request(self._close)

    def _request(self, *request):
        self._requests.put(request)
        self._clients.wake()

    # ---- the thread

    def run(self):
        """Serve until `close`."""
        error = None
        try:
            while self._is_open:
                self._step()
        except BaseException as e:  # reaches the training, which waits for a reply
            error = e
        finally:
            try:
                self._clients.close()
            finally:
                self.replies.put(End(error))

    def _step(self):
        ready = self._clients.wait()
        while not self._requests.empty():
            method, *arguments = self._requests.get()
            method(*arguments)
        for connection in ready:
            self._read(connection)
        is_done = False
        while not is_done:
            self._serve()
            self._fill()
            self._serve()
            is_done = not any(self._flush(connection) for connection in self._clients.connections)
        self._clients.tend()

    def _read(self, connection):
        """Read what a client has sent, a bounded amount of it."""
        for _ in range(_READS):
            if not (connection.wants_input and connection.receive(time.monotonic())):
                break
            self._process(connection)
        if connection.is_ended:
            self._process(connection)

    def _process(self, connection):
        """Carry out the lines that a client has sent, until one has to wait."""
        is_settled = False
        while not (connection.is_blocked or connection.is_closing):
            try:
                line = connection.next_line()
            except MessageError as error:
                self._clients.refuse(connection, error)
                return
            if line is None:
                return
            try:
                message = self._parsed(connection, line)
            except MessageError as error:
                self._malformed += 1
                connection.add_answer(Answer(error.id).fail(error))
                continue
            if message is None:
                continue
            if message.kind == "samples":
                samples, count = deque(message.value), len(message.value)
                size = len(line) // max(1, count)
                connection.held = _Held(samples, count, size, message.id, message.is_single)
                if self._waiting or not self._queue(connection):
                    self._waiting.append(connection)
                continue
            if not is_settled:
                is_settled = True
                self._settle(connection)
            self._command(connection, message)

    def _parsed(self, connection, line):
        """Return the Message of a line, None if it is done; MessageError if it is refused."""
        if not connection.is_trusted:
            self._authorize(connection, line)
            return None
        if _HTTP.match(line):  # a web page may send a form to any port of this machine
            self._malformed += 1
            self._clients.refuse(connection, "this is no web server")
            return None
        message = parse(line)
        if message.kind == "token":
            raise MessageError("no token is needed, or it was sent already", message.id)
        return message

    def _authorize(self, connection, line):
        """Check the token, which is the first line."""
        try:
            message = parse(line)
        except MessageError:
            message = None
        if message is None or message.kind != "token" or not self._is_token(message.value):
            self._clients.refuse(
                connection, 'the first line is {"token": "..."}, with the right token'
            )
            return
        connection.is_trusted = True
        connection.add_answer(Answer(message.id).succeed())

    def _is_token(self, text):
        return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), self._token)

    def _flush(self, connection):
        """Send answers; return whether lines that waited for it were carried out."""
        now, was_blocked = time.monotonic(), connection.is_blocked
        connection.flush(self._schedule.is_paused or self._check is None, now)
        if not was_blocked or connection.is_blocked:
            return False
        connection.unblock(now)
        self._process(connection)
        return True

    def _settle(self, connection):
        """Read what other clients have sent so far, so that a command comes after it.

        A client may open a connection for each message, and read no answers: what it sent by
        earlier connections comes before the command. If this one has ended, later ones come after.
        """
        if self._is_settling:
            return
        self._is_settling = True
        self._clients.accept()
        if not connection.has_input:
            connection.receive(time.monotonic())  # tells whether it has ended
        others = list(self._clients.connections)
        if connection.is_ended:
            others = others[: others.index(connection)]
        for other in others:
            if other is not connection:
                self._read(other)
        self._is_settling = False

    # ---- samples

    def _queue(self, connection):
        """Queue the samples that a client is held for; return whether all of them are through."""
        held, answer = connection.held, Answer(connection.held.id)
        try:
            if not held.is_checked:
                if self._check is None:  # until a training is attached
                    return False
                self._check_all(held)
            while held.samples and not self._schedule.is_stopping:
                if self._schedule.is_full:
                    return False
                self._schedule.add_sample(held.samples.popleft(), held.size)
            if held.samples:
                taken = held.count - len(held.samples)
                answer.fail(f"the training stops: {taken} of {held.count} samples were taken")
            else:
                answer.succeed()
        except MessageError as error:
            self._malformed += 1
            answer.fail(error)
        connection.held = None
        connection.add_answer(answer)
        return True

    def _check_all(self, held):
        for number, sample in enumerate(held.samples):
            try:
                self._check(sample)
            except MessageError as error:
                place = "" if held.is_single else f"samples[{number}]: "
                raise MessageError(f"{place}{error}") from None
        held.is_checked = True

    def _fill(self):
        """Queue samples of clients that wait, those that wait longest first, and read on."""
        while self._waiting and self._queue(self._waiting[0]):
            connection = self._waiting.popleft()
            connection.unblock(time.monotonic())
            self._process(connection)

    # ---- commands

    def _command(self, connection, message):
        if message.kind in ("status", "metrics"):
            answer = Answer(message.id, command=message.kind)
            fields = self._status() if message.kind == "status" else self._metrics()
            connection.add_answer(answer.succeed(**fields))
            return
        fields = {"command": message.kind}
        if message.kind == "save":
            fields["name"] = message.value
        answer = Answer(message.id, **fields)
        connection.add_answer(answer)
        if message.kind == "resume":
            self._schedule.resume()
            answer.succeed()
            return
        try:
            self._schedule.add_command(Command(message.kind, answer, message.value))
        except ValueError as error:
            answer.fail(error)
            return
        self._serve()  # a pause may be due at once

    def _status(self):
        self._serve()  # idle is a training that waits although it was offered what there is
        return {
            "attached": self._check is not None,
            "idle": self._is_awaited,
            "paused": self._schedule.is_paused,
            "stopping": self._schedule.is_stopping,
            "queue": len(self._schedule),
            "batches": self._progress.batches,
            "samples": self._progress.samples,
        }

    def _metrics(self):
        p, since = self._progress, self._batch_ended
        return {
            "cost": finite(p.cost),
            "metrics": {name: finite(value) for name, value in (p.metrics or {}).items()},
            "batches": p.batches,
            "samples": p.samples,
            "queue": len(self._schedule),
            "malformed": self._malformed,
            "dropped": self._clients.dropped,
            "seconds_since_batch": None if since is None else time.monotonic() - since,
        }

    # ---- the training

    def _attach(self, check):
        self._check = check

    def _ask(self, progress):
        self._progress = progress
        if self._was_batch:
            self._batch_ended = time.monotonic()
        self._is_awaited, self._was_batch = True, False

    def _report(self, command, error):
        commands = [command]
        if command.name == "stop":  # others that wait behind it are stops, too
            commands += self._schedule.drop_commands()
        for c in commands:
            if error is None:
                c.answer.succeed(batches=self._progress.batches)
            else:
                c.answer.fail(f"{type(error).__name__}: {error}")

    def _close(self):
        self._is_open = False

    def _serve(self):
        """Reply to the training, if it waits and there is something to do."""
        if self._is_awaited:
            action = self._schedule.next_action()
            if action is not None:
                self._is_awaited = False
                self._was_batch = isinstance(action, list)
                self.replies.put(action)
