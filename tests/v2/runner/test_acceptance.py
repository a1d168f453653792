"""Acceptance: Runner and its items, checkpoints, online learning, in the names of paddle.v2."""

import numpy as np
import pytest
from safetensors.numpy import load_file

import pd_core as pd
import pd_v2 as paddle
from pd_v2.runner import Runner, RunnerItem

from ..online.conftest import Client

L, A, T = paddle.layer, paddle.activation, paddle.data_type


@pytest.fixture(autouse=True)
def fresh_build():
    """Use the build and the session of the process, which `pd.reset` clears."""
    pd.reset(seed=0)
    yield
    pd.reset(seed=0)


@pytest.fixture
def network():
    """A function that builds (cost, prediction), with dropout and batch norm."""

    def build():
        x = L.data(name="x", type=T.dense_vector(6))
        y = L.data(name="y", type=T.dense_vector(1))
        hidden = L.batch_norm(L.fc(x, size=8, act=A.Linear()), act=A.Relu())
        prediction = L.fc(L.dropout(hidden, dropout_rate=0.3), size=1, act=A.Linear())
        return L.square_error_cost(prediction, y), prediction

    return build


def made(count, seed, columns=2):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, 7)).astype(np.float32)
    return [(row[:6], row[6:])[:columns] for row in rows]


@pytest.fixture
def batches():
    """A function that returns a reader of n batches of 4 samples."""
    return lambda n, seed=3: paddle.batch(lambda: iter(made(4 * n, seed)), 4)


@pytest.fixture
def trainer(network):
    """A trainer of the network."""
    cost, _ = network()
    optimizer = paddle.optimizer.Adam(
        learning_rate=1e-2,
        model_average=paddle.optimizer.ModelAverage(average_window=0.5, max_average_window=5),
    )
    return paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)


@pytest.fixture
def reader(batches):
    """A reader of 6 batches of 4 samples."""
    return batches(6)


class Sender(Client):
    """A client that sends samples of the network."""

    def samples(self, n, seed=0):
        for x, y in made(n, seed):
            self.send({"sample": [x.tolist(), y.tolist()]})
        return [self.answer() for _ in range(n)]


@pytest.fixture
def client():
    """A function that connects to an address."""
    clients = []

    def connect(address):
        clients.append(Sender(address))
        return clients[-1]

    yield connect
    for each in clients:
        each.close()


@pytest.fixture
def samples():
    """A function that returns the inputs of n batches, of the same seed."""
    return lambda n: [(x,) for x, _ in made(4 * n, 3)]


class Tag(RunnerItem):
    """Writes down when it is called; with `batches` it ends the pass after so many."""

    def __init__(self, log, name, batches=None):
        self.log, self.name, self.left = log, name, batches

    def initialize(self, context, following):
        self.log.append(self.name + ">init")
        following(context)
        self.log.append(self.name + "<init")

    def finalize(self, following):
        self.log.append(self.name + ">final")
        following()

    def on_pass_begin(self, following):
        self.log.append(self.name + ">pass")
        following()

    def on_batch_begin(self, following):
        if self.left is not None:
            if self.left == 0:
                return True  # no more batches
            self.left -= 1
        self.log.append(self.name + ">batch")
        return following()

    def on_batch_end(self, following):
        result = following()
        self.log.append(self.name + "<batch")
        return result

    def on_pass_end(self, following):
        following()
        self.log.append(self.name + "<pass")


def runner(*items):
    r = Runner()
    for item in items:
        r.add_item(item)
    return r


def test_the_onion():
    log = []
    r = runner(Tag(log, "A", batches=1), Tag(log, "B"))
    with r:
        context = r.run_one_pass()
    assert log == [
        "A>init",
        "B>init",
        "B<init",
        "A<init",
        "A>pass",
        "B>pass",
        "A>batch",
        "B>batch",
        "B<batch",
        "A<batch",
        "B<pass",
        "A<pass",
        "A>final",
        "B>final",
    ]
    assert context.runner is r
    with pytest.raises(ValueError), Runner():  # no items
        pass


def test_finalize_after_an_error():
    class Bad(RunnerItem):
        def on_batch_begin(self, following):
            raise KeyError("boom")

    log = []
    r = runner(Tag(log, "A"), Bad())
    with pytest.raises(KeyError), r:
        r.run_one_pass()
    assert log[-1] == "A>final"


