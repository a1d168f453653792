"""Searches with Optuna: trials that are pruned, each in names and a session of its own."""

import gc
import weakref

import numpy as np
import pytest

import pd_core as pd

optuna = pytest.importorskip("optuna")
optuna.logging.set_verbosity(optuna.logging.WARNING)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)
SESSIONS = []


class Net(pd.nn.Module):
    """A hidden layer."""

    def __init__(self, width):
        super().__init__()
        self.layers = pd.nn.Sequential(pd.nn.FC(width, act="relu"), pd.nn.FC(2))

    def forward(self, x):
        return self.layers(x)


def objective(trial):
    """Trials of a learning rate that is too small are worse in each pass."""
    rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
    with pd.fresh() as session:
        SESSIONS.append(weakref.ref(session))
        history = Net(trial.suggest_int("width", 2, 8)).fit(
            X,
            Y,
            optimizer=pd.AdamOptimizer(rate),
            loss="softmax_cross_entropy",
            epochs=5,
            validation_split=0.25,
            callbacks=[pd.training.PruneTrial(trial, "val_cost")],
        )
    return history["val_cost"][-1]


def test_bad_trials_are_pruned_and_leave_nothing():
    pruner = optuna.pruners.MedianPruner(n_startup_trials=2)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0), pruner=pruner)
    study.enqueue_trial({"rate": 0.1, "width": 8})
    study.enqueue_trial({"rate": 0.05, "width": 8})
    study.enqueue_trial({"rate": 1e-4, "width": 8})
    study.optimize(objective, n_trials=4)
    states = [trial.state.name for trial in study.trials]
    assert states[:3] == ["COMPLETE", "COMPLETE", "PRUNED"]
    assert [*study.trials[2].intermediate_values] == [0]
    assert [*study.trials[0].intermediate_values] == [0, 1, 2, 3, 4]
    gc.collect()
    assert not [s for s in SESSIONS if s() is not None]


def test_a_runner_tells_the_number_of_each_pass():
    study = optuna.create_study()
    trial = study.ask()
    t = pd.training
    with pd.fresh():
        x, y = pd.Variable("x", shape=[None, 4]), pd.Variable("y", shape=[None], dtype="int64")
        cost = pd.reduce_mean(pd.softmax_cross_entropy(pd.layer.fc(x, 2), y))
        data = t.Data(t.ArrayReader(X, Y), [x, y])
        items = [t.Device(), t.Counter(), data, t.ForwardBackward(cost), t.PruneTrial(trial)]
        with t.runner_of([*items, t.Update(pd.SGDOptimizer(0.1))]) as runner:
            context = runner.run(2)
    values = study.trials[0].intermediate_values
    assert [*values] == [0, 1] and values[1] == context.pass_metrics["cost"]


def test_errors():
    with pytest.raises(TypeError, match="takes a trial of Optuna, not 3"):
        pd.training.PruneTrial(3)
