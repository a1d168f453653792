"""Details of trainers, parameters and feeders that scripts of 2017 met, with numbers by hand."""

import gc
import io
import sys

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle

L, T, Param = paddle.layer, paddle.data_type, paddle.attr.Param


def linear(x, **attr):
    act = paddle.activation.Linear()
    return L.fc(x, size=1, act=act, bias_attr=False, param_attr=Param(**attr))


def summed(kind, start, **attr):
    """(the cost of one row of weights w, its Parameters with a start)."""
    x = L.data(name="x", type=kind)
    cost = L.sum_cost(linear(x, name="w", **attr))
    pool = paddle.parameters.create(cost)
    pool["w"] = np.float32(start).reshape(-1, 1)
    return cost, pool


def trained(cost, pool, *samples, optimizer=None, **options):
    """The weights w after a batch."""
    optimizer = optimizer or paddle.optimizer.Momentum(learning_rate=1.0)
    trainer = paddle.trainer.SGD(cost, pool, optimizer, **options)
    trainer.train(lambda: iter([list(samples)]))
    return pool["w"].tolist()


# ---- parameters


@pytest.mark.parametrize("first", ["static", "moving"])
def test_the_first_layer_decides_on_a_shared_parameter(first):
    """The second layer's attributes are not read, whatever they say."""
    attrs = {"static": {"is_static": True}, "moving": {"learning_rate": 2.0}}
    second = "moving" if first == "static" else "static"
    x = L.data(name="x", type=T.dense_vector(2))
    layers = [linear(x, name="w", **attrs[kind]) for kind in (first, second)]
    cost = L.sum_cost(L.addto(input=layers))
    pool = paddle.parameters.create(cost)
    pool["w"] = np.float32([[1], [1]])
    moved = trained(cost, pool, ([1.0, 3.0],))
    assert moved == ([1, 1] if first == "static" else [1 - 2 * 2, 1 - 2 * 6])


def test_a_shared_parameter_has_one_shape():
    x, z = (L.data(name=n, type=T.dense_vector(k)) for n, k in (("x", 2), ("z", 3)))
    L.fc(x, size=3, param_attr=Param(name="w"))
    with pytest.warns(UserWarning, match=r"parameter 'w' is \[2, 3\] elsewhere, \[3, 2\] here"):
        other = L.fc(z, size=2, param_attr=Param(name="w"))
    with pytest.raises(pd.ShapeError, match="parameter 'w'"):
        paddle.infer(
            output_layer=other, parameters=paddle.parameters.create(other), input=[([1.0] * 3,)]
        )


def test_a_static_table_of_rows_stays():
    attr = {"is_static": True, "sparse_update": True}
    cost, pool = summed(T.sparse_binary_vector(3), [1, 2, 3], **attr)
    assert trained(cost, pool, ([0, 2],)) == [1, 2, 3]


def test_a_static_parameter_is_not_pruned():
    hook = paddle.attr.Hook("pruning", 0.5)
    cost, pool = summed(T.dense_vector(2), [1, 2], is_static=True, update_hooks=hook)
    assert trained(cost, pool, ([1.0, 1.0],)) == [1, 2]


def test_each_training_prunes_what_is_smallest_then():
    hook = paddle.attr.Hook("pruning", 0.5)
    cost, pool = summed(T.dense_vector(4), [1, 2, 3, 4], update_hooks=hook)
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=1.0))
    assert pool["w"].tolist() == [1, 2, 3, 4]  # nothing is pruned before a training
    trainer.train(lambda: iter([[([1.0] * 4,)]]))
    assert pool["w"].tolist() == [0, 0, 2, 3]
    pool["w"] = np.float32([[5], [-6], [2], [3]])
    trainer.train(lambda: iter([[([1.0] * 4,)]]))
    assert pool["w"].tolist() == [4, -7, 0, 0]


@pytest.mark.parametrize("average", [None, paddle.optimizer.ModelAverage(0.5)])
def test_a_trainer_saves_before_it_trains(average):
    cost, pool = summed(T.dense_vector(2), [1, 2])
    optimizer = paddle.optimizer.Momentum(model_average=average)
    trainer = paddle.trainer.SGD(cost, pool, optimizer)
    file = io.BytesIO()
    trainer.save_parameter_to_tar(file)
    file.seek(0)
    assert paddle.parameters.Parameters.from_tar(file)["w"].tolist() == [[1], [2]]


def test_a_list_of_costs_keeps_its_layers():
    cost, pool = summed(T.dense_vector(2), [1, 2])
    aside = L.fc(cost, size=1)
    costs = [cost]
    trained(costs, pool, ([1.0, 1.0],), extra_layers=[aside])
    assert costs == [cost]


