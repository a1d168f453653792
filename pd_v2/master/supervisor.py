"""A master in a process of its own, which is started again if it dies."""

import os
import subprocess
import sys
import threading
from pathlib import Path

_START_SECONDS = 60.0
_END_SECONDS = 10.0


def start(state, host="127.0.0.1", *options):
    """Start a master with its ledger in the file `state`; return a Master with its address.

    It ends with this process, or by close(), or at the end of a `with` block. `options` are those
    of `pd-v2 master`, such as "--lease", "60", "--no-wait". RuntimeError if it does not start.
    """
    return Master(state, host, options)


class Master:
    """A running master: `address` as host:port, `pid`. If it dies it is started again there."""

    def __init__(self, state, host, options):
        self._command = ("--state", os.fspath(state), "--with-parent", *map(str, options))
        self._closed = threading.Event()
        self._process = self._start(f"{host}:0")
        self.address = self._answer(self._process)
        self._thread = threading.Thread(target=self._watch, name="pd_v2.master", daemon=True)
        self._thread.start()

    @property
    def pid(self):
        """The id of the process that serves at present."""
        return self._process.pid

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        """End the master."""
        self._closed.set()
        self._process.terminate()
        self._thread.join(_END_SECONDS)

    def _start(self, listen):
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        return subprocess.Popen(  # noqa: S603  this package's own command
            [sys.executable, "-m", "pd_v2", "master", "--listen", listen, *self._command],
            env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,  # closed by the system when this process ends
            stdout=subprocess.PIPE,
            text=True,
        )

    def _answer(self, process):
        """Return the address that a new master prints."""
        timer = threading.Timer(_START_SECONDS, process.kill)
        timer.start()
        try:
            line = process.stdout.readline()
        finally:
            timer.cancel()
        if not line.startswith("master at "):
            self._end(process)
            raise RuntimeError(f"master: it did not start, its command was {process.args}")
        return line.removeprefix("master at ").strip()

    def _end(self, process):
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def _watch(self):
        """Wait for the process; start another one at the same address."""
        while True:
            self._process.wait()
            self._end(self._process)
            if self._closed.is_set():
                return
            self._process = self._start(self.address)
            if self._closed.is_set():  # in the meantime
                self._process.terminate()
                continue
            try:
                self._answer(self._process)
            except RuntimeError as error:
                print(f"{error}", file=sys.stderr, flush=True)
                self._closed.wait(1.0)
