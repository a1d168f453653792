"""The reader of a training that learns from what clients send."""

import ipaddress
import os
import socket
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

from .clients import Limits
from .samples import SampleCheck
from .schedule import Schedule
from .server import End, Progress, Server

_SHORTEST_TOKEN = 16
_BACKLOG = 128  # connections that wait to be accepted


class online:
    """Reader of minibatches for one unbounded pass, fed by JSON lines over TCP.

        source = paddle.reader.online(("127.0.0.1", 9000), batch_size=32, folder="models")
        trainer.train(reader=source, num_passes=1, event_handler=handler)

    It listens from the beginning, at `address`; port 0 takes a free one. A message is a line with a
    sample, samples or a command (docs/online.md). Checkpoints that clients ask for, and `final`
    after a stop, are written into `folder`. The end of the pass closes it, whatever the reason.

    `token`: what clients send first, 16 characters or more, required for an address that is not
    loopback. `check`: a function that raises ValueError for a sample that it refuses, called in
    another thread after the sample was found to fit the data layers. `max_queue`: samples that
    wait for training; clients that send more have to wait. `max_message`: bytes of a line.
    `timeout`: seconds after which a client is dropped that stops within a line, or does not read
    its answers.
    """

    # A resumed training skips no samples: what was trained on is not sent again.
    unrepeatable = True

    def __init__(
        self,
        address,
        batch_size,
        folder=None,
        *,
        token=None,
        check=None,
        max_queue=4096,
        max_message=1 << 20,
        max_connections=256,
        timeout=30.0,
    ):
        _require_integer("batch_size", batch_size, 1)
        _require_integer("max_queue", max_queue, batch_size)
        _require_integer("max_message", max_message, 2)
        _require_integer("max_connections", max_connections, 1)
        if not timeout > 0:
            raise ValueError(f"online: timeout is a positive number of seconds, not {timeout!r}")
        if check is not None and not callable(check):
            raise TypeError(f"online: check is a function of a sample, not {check!r}")
        family, bound = _resolved(address)
        _require_token(token, bound)
        self._folder = None if folder is None else Path(folder)
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
        self._sample_check = check
        self._context = None
        self.is_closed = False
        listener = _listening(family, bound)
        self.address = listener.getsockname()[:2]
        limits = Limits(max_message, max_connections, timeout)
        self._server = Server(listener, Schedule(batch_size, max_queue), limits, token)
        self._thread = threading.Thread(target=self._server.run, name="pd_v2.online", daemon=True)
        self._thread.start()
        self._close = weakref.finalize(self, self._server.close)

    def __repr__(self):
        return f"online({self.address!r})"

    def __call__(self):
        """Return the iterator over the minibatches of the pass."""
        if self.is_closed:
            raise ValueError(f"{self!r} is closed: it has one pass, which is over")
        return _Batches(self)

    def attach(self, context, feeder, feeding=None):
        """Take samples that `feeder` converts, for the training whose context this is.

        A training calls it at the beginning of a pass. `context` has the numbers that clients ask
        for, a `runner` that saves and `stop()`; `feeder` is its DataFeeder, made with `feeding`.
        """
        if self._context not in (None, context):
            raise ValueError(f"{self!r} is read by another training already")
        self._context = context
        self._server.attach(SampleCheck(feeder, feeding, self._sample_check))

    def close(self):
        """Close all connections and the port; the pass ends at the next batch."""
        self.is_closed = True
        self._close()
        if self._thread is not threading.current_thread():
            self._thread.join()

    # ---- called by the iterator, in the thread of the training

    def next_batch(self):
        """Return the samples of the next batch, after the commands before it; None at the end."""
        if self._context is None and not self.is_closed:
            raise RuntimeError(
                f"{self!r}: no training was attached\n"
                "  hint: pass the source itself as reader, without decorators"
            )
        while True:
            self._server.ask(self._progress())
            reply = self._server.replies.get()
            if isinstance(reply, list):
                return reply
            if isinstance(reply, End):
                self._server.replies.put(reply)  # for whoever asks again
                if reply.error is not None:
                    raise RuntimeError(f"{self!r}: the server failed") from reply.error
                return None
            if reply.name == "save":
                self._save(reply)
            else:
                self._stop(reply)
                return None

    def forget_training(self):
        """Close, and release the training."""
        self._context = None
        self.close()

    def _progress(self):
        context = self._context
        if context is None:
            return Progress()
        cost = getattr(context, "cost", None)  # there is none before the first batch
        return Progress(context.batches, context.samples, cost, dict(context.metrics))

    def _save(self, command):
        """Write a checkpoint; an error goes to the client, and the training goes on."""
        error = None
        try:
            self._write(command.file)
        except Exception as e:
            error = e
        self._server.report(command, error)

    def _stop(self, command):
        """End the training, with a last checkpoint if there is a folder for it."""
        try:
            if self._folder is not None:
                self._write("final")
        except Exception as error:
            self._server.report(command, error)
            raise
        self._context.stop()
        self._server.report(command, None)

    def _write(self, name):
        if self._folder is None:
            raise ValueError("there is no folder for checkpoints")
        path = self._folder / name
        if os.path.islink(path):
            raise FileExistsError(f"{name} is a link, which is not followed")
        self._context.runner.save(path)


class _Batches(Iterator):
    """The minibatches of an online reader. `close` ends the pass, and closes the reader."""

    def __init__(self, source):
        self._source = source

    def __next__(self):
        samples = None if self._source is None else self._source.next_batch()
        if samples is None:
            raise StopIteration
        return samples

    def close(self):
        """Close the reader."""
        source, self._source = self._source, None
        if source is not None:
            source.forget_training()


def _require_integer(name, value, least):
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"online: {name} is an integer, not {value!r}")
    if value < least:
        raise ValueError(f"online: {name} is at least {least}, not {value}")


def _resolved(address):
    """Return (family, address for bind) of a pair of host and port."""
    is_pair = isinstance(address, tuple | list) and len(address) == 2
    if not (is_pair and isinstance(address[0], str) and isinstance(address[1], int)):
        raise TypeError(f"online: an address is a pair (host, port), not {address!r}")
    if not 0 <= address[1] <= 65535:
        raise ValueError(f"online: a port is from 0 to 65535, not {address[1]}")
    host = address[0] or "0.0.0.0"  # noqa: S104  _require_token guards it
    family, _, _, _, bound = socket.getaddrinfo(host, address[1], type=socket.SOCK_STREAM)[0]
    return family, bound


def _require_token(token, bound):
    """Check that a token is there where it is needed, and long enough."""
    if token is None:
        if not ipaddress.ip_address(bound[0].partition("%")[0]).is_loopback:
            raise ValueError(
                f"online: {bound[0]} can be reached from other machines, which needs a token\n"
                '  hint: token="...", or ("127.0.0.1", port) and a tunnel'
            )
    elif not isinstance(token, str):
        raise TypeError(f"online: a token is a string, not a {type(token).__name__}")
    elif len(token) < _SHORTEST_TOKEN:
        raise ValueError(f"online: a token has at least {_SHORTEST_TOKEN} characters")


def _listening(family, bound):
    """Return a socket that listens."""
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere it would let two servers have the same port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(bound)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener
