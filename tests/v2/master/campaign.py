"""Workers of a master that are killed at random, as the master is: what did each pass see?

python -m tests.v2.master.campaign --kills 50
"""

import argparse
import multiprocessing
import os
import pickle
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from pd_v2 import master
from pd_v2.master.connection import connect
from pd_v2.master.journal import describe, read_journal
from pd_v2.master.links import RemoteLink
from pd_v2.reader import creator
from pd_v2.recordio.chunks import write_records

RECORDS = 10  # in a chunk, which is a file
SECONDS = 0.004  # for a record
LEASE = 1.0  # seconds
MASTER_EVERY = 4  # kills, of which one is of the master


def work(folder):
    """Read passes until that of the file `last`; log each record with its pass and process."""
    reader = creator.cloud_reader(f"{folder}/data-*", "campaign", timeout_sec=60)
    number = 0
    with open(folder / f"log-{os.getpid()}", "ab", buffering=0) as log:
        while True:
            for sample in reader():
                log.write(b"%d %s %d\n" % (number, connect().process.encode(), sample))
                time.sleep(SECONDS)
            if (folder / "last").exists() and number >= int((folder / "last").read_text()):
                return
            number += 1


def answers(address):
    """Return whether a master serves at an address."""
    try:
        return bool(RemoteLink(address).call_once("settings", 5.0))
    except OSError:
        return False


def run(folder, chunks, kills, workers, seed):
    """Kill `kills` processes at random moments; return the kills of workers and of the master."""
    for k in range(chunks):
        samples = [pickle.dumps(k * RECORDS + i) for i in range(RECORDS)]
        write_records(folder / f"data-{k:03}", samples)
    draw, killed = random.Random(seed), Counter()
    context = multiprocessing.get_context("fork")
    options = ("--lease", str(LEASE))
    with master.start(folder / "state", "127.0.0.1", *options) as served:
        os.environ["PD_MASTER"] = served.address

        def start():
            process = context.Process(target=work, args=(folder,))
            process.start()
            return process

        running = [start() for _ in range(workers)]
        try:
            while killed.total() < kills:
                time.sleep(draw.uniform(0.05, 0.6))
                if not answers(served.address):  # it is being started again
                    if draw.random() < 0.8:
                        continue
                elif killed.total() % MASTER_EVERY == MASTER_EVERY // 2:
                    os.kill(served.pid, signal.SIGKILL)
                    killed["master"] += 1
                    continue
                place = draw.randrange(workers)
                assert running[place].is_alive(), running[place].exitcode
                running[place].kill()
                running[place].join()
                running[place] = start()
                killed["worker"] += 1
            entered = max(one.number for one in read_journal(folder / "state"))
            (folder / "new").write_text(str(entered + 1))
            (folder / "new").rename(folder / "last")
            for process in running:
                process.join(120)
                assert process.exitcode == 0, process
        finally:
            for process in running:
                process.kill()
    return killed


def logged(folder):
    """Count (pass, process, record) in the logs of all workers."""
    counts = Counter()
    for path in folder.glob("log-*"):
        for line in path.read_text().splitlines():
            number, process, sample = line.split()
            counts[int(number), process, int(sample)] += 1
    return counts


def check(folder):
    """Check that each pass saw every chunk once, says the journal, and that the logs agree."""
    passes, logs = read_journal(folder / "state"), logged(folder)
    for one in passes:
        assert one.is_complete, "\n".join(describe(one))
        assert one.records == len(one.tasks) * RECORDS
        for row in one.leases:
            samples = range(row["task"] * RECORDS, (row["task"] + 1) * RECORDS)
            read = [logs[one.number, row["process"], sample] for sample in samples]
            if row["outcome"] == "done":
                assert row["records"] == RECORDS and min(read) >= 1, (row, read)
    leases = Counter(
        (one.number, row["process"], row["task"]) for one in passes for row in one.leases
    )
    for (number, process, sample), count in logs.items():
        assert count <= leases[number, process, sample // RECORDS], (number, process, sample)
    return passes, logs


def main(argv):
    """Run a campaign and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--chunks", type=int, default=200)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder, start = Path(name), time.monotonic()
        killed = run(folder, options.chunks, options.kills, options.workers, options.seed)
        passes, logs = check(folder)
    outcomes = sum((one.outcomes for one in passes), Counter())
    refused = sum(row["refused"] is not None for one in passes for row in one.leases)
    counted, seconds = sum(one.records for one in passes), time.monotonic() - start
    print(
        f"kills: {dict(killed)}; {len(passes)} passes of {options.chunks} chunks, each done "
        f"exactly once; leases: {dict(outcomes)}, {refused} finished too late; {logs.total()} "
        f"records read, {counted} of them counted; {seconds:.0f} s"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
