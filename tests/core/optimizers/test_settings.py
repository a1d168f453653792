"""Settings that change between steps: what follows is what an optimizer made with them computes."""

import numpy as np
import pytest

import pd_core as pd
from pd_core import training
from tests.thinned import thinned

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3)).astype(np.float32)
Y = RNG.normal(size=(12, 4)).astype(np.float32)

# optimizer class: arguments
CLASSES = {
    "sgd": (pd.SGDOptimizer, {}),
    "momentum": (pd.MomentumOptimizer, {}),
    "nesterov": (pd.MomentumOptimizer, {"nesterov": True}),
    "adam": (pd.AdamOptimizer, {}),
    "adamw": (pd.AdamWOptimizer, {"weight_decay": 0.1}),
    "nadam": (pd.NAdamOptimizer, {}),
    "radam": (pd.RAdamOptimizer, {}),
    "adamax": (pd.AdamaxOptimizer, {}),
    "lion": (pd.LionOptimizer, {}),
    "lamb": (pd.LAMBOptimizer, {}),
    "adagrad": (pd.AdaGradOptimizer, {}),
    "decayed": (pd.DecayedAdaGradOptimizer, {}),
    "rmsprop": (pd.RMSPropOptimizer, {"momentum": 0.5, "centered": True}),
    "adadelta": (pd.AdaDeltaOptimizer, {}),
    "adafactor": (pd.AdaFactorOptimizer, {}),
    "muon": (pd.MuonOptimizer, {"groups": [{"params": "^b", "use_muon": False}]}),
    "l2": (pd.SGDOptimizer, {"regularizer": pd.L2(0.1)}),
    "l1": (pd.AdamOptimizer, {"regularizer": pd.L1(0.1)}),
    "elements": (pd.SGDOptimizer, {"clip": pd.ClipElements(0.2)}),
    "norm": (pd.SGDOptimizer, {"clip": pd.ClipNorm(0.2)}),
    "global norm": (pd.MomentumOptimizer, {"clip": pd.ClipGlobalNorm(0.2)}),
    "accumulated": (pd.MomentumOptimizer, {"accumulate": 2}),
    "float64": (pd.MomentumOptimizer, {"regularizer": pd.L2(0.1)}),
}
NEW = {
    "learning_rate": 0.003,
    "weight_decay": 0.3,
    "momentum": 0.7,
    "regularizer": {pd.L1: pd.L1(0.4), pd.L2: pd.L2(0.4)},
    "clip": {c: c(0.05) for c in (pd.ClipElements, pd.ClipNorm, pd.ClipGlobalNorm)},
}


def settings_of(name):
    """The numbers of an optimizer that may change, with other values."""
    kind, arguments = CLASSES[name]
    optimizer = kind(0.01, **arguments)
    new = {"learning_rate": NEW["learning_rate"]}
    new |= {key: NEW[key] for key in optimizer.adjustable}
    for key in ("regularizer", "clip"):
        if arguments.get(key) is not None:
            new[key] = NEW[key][type(arguments[key])]
    return new


def made(name, **changes):
    kind, arguments = CLASSES[name]
    return kind(**{"learning_rate": 0.01, **arguments, **changes})


class Training:
    """A linear model; steps of an optimizer in one of the ways to train, and its parameters."""

    def __init__(self, optimizer, mode="static", dtype="float32"):
        self.optimizer, self.mode = optimizer, mode
        w = RNG.__class__(np.random.PCG64(1)).normal(size=(3, 4))
        self.w = pd.Variable("w", data=w, dtype=dtype)
        self.b = pd.Variable("b", data=np.ones(4), dtype=dtype, learning_rate=2.0)
        self.x, self.y = X.astype(dtype), Y.astype(dtype)
        if mode == "static":
            self.update = optimizer.minimize(self.cost())

    def cost(self):
        return pd.reduce_mean(pd.square(pd.matmul(self.x, self.w) + self.b - self.y))

    def steps(self, count):
        for _ in range(count):
            if self.mode == "static":
                pd.eval(self.update)
                continue
            with pd.guard():
                self.optimizer.minimize(self.cost())
        return self

    def values(self):
        return {"w": self.w.val(), "b": self.b.val()}


