"""A table of 20 million rows on four processes with 2 GB of memory each, beside one process.

`python -m tests.benchmarks.sparse_tables [ROWS]` trains a script of 2017 with each method on one
process, which holds the table whole, and by `pd-v2` on four. It prints times and memory, and fails
if rows differ by more than 1e-6. The memory of the four is limited by the system (RLIMIT_DATA).
"""

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import pd_core as pd
import pd_v2 as paddle
from tests.core.distributed import jobs

RANKS, LIMIT = 4, 2 << 30  # bytes
HEIGHT, WIDTH, STEPS, BATCH = 20_000_000, 16, 12, 256
OPT = paddle.optimizer
METHODS = {
    "sgd": lambda: OPT.Momentum(learning_rate=1e-3, regularization=OPT.L2Regularization(rate=0.01)),
    "momentum": lambda: OPT.Momentum(0.9, learning_rate=1e-4),
    "adagrad": lambda: OPT.AdaGrad(learning_rate=1e-3),
    "adam": lambda: OPT.Adam(learning_rate=1e-3),
}


def samples(height, seed=3):
    """Sequences of ids, of which some come often and most once, with a class."""
    rng = np.random.RandomState(seed)
    for _ in range(STEPS * BATCH):
        ids = np.concatenate([rng.randint(0, height, 6), rng.randint(0, 50, 2)])
        yield ids.tolist(), int(ids.sum() % 2)


def network(height):
    table = paddle.attr.Param(name="table", sparse_update=True)
    kind = paddle.data_type.integer_value_sequence(height)
    words = paddle.layer.data("words", kind)
    rows = paddle.layer.embedding(words, WIDTH, param_attr=table)
    pooled = paddle.layer.pooling(rows, paddle.pooling.Sum())
    output = paddle.layer.fc(pooled, 2, act=paddle.activation.Softmax())
    label = paddle.layer.data("label", paddle.data_type.integer_value(2))
    return paddle.layer.classification_cost(output, label)


def looked_at(height):
    """Ids that the training reads, and some that it does not."""
    read = np.unique([i for ids, _ in samples(height) for i in ids])
    return np.concatenate([read, np.arange(0, height, max(1, height // 5000)), [height - 1]])


def train(method, height):
    """Train; return {name: array} with rows, costs, times and memory of this process."""
    paddle.init(seed=5)
    start = time.perf_counter()
    cost = network(height)
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, METHODS[method]())
    drawn, costs, steps = time.perf_counter() - start, [], []

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            costs.append(event.cost)
            steps.append(time.perf_counter())

    trainer.train(paddle.batch(lambda: samples(height), BATCH), 1, handler)
    ids = looked_at(height)
    variable = next(
        p.variable for p in trainer._step.topology.parameters if p.config.name == "table"
    )
    if variable.is_shard:
        rows = variable.storage.table.rows(ids, pool.session)
    else:
        rows = pool.session.get(variable)[ids]
    status = Path("/proc/self/status").read_text()
    peak = int(re.search(r"VmHWM:\s*(\d+)", status)[1]) << 10
    step = np.median(np.diff(steps))
    return {"rows": rows, "costs": np.array(costs), "numbers": np.array([drawn, step, peak])}


def main(height=HEIGHT):
    """Compare, for each method."""
    failed = []
    print(
        f"{height:,} rows of {WIDTH}, {RANKS} processes with {LIMIT / 2**30:g} GiB of memory each"
    )
    print(
        f"{'':10}{'processes':>10}{'drawn, s':>10}{'step, ms':>10}{'peak, GiB':>11}{'differs':>10}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for method in METHODS:
            for ranks in (1, RANKS):
                command = [sys.executable, "-m", "pd_v2", "--own-files", __file__]
                command += [method, str(height), f"{folder}/{ranks}"]
                if ranks > 1:
                    command = [jobs.mpiexec(), "-n", str(ranks), *command]
                subprocess.run(command, env=os.environ | jobs.OWN, cwd=jobs.ROOT, check=True)
            (whole,) = loaded(folder, 1)
            parts = loaded(folder, RANKS)
            differs = max(
                np.abs(part[key] - whole[key]).max() for part in parts for key in ("rows", "costs")
            )
            for ranks, found in ((1, [whole]), (RANKS, parts)):
                drawn, step, peak = np.max([part["numbers"] for part in found], 0)
                line = f"{method:10}{ranks:>10}{drawn:>10.1f}{step * 1e3:>10.1f}"
                print(f"{line}{peak / 2**30:>11.2f}{differs * (ranks > 1):>10.1g}", flush=True)
            failed += [method] if differs > 1e-6 or peak > LIMIT else []
    if failed:
        sys.exit(f"differs, or takes too much memory: {', '.join(failed)}")


def loaded(folder, ranks):
    return [dict(np.load(f"{folder}/{ranks}-{r}.npz")) for r in range(ranks)]


def one(method, height, path):
    """Train in this process, which `main` has started; with several its memory is limited."""
    if pd.distributed.is_launched():
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    rank = os.environ.get("PADDLE_INIT_TRAINER_ID", "0")
    np.savez(f"{path}-{rank}.npz", **train(method, int(height)))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        one(*sys.argv[1:])
    else:
        main(*map(int, sys.argv[1:]))
