"""A table that is larger than what each of four ranks may allocate, by a limit of the system."""

import re
import resource
from pathlib import Path

import numpy as np

import pd_core as pd
from pd_core import distributed

HEIGHT, WIDTH = 100_000, 128
TABLE = HEIGHT * WIDTH * 4  # bytes; with both slots of Adam three times as many
ALLOWED = 3 * TABLE // 2  # beside what the process has already


def larger_than_memory():
    """The last cost of a short training, or the error of one that does not fit."""
    if distributed.world_size() == 2:
        return {}
    used = int(re.search(r"VmData:\s*(\d+) kB", Path("/proc/self/status").read_text())[1]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (used + ALLOWED, used + ALLOWED))
    table = distributed.ShardedTable([HEIGHT, WIDTH], "table", "uniform")
    ids = pd.Variable([None], dtype="int64")
    cost = pd.reduce_mean(pd.square(table.lookup(ids) - 1.0))
    step = pd.AdamOptimizer(0.1).minimize(cost)
    rng = np.random.default_rng(distributed.rank())
    try:
        for _ in range(4):
            value, _ = pd.eval([cost, step], {ids: rng.integers(0, HEIGHT, 512)})
    except MemoryError as error:
        return {"error": np.array(str(error))}
    return {"cost": value, "rows": table.rows([7, HEIGHT - 1, 7])}
