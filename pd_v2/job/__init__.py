"""Programs of 2017 on the processes of an MPI job: `mpiexec -n 4 pd-v2 train.py`.

- `workers`: `pd-v2 --workers 4` starts mpiexec.
- `joining`: each process joins the job before the program runs.
- `output`, `private_files`: one rank prints and writes, since all of them run the same program.

What each rank computes of a batch is in `pd_v2.runner`, on `pd_core.training.ranks`.
"""
