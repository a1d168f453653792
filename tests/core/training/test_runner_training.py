"""Trainings by callbacks against plain loops: costs, updates in turn, tests, metrics, rates."""

import random

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import (
    ArrayReader,
    Counter,
    Data,
    Device,
    Evaluate,
    Forward,
    ForwardBackward,
    ReduceRate,
    RunnerItem,
    StopEarly,
    TestEvery,
    TrainStep,
    Update,
    runner_of,
)
from pd_core.training.generators import generators_state

from .resuming import arrays, assert_same_state, train

FEATURES, LABELS = arrays(14)


def classifier(dropout=0.0):
    x = pd.Variable(name="x", shape=[None, 4])
    y = pd.Variable(name="y", shape=[None], dtype="int64")
    hidden = pd.layer.batch_norm(pd.layer.fc(x, 5, act="tanh"))
    scores = pd.layer.fc(pd.dropout(hidden, dropout), 3)
    return x, y, scores, pd.reduce_mean(pd.softmax_cross_entropy(scores, y))


def reader(batch_size=4, **settings):
    return ArrayReader(FEATURES, LABELS, batch_size=batch_size, **settings)


def callbacks(optimizer=None, *more, dropout=0.5):
    x, y, _scores, cost = classifier(dropout)
    update = Update(optimizer or pd.AdamOptimizer(0.01))
    return [Device(), Counter(), Data(reader(), [x, y]), ForwardBackward(cost), update, *more]


def run(items, passes=1):
    """Run items in the world as it is; return the context."""
    with runner_of(items) as runner:
        return runner.run(passes)


class Each(RunnerItem):
    """Calls a function with the context after each batch."""

    def __init__(self, function):
        self.function = function

    def on_batch_end(self, following):
        result = following()
        self.function(self.context)
        return result


# ---- costs and updates


def test_a_training_is_a_plain_loop():
    costs = []
    state, context = train(lambda: callbacks(None, Each(lambda c: costs.append(c.cost))))
    pd.reset(seed=11)
    x, y, _, cost = classifier(0.5)
    step, expected = pd.AdamOptimizer(0.01).minimize(cost), []
    for _ in range(2):
        for features, labels in reader()():
            expected.append(pd.eval([step, cost], {x: features, y: labels})[1].item())
    assert_same_state(state, pd.default_session().state())
    assert costs == expected
    sizes = np.array([4, 4, 4, 2])
    assert context.pass_metrics["cost"] == pytest.approx(sizes @ expected[4:] / 14, rel=1e-12)
    assert (context.batches, context.samples, context.pass_batches) == (8, 28, 4)
    assert context.pass_id == 1 and context.batch_id == 3 and context.batch_size == 2
    assert set(context.parameters) == {v.name for v in pd.trainable_variables()}
    assert context.costs


def test_several_costs_are_summed():
    def build(several):
        x, y, scores, cost = classifier()
        penalty = pd.square(scores) * 0.01  # of each element
        costs = [cost, penalty] if several else cost + pd.reduce_sum(penalty)
        data = Data(reader(), [x, y])
        callbacks = [Device(), Counter(), data, ForwardBackward(costs)]
        return [*callbacks, Update(pd.SGDOptimizer(0.1))]

    (one, _), (other, _) = train(lambda: build(True)), train(lambda: build(False))
    for name, array in one["values"].items():
        np.testing.assert_allclose(array, other["values"][name], rtol=1e-5, atol=1e-6)


def test_without_an_update_only_statistics_change():
    pd.reset(seed=11)
    items = callbacks(dropout=0.0)
    with runner_of(items[:4]) as runner:
        session = runner.context.session
        before = {v: session.get(v) for v in pd.persistent_variables()}
        runner.run(1)
        changed = [v.name for v, array in before.items() if not (session.get(v) == array).all()]
    assert changed and all("batch_norm" in name for name in changed)


