"""The connection of a client: lines that come in, answers that go out, both of bounded size."""

import socket
from collections import deque
from contextlib import suppress

from .messages import Answer, MessageError

_CHUNK = 1 << 16  # bytes
_MOST_OUTPUT = 1 << 18  # bytes of answers that the client has not read, beside the system's buffers
_MOST_ANSWERS = 1024
_MOST_FIRST_LINE = 4096  # bytes, of a client that has yet to send its token
_LINE_TIMEOUTS = 20  # a line takes at most so many timeouts
_LINGER_SECONDS = 1.0
_LAST_READS = 64
# If a client closes its socket with answers unread, its system throws away what it has not sent
# yet: the end of a burst. So answers wait until nothing has come for a while.
_QUIET_SECONDS = 2e-3
_QUIET_SECONDS_HELD = 0.1


class Connection:
    """A client's socket, without blocking.

    `is_ended`: the client sends no more. `is_lost`: it receives no more. `is_closing`: what else
    comes is discarded. `held` is a message that waits for room in the queue, or for the training.
    """

    def __init__(self, sock, max_message, timeout, is_trusted, now):
        sock.setblocking(False)
        self.socket = sock
        self.is_trusted = is_trusted
        self.is_ended = self.is_lost = self.is_closing = False
        self.held = None
        self._max_message, self._timeout = max_message, timeout
        self._input, self._searched = bytearray(), 0
        self._answers, self._output = deque(), bytearray()
        self._received = self._sent = now
        self._line_began = None if is_trusted else now
        self._closes_at, self._is_shut = None, False

    # ---- input

    @property
    def is_blocked(self):
        """Whether lines have to wait: for the queue, or for the client to read its answers."""
        overfull = len(self._answers) >= _MOST_ANSWERS or len(self._output) >= _MOST_OUTPUT
        return self.held is not None or (overfull and not self.is_lost)

    @property
    def has_input(self):
        """Whether more has come than the lines so far."""
        return bool(self._input)

    @property
    def wants_input(self):
        """Whether to receive more."""
        return not self.is_ended and (self.is_closing or not self.is_blocked)

    def receive(self, now):
        """Receive what has come, a bounded number of bytes; return False if there is nothing."""
        try:
            chunk = self.socket.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:  # reset: what came before has been received
            chunk = b""
        if not chunk:
            self.is_ended = True
        elif not self.is_closing:
            self._input += chunk
            self._received = now
            if self._line_began is None:
                self._line_began = now
        return bool(chunk)

    def next_line(self):
        """Return the next line without its end, or None; MessageError if it is too long."""
        longest = self._max_message if self.is_trusted else _MOST_FIRST_LINE
        end = self._input.find(b"\n", self._searched)
        length = len(self._input) if end < 0 else end
        if length > longest:
            raise MessageError(f"a line has at most {longest} bytes")
        if end < 0 and not (self.is_ended and length):
            self._searched = length
            return None
        line = bytes(self._input[:length])
        del self._input[: length + 1]
        self._searched = 0
        self._line_began = self._received if self._input else None
        return line

    # ---- output

    def add_answer(self, answer):
        """Send an Answer, as soon as it is known, after those to earlier messages."""
        self._answers.append(answer)

    def close_after(self, error, now):
        """Answer with an error, and close."""
        self._answers = deque(a for a in self._answers if a.line is not None)
        self.add_answer(Answer().fail(error))
        self.is_closing = True
        self._input.clear()
        self._closes_at = now + self._timeout
        self.flush(False, now)

    def flush(self, may_overtake, now):
        """Send the known answers; if they may overtake, those behind unknown ones too."""
        if may_overtake:
            known = [a for a in self._answers if a.line is not None]
            self._answers = deque(a for a in self._answers if a.line is None)
            lines = [a.line for a in known]
        else:
            lines = []
            while self._answers and self._answers[0].line is not None:
                lines.append(self._answers.popleft().line)
        if self.is_lost:
            return
        if lines and not self._output:
            self._sent = now  # the client has its timeout from now on
        self._output += b"".join(lines)
        if self._output and now >= self._answers_at:
            self._sent = max(self._sent, self._answers_at)
            self._send(now)

    @property
    def _answers_at(self):
        """When to send answers: see _QUIET_SECONDS."""
        if self.is_ended or self.is_closing or len(self._output) >= _MOST_OUTPUT:
            return self._received
        return self._received + (_QUIET_SECONDS if self.held is None else _QUIET_SECONDS_HELD)

    def _send(self, now):
        try:
            while self._output and (count := self.socket.send(self._output[:_CHUNK])):
                del self._output[:count]
                self._sent = now
            if self.is_closing and not self._output and not self._is_shut:
                # closed with bytes unread, a socket is reset and the client may lose the answer
                self._is_shut, self._closes_at = True, now + _LINGER_SECONDS
                self.socket.shutdown(socket.SHUT_WR)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.is_lost = True
            self._output.clear()

    @property
    def has_output(self):
        """Whether there are bytes to send."""
        return bool(self._output)

    def wants_output(self, now):
        """Whether there are bytes to send by now."""
        return bool(self._output) and now >= self._answers_at

    # ---- end

    @property
    def is_finished(self):
        """Whether nothing is left to do for the client."""
        if self.is_closing:
            return self.is_lost or (self.is_ended and not self._output)
        done = self.is_ended and self.held is None and not self._input
        return done and (self.is_lost or not (self._answers or self._output))

    @property
    def deadline(self):
        """When `overdue` has to be asked again, on the monotonic clock; None for never."""
        times = [self._closes_at] if self._closes_at is not None else []
        if self._output:
            at = self._answers_at
            times.append(at if at > self._sent else self._sent + self._timeout)
        if self._is_in_line:
            times.append(self._line_deadline)
        return min(times, default=None)

    @property
    def _is_in_line(self):
        return self._line_began is not None and not self.is_blocked and not self.is_closing

    @property
    def _line_deadline(self):
        if not self.is_trusted:
            return self._line_began + self._timeout
        return min(
            self._received + self._timeout, self._line_began + _LINE_TIMEOUTS * self._timeout
        )

    def unblock(self, now):
        """Forget the time that lines had to wait."""
        self._received = now
        if self._line_began is not None:
            self._line_began = now

    def overdue(self, now):
        """Return why the client is too slow, or None."""
        if self._closes_at is not None and now >= self._closes_at:
            return "it does not close the connection"
        if self._output and now >= self._sent + self._timeout:
            return "it does not read its answers"
        if self._is_in_line and now >= self._line_deadline:
            return f"a line is not complete after {self._timeout:g} seconds without a byte"
        return None

    def fail_unanswered(self, error, now):
        """Answer the messages that wait with an error; more are not expected."""
        for answer in self._answers:
            if answer.line is None:
                answer.fail(error)
        if self.held is not None:
            self.add_answer(Answer(self.held.id).fail(error))
        self.is_closing, self._closes_at = True, now + _LINGER_SECONDS

    def close(self):
        """Close the socket; what the client has sent beyond that is discarded."""
        self.is_closing = True
        with suppress(OSError):  # bytes that are unread would reset it
            self.socket.shutdown(socket.SHUT_WR)
            for _ in range(_LAST_READS):
                if not self.socket.recv(_CHUNK):
                    break
        self.socket.close()
