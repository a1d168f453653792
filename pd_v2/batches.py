"""Minibatches on their way into a training step: read in turn, converted, and ahead where fit.

A reader may do anything when it is asked for its next batch, and an event handler may change what
it does. So the next batch is asked for when all events of the last one are over. Only where the
reader holds it already (in a list, in the window of a shuffle, in a thread of its own) it is asked
for while the step of the batch before runs, and converted, in another thread.
"""

import threading
from queue import SimpleQueue

from .reader.ahead import held


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
    next batch may then be there, converted, when it is asked for.
    """

    def __init__(self, reader, convert):
        self._samples, self._convert = iter(reader()), convert
        self._requests, self._found = SimpleQueue(), SimpleQueue()
        self._worker = None
        self._awaited = False

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self._worker is not None:
            self._requests.put(False)

    def __iter__(self):
        return self

    def __next__(self):
        if not self._awaited:
            return Batch(next(self._samples), self._convert)
        self._awaited = False
        batch, error = self._found.get()
        if error is not None:
            raise error
        return batch

    def read_ahead(self):
        """The next batch may be read and converted from now on, if the reader holds it."""
        if self._awaited or held(self._samples) < 1:
            return
        if self._worker is None:
            work = self._samples, self._convert, self._requests, self._found
            self._worker = threading.Thread(target=_prepare, args=work, daemon=True)
            self._worker.start()
        self._awaited = True
        self._requests.put(True)


def _prepare(samples, convert, requests, found):
    """Answer every request with (Batch, None) or (None, error); at last close the reader."""
    while requests.get():
        try:
            found.put((_Converted(next(samples), convert), None))
        except BaseException as error:
            found.put((None, error))
    close = getattr(samples, "close", None)
    if close is not None:
        close()
