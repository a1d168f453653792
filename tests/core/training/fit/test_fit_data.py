"""Data of Module.fit: several inputs, readers, sizes that change."""

from typing import NamedTuple

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


class Linear(pd.nn.Module):
    def __init__(self, size=1, name=None):
        super().__init__(name)
        self.fc = pd.nn.FC(size)

    def forward(self, x):
        return self.fc(x)


class Pair(NamedTuple):
    sum: object
    parts: dict


class TwoInputs(pd.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = pd.nn.FC(1), pd.nn.FC(1)

    def forward(self, a, b):
        a, b = self.first(a), self.second(b)
        return Pair(a + b, {"a": a, "count": 2})


class Tagger(pd.nn.Module):
    """Classes of the elements of sequences [B, T, 4], and dropout."""

    def __init__(self, rate=0.0):
        super().__init__("tagger")
        self.rnn, self.out = pd.nn.GRU(5), pd.nn.FC(3)
        self.dropout = pd.nn.Dropout(rate)

    def forward(self, x):
        return self.out(self.dropout(self.rnn(x)[0]))


class SteppingTagger(Tagger):
    def __init__(self):
        super().__init__()
        self.loss, self.optimizer = pd.nn.SoftmaxCrossEntropy(), pd.AdamOptimizer(0.02)

    def train_one_batch(self, x, y):
        scores = self(x)
        cost = self.loss(scores, y)
        self.optimizer.backward_and_update(cost)
        return scores, cost


def sequences(*lengths, n=4):
    rng = np.random.default_rng(0)
    shapes = [(n, length) for length in lengths]
    return [(rng.standard_normal((*s, 4)).astype(f32), rng.integers(0, 3, s)) for s in shapes]


def line(n=20, size=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, size)).astype(f32)
    return x, x.sum(1, keepdims=True)


OPTIONS = {"optimizer": pd.SGDOptimizer(0.1), "loss": pd.nn.MSE()}


# ---- forms of data


