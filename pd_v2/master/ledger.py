"""The ledger of a master: which chunk was handed to whom, in a SQLite database.

A task is one chunk of a RecordIO file. In each pass over a dataset a task is todo, leased, done, or
failed. Each operation is one transaction, and may be repeated if its answer was lost.
"""

import functools
import json
import math
import sqlite3
import threading
import time

from pd_v2.master.schema import SCHEMA

LEASE_SECONDS = 30.0  # without a sign of life of the worker
TASK_SECONDS = 1200.0  # for a task, whatever its worker says; 2017's value
FAILURE_LIMIT = 3  # 2017's value


def _transaction(method):
    """Decorate a method, which gets the database inside a transaction."""

    @functools.wraps(method)
    def run(self, *args, **kwargs):
        # Both are C code, which a KeyboardInterrupt cannot leave half-way.
        with self._lock, self._db as db:
            db.execute("BEGIN IMMEDIATE")
            return method(self, db, *args, **kwargs)

    return run


class Ledger:
    """Tasks of datasets with their leases, in memory or in a file.

    A lease expires lease_seconds after the last `renew`, and task_seconds after it began. With
    waits=False no worker waits at the end of a pass: see `lease`. `clock` gives seconds.
    """

    def __init__(
        self,
        path=":memory:",
        failure_limit=FAILURE_LIMIT,
        lease_seconds=math.inf,
        task_seconds=math.inf,
        waits=True,
        clock=time.time,
    ):
        self.failure_limit, self.waits = failure_limit, waits
        self.lease_seconds, self.task_seconds = lease_seconds, task_seconds
        self._clock, self._lock = clock, threading.RLock()
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        # The journal can be read while the master writes; a killed process loses nothing.
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.executescript(SCHEMA)

    def close(self):
        """Close the database."""
        self._db.close()

    @_transaction
    def renew_all(self, db):
        """Renew all leases: while a master was away nobody could."""
        db.execute("UPDATE journal SET renewed = ? WHERE outcome IS NULL", (self._clock(),))

    # ---- operations of clients

    def settings(self):
        """Return what clients have to know."""
        return {"lease_seconds": self.lease_seconds}

    @_transaction
    def find_dataset(self, db, job, patterns, files):
        """Return the number of a job's dataset, or None if the job has no such dataset.

        `files` are [name, bytes] of the files that match the patterns; ValueError if they are not
        those with which the dataset was added.
        """
        row = db.execute(
            "SELECT dataset, files FROM datasets WHERE job = ? AND patterns = ?",
            (job, json.dumps(patterns)),
        ).fetchone()
        if row is None:
            return None
        number, known = row
        _require_same_files(job, json.loads(known), files)
        return number

    @_transaction
    def add_dataset(self, db, job, patterns, files, offsets):
        """Add a dataset to a job, unless it has it; return its number.

        `offsets` has a list for each of the files: where in it the chunks are.
        """
        if len(files) != len(offsets):
            raise ValueError(f"master: {len(files)} files, offsets of {len(offsets)}")
        key = job, json.dumps(patterns)
        text = json.dumps(files)
        added = db.execute("INSERT OR IGNORE INTO datasets VALUES (NULL, ?, ?, ?)", (*key, text))
        query = "SELECT dataset, files FROM datasets WHERE job = ? AND patterns = ?"
        number, known = db.execute(query, key).fetchone()
        if not added.rowcount:
            _require_same_files(job, json.loads(known), files)
            return number
        chunks = ((name, at) for (name, _), ats in zip(files, offsets, strict=True) for at in ats)
        rows = ((number, task, name, at) for task, (name, at) in enumerate(chunks))
        db.executemany("INSERT INTO tasks VALUES (?, ?, ?, ?)", rows)
        return number

    @_transaction
    def lease(self, db, dataset, pass_id, process, worker):
        """Hand a task of a pass to a worker, if there is one.

        Returns {"lease", "pass", "task", "file", "offset"}. {"wait": True} if none is left, but
        other processes have leases of this pass, which may come back. At the end of the pass
        {"dropped": [[file, offset, error], ...]}, the tasks that have failed too often.

        Leases of the process itself are never waited for: it may be the one who has to go on. With
        waits=False, for workers that take their steps together, those of others are not waited for
        either; a task that was left behind by a worker that died is handed out in a later pass, in
        addition.
        """
        now = self._clock()
        self._expire(db, now)
        self._begin(db, dataset, pass_id)
        found = db.execute(
            "SELECT pass, task FROM progress WHERE dataset = ? AND pass = ? AND state = 'todo' "
            "ORDER BY failures, task LIMIT 1",
            (dataset, pass_id),
        ).fetchone()
        if found is None and not self.waits:
            found = self._left_behind(db, dataset, pass_id)
        if found is not None:
            return self._grant(db, dataset, *found, process, worker, now)
        others = db.execute(
            "SELECT 1 FROM journal INDEXED BY held "
            "WHERE outcome IS NULL AND dataset = ? AND pass = ? AND process != ? LIMIT 1",
            (dataset, pass_id, process),
        ).fetchone()
        if others is not None and self.waits:
            return {"wait": True}
        return {"dropped": self._dropped(db, dataset, pass_id)}

    @_transaction
    def renew(self, db, leases):
        """Renew leases: their worker is alive."""
        now = self._clock()
        rows = [(now, number) for number in leases]
        db.executemany("UPDATE journal SET renewed = ? WHERE lease = ? AND outcome IS NULL", rows)

    @_transaction
    def finish(self, db, lease, records):
        """Mark a task as done; return False if it was handed to another worker in the meantime."""
        now = self._clock()
        (outcome,) = _one(db, "SELECT outcome FROM journal WHERE lease = ?", lease)
        if outcome == "done":
            return True
        done = db.execute("UPDATE progress SET state = 'done' WHERE lease = ?", (lease,)).rowcount
        if done:
            self._end(db, lease, now, "done", records)
        else:
            db.execute("UPDATE journal SET refused = ? WHERE lease = ?", (now, lease))
        return bool(done)

    @_transaction
    def fail(self, db, lease, error):
        """Return a task that could not be read; return True if that was the last attempt."""
        now = self._clock()
        (outcome,) = _one(db, "SELECT outcome FROM journal WHERE lease = ?", lease)
        if outcome is None:
            db.execute(
                "UPDATE progress SET failures = failures + 1, lease = NULL, "
                "state = CASE WHEN failures + 1 >= ? THEN 'failed' ELSE 'todo' END WHERE lease = ?",
                (self.failure_limit, lease),
            )
            self._end(db, lease, now, "failed", 0, error)
        query = (
            "SELECT state FROM progress JOIN journal USING (dataset, pass, task) "
            "WHERE journal.lease = ?"
        )
        return _one(db, query, lease) == ("failed",)

    @_transaction
    def release(self, db, lease, records):
        """Return a task of which a number of records was read."""
        if _one(db, "SELECT outcome FROM journal WHERE lease = ?", lease) == (None,):
            self._return(db, lease, self._clock(), "released", records)

    @_transaction
    def release_process(self, db, process):
        """Return all tasks of a process, at its end."""
        now = self._clock()
        query = "SELECT lease FROM journal WHERE outcome IS NULL AND process = ?"
        for (lease,) in db.execute(query, (process,)).fetchall():
            self._return(db, lease, now, "released", None)

    @_transaction
    def resume(self, db, dataset, pass_id, process, worker, done, chunk):
        """Bring a worker to a position in a pass; return a lease of its chunk, None if not there.

        `done` are the tasks of the pass that the worker had finished at the position; those that it
        has finished since, in later passes too, are to be read again. `chunk` is [pass, task] of
        the chunk that it was in, or None.
        """
        now = self._clock()
        self._expire(db, now)
        self._begin(db, dataset, pass_id)
        rows = db.execute(
            "SELECT lease, pass, task FROM progress JOIN journal USING (dataset, pass, task, lease)"
            " WHERE dataset = ? AND pass >= ? AND worker = ? AND state IN ('leased', 'done')",
            (dataset, pass_id, worker),
        ).fetchall()
        kept = set(done)
        for lease, of_pass, task in rows:
            if of_pass > pass_id or task not in kept:
                self._return(db, lease, now, "rewound")
        query = (
            "SELECT task FROM progress WHERE dataset = ? AND pass = ? AND task = ? AND "
            "state = 'todo'"
        )
        for task in done:
            if db.execute(query, (dataset, pass_id, task)).fetchone() is not None:
                granted = self._grant(db, dataset, pass_id, task, process, worker, now)
                db.execute(
                    "UPDATE progress SET state = 'done' WHERE lease = ?", (granted["lease"],)
                )
                self._end(db, granted["lease"], now, "restored")
        if chunk is None:
            return None
        self._begin(db, dataset, chunk[0])
        if db.execute(query, (dataset, *chunk)).fetchone() is None:
            return None
        return self._grant(db, dataset, *chunk, process, worker, now)

    @_transaction
    def may_save(self, db, job, trainer, seconds):
        """Return whether a trainer may save; for so many seconds no other one may."""
        now = self._clock()
        row = db.execute("SELECT trainer, until FROM savers WHERE job = ?", (job,)).fetchone()
        if row is not None and row[0] != trainer and now < row[1]:
            return False
        db.execute("REPLACE INTO savers VALUES (?, ?, ?)", (job, trainer, now + seconds))
        return True

    # ---- parts of a transaction

    def _begin(self, db, dataset, pass_id):
        """Make all tasks todo in a pass that nobody has entered yet."""
        if db.execute("SELECT 1 FROM datasets WHERE dataset = ?", (dataset,)).fetchone() is None:
            raise ValueError(f"master: there is no dataset {dataset}; was the state replaced?")
        if db.execute("INSERT OR IGNORE INTO passes VALUES (?, ?)", (dataset, pass_id)).rowcount:
            db.execute(
                "INSERT INTO progress SELECT dataset, ?, task, 'todo', 0, NULL FROM tasks "
                "WHERE dataset = ?",
                (pass_id, dataset),
            )

    def _grant(self, db, dataset, pass_id, task, process, worker, now):
        lease = db.execute(
            "INSERT INTO journal (dataset, pass, task, worker, process, leased, renewed) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (dataset, pass_id, task, worker, process, now, now),
        ).lastrowid
        db.execute(
            "UPDATE progress SET state = 'leased', lease = ? "
            "WHERE dataset = ? AND pass = ? AND task = ?",
            (lease, dataset, pass_id, task),
        )
        query = "SELECT file, offset FROM tasks WHERE dataset = ? AND task = ?"
        file, offset = db.execute(query, (dataset, task)).fetchone()
        return {"lease": lease, "pass": pass_id, "task": task, "file": file, "offset": offset}

    def _expire(self, db, now):
        """Return the tasks of workers that are silent, or take too long.

        They keep the lease's number, so that it can still `finish` one that nobody has got since.
        """
        query = "SELECT lease FROM journal WHERE outcome IS NULL AND (renewed < ? OR leased < ?)"
        limits = now - self.lease_seconds, now - self.task_seconds
        for (lease,) in db.execute(query, limits).fetchall():
            db.execute("UPDATE progress SET state = 'todo' WHERE lease = ?", (lease,))
            self._end(db, lease, now, "expired")

    def _left_behind(self, db, dataset, pass_id):
        """Return (pass, task) of an earlier pass whose lease has expired, or None."""
        return db.execute(
            "SELECT pass, task FROM progress INDEXED BY by_state "
            "CROSS JOIN journal USING (dataset, pass, task, lease) "
            "WHERE dataset = ? AND pass < ? AND state = 'todo' AND outcome = 'expired' "
            "ORDER BY pass, task LIMIT 1",
            (dataset, pass_id),
        ).fetchone()

    def _return(self, db, lease, now, outcome, records=None):
        """Make the task of a lease todo again, unless another lease has it."""
        query = "UPDATE progress SET state = 'todo', lease = NULL WHERE lease = ?"
        if db.execute(query, (lease,)).rowcount:
            self._end(db, lease, now, outcome, records)

    def _end(self, db, lease, now, outcome, records=None, error=None):
        db.execute(
            "UPDATE journal SET ended = ?, outcome = ?, records = coalesce(?, records), error = ? "
            "WHERE lease = ?",
            (now, outcome, records, error, lease),
        )

    def _dropped(self, db, dataset, pass_id):
        rows = db.execute(
            # with max() SQLite takes the other columns from the row of the maximum; with CROSS it
            # keeps the order of the tables, of which the first has few rows that match
            "SELECT file, offset, error, max(journal.lease) FROM progress INDEXED BY by_state "
            "CROSS JOIN tasks USING (dataset, task) CROSS JOIN journal USING (dataset, pass, task) "
            "WHERE dataset = ? AND pass = ? AND state = 'failed' AND outcome = 'failed' "
            "GROUP BY task ORDER BY task",
            (dataset, pass_id),
        )
        return [list(row[:3]) for row in rows]


# What a client may ask a master for.
OPERATIONS = {
    method.__name__: method
    for method in (
        *(Ledger.settings, Ledger.find_dataset, Ledger.add_dataset, Ledger.lease, Ledger.renew),
        *(Ledger.finish, Ledger.fail, Ledger.release, Ledger.release_process, Ledger.resume),
        Ledger.may_save,
    )
}


def _one(db, query, lease):
    """Return the row of a lease."""
    row = db.execute(query, (lease,)).fetchone()
    if row is None:
        raise ValueError(f"master: there is no lease {lease}; was the state replaced?")
    return row


def _require_same_files(job, known, files):
    """ValueError if files are not those of a dataset."""
    before, now = (dict(pairs) for pairs in (known, files))
    different = sorted(n for n in before.keys() | now.keys() if before.get(n) != now.get(n))
    if different:
        name = different[0]
        raise ValueError(
            f"master: the dataset of the job {job!r} has changed: {name} has "
            f"{_bytes(now.get(name))}, it had {_bytes(before.get(name))} when it was first set\n"
            "  hint: another etcd_endpoints, or another state of the master, begins anew"
        )


def _bytes(size):
    return "no file" if size is None else f"{size} bytes"
