"""Module.fit: the numbers of loops written in PyTorch, modes, histories, weights."""

import copy
import re

import numpy as np
import pytest

import pd_core as pd
from pd_core.optimizers.named import OPTIMIZERS
from pd_core.training.fit.criterion import LOSSES

f32 = np.float32


class Network(pd.nn.Module):
    """A perceptron for three classes, with what differs between the modes."""

    def __init__(self, rate=0.0, norm=True, name="net"):
        super().__init__(name)
        self.hidden, self.out = pd.nn.FC(8, act="tanh"), pd.nn.FC(3)
        self.norm = pd.nn.BatchNorm1d() if norm else pd.nn.Flatten()
        self.dropout = pd.nn.Dropout(rate)

    def forward(self, x):
        return self.out(self.dropout(self.norm(self.hidden(x))))


class Stepping(Network):
    """The same network with a step of its own."""

    def __init__(self, returns_output=True, **options):
        super().__init__(**options)
        self.loss, self.optimizer = pd.nn.SoftmaxCrossEntropy(), pd.AdamOptimizer(0.02)
        self.returns_output = returns_output

    def train_one_batch(self, x, y):
        scores = self(x)
        cost = self.loss(scores, y)
        self.optimizer.backward_and_update(cost)
        return (scores, cost) if self.returns_output else cost


def samples(n=50, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 4)).astype(f32)
    return x, (x[:, 0] > 0).astype(int) + (x[:, 1] > 0.3)


def torch_network(module, torch):
    """The same network in PyTorch, from equal parameters."""
    n = torch.nn

    class Norm(n.BatchNorm1d):
        """Its moving variance is the biased one, as ours is."""

        def forward(self, x):
            if self.training:
                moments = x.detach().mean(0), x.detach().var(0, unbiased=False)
                for moving, now in zip((self.running_mean, self.running_var), moments, strict=True):
                    moving.lerp_(now, 0.1)
            used = (None, None) if self.training else (self.running_mean, self.running_var)
            return n.functional.batch_norm(x, *used, self.weight, self.bias, self.training)

    twin = n.Sequential(n.Linear(4, 8), n.Tanh(), Norm(8), n.Linear(8, 3))
    module.compile([(None, 4)])
    own = {name: torch.tensor(v.numpy()) for name, v in module.get_params().items()}
    state = {"0.weight": own["hidden.W"].T, "0.bias": own["hidden.B"]}
    state |= {"3.weight": own["out.W"].T, "3.bias": own["out.B"]}
    twin.load_state_dict(state, strict=False)
    return twin


def torch_fit(twin, x, y, epochs, weights=None, batch=16, rate=0.02, held_out=None, seed=3):
    """Adam over shuffled batches; the cost and accuracy of each epoch."""
    import torch

    optimizer = torch.optim.Adam(twin.parameters(), rate, eps=1e-8)
    loss = torch.nn.CrossEntropyLoss(reduction="none")
    history = {name: [] for name in ("cost", "accuracy", "val_cost", "val_accuracy")}
    for epoch in range(epochs):
        order = np.random.default_rng([seed, epoch]).permutation(len(x))
        total = hits = 0.0
        for first in range(0, len(x), batch):
            rows = order[first : first + batch]
            labels, scores = torch.tensor(y[rows]), twin(torch.tensor(x[rows]))
            losses = loss(scores, labels)
            w = 1.0 if weights is None else torch.tensor(weights[rows], dtype=torch.float32)
            cost = (w * losses).sum() / len(rows)
            optimizer.zero_grad()
            cost.backward()
            optimizer.step()
            total += cost.item() * len(rows)
            hits += (scores.argmax(1) == labels).sum().item()
        history["cost"].append(total / len(x))
        history["accuracy"].append(hits / len(x))
        if held_out is not None:
            twin.eval()
            with torch.no_grad():
                scores, labels = twin(torch.tensor(held_out[0])), torch.tensor(held_out[1])
            history["val_cost"].append(loss(scores, labels).mean().item())
            history["val_accuracy"].append((scores.argmax(1) == labels).float().mean().item())
            twin.train()
    return {name: values for name, values in history.items() if values}


