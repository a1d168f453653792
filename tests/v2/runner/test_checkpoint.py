"""paddle.Checkpoint: what is refused and why, damaged states, several trainings, SIGTERM."""

import hashlib
import itertools
import json
import random
import shutil
import signal
import warnings

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_core.training import CheckpointWarning, Counter, Runner, RunnerItem, read_checkpoint
from pd_v2 import build
from pd_v2.runner import Device
from tests.thinned import thinned

from .resuming import EVERY, assert_same_state, run

L, A, T = paddle.layer, paddle.activation, paddle.data_type
optimizers = paddle.optimizer


def samples(count=8):
    rng = np.random.default_rng(3)
    return [(rng.normal(size=4).astype(np.float32), int(k)) for k in rng.integers(0, 3, count)]


def reader():
    return paddle.batch(lambda: iter(samples()), 2)


def network(size=5):
    x = L.data(name="x", type=T.dense_vector(4))
    label = L.data(name="label", type=T.integer_value(3))
    hidden = L.dropout(L.fc(x, size=size, act=A.Tanh()), dropout_rate=0.3)
    return L.classification_cost(input=L.fc(hidden, size=3, act=A.Softmax()), label=label)


def made_trainer(optimizer=None, size=5):
    cost = network(size)
    return paddle.trainer.SGD(
        cost, paddle.parameters.create(cost), optimizer or optimizers.Adam(learning_rate=0.05)
    )


def program(checkpoint, passes=2, handler=None, **settings):
    made_trainer(**settings).train(
        reader(), num_passes=passes, event_handler=handler, checkpoint=checkpoint
    )


