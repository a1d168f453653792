"""Readers of arrays and files."""

from collections.abc import Iterator

import numpy as np

from pd_core.training.positions import known, not_tracked, other_reader, rereadable
from pd_v2 import master, pickles
from pd_v2.files import given
from pd_v2.reader.threads import buffered
from pd_v2.recordio.chunks import read_records
from pd_v2.recordio.storage import matching

__all__ = ["cloud_reader", "np_array", "recordio", "text_file"]

pass_num = 0  # number of the next pass over any cloud_reader; 2017's name


def np_array(x):
    """Return a reader of the slices of an array along axis 0, such as the rows of a matrix."""
    x = np.asarray(x)

    @rereadable
    def rows():
        yield from x if x.ndim else [x]

    return rows


def text_file(path):
    """Return a reader of the lines of a UTF-8 text file, without their newlines.

    Bytes that are not UTF-8 become lone surrogates, as in a script that `python -m pd_v2` runs.
    """

    @rereadable
    def lines():
        with open(path, "rb") as file:
            for line in given.file_of(file, "r"):
                text = line if isinstance(line, str) else line.decode("utf-8", "surrogateescape")
                yield text.rstrip("\n")

    return lines


def recordio(paths, buf_size=100, trusted=False):
    """Return a reader of the pickled samples in RecordIO files, which prefetches buf_size samples.

    paths is a list of file names or patterns, or a comma-separated string. Samples are numbers,
    text, containers and arrays; DamagedFile for anything else. With trusted=True they may be of any
    class, and unpickling runs code that the file names: only for files you made yourself.
    """
    patterns = paths.split(",") if isinstance(paths, str) else list(paths)

    @rereadable
    def samples():
        for pattern in patterns:
            for name in matching("recordio", pattern):
                for number, record in enumerate(read_records(name), 1):
                    yield _sample(f"recordio: {name}, record {number}", record, trusted)

    return buffered(samples, buf_size)


def cloud_reader(paths, etcd_endpoints, timeout_sec=5, buf_size=64, trusted=False):
    """Return a reader of RecordIO files that shares samples with others of these etcd_endpoints.

    paths is a file name or pattern, or a list of them. In each pass every sample goes to one of the
    readers, in this process or with the same master (pd_v2.master.client). `trusted` is as in
    `recordio`. The readers' iterators have positions.
    """
    client = master.client(etcd_endpoints, timeout_sec, buf_size)
    client.set_dataset(paths)
    where = f"cloud_reader: a record of {paths}"
    return known(lambda: _CloudSamples(client, where, trusted))


class _CloudSamples(Iterator):
    """The samples that a client gets in a pass, which is numbered when the first is asked for."""

    def __init__(self, client, where, trusted):
        self._client, self._where, self._trusted = client, where, trusted
        self._records, self._closed = None, False

    def __next__(self):
        if self._closed:
            raise StopIteration
        if self._records is None:
            self._begin(self._client.records(pass_num))
        return _sample(self._where, next(self._records), self._trusted)

    def _begin(self, records):
        global pass_num
        self._records = records
        pass_num = max(pass_num, records.pass_id + 1)

    def state(self):
        """Return the position."""
        if self._closed:
            raise not_tracked(cloud_reader)
        begun = self._records is not None
        records = self._records if begun else self._client.records(pass_num)
        return {"of": "cloud_reader", "begun": begun, "records": records.state()}

    def restore(self, state):
        """Go to a position. If that is before the first sample, its pass is the next."""
        global pass_num
        if not isinstance(state, dict) or state.get("of") != "cloud_reader":
            raise other_reader(cloud_reader, "one of cloud_reader", state)
        records = self._client.records(state["records"]["pass"])
        records.restore(state["records"])
        if state["begun"]:
            self._begin(records)
        pass_num = max(pass_num, records.pass_id)

    def close(self):
        """Return the chunk; there are no more samples."""
        self._closed = True
        if self._records is not None:
            self._records.close()


def _sample(where, record, trusted):
    """Unpickle a record; Python 2 pickled bytes as text."""
    return pickles.load_samples(where, record, trusted)
