"""The client of a master. Nothing is connected to: the queue of tasks is in this process."""

import functools
import threading
import time

from pd_v2.master.task_queue import TaskQueue
from pd_v2.recordio.chunks import chunk_offsets, matching, read_chunk

_PASS_FINISHED = -2


class client:
    """Reads records of a dataset; no two clients get the same one in the same pass.

    Clients with the same etcd_endpoints, any text, belong to one job. timeout_sec and buf_size were
    for the connection, of which there is none.
    """

    def __init__(self, etcd_endpoints, timeout_sec, buf_size=0):
        self._job = _job(etcd_endpoints)
        self._queue = None
        self._paths = None
        self._records = None

    def set_dataset(self, paths):
        """Say which RecordIO files to read: a list of names or patterns.

        The first client of a job that does it decides which chunks there are.
        """
        paths = (paths,) if isinstance(paths, str) else tuple(paths)
        if self._paths not in (None, paths):
            raise ValueError(f"master: the dataset is {[*self._paths]} already, not {[*paths]}")
        self._queue, self._paths = self._job.queue(paths), paths

    def paddle_start_get_records(self, pass_id):
        """Begin a pass, from 0, with the next record."""
        if self._queue is None:
            raise RuntimeError("master: set_dataset comes before paddle_start_get_records")
        self._records = self.records(pass_id)

    def next_record(self):
        """(record, 0), or (None, -2) at the end of the pass."""
        if self._records is None:
            raise RuntimeError("master: paddle_start_get_records comes before next_record")
        record = next(self._records, None)
        return (None, _PASS_FINISHED) if record is None else (record, 0)

    def records(self, pass_id):
        """Yield this client's records of a pass; waits until no client is in an earlier one."""
        self._queue.enter(self, pass_id)
        try:
            while (task := self._queue.take(self, pass_id)) is not None:
                yield from read_chunk(*task)
                self._queue.finish(self, task)
        finally:
            self._queue.leave(self, pass_id)

    def request_save_model(self, trainer_id, block_ms):
        """1 if this trainer should save the model; 0 if another one has been asked to.

        That was less than its block_ms milliseconds ago.
        """
        if not str(trainer_id):
            raise ValueError("master: request_save_model needs a trainer_id")
        return int(self._job.may_save(str(trainer_id), block_ms / 1000))

    def release(self):
        """Give back what has been begun; the client reads no more."""
        if self._records is not None:
            self._records.close()
        self._records = None


def get_c_lib():
    """Raises OSError: 2017's client was a native library, this one is not."""
    raise OSError("paddle_master: there is no native library, paddle.v2.master.client is Python")


class _Job:
    """What the clients of a job share: queues of tasks, and who saves the model."""

    def __init__(self):
        self._lock = threading.Lock()
        self._queues = {}
        self._saver, self._saving_until = None, 0.0

    def queue(self, paths):
        with self._lock:
            if paths not in self._queues:
                self._queues[paths] = TaskQueue(_tasks(paths))
            return self._queues[paths]

    def may_save(self, trainer_id, seconds):
        with self._lock:
            now = time.monotonic()
            if self._saver != trainer_id and now < self._saving_until:
                return False
            self._saver, self._saving_until = trainer_id, now + seconds
            return True


@functools.cache
def _job(etcd_endpoints):
    return _Job()


def _tasks(paths):
    """(file name, offset) of each chunk."""
    tasks = []
    for pattern in paths:
        names = matching("master", pattern)
        tasks += [(name, offset) for name in names for offset in chunk_offsets(name)]
    return tasks
