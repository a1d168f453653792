"""2017's rules at the edges of dense layers: zeros, bounds, ties, rates, sizes that do not fit."""

import numpy as np
import pytest

import pd_core as pd
import pd_v2 as paddle
from pd_v2.attr import Extra, Param

from . import reference_layers as naive
from .layer_rows import A, L, T


def dense(name, size, **geometry):
    return L.data(name=name, type=T.dense_vector(size), **geometry)


def with_gradients(y, *inputs, feeds, seed=None):
    """(y, its gradient for each input) in a training step, as arrays."""
    found = pd.gradients(y, list(inputs), seeds=None if seed is None else [pd.constant(seed)])
    return pd.eval([y, *found], feeds, training=True)


def f32(*rows):
    return np.array(rows, np.float32)


# ---- rows of zeros

QUOTIENTS = {
    "cos_sim": (lambda x, z: L.cos_sim(x, z), "cos"),
    "row_l2_norm": (lambda x, z: L.row_l2_norm(x), "row_l2_norm"),
    "sum_to_one_norm": (lambda x, z: L.sum_to_one_norm(x), "sum_to_one_norm"),
}


@pytest.mark.parametrize("build, kind", QUOTIENTS.values(), ids=QUOTIENTS)
def test_a_quotient_by_a_row_of_zeros_is_named_in_training(build, kind):
    x, z = dense("x", 3), dense("z", 3)
    y = build(L.fc(x, 3, A.Linear(), "h", bias_attr=False), z)
    cost = L.sum_cost(L.dot_prod(y, y))
    pool = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, pool, paddle.optimizer.Momentum(learning_rate=0.0))
    batch = [([1.0, 2, 3], [1.0, 1, 1])[: 2 if kind == "cos" else 1]]
    pool.set("_h.w0", np.ones((3, 3), np.float32))
    trainer.train(lambda: iter([batch]))
    zero = [([0.0, 0, 0], [1.0, 1, 1])[: 2 if kind == "cos" else 1]]
    message = rf"(?s)the cost is nan in batch 0 .* nan at \[0, 0\] of layer '{y.name}' \({kind}\)"
    with pytest.warns(UserWarning, match=message):
        trainer.train(lambda: iter([zero]))


def test_rows_without_a_distance_have_no_gradient_number():
    x, z = dense("x", 2), dense("z", 2)
    row = f32([3, 4], [1, 1])
    value, gradient, _ = with_gradients(
        L.l2_distance(x, z), x, z, feeds={x: row, z: f32([0, 0], [1, 1])}
    )
    np.testing.assert_allclose(value, [[5], [0]])
    np.testing.assert_allclose(gradient, [[0.6, 0.8], [np.nan, np.nan]], rtol=1e-6)


def test_a_negative_sum_divides_too():
    x = dense("x", 2)
    np.testing.assert_allclose(pd.eval(L.sum_to_one_norm(x), {x: f32([1, -3])}), [[-0.5, 1.5]])


def test_a_power_of_zero():
    x, w = dense("x", 2), dense("w", 1)
    y = L.power(input=x, weight=w)
    value, dx, dw = with_gradients(y, x, w, feeds={x: f32([0, 2]), w: f32([3])})
    np.testing.assert_allclose(value, [[0, 8]], rtol=1e-6)
    np.testing.assert_allclose(dx, [[0, 12]], rtol=1e-6)
    np.testing.assert_allclose(dw, [[8 * np.log(2)]], rtol=1e-6)


# ---- bounds


def test_clip_passes_the_gradient_at_both_bounds():
    x = dense("x", 5)
    y, gradient = with_gradients(L.clip(x, min=-1, max=2), x, feeds={x: f32([-1.5, -1, 0, 2, 2.5])})
    np.testing.assert_array_equal(y, [[-1, -1, 0, 2, 2]])
    np.testing.assert_array_equal(gradient, [[0, 1, 1, 1, 0]])


