"""A dataset of a job, as one client sees it."""

from pd_v2.master.connection import connect
from pd_v2.recordio.chunks import chunk_offsets
from pd_v2.recordio.storage import matching, size_of


class Dataset:
    """The files of a job that match patterns; `number` is the dataset's in the ledger.

    `timeout` is how many seconds to wait for the master, `worker` the name that the client has in
    the journal.
    """

    def __init__(self, job, patterns, timeout):
        self.patterns, self.timeout = patterns, timeout
        self._job, self._connection, self._adopted = job, None, None
        self._find()

    @property
    def connection(self):
        """The connection of this process; in a forked one the dataset is looked up again."""
        if self._connection is not connect():
            self._find()
        return self._connection

    @property
    def worker(self):
        """The name of the worker in the journal."""
        return self._adopted or self.connection.worker

    def adopt(self, worker):
        """Go on as the worker of this name, unless PD_WORKER says another; return whether it is so.

        Without a master there is no other worker.
        """
        connection = self.connection
        if not (connection.is_named and connection.link.is_shared):
            self._adopted = worker
        return self.worker == worker

    def require_own(self, name):
        """ValueError if a file is not one of the dataset, whatever a master says."""
        if name not in self._names:
            raise ValueError(f"master: {name} is no file of the dataset {[*self.patterns]}")

    def _find(self):
        """Find the dataset in the ledger, or add it."""
        names = [name for pattern in self.patterns for name in matching("master", pattern)]
        files = [[name, size_of(name)] for name in names]
        known = {"job": self._job, "patterns": list(self.patterns), "files": files}
        connection = connect()
        number = connection.link.call("find_dataset", self.timeout, **known)
        if number is None:
            offsets = [list(chunk_offsets(name)) for name in names]
            number = connection.link.call("add_dataset", self.timeout, **known, offsets=offsets)
        self.number, self._names, self._connection = number, frozenset(names), connection
