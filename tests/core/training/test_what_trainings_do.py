"""Options of trainings beside the same in NumPy: none is left out in silence."""

from itertools import product

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import (
    ArrayReader,
    Average,
    Counter,
    Data,
    Device,
    ForwardBackward,
    Observe,
    ReduceRate,
    SaveBest,
    StopAtNaN,
    StopEarly,
    TestEvery,
    TrainStep,
    Update,
    runner_of,
)

RNG = np.random.default_rng(3)
X = RNG.normal(size=(22, 3))
Y = X @ [[1.0], [-2.0], [0.5]] + 0.3
START = RNG.normal(size=(3, 1))


class Line(pd.nn.Module):
    """A column of weights."""

    def __init__(self):
        super().__init__("line")
        self.out = pd.nn.FC(1, bias=False)

    def forward(self, x):
        return self.out(x)


def line(dtype="float32"):
    """A module with the START weights."""
    pd.reset(seed=0)
    module = Line()
    module(pd.Variable([None, 3], dtype=dtype))
    module.load_dict({"out.W": START.astype(dtype)})
    return module


def descent(weights, total, size=8, passes=2, rate=0.01):
    """Costs of passes and the weights after gradient descent on weighted squares, in NumPy."""
    w, costs = START.copy(), []
    for _ in range(passes):
        of_batches = []
        for k in range(0, 22, size):
            x, y, v = (a[k : k + size] for a in (X, Y, weights))
            error, n = x @ w - y, 1 if total else len(x)
            of_batches.append((len(x), float((v * error**2).sum() / n)))
            w = w - rate * 2 * x.T @ (v * error) / n
        costs.append(sum(n * c for n, c in of_batches) / 22)
    return costs, w


def test_costs_and_steps_of_weighted_losses():
    """All reductions, forms of weights, element types of the module and of the arrays."""
    rows = np.linspace(0.2, 2.0, 22)[:, None]
    classes = np.where(np.arange(22) % 3 == 1, 4.0, 1.0)[:, None]
    for reduction, form, dtype, fed in product(
        ("mean", "sum"), ("none", "rows", "loss"), ("float32", "float64"), ("float32", "float64")
    ):
        module, loss = line(dtype), pd.nn.MSE(reduction=reduction)
        x, y, weights = X.astype(fed), Y.astype(fed), np.ones((22, 1))
        given = {"optimizer": pd.SGDOptimizer(0.01), "loss": loss, "shuffle": False}
        if form != "none":
            given["sample_weight"] = rows[:, 0].astype(fed)
            weights = rows
        if form == "loss":  # with weights as columns, which classes give
            given["sample_weight"] = (rows * classes).astype(fed)
            weights = rows * classes
        history = module.fit(x, y, epochs=2, batch_size=8, **given)
        costs, w = descent(weights, reduction == "sum")
        tolerance = {"float32": 1e-5, "float64": 1e-6 if fed == "float32" else 1e-12}[dtype]
        label = f"{reduction} {form} {dtype} {fed}"
        np.testing.assert_allclose(history.cost, costs, rtol=tolerance, err_msg=label)
        np.testing.assert_allclose(module.out.W.numpy(), w, rtol=tolerance, err_msg=label)
        assert module.out.W.dtype == dtype
        predicted = module.predict(x[:3])
        np.testing.assert_allclose(predicted, X[:3] @ w, rtol=10 * tolerance, atol=1e-6)
        assert predicted.dtype == dtype
        tested = module.evaluate(x, y, loss="mse")["cost"]
        np.testing.assert_allclose(tested, np.mean((X @ w - Y) ** 2), rtol=10 * tolerance)


# ---- readers


def test_samples_are_drawn_once_each_by_their_weights():
    """Probabilities of ordered pairs without replacement: w_i / W times w_j / (W - w_i)."""
    weights = np.array([1.0, 2.0, 3.0, 0.0, 4.0])
    reader = ArrayReader(np.arange(5), weights=weights, samples=2, replacement=False, seed=5)
    counts = np.zeros((5, 5))
    for _ in range(4000):
        counts[tuple(next(reader())[0])] += 1
    expected = np.outer(weights, weights) / 10 / (10 - weights)[:, None]
    np.fill_diagonal(expected, 0)
    assert np.abs(counts / 4000 - expected).max() < 0.025  # 3 standard deviations