def names(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.fixture
def saved(tmp_path):
    """A folder with checkpoints of each batch of two passes."""
    run(lambda c: program(c), paddle.Checkpoint(tmp_path / "saved", every_batches=1, keep=None))
    return tmp_path / "saved"


def only(folder, number):
    """Leave one checkpoint in a folder."""
    for path in folder.iterdir():
        if path.name != f"batch-{number:05d}":
            shutil.rmtree(path)
    return folder / f"batch-{number:05d}"


# ---- which checkpoints there are


@pytest.mark.parametrize(
    "settings, numbers",
    [({}, [4, 8]), ({"every_batches": 3}, [3, 6]), ({"every_batches": 3, "keep": 1}, [6])],
)
def test_which_checkpoints_there_are(settings, numbers, tmp_path):
    run(program, paddle.Checkpoint(tmp_path, **settings))
    assert names(tmp_path) == [f"batch-{n:05d}" for n in numbers]


def test_wrong_settings(tmp_path):
    with pytest.raises(ValueError, match="Checkpoint: batches is a positive integer, not 0"):
        paddle.Checkpoint(tmp_path, every_batches=0)


def test_without_resume_a_folder_with_checkpoints_is_refused(saved):
    before = names(saved)
    with pytest.raises(FileExistsError, match="the newest is batch-00008\n  hint: --resume"):
        run(program, paddle.Checkpoint(saved, resume=False))
    assert names(saved) == before


def test_what_a_checkpoint_has(saved):
    """So that those of earlier versions are read."""
    parts = read_checkpoint(only(saved, 6)).parts
    assert list(parts) == ["CallState", "Counter", "Data", "TrainNetwork"]
    assert parts["CallState"].keys() == {"call", "trainers", "ended"}
    (trainer,) = parts["CallState"]["trainers"]
    assert trainer.keys() == {"method", "seed", "draws", "values", "updater"}
    assert parts["Data"].keys() == {"position", "generators"}
    assert parts["Data"]["position"].keys() == {"reader", "given", "batches"}
    assert parts["TrainNetwork"].keys() == {"sums", "samples", "metrics"}


def test_an_ended_training_is_left_out(tmp_path):
    events, saved = [], tmp_path
    whole, *_ = run(program, paddle.Checkpoint(tmp_path))
    state, *_ = run(lambda c: program(c, handler=events.append), paddle.Checkpoint(saved), seed=9)
    assert_same_state(state, whole)
    assert not events
    longer, *_ = run(lambda c: program(c, passes=3), None)
    state, *_ = run(lambda c: program(c, passes=3), paddle.Checkpoint(saved), seed=9)
    assert_same_state(state, longer)


def test_events_of_a_resumed_training(saved):
    events = []
    only(saved, 6)
    run(lambda c: program(c, handler=events.append), paddle.Checkpoint(saved), seed=9)
    found = [(type(e).__name__, e.pass_id, getattr(e, "batch_id", None)) for e in events]
    steps = ("BeginIteration", "EndForwardBackward", "EndIteration")
    expected = [(name, 1, batch) for batch in (2, 3) for name in steps]
    assert found == [("BeginPass", 1, None), *expected, ("EndPass", 1, None)]


def test_an_error_of_a_handler(tmp_path):
    """The next call of train is the same training: it goes on from the newest checkpoint."""
    whole, *_ = run(program)

    def failing(checkpoint):
        trainer, calls = made_trainer(), []

        def handler(event):
            if isinstance(event, paddle.event.EndIteration) and len(calls) < 5:
                calls.append(event)
                if len(calls) in (3, 5):
                    raise KeyError("handler")

        for _ in range(2):
            with pytest.raises(KeyError, match="handler"):
                trainer.train(reader(), 2, event_handler=handler, checkpoint=checkpoint)
        trainer.train(reader(), 2, event_handler=handler, checkpoint=checkpoint)

    for resume in (True, False):
        folder = tmp_path / str(resume)
        state, *_ = run(failing, paddle.Checkpoint(folder, every_batches=1, resume=resume))
        assert_same_state(state, whole)


def test_memory_of_a_checkpoint_is_released(saved):
    only(saved, 6)
    checkpoint = paddle.Checkpoint(saved, every_batches=EVERY)
    held = []
    run(lambda c: program(c, handler=lambda event: held.append(c._found)), checkpoint)
    assert held[0] is not None and held[1:] == [None] * len(held[1:])


# ---- what is refused


def refused(folder, made, error=pd.GraphError):
    """Train with a checkpoint that does not fit; return the text of the error."""
    with build.fresh(5):
        trainer = made()
        session = pd.default_session()
        before, generators = session.state(), repr((random.getstate(), np.random.get_state()))
        with pytest.raises(error) as caught:
            trainer.train(reader(), 2, checkpoint=paddle.Checkpoint(folder))
        assert_same_state(session.state(), before)
        assert repr((random.getstate(), np.random.get_state())) == generators
    return str(caught.value)


def test_a_checkpoint_of_another_network(saved):
    text = refused(saved, lambda: made_trainer(size=6))
    assert "batch-00008 is of another network; in it, and here:" in text
    assert "parameters/___fc_layer_0__.w0 is float32[4, 5]: float32[4, 6]" in text


def test_a_checkpoint_of_another_optimizer(saved):
    text = refused(saved, lambda: made_trainer(optimizers.Momentum(0.9)))
    assert "trained by Adam: Momentum" in text
    assert "optimizer/___fc_layer_0__.w0/momentum is nothing: float32[4, 5]" in text


def test_a_checkpoint_with_other_averages(saved):
    average = optimizers.ModelAverage(0.5)
    text = refused(saved, lambda: made_trainer(optimizers.Adam(model_average=average)))
    assert "optimizer/___fc_layer_0__.w0/sum1 is nothing: float32[4, 5]" in text


def test_a_checkpoint_of_another_runner(saved, tmp_path):
    with build.fresh(1), Runner().add_item(Device()).add_item(Counter()) as runner:
        runner.save(tmp_path / "other" / "batch-00001")
    text = refused(tmp_path / "other", made_trainer)
    assert "batch-00001 is no checkpoint of a trainer, but of another runner" in text


def test_a_checkpoint_of_other_evaluators(saved):
    def made():
        cost = network()
        paddle.evaluator.sum(cost, name="more")
        return paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizers.Adam())

    path = only(saved, 6)  # in a pass
    text = refused(path.parent, made)
    assert "there are the evaluators ['classification_error_evaluator', 'more']" in text


def test_two_trainings_in_a_folder(tmp_path):
    other = paddle.Checkpoint(tmp_path)

    def handler(event):
        with pytest.raises(pd.GraphError, match="another training writes checkpoints to"):
            run(program, other)

    run(lambda c: program(c, passes=1, handler=handler), paddle.Checkpoint(tmp_path))


