"""2017's package `recordio`, on which paddle depended.

`paddle.reader.creator.recordio` reads samples; this reads and writes the records themselves.
"""

from pd_v2.recordio.chunks import read_records, write_records
from pd_v2.recordio.storage import matching

__all__ = ["reader", "writer"]


class reader:
    """Reader of the records of files: `read()` returns the next as bytes, None after the last.

    `paths` is a file name or pattern, a comma-separated string of them, or a list.
    FileNotFoundError if nothing matches, DamagedFile if a file is damaged.
    """

    def __init__(self, paths):
        patterns = paths.split(",") if isinstance(paths, str) else list(paths)
        names = [name for pattern in patterns for name in matching("recordio", pattern)]
        self._records = (record for name in names for record in read_records(name))

    def read(self):
        """Return the next record, None after the last."""
        return next(self._records, None)

    def __iter__(self):
        return self._records

    def close(self):
        """Close the file."""
        self._records.close()


class writer:
    """Writer of a file of records: `write(bytes)` adds one, `close()` writes the file."""

    def __init__(self, path):
        self._path, self._records = path, []

    def write(self, record):
        """Add a record: bytes, or text, which is encoded as UTF-8."""
        text = isinstance(record, str)
        self._records.append(record.encode("utf-8", "surrogateescape") if text else bytes(record))

    def close(self):
        """Write the file atomically."""
        write_records(self._path, self._records)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if kind is None:
            self.close()