def test_sizes_of_passes_and_places_in_them():
    for options, samples in (
        ({"samples": 6}, 6),
        ({"samples": 6, "shuffle": True}, 6),
        ({"samples": 6, "drop_last": True}, 4),
        ({"samples": 15, "weights": np.arange(10)}, 15),
        ({"samples": 9, "weights": np.arange(10), "replacement": False}, 9),
        ({"drop_last": True, "shuffle": True}, 8),
    ):
        reader = ArrayReader(np.arange(10), batch_size=4, **options)
        for _ in range(2):
            batches = [b[0].tolist() for b in reader()]
            assert [len(reader), sum(map(len, batches))] == [len(batches), samples]
        first = reader()
        next(first)
        there, rest = first.state(), [b[0].tolist() for b in first]
        again = ArrayReader(np.arange(10), batch_size=4, **options)
        second = again()
        second.restore(there)
        assert [b[0].tolist() for b in second] == rest
        if "samples" in options:  # others of a pass are other data
            with pytest.raises(pd.GraphError, match="samples of a pass"):
                other = {k: v for k, v in options.items() if k in ("shuffle", "weights")}
                ArrayReader(np.arange(10), **other).restore({"passes": 1, "data": there["data"]})


READERS = [
    ({"samples": 11}, "11 samples of 10"),
    ({"samples": 0}, "samples is at least 1, not 0"),
    ({"samples": 2.5}, "samples is a number of samples, not 2.5"),
    ({"batch_size": None}, "batch_size is a number of samples, not None"),
    ({"batch_size": 16, "drop_last": True}, "drop_last leaves nothing of 10 samples in batches of"),
    ({"replacement": False}, "replacement=False says how samples are drawn by weights"),
    ({"weights": np.eye(10)[0], "replacement": False}, "10 samples without replacement of 1 whose"),
]


@pytest.mark.parametrize(("options", "text"), READERS, ids=[t[:20] for _, t in READERS])
def test_readers_that_cannot_be(options, text):
    with pytest.raises((TypeError, ValueError), match=text):
        ArrayReader(np.arange(10), **options)


def test_what_is_for_arrays_is_refused_with_a_reader():
    reader, module = ArrayReader(X, Y, batch_size=5), line()
    given = {"optimizer": "sgd", "loss": "mse"}
    for name, value in (("batch_size", 8), ("shuffle", True), ("seed", 1)):
        with pytest.raises(TypeError, match=f"fit: {name}={value} is for arrays, a reader has"):
            module.fit(reader, **given, **{name: value})
    for call, options in ((module.evaluate, {"loss": "mse"}), (module.predict, {})):
        with pytest.raises(TypeError, match="batch_size=8 is for arrays"):
            call(reader, batch_size=8, **options)
    validation = {"batch_size": 8, "validation_data": (X, Y)}  # whose batches have that size
    module.fit(reader, **given, **validation, shuffle=False)


def test_a_rate_is_searched_on_shuffled_samples():
    x = np.repeat([[1.0], [-1.0]], 32, axis=0)
    options = {"optimizer": "sgd", "loss": "mse", "steps": 8, "batch_size": 16, "highest": 1e-6}
    costs = []
    for seed in (None, 1, 1):
        pd.reset(seed=0)
        net = pd.nn.FC(1)
        found = pd.tuning.find_learning_rate(net, x, x.clip(0), **options, seed=seed)
        costs.append(found.costs.tolist())
    assert costs[0] != costs[1] == costs[2]
    assert len({round(c, 4) for c in costs[0][:4]}) > 2  # sorted data have two costs


# ---- callbacks


def numbers_of_passes(name, values, *items):
    """Run a pass for each number."""
    left = iter(values)
    step = TrainStep(lambda x: {"cost": 1.0, name: next(left)})
    with runner_of([Counter(), Data([0]), step, *items]) as runner:
        return runner.run(len(values))


def test_less_is_better_where_the_name_says_so():
    less = (
        "cost loss val_loss nll val_nll cross_entropy binary_crossentropy perplexity ppl rmse wer"
    )
    less += (
        " kl kl_divergence edit_distance hinge classification_error negative_log_likelihood mape"
    )
    more = "accuracy auc f1 r2 bleu log_likelihood score top_5 recall skill tracker"
    for names, passes in ((less, 2), (more, 1)):
        for name in names.split():
            if name not in ("cost", "loss", "val_loss"):
                stop = StopEarly(name.removeprefix("val_"))
                context = numbers_of_passes(name.removeprefix("val_"), [3.0, 2.0, 2.5, 2.0], stop)
                assert context.pass_id == passes, name


def test_words_of_keras_for_the_cost():
    module = line()
    given = {"optimizer": "sgd", "loss": "mse", "epochs": 3, "validation_data": (X, Y)}
    for word, name in (("loss", "cost"), ("val_loss", "val_cost")):
        stop = StopEarly(word, patience=5)
        assert min(module.fit(X, Y, **given, callbacks=[stop])[name]) == stop.best


