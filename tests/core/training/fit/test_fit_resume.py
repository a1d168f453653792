"""Module.fit with SaveEvery and Resume: a training goes on as if it had not stopped."""

import itertools

import numpy as np
import pytest

import pd_core as pd
from pd_core.dynamic import seen
from tests.thinned import thinned

f32 = np.float32


class Network(pd.nn.Module):
    """Classes of the pixels of images [B, H, W, 4], with dropout and batch norm."""

    def __init__(self):
        super().__init__("net")
        self.hidden, self.out = pd.nn.FC(8, act="tanh"), pd.nn.FC(3)
        self.norm, self.dropout = pd.nn.LayerNorm(), pd.nn.Dropout(0.3)
        self.batch_norm = pd.nn.BatchNorm2d()

    def forward(self, x):
        x = self.dropout(self.norm(self.hidden(x)))
        x = self.batch_norm(pd.transpose(x, [0, 3, 1, 2]))
        return self.out(pd.transpose(x, [0, 2, 3, 1]))


class Stepping(Network):
    def __init__(self):
        super().__init__()
        self.loss, self.optimizer = pd.nn.SoftmaxCrossEntropy(), pd.AdamOptimizer(0.02)

    def train_one_batch(self, x, y):
        scores = self(x)
        cost = self.loss(scores, y)
        self.optimizer.backward_and_update(cost)
        return scores, cost


def batch(height=2, width=3, n=6):
    rng, size = np.random.default_rng(height), (n, height, width)
    return rng.standard_normal((*size, 4)).astype(f32), rng.integers(0, 3, size)


class Killed(Exception):
    pass


class KillAt(pd.training.RunnerItem):
    """The end of the process after so many batches."""

    def __init__(self, batches):
        self.batches = batches

    def on_batch_end(self, following):
        result = following()
        if self.context.batches == self.batches:
            self.context.after(self.kill, last=True)
        return result

    def kill(self):
        raise Killed


DATA = {
    "arrays": batch(n=40),
    "heights": ([batch(n) for n in (2, 2, 2, 7, 4, 7)],),
    "heights and widths": ([batch(), batch(), batch(4), batch(), batch(3, 5), batch(1, 4)],),
}


def trained(kind, data, *callbacks, epochs=3):
    """All that is left of a training in a process of its own, and the draws that come next."""
    for lines in (seen.sizes, seen.numbers, seen.changing):  # of a process of its own
        lines.clear()
    with pd.fresh(seed=7) as session:
        module = kind()
        options = {"loss": pd.nn.SoftmaxCrossEntropy(), "metrics": ["accuracy"]}
        if kind is Network:
            options["optimizer"] = pd.AdamOptimizer(0.02)
            options["class_weight"] = {1: 2.0}
        if len(data) == 2:  # a reader has its own order
            options["seed"] = 2
        history = module.fit(
            *data,
            epochs=epochs,
            batch_size=7,
            validation_data=batch(2),
            callbacks=callbacks,
            **options,
        )
        values = {v.name: array for v, array in session.values().items()}
        return dict(history), values, dict(session.draws)


KILLS = itertools.product([Network, Stepping], DATA, [1, 4, 6, 9, 15])


@pytest.mark.parametrize("kind, data, killed_after", thinned(KILLS, 7))
def test_a_killed_training_goes_on_bit_by_bit(kind, data, killed_after, tmp_path):
    save = pd.training.SaveEvery(batches=1, path=tmp_path)
    expected = trained(kind, DATA[data])
    with pytest.raises(Killed):
        trained(kind, DATA[data], KillAt(killed_after), save)
    save = pd.training.SaveEvery(batches=1, path=tmp_path)
    history, values, draws = trained(kind, DATA[data], save, pd.training.Resume(tmp_path))
    assert history == expected[0]
    assert values.keys() == expected[1].keys()
    for name, value in expected[1].items():
        np.testing.assert_array_equal(values[name], value, err_msg=name)
    assert draws == expected[2]


def test_more_epochs_after_the_last_one(tmp_path):
    save = pd.training.SaveEvery(passes=1, path=tmp_path)
    expected, values, _ = trained(Network, DATA["arrays"], epochs=4)
    trained(Network, DATA["arrays"], save, epochs=2)
    resume = pd.training.Resume(tmp_path)
    history, resumed, _ = trained(Network, DATA["arrays"], resume, epochs=4)
    assert history == expected
    assert all((resumed[name] == values[name]).all() for name in values)
    history, *_ = trained(Network, DATA["arrays"], pd.training.Resume(tmp_path), epochs=1)
    assert len(history["cost"]) == 2  # there were more already


def test_a_checkpoint_of_another_optimizer_is_refused(tmp_path):
    x, y = batch()
    options = {"loss": pd.nn.SoftmaxCrossEntropy()}
    save = pd.training.SaveEvery(passes=1, path=tmp_path)
    with pd.fresh():
        Network().fit(x, y, optimizer=pd.AdamOptimizer(), callbacks=[save], **options)
    resume = pd.training.Resume(tmp_path)
    text = "the checkpoint was trained by AdamOptimizer, not by SGDOptimizer"
    with pd.fresh(), pytest.raises(pd.GraphError, match=text):
        Network().fit(x, y, optimizer=pd.SGDOptimizer(), callbacks=[resume], **options)


def test_a_checkpoint_of_other_batches_changes_nothing(tmp_path):
    """The state of each item is checked before the first one is restored."""
    trained(Network, DATA["arrays"], pd.training.SaveEvery(passes=1, path=tmp_path), epochs=1)
    checkpoint = pd.training.read_checkpoint(tmp_path / "batch-00006")
    step = checkpoint.parts["StaticStep"]
    step["shapes"] = [[*shapes, shapes[0]] for shapes in step["shapes"]]
    pd.training.write_checkpoint(tmp_path / "other", checkpoint)
    x, y = DATA["arrays"]
    options = {"loss": pd.nn.SoftmaxCrossEntropy(), "metrics": ["accuracy"]}
    options |= {"class_weight": {1: 2.0}, "validation_data": batch(2), "batch_size": 7, "seed": 2}
    resume = pd.training.Resume(tmp_path / "other")
    with pd.fresh() as session:
        with pytest.raises(pd.GraphError, match="of batches of 4 arrays, not 3"):
            Network().fit(x, y, optimizer=pd.AdamOptimizer(), callbacks=[resume], **options)
        assert session.store.is_empty


def test_a_validation_that_comes_later_has_its_epochs(tmp_path):
    """Lists of a History are as long as the training; epochs without a number have NaN."""
    x, y = batch()
    options = {"loss": pd.nn.SoftmaxCrossEntropy(), "validation_data": batch(n=3)}

    def fit(epochs, **more):
        with pd.fresh(seed=7):
            settings = {**options, "optimizer": pd.SGDOptimizer(0.1), "epochs": epochs, **more}
            return Network().fit(x, y, **settings)

    save = pd.training.SaveEvery(passes=1, path=tmp_path)
    fit(2, callbacks=[save], validation_data=None)
    history = fit(3, callbacks=[save, pd.training.Resume(tmp_path)])
    assert len(history["cost"]) == len(history["val_cost"]) == 3
    assert np.isnan(history["val_cost"]).tolist() == [True, True, False]
    history = fit(4, callbacks=[pd.training.Resume(tmp_path)], validation_data=None)
    assert np.isnan(history["val_cost"]).tolist() == [True, True, False, True]
