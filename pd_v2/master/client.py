"""The client of a master, which is a queue of tasks in this process: there is no connection."""

import functools
import threading
import time

from pd_v2.master.task_queue import TaskQueue
from pd_v2.recordio.chunks import chunk_offsets, matching, read_chunk

_PASS_FINISHED = -2


class client:
    """Client that reads records of a dataset; in each pass every record goes to one client.

    Clients with the same etcd_endpoints, any text, belong to one job. timeout_sec and buf_size have
    no effect, as there is no connection.
    """

    def __init__(self, etcd_endpoints, timeout_sec, buf_size=0):
        self._job = _job(etcd_endpoints)
        self._queue = None
        self._paths = None
        self._records = None

    def set_dataset(self, paths):
        """Set the RecordIO files to read: a list of names or patterns.

        Patterns are expanded once per job, by its first client.
        """
        paths = (paths,) if isinstance(paths, str) else tuple(paths)
        if self._paths not in (None, paths):
            raise ValueError(f"master: the dataset is {[*self._paths]} already, not {[*paths]}")
        self._queue, self._paths = self._job.queue(paths), paths

    def paddle_start_get_records(self, pass_id):
        """Start a pass, numbered from 0, with the next call of `next_record`."""
        if self._queue is None:
            raise RuntimeError("master: set_dataset comes before paddle_start_get_records")
        self._records = self.records(pass_id)

    def next_record(self):
        """Return (record, 0), or (None, -2) at the end of the pass."""
        if self._records is None:
            raise RuntimeError("master: paddle_start_get_records comes before next_record")
        record = next(self._records, None)
        return (None, _PASS_FINISHED) if record is None else (record, 0)

    def records(self, pass_id):
        """Yield this client's records of a pass, after all clients have left the earlier one."""
        self._queue.enter(self, pass_id)
        try:
            while (task := self._queue.take(self, pass_id)) is not None:
                yield from read_chunk(*task)
                self._queue.finish(self, task)
        finally:
            self._queue.leave(self, pass_id)

    def request_save_model(self, trainer_id, block_ms):
        """Return 1 if this trainer should save the model, 0 if another one is about to.

        Another one is about to for block_ms milliseconds after its own request returned 1.
        """
        if not str(trainer_id):
            raise ValueError("master: request_save_model needs a trainer_id")
        return int(self._job.may_save(str(trainer_id), block_ms / 1000))

    def release(self):
        """Return unfinished tasks to the queue and stop reading."""
        if self._records is not None:
            self._records.close()
        self._records = None


def get_c_lib():
    """Raise OSError: unlike in 2017 there is no native library."""
    raise OSError("paddle_master: there is no native library, paddle.v2.master.client is Python")


class _Job:
    """The state that the clients of a job share: queues of tasks, and the saving trainer."""

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
    """Return (file name, offset) of each chunk."""
    tasks = []
    for pattern in paths:
        names = matching("master", pattern)
        tasks += [(name, offset) for name in names for offset in chunk_offsets(name)]
    return tasks