WATCHES = [
    ({"patience": 1.5}, "patience is a number of passes, not 1.5"),
    ({"patience": True}, "patience is a number of passes, not True"),
    ({"min_delta": -0.1}, "min_delta is 0 or more, not -0.1"),
    ({"average": pd.MovingAverage(0.9)}, "an average is for restore_best=True"),
]


@pytest.mark.parametrize(("options", "text"), WATCHES, ids=[t[:20] for _, t in WATCHES])
def test_settings_of_watches_that_cannot_be(options, text):
    with pytest.raises((TypeError, ValueError), match=f"StopEarly: {text}"):
        StopEarly(**options)


def test_a_rate_that_is_out_of_reach():
    class Own(Line):
        def train_one_batch(self, x, y):
            raise AssertionError

    for outside in (True, False):
        items = [Device(), Counter(), Data([0]), TrainStep(lambda x: 1.0)]
        items.insert(2 if outside else 4, ReduceRate())
        with pytest.raises(
            pd.GraphError, match="TrainStep has an optimizer of its own, whose rate"
        ):
            runner_of(items).__enter__()
    with pytest.raises(pd.GraphError, match="ModuleStep has an optimizer of its own"):
        Own().fit(X, Y, callbacks=[ReduceRate()])


def test_the_best_averages(tmp_path):
    """The file, and what comes back, are the averages that had the best test, half way."""
    module, average, seen = line(), pd.MovingAverage(0.5), []
    path = tmp_path / "best.safetensors"
    half = X @ (START + np.array([[1.0], [-2.0], [0.5]])) / 2

    def see(context):
        with average.applied():
            seen.append((context.test_metrics["cost"], module.out.W.numpy().copy()))

    stop = StopEarly("val_cost", patience=9, restore_best=True, average=average)
    test = TestEvery(passes=1, reader=ArrayReader(X, half), average=average)
    save = SaveBest(path, "val_cost", average=average)
    callbacks = [Average(average), test, stop, save, see]
    optimizer = pd.SGDOptimizer(0.2)
    module.fit(X, Y, optimizer=optimizer, loss="mse", epochs=9, callbacks=callbacks)
    k = int(np.argmin([cost for cost, _ in seen]))
    assert 0 < k < 8
    best = seen[k]
    np.testing.assert_array_equal(module.out.W.numpy(), best[1])
    module.load_dict({"out.W": np.zeros((3, 1))})
    pd.load(path, [module.out.W])
    np.testing.assert_array_equal(module.out.W.numpy(), best[1])
    with pytest.raises(pd.GraphError, match="SaveBest: the average has no parameters"):
        save = SaveBest(path, average=pd.MovingAverage(0.9))
        module.fit(X, Y, optimizer="sgd", loss="mse", callbacks=[save])


def test_averages_count_updates_in_a_runner_as_in_a_step():
    found = {}
    for kind, precision in product(("fit", "follow"), ("float32", "mixed_float16")):
        module, average = line(), pd.MovingAverage(None, start=1, every=2)
        optimizer = pd.SGDOptimizer(0.05, accumulate=3)
        if kind == "fit":
            options = {"optimizer": optimizer, "loss": "mse", "precision": precision}
            options.update(batch_size=4, shuffle=False, callbacks=[Average(average)])
            module.fit(X, Y, epochs=4, **options)
        else:
            x, y = pd.Variable("x", shape=[None, 3]), pd.Variable("y", shape=[None, 1])
            cost = pd.reduce_mean(pd.square(module(x) - y))
            if precision != "float32":
                cost, optimizer = pd.autocast(cost), pd.LossScaler(optimizer)
            step = average.follow(optimizer.minimize(cost))
            for k in list(range(0, 22, 4)) * 4:
                pd.eval(step, {x: X[k : k + 4], y: Y[k : k + 4]})
        with average.applied():
            found[kind, precision] = module.out.W.numpy().copy()
    for precision in ("float32", "mixed_float16"):
        same = found["fit", precision], found["follow", precision]
        np.testing.assert_allclose(*same, rtol=1e-6)


# ---- mixed precision


