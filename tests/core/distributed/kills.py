"""Trainings of 3 or 4 ranks, one of which kills itself at a random moment.

    python -m tests.core.distributed.kills [--kills 50] [--seed 0] [--end]

With MPI's fault tolerance the others have to go on: the same bits on all of them, every step taken
once. With --end the job ends with a message, and the program that is started again has to end with
the bits of a training that nobody killed.
"""

import argparse
import json
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
from hashlib import blake2b
from pathlib import Path

import numpy as np

import pd_core as pd
from pd_core import distributed, training
from pd_core.distributed import exchange, process

MODULE = "tests.core.distributed.kills"
ROWS, STEPS, RATE = 12, 30, 0.125
# Seconds from the kill until the others have taken a step, or the job has ended, in the campaign:
# on a machine that is busy with much else it may take longer
LIMIT = 10.0
PLACES = "before", "call", "exchanged", "timer"
HINT = "start the program again: Resume goes on from its newest checkpoint"
f32 = np.float32


# ---- a rank


class Killer:
    """Kill this process at a place of a step: before it, in the middle of the exchange, after it.

    `call` counts the calls of MPI in the step; half of them are killed before, half after it.
    """

    def __init__(self, folder, plan):
        self.folder, self.plan = folder, plan
        self.is_victim = distributed.rank() == plan.get("victim")
        self.calls = 0
        if self.is_victim and plan["place"] == "exchanged":
            whole = exchange.SessionExchange.__call__

            def exchanged(part, gradients):
                result = whole(part, gradients)
                self.check(self.step == plan["step"])
                return result

            exchange.SessionExchange.__call__ = exchanged

    def begin(self, step):
        """Begin a step."""
        self.step = step
        if not self.is_victim or step != self.plan["step"]:
            return
        if self.plan["place"] == "before":
            self.check(True)
        elif self.plan["place"] == "timer":
            threading.Timer(self.plan["seconds"], self.check, [True]).start()
        elif self.plan["place"] == "call":
            world = process.current().world
            world.comm = Counted(world.comm, self)

    def check(self, is_now):
        if is_now:
            (self.folder / "kill").write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)


class Counted:
    """A communicator whose calls are counted."""

    def __init__(self, comm, killer):
        self._comm, self._killer = comm, killer

    def __getattr__(self, name):
        method, killer = getattr(self._comm, name), self._killer

        def call(*arguments):
            killer.check(killer.calls == killer.plan["call"])
            killer.calls += 1
            result = method(*arguments)
            killer.calls += 1
            killer.check(killer.calls - 1 == killer.plan["call"])
            return result

        return call


