"""What a trainer does beside the formulas: pruning, averages, and when they come into force."""

import io

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.attr import Hook, Param
from pd_v2.optimizer import Adam, ModelAverage, Momentum
from pd_v2.optimizer.average import Window
from pd_v2.optimizer.updater import _largest

A, L, T = paddle.activation, paddle.layer, paddle.data_type


def line(width=1, **attr):
    """The sum of x w, whose gradient is x; w is 0 at the start."""
    x = L.data(name="x", type=T.dense_vector(width))
    param = Param(name="w", **attr)
    y = L.fc(x, size=1, name="y", act=A.Linear(), bias_attr=False, param_attr=param)
    pool = paddle.parameters.create(y)
    pool["w"] = np.zeros((width, 1))
    return y, pool


def batches(count, value=-1.0, width=1):
    return lambda: iter([[(np.full(width, value),)]] * count)


def saved(trainer):
    f = io.BytesIO()
    trainer.save_parameter_to_tar(f)
    f.seek(0)
    return paddle.parameters.Parameters.from_tar(f)["w"].ravel()


# ---- averages


@pytest.mark.parametrize(
    ("longest", "counts", "means"),
    [
        (None, [(10, 10, 0), (20, 9, 11), (30, 9, 10)], [5.5, 10.5, 21.0]),
        (8, [(10, 2, 8), (20, 4, 8), (30, 6, 8)], [5.5, 14.5, 23.5]),
    ],
)
def test_windows_over_three_passes(longest, counts, means):
    """w after batch n is n, so a mean is that of the numbers of its batches."""
    y, pool = line()
    average = ModelAverage(average_window=0.5, max_average_window=longest)
    optimizer = Momentum(learning_rate=1.0, model_average=average)
    trainer = paddle.trainer.SGD(y, pool, optimizer)
    window, found = Window(0.5, longest), []

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            window.finish_batch()
        if isinstance(event, paddle.event.EndPass):
            window.finish_pass()
            found.append(((window.updates, window.current, window.previous), saved(trainer)[0]))

    trainer.train(batches(10), num_passes=3, event_handler=handler)
    assert [c for c, _ in found] == counts
    np.testing.assert_allclose([m for _, m in found], means, rtol=1e-6)


def test_only_the_file_of_the_trainer_holds_averages():
    y, pool = line()
    optimizer = Momentum(learning_rate=1.0, model_average=ModelAverage(0.5))
    trainer = paddle.trainer.SGD(y, pool, optimizer)
    assert saved(trainer) == [0.0]
    trainer.train(batches(4))
    assert saved(trainer) == [2.5] and pool["w"] == [4.0]
    assert trainer.test(batches(1)).cost == -4.0
    assert paddle.infer(y, pool, [([1.0],)]).tolist() == [[4.0]]
    trainer.train(batches(1))
    assert saved(trainer) == [3.0] and pool["w"] == [5.0]


def test_no_window_is_no_average():
    y, pool = line()
    optimizer = Momentum(learning_rate=1.0, model_average=ModelAverage(0))
    trainer = paddle.trainer.SGD(y, pool, optimizer)
    trainer.train(batches(4))
    assert saved(trainer) == [4.0]


@pytest.mark.parametrize(
    ("longest", "count", "averaged"),
    [(100, 8, range(1, 9)), (5, 8, range(1, 9)), (5, 10, range(6, 11))],
)
def test_sums_are_folded(longest, count, averaged, monkeypatch):
    monkeypatch.setattr("pd_v2.optimizer.average._FOLDED", 3)
    y, pool = line()
    average = ModelAverage(average_window=1.0, max_average_window=longest)
    trainer = paddle.trainer.SGD(y, pool, Momentum(learning_rate=1.0, model_average=average))
    trainer.train(batches(count))
    assert saved(trainer) == [np.mean(averaged)]


def test_a_window_takes_the_whole_part_of_its_share():
    """After 7 batches a half is 3, after 13 it is 6."""
    window = Window(0.5, longest=100)
    for _ in range(3):
        assert not window.finish_batch()
    window.finish_pass()
    assert [n for n in range(4, 15) if window.finish_batch()] == [4, 7, 13]


def test_an_empty_pass_leaves_the_windows_alone():
    window = Window(0.5)
    window.finish_pass()
    for _ in range(4):
        assert not window.finish_batch()
    assert (window.current, window.previous) == (4, 0)


def test_a_pass_that_did_not_end_is_not_counted_to_the_next():
    """The window closes after batches 5, 9 and 13: no pass was longer than 4."""
    y, pool = line()
    optimizer = Momentum(learning_rate=1.0, model_average=ModelAverage(1.0))
    trainer = paddle.trainer.SGD(y, pool, optimizer)
    trainer.train(batches(4))

    def stop(event):
        if isinstance(event, paddle.event.EndIteration) and event.batch_id == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.train(batches(4), event_handler=stop)
    trainer.train(batches(4), num_passes=2)
    assert pool["w"] == [15.0] and saved(trainer) == [np.mean(range(10, 16))]


class Full(io.RawIOBase):
    """A file on a disk without space."""

    def writable(self):
        return True

    def write(self, data):
        raise OSError(28, "No space left on device")


