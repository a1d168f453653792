"""Trainings with tables that are spread over ranks: `python -m pd_v2 tables.py FOLDER`.

Each rank writes what it has seen, which is what one process sees.
"""

import gzip
import io
import os
import signal
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import pd_core as pd
import pd_v2 as paddle
from pd_core.training.ranks import job, on_first
from pd_v2.described.merged_model import merge_v2_model
from pd_v2.job.joining import share_folder
from tests.thinned import thinned
from tests.v2.job.programs import BATCH, Seen, run, words

L, T, A = paddle.layer, paddle.data_type, paddle.activation
Param, OPT = paddle.attr.Param, paddle.optimizer
HEIGHT, WIDTH = 30, 3  # rows of an odd width: pairs of normal values are of two rows
L2 = {"regularization": OPT.L2Regularization(rate=0.1)}


def rank():
    return int(os.environ.get("PADDLE_INIT_TRAINER_ID", "0"))


def sentences(width=WIDTH, height=HEIGHT, **attributes):
    """Classes of sentences, by the sum of the rows of their words."""
    table = Param(name="table", sparse_update=True, **attributes)
    embedded = L.embedding(
        L.data("words", T.integer_value_sequence(height)), width, param_attr=table, name="rows"
    )
    pooled = L.pooling(embedded, paddle.pooling.Sum(), name="pooled")
    output = L.fc(pooled, 2, act=A.Softmax(), name="output")
    return L.classification_cost(output, L.data("label", T.integer_value(2))), output


def variable(pool, name="table"):
    return pool._bound[name].variable