def continued(optimizer, mode, dtype, state, values):
    """Parameters after four steps from the state of another optimizer."""
    optimizer.load_state(state)
    run = Training(optimizer, mode, dtype)
    for key, value in values.items():
        pd.default_session().set(getattr(run, key), value)
    return run.steps(4).values()


GUARDED = ("sgd", "adamw", "l2", "global norm")
CASES = [(name, "static") for name in CLASSES] + [(name, "guard") for name in GUARDED]


@pytest.mark.parametrize("name, mode", thinned(CASES, 2))
def test_numbers_that_are_set_count_from_the_next_step(name, mode):
    dtype, new = "float64" if name == "float64" else "float32", settings_of(name)
    with pd.fresh() as session:
        run = Training(made(name), mode, dtype).steps(4)
        state, values, everything = run.optimizer.state(), run.values(), session.state()
        unchanged = run.steps(4).values()
        session.restore(everything)
        for setting, value in new.items():
            setattr(run.optimizer, setting, value)
        found = run.steps(4).values()
    with pd.fresh():
        built = continued(made(name, **new), mode, dtype, state, values)
    for key, expected in built.items():
        np.testing.assert_allclose(found[key], expected, rtol=2e-5, atol=1e-6, err_msg=key)
        assert not np.allclose(found[key], unchanged[key], rtol=1e-4, atol=1e-5), key


def test_one_compilation_is_enough_for_all_rates(no_programs):
    run = Training(pd.AdamOptimizer(0.01)).steps(2)
    compiled = []
    for k in range(5):
        run.optimizer.learning_rate = 0.01 / (k + 2)
        run.steps(2)
        compiled.append(pd.stats()["compiled"])
    assert len(set(compiled)) == 1 and compiled[0] <= 2
    run.optimizer.learning_rate = run.optimizer.learning_rate  # no change
    assert run.optimizer.learning_rate == 0.01 / 6


def test_a_rate_of_groups_may_be_set():
    w, b = pd.Variable("w", data=0.0), pd.Variable("b", data=0.0)

    def rates(first, second):
        last = {"params": lambda v: v.name == "b", "regularizer": pd.L2(0.0)}
        return [{"params": "w", "learning_rate": first}, {**last, "learning_rate": second}]

    sgd = pd.SGDOptimizer(9.0, groups=rates(1.0, 2.0))
    step = sgd.minimize(w + b)
    pd.eval(step)
    sgd.groups = rates(0.25, 0.5)  # another function with the same members
    pd.eval(step)
    assert (w.val(), b.val()) == (-1.25, -2.5)
    sgd.learning_rate = 100.0  # of nobody
    pd.eval(step)
    assert (w.val(), b.val()) == (-1.5, -3.0)
    message = r"SGDOptimizer: the update that minimize\(\) built has other groups"
    for groups in (rates(1.0, 1.0)[:1], [*rates(1.0, 1.0)[:1], {"params": "b"}], ()):
        with pytest.raises(AttributeError, match=message):
            sgd.groups = groups
    swapped = [{**g, "params": p} for g, p in zip(rates(1.0, 1.0), "bw", strict=True)]
    with pytest.raises(AttributeError, match=message):
        sgd.groups = swapped


FIXED = [
    (pd.AdamOptimizer, {}, "beta1", 0.5, r"beta1=0.9 is a part of the update"),
    (pd.AdamOptimizer, {}, "accumulate", 3, r"accumulate=1 is a part"),
    (pd.AdamOptimizer, {}, "name", "adam", r"name=None is a part"),
    (pd.AdamOptimizer, {}, "rate", 0.5, r"there is no setting 'rate', but learning_rate, name,"),
    (pd.SGDOptimizer, {}, "clip", pd.ClipNorm(1.0), r"clip is None in the update that minimize"),
    (pd.SGDOptimizer, {}, "regularizer", pd.L2(1.0), r"regularizer is None in the update"),
    (pd.SGDOptimizer, {"clip": pd.ClipNorm(1.0)}, "clip", None, r"clip is ClipNorm\(limit=1.0\)"),
    (pd.SGDOptimizer, {}, "learning_rate", pd.schedules.CosineDecay(1.0, 9), r"learning_rate is 0"),
    (pd.RMSPropOptimizer, {}, "centered", True, r"centered=False is a part"),
]