def gan():
    """Two players with dropout, their costs, and what each trains."""
    x, z = pd.Variable(name="x", shape=[None, 4]), pd.Variable(name="z", shape=[None, 3])
    with pd.namespace("g"):
        drawn = pd.dropout(pd.fc(z, 4, W="W", B="b"), 0.2)

    def judged(v):
        with pd.namespace("d"):
            return pd.fc(pd.dropout(pd.tanh(pd.fc(v, 4, W="W1", B="b1")), 0.3), 1, W="W2", B="b2")

    cost_d = pd.reduce_mean(pd.softplus(-judged(x)) + pd.softplus(judged(drawn)))
    cost_g = pd.reduce_mean(pd.softplus(-judged(drawn)))
    names = ("d/", "g/")
    return x, z, (cost_d, cost_g), [pd.trainable_variables(name) for name in names]


NOISE = np.random.default_rng(1).normal(size=(14, 3)).astype(np.float32)


def gan_rings():
    x, z, (cost_d, cost_g), (of_d, of_g) = gan()
    data = ArrayReader(FEATURES, NOISE, batch_size=4)
    return [
        *(Device(), Counter(), Data(data, [x, z])),
        *(ForwardBackward(cost_d), Update(pd.AdamOptimizer(0.01, beta1=0.5), of_d)),
        *(ForwardBackward(cost_g), Update(pd.AdamOptimizer(0.02, beta1=0.5), of_g)),
    ]


def test_updates_in_turn_are_a_plain_loop():
    costs = []
    state, context = train(lambda: [*gan_rings(), Each(lambda c: costs.append(c.cost))], passes=3)
    pd.reset(seed=11)
    x, z, (cost_d, cost_g), (of_d, of_g) = gan()
    step_d = pd.AdamOptimizer(0.01, beta1=0.5, name="d_adam").minimize(cost_d, of_d)
    step_g = pd.AdamOptimizer(0.02, beta1=0.5, name="g_adam").minimize(cost_g, of_g)
    expected = []
    for _ in range(3):
        for real, noise in ArrayReader(FEATURES, NOISE, batch_size=4)():
            d = pd.eval([step_d, cost_d], {x: real, z: noise})[1].item()
            g = pd.eval([step_g, cost_g], {x: real, z: noise})[1].item()
            expected.append(d + g)
    session = pd.default_session()
    for v in (*of_d, *of_g):
        assert state["values"][v.name].tobytes() == session.get(v).tobytes(), v.name
    assert state["draws"] == session.state()["draws"]
    assert costs == expected
    assert len(context.costs) == 2 and set(context.parameters) == {v.name for v in (*of_d, *of_g)}


def test_a_ring_between_may_leave_a_turn_out():
    """The generator is trained with every second batch only."""

    class Second(RunnerItem):
        def on_batch_begin(self, following):
            return following() if self.context.batches % 2 else False

    class Watch(RunnerItem):
        def on_batch_begin(self, following):
            session, parameters = self.context.session, self.context.parameters
            before = {name: session.get(v) for name, v in parameters.items()}
            ended = following()
            now = {name: session.get(v) for name, v in parameters.items()}
            changed.append({n[0] for n in now if not (now[n] == before[n]).all()})
            return ended

    pd.reset(seed=11)
    items, changed = gan_rings(), []
    with runner_of([*items[:2], Watch(), *items[2:5], Second(), *items[5:]]) as runner:
        runner.run(1)
    assert changed == [{"d"}, {"d", "g"}, {"d"}, {"d", "g"}, set()]


def test_gradients_on_request():
    wanted, found = [], []

    class Wants(RunnerItem):
        def on_batch_begin(self, following):
            self.context.wants_gradients = self.context.batches == 1
            return following()

        def on_batch_end(self, following):
            found.append(dict(self.context.gradients))
            self.context.gradients = {}
            return following()

    state, _ = train(lambda: callbacks(pd.SGDOptimizer(0.1), Wants()), passes=1)
    same, _ = train(lambda: callbacks(pd.SGDOptimizer(0.1)), passes=1)
    assert_same_state(state, same)
    assert [bool(g) for g in found] == [False, True, False, False]
    pd.reset(seed=11)
    x, y, _, cost = classifier(0.5)
    step = pd.SGDOptimizer(0.1).minimize(cost)
    for features, labels in list(reader()())[:2]:
        wanted = pd.eval([step, [g for _, g in step.gradients]], {x: features, y: labels})[1]
    for (v, _), gradient in zip(step.gradients, wanted, strict=True):
        np.testing.assert_allclose(found[1][v.name], gradient, rtol=1e-6)


