"""The client of a master, with the methods of 2017's."""

from weakref import WeakSet

from pd_v2.master.connection import connect
from pd_v2.master.dataset import Dataset
from pd_v2.master.records import Records

_PASS_FINISHED = -2


_clients = WeakSet()


def has_clients():
    """Return whether this process has a client of a master, such as one of a `cloud_reader`."""
    return bool(_clients)


class client:
    """Client that reads records of a dataset; in each pass every record goes to one client.

    Clients with the same etcd_endpoints, any text, belong to one job. The environment variable
    PD_MASTER, host:port, says where the master is; without it the clients of this process share
    the chunks among themselves. timeout_sec is how long to wait for a master that never answered.
    buf_size has no effect.
    """

    def __init__(self, etcd_endpoints, timeout_sec, buf_size=0):
        _clients.add(self)
        self._job, self._timeout = str(etcd_endpoints), float(timeout_sec)
        self._dataset = self._records = None

    def set_dataset(self, paths):
        """Set the RecordIO files to read: a list of names or patterns.

        The first client of a job looks where their chunks are; for others they have to be the same.
        """
        paths = (paths,) if isinstance(paths, str) else tuple(paths)
        if self._dataset is not None and self._dataset.patterns != paths:
            known = [*self._dataset.patterns]
            raise ValueError(f"master: the dataset is {known} already, not {[*paths]}")
        self._dataset = Dataset(self._job, paths, self._timeout)

    def paddle_start_get_records(self, pass_id):
        """Start a pass, numbered from 0, with the next call of `next_record`."""
        if self._dataset is None:
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
        return Records(self._dataset, pass_id)

    def request_save_model(self, trainer_id, block_ms):
        """Return 1 if this trainer should save the model, 0 if another one is about to.

        Another one is about to for block_ms milliseconds after its own request returned 1.
        """
        if not str(trainer_id):
            raise ValueError("master: request_save_model needs a trainer_id")
        approved = connect().link.call(
            "may_save",
            self._timeout,
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