@pytest.mark.parametrize("kind, arguments, setting, value, message", FIXED)
def test_what_an_update_is_built_from_cannot_change_behind_it(
    kind, arguments, setting, value, message
):
    run = Training(kind(0.1, **arguments))
    before = dict(vars(run.optimizer))
    with pytest.raises(AttributeError, match=rf"{kind.__name__}: {message}") as error:
        setattr(run.optimizer, setting, value)
    assert "hint: numbers of learning_rate," in str(error.value)
    assert vars(run.optimizer) == before
    run.steps(1)
    del run.update
    setattr(run.optimizer, setting, value)  # the graph is gone


def test_a_penalty_may_become_nothing_and_come_back():
    w = pd.Variable("w", data=1.0)
    sgd = pd.SGDOptimizer(0.5, regularizer=pd.L2(1.0))
    step = sgd.minimize(w * 0.0)
    for value, expected in ((None, 1.0), (pd.L2(1.0), 0.5), (pd.L2(0.0), 0.5), (pd.L2(0.5), 0.375)):
        sgd.regularizer = value
        pd.eval(step)
        assert w.val() == expected


def test_settings_reach_what_is_built_from_an_update():
    """Averages, scaled losses, chunks of steps, profiles and checks."""
    w = pd.Variable("w", data=8.0)
    x = pd.Variable("x", shape=[])
    sgd = pd.SGDOptimizer(1.0)
    scaler, average = pd.LossScaler(sgd), pd.MovingAverage(0.5)
    step = average.follow(scaler.minimize(w * x))
    pd.run_steps(step, {x: np.ones(2, np.float32)})
    assert w.val() == 6.0
    sgd.learning_rate = 0.5
    pd.run_steps(step, {x: np.ones(2, np.float32)})
    assert w.val() == 5.0
    with pd.profile(), pd.check_numerics():
        pd.eval(step, {x: 1.0})
        sgd.learning_rate = 0.25
        pd.eval(step, {x: 1.0})
    assert w.val() == 4.25
    assert average.averages[w].val() == 4.515625
    with pd.Session() as other:
        pd.eval(step, {x: 1.0})
        assert other.get(w) == 7.75


def test_a_changed_rate_is_a_constant_of_exported_steps():
    w = pd.Variable("w", data=8.0)
    sgd = pd.SGDOptimizer(1.0)
    step = sgd.minimize(w * 1.0)
    pd.eval(step)
    sgd.learning_rate = 0.125
    pd.eval(step)
    model = pd.export_step(None, step)
    assert [v.name for v in model.graph.input] == ["w"]
    from onnx.reference import ReferenceEvaluator

    assert ReferenceEvaluator(model).run(None, {"w": np.float32(1.0)}) == [0.875]
    assert [v.name for v in pd.default_session().store.variables()] == ["w"]


class SetRate(training.RunnerItem):
    """Sets the rate of an optimizer at the begin of a pass."""

    def __init__(self, optimizer, rates):
        self.optimizer, self.rates = optimizer, rates

    def on_pass_begin(self, following):
        if self.context.pass_id in self.rates:
            self.optimizer.learning_rate = self.rates[self.context.pass_id]
        following()


class Line(pd.nn.Module):
    def __init__(self):
        super().__init__("line")
        self.out = pd.nn.FC(4)

    def forward(self, x):
        return self.out(x)


def fitted(rates, epochs, *items, first=0.1):
    with pd.fresh():
        net, optimizer = Line(), pd.MomentumOptimizer(first)
        callbacks = [SetRate(optimizer, rates), *items]
        options = {"epochs": epochs, "batch_size": 4, "callbacks": callbacks, "verbose": False}
        net.fit(X, Y, optimizer=optimizer, loss=pd.nn.MSE(), **options)
        return net.out.W.val(), optimizer.learning_rate


def test_a_callback_of_fit_sets_the_rate():
    expected = fitted({}, 1)[0]
    np.testing.assert_array_equal(fitted({0: 0.1}, 1)[0], expected)
    schedule = pd.schedules.Piecewise((2, 5), (0.1, 0.01, 0.2))
    expected = fitted({}, 3, first=schedule)[0]
    np.testing.assert_allclose(fitted({1: 0.01, 2: 0.2}, 3)[0], expected, rtol=1e-5, atol=1e-6)