# ---- damaged ones


def seal(path, content):
    content = {key: value for key, value in content.items() if key != "sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    content["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (path / "state.json").write_text(json.dumps(content))


def test_damaged_ones_are_passed_over(saved):
    whole, *_ = run(program)
    for number in (7, 8):
        file = saved / f"batch-{number:05d}" / "tensors.safetensors"
        file.write_bytes(file.read_bytes()[:100])
    with pytest.warns(CheckpointWarning) as warned:
        state, *_ = run(program, paddle.Checkpoint(saved, every_batches=1, keep=1), seed=9)
    assert_same_state(state, whole)
    texts = [str(w.message) for w in warned if w.category is CheckpointWarning]
    assert len(texts) == 2 and all("a checkpoint is passed over: " in text for text in texts)
    assert names(saved) == ["batch-00008"] and read_checkpoint(saved / "batch-00008")


def values_of(tree, way=()):
    """The path of every value in a JSON."""
    pairs = tree.items() if isinstance(tree, dict) else ()
    for key, value in enumerate(tree) if isinstance(tree, list) else pairs:
        yield (*way, key)
        yield from values_of(value, (*way, key))


OTHERS = [None, True, -1, 3.5, 10**30, float("nan"), "", "../x", [], [1], {}, {"dict": {}}]
OTHERS += [{"list": []}, {"tensor": "../x"}, {"list": [None]}]


@pytest.mark.parametrize("number", [4, 6])
def test_mutants(number, saved):
    """Each is refused with words, and then nothing is changed; or the training goes on."""
    path, rng, taken = only(saved, number), random.Random(number), 0
    original = json.loads((path / "state.json").read_text())
    ways = [way for way in values_of(original) if way[0] == "parts"]
    with build.fresh(5), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = made_trainer()
        session, step = pd.default_session(), trainer._step
        step.start_training()
        for _ in range(250):
            content = json.loads(json.dumps(original))
            *way, last = rng.choice(ways)
            holder = content
            for key in way:
                holder = holder[key]
            if rng.random() < 0.3:
                del holder[last]
            else:
                holder[last] = rng.choice(OTHERS)
            seal(path, content)
            before = session.state()
            begun, checkpoint = [], paddle.Checkpoint(saved, every_batches=EVERY)
            try:
                trainer.train(
                    reader(), 2, event_handler=lambda e, b=begun: b.append(e), checkpoint=checkpoint
                )
                taken += 1
            except (pd.DamagedFile, pd.GraphError):
                if not begun:  # else only the place in the data is none
                    assert_same_state(session.state(), before)
            except Exception as error:
                raise AssertionError(f"{(*way, last)}: {holder}") from error
    assert 5 < taken < 150


# ---- SIGTERM


@pytest.mark.parametrize("event", ["BeginPass", "EndForwardBackward", "EndIteration", "EndPass"])
def test_sigterm(event, tmp_path):
    whole, *_ = run(lambda c: program(c, passes=3))
    before = signal.getsignal(signal.SIGTERM)

    def handler(e):
        if type(e).__name__ == event and e.pass_id == 1:
            signal.raise_signal(signal.SIGTERM)

    checkpoint = paddle.Checkpoint(tmp_path, every_batches=100, on_sigterm=True)
    with pytest.raises(SystemExit) as caught:
        run(lambda c: program(c, passes=3, handler=handler), checkpoint)
    assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before
    assert names(tmp_path) == ["batch-00008" if event == "EndPass" else "batch-00005"]
    state, *_ = run(lambda c: program(c, passes=3), paddle.Checkpoint(tmp_path), seed=9)
    assert_same_state(state, whole)


# ---- runners of 2017's layers


def test_a_runner_resumes(tmp_path):
    def built(*more):
        items = [
            *(paddle.runner.Device(), paddle.runner.Counter(), paddle.runner.Data(reader())),
            paddle.runner.ForwardBackward(network()),
            *(paddle.runner.Update(optimizers.Adam(learning_rate=0.05)), *more),
        ]
        with paddle.runner.runner_of(items) as runner:
            runner.run(2)

    whole, *_ = run(lambda c: built(paddle.runner.SaveEvery(1, tmp_path, keep=None)))
    for path in sorted(tmp_path.iterdir()):
        state, *_ = run(lambda c, path=path: built(paddle.runner.Resume(path)), seed=9)
        assert_same_state(state, whole)


METHODS = {
    "momentum": lambda: optimizers.Momentum(learning_rate=0.1),
    "schedule": lambda: optimizers.Momentum(
        learning_rate=0.1,
        learning_rate_schedule="exp",
        learning_rate_decay_a=0.5,
        learning_rate_decay_b=4.0,
    ),
    "adam": lambda: optimizers.Adam(learning_rate=0.1),
    "adamax": lambda: optimizers.Adamax(learning_rate=0.1),
    "adagrad": lambda: optimizers.AdaGrad(learning_rate=0.1),
    "rmsprop": lambda: optimizers.RMSProp(learning_rate=0.1),
    "adadelta": lambda: optimizers.AdaDelta(learning_rate=0.1),
}


@pytest.mark.parametrize(("inside", "name"), thinned(itertools.product([True, False], METHODS), 2))
def test_a_reduced_rate_reaches_every_method(inside, name):
    """The second pass of a training at half the rate moves the parameters half as far."""

    class Halved(RunnerItem):
        def on_batch_begin(self, following):
            if self.context.batches == 4:
                self.context.rate_factor = 0.5
            return following()

    moved = []

    class Watch(RunnerItem):
        def on_batch_begin(self, following):
            session, parameters = self.context.session, self.context.parameters.values()
            before = [session.get(v) for v in parameters]
            ended = following()
            moved.append([session.get(v) - b for v, b in zip(parameters, before, strict=True)])
            return ended

    def built(factor):
        moved.clear()
        reduce = paddle.runner.ReduceRate(0.5, monitor="cost", min_delta=1e9, patience=9)
        items = [paddle.runner.Device(), paddle.runner.Counter()]
        items += [] if inside else [reduce]
        items += [Halved()] if factor else []
        items += [Watch(), paddle.runner.Data(reader())]
        items += [paddle.runner.ForwardBackward(network()), paddle.runner.Update(METHODS[name]())]
        items += [reduce] if inside else []
        with paddle.runner.runner_of(items) as runner:
            runner.run(2)
        return list(moved)

    *_, plain = run(lambda c: built(False))
    *_, halved = run(lambda c: built(True))
    for one, other in zip(plain[:4], halved[:4], strict=True):
        assert all((a == b).all() for a, b in zip(one, other, strict=True))
    for a, b in zip(plain[5], halved[5], strict=True):  # [4] is the end of the first pass
        np.testing.assert_allclose(b, a * 0.5, rtol=2e-3, atol=1e-7)


def test_a_reduced_rate_reaches_the_penalties_of_rows(tmp_path):
    """Rows that no batch touched are penalised at the end of a pass, with the reduced rate."""

    def built(factor):
        word = L.data(name="word", type=T.integer_value(4))
        y = L.data(name="y", type=T.dense_vector(2))
        attr = paddle.attr.Param(name="table", sparse_update=True, l2_rate=0.5)
        cost = L.square_error_cost(L.embedding(word, size=2, param_attr=attr), y)
        optimizer = optimizers.Momentum(learning_rate=0.1)

        class Factor(RunnerItem):
            def on_batch_begin(self, following):
                self.context.rate_factor = factor
                return following()

        rows = [[(0, np.zeros(2, np.float32))]] * 3
        items = [paddle.runner.Device(), paddle.runner.Counter(), Factor()]
        items += [paddle.runner.Data(lambda: iter(rows)), paddle.runner.ForwardBackward(cost)]
        with paddle.runner.runner_of([*items, paddle.runner.Update(optimizer)]) as runner:
            (table,) = runner.context.parameters.values()
            before = pd.default_session().get(table)[3]
            runner.run(1)
            return pd.default_session().get(table)[3] / before

    for factor in (1.0, 0.5):
        *_, kept = run(lambda c, factor=factor: built(factor))
        np.testing.assert_allclose(kept, 1 / (1 + 3 * 0.1 * factor * 0.5), rtol=1e-5)
