"""The ranks of an MPI job: what each of them computes, and what they take from rank 0."""

import numpy as np

import pd_core as pd


def cut(samples):
    """Return this rank's slice of the samples of a batch, which may be empty.

    Of n samples rank r of N has those from n r // N to n (r + 1) // N, as the threads of 2017's
    `trainer_count`.
    """
    rank, ranks, n = pd.distributed.rank(), pd.distributed.world_size(), len(samples)
    if not isinstance(samples, list | tuple | np.ndarray):
        samples = list(samples)
    return samples[n * rank // ranks : n * (rank + 1) // ranks]


def from_rank_zero(make):
    """Call a function on rank 0; return its result on all ranks. In a world of one, call it."""
    if pd.distributed.world_size() == 1:
        return make()
    return pd.distributed.allgather(make() if pd.distributed.rank() == 0 else None)[0]