def test_a_reduced_rate_is_a_share_of_the_one_that_is_set():
    w, factors = pd.Variable("w", data=8.0), [1.0, 0.5]
    sgd = pd.SGDOptimizer(1.0)
    factor = pd.Variable("factor", shape=[])
    step = sgd.scaled(factor).minimize(w * 1.0)
    for rate, expected in ((1.0, 6.5), (0.5, 5.75)):
        sgd.learning_rate = rate
        for f in factors:
            pd.eval(step, {factor: f})
        assert w.val() == expected


def test_a_resumed_training_goes_on_with_the_rate_that_was_set(tmp_path):
    save = training.SaveEvery(path=tmp_path, passes=1)
    whole, _ = fitted({1: 0.02}, 4)
    fitted({1: 0.02}, 2, save)
    resumed, rate = fitted({}, 4, training.Resume(tmp_path))
    assert rate == 0.02
    np.testing.assert_array_equal(resumed, whole)


@pytest.mark.parametrize(
    "setting, value", [("learning_rate", 0.5), ("regularizer", pd.L2(1.0)), ("clip", pd.L1(1.0))]
)
def test_settings_of_a_parameter_cannot_change_behind_an_update(setting, value):
    run = Training(pd.SGDOptimizer(0.1))
    with pytest.raises(AttributeError, match=rf"w: float32\[3, 4\]: {setting} is a part of what"):
        setattr(run.w, setting, value)
    setattr(run.w, setting, getattr(run.w, setting))
    run.w.trainable = False
    del run.update
    setattr(run.w, setting, value)


def test_what_a_graph_is_built_from_cannot_change_behind_it():
    w = pd.Variable("w", data=8.0)
    scaler, average = pd.LossScaler(pd.SGDOptimizer(1.0)), pd.MovingAverage(0.5)
    scaler.growth_interval, average.decay = 5, 0.75
    step = average.follow(scaler.minimize(w * 1.0))
    for owner, name, value in ((scaler, "growth_factor", 4.0), (average, "decay", 0.5)):
        message = rf"{type(owner).__name__}: {name} is a part of a graph that was built with it"
        with pytest.raises(AttributeError, match=message):
            setattr(owner, name, value)
        setattr(owner, name, getattr(owner, name))
    del step
    scaler.growth_factor, average.decay = 4.0, 0.5
    with pytest.raises(AttributeError, match=r"ReduceOnPlateau: the rate is a Variable.*\n.*, 0.5"):
        pd.schedules.ReduceOnPlateau(0.1).rate = 0.5
    lbfgs = pd.LBFGSOptimizer(history_size=3)
    lbfgs.history_size = 5
    lbfgs.step(w * w)
    with pytest.raises(AttributeError, match="LBFGSOptimizer: history_size=5 is that of its hist"):
        lbfgs.history_size = 3


@pytest.mark.parametrize("rate", [np.array(0.25), np.float32(0.25), np.float64(0.25)])
def test_a_rate_of_numpy(rate):
    groups = [{"params": "w", "learning_rate": rate}]
    for optimizer in (pd.SGDOptimizer(rate), pd.SGDOptimizer(1.0, groups=groups)):
        w = pd.Variable("w", data=np.ones(2, "f"))
        pd.eval(optimizer.minimize(pd.reduce_sum(w)))
        assert w.val().tolist() == [0.75, 0.75]
        pd.reset()
    assert "learning_rate=0.25" in repr(pd.SGDOptimizer(rate))


@pytest.mark.parametrize("rate", ["0.1", None, True, [0.1], np.array([0.1]), np.array(True)])
def test_what_is_no_rate(rate):
    message = r"learning_rate is a number, a scalar Variable or a schedule, not "
    with pytest.raises(TypeError, match=rf"AdamOptimizer: {message}"):
        pd.AdamOptimizer(rate)
    with pytest.raises(TypeError, match=rf"SGDOptimizer: group 0: {message}"):
        pd.SGDOptimizer(groups=[{"params": "w", "learning_rate": rate}])