def test_the_context_is_typed():
    context = paddle.runner.RunnerContext()
    context.cost, context.pass_id = 0.5, 1
    for name, wrong in (("cost", "0.1"), ("pass_id", 0.5), ("batch_id", "3")):
        with pytest.raises(TypeError):
            setattr(context, name, wrong)


def training(network, batches, *more):
    cost, _ = network()
    return runner(
        paddle.runner.Device(),
        paddle.runner.Counter(),
        paddle.runner.Data(batches),
        paddle.runner.ForwardBackward(cost),
        paddle.runner.Update(paddle.optimizer.Adam(learning_rate=1e-2)),
        *more,
    )


def test_a_test_runner_inside_does_not_disturb(network, batches):
    def final(tested):
        pd.reset(seed=5)
        seen = []
        items = (
            [
                paddle.runner.TestEvery(
                    2,
                    reader=batches(2, seed=9),
                    on_result=lambda c, r: seen.append((c.batch_id, r.cost)),
                )
            ]
            if tested
            else []
        )
        r = training(network, batches(6), *items)
        with r:
            r.run_one_pass()
        assert [b for b, _ in seen] == ([1, 3, 5] if tested else [])
        return {v.name: a for v, a in pd.default_session().values().items()}

    plain, tested = final(False), final(True)
    assert plain.keys() == tested.keys() and all((plain[k] == tested[k]).all() for k in plain)


def test_the_best_parameters_of_a_network(network, batches, tmp_path):
    numbers, after, path = [3.0, 1.0, 2.0, 4.0], [], tmp_path / "best.safetensors"

    class Own(paddle.runner.RunnerItem):
        def on_pass_end(self, following):
            following()
            self.context.pass_metrics["own"] = numbers[self.context.pass_id]

    def note(context):
        after.append({name: context.session.val(v) for name, v in context.parameters.items()})

    stop = paddle.runner.StopEarly("own", patience=2, mode="min", restore_best=True)
    save = paddle.runner.SaveBest(path, "own", mode="min")
    with training(network, batches(2), Own(), stop, save, note) as r:
        assert r.run(9).pass_id == 3
    found = {v.name: a for v, a in pd.default_session().values().items()}
    assert any((after[1][name] != after[3][name]).any() for name in after[1])
    stored = {name: tensor for name, tensor in load_file(path).items() if name in after[1]}
    assert stored.keys() == after[1].keys()
    for name, value in after[1].items():
        np.testing.assert_array_equal(found[name], value)
        np.testing.assert_array_equal(stored[name], value)


def test_inference_is_training_without_some_rings(network, batches, samples):
    cost, prediction = network()
    out = []
    r = runner(
        paddle.runner.Device(),
        paddle.runner.Data(batches(3)),
        paddle.runner.Forward(prediction, collect=out),
    )
    with r:
        r.run_one_pass()
    alone = paddle.infer(
        output_layer=prediction, parameters=paddle.parameters.create(cost), input=samples(3)
    )
    assert np.allclose(np.concatenate(out), alone, atol=1e-6)


def test_checkpoints_and_exact_resume(network, batches, tmp_path):
    def run(n, *more):
        pd.reset(seed=5)
        r = training(network, batches(n), *more)
        with r:
            r.run_one_pass()
        return {v.name: a for v, a in pd.default_session().values().items()}

    full = run(10, paddle.runner.SaveEvery(batches=3, path=tmp_path, keep=2))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["batch-00006", "batch-00009"]
    again = run(
        10, paddle.runner.Resume(tmp_path / "batch-00006")
    )  # values, slots, draws, counters, place in the data
    assert all((full[k] == again[k]).all() for k in full)


def test_the_v2_trainer_resumes_too(trainer, reader, tmp_path):
    trainer.train(reader, num_passes=2, checkpoint=paddle.Checkpoint(tmp_path, every_batches=4))
    assert any(tmp_path.iterdir())


def test_online_learning(trainer, client, tmp_path):
    source = paddle.reader.online(("127.0.0.1", 0), batch_size=4, folder=tmp_path)
    log, thread = (
        [],
        trainer.in_thread(reader=source, num_passes=1, event_handler=lambda e: log.append(e)),
    )
    c = client(source.address)
    c.samples(40), c.command("save", name="m1"), c.command("pause"), c.wait_idle()
    n = len(log)
    c.samples(8), c.wait_idle()
    assert len(log) == n  # paused: what arrives waits
    c.command("resume"), c.command("stop")
    thread.join(10)
    assert (
        not thread.is_alive()
        and (tmp_path / "m1").exists()
        and isinstance(log[-1], paddle.event.EndPass)
    )
