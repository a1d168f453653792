"""The records of a pass that one client reads, chunk by chunk."""

import time
import warnings
from collections.abc import Iterator

from pd_v2.recordio.chunks import read_chunk

_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 0.02, 0.5  # between questions at the end of a pass


class Records(Iterator):
    """Iterator over the records of the chunks that a client leases in a pass.

    A chunk is done when the record behind its last one is asked for. At the end of the pass the
    iterator waits for chunks that other processes hold, and reads what they return.
    """

    def __init__(self, dataset, pass_id):
        self.pass_id = pass_id
        self._dataset, self._connection = dataset, dataset.connection
        self._done, self._ended = [], False
        self._lease, self._chunk, self._records = None, iter(()), 0
        self._told = set()  # chunks that were dropped

    def __next__(self):
        while not self._ended:
            record = next(self._chunk, None)
            if record is not None:
                self._records += 1
                return record
            self._finish()
            self._advance()
        raise StopIteration

    def state(self):
        """Return the position: the tasks of the pass that are done, the chunk, its records read."""
        lease = self._lease
        return {
            "pass": self.pass_id,
            "worker": self._dataset.worker,
            "done": _ranges(self._done),
            "chunk": None if lease is None else [lease["pass"], lease["task"]],
            "records": self._records,
            "ended": self._ended,
        }

    def restore(self, state):
        """Go to a position. What the worker has read behind it is to be read again.

        The chunk of the position is left out if somebody else has got it. At a position of another
        worker the iterator goes on with what is left of the pass.
        """
        if not self._dataset.adopt(state["worker"]):
            return
        self._done = [task for first, last in state["done"] for task in range(first, last + 1)]
        lease = self._connection.resume(
            self._dataset.timeout,
            dataset=self._dataset.number,
            pass_id=self.pass_id,
            worker=self._dataset.worker,
            done=self._done,
            chunk=state["chunk"],
        )
        self._ended = state["ended"]
        if lease is not None:
            self._open(lease)
            for _ in range(state["records"]):
                next(self._chunk, None)
            self._records = state["records"]

    def close(self):
        """Return the chunk; there are no more records."""
        lease, self._lease, self._ended = self._lease, None, True
        if lease is not None:
            self._connection.release(lease["lease"], self._records)

    def __del__(self):
        lease = getattr(self, "_lease", None)
        if lease is not None:
            self._connection.returned.append((lease["lease"], self._records))

    def _finish(self):
        """Say that the chunk is done."""
        if self._lease is None:
            return
        lease, records = self._lease, self._records
        if self._connection.finish(self._dataset.timeout, lease["lease"], records):
            if lease["pass"] == self.pass_id:
                self._done.append(lease["task"])
        else:
            _warn(
                f"{_name(lease)} was handed to another worker too, as its lease had expired: its "
                f"{records} records were read twice"
            )
        self._lease, self._records = None, 0

    def _advance(self):
        """Lease the next chunk, or find that the pass has ended."""
        pause, dataset = _FIRST_PAUSE_SECONDS, self._dataset
        while True:
            answer = self._connection.lease(
                dataset.timeout, dataset.number, self.pass_id, dataset.worker
            )
            if "lease" in answer:
                return self._open(answer)
            if "dropped" in answer:
                self._ended = True
                for file, offset, error in answer["dropped"]:
                    self._tell_dropped(file, offset, error)
                return
            time.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE_SECONDS)

    def _open(self, lease):
        """Read the chunk of a lease."""
        self._lease = lease
        try:
            self._dataset.require_own(lease["file"])
            self._chunk = read_chunk(lease["file"], lease["offset"])
        except (OSError, ValueError) as error:
            if not self._connection.link.is_shared:
                self.close()
                raise
            self._lease, text = None, f"{type(error).__name__}: {error}"
            if self._connection.fail(self._dataset.timeout, lease["lease"], text):
                self._tell_dropped(lease["file"], lease["offset"], text)

    def _tell_dropped(self, file, offset, error):
        if (file, offset) not in self._told:
            self._told.add((file, offset))
            _warn(
                f"{file}, chunk at byte {offset}, is left out of pass {self.pass_id}, as it could "
                f"not be read several times: {error}"
            )


def _name(lease):
    return f"{lease['file']}, chunk at byte {lease['offset']}, of pass {lease['pass']}"


def _warn(message):
    warnings.warn(f"master: {message}", stacklevel=2)


def _ranges(numbers):
    """Return [[first, last], ...] of numbers."""
    ranges = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges
