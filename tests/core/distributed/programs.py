"""Small trainings that several ranks run.

`python -m tests.core.distributed.programs FOLDER OPTIONS...`. Each rank trains on its rows of every
batch, and writes the parameters that it ends with.
"""

import sys
from pathlib import Path

import numpy as np

import pd_core as pd
from pd_core import distributed, training
from pd_core.ops.ranks import synchronize_batch_norm
from tests.thinned import EVERY

ROWS, STEPS = 8, 6
f32 = np.float32
rank, size = 0, 1


def shard(*arrays):
    """The rows of this rank."""
    return [a[rank * len(a) // size : (rank + 1) * len(a) // size] for a in arrays]


def samples(steps=STEPS, width=5):
    rng = np.random.default_rng(7)
    for _ in range(steps):
        yield (
            rng.standard_normal((ROWS, width)).astype(f32),
            rng.standard_normal((ROWS, 1)).astype(f32),
        )


def mlp():
    x, y = pd.Variable([None, 5]), pd.Variable([None, 1])
    # not drawn from the session's seed: other values on each rank
    W = pd.Variable("W", data=np.random.default_rng(rank).standard_normal((5, 6)))
    hidden = pd.tanh(x @ W)
    return x, y, pd.reduce_mean(pd.square(pd.fc(hidden, 1) - y))


def train(cost, step, x, y, batches):
    for xs, ys in batches:
        xs, ys = shard(xs, ys)
        pd.eval([cost, step], {x: xs, y: ys})


def values(*updates):
    kept = [*pd.trainable_variables(), *(v for u in updates for v in u.variables())]
    return {v.name: pd.default_session().get(v) for v in kept}


def adam():
    x, y, cost = mlp()
    step = pd.AdamOptimizer(0.05, regularizer=pd.L2(0.01)).minimize(cost)
    train(cost, step, x, y, samples())
    return values(step)


def momentum():
    x, y, cost = mlp()
    step = pd.MomentumOptimizer(0.1, clip=pd.ClipGlobalNorm(0.3)).minimize(cost)
    train(cost, step, x, y, samples())
    return values(step)


def grouped():
    """Groups, and steps after two batches each."""
    x, y, cost = mlp()
    groups = [{"params": lambda w: w.rank == 1, "weight_decay": 0.0, "learning_rate": 0.1}]
    lamb = pd.LAMBOptimizer(0.05, weight_decay=0.1, groups=groups, accumulate=2)
    step = lamb.minimize(cost)
    train(cost, step, x, y, samples())
    return values(step)


def module_in_guard():
    """Steps of a Module inside a guard."""
    net = Net()
    with pd.guard():
        for xs, ys in samples():
            xs, ys = shard(xs, ys)
            net.optimizer.minimize(pd.reduce_mean(pd.square(net.forward(xs) - ys)))
    return values()


def module():
    """Batches of a compiled Module, static."""
    net = pd.nn.Sequential(pd.nn.FC(6, act="tanh"), pd.nn.FC(1), name="net")
    x, y = pd.Variable([None, 5]), pd.Variable([None, 1])
    step = pd.AdamOptimizer(0.05).minimize(pd.reduce_mean(pd.square(net(x) - y)))
    train(net(x), step, x, y, samples())
    return values(step)


class Net(pd.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = pd.nn.FC(6, act="tanh"), pd.nn.FC(1)
        self.optimizer = pd.AdamOptimizer(0.05)

    def forward(self, x):
        return self.last(self.first(x))


class TrainedNet(Net):
    def train_one_batch(self, x, y):
        loss = pd.reduce_mean(pd.square(self.forward(x) - y))
        self.optimizer.backward_and_update(loss)
        return loss


def train_one_batch():
    net = TrainedNet()
    net.compile([(None, 5)], is_train=True)
    for xs, ys in samples():
        with pd.check_numerics():
            net(*shard(xs, ys))
    return values()


def module_fit():
    net = Net()
    for xs, ys in samples():
        rows = shard(xs, ys)
        net.fit(
            *rows,
            optimizer=net.optimizer,
            loss=lambda scores, y: pd.reduce_mean(pd.square(scores - y)),
            batch_size=len(rows[0]),
            split=False,
        )
    return values()


def runner():
    """A Runner, each rank with a reader of its own rows."""
    x, y, cost = mlp()
    parts = [shard(xs, ys) for xs, ys in samples()]
    rows, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    reader = training.ArrayReader(rows, labels, batch_size=ROWS // size)
    ring = training.Runner()
    ring.add_item(training.Device())
    ring.add_item(training.Counter())
    ring.add_item(training.Data(reader, inputs=[x, y]))
    ring.add_item(training.ForwardBackward(cost))
    ring.add_item(training.Update(pd.AdamOptimizer(0.05)))
    with ring:
        ring.run(2)
    return values()


def dynamic():
    W = pd.Variable("W", data=np.random.default_rng(rank).standard_normal((5, 1)))
    distributed.broadcast()
    optimizer = pd.AdamOptimizer(0.05)
    with pd.guard():
        for xs, ys in samples():
            xs, ys = shard(xs, ys)
            loss = pd.reduce_mean(pd.square(pd.tanh(pd.to_variable(xs) @ W) - ys))
            loss.backward()
            optimizer.minimize(loss)
            W.clear_gradient()
    return values()


def embedding():
    ids = pd.Variable([None, 3], dtype="int64")
    table = pd.Variable("table", data=np.ones((10, 4)), row_sparse=True)
    W = pd.Variable("W", data=np.linspace(-1, 1, 4).reshape(4, 1))
    words = pd.reduce_sum(pd.gather(table, ids), 1)
    cost = pd.reduce_mean(pd.square(words @ W - 1.0))
    step = pd.AdamOptimizer(0.05).minimize(cost)
    rng = np.random.default_rng(3)
    for _ in range(STEPS):
        (rows,) = shard(rng.integers(0, 8, (ROWS, 3)))
        pd.eval(step, {ids: rows})
    return values(step)


def gan():
    noise, real = pd.Variable([None, 5]), pd.Variable([None, 2])

    def player(x, name, width):
        with pd.namespace(name):
            hidden = pd.tanh(pd.fc(x, 6, W="W1", B="b1"))
            return pd.fc(hidden, width, W="W2", B="b2")

    fake = player(noise, "g", 2)
    on_real, on_fake = player(real, "d", 1), player(fake, "d", 1)
    d_cost = pd.reduce_mean(pd.square(on_real - 1.0)) + pd.reduce_mean(pd.square(on_fake))
    g_cost = pd.reduce_mean(pd.square(on_fake - 1.0))
    d_step = pd.AdamOptimizer(0.05).minimize(d_cost, var_list=pd.trainable_variables("d/"))
    g_step = pd.AdamOptimizer(0.05).minimize(g_cost, var_list=pd.trainable_variables("g/"))
    for z, _ in samples():
        (z,) = shard(z)
        feeds = {noise: z, real: z[:, :2] + 1.0}
        pd.eval(d_step, feeds)
        pd.eval(g_step, feeds)
        pd.eval([d_step, g_step], feeds)
    return values(d_step, g_step)


def batch_norm():
    """A convolution with local statistics: every rank has the same rows, so they are comparable."""
    x = pd.Variable([None, 1, 4, 4])
    image = pd.layer.batch_norm(pd.conv2d(x, 2, 3), mean="mean", variance="variance")
    cost = pd.reduce_mean(pd.square(pd.relu(image) - 0.5))
    step = pd.MomentumOptimizer(0.1).minimize(cost)
    rng = np.random.default_rng(5)
    for _ in range(STEPS):
        pd.eval(step, {x: rng.standard_normal((3, 1, 4, 4)).astype(f32)})
    return {**values(step), "mean": pd.default_session().get(_named("mean"))}


def sync_batch_norm():
    """Statistics of all ranks' rows, in a static graph and in a dynamic one."""
    x, y = pd.Variable([None, 1, 4, 4]), pd.Variable([None, 1])
    synchronize_batch_norm(True)
    image = pd.layer.batch_norm(pd.conv2d(x, 2, 3), mean="mean", variance="variance")
    rows = pd.layer.batch_norm(pd.fc(pd.reshape(pd.relu(image), [0, -1]), 3))
    total = pd.sum_over_ranks(pd.reduce_mean(rows)) / float(size)
    cost = pd.reduce_mean(pd.square(pd.fc(rows, 1) - y)) + pd.square(total)
    synchronize_batch_norm(False)
    step = pd.MomentumOptimizer(0.1).minimize(cost)
    rng = np.random.default_rng(5)
    for _ in range(STEPS):
        images, targets = rng.standard_normal((ROWS, 1, 4, 4)), rng.standard_normal((ROWS, 1))
        images, targets = shard(images.astype(f32), targets.astype(f32))
        pd.eval([step, cost], {x: images, y: targets})
    return {**values(step), "mean": _named("mean").val(), "variance": _named("variance").val()}


def sync_batch_norm_of_few_rows():
    """Statistics of rows that one rank has alone, which stay where no rank has any."""
    x = pd.Variable([None, 3])
    synchronize_batch_norm(True)
    rows = pd.layer.batch_norm(x, mean="mean", variance="variance")
    synchronize_batch_norm(False)
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_sum(rows))
    for xs, _ in samples(2, width=3):
        pd.eval(step, {x: xs if rank == size - 1 else xs[:0]})
        pd.eval(step, {x: xs[:0]})
    return {"mean": _named("mean").val(), "variance": _named("variance").val()}


def sync_batch_norm_in_guard():
    norm = pd.nn.BatchNorm1d()
    w = pd.Variable("w", data=np.ones((5, 1)))
    optimizer = pd.SGDOptimizer(0.1)
    synchronize_batch_norm(True)
    for xs, ys in samples():
        xs, ys = shard(xs, ys)
        with pd.guard():
            loss = pd.reduce_mean(pd.square(norm(pd.to_variable(xs)) @ w - ys))
            optimizer.minimize(loss)
    synchronize_batch_norm(False)
    kept = [w, *norm.parameters(), *norm.buffers()]
    return {v.name: v.val() for v in kept}


def own_statistics():
    """Moving statistics of what each rank has seen."""
    x = pd.Variable([None, 2])
    seen = pd.Variable("seen", data=np.zeros(2), trainable=False)
    w = pd.Variable("w", data=np.ones(2))
    mean = pd.reduce_mean(x, 0)
    counted = pd.mode_switch(x, x, effects=[(seen, seen * 0.5 + mean)])
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(counted * w))
    pd.eval(step, {x: np.full((2, 2), rank + 1.0, f32)})
    with distributed.no_sync():
        pd.eval(step, {x: np.full((2, 2), rank + 1.0, f32)})
    return {"seen": seen.val(), "w": w.val()}


def accumulation():
    """Two parts of each rank's rows: the first is added up, the second is exchanged too."""
    x, y, cost = mlp()
    distributed.broadcast()
    step = pd.MomentumOptimizer(0.05).minimize(cost)
    for xs, ys in samples():
        xs, ys = shard(xs, ys)
        half = len(xs) // 2
        with distributed.no_sync():
            pd.eval([cost, step], {x: xs[:half], y: ys[:half]})
        pd.eval([cost, step], {x: xs[half:], y: ys[half:]})
    return values(step)


def accumulated_whole():
    """The same with the whole rows: twice the mean gradient."""
    x, y, cost = mlp()
    step = pd.MomentumOptimizer(0.05).minimize(2.0 * cost)
    train(cost, step, x, y, samples())
    return values(step)


def accumulation_in_guard():
    W = pd.Variable("W", data=np.linspace(-1, 1, 5).reshape(5, 1))
    optimizer = pd.MomentumOptimizer(0.05)

    def step(xs, ys):
        loss = pd.reduce_mean(pd.square(pd.to_variable(xs) @ W - ys))
        optimizer.minimize(loss)

    with pd.guard():
        for xs, ys in samples():
            xs, ys = shard(xs, ys)
            half = len(xs) // 2
            with distributed.no_sync():
                step(xs[:half], ys[:half])
            step(xs[half:], ys[half:])
    return values()


def uneven():
    """Rank 0 has one row more than a fair share, the last rank one less."""
    x, y, cost = mlp()
    step = pd.AdamOptimizer(0.05).minimize(cost)
    bounds = [ROWS * r // size + (0 < r < size) for r in range(size + 1)]
    rows = slice(bounds[rank], bounds[rank + 1])
    for xs, ys in samples():
        distributed.set_batch_size(bounds[rank + 1] - bounds[rank])
        pd.eval(step, {x: xs[rows], y: ys[rows]})
    distributed.set_batch_size(None)
    return values(step)


def uneven_sync_batch_norm():
    """Statistics, a sum over the ranks and a derivative of unequal numbers of rows."""
    x, y = pd.Variable([None, 3]), pd.Variable([None, 1])
    synchronize_batch_norm(True)
    rows = pd.layer.batch_norm(pd.fc(x, 4, act="tanh"), mean="mean", variance="variance")
    synchronize_batch_norm(False)
    squares = pd.sum_over_ranks(pd.reduce_sum(pd.square(rows), 0)) / float(ROWS)
    cost = pd.reduce_mean(pd.square(pd.fc(rows * squares, 1) - y))
    slope = pd.gradients(cost, [v for v in pd.trainable_variables() if v.name.endswith("W")])[0]
    step = pd.AdamOptimizer(0.05).minimize(cost + 0.1 * pd.reduce_sum(slope))
    bounds = [ROWS * r // size + (0 < r < size) for r in range(size + 1)]
    for xs, ys in samples(3, width=3):
        distributed.set_batch_size(bounds[rank + 1] - bounds[rank])
        rows = slice(bounds[rank], bounds[rank + 1])
        pd.eval(step, {x: xs[rows], y: ys[rows]})
    distributed.set_batch_size(None)
    return {**values(step), "mean": _named("mean").val(), "variance": _named("variance").val()}


def dropout():
    """The mask of this rank, and initial values."""
    x = pd.Variable([None, 50])
    hidden = pd.fc(pd.dropout(x, 0.5), 2)
    (kept,) = [v for v in pd.trainable_variables() if v.name.endswith("W")]
    mask = pd.eval(pd.dropout(x, 0.5), {x: np.ones((1, 50), f32)}, training=True)
    pd.eval(hidden, {x: np.ones((1, 50), f32)}, training=True)
    with pd.guard():
        recorded = pd.dropout(pd.to_variable(np.ones((1, 50), f32)), 0.5).numpy()
    return {"mask": mask, "recorded": recorded, "W": kept.val()}


def collectives():
    distributed.barrier()
    numbers = np.arange(5, dtype=f32) * (rank + 1) / 3
    v = pd.Variable("v", data=numbers)
    distributed.broadcast([v], root=size - 1)
    return {
        "sum": distributed.allreduce(numbers),
        "mean": distributed.allreduce(np.array([rank, 1]), "mean"),
        "max": distributed.allreduce(-numbers, op="max"),
        "v": v.val(),
        "gathered": np.concatenate(distributed.allgather(numbers[: rank + 1])),
        "large": distributed.allreduce(np.full(3_000_001, rank + 1)),
    }


def _named(name):
    (v,) = [v for v in pd.default_session().values() if v.name == name]
    return v


PROGRAMS = [
    *(
        adam,
        momentum,
        grouped,
        module_in_guard,
        module,
        runner,
        dynamic,
        embedding,
        gan,
        batch_norm,
        sync_batch_norm,
        sync_batch_norm_of_few_rows,
        sync_batch_norm_in_guard,
        own_statistics,
    ),
    *(accumulation, accumulated_whole, accumulation_in_guard, uneven, dropout, collectives),
    uneven_sync_batch_norm,
]


def save_results(programs, folder, names=""):
    """Run programs, by default all, and write the arrays that each of them returns on this rank."""
    for program in programs:
        if program.__name__ in names.split() or not names:
            pd.reset(seed=3)
            path = Path(folder) / f"{program.__name__}-{distributed.rank()}.npz"
            np.savez(path, **program())


def some(names):
    """Return the names of programs; none, which stands for all, in the campaign."""
    return "" if EVERY else names


# with more ranks than two: what is of the rows and numbers of ranks, and a training of each kind
OF_MANY = some(
    "adam module_in_guard embedding batch_norm sync_batch_norm sync_batch_norm_of_few_rows uneven"
    " uneven_sync_batch_norm accumulation_in_guard own_statistics dropout collectives"
)


OPTIONS = {  # of init, and the programs that are run with them
    "plain": ({}, ""),
    "again": ({}, some("adam runner dropout collectives")),
    "divided": ({"divisions": 3}, some("momentum module_in_guard embedding gan sync_batch_norm")),
    "float16": ({"wire_dtype": "float16"}, "adam"),
    "bfloat16": ({"wire_dtype": "bfloat16"}, "adam"),
    "sum": ({"reduce": "sum"}, "own_statistics"),
}


def main(folder, *chosen):
    """Run the programs with each of the chosen OPTIONS, in a folder of that name."""
    global rank, size
    for each in chosen:
        options, names = OPTIONS[each]
        # buckets are smaller than the gradients of these networks
        distributed.init(bucket_bytes=64, **options)
        rank, size = distributed.rank(), distributed.world_size()
        (Path(folder) / each).mkdir(exist_ok=True)
        save_results(PROGRAMS, f"{folder}/{each}", names or (OF_MANY if size > 2 else ""))
        distributed.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