def assert_same(module, twin):
    state = twin.state_dict()
    for name, other in (("hidden.W", "0.weight"), ("out.W", "3.weight"), ("out.B", "3.bias")):
        value = module.get_params()[name].numpy()
        np.testing.assert_allclose(value, state[other].numpy().T, rtol=1e-3, atol=1e-4)
    mean = module.get_states()["norm.mean"].numpy()
    np.testing.assert_allclose(mean, state["2.running_mean"].numpy(), rtol=1e-3, atol=1e-4)


def adam():
    return pd.AdamOptimizer(0.02, epsilon=1e-8)


OPTIONS = {"batch_size": 16, "seed": 3, "metrics": ["accuracy"], "verbose": False}


@pytest.mark.parametrize("validation", ["split", "data", "reader"])
def test_training_and_validation_are_those_of_pytorch(validation):
    torch = pytest.importorskip("torch")
    module, (x, y) = Network(), samples(60)
    twin = torch_network(module, torch)
    held_out = x[48:], y[48:]
    given = {
        "split": {"validation_split": 0.2},
        "data": {"validation_data": held_out},
        "reader": {"validation_data": [(x[48:52], y[48:52]), (x[52:], y[52:])]},
    }[validation]
    own = (x, y) if validation == "split" else (x[:48], y[:48])
    loss = pd.nn.SoftmaxCrossEntropy()
    history = module.fit(*own, optimizer=adam(), loss=loss, epochs=4, **given, **OPTIONS)
    expected = torch_fit(twin, x[:48], y[:48], 4, held_out=held_out)
    assert history.epochs == 4
    assert history.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-4, err_msg=name)
    assert_same(module, twin)


def test_evaluation_and_prediction_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    module, (x, y) = Network(rate=0.5), samples()
    twin = torch_network(module, torch).eval()
    scores = twin(torch.tensor(x))
    loss = torch.nn.functional.cross_entropy(scores, torch.tensor(y)).item()
    found = module.evaluate(
        x, y, loss=pd.nn.SoftmaxCrossEntropy(), metrics="accuracy", batch_size=7
    )
    assert found == {
        "cost": pytest.approx(loss, rel=1e-5),
        "accuracy": pytest.approx((scores.argmax(1).numpy() == y).mean()),
    }
    y = module.predict(x, batch_size=7)
    np.testing.assert_allclose(y, scores.detach(), rtol=1e-4, atol=1e-5)
    found = module.predict(lambda: iter([x[:20], x[20:]]))
    np.testing.assert_allclose(found, y, rtol=1e-5, atol=1e-6)


def test_a_step_of_the_module_is_taken_for_each_batch():
    torch = pytest.importorskip("torch")
    module, (x, y) = Stepping(), samples(60)
    twin = torch_network(module, torch)
    history = module.fit(
        x[:48], y[:48], epochs=3, validation_data=(x[48:], y[48:]), loss=module.loss, **OPTIONS
    )
    expected = torch_fit(twin, x[:48], y[:48], 3, held_out=(x[48:], y[48:]))
    assert history.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-4, err_msg=name)
    assert_same(module, twin)


def test_a_step_may_return_the_cost_alone():
    x, y = samples()
    history = Stepping(returns_output=False).fit(x, y, epochs=2)
    assert history.keys() == {"cost"}
    with pytest.raises(TypeError, match=r"train_one_batch returns \(output, cost\)"):
        Stepping(returns_output=False, name="b").fit(x, y, metrics="accuracy")


@pytest.mark.parametrize("form", ["class_weight", "sample_weight", "both", "reader"])
def test_weights_multiply_the_losses_of_samples(form):
    torch = pytest.importorskip("torch")
    module, (x, y) = Network(), samples(48)
    twin = torch_network(module, torch)
    classes = np.array([1.0, 1.0, 5.0])[y]
    rows = np.random.default_rng(4).random(48).astype(f32)
    weights = {"class_weight": classes, "both": classes * rows}.get(form, rows)
    given = {"class_weight": {2: 5.0, 0: 1}} if form in ("class_weight", "both") else {}
    if form in ("sample_weight", "both"):
        given["sample_weight"] = rows
    data = (x, y)
    given = {**given, **OPTIONS}
    if form == "reader":
        data, weights = (Shuffled(x, y, rows),), rows
        del given["seed"]  # it has its own order; batches of the validation have a size
    loss = pd.nn.SoftmaxCrossEntropy()
    history = module.fit(
        *data, optimizer=adam(), loss=loss, epochs=3, validation_data=(x, y), **given
    )
    # sum(w loss) / n, Keras's "sum_over_batch_size"; validations have no weights
    expected = torch_fit(twin, x, y, 3, weights, held_out=(x, y))
    for name, values in expected.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-4, err_msg=name)
    assert_same(module, twin)
    assert loss.reduction == "mean"