def test_inference_collects():
    pd.reset(seed=11)
    x, _, scores, _ = classifier()
    one, two = [], []
    data = Data(reader(), [x, "y"])
    with runner_of([Device(), data, Forward(scores, one), Forward([scores, x], two)]) as runner:
        runner.run_one_pass()
    expected = [pd.eval(scores, {x: features}) for features, _ in reader()()]
    assert all((a == b).all() for a, b in zip(one, expected, strict=True))
    assert all((a == b[0]).all() for a, b in zip(expected, two, strict=True))


@pytest.mark.parametrize("item", [Update(pd.SGDOptimizer(0.1)), Evaluate(1.0, 1.0)])
@pytest.mark.parametrize("around", [[], [TrainStep(lambda x: 0.0)]])
def test_what_needs_a_cost_around_it(item, around):
    with pytest.raises(pd.GraphError, match=r"add a ForwardBackward before it|there is no Forward"):
        run([*around, item])


# ---- tests in between


def noisy_test():
    """A reader for tests that draws from both global generators."""
    for features, labels in reader(5)():
        yield {"x": features + random.random() + np.random.normal(), "y": labels}


@pytest.mark.parametrize("when", [{"batches": 1}, {"batches": 3}, {"passes": 2}, {}])
def test_a_test_changes_nothing(when):
    results = []

    def build(tested):
        x, y, scores, cost = classifier(0.5)
        items = [Device(), Counter(), Data(drawing(), [x, y]), ForwardBackward(cost)]
        items += [Update(pd.MomentumOptimizer(0.1)), Evaluate(scores, y, "accuracy")]
        seen = lambda context, result: results.append((context.batches, result))  # noqa: E731
        return [*items, TestEvery(reader=noisy_test, on_result=seen, **when)] if tested else items

    def drawing():
        def read():
            for features, labels in reader()():
                yield features + np.float32(random.random()), labels

        return read

    plain, context = train(lambda: build(False), passes=3)
    generators = generators_state()
    tested, other = train(lambda: build(True), passes=3)
    assert_same_state(tested, plain)
    assert generators_state() == generators
    assert other.pass_metrics == context.pass_metrics and other.metrics == context.metrics
    expected = {"batches": range(when.get("batches", 1), 13, when.get("batches", 1))}
    expected["passes"] = range(4 * when.get("passes", 1), 13, 4 * when.get("passes", 1))
    assert [n for n, _ in results] == list(expected["batches" if "batches" in when else "passes"])
    assert other.test_metrics == {"cost": results[-1][1].cost, **results[-1][1].metrics}


def test_a_test_is_inference_over_all_samples():
    pd.reset(seed=11)
    x, y, scores, cost = classifier(0.5)
    each = pd.softmax_cross_entropy(scores, y)
    test = TestEvery(reader=lambda: ({"x": a, "y": b} for a, b in reader(5)()))
    data = Data(reader(), [x, y])
    items = [Counter(), data, ForwardBackward(cost), Evaluate(scores, y, "accuracy"), test]
    with runner_of([Device(), *items]) as runner:
        context = runner.run(1)
        feeds = {x: FEATURES, y: LABELS}
        costs, values = pd.eval([each, scores], feeds, training=False)
    assert context.test_metrics["cost"] == pytest.approx(costs.mean(), rel=1e-6)
    assert context.test_metrics["accuracy"] == (values.argmax(1) == LABELS).mean()


