"""Jobs that go wrong on one rank: `python -m tests.core.distributed.failures NAME`."""

import os
import signal
import sys

import numpy as np

import pd_core as pd
from pd_core import distributed
from pd_core.backend.fused.build import available
from pd_core.distributed import buffers, process

SECONDS = 3.0  # in which a rank that has nothing else to do comes, also on a busy machine


def regression(rows=3, act=pd.tanh, more=False):
    x = pd.Variable([None, rows])
    w = pd.Variable("w", data=np.ones((rows, 1)))
    y = act(x @ w)
    if more:
        y = y + pd.Variable("bias", data=np.zeros(1))
    return x, pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(pd.square(y - 1.0)))


def step(rows=3, **options):
    pd.reset()
    x, update = regression(rows, **options)
    pd.eval(update, {x: np.ones((2, rows), np.float32)})


def shapes():
    step(rows=3 + distributed.rank())


def parameters():
    step(more=distributed.rank() == 1)


def feeds():
    """Sizes that the parameters do not depend on."""
    pd.reset()
    width = 3 + distributed.rank()
    x = pd.Variable([None, width])
    w = pd.Variable("w", data=np.ones((1, 1)))
    cost = pd.reduce_mean(pd.square(pd.reduce_sum(x, 1, keep_dim=True) @ w))
    pd.eval(pd.SGDOptimizer(0.1).minimize(cost), {x: np.ones((2, width), np.float32)})


def operators():
    step(act=pd.relu if distributed.rank() == 1 else pd.tanh)


def places():
    if distributed.rank() == 1:
        distributed.barrier()
    step()


def reductions():
    distributed.allreduce(np.zeros(3), "max" if distributed.rank() else "sum")


def weights():
    if distributed.rank() == 1:
        distributed.set_batch_size(3)
    step()


def values():
    pd.reset()
    w = pd.Variable("w", data=np.full((3, 1), distributed.rank() + 1.0))
    with pd.guard():
        loss = pd.reduce_mean(pd.tanh(pd.to_variable(np.ones((2, 3))) @ w))
        pd.SGDOptimizer(0.1).minimize(loss)


def short(rows=3):
    """A step that is taken once more by ranks that wait for SECONDS only."""
    x, update = regression(rows)
    feeds = {x: np.ones((2, rows), np.float32)}
    pd.eval(update, feeds)
    distributed.barrier()
    process.current().world.timeout = SECONDS
    return lambda: pd.eval(update, feeds)


def absence():
    again = short()
    if distributed.rank() == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    again()


def silence():
    """A rank that stops in the middle of an exchange."""
    again = short()
    if distributed.rank() == 1:
        buffers.Bucket.begin = lambda *_, **__: os.kill(os.getpid(), signal.SIGSTOP)
    again()


silence_in_thread = silence  # while gradients are computed


def killed():
    """Where the others do not go on."""
    step()
    if distributed.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    step()


def divided():
    """With a part of a table on each rank."""
    table = distributed.ShardedTable([8, 2], name="words")
    killed()
    assert table.ranks == 3


def losses():
    """Two of four ranks are killed, one after the other."""
    root()
    behind()


def behind():
    """An operation that has ended on rank 0 but not on rank 1, as rank 2 is killed."""
    world, calls = process.current().world, []

    def operation():
        calls.append(world.size)
        array = np.array([world.size])
        world.gather(array, "sizes")
        if world.rank == 2:
            world.comm.Ssend(array, 0)
            os.kill(os.getpid(), signal.SIGKILL)
        world.comm.Recv(array, 2 if world.size == 3 else 1 - world.rank)
        return array

    (result,) = world.recovering(operation)
    total = distributed.allreduce(1)
    print(f"<behind> {distributed.rank()}: {result} {calls} {total} {world.ids}")


def root():
    """The rank whose values are sent is killed: those of the next one are."""
    v = pd.Variable("v", data=np.full(1, distributed.rank() + 1.0))
    if distributed.rank() == 0:
        process.current().world.send_from = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    distributed.broadcast([v])
    print(f"<root> {distributed.rank()}: {v.val().tolist()}")


def end():
    step()
    if distributed.rank() == 0:
        step()


def error():
    step()
    if distributed.rank() == 1:
        raise KeyError("a mistake in the reader")
    step()


def kernels():
    with pd.fused(distributed.rank() == 1):
        step()


DISAGREEMENTS = shapes, parameters, feeds, operators, places, reductions, weights, values
if available():  # a C compiler
    DISAGREEMENTS += (kernels,)


def caught():
    """Disagreements are errors on all ranks, which may go on with another step afterwards."""
    for program in DISAGREEMENTS:
        try:
            program()
        except pd.GraphError as error:
            print(f"<{program.__name__}> {distributed.rank()}: {error}".replace("\n", " "))
        distributed.set_batch_size(None)
        step()
    print(f"<end> {distributed.rank()}: {distributed.allreduce(1)}")


def main(name):
    if name == "versions":
        own, rank = process.versions(), int(process.os.environ.get("OMPI_COMM_WORLD_RANK", 0))
        process.versions = lambda: [*own[:-1], f"numpy 1.{rank}"]
    distributed.init(
        divisions=2 if name == "silence_in_thread" else 1,
        on_failure="end" if name == "killed" else None,
    )
    if name != "versions":
        globals()[name]()


if __name__ == "__main__":
    main(*sys.argv[1:])