class Shuffled:
    """An iterable of batches in the order of an ArrayReader."""

    def __init__(self, *arrays):
        self.arrays, self.epoch = arrays, -1  # the first is read for its shapes

    def __iter__(self):
        order = np.random.default_rng([3, max(self.epoch, 0)]).permutation(len(self.arrays[0]))
        self.epoch += 1
        for first in range(0, len(order), 16):
            yield tuple(a[order[first : first + 16]] for a in self.arrays)


def test_weights_of_labels_in_sequences():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((6, 5, 4)).astype(f32), rng.integers(0, 3, (6, 5))
    module = Network(norm=False)
    module.norm = pd.nn.Dropout(0.0)
    loss = pd.nn.SoftmaxCrossEntropy()
    options = {"optimizer": pd.SGDOptimizer(0.0), "loss": loss, "batch_size": 6}
    weighted = module.fit(x, y, class_weight={1: 3.0}, **options).cost
    scores = module.predict(x)
    log_p = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    losses = -np.take_along_axis(log_p, y[..., None], -1)[..., 0]
    assert weighted == [pytest.approx((losses * np.where(y == 1, 3, 1)).mean(), rel=1e-5)]
    rows = np.arange(6.0)
    weighted = module.fit(x, y, sample_weight=rows, **options).cost
    assert weighted == [pytest.approx((losses * rows[:, None]).mean(), rel=1e-5)]


def scheduled():
    schedule = pd.schedules.ExponentialDecay(0.1, 0.5, every=5)
    return pd.MomentumOptimizer(schedule, regularizer=pd.L2(1e-3), clip=pd.ClipGlobalNorm(0.5))


@pytest.mark.parametrize("make", [adam, scheduled])
def test_another_fit_goes_on_with_the_optimizer(make):
    x, y = samples()
    options = {"loss": pd.nn.SoftmaxCrossEntropy(), "shuffle": False}

    def trained(*epochs):
        with pd.fresh():
            module, optimizer = Network(), make()
            costs = [c for n in epochs for c in fitted(module, optimizer, n)]
            return costs, module.state_dict(), optimizer.state()

    def fitted(module, optimizer, epochs):
        return module.fit(x, y, optimizer=optimizer, epochs=epochs, **options).cost

    once, twice = trained(4), trained(1, 3)
    assert once[0] == twice[0]
    for a, b in zip(once[1:], twice[1:], strict=True):
        assert a.keys() == b.keys()
        assert all((a[name] == b[name]).all() for name in a)
    assert twice[2].keys() > {f"net/out/W/{slot}" for slot in make().slots}


