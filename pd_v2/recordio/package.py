"""The package `recordio` of 2017, which paddle brought along, for the files of `paddle.reader`.

`paddle.reader.creator.recordio` reads samples; this reads and writes the records themselves.
"""

from pd_v2.recordio.chunks import matching, read_records, write_records

__all__ = ["reader", "writer"]


class reader:
    """The records of files: `read()` gives the next as bytes, None after the last.

    `paths` is a file name or pattern, a string of them with commas between, or a list.
    FileNotFoundError where nothing matches, DamagedFile where a file is damaged.
    """

    def __init__(self, paths):
        patterns = paths.split(",") if isinstance(paths, str) else list(paths)
        names = [name for pattern in patterns for name in matching("recordio", pattern)]
        self._records = (record for name in names for record in read_records(name))

    def read(self):
        """The next record, None if there is no more."""
        return next(self._records, None)

    def __iter__(self):
        return self._records

    def close(self):
        """Read no more."""
        self._records.close()


class writer:
    """A file of records: `write(bytes)` adds one, `close()` completes the file."""

    def __init__(self, path):
        self._path, self._records = path, []

    def write(self, record):
        """Add a record: bytes, or text in UTF-8."""
        text = isinstance(record, str)
        self._records.append(record.encode("utf-8", "surrogateescape") if text else bytes(record))

    def close(self):
        """Write the file; what was at its path stays until it is complete."""
        write_records(self._path, self._records)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if kind is None:
            self.close()
