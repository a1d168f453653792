"""Exact resume of trainers: every optimizer, schedule and average, from every checkpoint."""

import itertools
import random

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2.attr import Hook, Param
from pd_v2.optimizer import average
from tests.thinned import thinned

from .resuming import assert_resumes

L, A, T, E = paddle.layer, paddle.activation, paddle.data_type, paddle.evaluator
optimizers = paddle.optimizer
WORDS, WIDTH = 9, 4


def samples(count=12, seed=3):
    rng = np.random.default_rng(seed)
    return [
        (int(rng.integers(0, WORDS)), rng.normal(size=WIDTH).astype(np.float32), int(c))
        for c in rng.integers(0, 3, count)
    ]


def reader(count=9, batch=3):
    return paddle.batch(lambda: iter(samples(count)), batch)


def network(table=None, weight=None):
    """A classifier of a word and a vector, with dropout and batch norm; first its cost."""
    word = L.data(name="word", type=T.integer_value(WORDS))
    x = L.data(name="x", type=T.dense_vector(WIDTH))
    label = L.data(name="label", type=T.integer_value(3))
    rows = L.embedding(word, size=3, param_attr=Param(name="table", **(table or {})))
    hidden = L.fc([rows, x], size=5, act=A.Tanh(), param_attr=[Param(**(weight or {}))] * 2)
    hidden = L.dropout(L.batch_norm(hidden, act=A.Linear()), dropout_rate=0.3)
    scores = L.fc(hidden, size=3, act=A.Softmax())
    return L.classification_cost(input=scores, label=label), scores, label, word


def trained(optimizer, made=network, passes=2, read=reader, handler=None):
    """A program that trains a network; it returns the metrics of its passes."""

    def program(checkpoint):
        cost = made()
        cost = cost[0] if isinstance(cost, tuple) else cost
        trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer())
        numbers = []

        def handle(event):
            if handler is not None:
                handler(event, trainer)
            if isinstance(event, paddle.event.EndPass):
                numbers.append((event.pass_id, event.metrics))

        trainer.train(read(), num_passes=passes, event_handler=handle, checkpoint=checkpoint)
        return numbers

    return program


RATES = {
    "learning_rate_schedule": "exp",
    "learning_rate_decay_a": 0.5,
    "learning_rate_decay_b": 9.0,
}
OPTIMIZERS = {
    "sgd": lambda **k: optimizers.Momentum(learning_rate=0.1, **k),
    "momentum": lambda **k: optimizers.Momentum(0.9, learning_rate=0.1, **k),
    "sparse-momentum": lambda **k: optimizers.Momentum(0.9, sparse=True, learning_rate=0.1, **k),
    "adam": lambda **k: optimizers.Adam(learning_rate=0.05, **k),
    "adamax": lambda **k: optimizers.Adamax(learning_rate=0.05, **k),
    "adagrad": lambda **k: optimizers.AdaGrad(learning_rate=0.1, **k),
    "decayed-adagrad": lambda **k: optimizers.DecayedAdaGrad(learning_rate=0.1, **k),
    "adadelta": lambda **k: optimizers.AdaDelta(learning_rate=1.0, **k),
    "rmsprop": lambda **k: optimizers.RMSProp(learning_rate=0.05, **k),
}


SCHEDULES = {
    "constant": {},
    "poly": {"decay_a": 0.5, "decay_b": 0.75},
    "caffe_poly": {"decay_a": 20.0, "decay_b": 2.0},
    "exp": {"decay_a": 0.5, "decay_b": 6.0},
    "discexp": {"decay_a": 0.5, "decay_b": 6.0},
    "linear": {"decay_a": 0.005, "decay_b": 0.01},
    "manual": {"args": "3:1.0,9:0.5,14:0.25"},
    "pass_manual": {"args": "0:1.0,1:0.5,2:0.1"},
}


@pytest.mark.parametrize(
    ("optimizer", "kind"), thinned(itertools.product(OPTIMIZERS, SCHEDULES), 7)
)
def test_optimizers_and_schedules_resume(optimizer, kind, tmp_path):
    def made():
        penalty = optimizers.L2Regularization(0.1)
        settings = {f"learning_rate_{k}": v for k, v in SCHEDULES[kind].items()}
        return OPTIMIZERS[optimizer](
            gradient_clipping_threshold=0.05,
            regularization=penalty,
            learning_rate_schedule=kind,
            **settings,
        )

    assert_resumes(trained(made), tmp_path, batches=6)


def test_every_optimizer_is_tested():
    made = {type(make()) for make in OPTIMIZERS.values()}
    methods = {
        c
        for c in vars(optimizers).values()
        if isinstance(c, type) and issubclass(c, optimizers.Optimizer)
    }
    assert made == methods - {optimizers.Optimizer}