def trained(cost, optimizer, reader=None, seen=Seen, passes=2, **options):
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, optimizer, **options)
    handler = seen(trainer, pool)
    handler.arrays["before"] = [pool.get("table")]
    trainer.train(paddle.batch(words(), BATCH) if reader is None else reader, passes, handler)
    part = variable(pool)
    assert part.is_shard == (pd.distributed.world_size() > 1)
    assert part.dims[0] == -(-HEIGHT // pd.distributed.world_size())
    return handler.end()


SCHEDULE = {
    "learning_rate_schedule": "discexp",
    "learning_rate_decay_a": 0.5,
    "learning_rate_decay_b": 20.0,
}
OPTIMIZERS = {
    "sgd": (lambda: OPT.Momentum(learning_rate=0.1, **L2, **SCHEDULE), {"l1_rate": 0.01}),
    "sparse momentum": (lambda: OPT.Momentum(0.9, sparse=True, learning_rate=0.05), {}),
    "momentum": (lambda: OPT.Momentum(0.8, learning_rate=0.1, gradient_clipping_threshold=0.1), {}),
    "rmsprop": (lambda: OPT.RMSProp(learning_rate=0.01, **L2), {}),
    "adagrad": (lambda: OPT.AdaGrad(learning_rate=0.1, **L2), {"learning_rate": 0.5}),
    "decayed adagrad": (lambda: OPT.DecayedAdaGrad(learning_rate=0.01), {}),
    "adam": (
        lambda: OPT.Adam(learning_rate=0.02, **SCHEDULE),
        {"initial_max": 1, "initial_min": 0},
    ),
    "adadelta": (lambda: OPT.AdaDelta(learning_rate=1.0), {}),
    "adamax": (lambda: OPT.Adamax(learning_rate=0.02), {}),
}


def optimizers():
    """The table that each of them ends with, and what was drawn."""
    found = {}
    for name in thinned(OPTIMIZERS, 2):
        make, attributes = OPTIMIZERS[name]
        with paddle.build.fresh():
            seen = trained(sentences(**attributes)[0], make())
            kept = {"before": seen["before"], "cost": seen["cost"], "table": seen["table"]}
            found.update({f"{name}: {key}": value for key, value in kept.items()})
    return found


def averages():
    """Averages of rows that wait for batches to touch them, over windows of four batches."""
    average = OPT.ModelAverage(1.0, max_average_window=4)
    return trained(sentences()[0], OPT.Momentum(learning_rate=0.1, model_average=average, **L2))


class LooksAtAll(Seen):
    """Asks for gradients, layers, parameters and tests."""

    def before_update(self, event):
        self.arrays.setdefault("gradient", []).append(self.pool.get_grad("table"))
        found = event.gm.getLayerOutputs(["output", "pooled"])
        self.add("outputs", *(found[name]["value"].sum() for name in found))
        machine = {p.getName(): p for p in event.gm.getParameters()}["table"]
        self.add("machine", machine.getBuf(0).copyToNumpyArray().sum())

    def __call__(self, event):
        super().__call__(event)
        if isinstance(event, paddle.event.EndIteration):
            rows = event.gm.getLayerOutputs("rows")["rows"]["value"]  # before the update
            self.arrays.setdefault("rows", []).append(rows.sum(0))

    def after_pass(self, event):
        test = self.trainer.test(paddle.batch(words(11, seed=8), 3))
        self.add("test", test.cost, *test.metrics.values())
        self.add("tested", *event.gm.getLayerOutputs("output")["output"]["value"].shape)


def looks():
    """A handler that looks at everything; inference with the same parameters and layers."""
    cost, output = sentences()
    seen = trained(cost, OPT.Adam(learning_rate=0.02), seen=LooksAtAll)
    pool = paddle.parameters.create(output)
    for name in pool.names():
        pool.set(name, seen[name])
    samples = [(sentence,) for sentence, _ in words(5)()]
    return seen | {"inferred": paddle.infer(output_layer=output, parameters=pool, input=samples)}


def several():
    """A table of two layers, one of sparse rows, both with absent words, and a static one."""
    table = Param(name="table", sparse_update=True)
    ids, other = (L.data(name, T.integer_value(HEIGHT)) for name in ("ids", "other"))
    rows = [L.embedding(x, WIDTH, param_attr=table) for x in (ids, other)]
    tags = L.data("tags", T.sparse_binary_vector(50))
    weights = Param(name="weights", sparse_update=True, l2_rate=0.1)
    bag = L.fc(tags, WIDTH, act=A.Tanh(), param_attr=weights, bias_attr=False)
    fixed = L.embedding(
        other, WIDTH, param_attr=Param(name="fixed", is_static=True, sparse_update=True)
    )
    factors = L.factorization_machine(tags, 2, param_attr=Param(name="factors", sparse_update=True))
    output = L.fc([*rows, bag, fixed, factors], 2, act=A.Softmax())
    cost = L.classification_cost(output, L.data("label", T.integer_value(2)))

    def samples():
        rng = np.random.RandomState(2)
        for k in range(20):
            tag = sorted(set(map(int, rng.randint(0, 50, k % 4))))
            yield int(rng.randint(-1, HEIGHT)), int(rng.randint(HEIGHT)), tag, int(rng.randint(2))

    return trained(cost, OPT.AdaGrad(learning_rate=0.1), paddle.batch(samples, 6))


def classes():
    """Layers that read the rows of a few classes."""
    x, label = L.data("x", T.dense_vector(4)), L.data("label", T.integer_value(HEIGHT))
    tree = Param(name="tree", sparse_update=True)
    cost = L.hsigmoid(x, label, param_attr=tree)
    table = Param(name="table", sparse_update=True)
    select = L.data("select", T.sparse_binary_vector(HEIGHT))
    chosen = L.selective_fc(x, HEIGHT, select, act=A.Linear(), param_attr=table, bias_attr=False)
    noise = L.nce(x, label, param_attr=Param(name="noise", sparse_update=True), num_neg_samples=2)

    def samples():
        rng = np.random.RandomState(2)
        for _ in range(9):
            k = int(rng.randint(HEIGHT))
            yield rng.normal(size=4), k, [k // 2, k // 2 + 10]

    costs = [cost, L.sum_cost(chosen), noise]
    seen = trained(costs, OPT.Momentum(learning_rate=0.01), paddle.batch(samples, 4))
    # classes of nce are drawn on each rank
    return {name: seen[name] for name in ("tree", "table")}


def files():
    """Values from tars, gzipped or not, whole or in part, and back."""
    cost, output = sentences()
    pool = paddle.parameters.create(cost)
    rng = np.random.RandomState(1)
    values = {name: rng.normal(size=pool.get_shape(name)).astype("f4") for name in pool.names()}
    for name, value in values.items():
        pool[name] = value
    found = {}
    with tempfile.TemporaryDirectory() as folder, pd.fresh_names():
        path = Path(folder) / "parameters.tar"
        pool.to_tar(path)
        with open(path, "rb") as file, gzip.open(f"{path}.gz", "wb") as packed:
            packed.write(file.read())
        for name in (path, f"{path}.gz"):
            read = paddle.parameters.Parameters.from_tar(name)
            found[f"{name}"[-2:]] = read.get("table")
            trainer = paddle.trainer.SGD(cost, read, OPT.Momentum(learning_rate=0.1))
            trainer.train(paddle.batch(words(), BATCH))
            tar = io.BytesIO()
            trainer.save_parameter_to_tar(tar)
            found[f"trained {name}"[-2:] + "t"] = read.get("table")
            found[f"bytes of {name}"[-2:] + "b"] = np.array([len(tar.getvalue())])
        found["tar"] = np.frombuffer(path.read_bytes(), np.uint8)
        with open(path, "rb") as file:
            part = paddle.parameters.create(output)
            part.init_from_tar(file, exclude_params=["_output.w0"])
        found["part"] = part["table"]
        with open(Path(folder) / "topology", "wb") as file:
            paddle.topology.Topology(output).serialize_for_inference(file)
        merged = Path(folder) / "merged"
        merge_v2_model(output, str(path), str(merged))
        found["merged"] = np.frombuffer(merged.read_bytes(), np.uint8)
        samples = [(sentence,) for sentence, _ in words(5)()]
        with open(Path(folder) / "topology", "rb") as file:
            stored = paddle.inference.Inference(pool, fileobj=file)
        found["stored"] = stored.infer(samples)
        found["here"] = paddle.infer(output_layer=output, parameters=pool, input=samples)
    return found


def clustered(ranks=None):
    """Trainers with samples of their own, of different numbers, and their tests."""
    optimizer = OPT.AdaGrad(learning_rate=0.1, **L2)
    shards = [list(words(6 + 5 * r, seed=r)()) for r in range(ranks or pd.distributed.world_size())]
    if ranks is None:
        own = shards[rank()]
        reader, options = paddle.batch(lambda: iter(own), 4), {"is_local": False}
    else:
        steps = [[s[k : k + 4] for s in shards] for k in range(0, 6 + 5 * ranks, 4)]
        joined = [[sample for part in parts for sample in part] for parts in steps]
        reader, options = lambda: iter([b for b in joined if b]), {}
    cost, _ = sentences()
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, optimizer, **options)
    trainer.train(reader, 2)
    found = {name: pool.get(name) for name in pool.names()}
    tests = [trainer.test(paddle.batch(lambda s=s: iter(s), 4)).cost for s in shards]
    own = trainer.test(paddle.batch(lambda: iter(shards[rank()]), 4)).cost
    assert abs(own - tests[rank()]) < 1e-5
    return found | {"tests": np.array(tests)}


def runner():
    """A Runner, which goes on from a checkpoint of its own."""
    cost, _ = sentences()
    folder = on_first(job(), tempfile.mkdtemp)
    for resume in (False, True):
        items = [
            *([paddle.runner.Resume(folder)] if resume else []),
            paddle.runner.Counter(),
            paddle.runner.SaveEvery(3, folder),
            paddle.runner.Data(paddle.batch(words(), BATCH)),
            paddle.runner.ForwardBackward(cost),
            paddle.runner.Update(OPT.Adam(learning_rate=0.02)),
        ]
        with paddle.runner.runner_of(items) as training:
            training.run(1 + resume)
    return {name: paddle.parameters.create(cost).get(name) for name in ("table", "_output.w0")}


class Stopped(Exception):
    """Raised by a handler, on all ranks."""


class Stopping(Seen):
    """Stops the training after a batch, or kills the last of several ranks there."""

    kills = False

    def __call__(self, event):
        super().__call__(event)
        is_end = isinstance(event, paddle.event.EndIteration)
        if is_end and (event.pass_id, event.batch_id) == (1, 2):
            if not self.kills:
                raise Stopped
            if rank() == pd.distributed.world_size() - 1:
                os.kill(os.getpid(), signal.SIGKILL)


class Killed(Stopping):
    """Kills the last rank."""

    kills = True


def resumed(folder=None, seen=Seen):
    """A training whose checkpoints are in `folder`; two trainers of one network."""
    cost, _ = sentences()
    pool = paddle.parameters.create(cost)
    checkpoint = None if folder is None else paddle.Checkpoint(folder, 2)
    first = paddle.trainer.SGD(cost, pool, OPT.AdaGrad(learning_rate=0.1, **L2))
    first.train(paddle.batch(words(9), 4), 1, checkpoint=checkpoint)
    average = OPT.ModelAverage(1.0, max_average_window=4)
    optimizer = OPT.Adam(learning_rate=0.02, model_average=average, **SCHEDULE)
    trainer = paddle.trainer.SGD(cost, pool, optimizer)
    handler = seen(trainer, pool)
    reader = paddle.batch(paddle.reader.shuffle(words(), 20), BATCH)
    try:
        trainer.train(reader, 2, handler, checkpoint=checkpoint)
    except Stopped:
        return None
    return handler.end()


LOCAL = optimizers, averages, looks, several, classes, files, runner
CLUSTER = (clustered,)


def errors():
    """What a table that is spread cannot be; on several ranks only."""
    if pd.distributed.world_size() == 1:
        return {}
    rows = Param(name="table", sparse_update=True)

    def unfit(build, text):
        with warnings.catch_warnings(record=True), paddle.build.fresh():
            warnings.simplefilter("always")
            layer = build()
            fails(
                lambda: paddle.trainer.SGD(layer, paddle.parameters.create(layer), OPT.Adam()), text
            )

    def whole():
        x = L.data("x", T.dense_vector(6))
        return L.sum_cost(L.fc(x, 2, param_attr=rows, name="dense"))

    def tied():
        embedded = L.embedding(L.data("ids", T.integer_value(6)), 2, param_attr=rows)
        back = L.trans_full_matrix_projection(embedded, 6, param_attr=Param(name="table"))
        return L.sum_cost(L.mixed(6, back, name="tied"))

    def stepped():
        words = L.data("words", T.integer_value_sequence(6))
        step = lambda x: L.embedding(x, 2, param_attr=rows, name="inner")  # noqa: E731
        return L.sum_cost(L.last_seq(L.recurrent_group(step, words)))

    unfit(whole, "fc layer 'dense'.*parameter 'table': with sparse_update its rows are spread over")
    unfit(tied, "mixed layer 'tied'.*parameter 'table': with sparse_update.*reads all of them")
    unfit(stepped, "layer 'inner'.*parameter 'table'.*the step of a recurrent group")
    with paddle.build.fresh():
        hook = paddle.attr.Hook("pruning", 0.5)
        cost, output = sentences(update_hooks=hook)
        pool = paddle.parameters.create(cost)
        fails(lambda: paddle.trainer.SGD(cost, pool, OPT.Adam()), "'table': pruning needs all of")
        export = paddle.topology.Topology(output).export_onnx
        fails(lambda: export(None, pool), "export_onnx: the rows of the table 'table' are spread")
    with paddle.build.fresh():
        cost, _ = sentences()
        pool = paddle.parameters.create(cost)
        mixed = lambda: paddle.trainer.SGD(cost, pool, OPT.Adam(), precision="mixed_float16")  # noqa: E731
        fails(mixed, "each process has other rows of the sharded table table")
        table = variable(pool).storage.table
        if rank() == 0:
            fails(
                lambda: next(table.blocks(pool.session)),
                "all ranks read or write the table table together",
            )
        else:
            fails(pd.distributed.barrier, "rank 0 has come to an exchange of a sharded table")
        items = [
            paddle.runner.Counter(),
            paddle.runner.Data(paddle.batch(words(), BATCH)),
            paddle.runner.SaveBest(f"{tempfile.gettempdir()}/best.tar"),
            paddle.runner.ForwardBackward(cost, parameters=pool),
            paddle.runner.Update(OPT.Adam()),
        ]
        fails(
            lambda: paddle.runner.runner_of(items).__enter__().run(1), "SaveBest: each process has"
        )
    with paddle.build.fresh():
        ids = L.data("ids", T.integer_value(6))
        cost = L.sum_cost(L.embedding(ids, 2, param_attr=rows))
        pool = paddle.parameters.create(cost)
        trainer = paddle.trainer.SGD(cost, pool, OPT.Adam())
        fails(
            lambda: trainer.train(paddle.batch(lambda: iter([(7,), (7,)]), 2)),
            "'ids'.*expected an integer",
        )
    return {}


def fails(function, text):
    import pytest

    with pytest.raises(Exception, match=f"(?s){text}"):
        function()


def main(folder, *steps):
    """Run programs by their names, or all; `end` goes on from FOLDER/STEP, others leave one."""
    programs = {p.__name__: p for p in (*LOCAL, *CLUSTER, errors)}
    share_folder(f"{folder}/seen")  # by all ranks; what else they write is private
    for step in steps or programs:
        kind, _, place = step.partition("=")
        if kind == "killed":
            run(resumed, f"{folder}/{place}", Killed)
        elif kind == "stopped":
            run(resumed, f"{folder}/{place}", Stopping)
        else:
            found = run(resumed, f"{folder}/{place}") if kind == "end" else run(programs[kind])
            np.savez(f"{folder}/seen/{kind}{place}-{rank()}.npz", **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