def test_gradients_that_are_never_finite():
    """sqrt(0) has no slope: in mixed precision all steps are left out, and that is told."""

    def loss(output, y):
        return pd.reduce_mean(pd.square(output - y) + pd.sqrt(pd.square(output - output)))

    given = {"optimizer": "sgd", "loss": loss, "precision": "mixed_float16", "batch_size": 22}
    with pytest.raises(
        pd.NumericError, match=r"after batch 0 of pass 48 .* the loss scale is 1.16e"
    ):
        line().fit(X, Y, epochs=60, callbacks=[StopAtNaN()], **given)
    with pytest.warns(RuntimeWarning, match="the loss scale is 1.16e-10: gradients are not finite"):
        line().fit(X, Y, epochs=60, **given)
    with pytest.warns() as warned:
        line().fit(X, Y, epochs=90, **given)
    assert len(warned) == 1


def test_a_step_that_overflows_is_no_fault():
    """The cost is finite; the scale is too large for its gradients in float16."""
    y = 1e4 * Y
    for callbacks in ([], [StopAtNaN()], [StopAtNaN(operators=True)]):
        module, optimizer = line(), pd.LossScaler(pd.SGDOptimizer(1e-4))
        options = {"precision": "mixed_float16", "batch_size": 22, "callbacks": callbacks}
        module.fit(X, y, optimizer=optimizer, loss="mse", epochs=20, **options)
        assert optimizer.scale.val() < 2**10 and optimizer.good_steps.val() > 0
        assert (module.out.W.numpy() != START.astype(np.float32)).all()
    x = pd.Variable("x", shape=[None, 3])
    cost = pd.autocast(pd.reduce_mean(pd.log(module(x) - 1e9)))
    step = pd.LossScaler(pd.SGDOptimizer(0.1)).minimize(cost)
    with pytest.raises(pd.NumericError, match="Log"), pd.check_numerics():
        pd.eval([step, cost], {x: X})


def test_a_scaler_with_settings_of_its_own():
    """Its scale is doubled after 3 good steps, in `fit`, in a Runner and with a reduced rate."""
    for kind, more in product(("fit", "runner"), ([], [ReduceRate(0.5, min_delta=1e9)])):
        module = line()
        scaler = pd.LossScaler(pd.SGDOptimizer(0.01), initial_scale=4.0, growth_interval=3)
        if kind == "fit":
            options = {"precision": "mixed_float16", "batch_size": 22, "callbacks": more}
            module.fit(X, Y, optimizer=scaler, loss="mse", epochs=7, **options)
        else:
            x, y = pd.Variable("x", shape=[None, 3]), pd.Variable("y", shape=[None, 1])
            cost = pd.reduce_mean(pd.square(module(x) - y))
            steps = [ForwardBackward(cost, precision="mixed_float16"), Update(scaler)]
            with runner_of([Device(), Counter(), Data([{x: X, y: Y}]), *more, *steps]) as runner:
                runner.run(7)
        assert [scaler.scale.val(), scaler.good_steps.val()] == [16.0, 1.0]
    with pytest.raises(TypeError, match="gradients of precision='float32' need no scale"):
        line().fit(X, Y, optimizer=scaler, loss="mse")


# ---- schedules


def test_a_schedule_of_lists_in_every_kind_of_step():
    rates = [0.5, 0.5, 0.25, 0.125, 0.125]
    for kind in ("static", "guard"):
        pd.reset()
        w = pd.Variable("w", data=np.float32(0.0))
        optimizer = pd.SGDOptimizer(pd.schedules.Piecewise([1, 2], [0.5, 0.25, 0.125]))
        step, seen = optimizer.minimize(w * 1.0) if kind == "static" else None, [0.0]
        for _ in rates:
            if kind == "static":
                pd.eval(step)
            else:
                with pd.guard():
                    optimizer.minimize(w * 1.0)
            seen.append(float(w.val()))
        np.testing.assert_allclose(-np.diff(seen), rates)
    with pytest.raises(ValueError, match=r"boundaries increase, not \[2, 1\]"):
        pd.schedules.Piecewise([2, 1], [0.5, 0.25, 0.125])


def test_an_observed_plateau_reaches_a_step_of_a_function():
    """What the error of ReduceRate hints at."""
    pd.reset()
    w, plateau = (
        pd.Variable("w", data=np.float32(0.0)),
        pd.schedules.ReduceOnPlateau(1.0, patience=0),
    )
    optimizer, seen = pd.SGDOptimizer(plateau), [0.0]

    def step(x):
        with pd.guard():
            optimizer.minimize(w * 1.0)
        seen.append(float(w.val()))
        return 1.0

    with runner_of([Device(), Counter(), Data([0]), Observe(plateau), TrainStep(step)]) as runner:
        runner.run(3)
    np.testing.assert_allclose(-np.diff(seen), [1.0, 1.0, 0.1], rtol=1e-6)
