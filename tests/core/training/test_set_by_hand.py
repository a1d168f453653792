"""Flags and numbers that a program sets in the middle of a training are in a resumed one, too."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.training import (
    ArrayReader,
    Counter,
    Data,
    Device,
    Resume,
    RunnerItem,
    SaveEvery,
    TrainStep,
)

from .resuming import arrays, assert_same_state, train
from .test_resume import classifier

FEATURES, LABELS = arrays()


class Once(RunnerItem):
    """A callback that changes something at the end of one batch, never again."""

    def __init__(self, batch, change):
        self.batch, self.change = batch, change

    def on_batch_end(self, following):
        result = following()
        if self.context.batches == self.batch:
            self.change()
        return result


def check(build, folder):
    """A training goes on from after the change, also from a checkpoint of one that was resumed."""
    whole, _ = train(build, SaveEvery(1, folder, keep=None))
    again = SaveEvery(1, folder / "again", keep=None)
    for path, more in ("batch-00003", [again]), ("again/batch-00005", []):
        state, _ = train(build, Resume(folder / path), *more, seed=4)
        assert_same_state(state, whole)


def network():
    return pd.nn.Sequential(pd.nn.FC(5, act="tanh"), pd.nn.FC(3), name="net")


def dynamic(make, change, frozen=False, scaled=False):
    """A function that builds a training inside `pd.guard()`; `change(net, optimizer)` once."""

    def build():
        net, optimizer = network(), make()
        if frozen:
            net[0].freeze()
        by = pd.LossScaler(optimizer, 4.0, growth_interval=2) if scaled else optimizer

        def step(x, y):
            with pd.guard():
                cost = pd.reduce_mean(pd.softmax_cross_entropy(net(x), y))
                by.minimize(cost)
                return cost

        reader = ArrayReader(FEATURES, LABELS, batch_size=4, shuffle=True)
        once = Once(2, lambda: change(net, optimizer))
        return [Device(), Counter(), Data(reader), TrainStep(step), once]

    return build


def momentum(**options):
    return lambda: pd.MomentumOptimizer(0.1, rate_in_velocity=False, **options)


def setting(**values):
    def change(net, optimizer):
        for name, value in values.items():
            setattr(optimizer, name, value)

    return change


def set_group(**values):
    def change(net, optimizer):
        optimizer.groups = [{"params": "W$", **values}]

    return change


def together(*changes):
    def change(net, optimizer):
        for each in changes:
            each(net, optimizer)

    return change


GROUP = [{"params": "W$", "learning_rate": 0.2}]
PENALISED = [{"params": "W$", "regularizer": pd.L2(0.3)}]
CHANGES = {
    "rate": (momentum(accumulate=2), setting(learning_rate=0.03)),
    "numbers": (
        momentum(groups=GROUP),
        together(setting(momentum=0.2), set_group(learning_rate=0.011)),
    ),
    "penalties": (
        momentum(groups=PENALISED, regularizer=pd.L2(0.3)),
        together(setting(regularizer=None), set_group(regularizer=None)),
    ),
    "clip": (momentum(clip=pd.ClipNorm(0.01)), setting(clip=None)),
    "frozen": (momentum(), lambda net, optimizer: net[0].freeze()),
    "lookahead": (lambda: pd.Lookahead(pd.AdamOptimizer(0.1), k=2), setting(learning_rate=0.03)),
}


@pytest.mark.parametrize("make, change", CHANGES.values(), ids=CHANGES)
def test_what_is_set_inside_guards_resumes(make, change, tmp_path):
    check(dynamic(make, change), tmp_path)


def test_what_is_set_beside_a_loss_scaler_resumes(tmp_path):
    check(dynamic(momentum(), setting(learning_rate=0.03), scaled=True), tmp_path)


def test_a_layer_that_is_unfrozen_resumes(tmp_path):
    check(dynamic(momentum(), lambda net, _: net[0].unfreeze(), frozen=True), tmp_path)


def static(make, change):
    """The same for a static graph."""
    made = []

    def build():
        def optimizer():
            made[:] = [make()]
            return made[0]

        return classifier(optimizer, lambda: Once(2, lambda: change(*made)))()

    return build


def freeze(optimizer):
    pd.trainable_variables()[0].trainable = False


STATIC = {
    "frozen": (lambda: pd.AdamOptimizer(0.1), freeze),
    "penalty": (
        lambda: pd.AdamOptimizer(0.1, regularizer=pd.L2(0.3)),
        lambda optimizer: setattr(optimizer, "regularizer", None),
    ),
}


@pytest.mark.parametrize("make, change", STATIC.values(), ids=STATIC)
def test_what_is_set_in_static_graphs_resumes(make, change, tmp_path):
    check(static(make, change), tmp_path)


class Network(pd.nn.Module):
    def __init__(self):
        super().__init__("net")
        self.hidden, self.out = pd.nn.FC(5, act="tanh"), pd.nn.FC(3)
        self.optimizer = pd.AdamOptimizer(0.05)

    def forward(self, x):
        return self.out(self.hidden(x))


class Stepping(Network):
    def train_one_batch(self, x, y):
        cost = pd.reduce_mean(pd.softmax_cross_entropy(self.forward(x), y))
        self.optimizer.backward_and_update(cost)
        return cost


@pytest.mark.parametrize("kind", [Network, Stepping])
def test_fit_resumes_what_was_set(kind, tmp_path):
    def change(module):
        module.hidden.freeze()
        module.optimizer.learning_rate = 0.01

    def trained(*callbacks, epochs=3):
        with pd.fresh(seed=3) as session:
            module = kind()
            once = Once(2, lambda: change(module))
            options = {} if kind is Stepping else {"optimizer": module.optimizer}
            if kind is Network:
                options["loss"] = "softmax_cross_entropy"
            options |= {"epochs": epochs, "batch_size": 6, "callbacks": [once, *callbacks]}
            module.fit(FEATURES, LABELS, **options)
            return session.state()

    whole = trained()
    trained(SaveEvery(passes=1, path=tmp_path), epochs=2)
    assert_same_state(trained(Resume(tmp_path)), whole)


# ---- what a program says itself counts


def test_a_rate_that_is_set_after_a_resume_counts(tmp_path):
    """A callback that sets a rate before each batch sets it before the first one, too."""
    made = []

    def make():
        made[:] = [pd.SGDOptimizer(0.1)]
        return made[0]

    build = dynamic(make, setting(learning_rate=0.03))
    train(build, SaveEvery(1, tmp_path, keep=None))

    class Rate(RunnerItem):
        def on_batch_begin(self, following):
            made[0].learning_rate = 0.5
            return following()

    train(lambda: [Rate(), *build()], Resume(tmp_path / "batch-00004"))
    assert made[0].learning_rate == 0.5


def test_what_another_program_freezes_counts(tmp_path):
    """Only what was set since the first step is in a checkpoint."""
    train(dynamic(momentum(), lambda *_: None), SaveEvery(1, tmp_path, keep=None))
    part = pd.training.read_checkpoint(tmp_path / "batch-00004").parts["Device"]
    assert "by_hand" not in part
    resume = Resume(tmp_path / "batch-00004")
    before, _ = train(dynamic(momentum(), lambda *_: None), resume)
    frozen, _ = train(dynamic(momentum(), lambda *_: None, frozen=True), resume)
    assert (frozen["values"]["net/0/W"] != before["values"]["net/0/W"]).any()


def test_a_resume_that_fails_sets_nothing(tmp_path):
    build = dynamic(momentum(), lambda net, o: (net[0].freeze(), setattr(o, "learning_rate", 0.7)))
    train(build, SaveEvery(1, tmp_path, keep=None))

    class Refuses(RunnerItem):
        def state(self):
            return {}

        def restore(self, state):
            raise ValueError("no")

    checkpoint = pd.training.read_checkpoint(tmp_path / "batch-00004")
    assert checkpoint.parts["Device"]["by_hand"]["trainable"]["net/0/W"] is False
    assert list(checkpoint.parts["Device"]["by_hand"]["settings"].values()) == [
        {"learning_rate": 0.7}
    ]
    checkpoint.parts["Refuses"] = {}
    pd.training.write_checkpoint(tmp_path / "other", checkpoint)
    with pytest.raises(pd.GraphError, match="nothing is restored"):
        train(lambda: [*build(), Refuses()], Resume(tmp_path / "other"))
    v = pd.Variable("net/0/W", data=np.ones(2))
    assert v.trainable  # nothing waits for a variable of this name
    with pd.guard():
        optimizer = pd.MomentumOptimizer(0.1, rate_in_velocity=False)
        optimizer.minimize(pd.reduce_sum(v * v))
    assert optimizer.learning_rate == 0.1


@pytest.mark.parametrize("seed", [None, -1, 0.5, True])
def test_seeds_of_readers_are_checked(seed):
    with pytest.raises(ValueError, match="seed is a whole number of 0 or more"):
        ArrayReader(FEATURES, shuffle=True, seed=seed)


# ---- states of optimizers


@pytest.mark.parametrize("is_static", [True, False])
def test_states_have_penalties_that_were_taken_away(is_static):
    def trained(state=None):
        with pd.fresh():
            w = pd.Variable("w", data=[1.0, -2.0])
            x = pd.Variable([None, 2])
            optimizer = pd.AdamOptimizer(0.1, regularizer=pd.L2(0.5))
            if state is not None:
                pd.default_session().set(w, state["w"])
            update = optimizer.minimize(pd.reduce_mean(x * w)) if is_static else None

            def step(k):
                fed = np.random.default_rng(k).normal(size=(3, 2)).astype("f4")
                if is_static:
                    pd.eval(update, {x: fed})
                    return
                with pd.guard():
                    optimizer.minimize(pd.reduce_mean(fed * w))

            if state is None:
                step(0)
                optimizer.regularizer = None
                state = {**optimizer.state(), "w": w.val()}
            else:
                optimizer.load_state({k: v for k, v in state.items() if k != "w"})
            step(1)
            return w.val(), state

    (whole, state), (resumed, _) = (first := trained()), trained(first[1])
    assert state["settings/regularizer"] == 0.0
    assert whole.tobytes() == resumed.tobytes()
