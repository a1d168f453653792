"""The client of a master, with the methods of 2017's."""

import os

from pd_v2.master.connection import connect
from pd_v2.master.records import Records
from pd_v2.recordio.chunks import chunk_offsets, matching

_PASS_FINISHED = -2


class client:
    """Client that reads records of a dataset; in each pass every record goes to one client.

    Clients with the same etcd_endpoints, any text, belong to one job. The environment variable
    PD_MASTER, host:port, says where the master is; without it the clients of this process share
    the chunks among themselves. timeout_sec is how long to wait for a master that never answered.
    buf_size has no effect.
    """

    def __init__(self, etcd_endpoints, timeout_sec, buf_size=0):
        self.timeout = float(timeout_sec)
        self.dataset = None  # its number
        self._job = str(etcd_endpoints)
        self._paths = self._files = self._records = None
        self._connection = self._worker = None

    @property
    def worker(self):
        """The name of this worker in the journal."""
        return self._worker or connect().worker

    def adopt(self, worker):
        """Go on as the worker of this name, unless PD_WORKER says another; return whether it is so.

        Without a master there is no other worker.
        """
        connection = self.connect()
        if not (connection.is_named and connection.link.is_shared):
            self._worker = worker
        return self.worker == worker

    def set_dataset(self, paths):
        """Set the RecordIO files to read: a list of names or patterns.

        The first client of a job looks where their chunks are; for others they have to be the same.
        """
        paths = (paths,) if isinstance(paths, str) else tuple(paths)
        if self._paths not in (None, paths):
            raise ValueError(f"master: the dataset is {[*self._paths]} already, not {[*paths]}")
        names = [name for pattern in paths for name in matching("master", pattern)]
        files = [[name, os.path.getsize(name)] for name in names]
        known = {"job": self._job, "patterns": list(paths), "files": files}
        connection = connect()
        link = connection.link
        number = link.call("find_dataset", self.timeout, **known)
        if number is None:
            offsets = [list(chunk_offsets(name)) for name in names]
            number = link.call("add_dataset", self.timeout, **known, offsets=offsets)
        self.dataset, self._paths, self._files = number, paths, frozenset(names)
        self._connection = connection

    def connect(self):
        """Return the connection of this process; in a forked one the dataset is set again."""
        if self._connection is not connect():
            self.set_dataset(self._paths)
        return self._connection

    def require_own(self, name):
        """ValueError if a file is not one of the dataset, whatever a master says."""
        if name not in self._files:
            raise ValueError(f"master: {name} is no file of the dataset {[*self._paths]}")

    def paddle_start_get_records(self, pass_id):
        """Start a pass, numbered from 0, with the next call of `next_record`."""
        if self.dataset is None:
            raise RuntimeError("master: set_dataset comes before paddle_start_get_records")
        self.release()
        self._records = self.records(pass_id)

    def next_record(self):
        """Return (record, 0), or (None, -2) at the end of the pass."""
        if self._records is None:
            raise RuntimeError("master: paddle_start_get_records comes before next_record")
        record = next(self._records, None)
        return (None, _PASS_FINISHED) if record is None else (record, 0)

    def records(self, pass_id):
        """Return an iterator over this client's records of a pass."""
        return Records(self, pass_id)

    def request_save_model(self, trainer_id, block_ms):
        """Return 1 if this trainer should save the model, 0 if another one is about to.

        Another one is about to for block_ms milliseconds after its own request returned 1.
        """
        if not str(trainer_id):
            raise ValueError("master: request_save_model needs a trainer_id")
        approved = connect().link.call(
            "may_save",
            self.timeout,
            job=self._job,
            trainer=str(trainer_id),
            seconds=block_ms / 1000,
        )
        return int(approved)

    def release(self):
        """Return unfinished tasks to the master and stop reading."""
        if self._records is not None:
            self._records.close()
        self._records = None


def get_c_lib():
    """Raise OSError: unlike in 2017 there is no native library."""
    raise OSError("paddle_master: there is no native library, paddle.v2.master.client is Python")