@pytest.mark.parametrize("order", ["static first", "dynamic first"])
def test_static_and_dynamic_steps_share_the_optimizer(order):
    x, y = samples(48)
    loss = pd.nn.SoftmaxCrossEntropy()

    def static(module, optimizer):
        module.fit(x, y, optimizer=optimizer, loss=loss, shuffle=False, batch_size=16)

    def dynamic(module, optimizer):
        for first in range(0, 48, 16):
            with pd.guard():
                rows = slice(first, first + 16)
                optimizer.minimize(loss(module(x[rows]), y[rows]))

    def trained(*parts):
        with pd.fresh():
            module, optimizer = Network(), adam()
            for part in parts:
                part(module, optimizer)
            return module.state_dict()

    parts = (static, dynamic) if order == "static first" else (dynamic, static)
    mixed, expected = trained(*parts), trained(dynamic, dynamic)
    for name, value in expected.items():
        np.testing.assert_allclose(mixed[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_the_learning_rate_falls_while_nothing_gets_better():
    x, y = samples()
    module, reduce = Network(), pd.training.ReduceRate(factor=0.5, patience=1, mode="max")
    module.fit(
        x,
        y,
        optimizer=pd.SGDOptimizer(0.1),
        loss=pd.nn.SoftmaxCrossEntropy(),
        epochs=4,
        callbacks=[reduce],
    )
    assert reduce.context.rate_factor == 0.125
    before = module.state_dict()["out.W"]
    stop = pd.training.ReduceRate(factor=0.5, patience=1, mode="max", least=1e-9)
    module.fit(
        x,
        y,
        optimizer=pd.SGDOptimizer(0.0),
        loss=pd.nn.SoftmaxCrossEntropy(),
        callbacks=[stop],
    )
    assert (module.state_dict()["out.W"] == before).all()


def test_callbacks_end_a_training_and_see_its_numbers():
    x, y = samples()
    costs = []

    class Costs(pd.training.RunnerItem):
        def on_batch_end(self, following):
            costs.append(self.context.cost)
            return following()

    history = Network().fit(
        x,
        y,
        optimizer=pd.SGDOptimizer(0.0),
        loss=pd.nn.SoftmaxCrossEntropy(),
        epochs=9,
        batch_size=25,
        validation_split=0.5,
        callbacks=[pd.training.StopEarly(patience=2), Costs()],
    )
    assert history.epochs == 3
    assert len(costs) == 3
    assert costs == history.cost


WATCHES = {
    "StopEarly": lambda name: pd.training.StopEarly(name, patience=50),
    "ReduceRate": lambda name: pd.training.ReduceRate(0.5, name, patience=50),
    "Observe": lambda name: Seen(pd.schedules.ReduceOnPlateau(0.02), name),
}


class Seen(pd.training.Observe):
    best = None

    def see(self, name, value):
        super().see(name, value)
        self.best, self.watched = min(value, self.best or value), name


@pytest.mark.parametrize("name", ["cost", "accuracy", "val_cost", "val_accuracy"])
@pytest.mark.parametrize("make", WATCHES.values(), ids=WATCHES)
def test_callbacks_watch_what_the_history_has(make, name):
    x, y = samples()
    watch = make(name)
    history = Network(rate=0.3).fit(
        *(x, y),
        optimizer=pd.AdamOptimizer(0.02),
        loss=pd.nn.SoftmaxCrossEntropy(),
        validation_split=0.4,
        metrics="accuracy",
        epochs=4,
        callbacks=[watch],
    )
    best = max if "accuracy" in name and not isinstance(watch, Seen) else min
    assert watch.best == best(history[name])
    assert watch.watched == name.replace("val_", "test/")


@pytest.mark.parametrize("name", ["val_cost", "val_f1", "val_"])
def test_a_number_of_tests_that_there_are_not(name):
    x, y = samples()
    options = {"optimizer": pd.SGDOptimizer(0.1), "loss": pd.nn.SoftmaxCrossEntropy()}
    with pytest.raises(pd.GraphError, match=f"StopEarly: there is no '{name}' at the end"):
        Network().fit(x, y, callbacks=[pd.training.StopEarly(name)], **options)


@pytest.mark.parametrize("kind", [Network, Stepping])
def test_a_callback_may_test_on_other_data(kind):
    x, y = samples()
    costs = []
    test = pd.training.TestEvery(
        batches=2,
        reader=lambda: iter([(x[:20], y[:20]), (x[20:], y[20:])]),
        on_result=lambda context, result: costs.append(result.cost),
    )
    given = {"loss": pd.nn.SoftmaxCrossEntropy()}
    if kind is Network:
        given |= {"optimizer": adam(), "class_weight": {0: 9.0}}
    module = kind()
    history = module.fit(x, y, batch_size=25, callbacks=[test], epochs=2, **given)
    assert history.keys() == {"cost"}
    assert len(costs) == 2
    assert costs[1] == pytest.approx(module.evaluate(x, y)["cost"], rel=1e-5)


@pytest.mark.parametrize("kind", [Network, Stepping])
@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_as_before(kind, training):
    module, (x, y) = kind(rate=0.5), samples()
    module.train() if training else module.eval()
    module.norm.eval()
    modes = [layer.training for layer in module.sublayers()]
    options = {"loss": pd.nn.SoftmaxCrossEntropy()}
    if kind is Network:
        options["optimizer"] = adam()
    module.fit(x, y, **options)
    module.evaluate(x, y)
    module.predict(x)

    class Failure(pd.training.RunnerItem):
        def on_batch_end(self, following):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        module.fit(x, y, callbacks=[Failure()], **options)
    with pytest.raises(pd.GraphError):
        module.predict(x[:, :2])
    assert module.training is training
    assert modes == [layer.training for layer in module.sublayers()]
    moved = module.norm.mean.numpy().any()  # it stays in evaluation mode if the module trains
    assert moved == (not training)


def test_dropout_is_for_training_steps_only():
    x, y = samples()
    module = Network(rate=0.5, norm=False)
    options = {"optimizer": pd.SGDOptimizer(0.0), "loss": pd.nn.SoftmaxCrossEntropy()}
    history = module.fit(x, y, epochs=2, validation_data=(x, y), **options)
    assert len(set(history.cost)) == 2
    assert len(set(history["val_cost"])) == 1
    cost = module.evaluate(x, y)["cost"]
    assert history["val_cost"][0] == pytest.approx(cost, rel=1e-6)


def test_a_history_has_lists_and_shows_the_last_epoch():
    x, y = samples()
    history = Network().fit(
        x, y, optimizer=adam(), loss=pd.nn.SoftmaxCrossEntropy(), epochs=2, metrics="accuracy"
    )
    cost, accuracy = history.cost[1], history["accuracy"][1]
    assert repr(history) == f"History(epochs=2, cost={cost:.4g}, accuracy={accuracy:.4g})"
    assert dict(history) == {"cost": history.cost, "accuracy": history["accuracy"]}
    with pytest.raises(KeyError, match="there is no 'val_cost', but cost, accuracy"):
        history["val_cost"]


def test_evaluate_takes_loss_and_metrics_of_the_last_fit():
    x, y = samples()
    module, options = Network(), {"optimizer": adam(), "loss": pd.nn.SoftmaxCrossEntropy()}
    module.fit(x, y, metrics=["accuracy", "top_2"], **options)
    assert module.evaluate(x, y).keys() == {"cost", "accuracy", "top_2"}
    assert copy.deepcopy(module).evaluate(x, y) == module.evaluate(x, y)
    one_hot = np.eye(3, dtype=f32)[y]
    assert module.evaluate(x, one_hot, loss=pd.nn.MSE(), metrics=["mse"]).keys() == {"cost", "mse"}


def test_a_bar_is_shown_when_it_is_asked_for(capsys):
    x, y = samples()
    options = {"optimizer": adam(), "loss": pd.nn.SoftmaxCrossEntropy(), "epochs": 2}
    Network(name="a").fit(x, y, **options)
    Network(name="b").fit(x, y, verbose=False, **options)
    assert capsys.readouterr().err == ""
    Network(name="c").fit(x, y, verbose=True, **options)
    assert "pass 2/2: 100%" in capsys.readouterr().err


def test_fit_inside_a_guard():
    x, y = samples()
    options = {"optimizer": adam(), "loss": pd.nn.SoftmaxCrossEntropy(), "epochs": 2}
    with pd.fresh():
        outside = Network().fit(x, y, **options).cost
    with pd.fresh(), pd.guard():
        assert Network().fit(x, y, **options).cost == outside


def test_loss_and_optimizer_by_name():
    """They are those of pd.nn and pd, and the optimizer goes on in the next call.

    Muon has no name: it is told which parameters are no matrices.
    """
    x, y = samples()
    costs = []
    for name, options in (
        ("a", {"loss": "softmax_cross_entropy", "optimizer": "adam"}),
        ("b", {"loss": pd.nn.SoftmaxCrossEntropy(), "optimizer": pd.AdamOptimizer()}),
    ):
        with pd.fresh(seed=1):
            module = Network(name="net")
            fits = [module.fit(x, y, epochs=2, **options).cost for _ in range(2)]
            costs.append((fits, module.evaluate(x, y), name))
    assert costs[0][:2] == costs[1][:2]
    layers = {re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in pd.nn.__all__}
    assert set(LOSSES) <= {"mae", *layers}
    assert set(OPTIMIZERS) == {
        n.removesuffix("Optimizer").lower() for n in pd.__all__ if n.endswith("Optimizer")
    } - {"decayedadagrad", "lbfgs", "muon"}