def test_errors_of_tests():
    with pytest.raises(TypeError, match="TestEvery: needs a reader of batches to test on"):
        TestEvery(2)
    for wrong in (0, -1, 1.5, "2"):
        with pytest.raises(ValueError, match="TestEvery: batches is a positive integer"):
            TestEvery(wrong, reader=reader())
    pd.reset(seed=11)
    with pytest.raises(ValueError, match="a test: the reader gives no batches"):
        run(callbacks(None, TestEvery(reader=[])))
    with pytest.raises(pd.GraphError, match="TestEvery: there is no cost"):
        run([Counter(), Data(reader()), TestEvery(reader=reader())])
    with pytest.raises(pd.GraphError, match=r"TestEvery: TrainStep\(function, test=...\)"):
        step = TrainStep(lambda x, y: 0.0)
        run([Counter(), Data(reader()), step, TestEvery(reader=reader())])


# ---- metrics


def test_metrics_of_batches_and_passes():
    """Against numpy: of the values before the update, in training mode."""
    found, values = [], []
    pd.reset(seed=11)
    x, y, scores, cost = classifier()
    items = [
        *(Device(), Counter(), Data(reader(), [x, y]), ForwardBackward(cost)),
        *(Update(pd.SGDOptimizer(0.5)), Evaluate(scores, y, ["accuracy", "top_2"])),
        Each(lambda context: found.append(dict(context.metrics))),
    ]
    with runner_of(items) as runner:
        context = runner.run(2)
    pd.reset(seed=11)
    x, y, scores, cost = classifier()
    step = pd.SGDOptimizer(0.5).minimize(cost)
    for _ in range(2):
        values = []
        for features, labels in reader()():
            feeds = {x: features, y: labels}
            values.append((pd.eval([step, scores], feeds, training=True)[1], labels))
    hits = [(s.argmax(1) == t).mean() for s, t in values]
    assert [m["accuracy"] for m in found[4:]] == pytest.approx(hits)
    whole, labels = (np.concatenate(parts) for parts in zip(*values, strict=True))
    rank = (whole > whole[range(14), labels][:, None]).sum(1)
    assert context.pass_metrics["accuracy"] == pytest.approx((whole.argmax(1) == labels).mean())
    assert context.pass_metrics["top_2"] == pytest.approx((rank < 2).mean())


def test_two_metrics_of_one_name():
    with pytest.raises(ValueError, match="two metrics of one name among accuracy, accuracy"):
        Evaluate(1.0, 1.0, ["accuracy", pd.metrics.Accuracy()])


def test_a_metric_that_is_an_array():
    with pytest.raises(TypeError, match="Evaluate: confusion_matrix is an array, and takes"):
        Evaluate(1.0, 1.0, "confusion_matrix")


# ---- steps of ours


def test_a_step_of_a_guard():
    net, optimizer = pd.nn.FC(3, name="net"), pd.SGDOptimizer(0.1)

    def cost(x, y):
        return pd.reduce_mean(pd.softmax_cross_entropy(net(x), y))

    def step(x, y):
        with pd.guard():
            value = cost(x, y)
            optimizer.minimize(value)
            return {"cost": value, "one": 1.0}

    def test(x, y):
        with pd.guard(), pd.no_grad():
            return {"cost": cost(x, y), "size": len(x)}

    items = [Device(), Counter(), Data(reader()), TrainStep(step, test)]
    with runner_of([*items, TestEvery(reader=reader(5))]) as runner:
        first = runner.run(1).test_metrics["cost"]
        context = runner.run(20)
    assert context.test_metrics["cost"] < first
    assert context.test_metrics["size"] == pytest.approx((5 * 5 + 5 * 5 + 4 * 4) / 14)
    assert context.metrics == {"one": 1.0} and context.pass_metrics["one"] == 1.0
    assert context.samples == 20 * 14


