"""Trainings in which ranks have no batch in some steps.

`python -m tests.core.distributed.empty_programs FOLDER`. Each rank writes the parameters and the
slots that it ends with; one process trains on whole batches.
"""

import sys
from pathlib import Path

import numpy as np

import pd_core as pd
from pd_core import distributed
from tests.core.distributed.programs import save_results

ROWS = 8
f32 = np.float32
rank, size = 0, 1


def shares(step):
    """The bounds of the ranks' rows in a step; a rank of no rows has no batch."""
    if step == 0:  # the first step of rank 0 is an empty one
        sizes = [0, *[ROWS // (size - 1)] * (size - 1)] if size > 1 else [ROWS]
        sizes[-1] += ROWS - sum(sizes)
    elif step % 2:
        sizes = [ROWS // size] * size
        sizes[-1] += ROWS - sum(sizes)
    else:  # only one has any
        sizes = [ROWS if r == step % size else 0 for r in range(size)]
    return np.cumsum([0, *sizes])


def train(step, feeds, arrays, extra=None, weighted=True):
    """Take a step per batch of arrays [STEPS, ROWS, ...], each rank with its own rows."""
    for number, batch in enumerate(zip(*arrays, strict=True)):
        first, end = shares(number)[rank : rank + 2]
        distributed.set_batch_size(end - first if weighted else None)
        if first == end:
            distributed.empty_step(step, extra)
        else:
            rows = {v: a[first:end] for v, a in zip(feeds, batch, strict=True)}
            pd.eval(step, {**rows, **(extra or {})})
    distributed.set_batch_size(None)


def samples(*shape, seed=7):
    return np.random.default_rng(seed).standard_normal((6, ROWS, *shape)).astype(f32)


def values(*updates):
    kept = [*pd.trainable_variables(), *(v for u in updates for v in u.variables())]
    return {v.name: pd.default_session().get(v) for v in kept}


def network():
    x, y = pd.Variable([None, 5]), pd.Variable([None, 1])
    # not drawn from the session's seed: other values on each rank
    W = pd.Variable("W", data=np.random.default_rng(rank).standard_normal((5, 6)))
    return x, y, pd.reduce_mean(pd.square(pd.fc(pd.tanh(x @ W), 1) - y))


def trained(make, extra=None):
    x, y, cost = network()
    step = make(clip=pd.ClipGlobalNorm(0.3), regularizer=pd.L2(0.01)).minimize(cost)
    train(step, [x, y], [samples(5), samples(1, seed=8)], extra)
    return values(step)


def sgd():
    rate = pd.Variable([])
    return trained(lambda **options: pd.SGDOptimizer(rate, **options), {rate: f32(0.1)})


def momentum():
    return trained(lambda **options: pd.MomentumOptimizer(0.1, **options))


def adam():
    schedule = pd.schedules.ExponentialDecay(0.05, 0.9)
    with pd.check_numerics():
        return trained(lambda **options: pd.AdamOptimizer(schedule, **options))


def embedding():
    ids = pd.Variable([None, 3], dtype="int64")
    table = pd.Variable("table", data=np.ones((10, 4)) * (rank + 1), row_sparse=True)
    W = pd.Variable("W", data=np.linspace(-1, 1, 4).reshape(4, 1))
    cost = pd.reduce_mean(pd.square(pd.reduce_sum(pd.gather(table, ids), 1) @ W - 1.0))
    step = pd.AdamOptimizer(0.05, regularizer=pd.L2(0.01)).minimize(cost)
    train(step, [ids], [np.random.default_rng(3).integers(0, 8, (6, ROWS, 3))])
    return values(step)


def several():
    """Two updates in one step."""
    x, y, cost = network()
    first = pd.AdamOptimizer(0.05).minimize(cost, var_list=pd.trainable_variables("W"))
    rest = [v for v in pd.trainable_variables() if v.name != "W"]
    second = pd.MomentumOptimizer(0.1).minimize(cost, var_list=rest)
    train([first, second], [x, y], [samples(5), samples(1, seed=8)])
    return values(first, second)


WHOLE = [sgd, momentum, adam, embedding, several]


def equal_weights():
    """The mean over the ranks that have a batch; each has the number rank + 1 in all of it."""
    x, w = pd.Variable([None]), pd.Variable("w", data=f32(rank))  # rank 0's, 0, is the first
    step = pd.SGDOptimizer(1.0).minimize(pd.reduce_mean(x) * w)
    train(step, [x], [np.full((6, ROWS), rank + 1, f32)], weighted=False)
    return values()


def statistics():
    """Moving statistics are of the rows that a rank has seen."""
    x = pd.Variable([None, 2])
    image = pd.layer.batch_norm(x, mean="mean", variance="variance")
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(pd.square(image - 1.0)))
    (mean,) = [v for v in pd.persistent_variables() if v.name == "mean"]
    seen = [mean.val()]
    for number in range(4):
        if size > 1 and number % size == rank:
            distributed.empty_step(step)
        else:
            pd.eval(step, {x: np.full((2, 2), number + 1.0, f32)})
        seen.append(mean.val())
    return {"seen": np.array(seen)}


def accumulated():
    """Gradients that a rank has accumulated in no_sync() are exchanged in its empty step."""
    x, w = pd.Variable([None]), pd.Variable("w", data=f32(0))
    step = pd.SGDOptimizer(1.0).minimize(pd.reduce_mean(x) * w)
    feeds = {x: np.full(2, rank + 1.0, f32)}
    distributed.broadcast()
    for _ in range(2):
        with distributed.no_sync():
            pd.eval(step, feeds)
            distributed.empty_step(step)
        if rank == 0:
            distributed.empty_step(step)
        else:
            pd.eval(step, feeds)
    return values()


def errors():
    x, w = pd.Variable([None]), pd.Variable("w", data=f32(1))
    step, session = pd.SGDOptimizer(1.0).minimize(pd.reduce_mean(x) * w), pd.default_session()

    def text(*targets):
        try:
            distributed.empty_step(*targets)
        except pd.GraphError as error:
            return str(error)
        return ""

    texts = [text(step), text(pd.assign(w, 2.0))]
    summed = pd.SGDOptimizer(1.0).minimize(pd.reduce_sum(pd.sum_over_ranks(x)) * w)
    texts.append(text(summed))
    with session.exchanging(lambda gradients: gradients):
        texts.append(text(step))
    return {"texts": np.array(texts), "w": w.val()}


LOCAL = [equal_weights, statistics, accumulated, errors]


def main(folder):
    global rank, size
    for reduce in ("mean", "sum"):
        distributed.init(bucket_bytes=64, reduce=reduce, divisions=3)
        rank, size = distributed.rank(), distributed.world_size()
        own = Path(folder) / reduce
        own.mkdir(exist_ok=True)
        programs = [*WHOLE, *LOCAL] if reduce == "mean" else [equal_weights]
        save_results([p for p in programs if size > 1 or p in WHOLE], own)
        distributed.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
