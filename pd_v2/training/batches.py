"""Minibatches on their way into a training step: read in turn, converted, and ahead where fit.

A reader may do anything when it is asked for its next batch, and an event handler may change what
it does. So the next batch is asked for when all events of the last one are over. Only where the
reader holds it already (in a list, in the window of a shuffle, in a thread of its own) it is asked
for while the step of the batch before runs, and converted, in another thread.
"""

import _thread
import os
import weakref
from collections.abc import Sized
from itertools import count
from queue import SimpleQueue
from time import thread_time

from ..reader.ahead import close, held
from ..reader.protocol import reader_name

# To wake a thread takes a while, so several batches are prepared together if they are quick.
_AT_ONCE = 4
_QUICK = 2e-4  # seconds of the thread itself
# Python's own work takes a core from the step; on two it gains nothing where it takes long.
_FEW_CORES = (os.cpu_count() or 1) <= 2


class Batch:
    """The samples of a minibatch, to be converted when their feeds are asked for."""

    place = "a batch"  # what errors call it

    def __init__(self, samples, convert):
        self.samples, self._convert = samples, convert

    def __len__(self):
        return len(self.samples)

    def feeds(self):
        """The feeds of the batch; an error that names the batch if the samples do not fit."""
        try:
            return self._converted()
        except Exception as error:
            error.add_note(f"  in {self.place}")
            raise

    def _converted(self):
        _check(self.samples)
        return self._convert(self.samples)


class _Converted(Batch):
    """A minibatch whose conversion was tried already."""

    def __init__(self, samples, convert):
        super().__init__(samples, convert)
        self._feeds = self._error = None
        try:
            self._feeds = super()._converted()
        except Exception as error:
            self._error = error

    def _converted(self):
        if self._error is not None:
            raise self._error
        return self._feeds


def _check(samples):
    if not isinstance(samples, Sized):
        kind = type(samples).__name__
        raise TypeError(f"a batch is a list of samples, not of type {kind}")
    if not len(samples):
        raise ValueError("the batch has no samples")


class Batches:
    """The Batches of one pass over a reader.

    Who uses one says `read_ahead` when it starts on something that leaves a core to spare; the
    next batches may then be there, converted, when they are asked for.
    """

    def __init__(self, reader, convert, pass_id=0):
        self._reader, self._pass_id, self._numbers = reader, pass_id, count()
        self._samples, self._convert = iter(reader()), convert
        self._worker = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self._worker is None:
            close(self._samples)
        else:
            self._worker.stop()

    def __iter__(self):
        return self

    def __next__(self):
        if self._worker is not None and self._worker.busy:
            batch = self._worker.answer()
        else:
            batch = Batch(next(self._samples), self._convert)
        batch.place = _Place(next(self._numbers), self._pass_id, self._reader)
        return batch

    def read_ahead(self):
        """The next batches may be read and converted from now on, if the reader holds them."""
        count = min(held(self._samples), _AT_ONCE)
        if count < 1:
            return
        if self._worker is None:
            self._worker = _Worker(self._samples, self._convert)
        self._worker.ask(int(count))


class _Place:
    """Which batch, as errors say it."""

    def __init__(self, number, pass_id, reader):
        self._of = number, pass_id, reader

    def __str__(self):
        number, pass_id, reader = self._of
        return f"batch {number} of pass {pass_id}, from the reader {reader_name(reader)}"


class _Worker:
    """A thread that reads and converts batches; `busy` while answers are to come.

    `stop` closes the reader, when what was asked for is done; so does nobody's holding it any
    more, as after an interrupt that comes before it is stored.
    """

    def __init__(self, samples, convert):
        self._requests, self._answers = SimpleQueue(), SimpleQueue()
        self.busy = self._slow = False
        self.stop = weakref.finalize(self, self._requests.put, 0)
        self.stop.atexit = False
        # threading.Thread would wait until it runs, for as long as a small step takes
        _thread.start_new_thread(_work, (samples, convert, self._requests, self._answers))

    def ask(self, count):
        """For so many batches at most, if it is not busy and does not take too long."""
        if not self.busy and not (self._slow and _FEW_CORES):
            self.busy = True
            self._requests.put(count)

    def answer(self):
        """The next Batch, when it is there; or an error of the reader."""
        batch, error, self.busy, self._slow = self._answers.get()
        if error is not None:
            raise error
        return batch


def _work(samples, convert, requests, answers):
    """Answer (batch, error, whether more will come, whether this took long) until asked for 0."""
    while count := requests.get():
        more, taken = True, 0.0
        while more:
            count -= 1
            batch, error, seconds = _made(samples, convert)
            taken += seconds
            more = error is None and count > 0 and taken < _QUICK
            answers.put((batch, error, more, taken > 2 * _QUICK))
        batch = error = None  # the next may be long in coming
    close(samples)


def _made(samples, convert):
    """(Batch, None, how long its conversion took) or (None, the reader's error, 0)."""
    try:
        found = next(samples)
    except BaseException as error:
        return None, error, 0.0
    start = thread_time()
    return _Converted(found, convert), None, thread_time() - start
