"""Small trainings of sharded tables that several ranks run.

`python -m tests.core.distributed.table_programs FOLDER SHARED NAMES...`, without names all of them.
Each rank trains on its rows of every batch, and writes what it ends with; tables as a whole, from
all ranks.
"""

import errno
import sys
import warnings
from pathlib import Path

import numpy as np
import onnxruntime

import pd_core as pd
from pd_core import distributed, training
from pd_core.distributed import ShardedTable, table_files
from tests.core.distributed.programs import save_results
from tests.core.distributed.resume_programs import At
from tests.core.distributed.table_memory import larger_than_memory

HEIGHT, WIDTH, ROWS, STEPS = 23, 4, 8, 6
f32 = np.float32
EVERY = np.arange(HEIGHT)
rank, size = 0, 1
root = Path()


def part(*arrays):
    """The rows of this rank."""
    return [a[rank * len(a) // size : (rank + 1) * len(a) // size] for a in arrays]


def batches(steps=STEPS, seed=3):
    """(ids [8, 3], targets [8, 1]): with duplicates, of even ids alone in some steps."""
    rng = np.random.default_rng(seed)
    for step in range(steps):
        ids = rng.integers(0, HEIGHT // 2, (ROWS, 3))
        yield (2 * ids if step % 3 == 1 else ids), rng.standard_normal((ROWS, 1)).astype(f32)


def scores(words):
    return pd.reduce_sum(words, 1) @ pd.Variable("W", data=np.linspace(-1, 1, WIDTH).reshape(-1, 1))


def network(words):
    ids, y = pd.Variable([None, 3], dtype="int64"), pd.Variable([None, 1])
    return ids, y, pd.reduce_mean(pd.square(scores(words(ids)) - y))


def train(step, ids, y, pairs):
    for rows, targets in pairs:
        rows, targets = part(rows, targets)
        pd.eval(step, {ids: rows, y: targets})


def dense(name="W"):
    return pd.default_session().get(next(v for v in pd.trainable_variables() if v.name == name))


def trained(make):
    table = ShardedTable([HEIGHT, WIDTH], "table")
    ids, y, cost = network(table.lookup)
    step = make().minimize(cost)
    initial = table.rows(EVERY)
    train(step, ids, y, batches())
    return {"initial": initial, "table": table.rows(EVERY), "W": dense()}


OPTIMIZERS = {
    "sgd": lambda: pd.SGDOptimizer(0.2),
    "momentum": lambda: pd.MomentumOptimizer(0.1, clip=pd.ClipElements(0.05)),
    "adam": lambda: pd.AdamOptimizer(0.05, regularizer=pd.L2(0.01)),
    "adagrad": lambda: pd.AdaGradOptimizer(0.1),
}


def sgd():
    return trained(OPTIMIZERS["sgd"])


def momentum():
    return trained(OPTIMIZERS["momentum"])


def adam():
    with pd.check_numerics():
        return trained(OPTIMIZERS["adam"])


def adagrad():
    return trained(OPTIMIZERS["adagrad"])


def two_tables():
    """One with two lookups of its own ids, and one beside it."""
    users = ShardedTable([HEIGHT, WIDTH], "users", pd.gaussian_initializer(0.5, 0.1))
    items = ShardedTable([5, WIDTH], "items", "uniform")
    friends, own = pd.Variable([None, 3], dtype="int64"), pd.Variable([None], dtype="int32")
    y = pd.Variable([None, 1])
    words = users.lookup(friends) * pd.unsqueeze(users.lookup(own), 1)
    words = words + items.lookup(friends * 2 - friends * 2 + pd.unsqueeze(pd.cast(own, "int64"), 1))
    cost = pd.reduce_mean(pd.square(scores(words) - y))
    average = pd.MovingAverage(0.9)
    step = average.follow(pd.AdamOptimizer(0.05).minimize(cost))
    for ids, targets in batches():
        rows, ys = part(ids, targets)
        pd.eval([cost, step], {friends: rows, own: (rows[:, 0] % 5).astype(np.int32), y: ys})
    result = {"users": users.rows(EVERY), "items": items.rows(np.arange(5)), "W": dense()}
    with average.applied():
        result["average"] = users.rows(EVERY)
    return result


def frozen_ids():
    """The ids of one table are computed from the rows of another one, which is not trained."""
    hops = ShardedTable([HEIGHT, 1], "hops", pd.uniform_initializer(0, 5), trainable=False)
    table = ShardedTable([HEIGHT, WIDTH], "a-table")  # asked after hops, its name is before it

    def words(ids):
        return table.lookup(pd.cast(pd.floor(pd.squeeze(hops.lookup(ids), [2])), "int64"))

    ids, y, cost = network(words)
    step = pd.SGDOptimizer(0.2).minimize(cost)
    train(step, ids, y, batches())
    return {"hops": hops.rows(EVERY), "table": table.rows(EVERY)}


def drawn_ids():
    """Ids are drawn at random, differently on each rank and in each step."""
    table = ShardedTable([1000, 2], "table", "uniform")
    ids = pd.cast(pd.floor(pd.dropout(pd.Variable(data=np.full(50, 1.0)), 0.5) * 400.0), "int64")
    seen = []
    for _ in range(2):
        rows, known = pd.eval([table.lookup(ids), ids], training=True)
        np.testing.assert_array_equal(rows, table.rows(known))
        seen.append(known)
    lookup = table.lookup(ids)
    for _ in range(2):
        seen.append(pd.eval(lookup, training=True)[:, 0])
    assert len({a.tobytes() for a in seen}) == 4
    return {}


def in_guard():
    table = ShardedTable([HEIGHT, WIDTH], "table")
    W = pd.Variable("W", data=np.linspace(-1, 1, WIDTH).reshape(-1, 1))
    optimizer = pd.AdamOptimizer(0.05)
    distributed.broadcast()
    with pd.guard(immediate=size == 4):
        for ids, targets in batches():
            ids, targets = part(ids, targets)
            words = table.lookup(ids) + pd.unsqueeze(table.lookup(pd.to_variable(ids[:, 0])), 1)
            loss = pd.reduce_mean(pd.square(pd.reduce_sum(words, 1) @ W - targets))
            loss.backward()
            optimizer.minimize(loss)
            W.clear_gradient()
    return {"table": table.rows(EVERY), "W": W.val()}


def uneven():
    """Rank 0 has no rows, in half of the steps not even an empty batch of them."""
    table = ShardedTable([HEIGHT, WIDTH], "table")
    ids, y, cost = network(table.lookup)
    step = pd.AdamOptimizer(0.05).minimize(cost)
    bounds = [ROWS * max(r - 1, 0) // max(size - 1, 1) for r in range(size + 1)]
    bounds[-1] = ROWS
    own = slice(bounds[rank], bounds[rank + 1])
    for number, (rows, targets) in enumerate(batches()):
        if number % 2 and own.start == own.stop:
            distributed.empty_step(step)
            continue
        distributed.set_batch_size(own.stop - own.start)
        pd.eval([cost, step], {ids: rows[own], y: targets[own]})
    distributed.set_batch_size(None)
    return {"table": table.rows(EVERY), "W": dense()}


def accumulation(parts=2):
    """Halves of each rank's rows; with one part twice the gradient of the whole rows."""
    table = ShardedTable([HEIGHT, WIDTH], "table")
    ids, y, cost = network(table.lookup)
    distributed.broadcast()
    step = pd.SGDOptimizer(0.1).minimize(cost if parts == 2 else cost * 2.0)
    for rows, targets in batches():
        rows, targets = part(rows, targets)
        half = len(rows) // 2
        if parts == 1:
            pd.eval(step, {ids: rows, y: targets})
            continue
        with distributed.no_sync():
            pd.eval(step, {ids: rows[:half], y: targets[:half]})
        pd.eval(step, {ids: rows[half:], y: targets[half:]})
    return {"table": table.rows(EVERY), "W": dense()}


def accumulated_whole():
    return accumulation(parts=1)


def inference():
    """Rows as arrays, lookups that train nothing, and a model that is cut at a lookup."""
    table = ShardedTable([HEIGHT, WIDTH], "table", "normal")
    ids = pd.Variable([None, 3], dtype="int64")
    words = table.lookup(ids)
    y = scores(words)
    mine = np.full((2, 3), rank, np.int64)
    np.testing.assert_array_equal(pd.eval(words, {ids: mine}), table.rows(mine))
    np.testing.assert_array_equal(
        pd.eval(pd.gather(table.shard, ids), {ids: mine}), table.rows(mine)
    )
    whole = np.concatenate(list(table.blocks(pd.default_session())))
    np.testing.assert_array_equal(whole, table.rows(EVERY))
    counts = pd.Variable([None], dtype="int64")
    bags = pd.SparseRows(pd.reshape(ids, [-1]), counts, HEIGHT).matmul(table.shard)
    summed = pd.eval(bags, {ids: mine, counts: [4, 2]})
    np.testing.assert_allclose(summed, [4 * whole[rank], 2 * whole[rank]], rtol=1e-6)
    assert table.rows(np.zeros((0, 2), np.int64)).shape == (0, 2, WIDTH)
    model = pd.export_onnx(None, y, inputs=[words]).SerializeToString()
    runtime = onnxruntime.InferenceSession(model)
    some = EVERY[:6].reshape(2, 3)
    (served,) = runtime.run(None, {runtime.get_inputs()[0].name: table.rows(some)})
    return {"y": pd.eval(y, {ids: some}), "served": served}


def resharded():
    """Three steps each of 2 ranks, 4 ranks and 1, which go on from the files of those before."""
    first = {2: 0, 4: 3, 1: 6}[size]
    if size == 1:
        once = continued(0, 9, None, None)
        pd.reset(seed=3)
        return continued(6, 9, root / "4", None) | {f"{k}-once": v for k, v in once.items()}
    before = {2: None, 4: root / "2"}[size]
    return continued(first, first + 3, before, root / str(size))


def continued(start, stop, loaded, saved):
    table = ShardedTable([HEIGHT, WIDTH], "table")
    session = pd.default_session()
    ids, y, cost = network(table.lookup)
    step = pd.AdamOptimizer(0.05, name="adam").minimize(cost)
    if loaded is not None:
        shared = np.load(loaded / "shared.npz")
        state = {"seed": 3, "draws": {}, "values": dict(shared), "tables": ["table"]}
        if size > 1:
            fails(lambda: session.restore(state), pd.GraphError, "load.. of a table comes before")
        table.load(loaded / "table")
        session.restore(state)
    train(step, ids, y, list(batches(9))[start:stop])
    if saved is not None:
        table.save(saved / "table")
        fails(lambda: table.save(saved / "table"), FileExistsError, "has a table already")
        state = session.state()
        assert state["tables"] == ["table"]
        assert {"W", "adam/weight1"} <= state["values"].keys()
        assert not any("table" in name for name in state["values"])
        if rank == 0:
            np.savez(saved / "shared.npz", **state["values"])
        distributed.barrier()
    return {"table": table.rows(EVERY), "W": dense()}


def loaded_in_guard():
    """Slots that are created after the table was read; other tables are refused."""
    if size == 2:
        return {}
    table = ShardedTable([HEIGHT, WIDTH], "table")
    table.load(root / "2" / "table")
    optimizer = pd.AdamOptimizer(0.05, name="adam")
    folder, session = root / "2" / "table", pd.default_session()
    before = np.zeros((HEIGHT, WIDTH), f32)
    for r in range(2):  # the slot m, as the two ranks have written it
        before[r::2] = np.load(folder / f"rank-{r}-of-2" / "part-0.npy")
    with pd.guard():
        optimizer.minimize(pd.reduce_mean(pd.square(table.lookup([2, 5]))))
    (m,) = [v for v in session.store.variables() if v.name == "adam/table/m"]
    kept = [k for k in EVERY[rank::size] if k not in (2, 5)]
    np.testing.assert_array_equal(session.get(m)[np.array(kept) // size], before[kept])
    assert before[kept].any()
    other = ShardedTable([HEIGHT, WIDTH], "other")
    fails(lambda: other.load(folder), pd.GraphError, "has the table 'table', this one is 'other'")
    pd.reset()
    wide = ShardedTable([HEIGHT, WIDTH + 1], "table")
    fails(lambda: wide.load(folder), pd.ShapeError, r"has a table \[23, 4\], this one is Sharded")
    pd.reset()
    again = ShardedTable([HEIGHT, WIDTH], "table")
    step = pd.AdaGradOptimizer(0.1, name="g").minimize(pd.reduce_mean(again.lookup([[1]])))
    fails(lambda: again.load(folder), pd.GraphError, "has no values for g/table/squares")
    fails(lambda: again.load(root / "none"), pd.DamagedFile, "is no whole table")
    assert step.variables()
    return {}


def runner(passes, *items):
    """Passes of a Runner: the rows of the table, and a dense parameter."""
    table = ShardedTable([HEIGHT, WIDTH], "table")
    ids, y, cost = network(table.lookup)
    pairs = [part(*pair) for pair in batches()]
    rows, targets = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
    reader = training.ArrayReader(rows, targets, batch_size=ROWS // size)
    ring = training.Runner()
    for item in (
        training.Device(),
        training.Counter(),
        training.Data(reader, inputs=[ids, y]),
        training.ForwardBackward(cost),
        training.Update(pd.AdamOptimizer(0.05)),
    ):
        ring.add_item(item)
    for item in items:
        ring.add_item(item)
    with ring:
        ring.run(passes)
    return {"table": table.rows(EVERY), "W": dense()}


def resumed():
    """Two passes, then the third one from the checkpoint: the bits of three passes at once."""
    folder = root / f"runner-{size}"
    runner(2, training.SaveEvery(passes=2, path=folder))
    pd.reset(seed=3)
    result = runner(3, training.Resume(folder))
    pd.reset(seed=3)
    for name, value in runner(3).items():
        np.testing.assert_array_equal(result[name], value)
    return result


def resumed_by_others(name="passes"):
    """Passes on 2 ranks, 4 ranks and 1, each from the checkpoint of those before."""
    folder = root / name
    done = len(list(folder.glob("batch-*"))) if folder.exists() else 0
    distributed.barrier()
    save = training.SaveEvery(path=folder, keep=None)
    result = runner(done + 1, training.Resume(folder, begin=True), save)
    pd.reset(seed=3)
    once = runner(done + 1)
    return result | {f"{name}-once": value for name, value in once.items()}


def resumed_from_one():
    """A pass on 2 ranks from the checkpoint of one process."""
    return resumed_by_others("one") if size == 2 else {}


def failed_checkpoint():
    """A rank whose disk is full costs all of them this checkpoint, and no other one."""
    if size == 1:
        return {}
    folder, write = root / f"full-{size}", table_files._write

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    def is_full(yes):
        table_files._write = full if yes and rank == size - 1 else write

    at = At(2, lambda: is_full(True)), At(3, lambda: is_full(False))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = runner(1, training.SaveEvery(1, folder, keep=9), *at)
    texts = [str(w.message) for w in warned if w.category is training.CheckpointWarning]
    assert len(texts) == (rank == 0)
    assert all("batch-00002 could not be written" in t and "another rank" in t for t in texts)
    distributed.barrier()
    found = sorted(path.name for path in folder.iterdir())
    assert found == [f"batch-0000{n}" for n in range(1, 1 + STEPS) if n != 2]
    return result


def traffic():
    """What rank 0 sends: it needs the rows of two ids of another rank, each many times."""
    table = ShardedTable([HEIGHT, WIDTH], "table")
    ids, y, cost = network(table.lookup)
    step = pd.SGDOptimizer(0.2).minimize(cost)
    rows = np.array([[1, 1, 1], [1, 3, 3], [3, 3, 0], [0, 0, 0]])
    own = rows if rank == 0 else rows * 0 + 1  # rank 1 looks up a row of its own, others ask for it
    pd.eval(step, {ids: own, y: np.zeros((4, 1), f32)})
    sent = table.sent
    return {k: np.array(sent[k]) for k in ("ids", "rows", "gradients", "bytes")}


def errors():
    if size == 1:
        return {}
    table = ShardedTable([HEIGHT, WIDTH], "table")
    ids, y, cost = network(table.lookup)
    bad = [[0, HEIGHT if rank else 1, 2]]
    kind, text = (
        (ValueError, f"a lookup in table: there is no row {HEIGHT}, the last one is {HEIGHT - 1}")
        if rank
        else (pd.GraphError, "a lookup in table: another rank looks up an id")
    )
    fails(lambda: table.rows(bad), kind, text)
    fails(lambda: pd.eval(cost, {ids: bad, y: [[1.0]]}), kind, text)
    other = (lambda: table.rows([1])) if rank else distributed.barrier
    fails(other, pd.GraphError, "rank 0 has come to barrier.*rank 1 has come to an exchange of a")
    fails(lambda: table.lookup([0.5]), pd.DTypeError, "takes integer ids")
    fails(lambda: table.rows([0.5]), TypeError, "takes integer ids")
    clipped = (pd.SGDOptimizer(0.1, clip=c) for c in (pd.ClipGlobalNorm(1.0), pd.ClipNorm(1.0)))
    for optimizer in (*clipped, pd.LAMBOptimizer()):
        fails(lambda o=optimizer: o.minimize(cost), pd.GraphError, "each process has other rows of")
    scaler = pd.LossScaler(pd.SGDOptimizer(0.1))
    fails(lambda: scaler.minimize(cost), pd.GraphError, "LossScaler: each process has other rows")
    step = pd.SGDOptimizer(0.1).minimize(cost)
    with pd.default_session().exchanging(lambda g: g):
        feeds = {ids: [[1, 2, 3]], y: [[1.0]]}
        fails(lambda: pd.eval(step, feeds), pd.GraphError, "inside exchanging.. its gradients")
    return {}


def fails(function, kind, text):
    import pytest

    with pytest.raises(kind, match=text):
        function()


PROGRAMS = [
    *(sgd, momentum, adam, adagrad, two_tables, frozen_ids, drawn_ids, in_guard, uneven),
    *(accumulation, accumulated_whole, inference, resumed, resharded, loaded_in_guard),
    *(resumed_by_others, resumed_from_one, failed_checkpoint, traffic, errors),
    larger_than_memory,  # the last one: nothing can be allocated after it
]
AGAIN = "adam two_tables in_guard"  # run twice


def main(folder, shared, *names):
    global rank, size, root
    distributed.init()
    rank, size, root = distributed.rank(), distributed.world_size(), Path(shared)
    if size == 2:
        save_results(PROGRAMS, f"{folder}/again", AGAIN)
    save_results(PROGRAMS, folder, " ".join(names))


if __name__ == "__main__":
    main(*sys.argv[1:])
