"""Minibatches on their way into a training step: read in turn, converted, and ahead where fit.

A reader may do anything when it is asked for its next batch, and an event handler may change what
it does. So the next batch is asked for when all events of the last one are over. Only a reader
that works ahead in threads of its own anyway, as its attribute `works_ahead` says, is asked while
the step of the batch before still runs, and its batch converted in the same thread.
"""

import threading
from queue import SimpleQueue

_END = object()


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


def batches(reader, convert):
    """The Batches of one pass over a reader."""
    if getattr(reader, "works_ahead", False):
        return _ahead(iter(reader()), convert)
    return (Batch(samples, convert) for samples in reader())


def _ahead(samples, convert):
    """Each Batch while a daemon thread prepares the next; errors of the reader in their place."""
    requests, found = SimpleQueue(), SimpleQueue()
    worker = threading.Thread(
        target=_prepare, args=(samples, convert, requests, found), daemon=True
    )
    worker.start()
    requests.put(True)
    try:
        while True:
            batch, error = found.get()
            if error is not None:
                raise error
            if batch is None:
                return
            requests.put(True)
            yield batch
    finally:
        requests.put(False)


def _prepare(samples, convert, requests, found):
    """Answer every request with (Batch, error), (None, None) at the end."""
    while requests.get():
        try:
            taken = next(samples, _END)
            found.put((None if taken is _END else _Converted(taken, convert), None))
        except BaseException as error:
            found.put((None, error))
    close = getattr(samples, "close", None)
    if close is not None:
        close()