def test_a_step_of_a_module():
    class Net(pd.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.optimizer = pd.nn.FC(3), pd.SGDOptimizer(0.1)

        def forward(self, x, y):
            return pd.reduce_mean(pd.softmax_cross_entropy(self.layer(x), y))

        def train_one_batch(self, x, y):
            cost = self.forward(x, y)
            self.optimizer.backward_and_update(cost)
            return cost

    net = Net()
    with runner_of([Counter(), Data(reader()), TrainStep(net)]) as runner:
        first = runner.run(1).pass_metrics["cost"]
        assert runner.run(20).pass_metrics["cost"] < first


@pytest.mark.parametrize(
    "result, text",
    [
        ({"loss": 1.0}, "TrainStep: the function returned no 'cost', but loss"),
        (None, "TrainStep: the function returns a cost, not None"),
        ("x", "TrainStep: the function returns a cost, not 'x'"),
        (np.zeros(2), "TrainStep: the function returns a cost, not"),
    ],
)
def test_what_a_step_returns(result, text):
    with pytest.raises(TypeError, match=text):
        run([Counter(), Data(reader()), TrainStep(lambda x, y: result)])


# ---- what watches a number


def watched(costs, *watches):
    """Run passes with these costs; return the context."""
    left = iter(costs)
    with runner_of([Counter(), Data([0]), TrainStep(lambda x: next(left)), *watches]) as runner:
        return runner.run(len(costs))


@pytest.mark.parametrize(
    "costs, settings, passes",
    [
        ([3, 2, 1, 1, 0], {}, 4),
        ([3, 2, 2, 1, 1, 1, 0], {"patience": 2}, 6),
        ([3, 2.5, 2.4, 1], {"min_delta": 0.2}, 3),
        ([1, 2, 3, 3, 4], {"mode": "max"}, 4),
        ([np.nan, np.nan, 1, 2, 3, 0], {"patience": 2}, 5),
        ([np.nan, 1, np.nan, 0], {}, 3),
        ([3, 2, 1], {}, 3),
    ],
)
def test_when_a_training_is_stopped(costs, settings, passes):
    assert watched(costs, StopEarly(**settings)).pass_id + 1 == passes


def test_a_number_that_is_not_there():
    with pytest.raises(pd.GraphError, match="StopEarly: there is no 'test/cost' at the end"):
        watched([1.0], StopEarly("test/cost"))


@pytest.mark.parametrize("kind", [StopEarly, ReduceRate])
def test_settings_of_what_watches(kind):
    with pytest.raises(ValueError, match="patience is at least 1, not 0"):
        kind(patience=0)
    with pytest.raises(ValueError, match="mode is 'min' or 'max', not 'less'"):
        kind(mode="less")
    with pytest.raises(ValueError, match=r"the factor is within \(0, 1\), not 1"):
        ReduceRate(factor=1)


class Costs(pd.training.Step):
    """A step of ours with these costs, which multiplies its rate by the factor."""

    def __init__(self, costs):
        self.costs = iter(costs)

    def initialize(self, context, following):
        context.forward = self
        super().initialize(context, following)

    def train_batch(self):
        return {"cost": next(self.costs)}


def test_factors_are_multiplied():
    factors = []
    see = Each(lambda context: factors.append(context.rate_factor))
    step, reduce = Costs([1, 2, 2, 0, 1, 1]), ReduceRate(0.5, least=0.2)
    with runner_of([Counter(), Data([0]), step, reduce, see]) as runner:
        runner.run(6)
    assert factors == [1.0, 1.0, 0.5, 0.25, 0.25, 0.2]


RATES = {
    "number": 0.1,
    "schedule": pd.schedules.InverseTimeDecay(0.1, 0.5),
    "variable": lambda: pd.Variable(name="rate", data=np.float32(0.1)),
}


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
def test_a_reduced_rate_reaches_the_update(rate, outside):
    """A step of plain gradient descent is the rate times the gradient."""
    pd.reset(seed=0)
    x = pd.Variable(name="x", shape=[None])
    w = pd.Variable(name="w", data=np.float32(0.0))
    made = rate() if rate is RATES["variable"] else rate
    update = [ForwardBackward(pd.reduce_mean(x) * w), Update(pd.SGDOptimizer(made), [w])]
    reduce, values = ReduceRate(0.5, monitor="cost", min_delta=1e9), [0.0]
    see = Each(lambda context: values.append(context.session.get(w).item()))
    batch = {"x": np.ones(1, np.float32)}
    items = [Device(), Counter(), *([reduce] if outside else []), Data([batch]), *update]
    with runner_of([*items, *([] if outside else [reduce]), see]) as runner:
        runner.run(4)
    plain = [0.1 / (1 + 0.5 * k) if rate is RATES["schedule"] else 0.1 for k in range(4)]
    factors = [1.0, 1.0, 0.5, 0.25]
    expected = -np.array(plain) * factors
    np.testing.assert_allclose(np.diff(values), expected, rtol=1e-4)


def test_a_step_of_ones_own():
    """Its numbers and metrics are means over the samples of a pass, and of a test."""

    class Own(pd.training.Step):
        def initialize(self, context, following):
            context.forward, self.evaluators = self, []
            super().initialize(context, following)

        def train_batch(self):
            (rows,) = self.context.batch
            for evaluator in self.every_evaluator():
                evaluator.receive([rows, rows + 1])
            return {"cost": rows.mean(), "n": len(rows)}

        def test_batch(self, batch):
            return {"cost": 2 * batch[0].mean()}, [[batch[0], batch[0] + 2]]

    batches, tests = [(np.array([[1.0]]),), (np.array([[4.0], [6.0]]),)], []
    every = TestEvery(passes=1, reader=batches, on_result=lambda _, result: tests.append(result))
    metrics = Evaluate(None, None, pd.metrics.MeanSquaredError())
    with runner_of([Device(), Counter(), Data(batches), Own(), metrics, every]) as runner:
        context = runner.run()
    assert context.metrics == {"n": 2, "mse": 1.0}
    assert context.pass_metrics == pytest.approx({"cost": 11 / 3, "n": 5 / 3, "mse": 1.0})
    assert (tests[0].cost, tests[0].metrics) == (pytest.approx(22 / 3), {"mse": 4.0})


def test_a_step_says_what_it_does_not_define():
    class Bare(pd.training.Step):
        def initialize(self, context, following):
            context.forward = self
            super().initialize(context, following)

    items = [Device(), Counter(), Data([(np.ones(2),)]), Bare()]
    with runner_of(items) as runner:
        with pytest.raises(NotImplementedError, match=r"Bare does not define train_batch\(\)"):
            runner.run()
        with pytest.raises(NotImplementedError, match=r"Bare does not define test_batch\(\)"):
            runner.context.forward.test([(np.ones(2),)])


def test_steps_with_the_methods_of_the_last_release():
    """A step that is on_batch_begin and test itself, as all of them were in 0.2.0."""

    class Own(pd.training.Step):
        def initialize(self, context, following):
            context.forward = self
            super().initialize(context, following)

        def on_batch_begin(self, following):
            if following():
                return True
            numbers = self.joined({"cost": float(self.context.batch[0].sum())})
            self.count(numbers)
            self.context.cost = numbers["cost"]
            return False

        def test(self, reader):
            totals = [self.part(batch) for batch in reader]
            cost = sum(float(batch[0].sum()) for batch, _ in totals)
            return self.tested({"cost": cost}, sum(size for _, size in totals))

    batches, results = [(np.ones(2),), (np.ones(4),)], []
    every = TestEvery(passes=1, reader=batches, on_result=lambda _, result: results.append(result))
    items = [Device(), Counter(), Data(batches), Own(), every]
    with (
        pytest.warns(DeprecationWarning, match=r"Step\.(joined|part|tested)\(\) is deprecated"),
        runner_of(items) as runner,
    ):
        context = runner.run()
    assert context.pass_metrics["cost"] == pytest.approx(20 / 6)
    assert results[0].cost == 1.0
