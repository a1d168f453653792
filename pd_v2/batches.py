"""Minibatches on their way into a training step: read in turn, converted, and ahead where fit.

A reader may do anything when it is asked for its next batch, and an event handler may change what
it does. So the next batch is asked for when all events of the last one are over. Only where the
reader holds it already (in a list, in the window of a shuffle, in a thread of its own) it is asked
for while the step of the batch before runs, and converted, in another thread.
"""

import _thread
import os
from queue import SimpleQueue
from time import thread_time

from .reader.ahead import held

# To wake a thread takes a while, so several batches are prepared together if they are quick.
_AT_ONCE = 4
_QUICK = 2e-4  # seconds of the thread itself
# Python's own work takes a core from the step; on two it gains nothing where it takes long.
_FEW_CORES = (os.cpu_count() or 1) <= 2


class Batch:
    """The samples of a minibatch, to be converted when their feeds are asked for."""

    def __init__(self, samples, convert):
        self.samples, self._convert = samples, convert

    def __len__(self):
        return len(self.samples)

    def feeds(self):
        """What is fed; an error if the samples do not fit."""
        return self._convert(self.samples)


class _Converted(Batch):
    """A minibatch whose conversion was tried already."""

    def __init__(self, samples, convert):
        super().__init__(samples, convert)
        self._feeds = self._error = None
        try:
            self._feeds = convert(samples)
        except Exception as error:
            self._error = error

    def feeds(self):
        if self._error is not None:
            raise self._error
        return self._feeds


class Batches:
    """The Batches of one pass over a reader.

    Who uses one says `read_ahead` when it starts on something that leaves a core to spare; the
    next batches may then be there, converted, when they are asked for.
    """

    def __init__(self, reader, convert):
        self._samples, self._convert = iter(reader()), convert
        self._worker = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self._worker is not None:
            self._worker.stop()

    def __iter__(self):
        return self

    def __next__(self):
        if self._worker is not None and self._worker.busy:
            return self._worker.answer()
        return Batch(next(self._samples), self._convert)

    def read_ahead(self):
        """The next batches may be read and converted from now on, if the reader holds them."""
        count = min(held(self._samples), _AT_ONCE)
        if count < 1:
            return
        if self._worker is None:
            self._worker = _Worker(self._samples, self._convert)
        self._worker.ask(int(count))


class _Worker:
    """A thread that reads and converts batches; `busy` while answers are to come."""

    def __init__(self, samples, convert):
        self._samples, self._convert = samples, convert
        self._requests, self._answers = SimpleQueue(), SimpleQueue()
        self.busy = self._slow = False
        # threading.Thread would wait until it runs, for as long as a small step takes
        _thread.start_new_thread(self._work, ())

    def ask(self, count):
        """For so many batches at most, if it is not busy and does not take too long."""
        if not self.busy and not (self._slow and _FEW_CORES):
            self.busy = True
            self._requests.put(count)

    def answer(self):
        """The next Batch, when it is there; or an error of the reader."""
        batch, error, self.busy = self._answers.get()
        if error is not None:
            raise error
        return batch

    def stop(self):
        """Close the reader, when what was asked for is done."""
        self._requests.put(0)

    def _work(self):
        while count := self._requests.get():
            more, taken = True, 0.0
            while more:
                count -= 1
                batch, error, seconds = self._made()
                taken += seconds
                more = error is None and count > 0 and taken < _QUICK
                self._answers.put((batch, error, more))
            self._slow = taken > 2 * _QUICK
        close = getattr(self._samples, "close", None)
        if close is not None:
            close()

    def _made(self):
        """(Batch, None, how long its conversion took) or (None, the reader's error, 0)."""
        try:
            samples = next(self._samples)
        except BaseException as error:
            return None, error, 0.0
        start = thread_time()
        return _Converted(samples, self._convert), None, thread_time() - start