@pytest.mark.parametrize("name", thinned(OPTIMIZERS, 2))
def test_rows_pruning_and_averages_resume(name, tmp_path):
    def made():
        average = optimizers.ModelAverage(0.5, max_average_window=3)
        return OPTIMIZERS[name](model_average=average, **RATES)

    def layers():
        return network({"sparse_update": True}, {"update_hooks": Hook("pruning", 0.5)})

    assert_resumes(trained(made, layers, passes=3), tmp_path)


PENALISED = itertools.product(["sgd", "adagrad", "rmsprop"], ["l1_rate", "l2_rate"])


@pytest.mark.parametrize(("optimizer", "rate"), thinned(PENALISED, 5))
def test_penalties_of_rows_resume(optimizer, rate, tmp_path):
    """Rows that no batch touches are penalised when they are touched, and at the end of a pass."""

    def made():
        return OPTIMIZERS[optimizer](**RATES)

    def layers():
        return network({"sparse_update": True, rate: 0.05}, {rate: 0.05})

    assert_resumes(trained(made, layers, passes=3), tmp_path)


@pytest.mark.parametrize(
    ("longest", "sparse"), thinned(itertools.product([None, 3, 5], [True, False]), 3)
)
def test_averages_of_several_windows_resume(longest, sparse, tmp_path, monkeypatch):
    """All three sums are in use: each few batches one joins the next."""
    monkeypatch.setattr(average, "_FOLDED", 2)

    def made():
        return optimizers.Momentum(
            0.9, model_average=optimizers.ModelAverage(0.5, longest), learning_rate=0.1
        )

    def layers():
        return network({"sparse_update": sparse})

    assert_resumes(trained(made, layers, passes=4), tmp_path, batches=12)


# ---- metrics of a pass


def test_metrics_of_a_resumed_pass_are_those_of_all_of_it(tmp_path):
    def made():
        cost, scores, label, word = network()
        E.auc(scores, label, name="auc")
        E.precision_recall(scores, label, name="all")
        E.precision_recall(scores, label, positive_label=1, name="one")
        E.pnpair(scores, label, word, name="pairs")
        E.sum(scores, name="sum")
        E.column_sum(scores, name="columns")
        E.classification_error(scores, label, top_k=2, name="top")
        return cost

    seen = []

    def handler(event, trainer):
        if isinstance(event, paddle.event.EndPass):
            seen.append(set(event.metrics))

    assert_resumes(trained(lambda: optimizers.Adam(), made, handler=handler), tmp_path)
    assert {"auc", "pairs", "sum", "top", "one.precision"} <= seen[0]


def test_metrics_of_sequences_resume(tmp_path):
    def made():
        words = L.data(name="words", type=T.integer_value_sequence(WORDS))
        labels = L.data(name="labels", type=T.integer_value_sequence(3))
        rows = L.fc(L.embedding(words, size=3), size=3, act=A.Softmax())
        E.chunk(L.max_id(rows), labels, chunk_scheme="plain", num_chunk_types=2, name="chunk")
        E.seq_classification_error(rows, labels, name="sequences")
        long = L.fc(rows, size=4, act=A.Softmax())
        E.ctc_error(long, labels, name="ctc")
        return L.cross_entropy_cost(input=rows, label=labels)

    def read():
        rng = np.random.default_rng(5)
        sizes = rng.integers(1, 4, 12)
        found = [
            (rng.integers(0, WORDS, n).tolist(), rng.integers(0, 3, n).tolist()) for n in sizes
        ]
        return paddle.batch(lambda: iter(found), 3)

    assert_resumes(trained(lambda: optimizers.Adam(), made, read=read), tmp_path)


def test_metrics_of_detections_resume(tmp_path):
    def made():
        boxes = L.data(name="boxes", type=T.dense_vector_sequence(7))
        truth = L.data(name="truth", type=T.dense_vector_sequence(6))
        E.detection_map(input=boxes, label=truth, name="map")
        pooled = L.fc(L.pooling(boxes), size=1)
        return L.square_error_cost(pooled, L.pooling(L.fc(truth, size=1)))

    def read():
        rng = np.random.default_rng(5)

        def image():
            truth = [
                [c, x, x, x + 0.3, x + 0.3, 0]
                for c, x in zip((1, 2, 1), rng.random(3), strict=True)
            ]
            found = [[0, t[0], rng.random(), *(np.array(t[1:5]) + rng.random() / 5)] for t in truth]
            return found, truth

        images = [image() for _ in range(12)]
        return paddle.batch(lambda: iter(images), 3)

    assert_resumes(trained(lambda: optimizers.Adam(), made, read=read), tmp_path)


# ---- readers, handlers, tests


def drawing():
    """A reader that draws its order and its noise from the global generators."""

    def read():
        order = list(range(12))
        random.shuffle(order)
        found = samples()
        for k in order:
            word, x, label = found[k]
            yield word, x + np.random.normal(size=WIDTH).astype(np.float32), label

    return read


