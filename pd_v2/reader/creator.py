"""Readers made from data: arrays and files."""

import contextlib

import numpy as np

from pd_v2 import master, pickles
from pd_v2.reader.threads import buffered
from pd_v2.recordio.chunks import matching, read_records

__all__ = ["cloud_reader", "np_array", "recordio", "text_file"]

pass_num = 0  # of the next pass through any cloud_reader


def np_array(x):
    """The elements of a vector, the rows of a matrix, the slices along axis 0 of more axes."""
    x = np.asarray(x)

    def rows():
        yield from x if x.ndim else [x]

    return rows


def text_file(path):
    """The lines of a file of UTF-8 text, without the newlines that end them.

    Bytes that are no UTF-8 are kept, as in the strings of a script that the launcher runs.
    """

    def lines():
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            for line in file:
                yield line.rstrip("\n")

    return lines


def recordio(paths, buf_size=100, trusted=False):
    """The pickled samples in RecordIO files, read up to buf_size ahead.

    paths is a list of file names or patterns, or a string of them with commas between. Samples are
    numbers, text, containers and arrays; DamagedFile of anything else. With trusted=True they may
    be of any class, and unpickling runs what a file names: only for files you made yourself.
    """
    patterns = paths.split(",") if isinstance(paths, str) else list(paths)

    def samples():
        for pattern in patterns:
            for name in matching("recordio", pattern):
                for number, record in enumerate(read_records(name), 1):
                    yield _sample(f"recordio: {name}, record {number}", record, trusted)

    return buffered(samples, buf_size)


def cloud_reader(paths, etcd_endpoints, timeout_sec=5, buf_size=64, trusted=False):
    """The pickled samples in RecordIO files, shared among all readers with these etcd_endpoints.

    paths is a file name or pattern, or a list of them. In each pass a reader gets samples that no
    other one gets; all readers are in this process (pd_v2.master). `trusted` is that of `recordio`.
    """
    client = master.client(etcd_endpoints, timeout_sec, buf_size)
    client.set_dataset(paths)

    def samples():
        global pass_num
        number, pass_num = pass_num, pass_num + 1
        with contextlib.closing(client.records(number)) as records:
            for record in records:
                yield _sample(f"cloud_reader: a record of {paths}", record, trusted)

    return samples


def _sample(where, record, trusted):
    """The object in a pickled record; Python 2 wrote bytes as text."""
    return pickles.load_samples(where, record, trusted)