def test_an_update_moves_what_a_handler_sets_before_it():
    """The whole step follows the event, so the cost is that of the values set; not so in 2017."""
    cost, pool = summed(T.dense_vector(2), [1, 2])
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=1.0))
    seen = []

    def handler(event):
        if isinstance(event, paddle.event.EndForwardBackward):
            pool["w"] = np.float32([[10], [20]])
        if isinstance(event, paddle.event.EndIteration):
            seen.append((event.cost, pool["w"].tolist()))

    trainer.train(lambda: iter([[([3.0, 4.0],)]]), event_handler=handler)
    assert seen == [(3 * 10 + 4 * 20, [10 - 3, 20 - 4])]


def test_a_pool_keeps_what_the_network_lacks():
    cost, pool = summed(T.dense_vector(2), [1, 2])
    file = io.BytesIO()
    pool.to_tar(file)
    cost = L.sum_cost(linear(L.data(name="z", type=T.dense_vector(3)), name="v"))
    file.seek(0)
    read = paddle.parameters.Parameters.from_tar(file)
    with pytest.warns(UserWarning, match="lacks parameters of the network: 'v'"):
        trainer = paddle.trainer.SGD(cost, read, paddle.optimizer.Momentum())
    assert read.names() == ["w", "v"] and read["w"].tolist() == [1, 2]
    saved = io.BytesIO()
    trainer.save_parameter_to_tar(saved)
    saved.seek(0)
    assert paddle.parameters.Parameters.from_tar(saved).names() == ["w", "v"]


# ---- feeding


def test_a_column_that_a_sparse_row_names_twice_counts_twice():
    cost, pool = summed(T.sparse_binary_vector(3), [1, 2, 3])
    assert trained(cost, pool, ([2, 0, 2],), ([],)) == [0, 2, 1]
    cost, pool = summed(T.sparse_float_vector(3), [1, 2, 3])
    assert trained(cost, pool, ([(2, 0.5), (0, 2.0), (2, 0.25)],)) == [-1, 2, 2.25]


@pytest.mark.parametrize("iterate", [iter, lambda steps: (s for s in steps)])
def test_steps_that_can_be_read_only_once(iterate):
    x = L.data(name="x", type=T.integer_value_sequence(4))
    y = L.pooling(L.embedding(x, 1, param_attr=Param(name="w")), pooling_type=paddle.pooling.Sum())
    pool = paddle.parameters.create(y)
    pool["w"] = np.float32([[1], [10], [100], [1000]])
    samples = [(iterate(steps),) for steps in ([3, 1, 1], [2])]
    assert paddle.infer(output_layer=y, parameters=pool, input=samples).tolist() == [[1020], [100]]


def test_images_of_another_size_than_declared_are_refused():
    cost, pool = summed(T.dense_vector(4), [1, 2, 3, 4])
    assert trained(cost, pool, (np.ones((2, 2)),)) == [0, 1, 2, 3]
    with pytest.raises(pd.ShapeError, match=r"images 'x' of 2 x 3: fc layer .* takes rows of 4"):
        trained(cost, pool, (np.ones((2, 3)),))


# ---- between the steps


def calls_of_python(trainer, batches):
    """Count the calls of Python functions of a pass, without those of evaluations."""
    count, evaluate, before = 0, trainer._step.session.eval, sys.getprofile()

    def profile(frame, event, arg):
        nonlocal count
        count += event == "call"

    def step(*args, **options):
        sys.setprofile(None)
        try:
            return evaluate(*args, **options)
        finally:
            sys.setprofile(profile)

    trainer._step.session.eval = step
    gc.disable()  # what a collection frees calls functions, too
    sys.setprofile(profile)
    try:
        trainer.train(lambda: (batch for batch in batches), event_handler=lambda event: None)
    finally:
        sys.setprofile(before)
        gc.enable()
        del trainer._step.session.eval
    return count


def test_few_calls_of_python_between_two_steps():
    """They cost more than the work that they do: 138 were a tenth of a step of 1 ms."""
    x, label = L.data("x", T.dense_vector(3)), L.data("label", T.integer_value(2))
    cost = L.classification_cost(L.fc(x, size=2, act=paddle.activation.Softmax()), label)
    optimizer = paddle.optimizer.Momentum(learning_rate=0.1)
    trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)
    batch = [(np.ones(3, np.float32), 1)] * 4
    calls_of_python(trainer, [batch] * 3)
    few, many = (calls_of_python(trainer, [batch] * number) for number in (2, 12))
    assert (many - few) / 10 < 105


def test_gradients_are_at_hand_in_their_event_alone():
    """Even if the handler fails."""

    def handler(event):
        if isinstance(event, paddle.event.EndForwardBackward):
            assert pool.get_grad("w").tolist() == [1, 3]
            raise KeyError("of the handler")

    cost, pool = summed(T.dense_vector(2), [1, 1])
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=1.0))
    with pytest.raises(KeyError, match="of the handler"):
        trainer.train(lambda: iter([[([1.0, 3.0],)]]), event_handler=handler)
    assert pool.get_grad("w").tolist() == [0, 0]
