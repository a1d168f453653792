"""Trainings of which one rank alone saves the parameters: `python -m pd_v2 saves.py FOLDER`.

All numbers are exact, so that files have the same bytes for any number of ranks.
"""

import io
import os
import signal
import sys

import numpy as np

import pd_core as pd
import pd_v2 as paddle
from pd_core.distributed import process
from pd_v2.job.joining import share_folder
from tests.v2.job.programs import run, words

L, T, E = paddle.layer, paddle.data_type, paddle.event
HEIGHT, WIDTH, BATCH = 30, 3, 6


def rank():
    return int(os.environ.get("PADDLE_INIT_TRAINER_ID", "0"))


class Full(io.BytesIO):
    """A file on a disk that has no more space."""

    left = 900

    def write(self, data):
        self.left -= len(data)
        if self.left < 0:
            raise OSError("no space left on device")
        return super().write(data)


def trainer_of(**options):
    """A trainer of the sums of two tables' rows, and its pool."""
    x = L.data("words", T.integer_value_sequence(HEIGHT))
    costs = []
    for name in ("table", "other"):
        attribute = paddle.attr.Param(name=name, sparse_update=True)
        pooled = L.pooling(L.embedding(x, WIDTH, param_attr=attribute), paddle.pooling.Sum())
        fixed = paddle.attr.Param(name=f"of_{name}", is_static=True)  # products stay short
        linear = paddle.activation.Linear()
        costs.append(L.sum_cost(L.fc(pooled, 1, linear, bias_attr=False, param_attr=fixed)))
    pool = paddle.parameters.create(costs)
    rng = np.random.RandomState(1)
    for name in pool.names():
        pool[name] = rng.randint(-4, 5, pool.get_shape(name)).astype("f4")
    average = paddle.optimizer.ModelAverage(1.0, max_average_window=4)
    optimizer = paddle.optimizer.Momentum(
        learning_rate=2.0**-10,
        model_average=average,
        learning_rate_schedule="pass_manual",
        learning_rate_args="0:1.0,1:0.5",
    )
    return paddle.trainer.SGD(costs, pool, optimizer, **options), pool


def tar(save):
    file = io.BytesIO()
    save(file)
    return np.frombuffer(file.getvalue(), np.uint8)


def trained(reader, **options):
    """Save at all events, rank 0 alone, with the last rank, or that one something else."""
    trainer, pool = trainer_of(**options)
    last = pd.distributed.world_size() - 1
    found = {}

    def handler(event):
        kind = type(event).__name__
        where = f"{kind} {event.pass_id} {getattr(event, 'batch_id', '')}"
        number = getattr(event, "batch_id", 0) % 3
        if kind == "EndIteration" and number == 1 and rank() == last:
            found[f"got {where}"] = pool.get("other")
            file = io.BytesIO()
            pool.serialize("table", file)
            found[f"serialized {where}"] = np.frombuffer(file.getvalue(), np.uint8)
        if rank() == 0 or (number == 2 and rank() == last):
            if kind == "EndIteration" and number == 0:
                try:
                    pool.to_tar(Full())
                except OSError as error:
                    found[f"full {where}"] = np.array(str(error))
            found[f"averages {where}"] = tar(trainer.save_parameter_to_tar)
            found[f"parameters {where}"] = tar(pool.to_tar)

    trainer.train(reader, 2, handler)
    return trainer, pool, found


def samples(trainers):
    """The samples of each of so many trainers; the last one has the most."""
    return [list(words(BATCH + 5 * k, seed=k)()) for k in range(trainers)]


def local():
    """A script that knows nothing of other ranks, but its number."""
    own = [(sentence,) for sentence, _ in words(15)()]
    return trained(paddle.batch(lambda: iter(own), BATCH))


def cluster(trainers=None):
    """Trainers with samples of their own; with `trainers` one process with those of all."""
    shards = samples(trainers or pd.distributed.world_size())
    shards = [[(sentence,) for sentence, _ in shard] for shard in shards]
    if trainers is None:
        own = shards[rank()]
        return trained(paddle.batch(lambda: iter(own), BATCH), is_local=False)
    steps = range(0, max(map(len, shards)), BATCH)
    joined = [[sample for s in shards for sample in s[k : k + BATCH]] for k in steps]
    return trained(lambda: iter(joined))


def several_trainers():
    """A trainer that the others have forgotten, and one that they do not have."""
    trainer, pool = trainer_of()
    found = {"first": tar(trainer.save_parameter_to_tar)} if rank() == 0 else {}
    if rank():
        del trainer, pool
    if pd.distributed.world_size() > 1:
        alone = rank() == 0
        if alone:
            _, pool = trainer_of()
        try:
            pool.to_tar(io.BytesIO()) if alone else pd.distributed.barrier()
        except pd.GraphError as error:
            assert "rank 0 calls to_tar of the parameters table, other of saves.py:" in str(error)
        else:
            raise AssertionError("no error")
        pd.distributed.barrier()
    return found


def penalised():
    """Rows that wait for their penalty, at a rate that falls with each batch."""
    x = L.data("words", T.integer_value_sequence(HEIGHT))
    attribute = paddle.attr.Param(name="table", sparse_update=True)
    pooled = L.pooling(L.embedding(x, WIDTH, param_attr=attribute), paddle.pooling.Sum())
    cost = L.sum_cost(L.fc(pooled, 1))
    pool = paddle.parameters.create(cost)
    optimizer = paddle.optimizer.Momentum(
        learning_rate=0.2,
        regularization=paddle.optimizer.L2Regularization(rate=0.5),
        learning_rate_schedule="discexp",
        learning_rate_decay_a=0.1,
        learning_rate_decay_b=2.0,
    )
    trainer, found = paddle.trainer.SGD(cost, pool, optimizer), {}

    def handler(event):
        if isinstance(event, E.EndIteration) and rank() == 0:
            file = io.BytesIO()
            trainer.save_parameter_to_tar(file)
            file.seek(0)
            read = paddle.parameters.Parameters.from_tar(file)
            found[f"{event.batch_id}"] = read.get("table")

    own = [(sentence,) for sentence, _ in words(6)()]
    trainer.train(paddle.batch(lambda: iter(own), 2), 1, handler)
    return found


def killed():
    """A rank dies while it serves another one."""
    _, pool = trainer_of()
    if rank() == 0:
        pool.to_tar(io.BytesIO())
    else:
        process.current().world.calls.serve = lambda: os.kill(os.getpid(), signal.SIGKILL)
        pd.distributed.barrier()


def ended(program, *args):
    """What rank 0 has saved, at last when the others have come to their ends."""
    trainer, pool, found = program(*args)
    if rank() == 0:
        found["averages at the end"] = tar(trainer.save_parameter_to_tar)
        found["parameters at the end"] = tar(pool.to_tar)
        found["value at the end"] = pool.get("table")
    return found


PROGRAMS = {
    "several_trainers": (several_trainers,),
    "penalised": (penalised,),
    "local": (ended, local),
    "cluster": (ended, cluster),
}


def main(folder, *names):
    share_folder(folder)
    for name in names:
        if name == "killed":
            run(killed)
        np.savez(f"{folder}/{name}-{rank()}.npz", **run(*PROGRAMS[name]))


if __name__ == "__main__":
    main(*sys.argv[1:])
