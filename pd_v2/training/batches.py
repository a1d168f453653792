"""The minibatches of a pass: read from the reader, converted to feeds, prefetched where possible.

Reading a batch may have side effects, and an event handler may change what a reader does. So the
next batch is read after all events of the last one. Only if the reader has it buffered already (in
a list, in the window of a shuffle, in a thread of its own) it is read and converted in another
thread, while the step of the batch before runs.
"""

import _thread
import os
import weakref
from collections.abc import Sized
from contextlib import contextmanager
from queue import SimpleQueue
from time import thread_time
from types import GeneratorType

import numpy as np

import pd_core as pd
from pd_core.run.states import integer
from pd_core.training.positions import draws_ahead, positioned, reader_name, resumed, skip
from pd_core.training.stacking import columns_of

from ..feeds import Feeds
from ..reader.prefetch import available, close

# Waking a thread takes a while, so several batches are converted together if they are fast.
_MAX_PREFETCHED = 4
_FAST_SECONDS = 2e-4  # of CPU time of the thread
# Conversion in Python takes a core from the step; with two cores, slow conversion gains nothing.
_FEW_CORES = (os.cpu_count() or 1) <= 2


def converter(topology, feeding=None, ranks=None):
    """Return the function that converts the samples of a batch to feeds of a network.

    Of `ranks` that have all read the batch, each converts its own samples: those of the threads of
    2017's `trainer_count`. Without any it gets None.
    """
    # the function has no topology: the thread that converts does not keep the network alive
    feeder, inputs = topology.feeder(feeding), topology.data_inputs()
    feeder.with_loops(columns_of(pd.default_session()))

    def convert(samples):
        if ranks is not None:
            samples = samples if isinstance(samples, list | tuple | np.ndarray) else list(samples)
            samples = samples[slice(*ranks.bounds(len(samples)))]
            if not len(samples):
                return None
        sizes = {}
        arrays = feeder.arrays(samples, sizes)
        return Feeds(zip(inputs, arrays, strict=True), sizes)

    def sizes_of(samples):
        sizes = {}
        feeder.arrays(list(samples)[:1], sizes)
        return sizes

    convert.sizes_of = sizes_of
    return convert


class Batch:
    """The samples of a minibatch, converted on demand."""

    __slots__ = ("_convert", "_place", "samples")

    def __init__(self, samples, convert, place=None):
        self.samples, self._convert, self._place = samples, convert, place

    @property
    def place(self):
        """Where it is from, for errors; `_place` has its number, its pass and its reader."""
        if self._place is None:
            return "a batch"
        number, pass_id, reader = self._place
        return f"batch {number} of pass {pass_id}, from the reader {reader_name(reader)}"

    def __len__(self):
        samples = self.samples
        return len(samples) if type(samples) is list or isinstance(samples, Sized) else 0

    def check(self):
        """Raise an error that names the batch if it is no list of samples."""
        with self.named():
            _check(self.samples)

    def to_feeds(self):
        """Convert the samples to feeds; errors name the batch."""
        with self.named():
            return self._feeds()

    def no_feeds(self):
        """Return Feeds without arrays, with the sizes of the images, for one without samples."""
        return Feeds((), self._convert.sizes_of(self.samples))

    @contextmanager
    def named(self):
        """Return a context in which errors name the batch."""
        try:
            yield
        except Exception as error:
            error.add_note(f"  in {self.place}")
            error.explained = True  # data that does not fit, not a fault of ours
            raise

    def _feeds(self):
        samples = self.samples
        if type(samples) is not list or not samples:
            _check(samples)
        return self._convert(samples)


class _ConvertedBatch(Batch):
    """A minibatch with the result of its conversion, feeds or an error."""

    __slots__ = ("_error", "_result")

    def __init__(self, samples, convert):
        super().__init__(samples, convert)
        self._result = self._error = None
        try:
            self._result = super()._feeds()
        except Exception as error:
            self._error = error

    def _feeds(self):
        if self._error is not None:
            raise self._error
        return self._result


def _check(samples):
    if type(samples) is not list and not isinstance(samples, Sized):
        kind = type(samples).__name__
        raise TypeError(f"a batch is a list of samples, not of type {kind}")
    if not len(samples):
        raise ValueError("the batch has no samples")


