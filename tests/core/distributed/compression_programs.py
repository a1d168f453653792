"""Trainings with compressed gradients and local steps, stopped and resumed, on real ranks.

`python -m tests.core.distributed.compression_programs FOLDER`.
"""

import sys
from pathlib import Path

import numpy as np

import pd_core as pd
from pd_core import distributed
from tests.core.distributed import resume_programs
from tests.core.distributed.resume_programs import At, arrays, kill, trained

OPTIONS = {
    "int8": {"compression": "int8"},
    "top_k": {"compression": "top_k", "top_k": 0.2},
    "local": {"local_steps": 3},
    "exact": {"reproducible": True},
}


def results(folder, **options):
    """A training that is not disturbed, and one that is stopped after 5 batches and goes on."""
    distributed.init(bucket_bytes=256, **options)
    resume_programs.rank, resume_programs.size = distributed.rank(), distributed.world_size()
    whole = trained(folder / "whole", arrays(), True)
    lost = distributed.state()
    trained(folder / "killed", arrays(), True, At(5, kill))
    resumed = trained(folder / "killed", arrays(), True)
    again = distributed.state()
    if "compression" in options:  # more ranks than there are go on: all of it is there
        parts = folder / "killed" / "batch-00014" / "compression"
        assert len(list(parts.iterdir())) == distributed.world_size()
    distributed.shutdown()
    return {"whole": whole, "resumed": resumed, "lost": lost, "again": again}


def main(path):
    found = {name: results(Path(path) / name, **each) for name, each in OPTIONS.items()}
    distributed.init(local_steps=2)
    try:
        table = distributed.ShardedTable([8, 2], "words", initializer="uniform")
        ids = pd.Variable([None], dtype="int64")
        step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(table.lookup(ids)))
        pd.eval(step, {ids: [1, 2]})
    except pd.GraphError as error:
        found["table"] = str(error)
    np.save(Path(path) / f"{distributed.rank()}.npy", found)


if __name__ == "__main__":
    main(*sys.argv[1:])