def test_saving_averages_does_not_change_the_training():
    """Saving, also where it fails, and testing in the middle of a pass change nothing."""
    y, pool = line()
    optimizer = Momentum(learning_rate=1.0, momentum=0.5, model_average=ModelAverage(0.5))
    trainer, found = paddle.trainer.SGD(y, pool, optimizer), []

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            before = pool["w"]
            averages = saved(trainer)
            with pytest.raises(OSError, match="No space left"):
                trainer.save_parameter_to_tar(Full())
            cost = trainer.test(batches(1)).cost
            assert before == pool["w"] == cost * -1.0
            found.append([*before, *averages])

    trainer.train(batches(4), event_handler=handler)
    values = [1.0, 2.5, 4.25, 6.125]
    means = [np.mean(values[:n]) for n in (1, 2, 3, 4)]
    np.testing.assert_allclose(found, np.transpose([values, means]), rtol=1e-6)


def test_adam_is_averaged_too():
    y, pool = line()
    optimizer = Adam(learning_rate=0.1, model_average=ModelAverage(0.5))
    trainer, seen = paddle.trainer.SGD(y, pool, optimizer), []

    def handler(event):
        if isinstance(event, paddle.event.EndIteration):
            seen.append(pool["w"])

    trainer.train(batches(5), event_handler=handler)
    np.testing.assert_allclose(saved(trainer), np.mean(seen, 0), rtol=1e-6)


# ---- pruning


@pytest.mark.parametrize(
    ("ratio", "kept"), [(None, [5, 7, 4]), (0.5, [5, 7, 4, 9, 2]), (0.0, range(10)), (1.0, [])]
)
def test_pruning_keeps_the_largest(ratio, kept):
    """As many as the whole part of size (1 - ratio), 0.6 unless it is given."""
    y, pool = line(width=10, update_hooks=Hook("pruning", ratio))
    values = np.float32([0, 1, -2, 3, -6, 9, -1, 8, 0.5, -5]).reshape(10, 1)
    values[2] = 3.5
    pool["w"] = values
    trainer = paddle.trainer.SGD(y, pool, Momentum(learning_rate=1.0, momentum=0.5))
    np.testing.assert_array_equal(pool["w"], values.ravel())
    mask = np.isin(np.arange(10), list(kept))

    def handler(event):
        if isinstance(event, paddle.event.BeginPass):
            np.testing.assert_array_equal(pool["w"], values.ravel() * mask)

    trainer.train(batches(2, width=10), event_handler=handler)
    np.testing.assert_array_equal(pool["w"], (values.ravel() + 2.5) * mask)
    trainer.train(batches(1, width=10))
    assert (pool["w"][~mask] == 0).all() and (pool["w"][mask] != 0).all()


@pytest.mark.parametrize(
    ("size", "ratio", "kept"),
    [(10, 0.6, 3), (10, 0.7, 3), (8, 0.75, 2), (100, 0.9, 10), (1000, 0.6, 399), (784, 0.6, 313)],
)
def test_how_many_are_kept_is_computed_in_float32(size, ratio, kept):
    """The numbers are of a C program with 2017's types."""
    assert _largest(np.arange(size, dtype=np.float32), ratio).sum() == kept


def test_two_pruning_hooks_and_two_trainers():
    """Of two hooks the stricter counts, for each trainer."""
    y, pool = line(width=8, update_hooks=[Hook("pruning", 0.25), Hook("pruning", 0.5)])
    pool["w"] = np.arange(1.0, 9.0).reshape(8, 1)
    first, second = (paddle.trainer.SGD(y, pool, Momentum(learning_rate=1.0)) for _ in range(2))
    first.train(batches(1, width=8))
    assert pool["w"].tolist() == [0, 0, 0, 0, 6, 7, 8, 9]
    second.train(batches(1, width=8))
    assert pool["w"].tolist() == [0, 0, 0, 0, 7, 8, 9, 10]


def test_the_mask_precedes_clipping_and_is_not_in_get_grad():
    attr = {"update_hooks": Hook("pruning", 0.5), "gradient_clipping_threshold": 2.0}
    y, pool = line(width=2, **attr)
    pool["w"] = np.float32([[1], [2]])
    trainer, seen = paddle.trainer.SGD(y, pool, Momentum(learning_rate=1.0)), []

    def handler(event):
        if isinstance(event, paddle.event.EndForwardBackward):
            seen.append(pool.get_grad("w").tolist())

    trainer.train(batches(1, value=3.0, width=2), event_handler=handler)
    assert pool["w"].tolist() == [0, 0] and seen == [[3, 3]]


def test_hooks_that_there_are_not():
    y, pool = line(update_hooks=Hook("dpruning", 0.5))
    with pytest.raises(pd.GraphError, match="'w': there is no update hook 'dpruning', only"):
        paddle.trainer.SGD(y, pool, Momentum())


# ---- several trainings


def test_a_second_training_keeps_parameters_and_recounts_samples():
    y, pool = line()
    optimizer = Momentum(
        learning_rate=1.0,
        momentum=0.5,
        learning_rate_schedule="manual",
        learning_rate_args="1:1.0,2:0.5,3:0.25",
    )
    trainer = paddle.trainer.SGD(y, pool, optimizer)
    w = v = 0.0
    for count in (3, 2):
        trainer.train(batches(count))
        for rate in (1.0, 0.5, 0.25)[:count]:
            v = 0.5 * v + rate
            w += v
        assert pool["w"] == [w]