class Batches:
    """Iterator over the Batches of one pass over a reader.

    The consumer calls `read_ahead` when it starts work that leaves a core idle; the next batches
    may then be read and converted in the background.

    With tracks=True there is a state(), the position behind the last batch given out. Another
    process goes on from there if it gets this as `state`; the numbers of batches go on too.
    """

    def __init__(self, reader, convert, pass_id=0, tracks=False, state=None):
        self._reader, self._pass_id, self._convert = reader, pass_id, convert
        self._worker, self._tracks, self._position = None, tracks, None
        self.count = 0 if state is None else integer(state["batches"])  # of batches given out
        if state is None:
            self._samples = positioned(reader) if tracks else iter(reader())
        else:
            self._samples = _resumed(reader, state)
        if tracks:
            self._mark()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        """End the reading, and close the reader."""
        if self._worker is None:
            close(self._samples)
        else:
            self._worker.stop()

    def __iter__(self):
        return self

    def __next__(self):
        place = self.count, self._pass_id, self._reader
        if self._worker is not None and self._worker.busy:
            batch = self._worker.answer()
            batch._place = place
        else:
            batch = Batch(next(self._samples), self._convert, place)
        self.count += 1
        if self._tracks:
            self._mark()
        return batch

    def skip(self, number):
        """Leave out batches, as many as the reader has."""
        for _ in zip(range(number), self, strict=False):
            pass

    def _mark(self):
        """Remember the position behind the batches given out.

        While the worker reads, it is `given` batches behind where the reader was before that.
        """
        if self._worker is not None and self._worker.busy:
            reader, given = self._position["reader"], self._position["given"] + 1
        else:
            reader, given = self._samples.state(), 0
        self._position = {"reader": reader, "given": given, "batches": self.count}

    def state(self):
        """Return the position behind the last batch given out; this works after errors too."""
        if not self._tracks:
            raise ValueError("Batches: positions are not tracked, which tracks=True does")
        return self._position

    @property
    def draws_ahead(self):
        """The global random generators that threads of the reader draw from; see positions."""
        return draws_ahead(self._samples)

    def read_ahead(self):
        """Start to read and convert the next batches, as far as the reader has them buffered."""
        if type(self._samples) is GeneratorType:  # which nobody knows about
            return
        count = min(available(self._samples), _MAX_PREFETCHED)
        if count < 1:
            return
        if self._worker is None:
            self._worker = _Worker(self._samples, self._convert)
        self._worker.ask(int(count))


def _resumed(reader, state):
    """Return the iterator of a reader at a position; after an error nothing is left of it."""
    samples = resumed(reader, state["reader"])
    skip(samples, integer(state["given"]), reader)
    return samples


class _Worker:
    """A thread that reads and converts batches; `busy` while answers are outstanding.

    `stop` finishes the requested batches and closes the reader. The finalizer does the same, e.g.
    after a KeyboardInterrupt before the worker is assigned.
    """

    def __init__(self, samples, convert):
        self._requests, self._answers = SimpleQueue(), SimpleQueue()
        self.busy = self._slow = False
        self.stop = weakref.finalize(self, self._requests.put, 0)
        self.stop.atexit = False
        # threading.Thread.start waits until the thread runs, which takes as long as a small step
        _thread.start_new_thread(_work, (samples, convert, self._requests, self._answers))

    def ask(self, count):
        """Request up to `count` batches, unless the thread is busy or too slow to be of use."""
        if not self.busy and not (self._slow and _FEW_CORES):
            self.busy = True
            self._requests.put(count)

    def answer(self):
        """Wait for the next Batch; raise an error of the reader."""
        batch, error, self.busy, self._slow = self._answers.get()
        if error is not None:
            raise error
        return batch


def _work(samples, convert, requests, answers):
    """Put (batch, error, whether more follow, whether it was slow) until 0 are requested."""
    while count := requests.get():
        more, elapsed = True, 0.0
        while more:
            count -= 1
            batch, error, seconds = _read_batch(samples, convert)
            elapsed += seconds
            more = error is None and count > 0 and elapsed < _FAST_SECONDS
            answers.put((batch, error, more, elapsed > 2 * _FAST_SECONDS))
        batch = error = None  # free the memory before waiting for the next request
    close(samples)


def _read_batch(samples, convert):
    """Return (Batch, None, seconds of its conversion), or (None, the reader's error, 0)."""
    try:
        batch = next(samples)
    except BaseException as error:
        return None, error, 0.0
    start = thread_time()
    return _ConvertedBatch(batch, convert), None, thread_time() - start
