"""The journal of a ledger: what each pass saw."""

import contextlib
import pathlib
import sqlite3
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Pass:
    """A pass of a job over a dataset; `leases` are the rows of its journal, oldest first.

    `seen` counts how often each task was done. `outcomes` counts leases; a lease that has not ended
    is "leased". `records` is the number of records in the tasks that are done.
    """

    job: str
    patterns: str
    number: int
    tasks: list  # (file, offset) of each
    leases: list = field(default_factory=list)

    @property
    def seen(self):
        """How often each task was done, by its index."""
        done = Counter(row["task"] for row in self.leases if _is_done(row))
        return [done[task] for task in range(len(self.tasks))]

    @property
    def is_complete(self):
        """Whether every task was done exactly once."""
        return all(count == 1 for count in self.seen)

    @property
    def outcomes(self):
        """How many leases ended in which way."""
        return Counter(row["outcome"] or "leased" for row in self.leases)

    @property
    def records(self):
        """The number of records in the tasks that are done, as far as it is known."""
        return sum(row["records"] or 0 for row in self.leases if _is_done(row))


def _is_done(row):
    """Whether a task was read to its end: here, or before the checkpoint of one who went on."""
    return row["outcome"] in ("done", "restored")


def read_journal(path):
    """Return the passes that were entered, by job and number; a master may be writing the file."""
    address = pathlib.Path(path).resolve().as_uri() + "?mode=ro"
    with contextlib.closing(sqlite3.connect(address, uri=True, timeout=30)) as db:
        db.row_factory = sqlite3.Row
        db.execute("BEGIN")  # what is read belongs together
        tasks = {}
        for row in db.execute("SELECT dataset, file, offset FROM tasks ORDER BY dataset, task"):
            tasks.setdefault(row["dataset"], []).append((row["file"], row["offset"]))
        rows = db.execute(
            "SELECT dataset, pass, job, patterns FROM passes JOIN datasets USING (dataset) "
            "ORDER BY job, dataset, pass"
        )
        passes = {
            (row["dataset"], row["pass"]): Pass(
                row["job"], row["patterns"], row["pass"], tasks.get(row["dataset"], [])
            )
            for row in rows
        }
        for row in db.execute("SELECT * FROM journal ORDER BY lease"):
            passes[row["dataset"], row["pass"]].leases.append(dict(row))
    return list(passes.values())


def describe(one):
    """Yield lines on a pass: a summary, tasks that are not done once, leases that were in vain."""
    counts = ", ".join(f"{n} {outcome}" for outcome, n in sorted(one.outcomes.items()))
    tasks, seen = one.tasks, one.seen
    done = sum(count == 1 for count in seen)
    yield (
        f"{one.job} {one.patterns} pass {one.number}: {done} of {len(tasks)} chunks done exactly "
        f"once, {one.records} records; leases: {counts or 'none'}"
    )
    for (file, offset), count in zip(tasks, seen, strict=True):
        if count != 1:
            yield f"  {file} at byte {offset}: done {count} times"
    for row in one.leases:
        if row["outcome"] not in ("done", "restored", None):
            file, offset = tasks[row["task"]]
            read = "" if row["records"] is None else f" after {row['records']} records"
            late = ", finished too late" if row["refused"] is not None else ""
            why = f": {row['error']}" if row["error"] else ""
            yield (
                f"  lease {row['lease']} of {row['worker']}: {file} at byte {offset} "
                f"{row['outcome']}{read}{late}{why}"
            )