def test_zero_has_the_slope_of_prelu():
    x = dense("x", 3)
    y = L.prelu(x, name="y")
    pool = paddle.parameters.create(y)
    pool.set("_y.w0", f32([0.5, 0.5, 0.5]))
    slope = pd.get_variable("_y.w0")
    _, dx, dw = with_gradients(y, x, slope, feeds={x: f32([-2, 0, 2])})
    np.testing.assert_array_equal(dx, [[0.5, 0.5, 1]])
    np.testing.assert_array_equal(dw, [[-2, 0, 0]])


def test_softmax_is_exact_far_from_the_largest():
    """2017 held x - max at -64 in the value, but not in the gradient, which is the same here."""
    x, label = dense("x", 2), L.data(name="label", type=T.integer_value(2))
    cost = L.classification_cost(L.addto(x, act=A.Softmax()), label)
    feeds = {x: f32([100, 0], [30, 0]), label: np.array([1, 1])}
    value, gradient = with_gradients(cost, x, feeds=feeds)
    np.testing.assert_allclose(value, [[100], [30]], rtol=1e-6)
    np.testing.assert_allclose(gradient, [[1, -1], [1, -1]], rtol=1e-6)


# ---- dropout


@pytest.mark.parametrize("training", [False, True])
def test_a_rate_of_1_drops_all(training):
    x = dense("x", 3)
    y = L.fc(x, 2, layer_attr=Extra(drop_rate=1.0))
    (gradient,) = pd.gradients(y, [x])
    found = pd.eval([y, gradient, L.dropout(x, 1.0)], {x: f32([1, 2, 3])}, training=training)
    np.testing.assert_array_equal(np.concatenate(found, axis=1), np.zeros((1, 8)))


# ---- images in sums


def test_the_last_image_of_a_sum_decides_on_height_and_width():
    wide = dense("wide", 16, height=2, width=8)
    tall = dense("tall", 16, height=8, width=2)
    flat = L.resize(wide, 16)
    assert [(y.height, y.width) for y in (L.addto([flat, wide]), L.addto([wide, flat]))] == [
        (2, 8),
        (2, 8),
    ]
    assert L.addto([wide, tall]).height == 8
    y = L.img_conv(L.addto([flat, wide]), filter_size=(8, 1), num_filters=1, num_channels=1)
    assert (y.height, y.width) == (2, 1)


# ---- sequences of sequences


def nested():
    return L.data(name="x", type=T.dense_vector_sub_sequence(1))


NEIGHBOURS = {
    "context": (
        lambda x: L.mixed(input=L.context_projection(x, 3, padding_attr=False)),
        [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0], [0, 5, 0]],
    ),
    "row_conv": (
        lambda x: L.row_conv(x, 2, param_attr=Param(initial_mean=1.0, initial_std=0.0)),
        [[3], [5], [7], [4], [5]],
    ),
}