def shard(*arrays):
    """The rows of this rank, among those that are left."""
    rank, size = distributed.rank(), distributed.world_size()
    return [a[rank * len(a) // size : (rank + 1) * len(a) // size] for a in arrays]


def network():
    x, y = pd.Variable([None, 5]), pd.Variable([None, 1])
    ids = pd.Variable([None, 2], dtype="int64")
    table = pd.Variable("table", data=np.ones((10, 4)), row_sparse=True)
    words = pd.reduce_sum(pd.gather(table, ids), 1)
    hidden = pd.tanh(pd.fc(x, 6) + pd.fc(words, 6))
    return x, ids, y, pd.reduce_mean(pd.square(pd.fc(hidden, 1) - y))


def samples():
    rng = np.random.default_rng(7)
    for _ in range(STEPS):
        yield (
            rng.standard_normal((ROWS, 5)).astype(f32),
            rng.integers(0, 8, (ROWS, 2)),
            rng.standard_normal((ROWS, 1)).astype(f32),
        )


def digest():
    kept = {v.name: array for v, array in pd.default_session().values().items()}
    return blake2b(b"".join(kept[name].tobytes() for name in sorted(kept))).hexdigest()[:16]


def surviving(killer):
    """Train, and go on without the rank that is killed."""
    x, ids, y, cost = network()
    # its gradient is 1 on all ranks: it tells how many updates there were
    counted = pd.Variable("counted", data=np.zeros(1))
    step = pd.AdamOptimizer(0.05).minimize(cost)
    count = pd.SGDOptimizer(RATE).minimize(pd.reduce_mean(counted))
    size, seconds, taken = distributed.world_size(), None, 0
    for k, batch in enumerate(samples()):
        killer.begin(k)
        feeds = dict(zip((x, ids, y), shard(*batch), strict=True))
        pd.eval([cost, step, count], feeds)
        taken += 1
        if seconds is None and distributed.world_size() < size:
            seconds = time.time() - float((killer.folder / "kill").read_text())
    assert len(distributed.allgather(taken)) == distributed.world_size()
    updates = float(counted.val()[0]) / -RATE
    return {"taken": taken, "updates": updates, "seconds": seconds}


def resumed(killer):
    """Train, from the newest checkpoint on if there is one."""
    x, ids, y, cost = network()
    parts = [shard(*batch) for batch in samples()]
    arrays = [np.concatenate(column) for column in zip(*parts, strict=True)]
    reader = training.ArrayReader(*arrays, batch_size=ROWS // distributed.world_size())
    runner = training.Runner()
    folder = killer.folder / "checkpoints"
    items = [
        training.Device(),
        training.Resume(folder, begin=True),
        training.SaveEvery(4, folder),
        training.Counter(),
        Kill(killer),
        training.Data(reader, inputs=[x, ids, y]),
        training.ForwardBackward(cost),
        training.Update(pd.AdamOptimizer(0.05)),
    ]
    for item in items:
        runner.add_item(item)
    with runner:
        runner.run(1)
    assert runner.context.batches == STEPS
    return {"checkpoints": sorted(p.name for p in folder.glob("batch-*"))}


class Kill(training.RunnerItem):
    """Begin a step of a Killer at the beginning of each batch."""

    def __init__(self, killer):
        self.killer = killer

    def on_batch_begin(self, following):
        self.killer.begin(self.context.batches)
        return following()


def rank(program, folder, plan):
    plan, folder = json.loads(plan), Path(folder)
    distributed.init(bucket_bytes=64, divisions=plan.get("divisions", 1))
    before = distributed.rank()
    result = globals()[program](Killer(folder, plan)) | {"digest": digest()}
    if plan.get("undisturbed"):  # the same training from the beginning
        pd.reset()
        globals()[program](Killer(folder / "undisturbed", plan))
        result["undisturbed"] = digest()
    (folder / f"end-{before}").write_text(json.dumps(result))


# ---- the job


def plan_of(rng):
    plan = {"ranks": rng.choice([3, 4]), "place": rng.choice(PLACES), "step": rng.randrange(STEPS)}
    plan |= {"victim": rng.randrange(plan["ranks"]), "seconds": rng.random() * 0.02}
    plan["divisions"] = rng.choice([1, 2])
    return plan | {"call": rng.randrange(200) if rng.random() < 0.5 else rng.randrange(20)}


def start(program, folder, plan, **options):
    from tests.core.distributed import jobs

    arguments = "-m", MODULE, "--rank", program, folder, json.dumps(plan)
    job = jobs.run(plan["ranks"], *arguments, check=False, **options)
    ends = {int(p.name[4:]): json.loads(p.read_text()) for p in Path(folder).glob("end-*")}
    return job, ends


def shrinking(plan, program="surviving"):
    """Kill a rank of a job that goes on; return the seconds until all others have."""
    from tests.core.distributed.jobs import FAULT_TOLERANT

    with tempfile.TemporaryDirectory() as folder:
        job, ends = start(program, folder, plan, options=FAULT_TOLERANT)
        kill, wrote = Path(folder) / "kill", Path(folder) / f"end-{plan['victim']}"
        killed = kill.exists()
        # killed when it had written its result and waited for the others
        late = killed and wrote.exists() and wrote.stat().st_mtime <= float(kill.read_text())
    assert job.returncode == 0, (plan, job.stderr[:3000])
    left = set(range(plan["ranks"])) - ({plan["victim"]} if killed else set())
    assert set(ends) == left | ({plan["victim"]} if late else set()), (
        plan,
        ends,
        job.stderr[:3000],
    )
    assert len({end["digest"] for end in ends.values()}) == 1, (plan, ends)
    if program == "resumed":
        saved = {str(end["checkpoints"]) for end in ends.values()}
        assert saved == {"['batch-00024', 'batch-00028']"}, (plan, ends)
    else:
        assert all(end["taken"] == STEPS == end["updates"] for end in ends.values()), (plan, ends)
    if not killed:
        return None
    line = rf"rank {plan['victim']} of {plan['ranks']} was lost: .*; {len(left)} ranks go on\n"
    assert len(re.findall(line, job.stderr)) == 1, (plan, job.stderr[:3000])
    seconds = [end["seconds"] for end in ends.values() if end.get("seconds") is not None]
    return max(seconds, default=None)


def ending(plan, undisturbed=None):
    """Kill a rank of a job that ends, and start it again; return the seconds until its end.

    The result has the bits `undisturbed`, without them those of a training in the second job.
    """
    with tempfile.TemporaryDirectory() as folder:
        job, ends = start("resumed", folder, plan)
        now, kill = time.time(), Path(folder) / "kill"
        killed = kill.exists()
        seconds = now - float(kill.read_text()) if killed else None
        if killed:
            assert job.returncode != 0, (plan, job.stderr[:3000])
            lost = f"rank {plan['victim']} of {plan['ranks']} was lost"
            said = job.stderr.count(HINT), job.stderr.count(lost)
            # MPI_Finalize, where ranks wait that are through, can say nothing
            assert said == (1, 1) or (ends and said == (0, 0)), (plan, job.stderr[:3000])
            assert "Traceback" not in job.stderr, (plan, job.stderr[:3000])
            again = {"ranks": plan["ranks"], "undisturbed": undisturbed is None}
            job, ends = start("resumed", folder, again)
    assert job.returncode == 0, (plan, job.stderr[:3000])
    bits = {end.get("undisturbed", undisturbed) for end in ends.values()}
    assert {end["digest"] for end in ends.values()} == bits, (plan, ends)
    assert len(ends) == plan["ranks"], (plan, ends)
    return seconds


def undisturbed(ranks):
    with tempfile.TemporaryDirectory() as folder:
        _, ends = start("resumed", folder, {"ranks": ranks})
    (bits,) = {end["digest"] for end in ends.values()}
    return bits


def campaign(kills, seed, end):
    rng, seconds = random.Random(seed), []
    bits = {ranks: undisturbed(ranks) for ranks in (3, 4)} if end else {}
    while len(seconds) < kills:
        plan = plan_of(rng)
        took = ending(plan, bits[plan["ranks"]]) if end else shrinking(plan)
        print(f"{len(seconds) + 1:3} {plan} {took and round(took, 3)}", flush=True)
        if took is not None:
            assert took < LIMIT, (plan, took)
            seconds.append(took)
    print(f"{kills} kills: median {np.median(seconds):.2f} s, longest {max(seconds):.2f} s")


def main(argv):
    if argv[:1] == ["--rank"]:
        rank(*argv[1:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--end", action="store_true", help="the job ends, and is started again")
    arguments = parser.parse_args(argv)
    campaign(arguments.kills, arguments.seed, arguments.end)


if __name__ == "__main__":
    main(sys.argv[1:])