def test_several_inputs_and_targets():
    (a, y), (b, z) = line(), line(size=2, seed=1)
    module = TwoInputs()

    def loss(total, part, y, z):
        return pd.reduce_mean(pd.square(total - y)) + pd.reduce_mean(pd.square(part - z))

    options = {"optimizer": pd.SGDOptimizer(0.1), "loss": loss, "batch_size": 8}
    y, z = y + z, y
    history = module.fit((a, b), [y, z], epochs=9, validation_split=0.2, **options)
    assert history.cost[8] < 0.1 * history.cost[0]
    assert history["val_cost"][8] < 0.5 * history["val_cost"][0]
    total, parts = module.predict([a, b], batch_size=8)
    assert total.shape == parts["a"].shape == (20, 1)
    assert parts["count"] == 2
    first, second = module.first, module.second
    expected = a @ first.W.numpy() + first.B.numpy(), b @ second.W.numpy() + second.B.numpy()
    np.testing.assert_allclose(parts["a"], expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(total, sum(expected), rtol=1e-4, atol=1e-5)
    cost = np.square(total - y).mean() + np.square(parts["a"] - z).mean()
    found = module.evaluate((a, b), (y, z), batch_size=8)
    assert found == {"cost": pytest.approx(cost, rel=1e-5)}
    with pytest.raises(TypeError, match="metrics are for one output and one y, there are 2 and 2"):
        module.fit((a, b), [y, z], metrics="mse", **options)


def batches(x, y):
    for first in range(0, len(x), 8):
        yield x[first : first + 8], y[first : first + 8]


class Batches:
    def __iter__(self):
        return batches(*line())


READERS = {
    "function": lambda: lambda: batches(*line()),
    "list": lambda: list(batches(*line())),
    "iterable": Batches,
    "array reader": lambda: pd.training.ArrayReader(*line(), batch_size=8),
    "nested lists": lambda: [([*map(list, x)], y.tolist()) for x, y in batches(*line())],
}


@pytest.mark.parametrize("kind", READERS)
def test_readers_give_the_batches_of_arrays(kind):
    x, y = line()
    with pd.fresh():
        module = Linear()
        expected = module.fit(x, y, epochs=2, shuffle=False, batch_size=8, **OPTIONS)
        evaluation = module.evaluate(x, y, batch_size=8)
    with pd.fresh():
        module = Linear()
        assert module.fit(READERS[kind](), epochs=2, **OPTIONS).cost == expected.cost
        assert module.evaluate(READERS[kind]()) == evaluation


def test_the_first_batch_is_read_without_a_trace():
    order = []

    def reader():
        order.append(np.random.permutation(20))
        yield from batches(*[a[order[-1]] for a in line()])

    np.random.seed(3)
    Linear().fit(reader, epochs=2, **OPTIONS)
    np.random.seed(3)
    expected = [np.random.permutation(20) for _ in range(2)]
    assert len(order) == 3
    np.testing.assert_array_equal(order[1:], expected)


def test_the_order_depends_on_seed_and_epoch():
    x, y = line()

    def costs(seed):
        with pd.fresh():
            return Linear().fit(x, y, batch_size=8, epochs=2, seed=seed, **OPTIONS).cost

    assert costs(0) == costs(0)
    assert costs(0) != costs(1)


def test_a_split_takes_the_last_samples():
    x, y = line()
    seen = []

    class Seen(pd.training.RunnerItem):
        def on_batch_begin(self, following):
            seen.append(self.context.feeds[0])
            return following()

    options = {**OPTIONS, "optimizer": pd.SGDOptimizer(0.0)}
    module = Linear()
    history = module.fit(x, y, validation_split=0.25, callbacks=[Seen()], **options)
    assert sorted(map(tuple, np.concatenate(seen))) == sorted(map(tuple, x[:15]))
    cost = module.evaluate(x[15:], y[15:])["cost"]
    assert history["val_cost"] == [pytest.approx(cost, rel=1e-6)]


def test_float64_and_integers_are_fed():
    x, y = line()
    expected = Linear(name="a").fit(x, y, **OPTIONS).cost
    assert Linear(name="b").fit(x.astype("f8"), y.astype("f8"), **OPTIONS).cost != []
    assert expected != []


# ---- sizes that change


def test_lengths_may_change_from_batch_to_batch():
    data = sequences(5, 5, 7, 2, 9)
    with pd.fresh():
        expected = SteppingTagger().fit(data, epochs=2, metrics="accuracy")
    with pd.fresh():
        module, loss = Tagger(), pd.nn.SoftmaxCrossEntropy()
        options = {"optimizer": pd.AdamOptimizer(0.02), "loss": loss, "metrics": "accuracy"}
        history = module.fit(data, epochs=2, validation_data=sequences(11), **options)
        assert module.evaluate(data).keys() == {"cost", "accuracy"}
    np.testing.assert_allclose(history.cost, expected.cost, rtol=1e-4)
    np.testing.assert_allclose(history["accuracy"], expected["accuracy"])


def test_a_changed_length_is_built_and_compiled_once(no_programs):
    module, loss = Tagger(), pd.nn.SoftmaxCrossEntropy()
    options = {"optimizer": pd.AdamOptimizer(0.02), "loss": loss}
    module.fit(sequences(5, 5), **options)
    before = pd.stats()["compiled"]
    module.fit(sequences(5, 6, 7, 8, 3, 9), epochs=2, class_weight={1: 2.0}, **options)
    assert pd.stats()["compiled"] - before <= 2


def test_a_validation_may_have_other_lengths():
    module, loss = Tagger(), pd.nn.SoftmaxCrossEntropy()
    options = {"optimizer": pd.SGDOptimizer(0.0), "loss": loss, "class_weight": {0: 7.0}}
    history = module.fit(sequences(5, 5), validation_data=sequences(6, 8), **options)
    cost = module.evaluate(sequences(6, 8))["cost"]
    assert history["val_cost"] == [pytest.approx(cost, rel=1e-5)]


def test_the_saved_model_takes_what_was_trained_on(tmp_path):
    module, loss = Tagger(), pd.nn.SoftmaxCrossEntropy()
    options = {"optimizer": pd.AdamOptimizer(0.02), "loss": loss}
    module.fit(sequences(5, 7), **options)
    module.save(tmp_path / "tagger", state={"optimizer": options["optimizer"]})
    ((x, _),) = sequences(9, n=3)
    session = pytest.importorskip("onnxruntime").InferenceSession(tmp_path / "tagger.onnx")
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(found, module.predict(x), rtol=1e-5, atol=1e-6)
    assert session.get_inputs()[0].name == "input_0"
    twin = Tagger()
    with pd.fresh():
        twin = Tagger()
        twin.compile([(None, None, 4)])
        state = twin.load(tmp_path / "tagger", include_state=True)["optimizer"]
    assert state["tagger/out/W/m"].any()


def test_outputs_of_other_lengths_are_no_array():
    module = Tagger()
    with pytest.raises(pd.ShapeError, match=r"have shapes \(4, 5, 3\) and \(4, 7, 3\)"):
        module.predict(lambda: [x for x, _ in sequences(5, 7)])