READERS = {
    "drawing": lambda: paddle.batch(drawing(), 3),
    "shuffled": lambda: paddle.batch(paddle.reader.shuffle(lambda: iter(samples()), 5), 3),
    "buffered": lambda: paddle.batch(paddle.reader.buffered(lambda: iter(samples()), 4), 3),
    "shuffled-batches": lambda: paddle.reader.shuffle(reader(12), 2),
    "buffered-shuffle": lambda: paddle.reader.buffered(
        paddle.batch(paddle.reader.shuffle(lambda: iter(samples()), 7), 3), 2
    ),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_readers_resume(read, tmp_path):
    assert_resumes(trained(lambda: optimizers.Adam(), read=read, passes=3), tmp_path, batches=12)


@pytest.mark.parametrize("read", [READERS["drawing"], reader], ids=["drawing", "fixed"])
def test_handlers_that_draw_resume(read, tmp_path):
    def handler(event, trainer):
        parameters = trainer.__parameters__
        name = next(n for n in parameters.names() if n.endswith(".wbias"))
        value = parameters.get(name)
        noise = np.random.normal(size=value.shape) * 0.01 + random.random() * 0.01
        parameters.set(name, (value + noise).astype(np.float32))

    assert_resumes(trained(lambda: optimizers.Adam(), read=read, handler=handler), tmp_path)


def test_tests_inside_handlers_resume(tmp_path):
    """A test draws from the global generators too, as its reader shuffles."""
    held_out = READERS["shuffled"]()

    def handler(event, trainer):
        if isinstance(event, (paddle.event.EndIteration, paddle.event.EndPass)):
            assert np.isfinite(trainer.test(held_out).cost)

    assert_resumes(
        trained(
            lambda: optimizers.Momentum(0.9, model_average=optimizers.ModelAverage(0.5)),
            handler=handler,
        ),
        tmp_path,
    )


# ---- several trainings


def test_several_calls_of_train_resume(tmp_path):
    def program(checkpoint):
        cost, *_ = network()
        optimizer = optimizers.Adam(learning_rate=0.05, **RATES)
        trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)
        for passes, read in ((1, READERS["shuffled"]), (2, READERS["drawing"]), (1, reader)):
            trainer.train(read(), num_passes=passes, checkpoint=checkpoint)
        return []

    assert_resumes(program, tmp_path, batches=15)


@pytest.mark.parametrize("rings", ["same pool", "two pools"])
def test_trainers_in_turn_resume(rings, tmp_path):
    """A discriminator and a generator; between their turns the program draws the noise."""

    def program(checkpoint):
        x = L.data(name="x", type=T.dense_vector(WIDTH))
        noise = L.data(name="noise", type=T.dense_vector(2))
        label = L.data(name="label", type=T.integer_value(2))

        def judged(v, static):
            attr = Param(name="d.w", is_static=static)
            bias = Param(name="d.b", is_static=static)
            return L.fc(v, size=2, act=A.Softmax(), param_attr=attr, bias_attr=bias)

        drawn = L.fc(noise, size=WIDTH, param_attr=Param(name="g.w"), bias_attr=Param(name="g.b"))
        cost_d = L.classification_cost(input=judged(x, False), label=label)
        cost_g = L.classification_cost(input=judged(L.dropout(drawn, 0.2), True), label=label)
        pool_d = paddle.parameters.create(cost_d)
        pool_g = paddle.parameters.create(cost_g)
        shared = [n for n in pool_d.names() if n in pool_g.names()]
        assert shared == ["d.w", "d.b"]
        d = paddle.trainer.SGD(cost_d, pool_d, optimizers.Adam(learning_rate=0.05))
        g = paddle.trainer.SGD(cost_g, pool_g, optimizers.Momentum(0.9, learning_rate=0.1))
        for _ in range(3):
            z = np.random.normal(size=(6, 2)).astype(np.float32)
            fake = paddle.infer(output_layer=drawn, parameters=pool_g, input=[(row,) for row in z])
            real = np.random.normal(size=(6, WIDTH)) + random.random()
            rows = [
                (row.astype(np.float32), k) for k, rows in enumerate((fake, real)) for row in rows
            ]
            d.train(
                paddle.batch(paddle.reader.shuffle(lambda rows=rows: iter(rows), 12), 4),
                feeding={"x": 0, "label": 1},
                checkpoint=checkpoint,
            )
            for name in shared if rings == "two pools" else ():
                pool_g.set(name, pool_d.get(name) * 0.5)
            g.train(
                paddle.batch(lambda z=z: iter([(row, 1) for row in z]), 2),
                feeding={"noise": 0, "label": 1},
                checkpoint=checkpoint,
            )
        return []

    assert_resumes(program, tmp_path, batches=18, is_seeded=True)