@pytest.mark.parametrize("build, expected", NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_neighbours_are_those_in_the_outer_sequence(build, expected):
    y = build(nested())
    samples = [([[[1.0], [2.0]], [], [[3.0], [4.0]]],), ([[[5.0]]],)]
    found = paddle.infer(output_layer=y, parameters=paddle.parameters.create(y), input=samples)
    np.testing.assert_allclose(found, expected)


def test_softmax_over_sequences_is_over_the_inner_ones():
    y = L.addto(nested(), act=A.SequenceSoftmax())
    samples = [([[[1.0], [1.0]], [], [[3.0]]],), ([[[5.0], [5.0], [5.0], [5.0]]],)]
    found = paddle.infer(output_layer=y, parameters=paddle.parameters.create(y), input=samples)
    np.testing.assert_allclose(found[:, 0], [0.5, 0.5, 1, 0.25, 0.25, 0.25, 0.25])


# ---- gradients of inputs that several layers read


def test_a_factorization_machine_keeps_gradients_of_others(rng):
    x = dense("x", 3)
    y = L.factorization_machine(x, 2, name="y")
    pool = paddle.parameters.create(y)
    v = rng.standard_normal((3, 2)).astype(np.float32)
    pool.set("_y.w0", v)
    total = L.addto([y, L.dot_prod(x, x)])
    row, seed = f32([1, -2, 0.5]), f32([3])
    _, gradient = with_gradients(total, x, feeds={x: row}, seed=seed)
    inner = (row @ v) @ v.T - row * (v * v).sum(1)
    np.testing.assert_allclose(gradient, 3 * (inner + 2 * row), rtol=1e-5)


# ---- rows that do not fit when it runs

UNEQUAL = {
    "addto": (L.addto, "sizes 3 and 1 must be equal, from the feeds steps: .* row: "),
    "fc": (lambda both: L.fc(both, 2), "sizes 3 and 1 must be equal, from the feeds steps: "),
    "concat": (L.concat, r"(?s)Concat: sizes 1 and 3 of axis 0 must be equal.*node .*, built at "),
}


@pytest.mark.parametrize("build, message", UNEQUAL.values(), ids=UNEQUAL)
def test_rows_of_unequal_number_are_refused(build, message):
    y = build([L.data(name="steps", type=T.dense_vector_sequence(2)), dense("row", 2)])
    parameters = paddle.parameters.create(y)
    with pytest.raises((pd.ShapeError, pd.BackendError), match=message):
        paddle.infer(output_layer=y, parameters=parameters, input=[([[1.0, 2.0]] * 3, [1.0, 2.0])])


def test_a_selection_of_unequal_rows_is_refused():
    x, select = dense("x", 2), L.data(name="select", type=T.sparse_binary_vector(4))
    y = L.selective_fc(x, 4, select=select)
    message = r"(?s)Reshape: the elements of \[4\] do not fit \[2, 3\].*node .*, built at "
    with pytest.raises(pd.BackendError, match=message):
        paddle.infer(
            output_layer=y,
            parameters=paddle.parameters.create(y),
            input=[([1.0, 2.0], [0, 1, 2]), ([1.0, 2.0], [3])],
        )


def test_a_batch_that_does_not_resize_is_refused():
    x = dense("x", 3)
    with pytest.raises(pd.BackendError, match=r"the elements of \[3, 3\] do not fit \[\?, 2\]"):
        pd.eval(L.resize(x, 2), {x: np.zeros((3, 3), np.float32)})


# ---- one statistic


def test_one_row_normalised_by_itself_is_its_shift():
    x = dense("x", 2)
    y = L.batch_norm(
        x, act=A.Linear(), name="y", bias_attr=Param(initial_mean=0.5, initial_std=0.0)
    )
    paddle.parameters.create(y)
    np.testing.assert_array_equal(pd.eval(y, {x: f32([3, -7])}, training=True), [[0.5, 0.5]])


def test_statistics_of_sequences_are_those_of_all_steps(rng):
    x = L.data(name="x", type=T.dense_vector_sequence(2))
    y = L.batch_norm(x, act=A.Linear(), use_global_stats=False)
    parameters = paddle.parameters.create(y)
    steps = rng.standard_normal((5, 2)).astype(np.float32)
    samples = [(steps[:4],), ([],), (steps[4:],)]
    found = paddle.infer(output_layer=y, parameters=parameters, input=samples)
    wanted = naive.batch_norm(steps.astype(np.float64), np.ones(2), np.zeros(2))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_statistics_do_not_move_in_inference(rng):
    x = dense("x", 2)
    y = L.batch_norm(x, use_global_stats=False, name="y")
    parameters = paddle.parameters.create(y)
    paddle.infer(output_layer=y, parameters=parameters, input=[([1.0, 2.0],), ([3.0, 5.0],)])
    for name in ("_y.w1", "_y.w2"):
        np.testing.assert_array_equal(parameters.get(name), [[0, 0]])


# ---- starts


def test_whole_bounds_of_a_start_have_a_mean_between():
    """Python 2 divided them as integers, which made both bounds 0."""
    attr = Param(initial_min=0, initial_max=1).attr
    assert (attr["initial_mean"], attr["initial_std"]) == (0.5, 0.5)
